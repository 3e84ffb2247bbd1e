"""Replication of this node with others: its engine, an outbox for each database, and the peers (spec: replication).

Of the instances over one data directory the one that leads does it; what it applies the others see as they see any commit of a sibling. Which nodes are known
is read from the registry, here and whenever it changes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from svc import __version__
from svc.analytics.exposition import Family
from svc.clock import Clock
from svc.cluster.admission import inbox_of
from svc.cluster.blob_source import BLOB, BlobSource
from svc.cluster.blob_transfers import BlobTransfers
from svc.cluster.certificates import certificate_check, engine_context, public_authorities
from svc.cluster.client import Address, Connection, Unavailable
from svc.cluster.confirmation import Confirmations
from svc.cluster.copy_offers import COPY, COPY_PIECE, CopyOffers
from svc.cluster.copying import DatabaseCopying
from svc.cluster.definitions import DEFINITIONS, DefinitionAnswers
from svc.cluster.engine import Engine, EngineSetup
from svc.cluster.engine_config import EnginePort
from svc.cluster.exchange import Exchange, exchange_of
from svc.cluster.external_engine import ExternalEngine, ExternalServers
from svc.cluster.figures import replication_families
from svc.cluster.identity import KnownNode, Trust, serial_numbers
from svc.cluster.inbox import Inbox, Reader
from svc.cluster.link import cancelled
from svc.cluster.names import stream_name
from svc.cluster.outbox import Outbox
from svc.cluster.own_stream import EngineStream
from svc.cluster.peer import Peer
from svc.cluster.positions import NOTICE, Positions
from svc.cluster.reader import End, Lost, StreamReader
from svc.cluster.requests import NodeRequests
from svc.cluster.streams import StreamFailed, maybe_stream, purge_stream
from svc.errors import ClientError, NotFound, Problem, ServerError
from svc.logs import Logger
from svc.store import Store, Table
from svc.store.database import Database
from svc.store.system import CERTIFICATE_TABLE, DEPLOYMENT_TABLE, NODE_TABLE, SCHEDULER_STATE_TABLE, SYSTEM, node_certificate_name
from svc.store.values.records import decode
from svc.store.writing.published_position import note_published

SHARED_SYSTEM_TABLES = frozenset((NODE_TABLE, CERTIFICATE_TABLE, SCHEDULER_STATE_TABLE, DEPLOYMENT_TABLE))
METHOD = "replication"  # of its metrics
_LOCAL = frozenset(("127.0.0.1", "::1"))
NOTE_SECONDS = 5.0  # between two notes of what is published
STREAM_BYTES = 4 << 30  # of each stream: above, the engine drops the oldest messages


class NodeAddress(msgspec.Struct, frozen=True):
    """Of a node's engine."""

    host: str
    port: int


Record = Callable[[int, str, str, str, str], None]
"""(bytes, metric, path, method, type): `analytics.Recorder.record`."""


def _do_not_record(*values: object) -> None:
    pass


