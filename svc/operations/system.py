"""The process and its machine: restart, figures (contract: operations §9)."""

from __future__ import annotations

from svc.operations.operation import Operation

OPERATIONS: tuple[Operation, ...] = ()
