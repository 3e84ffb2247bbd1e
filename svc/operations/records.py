"""Writing records: insert, update, upsert, delete (contract: operations §3.1)."""

from __future__ import annotations

from svc.operations.operation import Operation

OPERATIONS: tuple[Operation, ...] = ()
