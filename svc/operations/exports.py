"""Exports as jobs: to a file of this machine or to S3 (contract: operations §4)."""

from __future__ import annotations

from svc.operations.operation import Operation

OPERATIONS: tuple[Operation, ...] = ()
