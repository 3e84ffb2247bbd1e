"""Backups: made while the server writes, verified, restored (contract: operations §2.1)."""

from __future__ import annotations

from svc.operations.operation import Operation

OPERATIONS: tuple[Operation, ...] = ()
