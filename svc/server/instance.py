"""One server instance: builds everything, listens, keeps time, drains, stops (contract: configuration §6.4, §6.5)."""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from email.utils import formatdate
from pathlib import Path

from svc import __version__
from svc.analytics import Analytics
from svc.apps import App, load_app
from svc.auth.events import AuthEvents
from svc.auth.first_super_user import INITIAL_PASSWORD_FILE, FirstSuperUser, ensure_first_super_user
from svc.auth.identify import Identifier
from svc.auth.origin_policy import OriginPolicy
from svc.auth.sessions import Sessions
from svc.auth.tokens import Tokens
from svc.auth.users import UserDirectory
from svc.auth.verifier import Verifier
from svc.clock import SYSTEM_CLOCK, Clock
from svc.config import Config
from svc.errors import Problem
from svc.logs import CHECK_SECONDS, LoggingWatch, Logs, capture_logging, capture_output
from svc.loop import new_loop
from svc.operations.node import Node
from svc.operations.operation_lists import known_entries
from svc.operations.status import StatusBoard
from svc.query import QueryCache
from svc.query.budget import QueryLimits, set_limits
from svc.realtime.realtime import Realtime
from svc.resources import Resources
from svc.rest.login import LOGIN_PATH
from svc.root.data_version import ensure_version
from svc.root.installation import make_keys
from svc.server.application_port import ApplicationPort
from svc.server.operations_port import OperationsPort
from svc.server.secure_port import HTTP, OPERATIONS, SecurePort
from svc.store import Store
from svc.store.blobs import ThreadHelper
from svc.store.disk.reclamation import ReclamationSettings
from svc.store.schema import TableDefinition
from svc.store.snapshots import SnapshotLimits
from svc.store.system import SYSTEM, ensure_system
from svc.store.writing.writer_queue import QueueLimits
from svc.tls.entries import StoredCertificates

DRAIN_SECONDS = 10.0  # for requests in flight after SIGTERM (configuration §6.4)
SWEEP_SECONDS = 1.0
ROTATION_SECONDS = 60.0  # between two looks at the sizes of log files
LOG_SECONDS = 0.5  # a line that is no alarm may wait this long to be written (configuration §5.3: within 1 s)
MAINTENANCE_SLICE = 0.004  # seconds of background work in one go
MAINTENANCE_PAUSE = 0.004  # ... and the pause between two slices while there is more
HELPER_THREADS = 2
GC_THRESHOLD = 20_000  # objects more than before until the collector looks: requests leave no cycles, and a large body alone makes thousands of objects
LASTING = 60.0  # seconds: a database that stops working sooner after the start would do so again
LONG_TURN = 0.005  # seconds of work in a turn after which its commit is left to the next


class HttpDate:
    """The `Date` field, formatted once a second."""

    __slots__ = ("_second", "_text", "_wall")

    def __init__(self, clock: Clock) -> None:
        self._wall = clock.wall
        self._second = -1
        self._text = ""

    def __call__(self) -> str:
        second = int(self._wall())
        if second != self._second:
            self._second = second
            self._text = formatdate(second, usegmt=True)
        return self._text


