"""`svc job run NAME`, `svc job list`: other names of two operations."""

from __future__ import annotations

from dataclasses import replace

from svc.cli.arguments import Arguments, UsageError
from svc.cli.operations import run_operation

USAGE = "svc job run NAME runs a job now, svc job list shows them."


def job_command(arguments: Arguments) -> int:
    from svc.operations.row_file import rows_by_name

    what, words = (arguments.words or [""])[0], arguments.words[1:]
    if what == "list":
        operation = "list_scheduled_jobs"
    elif what == "run" and words and "=" not in words[0]:
        operation, words = "run_scheduled_job", [f"job={words[0]}", *words[1:]]
    else:
        raise UsageError(USAGE)
    return run_operation(replace(arguments, command=operation, words=words), rows_by_name()[operation])
