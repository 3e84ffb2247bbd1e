"""`server.replication`: operations on other nodes, for application code (spec: replication-nodes §5)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

SendToNode = Callable[[str, Mapping[str, Any]], Awaitable[Any]]
"""(name of a node, body of an operation) -> what that node answers. Raises Problem."""


class ServerReplication:
    """Operations on other nodes, those that have a field `replicated`: such as deployments, users and roles, tables."""

    def __init__(self, operate: Callable[[Mapping[str, Any]], Awaitable[Any]], send: SendToNode) -> None:
        self._operate = operate
        self._send = send

    async def replicate_operation(self, operation: Mapping[str, Any]) -> Any:
        """Run an operation here, and then on all other nodes. The answer has `replicated`: of each of them `node`, `status`, and what it says. Raises
        Problem."""
        return await self._operate({**operation, "replicated": True})

    async def send_operation_to_node(self, name: str, operation: Mapping[str, Any], options: Any = None) -> Any:
        """Run an operation on one other node, with every right, and return its answer. `options` has no effect. Raises Problem: 404 for a node that is not
        known."""
        if not isinstance(operation, Mapping):
            raise TypeError(f"send_operation_to_node takes a mapping with 'operation', not {type(operation).__name__}")
        return await self._send(name, operation)

    replicateOperation = replicate_operation
    sendOperationToNode = send_operation_to_node
