"""Real processes that are stopped, and killed."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from svc.siblings import Siblings
from tests.support.waiting import LIMIT

pytestmark = pytest.mark.programs

PROCESS = """
import asyncio, sys
from pathlib import Path
from svc.siblings import Siblings

async def main():
    siblings = Siblings(Path(sys.argv[1]), asyncio.get_running_loop())
    siblings.answer("number", lambda value: [siblings.number, value])
    await siblings.open()
    print(siblings.identity, flush=True)
    await asyncio.Event().wait()

asyncio.run(main())
"""


class Program:
    def __init__(self, path: Path) -> None:
        self.process = subprocess.Popen([sys.executable, "-c", PROCESS, str(path)], stdout=subprocess.PIPE, text=True)
        assert self.process.stdout is not None
        self.identity = self.process.stdout.readline().strip()

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        assert self.process.stdout is not None
        self.process.stdout.close()


@pytest.fixture
def programs(tmp_path: Path) -> Iterator[list[Program]]:
    """The first of them leads."""
    found = [Program(tmp_path) for _ in range(2)]
    yield found
    for each in found:
        each.close()


def test_stopped_and_killed(tmp_path: Path, programs: list[Program]) -> None:
    asyncio.run(stop_and_kill(tmp_path, programs))
    assert not list(tmp_path.rglob("*.sock"))


async def stop_and_kill(path: Path, programs: list[Program]) -> None:
    one, two = programs
    here = Siblings(path, asyncio.get_running_loop())
    left: asyncio.Queue[str] = asyncio.Queue()
    leads: asyncio.Queue[bool] = asyncio.Queue()
    here.on_left.append(left.put_nowait)
    here.on_lead.append(lambda: leads.put_nowait(True))
    await here.open()
    assert here.number == 2 and not here.is_leader
    assert [answer.value for answer in await here.ask("number", "a", LIMIT)] == [[0, "a"], [1, "a"]]

    one.process.send_signal(signal.SIGSTOP)
    found = await here.ask("number", "b", 0.2)
    assert [(answer.identity, answer.error) for answer in found if answer.error] == [(one.identity, "it does not answer")]
    for _ in range(100):
        here.tell("number", b"a" * 1_000_000)  # which one of them does not read
    assert here.is_alive(one.identity) and here.is_alive(two.identity)
    assert not here.is_leader
    one.process.send_signal(signal.SIGCONT)
    async with asyncio.timeout(LIMIT):  # until it has read what waits
        while len([answer for answer in await here.ask("number", "c", LIMIT) if answer.value]) < 2:  # noqa: ASYNC110
            await asyncio.sleep(0.01)

    two.process.kill()
    assert await asyncio.wait_for(left.get(), LIMIT) == two.identity
    assert not here.is_alive(two.identity) and not here.is_leader
    one.process.send_signal(signal.SIGSTOP)
    one.process.kill()
    assert await asyncio.wait_for(left.get(), LIMIT) == one.identity
    async with asyncio.timeout(LIMIT):
        while not here.is_leader:  # the kernel frees one lock after the other
            here.sweep(0.0)
            await asyncio.sleep(0.01)
    assert leads.qsize() == 1
    assert await here.ask("number", "d", LIMIT) == []
    await here.close()
    here.release()
