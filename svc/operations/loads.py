"""Bulk loads as jobs: CSV data, files, addresses, S3 (contract: operations §4)."""

from __future__ import annotations

from svc.operations.operation import Operation

OPERATIONS: tuple[Operation, ...] = ()
