"""Parts of an instance, made from its configuration: store, accounts, origins, applications."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from concurrent.futures import Executor
from contextlib import nullcontext
from functools import partial

from svc.api.interface import Interface
from svc.apps import App, Applications, Runtime
from svc.auth.first_super_user import FirstSuperUser, ensure_first_super_user
from svc.auth.logins import LoginWatches
from svc.auth.origin_policy import OriginPolicy
from svc.auth.users import UserDirectory
from svc.auth.verifier import Verifier
from svc.clock import Clock
from svc.config import Config
from svc.graphql import GraphQLEndpoint
from svc.logs import Logger, Logs
from svc.operations.operation_lists import known_entries, refused_grants
from svc.query import QueryCache
from svc.query.budget import QueryLimits, set_limits
from svc.realtime.realtime import Realtime
from svc.resources import Resources
from svc.root.administrator import PASSWORD_FILE
from svc.root.data_version import ensure_version
from svc.scheduler import Scheduler
from svc.store import Store
from svc.store.blobs import ThreadHelper
from svc.store.disk.reclamation import ReclamationSettings
from svc.store.snapshots import SnapshotLimits
from svc.store.system import SYSTEM
from svc.store.writing.writer_queue import QueueLimits


def open_store(
    config: Config,
    *,
    clock: Clock,
    loop: asyncio.AbstractEventLoop,
    executor: Executor,
    make_helper: Callable[[], Executor],
) -> Store:
    """The store with its system database, and the limits of queries. `executor`: threads for large values. `make_helper`: see `Store`.

    Raises Problem, or ConfigError for data of a newer version.
    """
    set_limits(QueryLimits(config.query.max_related_rows, config.query.max_bytes, config.query.max_time))
    storage = config.storage
    store = Store(
        storage.path,
        node=config.node.hostname,
        write_async=storage.write_async,
        audit=config.logging.audit_log,
        log_retention=config.logging.audit_retention,
        queue_limits=QueueLimits(config.http.request_queue_limit, storage.max_transaction_queue_time),
        snapshot_limits=SnapshotLimits(storage.max_snapshot_age, storage.max_snapshot_growth),
        reclamation=ReclamationSettings(storage.reclamation.threshold, storage.reclamation.interval, storage.reclamation.eviction_factor),
        blob_paths=storage.blob_paths,
        compression=storage.compression,
        make_helper=make_helper,
        clock=clock,
    )
    store.helper = ThreadHelper(loop, executor)
    ensure_version(store, clock)
    return store


def create_first_super_user(
    config: Config, store: Store, username: str | None, password: str | None, on_created: Callable[[FirstSuperUser], None] | None
) -> None:
    """Create one if the store has none, and call `on_created` with it."""
    created = ensure_first_super_user(
        store,
        username,
        password,
        password_file=config.root / PASSWORD_FILE,
        hash_function=config.authentication.hash_function,
        min_length=config.authentication.password_min_length,
    )
    if created is not None and on_created is not None:
        on_created(created)


def make_verifier(config: Config, directory: UserDirectory, clock: Clock) -> Verifier:
    return Verifier(
        directory,
        cache_ttl=config.authentication.cache_ttl,
        clock=clock,
        hash_function=config.authentication.hash_function,
        failure_delay=config.authentication.failure_delay,
    )


def make_logins(store: Store, directory: UserDirectory, realtime: Realtime, loop: asyncio.AbstractEventLoop) -> LoginWatches:
    """What ends the streams of all ports with what let their callers in."""
    feed, system = realtime.feed, store.databases[SYSTEM]
    return LoginWatches(directory, loop, store.clock, partial(feed.add, system), partial(feed.remove, system))


def warnings_of(config: Config, directory: UserDirectory) -> Iterator[str]:
    """What a start warns of."""
    if config.authentication.authorize_local:
        yield (
            "authentication.authorizeLocal is on: requests from this machine are made as super user,"
            " also those of a proxy on it that adds no header of its own"
        )
    yield from refused_grants(directory.iter_role_records())


def application_origins(config: Config, logger: Logger) -> OriginPolicy:
    """The origins whose pages may use the application's ports."""
    network = config.operations_api.network
    origins = OriginPolicy(
        config.http.cors_access_list,
        enabled=config.http.cors,
        page_ports={"http": network.port, "https": network.secure_port},
    )
    _warn_of_invalid(origins, logger)
    return origins


def operations_origins(config: Config, logger: Logger) -> OriginPolicy:
    """The origins whose pages may use the operations ports."""
    network = config.operations_api.network
    origins = OriginPolicy(network.cors_access_list, enabled=network.cors, setting="operationsApi.network.corsAccessList")
    _warn_of_invalid(origins, logger)
    return origins


def _warn_of_invalid(origins: OriginPolicy, logger: Logger) -> None:
    for entry in origins.invalid:
        text = f"{origins.setting}: {entry!r} is not an origin such as https://shop.example or http://localhost:*, and lists nothing"
        logger.warn(text)


def make_applications(
    config: Config,
    store: Store,
    resources: Resources,
    queries: QueryCache,
    realtime: Realtime,
    logs: Logs,
    interface: Interface,
    executor: Executor,
    on_loaded: Callable[[App], None],
    graphql: GraphQLEndpoint,
) -> tuple[Applications, Scheduler]:
    """The applications of an instance, none of them loaded yet, and what runs their jobs. Their faults are logged."""

    def report(application: str, level: str, text: str) -> None:
        with logs.to_files() if logs.screen is not None else nullcontext():  # a screen is told of each load as a whole
            report_alone(application, level, text)

    def report_alone(application: str, level: str, text: str) -> None:
        logs.get_logger(application, section=application).log(level, text)

    scheduler = Scheduler(store, store.clock, interface.loop, report=report_alone)
    runtime = Runtime(
        store,
        resources,
        queries,
        interface.loop,
        store.clock,
        executor,
        realtime=realtime,
        interface=interface,
        operations=known_entries(),
        components=config.components,
        report=report,
        report_alone=report_alone,
        scheduler=scheduler,
        answer_graphql=graphql.handle,
        serve_graphql=graphql.serve_socket,
    )
    return Applications(runtime, on_loaded=on_loaded), scheduler
