"""What this node commits to a database -> its stream on this node's engine (spec: replication §5).

The transaction log is the outbox. Its reader begins behind the last message of the stream, so nothing has to be noted when a message is stored, and nothing is
lost if the process ends in between. One message is under way at a time, and names the one that it follows: what piles up meanwhile is the next message, none is
stored twice or overtakes another, and of two processes that publish by mistake one finds a conflict, and begins again.

    stream                                   reading begins
    has messages of this incarnation         behind L of the last one
    had some, and is empty: they were old    behind what is noted in `$replication`, or, if that is nothing, with the log
    has messages of the incarnation before   behind L of the last one, but no later than the two part
    is new, or has another incarnation       with the log

Where the log does not begin with LSN 1 any more, a reader that has nothing finds a gap, and copies the database.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterator
from typing import Protocol

from msgspec import Struct, structs

from svc.cluster.packing import LogPacker, Row
from svc.cluster.streams import Accepted, Publication
from svc.cluster.wire import Head, Message
from svc.errors import Problem
from svc.store.database import Database
from svc.store.schema import definition_to_bytes
from svc.store.slices import SLICE
from svc.store.table import Table

logger = logging.getLogger("svc.cluster")

_LOOK = 256  # entries read at once
FIRST_PAUSE, LONGEST_PAUSE = 0.5, 30.0  # seconds between two attempts


class StreamEnd(Struct, frozen=True):
    """`sequence`: of the last message, 0 if there is none. `head`: its headers, None: there is none. `was_used`: it had messages once. `created`: tells it from
    another stream of that name. `last`: sequence of the last message that there was."""

    sequence: int
    head: Head | None
    was_used: bool
    created: str = ""
    last: int = 0


class OwnStream(Protocol):
    """The stream, over one connection to the engine."""

    async def open(self) -> StreamEnd:
        """Make it if it is missing. Raises `NotPublished`."""

    async def publish(self, message: Message, expected: int) -> Publication:
        """Store a message behind that with sequence `expected`. Never raises."""


class NotPublished(Exception):
    """A sentence for the log: why nothing can be published now."""


class Outbox:
    """Of one database. Used on the thread of the loop alone.

    `published`: LSN up to which the stream has all there is to send, `sent`: L of its last message, both -1 until that is known. `position`: (`created` of the
    stream, sequence of its last message), None until that is known. `on_published`: called when one of them has changed; `on_sent`: with the bytes of each
    body. `sent_at`: wall time of the last one, in seconds, 0.0: none. `reason`: why nothing is published now, "" if that is not so.
    """

    def __init__(
        self,
        database: Database,
        node: str,
        incarnation: bytes,
        connect: Callable[[], Awaitable[OwnStream]],
        *,
        is_sent: Callable[[Table], bool],
        noted: Callable[[], int],
        former: tuple[bytes, int] | None = None,
    ) -> None:
        """`connect`: waits until the engine can be reached. `is_sent`: whether entries of a table are. `noted`: what `$replication` says was published;
        `former`: what it says of an incarnation before this one."""
        self.database = database
        self.published = self.sent = -1
        self.position: tuple[str, int] | None = None
        self.on_published: Callable[[], None] = lambda: None
        self.on_sent: Callable[[int], None] = lambda size: None
        self.sent_at = 0.0
        self.reason = ""
        self._node = node
        self.incarnation = incarnation
        self._connect = connect
        self._is_sent = is_sent
        self._noted = noted
        self._former = former
        self._now = database.store.clock.monotonic
        self._left_out: set[int] = set()
        self._packer = LogPacker(node, incarnation)
        self._generation: int | None = None
        self._sent: dict[str, bytes] = {}  # definitions that readers have got, or will
        self._grown = asyncio.Event()
        self._read_to = 0  # LSN of the last entry that was read
        self._pause = FIRST_PAUSE

    def wake(self) -> None:
        """The log has grown."""
        self._grown.set()

    async def run(self) -> None:
        """Publish until it is cancelled."""
        while True:
            try:
                await self._publish_for_ever(await self._connect())
            except (NotPublished, Problem) as error:
                self._tell(str(error))
            except Exception as error:  # a defect, or LMDB: it must not end here for good
                logger.exception("the log of database %s cannot be published", self.database.name)
                self.reason = f"{type(error).__name__}: see the log"
            await asyncio.sleep(self._pause)
            self._pause = min(self._pause * 2, LONGEST_PAUSE)

    def _tell(self, reason: str) -> None:
        if reason != self.reason:
            logger.warning("database %s: nothing is published: %s", self.database.name, reason)
        self.reason = reason

    async def _publish_for_ever(self, stream: OwnStream) -> None:
        end = await stream.open()
        sequence = end.sequence
        previous = self._beginning(end)
        self.position = (end.created, max(sequence, end.last))
        self._packer = LogPacker(self._node, self.incarnation, left_out=self._left_out)
        self._generation = None
        self._sent.clear()
        self._define(0)
        self._packer.define(self.database.log.newest_lsn(self.database.snapshot()), self._sent)
        while True:
            self._grown.clear()
            for message in self._packer.messages(self._rows(), previous, self._read_to):
                if message is None:
                    await self.database.store.slices.take()
                    continue
                if self._former is not None:
                    message = structs.replace(message, former=self._former)
                outcome = await stream.publish(message, sequence)
                if type(outcome) is not Accepted:
                    raise NotPublished(f"the engine did not store a message: {outcome}")
                sequence = outcome.sequence
                self.position = (end.created, sequence)
                previous = self.published = self.sent = message.last_lsn
                self.on_sent(len(message.body))
                self.sent_at = self.database.clock.wall()
                self._succeeded()
                self.on_published()
            self.published = self._read_to
            self.on_published()
            await self._grown.wait()

    def _succeeded(self) -> None:
        self._pause = FIRST_PAUSE
        if self.reason:
            logger.info("database %s: its log is published again", self.database.name)
            self.reason = ""

    def _beginning(self, end: StreamEnd) -> int:
        """The LSN behind which reading begins; it counts as published. Raises NotPublished."""
        log = self.database.log
        snapshot = self.database.snapshot()
        if end.head is not None and end.head.incarnation == self.incarnation:
            found = end.head.last_lsn
            if found > log.newest_lsn(snapshot):
                raise NotPublished(
                    f"its stream has entries up to {found}, and its log ends with {log.newest_lsn(snapshot)}: the files of another time were put in their place"
                )
        elif end.head is not None and self._former is not None and end.head.incarnation == self._former[0]:
            found = min(end.head.last_lsn, self._former[1])
        else:
            found = self._noted() if end.head is None and end.was_used else 0
        found = max(found, log.first_lsn(snapshot) - 1)
        self.published = self.sent = self._read_to = found
        return found

    def _rows(self) -> Iterator[Row | None]:
        """The log behind what was read, to its end, and None when the loop is to have a turn. Each part is read from the snapshot of the turn it is read in,
        and the definitions as of then are said before it."""
        log = self.database.log
        end = self._now() + SLICE
        while True:
            snapshot = self.database.snapshot()
            self._define(self._read_to)
            rows, is_all = log.read_encoded(snapshot, self._read_to + 1, _LOOK)
            yield from rows
            if rows:
                self._read_to = rows[-1][0]
            if is_all:
                return
            if self._now() >= end:
                yield None
                end = self._now() + SLICE

    def _define(self, lsn: int) -> None:
        """Say what the tables have become since that was said last, before what is behind this LSN."""
        self.database.snapshot()  # what other processes have changed by now
        if self._generation == self.database.generation:
            return
        self._generation = self.database.generation
        state = self.database.replication
        if state is not None:
            self._left_out |= state.left_out(self.database.snapshot())
        changed = {}
        for name, table in self.database.tables.items():
            if not self._is_sent(table):
                self._left_out.add(table.number)  # it may be dropped by the time at which the log is read
                continue
            self._left_out.discard(table.number)
            data = definition_to_bytes(table.definition)
            if self._sent.get(name) != data:
                self._sent[name] = changed[name] = data
        if changed:
            self._packer.define(lsn, changed)