class Server:
    """`run()` serves until a signal or `stop()`, and returns the exit status."""

    def __init__(
        self,
        config: Config,
        apps: Sequence[Path] = (),
        dev: bool = False,
        *,
        clock: Clock = SYSTEM_CLOCK,
        on_ready: Callable[[Server], None] | None = None,
        on_first_super_user: Callable[[FirstSuperUser], None] | None = None,
        username: str | None = None,
        password: str | None = None,
    ) -> None:
        """`apps`: application directories beside those in `componentsRoot`. `username`, `password`: of the first super user, if one is needed."""
        self.config = config
        self.clock = clock
        self.logs = Logs.from_config(config, clock=clock)
        self.logger = self.logs.logger
        self._release_logging = capture_logging(self.logs)
        self._release_output: Callable[[], None] = lambda: None
        self._on_ready = on_ready
        self._signals = 0
        self._closing = False
        self._commit_deferred = False
        self._socket_bytes = (0, 0)  # received, sent: as of the last second
        self._exit_status = 0
        self._started = clock.monotonic()
        self.loop, self._selector = new_loop(clock)
        self.loop.set_exception_handler(self._on_loop_error)
        self._executor = ThreadPoolExecutor(HELPER_THREADS, thread_name_prefix="helper")
        self._blob_executor = ThreadPoolExecutor(HELPER_THREADS, thread_name_prefix="blob")  # of their own: nobody's login waits for a disk

        set_limits(QueryLimits(config.query.max_related_rows, config.query.max_bytes, config.query.max_time))
        self.store = Store(
            config.storage.path,
            node=config.node.hostname,
            write_async=config.storage.write_async,
            audit=config.logging.audit_log,
            log_retention=config.logging.audit_retention,
            queue_limits=QueueLimits(config.http.request_queue_limit, config.storage.max_transaction_queue_time),
            snapshot_limits=SnapshotLimits(config.storage.max_snapshot_age, config.storage.max_snapshot_growth),
            reclamation=ReclamationSettings(config.storage.reclamation.threshold, config.storage.reclamation.interval),
            blob_paths=config.storage.blob_paths,
            compression=config.storage.compression,
            clock=clock,
        )
        self.store.helper = ThreadHelper(self.loop, self._blob_executor)
        ensure_system(self.store)
        ensure_version(self.store, clock)
        created = ensure_first_super_user(
            self.store,
            username,
            password,
            password_file=config.root / INITIAL_PASSWORD_FILE,
            hash_function=config.authentication.hash_function,
        )
        if created is not None and on_first_super_user is not None:
            on_first_super_user(created)
        self.directory = UserDirectory(self.store)
        self.verifier = Verifier(
            self.directory,
            cache_ttl=config.authentication.cache_ttl,
            clock=clock,
            hash_function=config.authentication.hash_function,
            failure_delay=config.authentication.failure_delay,
        )
        self.events = AuthEvents.from_config(config, self.logs, clock)
        warning = make_keys(config, clock=clock)
        if warning is not None:
            self.logger.warn(warning)
        self.tokens = Tokens.from_config(config, self.directory, clock, executor=self._executor)
        self._executor.submit(self.tokens.make_keys)  # beside the rest of the start
        self._page_origins = OriginPolicy(
            config.http.cors_access_list,
            enabled=config.http.cors,
            page_ports={"http": config.operations_api.network.port, "https": config.operations_api.network.secure_port},
        )
        self._warn_of_origins(self._page_origins)
        self.sessions = Sessions.from_config(
            config,
            self.store,
            self.directory,
            clock,
            verifier=self.verifier,
            executor=self._executor,
            has_other_sites=self._page_origins.has_other_sites,
        )

        self.resources = Resources()
        self.store.on_drop.append(self.resources.remove_table)
        self.queries = QueryCache()
        self.realtime = Realtime(self.store, self.loop, clock, self.directory)
        self.apps: list[App] = []
        self._load_apps(apps)

        self.analytics = Analytics(
            self.store,
            config.analytics.aggregate_period,
            node=config.node.hostname,
            clock=clock,
            storage_interval=config.analytics.storage_interval,
            executor=self._executor,
        )
        certificates = StoredCertificates(self.store, config.root / "keys")
        secure_port = SecurePort(HTTP, config, certificates, self.logs, clock, self.loop)
        has_login = any(app.config.get("login") is True for app in self.apps)
        identifier = Identifier(
            self.directory,
            clock=clock,
            authorize_local=config.authentication.authorize_local,
            host_name=config.node.hostname,
            verifier=self.verifier,
            tokens=self.tokens,
            sessions=self.sessions,
            events=self.events,
            login_path=LOGIN_PATH if has_login else None,
            certificates=secure_port.clients,
            origins=self._page_origins,
        )
        date = HttpDate(clock)
        self.application_port = ApplicationPort(
            config,
            self.resources,
            self.apps,
            identifier,
            self._page_origins,
            self.analytics.recorder,
            clock=clock,
            loop=self.loop,
            executor=self._executor,
            logs=self.logs,
            secure_port=secure_port,
            date=date,
            log_error=self._log_error,
            routed=self._routed,
        )
        self.restart_wanted = False
        self.operations_port = self._make_operations_port(certificates, date)
        self._selector.end_turn = self._end_turn

    # --- building ------------------------------------------------------------------------------------------------------------------

    def _load_apps(self, extra: Sequence[Path]) -> None:
        if os.environ.get("SVC_SAFE_MODE"):
            self.logger.warn("SVC_SAFE_MODE is set: no application is loaded")
            return
        root = self.config.components_root
        directories = sorted(p for p in root.iterdir() if p.is_dir() and not p.name.startswith(".")) if root.is_dir() else []
        known: dict[str, dict[str, TableDefinition]] = {}
        for directory in [*directories, *extra]:
            app = load_app(directory, self.store, self.resources, self.queries, known, operations=known_entries(), realtime=self.realtime)
            self.apps.append(app)
            for definition in app.definitions:
                known.setdefault(definition.database, {})[definition.type_name] = definition
            for key, entry in app.entries.items():
                logger = self.logs.get_logger(app.name, section=app.name)
                for message in entry.messages:
                    log = logger.error if entry.status == "error" else logger.warn
                    log(f"{key}: {message}")

    def _make_operations_port(self, certificates: StoredCertificates, date: HttpDate) -> OperationsPort:
        secure_port = SecurePort(OPERATIONS, self.config, certificates, self.logs, self.clock, self.loop)
        node = Node(
            store=self.store,
            config=self.config,
            clock=self.clock,
            loop=self.loop,
            executor=self._executor,
            logs=self.logs,
            directory=self.directory,
            verifier=self.verifier,
            resources=self.resources,
            types=self.application_port.rest.types,
            tokens=self.tokens,
            sessions=self.sessions,
            status=StatusBoard(self.clock),
            analytics=self.analytics,
            apps=self.apps,
            restart=self.restart,
        )
        self.node = node
        node.jobs.recover()
        origins = OriginPolicy(
            self.config.operations_api.network.cors_access_list,
            enabled=self.config.operations_api.network.cors,
            setting="operationsApi.network.corsAccessList",
        )
        self._warn_of_origins(origins)
        identifier = Identifier(
            self.directory,
            clock=self.clock,
            verifier=self.verifier,
            tokens=self.tokens,
            sessions=self.sessions,
            events=self.events,
            accept_refresh=True,
            admit_socket=True,
            certificates=secure_port.clients,
            origins=origins,
        )
        return OperationsPort(
            node,
            identifier,
            origins,
            self.analytics.recorder,
            date=date,
            log_error=self._log_error,
            access=None,
            routed=self._routed,
            secure_port=secure_port,
        )

    def _warn_of_origins(self, origins: OriginPolicy) -> None:
        for entry in origins.invalid:
            text = f"{origins.setting}: {entry!r} is not an origin such as https://shop.example or http://localhost:*, and lists nothing"
            self.logger.warn(text)

    def listen(self) -> None:
        """Open every port or raise OSError with none open."""
        mqtt = self.config.mqtt.network
        unserved = [
            f"{name} {port}"
            for name, port in (("mqtt.network.port", mqtt.port), ("mqtt.network.securePort", mqtt.secure_port))
            if port is not None
        ]
        if unserved:
            self.logger.warn("not opened, because this version does not serve them yet:", ", ".join(unserved))
        if self.config.authentication.authorize_local:
            self.logger.warn(
                "authentication.authorizeLocal is on: requests from this machine are made as super user,",
                "also those of a proxy on it that adds no header of its own",
            )
        self.application_port.listen()
        try:
            self.operations_port.listen()
        except OSError:
            self.application_port.discard()
            raise

    # --- running -------------------------------------------------------------------------------------------------------------------

    def run(self) -> int:
        """Serve. Returns the exit status; 1 if a port cannot be opened."""
        asyncio.set_event_loop(self.loop)
        try:
            try:
                self.listen()
            except OSError as error:
                self.logger.fatal(f"cannot listen on {error.strerror}")
                print(f"Error: cannot listen on {error.strerror}", file=sys.stderr)
                return 1
            self.application_port.start()
            self.operations_port.start()
            for number in (signal.SIGTERM, signal.SIGINT, signal.SIGQUIT):
                self.loop.add_signal_handler(number, self._stop_for_good)
            self.loop.add_signal_handler(signal.SIGHUP, self.logs.reopen)
            self.logs.on_pending = self._logs_pending
            if self.config.logging.console:
                self._release_output = capture_output(self.logs)
            self.loop.call_later(SWEEP_SECONDS, self._sweep)
            self.loop.call_later(ROTATION_SECONDS, self._rotate_logs)
            self.loop.call_later(CHECK_SECONDS, self._watch_logging, LoggingWatch(self.config, self.logs))
            self.loop.call_later(MAINTENANCE_PAUSE, self._maintain)
            gc.collect()
            gc.freeze()  # what start-up built lives for ever: the collector need not look at it again
            gc.set_threshold(GC_THRESHOLD, 10, 10)
            self.logger.notify(f"svc {__version__} successfully started.")
            self._end_restarts()
            self.logs.thread = "http"
            if self._on_ready is not None:
                self._on_ready(self)
            self.loop.run_forever()
            return self._exit_status
        finally:
            self._close()

    def _end_restarts(self) -> None:
        """The ports are open: whoever follows the job that has restarted us finds it done."""
        try:
            self.node.jobs.end_restarts()
        except Problem as problem:
            self.logger.error("the end of a restart could not be written:", problem.message)

    def stop(self) -> None:
        """First call: stop accepting, finish what is in flight up to a limit. Second call: at once."""
        if self._closing:
            return
        self._signals += 1
        if self._signals > 1:
            self.loop.stop()
            return
        self.logger.notify("Stopping svc.")
        self.operations_port.announce_stop()
        self.application_port.stop()
        self._wait_until_drained(self.clock.monotonic() + DRAIN_SECONDS)

    def _stop_for_good(self) -> None:
        """A signal: also while a restart is under way, nothing starts anew."""
        self.restart_wanted = False
        self.stop()

    def restart(self, in_place: bool = False) -> None:
        """Stop as `stop` does, once the answers under way are sent; who started `run` starts anew (`restart_wanted`)."""
        self.logger.notify("Restarting svc.")
        self.restart_wanted = True
        self.loop.call_soon(self.stop)

    def _end_with_store(self, databases: Sequence[str]) -> None:
        """These databases cannot be used any more by this process (`store.env`, rule 6): start anew, or end for a supervisor to see it."""
        if self._signals:
            return
        again = self.clock.monotonic() - self._started >= LASTING and not os.environ.get("SVC_EXIT_ON_RESTART")
        self.logger.fatal(
            f"a disk write of the database {', '.join(databases)} failed, after which this process can neither read nor write it;",
            "starting again" if again else "ending with status 1",
        )
        if again:
            self.restart()
        else:
            self._exit_status = 1
            self.stop()

    def _wait_until_drained(self, deadline: float) -> None:
        """The application's connections end first: until then the operations port tells load balancers that this instance is leaving."""
        if self._closing:
            return
        late = self.clock.monotonic() >= deadline
        if late or not self.application_port.connections.open:
            self.operations_port.stop()
        if late or not (self.application_port.connections.open or self.operations_port.connections.open):
            self.loop.stop()
        else:
            self.loop.call_later(0.02, self._wait_until_drained, deadline)

    def _close(self) -> None:
        self._closing = True
        self.application_port.stop()
        self.operations_port.stop()
        if self.store.has_pending:
            self.store.commit_turn()
            self.application_port.connections.end_turn()
            self.operations_port.connections.end_turn()
        self.application_port.connections.close_all()
        self.operations_port.connections.close_all()
        self.realtime.close()
        self.loop.run_until_complete(self.node.jobs.stop())  # they report how they ended
        self.loop.run_until_complete(self._end_tasks())
        self.analytics.close()
        self._selector.end_turn = lambda: False
        self._executor.shutdown(wait=False, cancel_futures=True)
        self._blob_executor.shutdown(wait=False, cancel_futures=True)
        self.logs.on_pending = None
        self.loop.run_until_complete(self.loop.shutdown_asyncgens())
        self.loop.close()
        self.store.close()
        self.logs.thread = "main"
        self.logger.notify("svc stopped.")
        self._release_output()
        self._release_logging()
        self.logs.close()

    async def _end_tasks(self) -> None:
        """Cancel what is still awaited. A commit that has begun is waited for."""
        tasks = asyncio.all_tasks() - {asyncio.current_task()}
        await asyncio.sleep(0)  # each has begun
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks, timeout=DRAIN_SECONDS)

    # --- the end of a turn -----------------------------------------------------------------------------------------------------------

    def _end_turn(self) -> bool:
        """Runs just before each poll. The order is the meaning."""
        store = self.store
        if store.has_pending:
            if not self._commit_deferred and self.clock.monotonic() - self._selector.turn_started > LONG_TURN:
                # A large write filled this turn, and its commit will take as long again: serve in between what has arrived meanwhile.
                self._commit_deferred = True
            else:
                self._commit_deferred = False
                store.commit_turn()  # first: its outcome decides what the held answers say
        more = self.application_port.connections.end_turn()  # encode and send, which may take up pipelined requests
        more = self.operations_port.connections.end_turn() or more
        store.end_turn()  # last: no read snapshot outlives a turn, or it would pin pages while we sleep
        return more or store.has_pending

    # --- clockwork -----------------------------------------------------------------------------------------------------------------

    def _hear_of_siblings(self) -> None:
        """What another process has changed of users and roles counts for the requests of the turn that begins."""
        try:
            self.directory.refresh()
        except Problem as problem:
            self._log_error(f"users and roles cannot be read: {problem.message}", None)

    def _sweep(self) -> None:
        self.loop.call_later(SWEEP_SECONDS, self._sweep)
        self._selector.begin_turn = self._hear_of_siblings if self.store.databases[SYSTEM].env.has_siblings() else None
        now = self.clock.monotonic()
        if stopped := self.store.stopped:
            self._end_with_store(stopped)
        self.application_port.sweep(now)
        self.operations_port.sweep(now)
        self.store.snapshots.abort_due()
        if self.config.storage.debug_long_transactions:
            self.store.report_long_transactions()
        self._record_socket_bytes()
        if self.analytics.tick(self._selector.idle, self._selector.active):
            self.loop.call_later(MAINTENANCE_PAUSE, self._work_on_analytics)

    def _record_socket_bytes(self) -> None:
        """What all sockets together took in and gave out in the last second, heads included; nothing for an idle second."""
        both = (self.application_port.connections, self.operations_port.connections)
        now = (sum(each.bytes_received for each in both), sum(each.bytes_sent for each in both))
        for direction, before, count in zip(("received", "sent"), self._socket_bytes, now, strict=True):
            if count > before:
                self.analytics.recorder.record(count - before, "socket-bytes", type=direction)
        self._socket_bytes = now

    def _work_on_analytics(self) -> None:
        if self.analytics.work(MAINTENANCE_SLICE):
            self.loop.call_later(MAINTENANCE_PAUSE, self._work_on_analytics)

    def _rotate_logs(self) -> None:
        self.loop.call_later(ROTATION_SECONDS, self._rotate_logs)
        self.logs.maintain(self.store.reclamation.divisor)

    def _watch_logging(self, watch: LoggingWatch) -> None:
        self.loop.call_later(CHECK_SECONDS, self._watch_logging, watch)
        watch.check()

    def _logs_pending(self) -> None:
        """Lines wait to be written; this may be called on a helper thread."""
        self.loop.call_soon_threadsafe(self.loop.call_later, LOG_SECONDS, self.logs.flush)

    def _maintain(self) -> None:
        try:
            more = self.store.maintenance(MAINTENANCE_SLICE)
        except Exception as error:
            self._log_error("background work of the store", error)
            more = False
        self.loop.call_later(MAINTENANCE_PAUSE if more else SWEEP_SECONDS, self._maintain)

    def _routed(self, at_once: bool) -> None:
        self.analytics.recorder.record(at_once, "socket-routed")

    # --- defects -------------------------------------------------------------------------------------------------------------------

    def _log_error(self, where: str, error: BaseException | None) -> None:
        self.logger.error(where, error) if error is not None else self.logger.error(where)

    def _on_loop_error(self, loop: asyncio.AbstractEventLoop, context: dict[str, object]) -> None:
        error = context.get("exception")
        self._log_error(str(context.get("message", "event loop")), error if isinstance(error, BaseException) else None)
