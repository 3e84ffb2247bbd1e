"""Running an operation with the rights of somebody else (contract: security §7)."""

from __future__ import annotations

from typing import Any

from svc.auth.users import User
from svc.errors import Refusal
from svc.operations.node import Node


def impersonated(wish: Any, caller: User, operation: str, node: Node) -> User:
    """The user that `impersonate: wish` stands for. Raises Problem."""
    raise Refusal({"error": "Only super_user roles can impersonate"})
