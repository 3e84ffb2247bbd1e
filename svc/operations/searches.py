"""Reading records: by id, by value, by conditions (contract: operations §3.2)."""

from __future__ import annotations

from svc.operations.operation import Operation

OPERATIONS: tuple[Operation, ...] = ()
