"""One server instance: builds its parts, serves until it is stopped, closes them (spec: configuration §6.4, §6.5)."""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import sys
from collections.abc import Callable, Iterator, Sequence, Set
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import Any

from svc import __version__
from svc.analytics import Analytics
from svc.api.context import current_request, entered
from svc.api.interface import Interface
from svc.api.server import Server as ApplicationServer
from svc.api.server import ServerParts
from svc.api.transactions import Transaction
from svc.apps import App
from svc.apps.graphql_entry import entry_of, graphql_options, is_on_main_ports
from svc.auth.events import AuthEvents
from svc.auth.first_super_user import FirstSuperUser
from svc.auth.identify import Admission, Credentials, Identifier
from svc.auth.sessions import Sessions
from svc.auth.tickets import Tickets
from svc.auth.tokens import Tokens
from svc.auth.users import UserDirectory
from svc.clock import SYSTEM_CLOCK, Clock
from svc.config import Config
from svc.config.settings import BY_NAME
from svc.connection.input_share import InputShare
from svc.content.registry import ContentTypes
from svc.errors import Problem
from svc.graphql import PATHS
from svc.graphql.endpoint import HANDLER_PATH, SOCKET_PATHS
from svc.http.dispatch import Dispatcher
from svc.listeners.scopes import ListenerScopes
from svc.listeners.upgrade_chain import UpgradeChain
from svc.logs import Logs, capture_logging, capture_output
from svc.logs.application_code import ApplicationCode
from svc.logs.forgotten import Forgotten
from svc.logs.redact import without_credentials
from svc.loop import Turns, TurnSelector, contained, new_loop
from svc.mounted import Mounts
from svc.operations.cluster import known_nodes
from svc.operations.held_loop import HeldLoop
from svc.operations.node import Node
from svc.operations.service import Operations
from svc.operations.status_board import StatusBoard
from svc.query import QueryCache
from svc.realtime.realtime import Realtime
from svc.resources import Resources
from svc.rest.login import LOGIN_PATH
from svc.rest.login import PATHS as LOGIN_PATHS
from svc.root.installation import make_keys
from svc.server.application_ports import ApplicationPorts
from svc.server.building import (
    application_origins,
    create_first_super_user,
    make_applications,
    make_logins,
    make_verifier,
    open_store,
    operations_origins,
    warnings_of,
)
from svc.server.current_stubs import CurrentStubs
from svc.server.forked_child import ForkedChild
from svc.server.http_date import HttpDate
from svc.server.interfaces import (
    make_application_dispatcher,
    make_graphql,
    make_operations_dispatcher,
    make_rest,
    make_websockets,
    rest_options,
)
from svc.server.periodic import PeriodicWork
from svc.server.ports import APPLICATION, OPERATIONS, PortCertificates, ServerPorts, ServerRow, port_hint
from svc.server.reloading import Reload, Reloader
from svc.server.screen import Screen
from svc.server.shown_configuration import shown_configuration
from svc.server.shutdown import DRAIN_SECONDS, Shutdown
from svc.server.slow_turns import SlowTurns
from svc.tls.entries import StoredCertificates
from svc.tracing import open_tracing
from svc.websocket.resource_sockets import SocketEndpoint

HELPER_THREADS = 2
STOPPING = (signal.SIGTERM, signal.SIGINT, signal.SIGQUIT)
GC_THRESHOLD = 20_000  # new objects until the collector runs: requests leave no cycles, and a large body alone makes thousands of objects
LONG_TURN = 0.005  # seconds of work in a turn after which its commit is left to the next


def make_threads(name: str, count: int) -> Executor:
    """So many helper threads."""
    return ThreadPoolExecutor(count, thread_name_prefix=name)


