"""Waiting for the job that an operation has started, with a bar on a terminal (spec: operations §4.1)."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Event
from typing import TYPE_CHECKING, Any, Protocol

from svc.cli.client import Client, Unreachable

if TYPE_CHECKING:
    from rich.console import Console

FIRST_PAUSE = 0.05  # seconds until the first poll: short jobs are done by then
LONGEST_PAUSE = 1.0
MAX_FAILURES = 60  # polls in a row that may fail, about a minute: a busy server, one that restarts

ENDED = ("COMPLETE", "ERROR")
CANCELLED = "CANCELLED"


class JobLost(Exception):
    """Nothing can be learned of the job any more; the message is for the user."""


class Bar(Protocol):
    def update(self, done: int | None, total: int | None, message: str) -> None: ...


def pause(seconds: float) -> None:
    Event().wait(seconds)


def wait_for_job(client: Client, job_id: str, bar: Bar, wait: Callable[[float], None] | None = None) -> dict[str, Any]:
    """Poll a job until it has ended. Returns its record. `wait`: what passes the time in between. Raises JobLost, AuthenticationRefused."""
    seconds = FIRST_PAUSE
    failures = 0
    while True:
        (wait or pause)(seconds)
        seconds = min(seconds * 1.5, LONGEST_PAUSE)
        try:
            job = _poll(client, job_id)
            failures = 0
        except Unreachable as error:
            failures += 1
            if failures >= MAX_FAILURES:
                raise JobLost(f"The server does not answer any more ({error}); the job may go on: svc get_job id={job_id}") from error
            continue
        if job is None:
            raise JobLost(f"The server does not know the job {job_id} any more")
        progress = job.get("progress")
        if isinstance(progress, dict):
            bar.update(_count(progress.get("done")), _count(progress.get("total")), str(progress.get("message") or ""))
        if job.get("status") in (*ENDED, CANCELLED):
            return job


def _poll(client: Client, job_id: str) -> dict[str, Any] | None:
    answer = client.send({"operation": "get_job", "id": job_id})
    if answer.status >= 500:
        raise Unreachable(answer.error_text())
    if answer.status != 200:
        raise JobLost(answer.error_text())
    found = answer.value()
    return found[0] if isinstance(found, list) and found and isinstance(found[0], dict) else None


def fault_lines(faults: Any) -> Iterator[str]:
    """What was wrong with the input of a job, a line each.

    >>> list(fault_lines([{"line": 5, "key": 10, "attribute": "code", "code": "VALIDATION", "message": "Property code is required"}]))
    ['line 5, key 10, code: Property code is required']
    >>> list(fault_lines(None)), list(fault_lines([{"index": 7, "message": "is not JSON"}]))
    ([], ['record 8: is not JSON'])
    """
    for fault in faults if isinstance(faults, list) else ():
        if isinstance(fault, dict):
            index = fault.get("index")
            places = [f"line {fault['line']}"] if "line" in fault else [f"record {index + 1}"] if isinstance(index, int) else []
            places += [f"key {fault['key']}"] if "key" in fault else []
            places += [str(fault["attribute"])] if "attribute" in fault else []
            yield f"{', '.join(places)}{': ' if places else ''}{fault.get('message')}"


def _count(value: Any) -> int | None:
    return int(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


class NoBar:
    """For output that is not a terminal."""

    def update(self, done: int | None, total: int | None, message: str) -> None:
        pass


@contextmanager
def progress_bar(title: str, console: Console | None = None) -> Iterator[Bar]:
    """A bar on standard error if that is a terminal; it disappears at the end."""
    if console is None and not sys.stderr.isatty():
        yield NoBar()
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    columns = TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[count]}"), TimeElapsedColumn()
    with Progress(*columns, console=console or Console(stderr=True), transient=True) as progress:
        task = progress.add_task(title, total=None, count="")

        class Shown:
            def update(self, done: int | None, total: int | None, message: str) -> None:
                count = "" if done is None else f"{done}" if total is None else f"{done} of {total}"
                progress.update(task, completed=done or 0, total=total, count=f"{message} {count}".strip())

        yield Shown()
