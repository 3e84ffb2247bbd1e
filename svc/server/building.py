"""Parts of an instance, made from its configuration: store, applications."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Mapping
from concurrent.futures import Executor
from contextlib import nullcontext
from importlib import import_module
from typing import TYPE_CHECKING, Any

from svc.analytics.recorder import SHED, Recorder
from svc.api.interface import Interface
from svc.api.statements import Statements
from svc.apps import App, Applications, Runtime
from svc.auth.users import UserDirectory
from svc.config import Config
from svc.connection.input_share import InputShare
from svc.connection.load_shedding import LoadShedder
from svc.errors import StoreFailure
from svc.logs import Logs
from svc.query.budget import QueryLimits, set_limits
from svc.reactor import Reactor
from svc.resources import Resources
from svc.root.data_version import ensure_version
from svc.scheduler import Scheduler
from svc.server.remote_drives import remote_drive
from svc.siblings import Siblings
from svc.store import Store, StoreSettings
from svc.store.blobs import ThreadHelper
from svc.store.disk.reclamation import ReclamationSettings
from svc.store.snapshots import SnapshotLimits
from svc.store.writing.writer_queue import QueueLimits

if TYPE_CHECKING:
    from svc.accounts.parts import AccountParts
    from svc.sql.engine import SqlEngine


def open_store(config: Config, reactor: Reactor, executor: Executor, make_helper: Callable[[], Executor]) -> Store:
    """The store with its system database, and the limits of queries. `executor`: threads for large values. `make_helper`: see `Store`.

    Raises Problem, or ConfigError for data of a newer version.
    """
    set_limits(QueryLimits(config.query.max_related_rows, config.query.max_bytes, config.query.max_time))
    storage = config.storage
    settings = StoreSettings(
        write_async=storage.write_async,
        audit=config.logging.audit_log,
        log_retention=config.logging.audit_retention,
        queue_limits=QueueLimits(config.http.request_queue_limit, storage.max_transaction_queue_time),
        snapshot_limits=SnapshotLimits(storage.max_snapshot_age, storage.max_snapshot_growth),
        reclamation=ReclamationSettings(storage.reclamation.threshold, storage.reclamation.interval, storage.reclamation.eviction_factor),
        blob_paths=storage.blob_paths,
        compression=storage.compression,
    )
    store = Store(storage.path, settings, node=config.node_name, make_helper=make_helper, clock=reactor.clock)
    store.helper = ThreadHelper(reactor.loop, executor)
    ensure_version(store, reactor.clock)
    return store


def find_siblings(config: Config, reactor: Reactor, number: int | None) -> Siblings:
    """This process, and the others over the same data directory. Raises StoreFailure."""
    try:
        return Siblings(config.storage.path, reactor.loop, number=number, clock=reactor.clock)
    except OSError as error:
        raise StoreFailure(f"The directory of the databases cannot be used: {error.strerror}") from error


def make_shedder(
    config: Config, share: InputShare, reactor: Reactor, recorder: Recorder, warn: Callable[[str], None]
) -> LoadShedder | None:
    """What refuses requests under overload; None: it is switched off."""
    if not config.http.request_age_limit:
        return None
    shedder = LoadShedder(share, reactor.clock.monotonic, config.http.request_age_limit)
    shedder.count = lambda number, kind: recorder.record(number, SHED, type=kind.name.lower())
    shedder.warn = warn
    return shedder


def make_statements(config: Config, store: Store, reactor: Reactor, executor: Executor) -> Statements:
    """What runs SQL. Nothing of it is loaded before the first statement. `executor`: threads of its own."""
    limits = config.sql

    def make_engine() -> SqlEngine:
        from svc.sql.engine import SqlEngine
        from svc.sql.options import SqlOptions

        return SqlEngine(store, executor, SqlOptions(limits.max_time, limits.max_memory, limits.max_rows, limits.max_length))

    def load() -> Awaitable[object]:
        return reactor.loop.run_in_executor(executor, import_module, "svc.sql.engine")

    return Statements(make_engine, limits.max_rows, store.clock, load)


def drive_warnings(config: Config) -> Iterator[str]:
    """About the places of the databases. It takes 20 ms, which a start need not."""
    for name, paths in (("storage.path", (config.storage.path,)), ("storage.blobPaths", config.storage.blob_paths)):
        for path in paths:
            if (drive := remote_drive(path)) is not None:
                yield (
                    f"{name} is on a drive of another machine ({drive}): {path}. Mapped files and locks are not reliable there, so data may be lost or damaged;"
                    " use a local disk, and never the same directory from two machines"
                )


def warnings_of(config: Config, directory: UserDirectory) -> Iterator[str]:
    """What a start warns of."""
    if config.authentication.authorize_local:
        yield (
            "authentication.authorizeLocal is on: requests from this machine are made as super user,"
            " also those of a proxy on it that adds no header of its own"
        )
    if any("operations" in (role.get("permission") or {}) for role in directory.iter_role_records()):
        from svc.operations.operation_lists import refused_grants  # which needs all operations

        yield from refused_grants(directory.iter_role_records())


def make_applications(
    config: Config,
    resources: Resources,
    reactor: Reactor,
    logs: Logs,
    interface: Interface,
    siblings: Siblings,
    on_loaded: Callable[[App], None],
    *,
    answer_graphql: Callable[[Any], Any],
    serve_graphql: Callable[[Any, Any], Any],
    account_parts: Callable[[], AccountParts],
) -> tuple[Applications, Scheduler]:
    """The applications of an instance, none of them loaded yet, and what runs their jobs. Their faults are logged."""

    def report(application: str, level: str, text: str) -> None:
        with logs.to_files() if logs.screen is not None else nullcontext():  # a screen is told of each load as a whole
            report_alone(application, level, text)

    def report_alone(application: str, level: str, text: str) -> None:
        logs.get_logger(application, section=application).log(level, text)

    store = interface.store
    scheduler = Scheduler(store, store.clock, reactor.loop, siblings.identity, siblings.is_alive, report=report_alone)
    siblings.on_left.append(scheduler.owner_left)
    runtime = Runtime(
        store,
        resources,
        interface.queries,
        reactor.loop,
        reactor.clock,
        reactor.executor,
        realtime=interface.realtime,
        interface=interface,
        grantable=_grantable,
        components=config.components,
        report=report,
        lead=siblings.lead,
        report_alone=report_alone,
        scheduler=scheduler,
        answer_graphql=answer_graphql,
        serve_graphql=serve_graphql,
        account_parts=account_parts,
    )
    return Applications(runtime, on_loaded=on_loaded), scheduler


def _grantable() -> Mapping[str, bool]:
    from svc.operations.operation_lists import known_entries  # which needs all operations

    return known_entries()
