"""svc.mqtt.shared: a group whose members are connected to several processes, which are killed and stopped at any time."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import svc.testing
from svc.errors import StoreFailure
from svc.mqtt.group_rows import ENTER, FREE, group_key
from svc.mqtt.session import Flight
from svc.mqtt.shared import SharedGroup
from svc.store.side_rows import SideRows
from svc.testing.application import Application
from tests.support.mqtt import broker_of
from tests.support.sibling_world import SiblingWorld
from tests.unit.testing.conftest import write_application

SCHEMA = "type Job @table @export { id: ID @primaryKey n: Int }\n"
NAME = "$share/workers/Job/#"
ROOM = 3


@pytest.fixture(scope="module")
def app(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Application]:
    files = {"config.yaml": "rest: true\ngraphqlSchema: {files: '*.graphql'}\n", "schema.graphql": SCHEMA}
    with svc.testing.app(write_application(tmp_path_factory.mktemp("shared") / "jobs", files)) as app:
        yield app


class Process:
    """The broker of one process, as groups see it. `is_stopped`: nothing runs in it. All of them share the loop and the turns of one."""

    def __init__(self, world: SiblingWorld, app: Application) -> None:
        self._broker = broker_of(app)
        self.loop = self._broker.loop
        self.world, self.siblings = world, world.start()
        self.identity: str = self.siblings.identity
        self.is_alive = self.siblings.is_alive
        self.groups: dict[str, SharedGroup] = {}
        self.is_stopped = False
        self.postponed: list[Callable[[], object]] = []  # until it is not stopped any more
        self.members: list[Member] = []
        self._rows: dict[Any, SideRows] = {}
        self.siblings.answer(ENTER, self._share)
        self.siblings.answer(FREE, lambda name: self.group and self.group.give())
        self.siblings.on_left.append(lambda identity: self.group and self.group.someone_left())

    async def _share(self, name: str) -> bool:
        return self.group is None or await self.group.claim()

    @property
    def group(self) -> SharedGroup | None:
        return self.groups.get(NAME)

    def rows_of(self, database: Any) -> SideRows:
        return self._rows.setdefault(database, SideRows(database, self.spawn))

    def is_session(self, client_id: str, number: bytes) -> bool:
        return True

    def report(self, error: BaseException) -> None:
        raise error

    def spawn(self, work: Any) -> None:
        self.loop.create_task(work)

    def stop(self, is_stopped: bool = True) -> None:
        self.is_stopped = self.siblings.hangs = is_stopped
        if not is_stopped:
            calls, self.postponed = self.postponed, []
            for call in calls:
                call()

    def kill(self) -> None:
        """What it has not written is lost."""
        self.is_stopped = True
        group = self.group
        if group is not None:
            group._close_source()
            if group._later is not None:
                group._later.cancel()
        for member in self.members:
            member.held.clear()
        self.members.clear()
        self.groups.clear()
        for rows in self._rows.values():
            for told in rows._take()[2].told:
                told(StoreFailure("it was killed"))  # those that ask it do without it
        self.world.kill(self.siblings)


class Member:
    """One with a connection, at QoS 1: it has room for ROOM messages that it has not acknowledged."""

    qos = 1

    def __init__(self, process: Process, app: Application) -> None:
        self.process = process
        self.got: list[int] = []
        self.held: list[Any] = []
        found = broker_of(app).addresses.find_filter("Job/#")
        assert found is not None
        self.found: Any = found
        self.table = self.found.resource.table
        self.realtime = self.found.resource.realtime
        self.start = self.table.database.log.newest_lsn(self.table.database.snapshot())
        group = process.groups.get(NAME)
        if group is None:
            group = process.groups[NAME] = SharedGroup(NAME, process, self)  # type: ignore[arg-type]
        self.group = group
        group.join(self)  # type: ignore[arg-type]
        process.members.append(self)
        group.give()

    @property
    def view(self) -> Any:
        return self.realtime.hub.view(self.group._request, None)

    @property
    def is_ready(self) -> bool:
        return len(self.held) < ROOM

    @property
    def room(self) -> int:
        return ROOM - len(self.held)

    def qos_of(self, event: Any) -> int:
        return self.qos

    def send(self, event: Any, qos: int) -> None:
        self.got.append(event.change.lsn)
        self.held.append(event)

    def flush(self) -> None: ...

    def acknowledge(self, count: int = ROOM) -> None:
        done, self.held = self.held[:count], self.held[count:]
        for event in done:
            self.group.acknowledged(event.change.lsn)
        self.group.give()

    def leave(self) -> None:
        self.process.members.remove(self)
        held, self.held = self.held, []
        flights: list[Any] = [Flight(self, event, 1, 0, event.change.lsn, None) for event in held]  # type: ignore[arg-type]
        self.group.leave(self, flights)  # type: ignore[arg-type]


@pytest.fixture(autouse=True)
def stopped_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    """What would happen in them happens when they go on."""

    def unless_stopped(function: Any) -> Any:
        def call(group: Any, *given: Any) -> None:
            process = group._parts
            process.postponed.append(lambda: function(group, *given)) if process.is_stopped else function(group, *given)

        return call

    for name in ("give", "note", "_take_rest", "someone_left"):
        monkeypatch.setattr(SharedGroup, name, unless_stopped(getattr(SharedGroup, name)))


class World:
    def __init__(self, app: Application) -> None:
        self.app = app
        self.siblings = SiblingWorld()
        database = broker_of(app).stored.store.databases["data"]
        rows = broker_of(app).rows_of(database)
        rows.delete(group_key(NAME))  # of a test that has failed
        app._instance.rest()
        self.processes: list[Process] = []
        self.members: list[Member] = []
        self.sent = 0

    def start(self) -> Process:
        process = Process(self.siblings, self.app)
        self.processes.append(process)
        return process

    def join(self, process: Process) -> Member:
        member = Member(process, self.app)
        self.members.append(member)
        return member

    def publish(self, count: int = 1) -> None:
        for _ in range(count):
            self.sent += 1
            self.app.put(f"/Job/{self.sent % 5}", {"n": self.sent})

    def pass_time(self) -> None:
        self.app.clock.advance(0.2)
        for process in self.processes:
            if process.group is not None and not process.is_stopped:
                process.group.sweep()
        self.app._instance.rest()

    def finish(self) -> None:
        """All acknowledge until there is nothing more."""
        for process in self.processes:
            if process.is_stopped and process.identity in self.siblings.processes:
                process.stop(False)
        for _ in range(1000):
            before = sum(len(member.got) for member in self.members)
            for process in self.processes:
                for member in process.members:
                    member.acknowledge()
            self.pass_time()
            if sum(len(member.got) for member in self.members) == before and not any(member.held for member in self.members):
                return
        raise AssertionError("it never ends")

    def close(self) -> None:
        for process in self.processes:
            for member in list(process.members):
                member.leave()
        self.app._instance.rest()
        database = broker_of(self.app).stored.store.databases["data"]
        assert all(process.group is None for process in self.processes)
        assert database.snapshot().get(group_key(NAME), None, database.mqtt_rows) is None

    @property
    def got(self) -> list[int]:
        return [lsn for member in self.members for lsn in member.got]


@pytest.fixture
def world(app: Application) -> Iterator[World]:
    world = World(app)
    yield world
    world.close()


def test_each_message_to_one(world: World) -> None:
    processes = [world.start(), world.start()]
    members = [world.join(processes[number % 2]) for number in range(4)]
    world.app._instance.rest()
    for _ in range(100):
        world.publish()
        for member in members:
            member.acknowledge()
    world.finish()
    assert len(world.got) == len({*world.got}) == 100
    assert all(10 < len(member.got) < 45 for member in members), "each has its share"


def test_a_process_that_is_full_leaves_them_to_others(world: World) -> None:
    full, free = world.join(world.start()), world.join(world.start())
    world.app._instance.rest()
    for _ in range(20):
        world.publish()
        world.pass_time()
        free.acknowledge()
    assert len(full.got) == ROOM and len(free.got) == 20 - ROOM
    full.leave()
    world.finish()
    assert Counter(world.got) == {**dict.fromkeys(free.got, 1), **dict.fromkeys(full.got, 2)}, "what it has not acknowledged comes again"


def test_a_process_that_is_stopped(world: World) -> None:
    stopped, free = world.join(world.start()), world.join(world.start())
    world.app._instance.rest()
    stopped.process.stop()
    for _ in range(20):
        world.publish()
        world.pass_time()
        free.acknowledge()
    assert len(free.got) == 20 and stopped.got == []
    stopped.process.stop(False)
    world.publish(10)
    world.finish()
    assert len(world.got) == len({*world.got}) == 30 and stopped.got


def test_a_process_that_is_killed(world: World) -> None:
    killed, free = world.join(world.start()), world.join(world.start())
    world.app._instance.rest()
    for _ in range(20):
        world.publish()
        free.acknowledge()
    assert len(killed.got) == ROOM
    killed.acknowledge(1)
    world.pass_time()
    killed.process.kill()
    world.members.remove(killed)
    world.finish()
    assert len(free.got) == 19 and free.got.count(killed.got[0]) == 0, "all but what was acknowledged"


def test_one_that_was_alone(world: World) -> None:
    """It says how far it has got before another one begins; a process that is stopped cannot, and what it has noted counts."""
    first = world.join(world.start())
    world.publish(10)
    first.acknowledge()
    second = world.join(world.start())
    world.finish()
    assert sorted(world.got) == sorted({*world.got}) and len(world.got) == 10 and second.got
    world.publish(10)
    world.finish()
    assert len(world.got) == len({*world.got}) == 20


@pytest.mark.parametrize("seed", range(30))
def test_whatever_happens(app: Application, seed: int) -> None:
    """Nothing is lost; nothing comes twice but what a member that has gone had not acknowledged, or a process that was killed had not noted."""
    chance, world = random.Random(seed), World(app)
    world.join(world.start())
    again: set[int] = set()  # that may come again
    for _ in range(chance.randrange(20, 120)):
        living = [process for process in world.processes if process.identity in world.siblings.processes]
        running = [process for process in living if not process.is_stopped]
        members = [member for process in running for member in process.members]
        choice = chance.randrange(16)
        if choice in (3, 4, 5):  # others have begun by then: else what those have that go is lost with them
            app._instance.rest()
        match choice:
            case 0 if len(living) < 4:
                world.join(world.start())
            case 1 | 2 if running:
                world.join(chance.choice(running))
            case 3 if len(members) > 1:
                member = chance.choice(members)
                again.update(event.change.lsn for event in member.held)
                member.leave()
            case 4 if len(running) > 1 and chance.random() < 0.5:
                process = chance.choice(running)
                if process.group is not None and process.group.is_claiming and any(each.members for each in running if each is not process):
                    again.update(lsn for member in process.members for lsn in member.got)
                    process.kill()
            case 5 if len(running) > 1 and any(process.group and process.group.is_claiming for process in running):
                chance.choice([process for process in running if process.group is None or process.group.is_claiming]).stop()
            case 6 if len(running) < len(living):
                next(process for process in living if process.is_stopped).stop(False)
            case 7 | 8 | 9:
                world.pass_time()
            case 10 | 11 | 12 if members:
                chance.choice(members).acknowledge(chance.randrange(1, ROOM + 1))
            case _:
                world.publish(chance.randrange(1, 6))
        if chance.random() < 0.8:
            app._instance.rest()
    world.finish()
    found = Counter(world.got)
    assert len(found) == world.sent, "none is lost"
    assert {lsn for lsn, count in found.items() if count > 1} <= again
    world.close()
