"""What components need besides deployment: SSH keys, known hosts (contract: operations §7)."""

from __future__ import annotations

from svc.operations.operation import Operation

OPERATIONS: tuple[Operation, ...] = ()
