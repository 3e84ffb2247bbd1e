"""Reading the aggregated analytics (contract: operations §14)."""

from __future__ import annotations

from svc.operations.operation import Operation

OPERATIONS: tuple[Operation, ...] = ()