class Server:
    """`run()` serves until a signal or `stop()`, and returns the exit status."""

    def __init__(
        self,
        config: Config,
        apps: Sequence[Path] = (),
        *,
        clock: Clock = SYSTEM_CLOCK,
        on_loaded: Callable[[Server], bool] | None = None,
        on_ready: Callable[[Server], None] | None = None,
        on_first_super_user: Callable[[FirstSuperUser], None] | None = None,
        username: str | None = None,
        password: str | None = None,
        host: tuple[asyncio.AbstractEventLoop, Turns] | None = None,
        make_executor: Callable[[str, int], Executor] = make_threads,
        on_log: Callable[[str, tuple[str, ...], str], None] | None = None,
        reloads_code: bool = False,
        watches: bool = True,
        screen: Screen | None = None,
    ) -> None:
        """`apps`: application directories beside those in `componentsRoot`. `on_loaded`: called before the ports are opened; False: `run` ends with 1.
        `on_ready`: called when they are. `username`, `password`: of the first super user, if one is needed.
        `host`: the loop of another program to run on, with its turns: instead of `run` there are `load`, `begin` and `end` then, and no ports are
        opened. `make_executor(name, threads)`: for what would block the loop. `on_log(level, tags, text)`: called with each
        entry of the log. `reloads_code`: changed Python code takes effect at once, as under `svc dev`. `watches`: changed files are noticed.
        `screen`: shows what happens, and what would be printed of the log."""
        self.config = config
        self.clock = clock
        self.logs = Logs.from_config(config, clock=clock)
        self.logs.on_entry = on_log
        self.logger = self.logs.logger
        self._screen = screen
        self._reloads_code = reloads_code
        self._watches = watches
        self._reloading: asyncio.Task[list[str]] | None = None
        if screen is not None:
            self.logs.screen = screen.entry
        self._release_logging = capture_logging(self.logs, "" if host is None else "svc")
        self._release_output: Callable[[], None] = lambda: None
        code = ApplicationCode()
        self._forgotten = Forgotten(self.logs, code)
        self._release_warnings: Callable[[], None] = lambda: None
        self._on_loaded = on_loaded
        self._on_ready = on_ready
        self._is_serving = False
        self._commit_deferred = False
        self._input = InputShare(clock.monotonic)
        self._has_ports = host is None
        self.loop: asyncio.AbstractEventLoop
        self._turns: Turns
        self.slow_turns: SlowTurns | None = None
        self._held_loop: HeldLoop | None = None
        own_turns: TurnSelector | None = None
        if host is None:
            self.loop, own_turns = new_loop(clock)
            self._turns = own_turns
            self.loop.set_exception_handler(self.report_loop_error)
            self._release_warnings = self._forgotten.watch()
            self._held_loop = HeldLoop(self.logs, clock, lambda *event: self.analytics.recorder.record(*event))
            self.slow_turns = SlowTurns(own_turns, clock, code, self._held_loop, self.logger)
        else:
            self.loop, self._turns = host
        self._tracing = open_tracing(config, clock)
        self._make_dispatcher: Callable[..., Dispatcher] = Dispatcher if self._tracing is None else self._tracing.dispatcher
        self._executor = make_executor("helper", HELPER_THREADS)
        self._blob_executor = make_executor("blob", HELPER_THREADS)  # of its own: no login waits for a disk
        self._graphql_executor = make_executor("graphql", 1)  # nor for the documents of others

        self.store = open_store(
            config, clock=clock, loop=self.loop, executor=self._blob_executor, make_helper=lambda: make_executor("writer", 1)
        )
        create_first_super_user(config, self.store, username, password, on_first_super_user)
        self.directory = UserDirectory(self.store)
        self.verifier = make_verifier(config, self.directory, clock)
        self.events = AuthEvents.from_config(config, self.logs, clock)
        warning = make_keys(config, clock=clock)
        if warning is not None:
            self.logger.warn(warning)
        self.tokens = Tokens.from_config(config, self.directory, clock, executor=self._executor)
        self._executor.submit(self.tokens.make_keys)  # beside the rest of the start
        self._origins = application_origins(config, self.logger)
        self.sessions = Sessions.from_config(
            config,
            self.store,
            self.directory,
            clock,
            verifier=self.verifier,
            executor=self._executor,
            has_other_sites=self._origins.has_other_sites,
        )

        self.resources = Resources()
        self.store.on_drop.append(self.resources.remove_table)
        self.queries = QueryCache()
        self.realtime = Realtime(self.store, self.loop, clock, self.directory)
        self._logins = make_logins(self.store, self.directory, self.realtime, self.loop)
        self.types = ContentTypes.built_in()
        self.interface = Interface(
            self.store,
            self.resources,
            self.queries,
            self.realtime,
            self.loop,
            self.logs.get_logger("application"),
            self.types,
            config.http.timeout,
        )
        if self.slow_turns is not None:
            self.interface.on_code = self.slow_turns.add
            self.interface.on_dropped = self._forgotten.report_call
        self.analytics = Analytics(
            self.store,
            config.analytics.aggregate_period,
            node=config.node.hostname,
            clock=clock,
            storage_interval=config.analytics.storage_interval,
            executor=self._executor,
            max_label_sets=config.operations_api.metrics.max_label_sets,
        )
        self.interface.recorder = self.analytics.recorder

        certificates = StoredCertificates(self.store, config.root / "keys")
        date = HttpDate(clock)
        self.application_port = self._make_application_port(
            PortCertificates(APPLICATION, config, certificates, self.logs, clock, self.loop), date
        )
        self._other_ports = self.application_ports.others
        self.mounts = Mounts(self.loop, self.logs.get_logger("application"))
        self.application_server = self._make_application_server()
        self.interface.server, self.interface.auth = self.application_server, self.application_server.auth
        self._directories = apps
        self.applications, self.scheduler = make_applications(
            config,
            self.store,
            self.resources,
            self.queries,
            self.realtime,
            self.logs,
            self.interface,
            self._executor,
            self._on_application_loaded,
            self.graphql,
        )
        self.operations_port = self._make_operations_port(certificates, date)
        self.reloader = self._make_reloader()
        self._stubs = CurrentStubs(self.loop, self._executor, self.logger.warn) if reloads_code else None
        self._shutdown = Shutdown(
            self.application_port,
            self.operations_port,
            clock=clock,
            loop=self.loop,
            logger=self.logger,
            others=self.application_ports.others,
            stop_sockets=self.application_ports.stop,
        )
        self.scheduler.may_begin = lambda: not self._shutdown.has_begun
        self.periodic = PeriodicWork(
            config,
            self.store,
            self.directory,
            self.analytics,
            self._all_ports,
            clock=clock,
            loop=self.loop,
            turns=self._turns,
            logs=self.logs,
            log_error=self._log_error,
            on_store_stopped=self._shutdown.end_with_store,
            sweeps=(self.interface.running.sweep, self.application_ports.sweep),
        )
        self._turns.end_turn = self._end_turn
        self._forked_child = ForkedChild(config, self.store, self.logs, self._sockets_open, own_turns)

    def _addresses(self) -> dict[str, list[str]]:
        return {
            "applications": [address for ports in self._all_ports() if ports is not self.operations_port for address in ports.addresses],
            "operations": self.operations_port.addresses,
        }

    def _all_ports(self) -> tuple[ServerPorts, ...]:
        return (self.application_port, self.operations_port, *self.application_ports.others)

    def _sockets_open(self) -> Iterator[Any]:
        for ports in (self.application_port, self.operations_port):
            yield from ports.sockets()
        yield from self.application_ports.sockets()

    # --- building --------------------------------------------------------------------------------------------------------------------

    def _make_application_port(self, certificates: PortCertificates, date: HttpDate) -> ServerPorts:
        """Before the applications are loaded: their code may add listeners to it while it is."""
        tickets = Tickets(self.directory, self.clock)
        self._application_identifier = Identifier(
            self.directory,
            Credentials(self.verifier, self.tokens, self.sessions, tickets, certificates.clients),
            Admission(local=self.config.authentication.authorize_local, host_name=self.config.node.hostname),
            clock=self.clock,
            origins=self._origins,
            events=self.events,
            logins=self._logins,
        )
        self.rest = make_rest(
            self.config,
            self.resources,
            clock=self.clock,
            loop=self.loop,
            log_error=self._log_error,
            types=self.types,
            executor=self._executor,
            tickets=tickets,
        )
        self.graphql = make_graphql(
            self.config,
            self.resources,
            self.store,
            self.types,
            self._application_identifier,
            loop=self.loop,
            executor=self._graphql_executor,
            verifying=self._executor,
            log_error=self._log_error,
        )
        self._socket_endpoints: dict[str, SocketEndpoint] = {}
        self.rest.forms[HANDLER_PATH] = self.graphql
        self._sockets = make_websockets(self.clock, self.loop, self.analytics.recorder, self._log_error, self._input)
        dispatcher, upgrades = self._make_application_dispatcher(self.resources)
        ports = self._make_ports(APPLICATION, dispatcher, certificates, date)
        self.application_ports = ApplicationPorts(
            self.config,
            certificates,
            loop=self.loop,
            make_ports=lambda row, dispatcher: self._make_ports(row, dispatcher, certificates, date),
            make_dispatcher=lambda: self._make_application_dispatcher(None),
            warn=self.logger.warn,
            log_error=self._log_error,
            routed=self._record_routed,
            scopes=ListenerScopes(entered, partial(Transaction, self.store)),
            opens_ports=self._has_ports,
        )
        self.application_ports.set_default(ports, dispatcher, upgrades)
        return ports

    def _make_application_dispatcher(self, resources: Resources | None) -> tuple[Dispatcher, UpgradeChain]:
        return make_application_dispatcher(
            self.config,
            self.rest,
            resources,
            self._application_identifier,
            self._origins,
            self.analytics.recorder,
            self._sockets,
            clock=self.clock,
            loop=self.loop,
            executor=self._executor,
            logs=self.logs,
            log_error=self._log_error,
            on_sent=None if self._screen is None else self._screen.request,
            make_dispatcher=self._make_dispatcher,
            socket_endpoints=self._socket_endpoints,
        )

    def _make_reloader(self) -> Reloader:
        return Reloader(
            self.applications,
            components_root=self.config.components_root,
            excluded=(self.config.root, self.config.storage.path, self.config.logging.path.parent),
            reloads_code=self._reloads_code,
            clock=self.clock,
            loop=self.loop,
            executor=self._executor,
            warn=self.logger.warn,
            on_reload=self._on_reload,
            on_waiting=self._on_waiting_files,
            on_current=self.node.status.component_loaded,
        )

    def _make_application_server(self) -> ApplicationServer:
        config = self.config
        shard = None if config.replication is None else config.replication.shard
        return ApplicationServer(
            ServerParts(
                ports=self.application_ports,
                config=shown_configuration(config),
                recorder=self.analytics.recorder,
                directory=self.directory,
                verifier=self.verifier,
                operate=lambda body, user, authorize, joined: self.operations.perform(body, user, authorize=authorize, joined=joined),
                nodes=lambda: known_nodes(self.node),
                hostname=config.node.hostname,
                resources=self.interface.resources,
                content_types=self.rest.types,
                shard=shard if isinstance(shard, int) else None,
                instances=config.instances,
                executor=self._executor,
                current_request=current_request,
                mounts=self.mounts,
            )
        )

    def _on_application_loaded(self, app: App) -> None:
        self._configure_applications()
        self.reloader.on_loaded(app)
        if self._stubs is not None:
            self._stubs.follow(app)

    def _on_reload(self, reload: Reload) -> None:
        """Its faults have been logged."""
        with self.logs.to_files() if self._screen is not None else nullcontext():
            if not reload.faults:
                self.logs.get_logger(reload.app.name, section=reload.app.name).info(reload.text)
        if self._screen is not None:
            self._screen.reloaded(reload)

    def _on_waiting_files(self, application: str, names: Sequence[str], new: Sequence[str]) -> None:
        self.node.status.files_changed(application, names)
        text = f"{', '.join(new)}: changed, which takes effect at a restart (svc restart, or the operation restart_service)"
        self.logs.get_logger(application, section=application).warn(text)

    def _configure_applications(self) -> None:
        """What the ports of applications have of the configurations of these."""
        has_login = self._has_login()
        self.rest.configure(rest_options(self.applications), login=has_login)
        entries = [entry for app in self.applications if (entry := entry_of(app.config)) is not None]
        self.graphql.options = graphql_options(entries)
        is_served = any(map(is_on_main_ports, entries))
        for path in PATHS:
            self.rest.serve(path, self.graphql if is_served else None)
        self._socket_endpoints.clear()
        if is_served and self.graphql.options.extended:
            self._socket_endpoints.update(dict.fromkeys(SOCKET_PATHS, self.graphql.sockets))
        self._application_identifier.login_path = LOGIN_PATH if has_login and self.config.authentication.enable_sessions else None

    def _has_login(self) -> bool:
        """Whether an application wants `/login`. One without a configuration has it too, unless something of its own has that address."""
        wanting = [app for app in self.applications if app.config.get("login") is True]
        return any(app.has_config_file for app in wanting) or (
            bool(wanting) and LOGIN_PATHS.isdisjoint(f"/{path}" for path in self.resources)
        )

    def _make_operations_port(self, stored: StoredCertificates, date: HttpDate) -> ServerPorts:
        certificates = PortCertificates(OPERATIONS, self.config, stored, self.logs, self.clock, self.loop)
        self.node = Node(
            store=self.store,
            config=self.config,
            clock=self.clock,
            loop=self.loop,
            executor=self._executor,
            logs=self.logs,
            directory=self.directory,
            verifier=self.verifier,
            resources=self.resources,
            types=self.rest.types,
            tokens=self.tokens,
            sessions=self.sessions,
            status=StatusBoard(self.clock, self._held_loop),
            analytics=self.analytics,
            apps=self.applications,
            restart=self.restart,
            scheduler=self.scheduler,
            reload=self.reload,
            addresses=self._addresses,
        )
        self.node.jobs.records.recover()
        origins = operations_origins(self.config, self.logger)
        identifier = Identifier(
            self.directory,
            Credentials(self.verifier, self.tokens, self.sessions, certificates=certificates.clients),
            Admission(unix_socket=True, refresh_tokens=True),
            clock=self.clock,
            origins=origins,
            events=self.events,
            logins=self._logins,
        )
        self.operations = Operations(self.node)
        dispatcher = make_operations_dispatcher(
            self.operations,
            identifier,
            origins,
            self.analytics.recorder,
            log_error=self._log_error,
            is_ready=lambda: self.is_ready,
            make_dispatcher=self._make_dispatcher,
        )
        return self._make_ports(OPERATIONS, dispatcher, certificates, date, self.config.operations_api.network.domain_socket)

    def _make_ports(
        self, row: ServerRow, dispatcher: Dispatcher, certificates: PortCertificates, date: HttpDate, domain_socket: Path | None = None
    ) -> ServerPorts:
        return ServerPorts(
            row,
            self.config,
            dispatcher,
            certificates,
            clock=self.clock,
            loop=self.loop,
            logs=self.logs,
            date=date,
            log_error=self._log_error,
            routed=self._record_routed,
            record=self.analytics.recorder.record,
            input=self._input,
            domain_socket=domain_socket,
        )

    async def load(self) -> None:
        """Load the applications; before requests come."""
        await self.node.deployments.recover()
        if os.environ.get("SVC_SAFE_MODE"):
            self.logger.warn("SVC_SAFE_MODE is set: no application is loaded")
            return
        self.applications.reloads_code = self._reloads_code
        if self._watches:
            await self.reloader.open(self._directories)
        began = self.clock.monotonic()
        await self.applications.load_all(self.config.components_root, self._directories)
        if self._screen is not None:
            self._screen.loaded(list(self.applications), self.clock.monotonic() - began)

    def listen(self) -> None:
        """Open every port or raise OSError with none open."""
        mqtt = self.config.mqtt.network
        unserved = [
            f"{name} {port}"
            for name, port in (("mqtt.network.port", mqtt.port), ("mqtt.network.securePort", mqtt.secure_port))
            if port is not None and port != BY_NAME[name].default  # which nobody has asked for
        ]
        if unserved:
            self.logger.warn("not opened, because this version does not serve them yet:", ", ".join(unserved))
        try:
            self.application_port.listen()
            self.operations_port.listen()
        except OSError:
            self.application_port.discard()
            self.application_ports.discard()
            raise

    # --- running ---------------------------------------------------------------------------------------------------------------------

    def run(self) -> int:
        """Serve. Returns the exit status; 1 if a port cannot be opened, or `on_loaded` says so."""
        asyncio.set_event_loop(self.loop)
        try:
            self.loop.run_until_complete(self.load())
            if self._on_loaded is not None and not self._on_loaded(self):
                return 1
            try:
                self.listen()
            except OSError as error:
                self.logger.fatal(f"cannot listen on {error.strerror}")
                print(f"Error: cannot listen on {error.strerror}", file=sys.stderr)
                if (hint := port_hint(error)) is not None:
                    print(hint, file=sys.stderr)
                return 1
            self.application_port.start()
            self.operations_port.start()
            for number in STOPPING:
                self.loop.add_signal_handler(number, self._shutdown.stop_for_good)
            self.loop.add_signal_handler(signal.SIGHUP, self.logs.reopen)
            self._forked_child.note_signals((*STOPPING, signal.SIGHUP))
            if self.config.logging.console:
                self._release_output = capture_output(self.logs)
            assert self.slow_turns is not None
            self.slow_turns.start()
            gc.freeze()  # what start-up built stays until the end: the collector need not visit it; it found half a megabyte in 40 ms
            gc.set_threshold(GC_THRESHOLD, 10, 10)
            self.begin()
            self.logs.thread = "http"
            if self._on_ready is not None:
                self._on_ready(self)
            self._serve()
            return self._shutdown.exit_status
        finally:
            self._close()

    def begin(self) -> None:
        """Requests may come."""
        for text in warnings_of(self.config, self.directory):
            self.logger.warn(text)
        self._is_serving = True
        self.application_ports.start()
        self.periodic.start()
        self.mounts.begin()
        self.scheduler.start()
        self.logger.notify(f"svc {__version__} successfully started.")
        self._end_restarts()

    def _serve(self) -> None:
        """Run the loop until it is stopped. `sys.exit()` or KeyboardInterrupt in a task of an application does not end the server."""
        while True:
            try:
                self.loop.run_forever()
                return
            except (SystemExit, KeyboardInterrupt) as error:  # which asyncio lets through
                self._log_error("a task of an application has called sys.exit() or raised KeyboardInterrupt", contained(error))
                if self._shutdown.is_closing:
                    return

    @property
    def is_ready(self) -> bool:
        """The answer of `/ready`: False until the ports are open and from the beginning of a stop on."""
        return self._is_serving and not (self._shutdown.has_begun or self._shutdown.is_closing)

    def _end_restarts(self) -> None:
        """The ports are open: end the jobs that have restarted this instance."""
        try:
            self.node.jobs.records.end_restarts()
        except Problem as problem:
            self.logger.error("the end of a restart could not be written:", problem.message)

    def _end_turn(self) -> bool:
        """Runs just before each poll. The order is the meaning."""
        store = self.store
        self._input.end_turn()  # before the commit, which what those in line write shares
        if store.has_pending:
            if not self._commit_deferred and self.clock.monotonic() - self._turns.turn_started > LONG_TURN:
                # A large write filled this turn, and its commit will take as long again: serve the requests that have arrived meanwhile first.
                self._commit_deferred = True
            else:
                self._commit_deferred = False
                store.commit_turn()  # first: its outcome decides what the held answers say
        more = self.application_port.connections.end_turn()  # encode and send
        more = self.operations_port.connections.end_turn() or more
        for other in self._other_ports:
            more = other.connections.end_turn() or more
        store.end_turn()  # last: no read snapshot outlives a turn, or it would pin pages while we sleep
        return more or store.has_pending

    # --- stopping --------------------------------------------------------------------------------------------------------------------

    @property
    def restart_wanted(self) -> bool:
        """Whether the caller of `run` is to start the server again."""
        return self._shutdown.restart_wanted

    def stop(self) -> None:
        """First call: stop accepting, finish the requests in flight up to a limit. Second call: stop at once."""
        self._shutdown.stop()

    def restart(self, in_place: bool = False) -> None:
        """Stop as `stop` does, once the answers under way are sent, with `restart_wanted` set. `in_place`: load the applications again instead."""
        if in_place:
            self._reloading = self.loop.create_task(self.reload())
        else:
            self._shutdown.restart()

    async def reload(self) -> list[str]:
        """Load all applications again. Returns what failed, a sentence each."""
        if os.environ.get("SVC_SAFE_MODE"):
            return []
        self.logger.notify("Loading all applications again.")
        return await self.reloader.reload_all()

    def _close(self) -> None:
        """The end of `run`."""
        self.loop.run_until_complete(self._end_parts(lambda: asyncio.all_tasks()))
        self.loop.run_until_complete(self.loop.shutdown_asyncgens())
        self.loop.close()
        self._release()

    async def end(self, tasks: Callable[[], Set[asyncio.Task[Any]]]) -> None:
        """The end on the loop of another program. `tasks`: those of this instance."""
        await self._end_parts(tasks)
        self._release()

    async def _end_parts(self, tasks: Callable[[], Set[asyncio.Task[Any]]]) -> None:
        self._shutdown.is_closing = True
        await self.reloader.close()
        if self.slow_turns is not None:
            self.slow_turns.stop()
        ports = self._all_ports()
        self.application_ports.stop()
        for each in ports:
            each.stop()
        if self.store.has_pending:
            self.store.commit_turn()
            for each in ports:
                each.connections.end_turn()
        for each in ports:
            each.connections.close_all()
        self.application_ports.close()
        await self.mounts.close()
        await self.scheduler.stop()
        self._logins.close()
        self.realtime.close()
        await self.node.deployments.stop()
        self.applications.close()
        await self.applications.ended()
        self.interface.close()
        await self.node.jobs.stop()  # they report how they ended
        await self._end_tasks(tasks)
        self.interface.end()
        self.analytics.close()
        if self._tracing is not None:
            await self._tracing.close()  # behind all requests, the last of which end with their connections
        self._end_turn()
        self._turns.end_turn = lambda: False
        self._executor.shutdown(wait=False, cancel_futures=True)
        self._blob_executor.shutdown(wait=False, cancel_futures=True)
        self._graphql_executor.shutdown(wait=False, cancel_futures=True)
        self.logs.on_pending = None

    def _release(self) -> None:
        self._forked_child.close()
        self.store.close()
        self.logs.thread = "main"
        self.logger.notify("svc stopped.")
        self._release_output()
        self._release_warnings()
        self._release_logging()
        self.logs.close()

    async def _end_tasks(self, tasks: Callable[[], Set[asyncio.Task[Any]]]) -> None:
        """Cancel the remaining tasks. A commit that has begun is waited for."""
        remaining = {task for task in tasks() if task is not asyncio.current_task()}
        await asyncio.sleep(0)  # each has begun
        for task in remaining:
            task.cancel()
        if remaining:
            await asyncio.wait(remaining, timeout=DRAIN_SECONDS)

    # --- reports of the parts --------------------------------------------------------------------------------------------------------

    def _record_routed(self, at_once: bool) -> None:
        self.analytics.recorder.record(at_once, "socket-routed")

    def _log_error(self, where: str, error: BaseException | None) -> None:
        where = without_credentials(where)  # it may have the address of a request
        with self.logs.to_files() if self._screen is not None and error is not None else nullcontext():
            self.logger.error(where, error) if error is not None else self.logger.error(where)
        if self._screen is not None and error is not None:
            self._screen.defect(where, error)

    def report_loop_error(self, loop: asyncio.AbstractEventLoop, context: dict[str, object]) -> None:
        """The exception handler of a loop of its own."""
        if self._forgotten.report_task(context):
            return
        error = context.get("exception")
        self._log_error(str(context.get("message", "event loop")), error if isinstance(error, BaseException) else None)