class ReplicationOptions(msgspec.Struct, frozen=True):
    """`node`: the own name. `port`: where the engine listens. `directory`: `<root>/replication`. `kept`: seconds for which streams keep messages.
    `is_replicated`: whether a database is, by name. `public`: certificates of public authorities are accepted. `fail_over`: what one node does not give is
    asked of another one. `external`: an engine that runs elsewhere, in the place of an own one."""

    node: str
    port: EnginePort
    directory: Path
    kept: float
    is_replicated: Callable[[str], bool]
    public: bool = True
    record: Record = _do_not_record
    program: Path | None = None
    fail_over: bool = True
    external: ExternalServers | None = None


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
        self.outboxes: dict[str, Outbox] = {}
        self.peers: dict[str, Peer] = {}
        self.engine: Engine | ExternalEngine | None = None
        self._store = store
        self._options = options
        self._log = log
        self._clock = clock
        self._address_of = address_of
        self._trust = Trust(options.node)
        self._routed: tuple[Mapping[str, Any], ...] = ()
        self._addresses: dict[str, tuple[NodeAddress, Exchange]] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._engine_up = asyncio.Event()
        self.requests = NodeRequests(options.node)
        self.positions = Positions(clock, __version__, self.outboxes, self.peers)
        self.requests.hear(NOTICE, self.positions.hear)
        self.confirmations = Confirmations(self.outboxes, self.peers, self.positions)
        self.positions.on_confirmed.append(self.confirmations.look)
        self.copying: dict[str, DatabaseCopying] = {}
        self._paused: set[str] = set()  # databases that are being replaced by a copy
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
        self._public = ""

    # --- for the owner -----------------------------------------------------------------------------------------------------------------

    def begin(self) -> None:
        """Start the engine, publish, and read from the nodes that are known. Never raises: what hinders it is logged."""
        options = self._options
        if options.public:
            self._public = public_authorities()
        self._trust = self._read_trust()
        self.engine = self._make_engine()
        self.engine.start()
        self.look_at_databases()
        self._look_at_nodes()
        loop = asyncio.get_running_loop()
        self._working = [loop.create_task(self.positions.run()), loop.create_task(self.blob_transfers.run())]

    async def end(self) -> None:
        """Stop all of it; what is under way is done again by whoever leads next. Harmless when done."""
        engine, self.engine = self.engine, None
        working, self._working = self._working, []
        for task in [*self._tasks.values(), *self._closing, *working]:
            await cancelled(task)
        self.positions.close()
        await self.blob_transfers.close()
        self._tasks.clear()
        for peer in self.peers.values():
            await peer.close()
        self.peers.clear()
        self.outboxes.clear()
        self.copying.clear()
        self._paused.clear()
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

    def registry_changed(self) -> None:
        """Records of nodes or certificates were written."""
        if self.engine is None:
            return
        before, trust = self._trust, self._read_trust()
        if trust != before:
            self._trust = trust
            self.engine.set_trust(trust)
        # Those that are connected to another one's engine cut themselves off from one that is not trusted any more.
        self._look_at_nodes({name for name in self.peers if trust.nodes.get(name) != before.nodes.get(name)})

    def set_routes(self, nodes: Sequence[Mapping[str, Any]]) -> None:
        """Nodes that are known by the configuration: records as of the registry, whose own counts where it has one of that name."""
        self._routed = tuple(nodes)
        self.registry_changed()

    def look_at_databases(self) -> None:
        """A database was made, or dropped, or is another one now: restored. That is begun with at the next look, when all that belongs to the former one has
        ended."""
        if self.engine is None:
            return
        found = {name: database for name, database in self._store.databases.items() if self._options.is_replicated(name)}
        former = [name for name, outbox in self.outboxes.items() if found.get(name) is not outbox.database]
        for name in former:
            self.outboxes.pop(name)
            self._close(cancelled(self._tasks.pop(name)))
            self._close(cancelled(self._tasks.pop(_copy_task(name))))
            self._close(cancelled(self._tasks.pop(_note_task(name))))
            if _own_task(name) in self._tasks:
                self._close(cancelled(self._tasks.pop(_own_task(name))))
            self.copying.pop(name)
            self._paused.discard(name)
            for peer in self.peers.values():
                self._close(peer.remove(name))
        for name in found.keys() - self.outboxes.keys() - set(former):
            try:
                self._add_database(found[name])
            except (Problem, ValueError) as error:
                self._log.error(f"database {name} is not replicated: {error}")

    # --- its parts ---------------------------------------------------------------------------------------------------------------------

    def _add_database(self, database: Database) -> None:
        options = self._options
        stream_name(database.name, options.node)  # or ValueError
        state = database.enable_replication()
        outbox = Outbox(
            database,
            options.node,
            state.incarnation(database.snapshot()),
            partial(self._open_stream, database.name),
            is_sent=is_sent,
            noted=lambda: state.published(database.snapshot()),
            former=state.former(database.snapshot()),
        )
        outbox.on_sent = lambda size: options.record(size, "bytes-sent", f"{options.node}.{database.name}", METHOD, "egress")
        outbox.on_published = partial(self.confirmations.look, database.name)
        self.outboxes[database.name] = outbox
        copying = DatabaseCopying(
            database,
            options.directory / "copies",
            partial(self._sources_of, database.name),
            partial(self._pause, database),
            partial(self._go_on, database),
            own_stream=stream_name(database.name, options.node),
            fail_over=options.fail_over,
        )
        self.copying[database.name] = copying
        if copying.is_mixed:
            self._paused.add(database.name)
        loop = asyncio.get_running_loop()
        self._tasks[database.name] = loop.create_task(outbox.run())
        self._tasks[_copy_task(database.name)] = loop.create_task(copying.run())
        if state.former(database.snapshot()) is not None and database.name not in self._paused:
            self._tasks[_own_task(database.name)] = loop.create_task(self._read_own(database))
        self._tasks[_note_task(database.name)] = loop.create_task(self._note_published(outbox))
        for peer in self.peers.values():
            self._read_from(peer, database)

    def _read_from(self, peer: Peer, database: Database) -> None:
        exchange = self._addresses[peer.name][1]
        if database.name in self._paused or not exchange.reads(database.name):
            return
        try:
            peer.add(database, exchange.tables(database.name), exchange.since_ms)
        except ValueError as error:  # a name that no stream can have
            self._log.error(f"database {database.name} is not read from {peer.name!r:.100}: {error}")

    async def _note_published(self, outbox: Outbox) -> None:
        """Now and then, so that the log can be shortened up to there."""
        database = outbox.database
        assert database.replication is not None
        while True:
            await asyncio.sleep(NOTE_SECONDS)
            if outbox.published > database.replication.published(database.snapshot()):
                try:
                    await note_published(database, outbox.published)
                except Problem as problem:
                    self._log.debug(f"database {database.name}: what is published is not noted: {problem}")

    async def purge(self, database: str, *, keep: int | None = None, seq: int | None = None) -> None:
        """Shorten the stream with what this node has written to a database: to `keep` messages, or to those from sequence `seq` on. Its newest message stays,
        which tells what was published. Nodes that are behind copy the database. Raises NotFound, ServerError."""
        connection = None if self.engine is None else self.engine.connection
        if database not in self.outboxes:
            raise NotFound(f"database '{database}' is not replicated")
        if connection is None:
            raise ServerError("The engine of this node does not run", 503, "UNREACHABLE")
        name = stream_name(database, self._options.node)
        try:
            info = await maybe_stream(connection, name)
            if info is None or not info.messages:
                return
            below = info.last + 1 - max(keep, 1) if keep is not None else info.last if seq is None else min(seq, info.last)
            dropped = await purge_stream(connection, name, below=below) if below > info.first else 0
        except (StreamFailed, Unavailable) as error:
            raise ServerError(f"The stream could not be shortened: {error}", 503, "UNREACHABLE") from None
        self._log.info(f"database {database}: {dropped} messages were dropped from its stream")

    async def _read_own(self, database: Database) -> None:
        """What this node had written after the backup of which the database was restored is in its own stream."""
        node = self._options.node
        name = stream_name(database.name, node)

        async def open_reader(start: int, created: str | None) -> Reader | End:
            await self._engine_up.wait()
            connection = None if self.engine is None else self.engine.connection
            return (
                Lost("the engine does not run") if connection is None else await StreamReader.open(connection, name, start, created=created)
            )

        async def no_definitions(names: tuple[str, ...]) -> Mapping[str, bytes]:
            return {}  # tables that have been dropped since

        await Inbox(database, node, name, open_reader, no_definitions).run()

    # --- copies ------------------------------------------------------------------------------------------------------------------------

    def _needs_copy(self, database: str, node: str) -> None:
        copying = self.copying.get(database)
        if copying is not None:
            copying.want(node)

    async def _pause(self, database: Database) -> None:
        """When it returns nothing of other nodes is applied to the database."""
        self._paused.add(database.name)
        for peer in list(self.peers.values()):
            await peer.remove(database.name)

    def _go_on(self, database: Database) -> None:
        if database.name in self._paused and database.name in self.outboxes:
            self._paused.discard(database.name)
            self.blob_transfers.look(database.name)
            for peer in self.peers.values():
                self._read_from(peer, database)

    def _sources_of(self, database: str) -> dict[str, Peer]:
        """Nodes of which the database may be copied: all that they write to it is read."""
        return {name: peer for name, peer in self.peers.items() if self._addresses[name][1].is_whole(database)}

    def _may_read(self, node: str) -> bool:
        known = self._trust.nodes.get(node)
        return known is not None and known.may_read

    def _database_of(self, name: str) -> Database | None:
        outbox = self.outboxes.get(name)
        return None if outbox is None else outbox.database

    def _position_of(self, database: str) -> tuple[str, str, int] | None:
        outbox = self.outboxes.get(database)
        return None if outbox is None or outbox.position is None else (stream_name(database, self._options.node), *outbox.position)

    # --- its parts, continued ----------------------------------------------------------------------------------------------------------

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

    async def _open_stream(self, database: str) -> EngineStream:
        while True:
            await self._engine_up.wait()
            engine = self.engine
            connection = None if engine is None else engine.connection
            if engine is not None and connection is not None:
                options = self._options
                return EngineStream(
                    connection,
                    database,
                    options.node,
                    max_age=options.kept,
                    max_bytes=STREAM_BYTES,
                    replicas=1 if options.external is None else options.external.replicas,
                    on_refused=engine.restart,
                )
            await asyncio.sleep(0.01)

    def _look_at_nodes(self, changed: Container[str] = ()) -> None:
        """Begin with nodes that are new, end with those that are not known any more, or are somewhere else now. `changed`: they begin again."""
        found: dict[str, tuple[NodeAddress, Exchange]] = {}
        for name, record in self._nodes().items():
            address = self._address_of(record) if name != self._options.node else None
            if address is not None:
                found[name] = address, exchange_of(record)
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
            for outbox in self.outboxes.values():
                self._read_from(peer, outbox.database)
            peer.start()

    def _addressed(self, records: Iterable[Mapping[str, Any]]) -> dict[str, NodeAddress]:
        """The addresses of other nodes, by name."""
        found = {each["name"]: self._address_of(each) for each in records if each["name"] != self._options.node}
        return {name: address for name, address in found.items() if address is not None}

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

    # --- the registry ------------------------------------------------------------------------------------------------------------------

    def _records(self, table: str) -> list[dict[str, Any]]:
        """Those that can be of use: others have written them too."""
        database = self._store.databases[SYSTEM]
        records = (decode(raw) for _, raw in database.tables[table].scan(database.snapshot()))
        return [record for record in records if isinstance(record.get("name"), str)]

    def _nodes(self) -> dict[str, Mapping[str, Any]]:
        """All that is known of nodes, by name: what the registry does not say of one, its route may say. A route may have an address for a name."""
        found: dict[str, Mapping[str, Any]] = {record["name"]: record for record in self._records(NODE_TABLE)}
        taken = [self._address_of(record) for record in found.values()]
        for route in self._routed:
            record = found.get(route["name"])
            if record is not None:
                found[route["name"]] = {**route, **{name: value for name, value in record.items() if value is not None}}
            elif self._address_of(route) not in taken:
                found[route["name"]] = route
        return found

    def _read_trust(self) -> Trust:
        nodes = self._nodes()
        found = trust_of(self._options.node, nodes.values(), self._records(CERTIFICATE_TABLE), public=self._public)
        return found if self._options.port.certificate is not None else self._with_addresses(found, nodes.values())

    def _with_addresses(self, trust: Trust, records: Iterable[Mapping[str, Any]]) -> Trust:
        """For a plain port: nodes come from the addresses that they are read at."""
        nodes = dict(trust.nodes)
        for name, address in self._addressed(records).items():
            nodes[name] = replace(nodes[name], addresses=_LOCAL if address.host == "localhost" else frozenset((address.host,)))
        return replace(trust, nodes=nodes)


