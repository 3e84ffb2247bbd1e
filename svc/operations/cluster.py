"""The registry of nodes, as a node on its own keeps it (contract: operations §12)."""

from __future__ import annotations

from svc.operations.operation import Operation

OPERATIONS: tuple[Operation, ...] = ()
