"""A server of several instances, for tests."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx

from tests.integration.conftest import LIMIT, PASSWORD, Process
from tests.support.waiting import wait_until

APP = Path(__file__).parents[1] / "integration" / "instances"
ADMIN = ("admin", PASSWORD)


@contextmanager
def started(path: Path, count: int, *, app: Path = APP, **env: str) -> Iterator[Process]:
    """`count` instances below `path`."""
    process = Process(path / "root", app, env={"INSTANCES": str(count), **env}).start()
    wait_until(lambda: process.logged().count("successfully started") == count)
    try:
        yield process
    finally:
        process.kill()


def answering(process: Process, tries: int = 64) -> Counter[int]:
    """How often which instance answers, each time over a new connection."""
    return Counter(httpx.get(f"{process.url}/Who/", auth=ADMIN, timeout=LIMIT).json()["pid"] for _ in range(tries))


def pids(process: Process) -> set[int]:
    return {each.pid for each in process.instances}


def await_restart(process: Process, before: set[int], number: int = 1) -> None:
    """Wait for the end of a restart, the `number`-th of this server, in which all of `before` have been replaced."""
    wait_until(lambda: process.operate("get_status").json().get("restarts") == number)
    wait_until(lambda: len(pids(process)) == len(before) and not pids(process) & before)
