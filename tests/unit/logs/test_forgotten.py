"""Coroutines that were never awaited, and tasks that failed unnoticed."""

from __future__ import annotations

import asyncio
import gc
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from svc.clock import FakeClock
from svc.config import Config
from svc.logs import Logs
from svc.logs.application_code import ApplicationCode
from svc.logs.forgotten import ForgottenCalls
from tests.support.application_file import run_as_file

SOURCE = """\
import asyncio

async def never():
    pass

def handler():
    never()

def keeps():
    return [never()]

async def fails():
    raise ValueError("unseen")

async def starts():
    asyncio.create_task(fails())
    await asyncio.sleep(0.01)
"""


class Scene:
    def __init__(self, tmp_path: Path) -> None:
        self.clock = FakeClock()
        self.root = tmp_path / "root"
        self.logs = Logs.from_config(Config.from_document({"logging": {"level": "error"}}, self.root), clock=self.clock)
        code = ApplicationCode()
        code.add(tmp_path / "shop")
        self.forgotten = ForgottenCalls(self.logs, code)
        self.application = run_as_file(tmp_path / "shop" / "resources.py", SOURCE)

    def lines(self) -> list[str]:
        self.logs.flush()
        file = self.root / "log" / "svc.log"
        return [line.partition("Z ")[2] for line in file.read_text().splitlines() if "Z [" in line] if file.exists() else []


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Scene]:
    scene = Scene(tmp_path)
    yield scene
    scene.logs.close()


@pytest.fixture
def watched(scene: Scene) -> Iterator[Scene]:
    undo = scene.forgotten.watch()
    yield scene
    undo()


def test_a_coroutine_that_was_never_awaited_is_an_error_of_the_application(watched: Scene) -> None:
    watched.application["handler"]()
    assert watched.lines() == [
        "[main/0] [error] [shop]: resources.py, line 7: coroutine 'never' was never awaited: write 'await' in front of the call"
    ]


def test_the_line_is_where_it_was_made_wherever_it_was_dropped(watched: Scene) -> None:
    kept = watched.application["keeps"]()
    assert watched.lines() == []
    kept.clear()
    assert "resources.py, line 10: coroutine 'never'" in watched.lines()[0]


def test_once_a_minute_for_each_place(watched: Scene) -> None:
    for _ in range(3):
        watched.application["handler"]()
    watched.application["keeps"]().clear()
    assert len(watched.lines()) == 2
    watched.clock.advance(60)
    watched.application["handler"]()
    assert len(watched.lines()) == 3
    assert watched.lines()[-1].endswith("(3 times since the last line)")


def test_other_coroutines_and_warnings_are_as_ever(watched: Scene) -> None:
    async def ours() -> None:
        pass

    with pytest.warns(RuntimeWarning, match="ours"):
        ours()
    with pytest.warns(UserWarning, match="something else"):
        warnings.warn("something else", UserWarning, stacklevel=1)
    assert watched.lines() == []


def test_it_is_undone(scene: Scene) -> None:
    before = (warnings.showwarning, list(warnings.filters), sys.get_coroutine_origin_tracking_depth())
    undo = scene.forgotten.watch()
    assert warnings.showwarning is not before[0]
    undo()
    assert (warnings.showwarning, list(warnings.filters), sys.get_coroutine_origin_tracking_depth()) == before


def test_a_call_of_the_interface_that_was_never_awaited(scene: Scene) -> None:
    code = scene.application["handler"].__code__
    for _ in range(3):
        assert scene.forgotten.report_call(code, 4)
    assert scene.lines() == [
        "[main/0] [error] [shop]: resources.py, line 7: a call in handler was never awaited, so it was not made: write 'await' in front of it"
    ]
    assert not scene.forgotten.report_call(test_it_is_undone.__code__, 0)


def run(scene: Scene, function: Any) -> list[dict[str, Any]]:
    """Run it on a loop; returns what the loop reports that is no application's."""
    others: list[dict[str, Any]] = []

    def report(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        if not scene.forgotten.report_task(context):
            others.append(context)

    async def main() -> None:
        asyncio.get_running_loop().set_exception_handler(report)
        await function()
        gc.collect()

    asyncio.run(main())
    return others


def test_a_task_that_failed_and_that_nobody_awaits(scene: Scene) -> None:
    assert run(scene, scene.application["starts"]) == []
    assert scene.lines() == [
        "[main/0] [error] [shop]: resources.py, line 13: fails failed, and nobody has awaited it: Traceback (most recent call last):"
    ]
    assert "ValueError: unseen" in (scene.root / "log" / "svc.log").read_text()
    run(scene, scene.application["starts"])
    assert len(scene.lines()) == 1


def test_a_future_with_an_error_of_the_application(scene: Scene) -> None:
    async def forget() -> None:
        future = asyncio.get_running_loop().create_future()
        try:
            await scene.application["fails"]()
        except ValueError as error:
            future.set_exception(error)

    assert run(scene, forget) == []
    assert "resources.py, line 13: a future failed" in scene.lines()[0]


def test_a_task_that_was_dropped(scene: Scene) -> None:
    loop = asyncio.new_event_loop()
    task = loop.create_task(scene.application["never"]())
    context = {"task": task, "message": "Task was destroyed but it is pending!"}
    assert scene.forgotten.report_task(context)
    assert scene.lines() == [
        "[main/0] [error] [shop]: resources.py, line 3: never was dropped before it ended: keep a reference to the task"
    ]
    loop.run_until_complete(task)
    loop.close()


def test_tasks_of_others_are_left_to_others(scene: Scene) -> None:
    async def fails() -> None:
        raise ValueError

    async def starts() -> None:
        task = asyncio.create_task(fails())
        await asyncio.wait([task])

    assert [context["message"] for context in run(scene, starts)] == ["Task exception was never retrieved"]
    assert not scene.forgotten.report_task({"message": "something"})
    assert scene.lines() == []
