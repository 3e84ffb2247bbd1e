"""Replication of an instance with other nodes (spec: replication), if the configuration has a section for it: nothing of it is loaded else."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from svc.analytics.exposition import Family
from svc.config import Config
from svc.errors import ClientError, Problem
from svc.logs import Logger, Logs
from svc.operations.cluster_nodes import PORT, node_url, nodes_of_routes, split_address
from svc.operations.cluster_routes import read_routes
from svc.operations.node_exchange import check_certificate, put_certificate
from svc.operations.replication_control import ReplicationControl
from svc.reactor import Reactor
from svc.realtime.commit_feed import CommitFeed
from svc.server.confirming import RemoteCommits
from svc.siblings import Siblings
from svc.store import Database, LogEntry, Store
from svc.store.system import CERTIFICATE_TABLE, NODE_TABLE, SYSTEM, node_certificate_name
from svc.store.values.records import decode
from svc.tls.certificates import CERTIFICATE_FILE, KEY_FILE, renew_certificates, with_authority

if TYPE_CHECKING:
    from svc.cluster.registry import NodeAddress
    from svc.cluster.replication import Replication
    from svc.server.replication_functions import RunOperation

_DAY = 86_400.0
_END_SECONDS = 30.0
_KEPT = 3 * _DAY  # seconds that a stream keeps at least


class Replicating:
    """`replication`: while this process leads it. `record`, `gauge`: those of `analytics.Recorder`."""

    def __init__(
        self, config: Config, store: Store, siblings: Siblings, feed: CommitFeed, logs: Logs, reactor: Reactor, run: RunOperation
    ) -> None:
        """`run`: runs an operation that another node asks for."""
        assert config.replication is not None
        self.replication: Replication | None = None
        self.record: Callable[..., None] = lambda *values: None  # metrics
        self.gauge: Callable[..., None] = lambda *values: None
        self._config = config
        self._section = config.replication
        self._store = store
        self._siblings = siblings
        self._feed = feed
        self._log: Logger = logs.get_logger("replication", section="replication")
        self._reactor = reactor
        self._run = run
        self.control = ReplicationControl(siblings, config.root / "replication")
        self._lead: Any = None
        try:
            store.is_replicated = replicated_databases(self._section.databases)
        except ValueError as error:
            self._log.error(str(error))
        self._followed: dict[Database, Callable[[Database], None]] = {}
        self._hears_registry = False
        self._ending: asyncio.Task[None] | None = None
        store.blob_timeout = self._section.blob_timeout
        for database in store.databases.values():
            database.blobs.expected_seconds = store.blob_timeout
        store.remote_commits = RemoteCommits(
            store,
            siblings,
            reactor.clock,
            self._section.hostname,
            self._section.confirm_timeout,
            replicated_databases(self._section.databases),
            lambda: None if self.replication is None else self.replication.confirmations,
        )

    def begin(self) -> None:
        """Replicate as soon as this process leads. Never raises: what hinders it is logged."""
        try:
            self._lead = self._siblings.lead("replication", self._on_lead, self._on_resign)
        except OSError as error:
            self._log.error(f"nothing is replicated: {error}")
            return
        if self._lead.is_held:
            self._on_lead()

    def sweep(self, now: float) -> None:
        """Once a second: databases may have been made or dropped."""
        if self.replication is not None:
            self.replication.look_at_databases()
            self._follow(self.replication)

    def families(self) -> list[Family]:
        """For `/metrics`."""
        return [] if self.replication is None else self.replication.families()

    async def end(self) -> None:
        """Harmless when done. Others may still fetch blobs: if no other process goes on with it, they are waited for."""
        if self.replication is not None and not self._siblings.has_others:
            source = self.replication.blob_source
            if source.is_busy:
                self._log.info("other nodes fetch blobs from here: their transfers are waited for")
            if not await source.drain(self._section.blob_send_drain_timeout):
                self._log.warn("the end does not wait any more for blobs that other nodes fetch from here")
        if self._lead is not None:
            self._on_resign()
            self._lead.close()
        if self._ending is not None:
            await asyncio.wait((self._ending,), timeout=_END_SECONDS)
            if not self._ending.done():
                self._log.error(f"replication has not ended within {_END_SECONDS:g} s; its engine ends with this process")

    def _on_lead(self) -> None:
        try:
            from svc.cluster.replication import Replication
            from svc.server.replication_functions import ReplicationFunctions
        except ImportError as error:
            self._log.error(f"nothing is replicated: {error.name} is missing; pip install 'svc[cluster]'")
            return
        try:
            replication = Replication(self._store, self._make_options(), self._log, self._reactor.clock, self._address_of)
            functions = ReplicationFunctions(replication, self._run, self._read_routes)
            self._register()
            replication.set_routes(nodes_of_routes(read_routes(self._config)))
            replication.begin()
            self.replication = replication
            self._follow(replication)
            self.control.lead(functions.by_name())
        except (Problem, OSError, ValueError) as error:
            self._log.error(f"nothing is replicated: {error}")

    def _on_resign(self) -> None:
        self.control.resign()
        replication, self.replication = self.replication, None
        for database, listener in self._followed.items():
            self._feed.unwatch(database, listener)
        if self._hears_registry:
            self._hears_registry = False
            self._feed.remove(self._store.databases[SYSTEM], self._registry_committed)
        self._followed.clear()
        if replication is not None:
            self._ending = self._reactor.loop.create_task(replication.end())

    # --- what it works with ------------------------------------------------------------------------------------------------------------

    def _make_options(self) -> Any:
        from svc.cluster.engine_config import EnginePort
        from svc.cluster.replication import ReplicationOptions

        config, section = self._config, self._section
        external = None
        if section.servers:
            port, external = EnginePort(0), self._external_servers()
        elif section.port is not None:
            port = EnginePort(section.port)
        else:
            keys = config.root / "keys"
            if not (keys / CERTIFICATE_FILE).exists():
                renew_certificates(config.root, section.hostname, also=(config.node.hostname,), clock=self._reactor.clock)
            self._check_certificate((keys / CERTIFICATE_FILE).read_text())
            port = EnginePort(section.secure_port or PORT, "0.0.0.0", keys / CERTIFICATE_FILE, keys / KEY_FILE)
        return ReplicationOptions(
            config.node_name,
            port,
            config.root / "replication",
            max(config.logging.audit_retention or 0.0, _KEPT) + _DAY,
            replicated_databases(section.databases),
            section.enable_root_cas,
            self.record,
            self.gauge,
            program=section.program,
            fail_over=section.fail_over,
            external=external,
            analytics=config.analytics.replicate,
        )

    def _external_servers(self) -> Any:
        from svc.cluster.external import server_address, server_credentials
        from svc.cluster.external_engine import ExternalServers

        section = self._section
        addresses = tuple(server_address(str(text)) for text in section.servers or ())
        replicas = section.stream_replicas or min(3, len(addresses))
        return ExternalServers(addresses, server_credentials(section.credentials, self._config.root), replicas)

    def _check_certificate(self, text: str) -> None:
        """Raises ClientError with what is to be done."""
        try:
            check_certificate(text, self._section.hostname, self._reactor.clock.wall(), f"{self._config.root / 'keys' / CERTIFICATE_FILE}")
        except ClientError as error:
            raise ClientError(f"{error.message}; 'svc renew-certs' makes a new one") from None

    async def _read_routes(self) -> list[Any]:
        return await self._reactor.loop.run_in_executor(self._reactor.executor, read_routes, self._config)

    def _address_of(self, record: Mapping[str, Any]) -> NodeAddress | None:
        from svc.cluster.registry import NodeAddress

        found = split_address(record.get("url") or record["name"])
        return None if found is None else NodeAddress(found[0], found[1] or PORT)

    def _follow(self, replication: Replication) -> None:
        """Hear of the commits of all processes."""
        for name in replication.outboxes:
            database = self._store.databases[name]
            if database not in self._followed:
                self._followed[database] = replication.committed
                self._feed.watch(database, replication.committed)
        if not self._hears_registry:
            self._hears_registry = True
            self._feed.add(self._store.databases[SYSTEM], self._registry_committed)

    def _registry_committed(self, database: Database, entries: list[LogEntry]) -> None:
        if self.replication is not None and any(entry.table in (NODE_TABLE, CERTIFICATE_TABLE) for entry in entries):
            nodes = {entry.id for entry in entries if entry.table == NODE_TABLE and isinstance(entry.id, str)}
            self.replication.registry_changed(nodes)

    def _register(self) -> None:
        """Enter this node into the registry, which the others read."""
        section = self._section
        name = section.hostname
        tables = self._store.databases[SYSTEM].tables
        raw = tables[NODE_TABLE].get_raw(name)
        known = {} if raw is None else decode(raw)
        url = section.url or known.get("url") or node_url(name, section.port or section.secure_port)
        record = {"name": name, "url": url}
        if isinstance(section.shard, int):
            record["shard"] = section.shard
        transaction = self._store.begin()
        if any(known.get(key) != value for key, value in record.items()):
            transaction.patch(tables[NODE_TABLE], name, record)
        if section.port is None and not section.servers:
            text = with_authority(self._config.root / "keys")
            raw = tables[CERTIFICATE_TABLE].get_raw(node_certificate_name(name))
            if raw is None or decode(raw).get("certificate") != text:
                put_certificate(self._store, transaction, name, text)
        if transaction.has_writes:
            transaction.apply()


def replicated_databases(setting: Any) -> Callable[[str], bool]:
    """Whether a database is replicated, by its name, as `replication.databases` says; `system` always is (its shared tables). Raises ValueError.

    >>> [replicated_databases(["data", {"name": "shop"}])(name) for name in ("data", "shop", "other", "system")]
    [True, True, False, True]
    >>> replicated_databases(5)
    Traceback (most recent call last):
    ValueError: 'replication.databases' must be '*', or a list of names or of objects with 'name'
    """
    if setting in ("*", None):
        return lambda name: True
    names = {SYSTEM}
    for each in setting if isinstance(setting, list | tuple) else (None,):
        name = each.get("name") if isinstance(each, Mapping) else each
        if not isinstance(name, str):
            raise ValueError("'replication.databases' must be '*', or a list of names or of objects with 'name'")
        names.add(name)
    return names.__contains__
