"""The own password, changed by `alter_user` with `current_password`: open to every user, whatever its role (spec: security §1.3)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from svc.auth.usernames import canonical_username
from svc.auth.users import User
from svc.errors import ClientError, Problem
from svc.operations.call import Call
from svc.operations.operation import Operation

_OTHER_CHANGES = ("role", "active", "impersonate")


def is_own_change(row: Operation, body: Mapping[str, Any], caller: User) -> bool:
    """Whether a body asks for nothing but another password for its sender, and has the current one. It has not been validated."""
    return (
        row.name == "alter_user"
        and body.get("current_password") is not None
        and isinstance(username := body.get("username"), str)
        and caller.username in (username, canonical_username(username))
        and all(body.get(name) is None for name in _OTHER_CHANGES)
    )


async def verify_current(call: Call, username: str, password: str) -> str:
    """The stored hash of the caller's password, which `password` has been found to be. A wrong one counts as a failed login of this user.

    Raises Problem: 403 if it is wrong, 400 if the call is not for the caller's own account, 503 with too many verifications outstanding.
    """
    caller = call.caller
    if caller is None or call.user is not caller or caller.username != username:
        raise ClientError("'current_password' is only for changing your own password")
    try:
        await call.node.verifier.verify(username, password, call.request, call.node.executor)
    except Problem as problem:
        if problem.status_code != 401:
            raise
        raise Problem("current_password is wrong", 403) from None
    credentials = call.node.directory.credentials(username)
    if credentials is None:
        raise changed_meanwhile()
    return credentials.password


def changed_meanwhile() -> Problem:
    return Problem("The password was changed at the same time", 409, "CONFLICT")
