"""Fetches the content of blobs that other nodes have written (spec: replication §10).

Which files are expected stands in the databases (`store.blobs.expected`), so nothing is lost when a process ends. Here is only what is under way: some
transfers at a time, and when those that have failed are tried again.

    the node that wrote it, then any other that is connected
        has the content    written to the file; complete: it is not expected any more
        says it failed     the file is one that failed, and is not expected any more
        does not have it, is not there, sends something else    again later
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from contextlib import aclosing
from functools import partial
from typing import Protocol, TypeVar, cast

from svc.clock import Clock
from svc.cluster.blob_source import BLOB, CONTENT, END, FAILED, LATER, MORE, NOT_HERE, HasDatabase, encode_request
from svc.cluster.client import Unavailable
from svc.cluster.pieces import RequestRefused
from svc.errors import Problem
from svc.store.blobs.expected import RemoteBlob
from svc.store.blobs.files import BlobFile
from svc.store.blobs.helper import Helper
from svc.store.database import Database

logger = logging.getLogger("svc.cluster")
T = TypeVar("T")

AT_ONCE = 4  # transfers
LOOK_SECONDS, LONGEST_LOOK_SECONDS = 5.0, 60.0  # between two looks at what is expected; longer while nothing can be fetched
ANSWER_SECONDS = 30.0  # for each piece
FIRST_PAUSE, LONGEST_PAUSE = 2.0, 300.0  # seconds until a transfer is tried again
_LOOK = 100  # rows that are looked at in one turn
_FAILURES_MAX = 5000  # that are remembered
_TEXT_MAX = 1000
_DAY = 86_400.0


class OtherNode(Protocol):
    """`peer.Peer`."""

    @property
    def is_connected(self) -> bool: ...
    def ask_series(self, kind: str, requests: Callable[[int], bytes], *, seconds: float) -> AsyncIterator[bytes]: ...


class WrongContent(Exception):
    """A node has sent something else than the reference says."""


class ContentFailed(Exception):
    """The content will never be there: in the words of the node that wrote it."""


class BlobTransfers:
    """`on_received`: called with the name of a node, of a database, and bytes. Used on the thread of the loop alone."""

    def __init__(
        self, databases: Mapping[str, HasDatabase], nodes: Mapping[str, OtherNode], clock: Clock, *, fail_over: bool = True
    ) -> None:
        """Both live. `fail_over`: others are asked than the node that has written it."""
        self.on_received: Callable[[str, str, int], None] = lambda node, database, size: None
        self._databases = databases
        self._nodes = nodes
        self._now = clock.monotonic
        self._fail_over = fail_over
        self._running: dict[tuple[str, int], asyncio.Task[None]] = {}
        self._failures: dict[tuple[str, int], tuple[float, float]] = {}  # (pause, when it is tried again)
        self._places: dict[str, int] = {}  # by database: number behind which the next look begins
        self._purges: dict[str, float] = {}  # by database: when it is due
        self._wake = asyncio.Event()

    def look(self, database: str) -> None:
        """More may be expected in a database."""
        log = self._databases.get(database)
        if log is not None and log.database.replication is not None and log.database.replication.blobs.has_new:
            log.database.replication.blobs.has_new = False
            self._places.pop(database, None)
            self._wake.set()

    def connected(self) -> None:
        """There is a connection to one more node."""
        self._failures.clear()
        self._places.clear()
        self._wake.set()

    async def run(self) -> None:
        """Fetch until it is cancelled."""
        pause = LOOK_SECONDS
        while True:
            self._wake.clear()
            try:
                is_more = True
                while is_more and len(self._running) < AT_ONCE:
                    is_more = self._start_some()
                    await asyncio.sleep(0)
                await self._purge_some()
            except Exception:
                logger.exception("blobs of other nodes cannot be fetched")
            pause = LOOK_SECONDS if self._running else min(2 * pause, LONGEST_LOOK_SECONDS)
            try:
                await asyncio.wait_for(self._wake.wait(), pause)
                pause = LOOK_SECONDS
            except TimeoutError:
                pass

    async def close(self) -> None:
        """What is under way is begun again by whoever is next. Harmless when done."""
        running = list(self._running.values())
        for task in running:
            task.cancel()
        if running:
            await asyncio.wait(running)

    @property
    def running(self) -> int:
        return len(self._running)

    # --- what is to be fetched ---------------------------------------------------------------------------------------------------------

    def _start_some(self) -> bool:
        """Look at the next files of each database, and begin with those that can be fetched. False: all were looked at."""
        is_more = False
        for name, log in list(self._databases.items()):
            database = log.database
            if database.replication is None:
                continue
            after = self._places.get(name, 0)
            numbers = database.replication.blobs.numbers(database.snapshot(), after, _LOOK)
            for number in numbers:
                if len(self._running) >= AT_ONCE:
                    return True
                self._places[name] = number
                self._maybe_start(database, number)
            if len(numbers) < _LOOK:
                self._places.pop(name, None)
            else:
                is_more = True
        return is_more

    def _maybe_start(self, database: Database, number: int) -> None:
        key = (database.name, number)
        if key in self._running or self._failures.get(key, (0.0, 0.0))[1] > self._now():
            return
        assert database.replication is not None
        remote = database.replication.blobs.remote(database.snapshot(), number)
        if remote is None:
            return
        is_gone = database.ledger.owner(database.snapshot(), number) is None or database.blobs.is_complete(number)
        if is_gone or any(self._sources(remote)):
            task = asyncio.get_running_loop().create_task(self._transfer(database, number, remote, is_gone=is_gone))
            self._running[key] = task
            task.add_done_callback(lambda task: self._ended(key))

    def _ended(self, key: tuple[str, int]) -> None:
        self._running.pop(key, None)
        self._wake.set()

    def _sources(self, remote: RemoteBlob) -> list[str]:
        """Nodes that can be asked, the best first."""
        names = [remote.node, *(name for name in self._nodes if name != remote.node)] if self._fail_over else [remote.node]
        return [name for name in names if name in self._nodes and self._nodes[name].is_connected]

    # --- what is left of files that are gone -------------------------------------------------------------------------------------------

    async def _purge_some(self) -> None:
        """Once a day for each database, forget which file was which, of those that the ledger does not have any more."""
        for name, log in list(self._databases.items()):
            database = log.database
            if self._now() >= self._purges.get(name, 0.0) and database.replication is not None:
                self._purges[name] = self._now() + _DAY
                await self._purge(database)

    async def _purge(self, database: Database) -> None:
        store, ledger, state = database.store, database.ledger, database.replication
        assert state is not None
        after = b""
        while rows := state.blobs.locals(database.snapshot(), after, _LOOK):
            after = rows[-1][0]
            gone = [(place, number) for place, number in rows if not ledger.knows(database.snapshot(), number)]
            if gone:

                def write(gone: list[tuple[bytes, int]] = gone) -> None:
                    store.open_writers((database,), wait=False)
                    writer = database.env.writer()
                    for place, number in gone:
                        if not ledger.knows(writer, number):
                            state.blobs.forget(writer, place)
                    database.env.touch()

                await store.write_when_free(lambda: (database,), write)
            await store.slices.take()

    # --- one of them -------------------------------------------------------------------------------------------------------------------

    async def _transfer(self, database: Database, number: int, remote: RemoteBlob, *, is_gone: bool) -> None:
        key = (database.name, number)
        try:
            if is_gone or await self._fetch(database, number, remote):
                await self._arrived(database, number)
                self._failures.pop(key, None)
                return
        except (Problem, OSError) as error:
            logger.warning("database %s: a blob of %s cannot be stored: %s", database.name, remote.node, error)
        except Exception:
            logger.exception("database %s: a blob of %s cannot be fetched", database.name, remote.node)
        pause = min(self._failures.pop(key, (FIRST_PAUSE / 2, 0.0))[0] * 2, LONGEST_PAUSE)
        if len(self._failures) >= _FAILURES_MAX:
            del self._failures[next(iter(self._failures))]
        self._failures[key] = pause, self._now() + pause

    async def _fetch(self, database: Database, number: int, remote: RemoteBlob) -> bool:
        """Whether it is over: the file is complete, or one that failed. Raises NoSpace, StoreFailure."""
        helper, files = database.store.helper, database.blobs
        file = await _in_thread(helper, partial(files.create_expected, number))
        if file is None:
            return False  # another process does it
        files.arriving[number] = file
        try:
            for name in self._sources(remote):
                try:
                    if await self._fetch_from(name, database, remote, file):
                        return True
                except ContentFailed as error:
                    await _in_thread(helper, partial(file.fail, error))
                    logger.warning("database %s: a blob has failed at %s: %s", database.name, name, error)
                    return True
                except (Unavailable, RequestRefused) as error:
                    logger.debug("database %s: a blob cannot be fetched from %s: %s", database.name, name, error)
                except WrongContent as error:
                    logger.error("database %s: a blob of %s is refused: %s", database.name, name, error)
                    file.leave()
                    file = await _in_thread(helper, partial(files.create_expected, number))
                    if file is None:
                        return False
                    files.arriving[number] = file
            return False
        finally:
            if file is not None:
                file.leave()

    async def _fetch_from(self, name: str, database: Database, remote: RemoteBlob, file: BlobFile) -> bool:
        """Whether the file is complete. Raises ContentFailed, WrongContent, Unavailable, RequestRefused, NoSpace, StoreFailure."""
        helper = database.store.helper
        start = file.size

        def request(number: int) -> bytes:
            return encode_request(database.name, remote.identity, remote.number, start + number * CONTENT)

        answers = cast(AsyncGenerator[bytes], self._nodes[name].ask_series(BLOB, request, seconds=ANSWER_SECONDS))
        async with aclosing(answers):
            async for answer in answers:
                kind, content = answer[:1], answer[1:]
                if kind in (NOT_HERE, LATER):
                    return False
                if kind == FAILED and name == remote.node:
                    raise ContentFailed(content[:_TEXT_MAX].decode("utf-8", "replace"))
                if kind not in (MORE, END) or (kind == MORE and len(content) != CONTENT) or len(content) > CONTENT:
                    raise WrongContent("it is no answer")
                if remote.size is not None and file.size + len(content) > remote.size:
                    raise WrongContent(f"it has more than {remote.size} bytes")
                self.on_received(name, database.name, len(content))
                await _in_thread(helper, partial(file.write, content))
                if kind == END:
                    if remote.size is not None and file.size != remote.size:
                        raise WrongContent(f"it has {file.size} bytes instead of {remote.size}")
                    await _in_thread(helper, file.finish)
                    return True
                file.notify()
        return False

    async def _arrived(self, database: Database, number: int) -> None:
        """It is not expected any more, on disk with the turn. Raises Problem."""
        store, state = database.store, database.replication
        assert state is not None

        def write() -> None:
            store.open_writers((database,), wait=False)
            state.blobs.arrived(database.env.writer(), number)
            database.env.touch()

        await store.write_when_free(lambda: (database,), write)


async def _in_thread(helper: Helper, work: Callable[[], T]) -> T:
    """As `Helper.wait`, but when it is cancelled `work` has ended: whoever closes the file meanwhile would have it write to another one."""
    task = asyncio.ensure_future(helper.wait(work))
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait((task,))
        raise
