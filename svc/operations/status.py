"""Status texts of the node, which do not survive a restart (contract: operations §9)."""

from __future__ import annotations

from svc.operations.operation import Operation

OPERATIONS: tuple[Operation, ...] = ()
