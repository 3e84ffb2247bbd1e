"""Replication of this node with others: its engine, an outbox for each database, and the peers (spec: replication).

Of the instances over one data directory the one that leads does it; what it applies the others see as they see any commit of a sibling. Which nodes are known
is read from the registry, here and whenever it changes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from svc import __version__
from svc.analytics.exposed import LAG
from svc.analytics.exposition import Family
from svc.clock import Clock
from svc.cluster.admission import inbox_of
from svc.cluster.blob_source import BLOB, BlobSource
from svc.cluster.blob_transfers import BlobTransfers
from svc.cluster.certificates import certificate_check, engine_context, public_authorities
from svc.cluster.client import Address, Connection, Unavailable
from svc.cluster.confirmation import Confirmations
from svc.cluster.copy_offers import COPY, COPY_PIECE, CopyOffers
from svc.cluster.definitions import DEFINITIONS, DefinitionAnswers
from svc.cluster.engine import Engine, EngineSetup
from svc.cluster.engine_config import EnginePort
from svc.cluster.exchange import Exchange
from svc.cluster.external_engine import ExternalEngine, ExternalServers
from svc.cluster.figures import replication_families
from svc.cluster.identity import Trust
from svc.cluster.link import cancelled
from svc.cluster.outbox import Outbox
from svc.cluster.own_stream import EngineStream
from svc.cluster.peer import Peer
from svc.cluster.positions import NOTICE, Positions
from svc.cluster.registry import NodeAddress, Registry, names_brought_back, remove_again
from svc.cluster.replicated_database import ReplicatedDatabase, is_analytics, is_sent
from svc.cluster.requests import NodeRequests
from svc.errors import NotFound, Problem, ServerError
from svc.logs import Logger
from svc.store import Store, Table, Transaction
from svc.store.database import Database
from svc.store.system import SYSTEM

METHOD = "replication"  # of its metrics
STREAM_BYTES = 4 << 30  # of each stream: above, the engine drops the oldest messages


Record = Callable[[int, str, str, str, str], None]
"""(bytes, metric, path, method, type): `analytics.Recorder.record`."""


Gauge = Callable[[Callable[[], dict[str, Any] | None], str, str, str, str], None]
"""(fields, metric, path, method, type): `analytics.Recorder.gauge`."""


def _do_not_record(*values: object) -> None:
    pass


class ReplicationOptions(msgspec.Struct, frozen=True):
    """`node`: the own name. `port`: where the engine listens. `directory`: `<root>/replication`. `kept`: seconds for which streams keep messages.
    `is_replicated`: whether a database is, by name. `public`: certificates of public authorities are accepted. `fail_over`: what one node does not give is
    asked of another one. `external`: an engine that runs elsewhere, in the place of an own one. `analytics`: aggregates are sent."""

    node: str
    port: EnginePort
    directory: Path
    kept: float
    is_replicated: Callable[[str], bool]
    public: bool = True
    record: Record = _do_not_record
    gauge: Gauge = _do_not_record
    program: Path | None = None
    fail_over: bool = True
    external: ExternalServers | None = None
    analytics: bool = False


class Replication:
    """`begin` and `end` are for the process that leads; both may follow each other again. Used on the thread of the loop alone."""

    def __init__(
        self,
        store: Store,
        options: ReplicationOptions,
        log: Logger,
        clock: Clock,
        address_of: Callable[[Mapping[str, Any]], NodeAddress | None],
    ) -> None:
        """`address_of`: of a record of the registry; None: it has no usable address."""
        self.databases: dict[str, ReplicatedDatabase] = {}
        self.outboxes: dict[str, Outbox] = {}  # of these
        self.peers: dict[str, Peer] = {}
        self.engine: Engine | ExternalEngine | None = None
        self._store = store
        self._options = options
        self._log = log
        self._clock = clock
        self._registry = Registry(store, options.node, address_of, is_plain=options.port.certificate is None)
        self._trust = Trust(options.node)
        self._addresses: dict[str, tuple[NodeAddress, Exchange]] = {}
        self._engine_up = asyncio.Event()
        self.requests = NodeRequests(options.node)
        self.positions = Positions(clock, __version__, self.outboxes, self.peers)
        self.requests.hear(NOTICE, self.positions.hear)
        self.confirmations = Confirmations(self.outboxes, self.peers, self.positions)
        self.positions.on_confirmed.append(self.confirmations.look)
        self._offers = CopyOffers(options.node, self._database_of, self._position_of, is_sent, self._may_read)
        self.requests.answer(COPY, self._offers.copy)
        self.requests.answer(COPY_PIECE, self._offers.piece)
        self.requests.answer(DEFINITIONS, DefinitionAnswers(self._database_of, is_sent, self._may_read).answer)
        self._working: list[asyncio.Task[None]] = []
        self.blob_source = BlobSource(self.outboxes, clock, is_sent)
        self.blob_source.on_sent = partial(self._transferred, "bytes-sent")
        self.requests.answer(BLOB, self.blob_source.answer)
        self.blob_transfers = BlobTransfers(self.outboxes, self.peers, clock, fail_over=options.fail_over)
        self.blob_transfers.on_received = partial(self._transferred, "bytes-received")
        self._closing: set[asyncio.Task[None]] = set()

    # --- for the owner -----------------------------------------------------------------------------------------------------------------

    def begin(self) -> None:
        """Start the engine, publish, and read from the nodes that are known. Never raises: what hinders it is logged."""
        options = self._options
        if options.public:
            self._registry.public = public_authorities()
        self._trust = self._registry.trust()
        self.engine = self._make_engine()
        self.engine.start()
        self.look_at_databases()
        self.registry_changed(None)
        loop = asyncio.get_running_loop()
        self._working = [loop.create_task(self.positions.run()), loop.create_task(self.blob_transfers.run())]

    async def end(self) -> None:
        """Stop all of it; what is under way is done again by whoever leads next. Harmless when done."""
        engine, self.engine = self.engine, None
        working, self._working = self._working, []
        for task in [*self._closing, *working]:
            await cancelled(task)
        for database in self.databases.values():
            await database.close()
        self.positions.close()
        await self.blob_transfers.close()
        for peer in self.peers.values():
            await peer.close()
        self.peers.clear()
        self.outboxes.clear()
        self.databases.clear()
        self._offers.close()
        self._engine_up.clear()
        await self.requests.close()
        if engine is not None:
            engine.stop()
            await engine.wait_stopped()

    def committed(self, database: Database) -> None:
        """Some process has committed to a database: after each commit, or several."""
        outbox = self.outboxes.get(database.name)
        if outbox is not None:
            outbox.wake()

    def registry_changed(self, names: Iterable[str] | None = ()) -> None:
        """Records of nodes or certificates were written. `names`: of the nodes, None: of any."""
        if self.engine is None:
            return
        if back := names_brought_back(self._store.databases[SYSTEM], self._options.node, names):
            transaction = self._store.begin()
            for name in back:
                remove_again(self._store.databases[SYSTEM].tables, transaction, name)
            self._close(self._remove_again(transaction, back))
        before, trust = self._trust, self._registry.trust()
        if trust != before:
            self._trust = trust
            self.engine.set_trust(trust)
        # Those that are connected to another one's engine cut themselves off from one that is not trusted any more.
        self._look_at_nodes({name for name in self.peers if trust.nodes.get(name) != before.nodes.get(name)})

    async def _remove_again(self, transaction: Transaction, names: list[str]) -> None:
        try:
            await transaction.apply_in_turn()
            self._log.warn(f"removed nodes that have entered themselves again are removed: {', '.join(names)!r:.500}")
        except Problem as problem:
            self._log.error(f"removed nodes that have entered themselves again cannot be removed: {problem}")

    def set_routes(self, nodes: Sequence[Mapping[str, Any]]) -> None:
        """Nodes that are known by the configuration: records as of the registry, whose own counts where it has one of that name."""
        self._registry.routes = tuple(nodes)
        self.registry_changed()

    def look_at_databases(self) -> None:
        """A database was made, or dropped, or is another one now: restored. That is begun with at the next look, when all that belongs to the former one has
        ended."""
        if self.engine is None:
            return
        found = {name: database for name, database in self._store.databases.items() if self._options.is_replicated(name)}
        former = [name for name, each in self.databases.items() if found.get(name) is not each.database]
        for name in former:
            del self.outboxes[name]
            self._close(self.databases.pop(name).close())
            for peer in self.peers.values():
                self._close(peer.remove(name))
        for name in found.keys() - self.databases.keys() - set(former):
            try:
                self._add_database(found[name])
            except (Problem, ValueError) as error:
                self._log.error(f"database {name} is not replicated: {error}")

    # --- its parts ---------------------------------------------------------------------------------------------------------------------

    def _add_database(self, database: Database) -> None:
        options, name = self._options, database.name
        found = ReplicatedDatabase(
            database,
            options.node,
            options.directory / "copies",
            self._log,
            self._own_engine,
            self._open_stream,
            self,
            fail_over=options.fail_over,
        )
        found.outbox.on_sent = lambda size: options.record(size, "bytes-sent", f"{options.node}.{name}", METHOD, "egress")
        found.outbox.on_published = partial(self.confirmations.look, name)
        self.databases[name], self.outboxes[name] = found, found.outbox
        found.start()
        for peer in self.peers.values():
            self._read_from(peer, found)

    def _read_from(self, peer: Peer, found: ReplicatedDatabase) -> None:
        name, exchange = found.database.name, self._addresses[peer.name][1]
        if found.is_paused or not exchange.reads(name):
            return
        try:
            peer.add(found.database, exchange.tables(name), exchange.since_ms)
        except ValueError as error:  # a name that no stream can have
            self._log.error(f"database {name} is not read from {peer.name!r:.100}: {error}")
            return
        self._options.gauge(partial(self._measure_lag, peer.name, name), LAG, f"{peer.name}.{name}", METHOD, "ingress")

    async def purge(self, database: str, *, keep: int | None = None, seq: int | None = None) -> None:
        """Shorten the stream with what this node has written to a database: see `ReplicatedDatabase`. Nodes that are behind copy the database. Raises NotFound,
        ServerError."""
        found = self.databases.get(database)
        connection = None if self.engine is None else self.engine.connection
        if found is None:
            raise NotFound(f"database '{database}' is not replicated")
        if connection is None:
            raise ServerError("The engine of this node does not run", 503, "UNREACHABLE")
        await found.purge(connection, keep=keep, seq=seq)

    def is_published(self, table: Table) -> bool:
        """Whether its entries go into the own stream."""
        return is_sent(table) or (self._options.analytics and is_analytics(table))

    # --- copies ------------------------------------------------------------------------------------------------------------------------

    def _needs_copy(self, database: str, node: str) -> None:
        found = self.databases.get(database)
        if found is not None:
            found.copying.want(node)

    async def pause(self, database: Database) -> None:
        """When it returns nothing of other nodes is applied to the database."""
        found = self.databases.get(database.name)
        if found is not None:
            found.is_paused = True
        for peer in list(self.peers.values()):
            await peer.remove(database.name)

    def go_on(self, database: Database) -> None:
        """It is no mixture any more."""
        found = self.databases.get(database.name)
        if found is not None and found.is_paused:
            found.is_paused = False
            self.blob_transfers.look(database.name)
            for peer in self.peers.values():
                self._read_from(peer, found)

    def sources_of(self, database: str) -> Mapping[str, Peer]:
        """Nodes of which the database may be copied: all that they write to it is read."""
        return {name: peer for name, peer in self.peers.items() if self._addresses[name][1].is_whole(database)}

    def _may_read(self, node: str) -> bool:
        known = self._trust.nodes.get(node)
        return known is not None and known.may_read

    def _database_of(self, name: str) -> Database | None:
        found = self.databases.get(name)
        return None if found is None else found.database

    def _position_of(self, database: str) -> tuple[str, str, int] | None:
        found = self.databases.get(database)
        return None if found is None else found.position

    # --- the engine --------------------------------------------------------------------------------------------------------------------

    def _make_engine(self) -> Engine | ExternalEngine:
        options = self._options
        up, down = self._engine_is_up, lambda reason: self._engine_up.clear()
        if options.external is not None:
            return ExternalEngine(options.external, f"svc {options.node}", inbox_of(options.node), self._log, on_up=up, on_down=down)
        setup = EngineSetup(options.node, options.port, options.directory, options.program)
        return Engine(setup, self._trust, self._log, self._clock, on_up=up, on_down=down)

    def _engine_is_up(self, connection: Connection) -> None:
        self._engine_up.set()
        self._close(self._answer_requests(connection))

    async def _answer_requests(self, connection: Connection) -> None:
        try:
            await self.requests.open(connection)
        except Unavailable as error:  # the engine is lost again
            self._log.debug(f"requests of other nodes are not answered: {error}")

    async def _own_engine(self) -> Connection:
        """A connection to it, when there is one."""
        while True:
            await self._engine_up.wait()
            connection = None if self.engine is None else self.engine.connection
            if connection is not None:
                return connection
            await asyncio.sleep(0.01)

    async def _open_stream(self, database: str) -> EngineStream:
        connection, options = await self._own_engine(), self._options
        return EngineStream(
            connection,
            database,
            options.node,
            max_age=options.kept,
            max_bytes=STREAM_BYTES,
            replicas=1 if options.external is None else options.external.replicas,
            on_refused=self._restart_engine,
        )

    def _restart_engine(self, reason: str) -> bool:
        return self.engine is not None and self.engine.restart(reason)

    # --- other nodes -------------------------------------------------------------------------------------------------------------------

    def _look_at_nodes(self, changed: Container[str] = ()) -> None:
        """Begin with nodes that are new, end with those that are not known any more, or are somewhere else now. `changed`: they begin again."""
        found = self._registry.reached()
        for name in list(self.peers):
            if name in changed or found.get(name) != self._addresses.get(name):
                self._close(self.peers.pop(name).close())
        self._addresses = found
        for name in found.keys() - self.peers.keys():
            peer = self.peers[name] = Peer(
                name, self._options.node, partial(self._connect, name, found[name][0]), self._log, self._needs_copy
            )
            peer.on_connected = partial(self._connected, name)
            peer.on_received = partial(self._received, name)
            peer.on_applied = partial(self._applied, name)
            for database in self.databases.values():
                self._read_from(peer, database)
            peer.start()

    async def _connect(self, name: str, address: NodeAddress) -> Connection:
        port, trust = self._options.port, self._trust
        node, external = self._options.node, self._options.external
        if external is not None:
            return await external.connect(f"svc {node} reads {name}", inbox_of(node))
        if port.certificate is None or port.key is None:
            return await Connection.open(Address(address.host, address.port), f"svc {node}", inbox_of(node))
        loop = asyncio.get_running_loop()
        context = await loop.run_in_executor(None, engine_context, port.certificate, port.key, trust.anchors(name))
        return await Connection.open(
            Address(address.host, address.port, context, certificate_check(trust, name)), f"svc {node}", inbox_of(node)
        )

    def _measure_lag(self, node: str, database: str) -> dict[str, Any] | None:
        """Of what a node has written, here; None while it is not known, or not read."""
        peer = self.peers.get(node)
        if peer is None or database not in peer.inboxes:
            return None
        lag, _ = self.positions.lag(node, database)
        if lag.entries is None or lag.seconds is None:
            return None
        return {"ms": round(lag.seconds * 1000, 1), "entries": lag.entries}

    def _received(self, node: str, database: str, size: int) -> None:
        self._options.record(size, "bytes-received", f"{node}.{database}", METHOD, "ingress")

    def _connected(self, node: str) -> None:
        self.positions.greet(node)
        self.blob_transfers.connected()

    def _applied(self, node: str, database: str) -> None:
        self.positions.applied(node, database)
        self.blob_transfers.look(database)

    def _transferred(self, metric: str, node: str, database: str, size: int) -> None:
        self._options.record(size, metric, f"{node}.{database}", METHOD, "blob")

    def families(self) -> list[Family]:
        """For `/metrics`."""
        refused = 0 if self.engine is None else self.engine.refused
        return replication_families(self.outboxes, self.peers, self.positions, refused)

    def _close(self, work: Any) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)
