"""Jobs: work that goes on after its answer, and the record that reports on it (contract: operations §4.1)."""

from __future__ import annotations

from svc.operations.operation import Operation

OPERATIONS: tuple[Operation, ...] = ()
