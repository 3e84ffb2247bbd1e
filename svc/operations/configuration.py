"""The configuration file, read and written (contract: operations §8)."""

from __future__ import annotations

from svc.operations.operation import Operation

OPERATIONS: tuple[Operation, ...] = ()
