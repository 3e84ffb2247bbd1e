"""Operations of other products that this one answers with 501 (spec: operations §7)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from svc.errors import Refusal
from svc.operations.call import Call
from svc.operations.fields import Field
from svc.operations.operation import SUPER_USER, Operation


def _no_node_modules(call: Call) -> Any:
    raise Refusal({"error": "Dependencies are installed by deploy_component"}, 501)


def _no_secrets(call: Call) -> Any:
    raise Refusal({"error": "The secrets store is not available"}, 501)


def _unavailable(name: str, summary: str, handler: Callable[[Call], Any], *fields: Field) -> Operation:
    return Operation(
        name=name,
        category="components",
        summary=f"{summary} Not available: 501.",
        permission=SUPER_USER,
        handler=handler,
        fields=fields,
        returns="Nothing; status 501.",
        example={},
    )


_SECRET_NAME = Field("name", "any", "Name of the secret.")
_PROJECTS = (Field("projects", "any", "Names of applications."), Field("dry_run", "any", "Change nothing."))

OPERATIONS: tuple[Operation, ...] = (
    _unavailable("install_node_modules", "Install the dependencies of applications.", _no_node_modules, *_PROJECTS),
    _unavailable("audit_node_modules", "Audit the dependencies of applications.", _no_node_modules, *_PROJECTS),
    _unavailable(
        "set_secret",
        "Store a secret.",
        _no_secrets,
        _SECRET_NAME,
        Field("value", "any", "The secret.", secret=True),
        Field("envelope", "any", "The secret, encrypted.", secret=True),
    ),
    _unavailable("grant_secret", "Let an application read a secret.", _no_secrets, _SECRET_NAME),
    _unavailable("revoke_secret", "Let an application no longer read a secret.", _no_secrets, _SECRET_NAME),
    _unavailable("list_secrets", "The names of all secrets.", _no_secrets),
    _unavailable("delete_secret", "Remove a secret.", _no_secrets, _SECRET_NAME),
    _unavailable("get_secrets_public_key", "The key to encrypt secrets with.", _no_secrets),
)