def _copy_task(database: str) -> str:
    """Its name among tasks: no database has it."""
    return f"copy of {database}"


def _own_task(database: str) -> str:
    return f"own log of {database}"


def _note_task(database: str) -> str:
    return f"note of {database}"


def is_sent(table: Table) -> bool:
    """Whether what is written to a table goes to other nodes (spec: replication §5)."""
    if table.database.name == SYSTEM:
        return table.name in SHARED_SYSTEM_TABLES
    return table.definition.replicate


def trust_of(node: str, nodes: Iterable[Mapping[str, Any]], certificates: Sequence[Mapping[str, Any]], *, public: str) -> Trust:
    """Who is known by records of the registry and of certificates. `public`: PEM of the public authorities, "" if they are not accepted."""
    known: dict[str, KnownNode] = {}
    for record in nodes:
        name = record["name"]
        if name == node:
            continue
        revoked = _serials(record.get("revoked_certificates"))
        own = tuple(each["certificate"] for each in certificates if each.get("is_authority") is not True and _is_of(each, name))
        known[name] = KnownNode(name, own, revoked, frozenset(), may_read=exchange_of(record).sends)
    authorities = tuple(each["certificate"] for each in certificates if each.get("is_authority") is True and _has_text(each))
    return Trust(node, known, authorities, public)


def _serials(given: Any) -> frozenset[int]:
    """Those that are serial numbers: one that is none leaves the others in force."""
    found: set[int] = set()
    for text in given if isinstance(given, list | tuple) else ():
        try:
            found |= serial_numbers((text,))
        except ClientError:
            continue
    return frozenset(found)


def _is_of(certificate: Mapping[str, Any], name: str) -> bool:
    hosts = certificate.get("hosts")
    is_named = certificate["name"] in (name, node_certificate_name(name))
    return _has_text(certificate) and (is_named or (isinstance(hosts, list) and name in hosts))


def _has_text(certificate: Mapping[str, Any]) -> bool:
    return isinstance(certificate.get("certificate"), str) and certificate["certificate"] != ""
