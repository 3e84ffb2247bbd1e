"""kill -9 of processes that run the jobs of one data directory: no time of a job is run twice, and jobs go on.

Three children go through the same hours by one clock, which is fast, as the processes of a machine do, and say which times of which job they run. They
get in each other's way all the time. One after the other is killed and replaced.
"""

from __future__ import annotations

import random
import threading
from collections import Counter
from pathlib import Path
from time import monotonic
from typing import Any

import pytest

from svc.store import Store
from svc.store.integrity.check import check_database
from svc.store.system import ensure_system
from tests.support.crash import SEED, Child, rounds, say
from tests.support.scheduling import World

pytestmark = pytest.mark.programs

ROUNDS = rounds(4)
START = 1_767_225_600.0
SPEED = 1500.0  # seconds of the clock in one of the machine
RUNS = 60  # that are awaited in a round
JOBS: tuple[dict[str, Any], ...] = ({"name": "minutely", "cron": "* * * * *"}, {"name": "steps", "interval": 45})


def work(path: Path, began: float) -> None:
    """`began`: when the clock was START, on that of the machine."""

    def wall() -> float:
        return START + (monotonic() - began) * SPEED

    world = World(path, wall=wall())
    world.instance("child", *JOBS, handler=lambda run: say(f"{run.job_name} {run.scheduled_at.timestamp():.0f}"), real=True)
    while True:
        world.advance(max(wall() - world.clock.wall(), 0.001))


def test_no_time_is_run_twice(tmp_path: Path) -> None:
    source = random.Random(SEED)
    path = tmp_path / "store"
    store = Store(path)
    ensure_system(store)
    store.close()
    ran: Counter[str] = Counter()
    lock = threading.Condition()

    def note(line: str) -> None:
        with lock:
            ran[line] += 1
            lock.notify_all()

    began = monotonic()
    children = [Child(work, path, began, on_line=note) for _ in range(3)]
    try:
        for _ in range(ROUNDS):
            with lock:
                count = len(ran)
                assert lock.wait_for(lambda count=count: len(ran) >= count + RUNS, timeout=60), "the jobs do not go on"
            children.pop(source.randrange(3)).kill()
            children.append(Child(work, path, began, on_line=note))
    finally:
        for child in children:
            child.kill()
    assert max(ran.values()) == 1, [line for line, count in ran.items() if count > 1]
    assert len(ran) >= ROUNDS * RUNS
    assert check_database(path / "system").findings == []
