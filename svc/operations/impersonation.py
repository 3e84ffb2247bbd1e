"""Running an operation with the rights of another user (spec: security §7).

    {"username": "bob"}                              as user bob
    {"role_name": "gardener", "username": "x"?}      with that role, under a made-up name; default: the caller's
    {"role": {"permission": {...}}, "username": "x"?}  with these rights

The last form wins over the second, and that over the first. It never widens: the rights of a super user are taken away, also from a super user.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from svc.auth.permission_check import check_permission
from svc.auth.roles import Role
from svc.auth.users import User
from svc.errors import NotFound, Problem, Refusal, ValidationError
from svc.operations.fields import MAX_NAME
from svc.operations.node import Node
from svc.operations.operation_lists import known_entries
from svc.operations.registry import by_name
from svc.store.values.conversion import printable

_FORCED = {"super_user": False, "cluster_user": False}


def impersonated(wish: Any, caller: User, operation: str, node: Node) -> User:
    """The user that `impersonate: wish` stands for. Raises Problem. `operation`: as sent.

    Null is no absence: a caller that means to narrow the rights and leaves the value out must not run with its own.
    """
    if not isinstance(wish, Mapping):
        raise ValidationError("'impersonate' must be an object")
    row = by_name().get(operation)
    if row is not None and row.permission.kind == "none":
        raise ValidationError(f"'impersonate' cannot be used with '{operation}'")
    if not caller.super_user:
        raise Refusal({"error": "Only super_user roles can impersonate"})
    name = _text(wish, "username")
    if wish.get("role") is not None:
        user, target = _by_permission(wish["role"], name or caller.username, node), "a role given in the call"
    elif wish.get("role_name") is not None:
        role_name = _text(wish, "role_name")
        assert role_name is not None
        user, target = _by_role_name(role_name, name or caller.username, node), f"the role {printable(role_name)}"
    elif name is not None:
        user, target = _by_username(name, node), "that user"
    else:
        raise ValidationError("'impersonate' must have 'username', 'role_name' or 'role'")
    node.logs.logger.notify(
        f"user {printable(caller.username)} runs the operation {operation} as user {printable(user.username)}, with the rights of {target}"
    )
    return user


def _text(wish: Mapping[str, Any], member: str) -> str | None:
    value = wish.get(member)
    if value is None:
        return None
    at = f"impersonate.{member}"
    if not isinstance(value, str):
        raise ValidationError(f"'{at}' must be a string")
    if not value:
        raise ValidationError(f"'{at}' is not allowed to be empty")
    if len(value) > MAX_NAME:
        raise ValidationError(f"'{at}' length must be less than or equal to {MAX_NAME} characters long")
    if not value.isprintable():
        raise ValidationError(f"'{at}' must not contain control characters")
    return value


def _by_username(name: str, node: Node) -> User:
    user = node.directory.get_user(name)
    if user is None:
        raise NotFound(f"User {name} does not exist")
    if not user.active:
        raise Problem("Cannot complete request: User is inactive", 403)
    return User(user.username, True, None if user.role is None else _narrowed(user.role, node))


def _by_role_name(role_name: str, username: str, node: Node) -> User:
    record = node.directory.role_named(role_name)
    if record is None:
        raise NotFound(f"{role_name} role not found")
    return User(username, True, _narrowed(node.directory.role_of(record), node))


def _by_permission(role: Any, username: str, node: Node) -> User:
    if not isinstance(role, Mapping):
        raise ValidationError("'impersonate.role' must be an object")
    permission = role.get("permission")
    if permission is None:
        raise ValidationError("'impersonate.role.permission' is required")
    faults = check_permission(permission, node.store.databases, known_entries())
    if faults:
        raise Refusal(faults.as_body(), 400)
    return User(username, True, _narrowed(Role("impersonated", "impersonated", permission, role.get("access")), node))


def _narrowed(role: Role, node: Node) -> Role:
    permission = {**role.permission, **_FORCED}
    return Role(role.id, role.role, permission, role.access, node.store.databases, node.directory.anonymous_role())
