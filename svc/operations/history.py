"""The transaction log as audit log: reading and trimming it (contract: operations §10, §4)."""

from __future__ import annotations

from svc.operations.operation import Operation

OPERATIONS: tuple[Operation, ...] = ()
