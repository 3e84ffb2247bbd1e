"""One database of this node that takes part: its log goes out, what is missing is copied, and what was published is noted (spec: replication §5, §11, §16)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from pathlib import Path
from typing import Any, Protocol

from svc.cluster.client import Connection, Unavailable
from svc.cluster.copying import DatabaseCopying
from svc.cluster.inbox import Inbox, Reader
from svc.cluster.link import cancelled
from svc.cluster.names import stream_name
from svc.cluster.outbox import Outbox
from svc.cluster.own_stream import EngineStream
from svc.cluster.peer import Peer
from svc.cluster.reader import End, Lost, StreamReader
from svc.cluster.streams import StreamFailed, maybe_stream, purge_stream
from svc.errors import Problem, ServerError
from svc.logs import Logger
from svc.store import Table
from svc.store.database import Database
from svc.store.system import ANALYTICS_TABLE, CERTIFICATE_TABLE, DEPLOYMENT_TABLE, NODE_TABLE, SCHEDULER_STATE_TABLE, SYSTEM
from svc.store.writing.published_position import note_published

SHARED_SYSTEM_TABLES = frozenset((NODE_TABLE, CERTIFICATE_TABLE, SCHEDULER_STATE_TABLE, DEPLOYMENT_TABLE))
NOTE_SECONDS = 5.0  # between two notes of what is published


def is_sent(table: Table) -> bool:
    """Whether what is written to a table goes to other nodes (spec: replication §5), and is in copies."""
    if table.database.name == SYSTEM:
        return table.name in SHARED_SYSTEM_TABLES
    return table.definition.replicate


def is_analytics(table: Table) -> bool:
    """Whether it has the aggregates, which are sent if that is wanted. No copy has them: it would be large, and lack rows that this node has not sent."""
    return table.name == ANALYTICS_TABLE and table.database.name == SYSTEM


class Surroundings(Protocol):
    """What a database asks of whoever replicates them all, and reads the streams of the other nodes."""

    def is_published(self, table: Table) -> bool:
        """Whether its entries go into the own stream."""

    def sources_of(self, database: str) -> Mapping[str, Peer]:
        """Nodes of which the database may be copied."""

    async def pause(self, database: Database) -> None:
        """When it returns nothing of other nodes is applied to the database."""

    def go_on(self, database: Database) -> None: ...


class ReplicatedDatabase:
    """`is_paused`: it is being replaced by a copy, and nothing of other nodes may be applied. Used on the thread of the loop alone."""

    def __init__(
        self,
        database: Database,
        node: str,
        directory: Path,
        log: Logger,
        own_engine: Callable[[], Awaitable[Connection]],
        open_stream: Callable[[str], Awaitable[EngineStream]],
        others: Surroundings,
        *,
        fail_over: bool,
    ) -> None:
        """`node`: the own name. `directory`: for copies. `own_engine`: waits for a connection to it. `open_stream`: of the database with this name.
        Raises Problem; ValueError for names that no stream can have."""
        name = self._stream = stream_name(database.name, node)
        state = database.enable_replication()
        snapshot = database.snapshot()
        self.database = database
        self.outbox = Outbox(
            database,
            node,
            state.incarnation(snapshot),
            lambda: open_stream(database.name),
            is_sent=others.is_published,
            noted=lambda: state.published(database.snapshot()),
            former=state.former(snapshot),
        )
        self.copying = DatabaseCopying(
            database,
            directory,
            lambda: others.sources_of(database.name),
            lambda: others.pause(database),
            lambda: others.go_on(database),
            own_stream=name,
            fail_over=fail_over,
        )
        self.is_paused = self.copying.is_mixed
        self._was_restored = state.former(snapshot) is not None
        self._node = node
        self._log = log
        self._own_engine = own_engine
        self._tasks: list[asyncio.Task[None]] = []

    def start(self) -> None:
        work: list[Coroutine[Any, Any, None]] = [self.outbox.run(), self.copying.run(), self._note_published()]
        if self._was_restored and not self.is_paused:
            work.append(self._read_own())
        self._tasks = [asyncio.get_running_loop().create_task(each) for each in work]

    async def close(self) -> None:
        """Harmless when done."""
        tasks, self._tasks = self._tasks, []
        for task in tasks:
            await cancelled(task)

    @property
    def position(self) -> tuple[str, str, int] | None:
        """(the own stream, when it was made, sequence of its last message); None: that is not known."""
        return None if self.outbox.position is None else (self._stream, *self.outbox.position)

    async def purge(self, connection: Connection, *, keep: int | None, seq: int | None) -> None:
        """Shorten the stream to `keep` messages, or to those from sequence `seq` on. Its newest message stays, which tells what was published. Raises
        ServerError."""
        try:
            info = await maybe_stream(connection, self._stream)
            if info is None or not info.messages:
                return
            below = info.last + 1 - max(keep, 1) if keep is not None else info.last if seq is None else min(seq, info.last)
            dropped = await purge_stream(connection, self._stream, below=below) if below > info.first else 0
        except (StreamFailed, Unavailable) as error:
            raise ServerError(f"The stream could not be shortened: {error}", 503, "UNREACHABLE") from None
        self._log.info(f"database {self.database.name}: {dropped} messages were dropped from its stream")

    async def _note_published(self) -> None:
        """Now and then, so that the log can be shortened up to there."""
        database = self.database
        assert database.replication is not None
        while True:
            await asyncio.sleep(NOTE_SECONDS)
            if self.outbox.published > database.replication.published(database.snapshot()):
                try:
                    await note_published(database, self.outbox.published)
                except Problem as problem:
                    self._log.debug(f"database {database.name}: what is published is not noted: {problem}")

    async def _read_own(self) -> None:
        """What this node had written after the backup of which the database was restored is in its own stream."""

        async def open_reader(start: int, created: str | None) -> Reader | End:
            connection = await self._own_engine()
            if connection.is_closed:
                return Lost(connection.reason)
            return await StreamReader.open(connection, self._stream, start, created=created)

        async def no_definitions(names: tuple[str, ...]) -> Mapping[str, bytes]:
            return {}  # tables that have been dropped since

        await Inbox(self.database, self._node, self._stream, open_reader, no_definitions).run()
