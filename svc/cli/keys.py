"""`svc key create NAME`, `svc key list`, `svc key revoke NAME`: other names of three operations (spec: configuration §6.1, rows §2.7)."""

from __future__ import annotations

from dataclasses import replace

from svc.cli.arguments import Arguments, UsageError
from svc.cli.operations import run_operation

USAGE = "svc key create NAME role=R expires=90d makes an API key, svc key list shows them, svc key revoke NAME ends one."


def key_command(arguments: Arguments) -> int:
    from svc.operations.row_file import rows_by_name

    what, words = (arguments.words or [""])[0], arguments.words[1:]
    if what == "list" and (not words or "=" in words[0]):
        operation = "list_keys"
    elif what in ("create", "revoke") and words and "=" not in words[0]:
        operation, words = f"{what}_key", [f"name={words[0]}", *words[1:]]
    else:
        raise UsageError(USAGE)
    return run_operation(replace(arguments, command=operation, words=words), rows_by_name()[operation])
