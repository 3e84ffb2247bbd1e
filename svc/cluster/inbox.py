"""The stream of another node -> this node's database (spec: replication §6).

The database knows how far each origin is applied, and is told so in the commit that applies: so it does not matter where reading begins, nor what comes again.
A place in the stream is remembered beside it, to begin there.

    what is read                              what is done
    the next messages                         definitions are added, transactions applied, a batch at a time; meanwhile nothing is asked for
    another incarnation                       its own LSNs count: from what is applied of that
    something is missing, or too large,       the database is to be copied (`needs_copy`); nothing is read any more: whoever copies it makes another inbox
      or the stream was emptied
    messages were dropped before they were    reading begins with the first there is: the LSNs tell whether something is missing
      read, or the stream is another one
    a newer format, or damage                 said, and read again after a pause
    the connection is lost, there is none     a pause; each is longer than the one before, until something comes
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Protocol

from svc.cluster.assembly import Assembler, Delivery, Gap, OtherIncarnation, Taken, TransactionTooLarge
from svc.cluster.definitions import adopt
from svc.cluster.exchange import Tables, only_of
from svc.cluster.outbox import LONGEST_PAUSE
from svc.cluster.reader import End, Gone, Lost, Replaced, StreamMessage
from svc.cluster.reader import Gap as Dropped
from svc.cluster.streams import StreamInfo
from svc.cluster.wire import WireError, read_head
from svc.errors import Problem
from svc.store.database import Database
from svc.store.replication_state import StreamHint
from svc.store.slices import SLICE
from svc.store.writing.remote_apply import TOGETHER, TOGETHER_BYTES, apply_remote
from svc.store.writing.remote_transaction import Origin, RemoteTransaction, value_bytes
from svc.store.writing.remote_write import MergeFigures, MissingTables

logger = logging.getLogger("svc.cluster")

FIRST_PAUSE = 0.1  # seconds until it is read again, doubled each time. Where a connection is lost the next one is waited for anyway


class Reader(Protocol):
    """`reader.StreamReader`."""

    @property
    def info(self) -> StreamInfo: ...
    async def next_batch(self) -> list[StreamMessage] | End: ...
    async def close(self) -> None: ...


OpenReader = Callable[[int, str | None], Awaitable[Reader | End]]
"""(first sequence, `created` of the stream that it is of, None: of any). Waits until there is a connection. Never raises."""
FetchDefinitions = Callable[[tuple[str, ...]], Awaitable[Mapping[str, bytes]]]
"""Asks the node for definitions of tables by name; those that it has are given. Raises Problem, WireError."""


class NeedsCopy(Exception):
    """A sentence for the log."""


class OwnLogReached(Exception):
    """The stream is that of this node, and goes on with what the database has."""


class Inbox:
    """What one node writes to one database. Used on the thread of the loop alone. `tables`: those that are taken, None: all; `since_ms`: what was
    written before is not, ms since the epoch, 0.0: all is. Both are set before `run`. Where not all is taken, what is missing is passed over.

    `applied`: LSN of the origin up to which all is applied, `received`: of the newest message that came. `origin`: whose these are, None: nothing has come yet.
    `on_applied`: called when more is applied, and on disk; `on_received`: with the bytes of each body. `remote_time`: wall time of the newest transaction that
    was applied, ms by the clock there; `local_time`: when that was, in seconds; 0.0: none was since the start. `figures`: of what was applied since then.
    `is_reading`: its stream is followed now. `reason`: why nothing is read, or was read last, "" if something was since then. `needs_copy`: it is over.
    """

    def __init__(
        self,
        database: Database,
        node: str,
        stream: str,
        open_reader: OpenReader,
        fetch_definitions: FetchDefinitions,
        on_needs_copy: Callable[[], object] = lambda: None,
    ) -> None:
        """`stream`: its name."""
        assert database.replication is not None
        self.database = database
        self.node = node
        self.tables: Tables = None
        self.since_ms = 0.0
        self.applied = self.received = 0
        self.origin: Origin | None = None
        self.on_applied: Callable[[], None] = lambda: None
        self.remote_time = self.local_time = 0.0
        self.on_received: Callable[[int], None] = lambda size: None
        self.figures = MergeFigures(found=[])
        self.reason = ""
        self.needs_copy = False
        self.is_reading = False
        self._state = database.replication
        self._stream = stream
        self._open_reader = open_reader
        self._fetch_definitions = fetch_definitions
        self._assembler: Assembler | None = None
        self._created = ""
        self._whole = 0  # sequence of the last message behind which no transaction is open
        self._on_needs_copy = on_needs_copy
        self._pause = FIRST_PAUSE

    async def run(self) -> None:
        """Read and apply until it is cancelled, or the database has to be copied."""
        while True:
            try:
                await self._read_for_ever()
            except NeedsCopy as error:
                self._tell(str(error))
                self.needs_copy = True
                self._on_needs_copy()
                return
            except OwnLogReached:
                await self._end_own()
                return
            except (WireError, Problem) as error:
                self._tell(str(error))
            except Exception as error:  # a defect, or LMDB: it must not end here for good
                logger.exception("what %s has written to database %s cannot be applied", self.node, self.database.name)
                self.reason = f"{type(error).__name__}: see the log"
            await asyncio.sleep(self._pause)
            self._pause = min(self._pause * 2, LONGEST_PAUSE)

    async def _end_own(self) -> None:
        """All is read that this node has written before its database was restored: the next start need not look for it."""
        if self.origin is not None:
            await apply_remote(self.database, self.origin, [], (self._stream, StreamHint(self._created, self._whole)))
        logger.info("database %s: what this node had written after the backup is there again", self.database.name)

    @property
    def _is_whole(self) -> bool:
        return self.tables is None and not self.since_ms

    def _tell(self, reason: str) -> None:
        if reason != self.reason:
            logger.warning("database %s: nothing is read from %s: %s", self.database.name, self.node, reason)
        self.reason = reason

    def _succeeded(self) -> None:
        self._pause = FIRST_PAUSE
        if self.reason:
            logger.info("database %s: it is read from %s again", self.database.name, self.node)
            self.reason = ""

    async def _read_for_ever(self) -> None:
        """Returns, with `reason`, when the reader has ended."""
        reader = await self._open()
        if reader is None:
            return
        try:
            self.is_reading = True
            self._created = reader.info.created
            self._assembler = None
            while True:
                batch = await reader.next_batch()
                if not isinstance(batch, list):
                    self._tell(_words(batch))
                    return
                await self._take(batch)
                self._succeeded()
        finally:
            self.is_reading = False
            await reader.close()

    async def _open(self) -> Reader | None:
        hint = self._state.hint(self.database.snapshot(), self._stream)
        read, created = (0, None) if hint is None else (hint.sequence, hint.created)
        start = read + 1
        found = await self._open_reader(start, created)
        if isinstance(found, Dropped):
            start = found.first
            found = await self._open_reader(start, created)
        elif isinstance(found, Replaced):
            read, start, created = 0, found.info.first, found.info.created
            found = await self._open_reader(start, created)
        if isinstance(found, Dropped | Gone | Replaced | Lost):
            self._tell(_words(found))
            return None
        self._whole = start - 1
        if not found.info.messages and found.info.last > read and self._is_whole:
            await found.close()
            raise NeedsCopy("its stream was emptied, and it is not known what was in it")
        return found

    async def _take(self, batch: list[StreamMessage]) -> None:
        """In slices: to read what comes at once may take as long as to apply it."""
        transactions: list[RemoteTransaction] = []
        last = 0  # LSN that is applied with these, 0: none
        entries = size = 0  # in these; bytes of their values
        slices, now = self.database.store.slices, self.database.clock.monotonic
        end = now() + SLICE
        for message in batch:
            if now() >= end:
                end = await slices.take()
            self.on_received(len(message.data))
            try:
                try:
                    taken = self._assemble(message)
                except OtherIncarnation:
                    await self._apply(transactions, last)
                    transactions, last = [], 0
                    self._begin(message)
                    taken = self._assemble(message)
            except (WireError, NeedsCopy):
                await self._apply(transactions, last)  # those before it are right
                raise
            if isinstance(taken, Delivery):
                if taken.definitions:
                    await self._apply(transactions, last)
                    transactions, last = [], 0
                    await adopt(self.database, self.node, self._wanted(taken.definitions))
                transactions += only_of(taken.transactions, self.tables, self.since_ms)
                last = self.received = taken.last_lsn
                for transaction in taken.transactions:
                    entries += len(transaction.entries)
                    size += value_bytes(transaction.entries)
            if self._assembler is not None and not self._assembler.has_part:
                self._whole = message.sequence
            if entries >= TOGETHER or size >= TOGETHER_BYTES:
                await self._apply(transactions, last)
                transactions, last, entries, size = [], 0, 0, 0
        await self._apply(transactions, last)

    def _wanted(self, definitions: Mapping[str, bytes]) -> Mapping[str, bytes]:
        if self.tables is None:
            return definitions
        return {name: data for name, data in definitions.items() if name in self.tables}

    def _assemble(self, message: StreamMessage) -> Delivery | Taken:
        """Raises NeedsCopy, WireError; OtherIncarnation."""
        if self._assembler is None:
            self._begin(message)
        assert self._assembler is not None
        try:
            return self._assembler.take(message.headers, message.data)
        except (Gap, TransactionTooLarge) as error:
            if self._is_whole:
                raise NeedsCopy(str(error)) from error
            if isinstance(error, TransactionTooLarge):
                return Taken.PART  # the next one finds that it is missing
            head = read_head(message.headers)
            if head.chunk > 1:
                return Taken.PART
            self._assembler = Assembler(head.incarnation, head.previous)
            return self._assembler.take(message.headers, message.data)

    def _begin(self, message: StreamMessage) -> None:
        """With the incarnation of a message. Raises WireError, OwnLogReached."""
        head = read_head(message.headers)
        snapshot = self.database.snapshot()
        if self.node == self.database.node and head.incarnation == self._state.incarnation(snapshot):
            raise OwnLogReached
        self.origin = Origin(self.node, head.incarnation)
        self.applied = applied_before(self.database, self.origin, head.former)
        self._assembler = Assembler(head.incarnation, self.applied)

    async def _apply(self, transactions: list[RemoteTransaction], last: int) -> None:
        """Apply all of them, and note that everything up to `last` is applied. Raises WireError for one that cannot be, NeedsCopy, Problem."""
        if not last:
            return
        assert self.origin is not None
        hint = (self._stream, StreamHint(self._created, self._whole))
        fetched: set[str] = set()
        while True:
            done = await apply_remote(self.database, self.origin, transactions, hint, up_to=last)
            self.applied = done.lsn
            self._add(done.figures)
            refused = done.refused
            if refused is None:
                if transactions:
                    self.remote_time = transactions[-1].wall_ms
                    self.local_time = self.database.clock.wall()
                self.on_applied()
                return
            self._assembler = None  # it has given out what is not applied
            if not isinstance(refused, MissingTables) or fetched.issuperset(refused.names):
                raise WireError(refused.message)
            fetched.update(refused.names)
            answer = await self._fetch_definitions(refused.names)
            found = {name: answer[name] for name in refused.names if name in answer}
            await adopt(self.database, self.node, self._wanted(found))
            gone = fetched - found.keys() - self.database.tables.keys()
            if gone:  # both have dropped it
                logger.warning(
                    "database %s: what %s has written to %s is left out: it is neither here nor there any more",
                    self.database.name,
                    self.node,
                    ", ".join(sorted(gone)),
                )
                transactions = only_of(transactions, frozenset({entry.table for each in transactions for entry in each.entries} - gone))

    def _add(self, more: MergeFigures) -> None:
        figures = self.figures
        figures.writes += more.writes
        figures.late += more.late
        figures.void += more.void
        figures.conflicts += more.conflicts
        for conflict in more.found:
            logger.error(
                "database %s: two nodes have accepted one value of the unique attribute %s.%s",
                self.database.name,
                conflict.table,
                conflict.attribute,
            )


def applied_before(database: Database, origin: Origin, former: tuple[bytes, int] | None) -> int:
    """LSN up to which what the origin has committed is applied. `former`: of it, see `ReplicationState.former`: what is applied of that counts."""
    state, snapshot = database.replication, database.snapshot()
    assert state is not None
    found = state.applied(snapshot, origin)
    if not found and former is not None:
        found = min(applied_before(database, Origin(origin.node, former[0]), None), former[1])
    own = state.former(snapshot)
    if own is not None and (origin.node, origin.incarnation) == (database.node, own[0]):
        found = max(found, own[1])
    return found


def _words(end: End) -> str:
    if isinstance(end, Lost):
        return end.reason
    if isinstance(end, Gone):
        return "it has no stream for it"
    return "its stream was made anew, or was shortened"
