"""A server in memory that crashes, and is there again."""

from __future__ import annotations

import asyncio
import ctypes
import math
import os
import random
import shutil
from base64 import b64encode
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Literal

from svc.clock import FakeClock
from svc.store.env import Environment
from svc.testing.instance import Instance
from svc.testing.prepared import SUPER_USER, place_root

PATIENCE = 60.0  # real seconds in which a turn of the loop must end
VERIFIED = 1e6  # seconds of the clock: no password is hashed
BEGINNING = FakeClock()  # of all simulations; one object: a root is prepared for it once
PAGE = 4096  # bytes, of LMDB
META_PAGES = 2
NOT_COPIED = ("lock.mdb", "reserve")  # what is of the processes that use a database

_own_process = os.getpid

Moment = Literal["between turns", "before the commit", "in the commit", "after the commit", "at the start", "at the end"]
MOMENTS: tuple[Moment, ...] = ("between turns", "before the commit", "in the commit", "after the commit", "at the start", "at the end")


class TickingClock(FakeClock):
    """Each look at it takes `tick` seconds, so that the server finds its own work long."""

    __slots__ = ("tick",)

    def __init__(self, wall: float, tick: float = 0.0) -> None:
        super().__init__(wall)
        self.tick = tick
        self.monotonic = self.cpu = self._tick

    def _tick(self) -> float:
        if self.tick:
            self.advance(self.tick)
        return self._monotonic


