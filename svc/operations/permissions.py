"""Whether a user may run an operation (contract: security §5.4, §6)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from svc.auth.users import User
from svc.errors import Refusal
from svc.operations.node import Node
from svc.operations.operation import Operation


def authorize(row: Operation, name: str, body: Mapping[str, Any], user: User, node: Node) -> None:
    """Raise the Refusal (403) with everything that stands against it. `name`: as sent. `body` has not been validated."""
    if not user.super_user and row.permission.kind != "any":
        raise Refusal(
            {
                "error": "This operation is not authorized due to role restrictions and/or invalid database items",
                "unauthorized_access": [f"Operation '{name}' is restricted to 'super_user' roles"],
                "invalid_schema_items": [],
            }
        )
