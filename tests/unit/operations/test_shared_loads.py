"""svc.operations.shared_loads: a version of an application serves in all processes or in none."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from svc.apps import App, Applications, EntryStatus
from svc.apps.app import Decide
from svc.clock import FakeClock
from svc.errors import Problem
from svc.logs import Logs
from svc.operations import shared_loads
from svc.operations.shared_loads import LATE, SharedLoads
from svc.operations.status_board import StatusBoard
from tests.support.sibling_world import SiblingWorld


class FakeApplications(Applications):
    """Versions are the directories that links lead to. `faults`: of what is loaded aside. `late`: of what starts when it serves already."""

    def __init__(self) -> None:
        super().__init__(SimpleNamespace(components={}))  # type: ignore[arg-type]
        self.faults: list[str] = []
        self.late: list[str] = []
        self.before_vote: Callable[[], Awaitable[None]] | None = None
        self.after_vote: Callable[[], None] = lambda: None

    async def add(self, directory: Path, name: str = "", decide: Decide | None = None) -> App:
        app = self.get(name)
        if app is None:
            app = App(name, directory)
        if self.before_vote is not None:
            await self.before_vote()
        deciding = asyncio.ensure_future(decide(list(self.faults))) if decide is not None else None
        await asyncio.sleep(0)
        self.after_vote()
        if deciding is None or await deciding:
            app.is_serving = True
            app.served_directory = directory.resolve()  # noqa: ASYNC240 - a test
            app.entries = {"resources": EntryStatus("error" if self.late else "healthy", list(self.late))}
            if app not in self._apps:
                self._apps.append(app)
        return app

    async def remove(self, name: str) -> None:
        self._apps = [app for app in self._apps if app.name != name]


class Process:
    """One that has the application `shop` in `root`."""

    def __init__(self, world: SiblingWorld, number: int, root: Path) -> None:
        self.root = root
        self.apps = FakeApplications()
        self.entries: dict[str, Any] = {}
        self.siblings = world.start(number)
        self.status = StatusBoard(FakeClock())
        node: Any = SimpleNamespace(
            loop=asyncio.get_running_loop(),
            executor=None,
            config=SimpleNamespace(components_root=root),
            logs=Logs(FakeClock()),
            status=self.status,
            siblings=self.siblings,
            apps=self.apps,
            projects_changing=[],
            take_entry=self.entries.__setitem__,
        )
        self.loads = SharedLoads(node)
        self.loads.answer_siblings()
        self.loads.is_open = True

    async def load(self, **options: Any) -> list[str]:
        async with self.loads.gate():
            return await self.loads.load(self.root / "shop", **options)

    @property
    def serves(self) -> str | None:
        app = self.apps.get("shop")
        return None if app is None else app.served_directory.name


class World:
    """Two processes over one root, which serve version `v1`, a third over another root."""

    def __init__(self, path: Path) -> None:
        self.siblings = SiblingWorld()
        self.path = path
        for name in ("v1", "v2", "roots/own", "roots/other"):
            (path / name).mkdir(parents=True, exist_ok=True)
        self.link("v1")
        roots = [path / "roots/own", path / "roots/own", path / "roots/other"]
        self.processes = [Process(self.siblings, number, root) for number, root in enumerate(roots)]

    def link(self, version: str | None) -> None:
        place = self.path / "roots/own/shop"
        place.unlink(missing_ok=True)
        if version is not None:
            place.symlink_to(self.path / version)

    @property
    def serves(self) -> list[str | None]:
        return [process.serves for process in self.processes]


def run(path: Path, test: Callable[[World], Awaitable[None]]) -> None:
    async def body() -> None:
        world = World(path)
        assert await world.processes[0].load() == []
        assert world.serves == ["v1", "v1", None]
        world.siblings.decisions.clear()
        world.link("v2")
        await asyncio.wait_for(test(world), 60)

    asyncio.run(body())


async def until(holds: Callable[[], bool]) -> None:
    while True:
        if holds():
            return
        await asyncio.sleep(0.01)


def test_all_switch(tmp_path: Path) -> None:
    async def test(world: World) -> None:
        assert await world.processes[1].load(entry={"urlPath": "x"}) == []
        assert world.serves == ["v2", "v2", None]
        assert world.processes[0].entries == {"shop": {"urlPath": "x"}} and world.processes[2].entries == {}
        world.link(None)
        assert await world.processes[0].load(entry={}) == []
        assert world.serves == [None, None, None]

    run(tmp_path, test)


@pytest.mark.parametrize("failing", [0, 1])
def test_one_that_fails_keeps_all(tmp_path: Path, failing: int) -> None:
    async def test(world: World) -> None:
        former = {process: dict(process.apps[0].entries) for process in world.processes[:2]}
        world.processes[failing].apps.faults = ["resources: a.py:1: bad"]
        said = "resources: a.py:1: bad" if failing == 0 else "process 1: resources: a.py:1: bad"
        assert await world.processes[0].load(goes_back=True, entry={"urlPath": "x"}) == [said]
        await asyncio.sleep(0.05)
        assert world.serves == ["v1", "v1", None]
        assert world.processes[1].apps[0].entries == former[world.processes[1]]
        assert world.processes[1].entries == {"shop": None}, "as it was"
        world.processes[failing].apps.faults = []
        assert await world.processes[0].load() == []
        assert world.serves == ["v2", "v2", None]

    run(tmp_path, test)


def test_one_that_hangs_keeps_all(tmp_path: Path) -> None:
    async def test(world: World) -> None:
        world.processes[1].siblings.hangs = True
        assert await world.processes[0].load() == ["process 1: no answer"]
        assert world.serves == ["v1", "v1", None]

    run(tmp_path, test)


def test_what_fails_after_the_switch_is_said(tmp_path: Path) -> None:
    async def test(world: World) -> None:
        world.processes[1].apps.late = ["cannot start"]
        assert await world.processes[0].load() == ["process 1: resources: cannot start"]

    run(tmp_path, test)


def test_one_that_decides_ends_before_it_has(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """At any later moment it has decided, and the others read that."""
    monkeypatch.setattr(shared_loads, "LOOK_PAUSE", 0.01)

    async def test(world: World) -> None:
        first, second, _ = world.processes
        stopped = asyncio.Event()

        async def stop() -> None:
            stopped.set()
            await asyncio.Event().wait()

        second.apps.after_vote = lambda: world.siblings.kill(first.siblings)
        loading = asyncio.ensure_future(first.load())
        first.apps.before_vote = stop
        await stopped.wait()
        await until(lambda: bool(world.siblings.decisions))
        assert set(world.siblings.decisions.values()) == {shared_loads.STAYS}
        assert second.serves == "v1"
        loading.cancel()
        second.apps.after_vote = lambda: None
        assert await second.load() == [], "the gate is open"
        assert second.serves == "v2"

    run(tmp_path, test)


def test_one_that_decides_too_late_abides_by_what_the_others_have(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def test(world: World) -> None:
        monkeypatch.setattr(shared_loads, "PATIENCE", 0.0)

        world.processes[0].apps.before_vote = lambda: until(lambda: bool(world.siblings.decisions))
        assert await world.processes[0].load() == [LATE]
        assert world.serves == ["v1", "v1", None]

    run(tmp_path, test)


def test_one_that_goes_on_late_reads_what_was_decided(tmp_path: Path) -> None:
    """It has said yes, and heard nothing since."""

    async def test(world: World) -> None:
        second = world.processes[1]
        second.siblings.functions[shared_loads.DECIDED] = lambda load_id: None
        assert await world.processes[0].load() == []
        assert world.serves == ["v2", "v2", None]

    run(tmp_path, test)


def test_loads_wait_for_each_other_and_for_starts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def test(world: World) -> None:
        first, second, third = world.processes
        async with first.loads.gate(shared=True), second.loads.gate(shared=True):
            loading = asyncio.ensure_future(first.load())
            await asyncio.sleep(0.1)
            assert world.serves == ["v1", "v1", None]
        assert await loading == []
        results = await asyncio.gather(first.load(), second.load(), third.loads.load(third.root / "shop"))
        assert results == [[], [], []]
        monkeypatch.setattr(shared_loads, "GATE_SECONDS", 0.0)
        async with first.loads.gate():
            with pytest.raises(Problem) as caught:
                await second.load()
        assert caught.value.status_code == 503

    run(tmp_path, test)


def test_one_that_starts_takes_no_part(tmp_path: Path) -> None:
    async def test(world: World) -> None:
        world.processes[1].loads.is_open = False
        assert await world.processes[0].load() == []
        assert world.serves == ["v2", "v1", None]
        world.processes[1].loads.is_open = True
        world.processes[0].loads.follow(world.processes[0].root / "shop")
        await until(lambda: world.serves[1] == "v2")
        assert world.serves == ["v2", "v2", None]

    run(tmp_path, test)


def test_what_waits_for_a_restart_does_everywhere(tmp_path: Path) -> None:
    async def test(world: World) -> None:
        entry: Mapping[str, Any] = {"urlPath": "x"}
        world.processes[0].loads.changed(world.processes[0].root / "shop", entry)
        assert [process.status.restart_reasons for process in world.processes] == [["component shop"], ["component shop"], []]
        assert world.processes[1].entries == {"shop": entry} and world.processes[2].entries == {}

    run(tmp_path, test)