class CrashableServer:
    """`instance`: the one that runs now; another after each crash. Nothing of its memory outlives that: the databases are copied as they are at that moment,
    and the new one is opened over the copy. The old one does nothing any more."""

    instance: Instance
    at_rest: dict[str, int]

    def __init__(self, base: Path, application: Path) -> None:
        """`base`: an empty directory, for the root and the databases."""
        self._base = base
        self._application = application
        self._count = 0
        self._crashed: list[Instance] = []
        self._root = base / "root"
        place_root(self._root, BEGINNING)
        shutil.move(self._root / "database", self._databases)
        self._restart(TickingClock(BEGINNING.wall()))

    @property
    def _databases(self) -> Path:
        return self._base / f"databases{self._count}"

    @property
    def clock(self) -> TickingClock:
        clock = self.instance.clock
        assert isinstance(clock, TickingClock)
        return clock

    def _open(self, clock: TickingClock) -> Instance:
        settings: Mapping[str, Any] = {
            "authentication_cacheTTL": VERIFIED,
            "storage_path": str(self._databases),
            "storage_writeAsync": False,
        }
        os.getpid = _own_process
        instance = Instance(self._application, settings, clock=clock, root=self._root, patience=PATIENCE)
        accounts = instance.server.accounts
        user = accounts.directory.get_user(SUPER_USER)
        assert user is not None
        basic = f"Basic {b64encode(f'{SUPER_USER}:'.encode()).decode()}"
        accounts.verifier.remember(accounts.verifier.digest(basic), user, None, VERIFIED)
        return instance

    def run(self, polls: float, seconds: float = 0.0) -> None:
        """So many turns of the loop, in which so many seconds pass where nothing else happens."""
        instance = self.instance
        instance.interface.make_current()
        instance.loop.expect(seconds, patience=PATIENCE, waits_for_calls=False, max_polls=polls)
        while not instance.loop.turn_until(None):
            pass

    def crash(self, moment: Moment, draw: random.Random, on_crash: Callable[[], None]) -> None:
        """At `moment`, in the next turn that has one; else after it. `on_crash`: called then; what clients are sent from then on is lost."""
        copy = self._copy(on_crash)
        if moment == "at the end":  # in order
            on_crash()
            with self._still():
                self.instance.close()
        elif moment not in ("between turns", "at the start"):
            with _Commits(copy, moment, 1, draw):
                self.run(1)
        copy.take()
        if moment == "at the start":
            self._crashed.append(self.instance)
            self._count += 1
            copy = self._copy(lambda: None)
            with _Commits(copy, "in the commit", draw.randint(1, 6), draw):
                self.instance = self._open(self._clock_after())
            copy.take()
        self._crashed.append(self.instance)
        self._count += 1
        self._restart(self._clock_after())

    def _clock_after(self) -> TickingClock:
        return TickingClock(self.clock.wall(), self.clock.tick)

    def _restart(self, clock: TickingClock) -> None:
        self.instance = self._open(clock)
        self.at_rest = self.in_use()

    @contextmanager
    def _still(self) -> Iterator[None]:
        """The clock does not tick."""
        clock = self.clock
        tick, clock.tick = clock.tick, 0.0
        yield
        clock.tick = tick

    def in_use(self) -> dict[str, int]:
        """What a server must give back, behind the turns that are due. (One that finds that it has worked for long leaves its end to the next.)"""
        instance = self.instance
        with self._still():
            self.run(math.inf)
        return {
            "tasks": len(asyncio.all_tasks(instance.loop)),
            "snapshots": sum(database.env.open_snapshots() for database in instance.server.store.databases.values()),
            "connections": sum(len(port.connections.open) for port in (instance.server.application_port, instance.server.operations_port)),
            "descriptors": len(os.listdir("/proc/self/fd")),
        }

    def _copy(self, on_copy: Callable[[], None]) -> _Copy:
        return _Copy(self._databases, self._base / f"databases{self._count + 1}", on_copy)

    def stay_in_forks(self) -> None:
        """A fork of this process has the server, too."""
        for each in (self.instance, *self._crashed):
            each.server.forked_child.close()
        for number in range(self._count):
            shutil.rmtree(self._base / f"databases{number}")

    def go_on_in_fork(self, parent: int) -> None:
        """This is the fork, and nothing uses the server in `parent` meanwhile. `has_siblings` asks for the process that has opened the databases; the binding
        of LMDB does as well, and would leave the transactions of another to it."""
        os.getpid = lambda: parent
        for database in self.instance.server.store.databases.values():
            environment = database.env._env
            numbers = (ctypes.c_int32 * (type(environment).__basicsize__ // 4)).from_address(id(environment))
            (place,) = (at for at, number in enumerate(numbers) if number == parent)
            numbers[place] = _own_process()
        self.at_rest = self.in_use()

    def end(self) -> None:
        """In order."""
        self.instance.close()

    def close(self) -> None:
        for each in (self.instance, *reversed(self._crashed)):
            with suppress(Exception):  # of a server that crashed in the middle of something
                each.close()


class _Copy:
    """Of databases, made once."""

    def __init__(self, source: Path, target: Path, on_copy: Callable[[], None]) -> None:
        self._source = source
        self._target = target
        self._on_copy = on_copy
        self.is_taken = False

    def take(self, torn: Mapping[Path, bytes] | None = None) -> None:
        """`torn`: the content of files that are not as they are."""
        if self.is_taken:
            return
        self.is_taken = True
        self._on_copy()
        shutil.copytree(self._source, self._target, ignore=shutil.ignore_patterns(*NOT_COPIED))
        for file, content in (torn or {}).items():
            (self._target / file.relative_to(self._source)).write_bytes(content)


class _Commits:
    """While it is entered, `copy` is taken at the commit with such a number, of those of any database."""

    def __init__(self, copy: _Copy, moment: Moment, number: int, draw: random.Random) -> None:
        self._copy = copy
        self._moment = moment
        self._number = number
        self._draw = draw
        self._commit = Environment.commit
        self._count = 0

    def __enter__(self) -> None:
        def commit(env: Environment) -> None:
            if env._writer is None or not env._dirty:
                self._commit(env)
                return
            self._count += 1
            if self._count != self._number:
                self._commit(env)
                return
            file = env.path / "data.mdb"
            before = file.read_bytes()
            if self._moment == "before the commit":
                self._copy.take()
            self._commit(env)
            self._copy.take({file: torn(before, file.read_bytes(), self._draw)} if self._moment == "in the commit" else None)

        Environment.commit = commit  # type: ignore[method-assign, assignment]

    def __exit__(self, *error: object) -> None:
        Environment.commit = self._commit  # type: ignore[method-assign]


def torn(before: bytes, after: bytes, draw: random.Random) -> bytes:
    """A file in the middle of a commit: any of the pages that it writes are on disk, but not the meta page, which comes after all others."""
    share = draw.random()
    pages = [before[: META_PAGES * PAGE]]
    for place in range(META_PAGES * PAGE, len(after), PAGE):
        page = after[place : place + PAGE]
        if page != before[place : place + PAGE] and draw.random() > share:
            page = before[place : place + PAGE].ljust(len(page), b"\0")
        pages.append(page)
    return b"".join(pages)
