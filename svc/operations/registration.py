"""Registration and licences (contract: operations §13)."""

from __future__ import annotations

from svc.operations.operation import Operation

OPERATIONS: tuple[Operation, ...] = ()
