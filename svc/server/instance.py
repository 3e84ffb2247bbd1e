"""The parts of one instance, on a loop that somebody runs (spec: configuration §6.4, §6.5). `serving.Server` runs one on a loop of its own."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterator, Set
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from svc import __version__
from svc.analytics import Analytics, AnalyticsSettings
from svc.api.context import current_request, entered
from svc.api.interface import Interface
from svc.api.server import Server as ApplicationServer
from svc.api.server import ServerParts
from svc.api.statements import Statements
from svc.api.transactions import Transaction
from svc.apps import App, Applications
from svc.auth.first_super_user import FirstSuperUser
from svc.clock import SYSTEM_CLOCK, Clock
from svc.config import Config
from svc.connection.input_share import InputShare
from svc.connection.listening import OWN_SOCKETS
from svc.content.registry import ContentTypes
from svc.errors import Problem
from svc.http.confirmed_writes import ConfirmedWrites
from svc.http.dispatch import Dispatcher
from svc.listeners.scopes import ListenerScopes
from svc.logs import AccessLog, Logs, capture_logging
from svc.logs.application_code import ApplicationCode
from svc.logs.forgotten import ForgottenCalls
from svc.loop import Turns, TurnSelector
from svc.mounted import Mounts
from svc.operations.job_records import JobRecords
from svc.operations.node import Node
from svc.operations.status_board import StatusBoard
from svc.parent import Link
from svc.query import QueryCache
from svc.reactor import Reactor
from svc.realtime.realtime import Realtime
from svc.resources import Resources
from svc.root.administrator import Administrator
from svc.scheduler import Scheduler
from svc.server.accounts import NOBODY_GIVEN, Accounts
from svc.server.application_interfaces import ApplicationInterfaces, PortDispatchers
from svc.server.application_ports import ApplicationPorts
from svc.server.building import drive_warnings, find_siblings, make_applications, make_shedder, make_statements, open_store, warnings_of
from svc.server.current_stubs import CurrentStubs
from svc.server.forked_child import ForkedChild
from svc.server.garbage import Garbage
from svc.server.handover import Heir, Heritages
from svc.server.http_date import HttpDate
from svc.server.operations_interface import OperationsInterface
from svc.server.periodic import PeriodicWork
from svc.server.ports import APPLICATION, MQTT, OPERATIONS, PortCertificates, PortParts, ServerPorts
from svc.server.reloading import Reloader
from svc.server.reports import Defects, ReloadReports
from svc.server.screen import Screen
from svc.server.shown_configuration import shown_configuration
from svc.server.shutdown import DRAIN_SECONDS, Shutdown
from svc.siblings import Siblings
from svc.store import Store
from svc.tls.entries import StoredCertificates
from svc.tracing import open_tracing

if TYPE_CHECKING:
    from svc.accounts.parts import AccountParts
    from svc.mail.service import MailService
    from svc.server.replicating import Replicating

HELPER_THREADS = 2
SQL_THREADS = 64  # one for each open statement, which work in turns (`svc.sql.threads`)
DRIVES_AFTER = 2.0  # seconds after the start: when the drives of the databases are looked at
LOGIN_OUTCOME = "a login has failed, or has not after failures"
LONG_TURN = 0.005  # seconds of work in a turn after which its commit is left to the next


def make_threads(name: str, count: int) -> Executor:
    """Number of helper threads."""
    return ThreadPoolExecutor(count, thread_name_prefix=name)


@dataclass(frozen=True, slots=True)
class InstanceOptions:
    """What differs between a server, a test and a trial of an application.

    `administrator`: the first super user, if one has to be created. `on_first_super_user`: called with it then. `make_executor(name, threads)`: for
    what would block the loop. `on_log(level, tags, text)`: called with each entry of the log. `reloads_code`: changed Python code takes effect at once,
    as under `svc dev`. `watches`: changed files are noticed. `screen`: shows what happens, and what would be printed of the log. `opens_ports`: False:
    requests come in another way, and the signals, the logging and the sockets of this process belong to another program. `number`: of this instance; None: the
    lowest that no other process over the same databases has. `link`: to the parent process, if it has one.
    """

    administrator: Administrator = NOBODY_GIVEN
    on_first_super_user: Callable[[FirstSuperUser], None] | None = None
    make_executor: Callable[[str, int], Executor] = make_threads
    on_log: Callable[[str, tuple[str, ...], str], None] | None = None
    reloads_code: bool = False
    watches: bool = True
    screen: Screen | None = None
    opens_ports: bool = True
    number: int | None = None
    link: Link | None = None


DEFAULT_OPTIONS: InstanceOptions = InstanceOptions()


class Instance:
    """`load`, then `begin`, then `end`. Its parts, by the name that the rest of `svc` has for them, are made in this order."""

    defects: Defects
    store: Store
    siblings: Siblings
    interface: Interface
    analytics: Analytics
    application_port: ServerPorts
    application_ports: ApplicationPorts
    operations_port: ServerPorts
    applications: Applications
    scheduler: Scheduler
    statements: Statements

    def __init__(
        self,
        config: Config,
        directories: tuple[Path, ...],
        loop: asyncio.AbstractEventLoop,
        turns: Turns,
        *,
        clock: Clock = SYSTEM_CLOCK,
        options: InstanceOptions = DEFAULT_OPTIONS,
    ) -> None:
        """`directories`: of applications beside those in `componentsRoot`. `turns`: of the loop."""
        self.config = config
        self.clock = clock
        self._options = options
        self._link = options.link
        self._directories = directories
        self._turns = turns
        self._is_serving = False
        self._commit_deferred = False
        self._heritages = Heritages(self._all_ports, loop)
        self._reloading: asyncio.Task[list[str]] | None = None
        self._open_logs()
        self._executors = {
            name: options.make_executor(name, threads)
            for name, threads in (("helper", HELPER_THREADS), ("graphql", 1), ("sql", SQL_THREADS))
        }
        self.reactor = Reactor(loop, clock, self._executors["helper"], self.defects.report)
        self._open_store()
        self.accounts = Accounts(config, self.store, self.reactor, self.logs, options.administrator, options.on_first_super_user)
        self._share_failed_logins()
        self._make_resources()
        self._make_ports()
        self._load_with()
        self.reloader = self._make_reloader()
        self.reloader.load = self.node.loads.load
        self._shutdown = Shutdown(
            self.application_port,
            self.operations_port,
            clock=clock,
            loop=loop,
            logger=self.logger,
            further=self.application_ports,
            link=self._link,
            on_stop=self._on_stop,
        )
        self.scheduler.may_begin = lambda: not self._shutdown.has_begun
        self.periodic = PeriodicWork(
            config,
            self.store,
            self.accounts.directory,
            self.analytics,
            self._all_ports,
            reactor=self.reactor,
            turns=turns,
            logs=self.logs,
        )
        rotation = self.siblings.lead(f"logs in {config.logging.path.parent.resolve()}", lambda: None)
        self.periodic.leads, self.periodic.rotates = lambda: self.siblings.is_leader, lambda: rotation.is_held
        self.periodic.on_turn = self.siblings.awake
        self.periodic.on_store_stopped = self._shutdown.end_with_store
        self.garbage = Garbage(turns, self.clock.monotonic, self.logger.warn)
        self.periodic.sweeps = [
            self.interface.running.sweep,
            self.application_ports.sweep,
            self.interfaces.sweep,
            self.garbage.sweep,
            self.siblings.sweep,
            self._jobs.sweep,
            self.realtime.feed.sweep,
        ]
        if self._shedder is not None:
            self.periodic.sweeps.append(self._shedder.sweep)
        if self._link is not None:
            self.periodic.sweeps.append(self._link.beat)
        turns.end_turn = self._end_turn
        own_turns = turns if options.opens_ports and isinstance(turns, TurnSelector) else None
        self.forked_child = ForkedChild(config, self.store, self.logs, self._sockets_open, own_turns)

    # --- building: each uses what those before have made ----------------------------------------------------------------------------------

    def _open_logs(self) -> None:
        options = self._options
        self.logs = Logs.from_config(self.config, clock=self.clock)
        self.logs.on_entry = options.on_log
        self.logger = self.logs.logger
        if options.screen is not None:
            self.logs.screen = options.screen.entry
        self._release_logging = capture_logging(self.logs, "" if options.opens_ports else "svc")
        self.code = ApplicationCode()
        self._replicating: Replicating | None = None
        self.defects = Defects(self.logs, ForgottenCalls(self.logs, self.code), options.screen)

    def _open_store(self) -> None:
        make_executor = self._options.make_executor
        self._executors["blob"] = make_executor("blob", HELPER_THREADS)  # of its own: no login waits for a disk
        self.store = open_store(self.config, self.reactor, self._executors["blob"], make_helper=lambda: make_executor("writer", 1))
        self.siblings = find_siblings(self.config, self.reactor, self._options.number)
        self._others = self.siblings.others
        self._told_commits = 0
        self.logs.instance = self.siblings.number

    def _share_failed_logins(self) -> None:
        verifier, siblings = self.accounts.verifier, self.siblings
        verifier.on_outcome = lambda *outcome: siblings.tell(LOGIN_OUTCOME, outcome)
        siblings.answer(LOGIN_OUTCOME, lambda outcome: verifier.hear(*outcome))

    def _make_resources(self) -> None:
        """What applications put into, and what code of theirs works with."""
        config, reactor = self.config, self.reactor
        self.resources = Resources()
        self.store.on_drop.append(self.resources.remove_table)
        self.queries = QueryCache()
        self.realtime = Realtime(self.store, reactor.loop, self.clock, self.accounts.directory)
        self.realtime.feed.is_woken = lambda: self.siblings.has_others
        self.accounts.watch_logins(self.realtime)
        self.types = ContentTypes.built_in()
        self.interface = Interface(
            self.store,
            self.resources,
            self.queries,
            self.realtime,
            reactor.loop,
            self.logs.get_logger("application"),
            self.types,
            config.http.timeout,
        )
        self.interface.lead = self.siblings.lead
        self.statements = self.interface.statements = make_statements(config, self.store, reactor, self._executors["sql"])
        settings = AnalyticsSettings(
            config.analytics.aggregate_period,
            config.analytics.storage_interval,
            config.operations_api.metrics.max_label_sets,
            has_others=config.replication is not None,
            replicate=config.replication is not None and config.analytics.replicate,
        )
        self.analytics = Analytics(
            self.store,
            settings,
            node=config.node_name,
            clock=self.clock,
            thread_id=self.siblings.number,
            leads=self.siblings.is_leader,
            executor=reactor.executor,
        )
        self.siblings.on_lead.append(self.analytics.lead)
        self.siblings.on_resign.append(self.analytics.resign)
        self.interface.recorder = self.analytics.recorder
        self.mounts = Mounts(reactor.loop, self.logs.get_logger("application"))

    def _make_ports(self) -> None:
        """Before the applications are loaded: their code may add listeners while it is."""
        config, reactor, recorder = self.config, self.reactor, self.analytics.recorder
        self._tracing = open_tracing(config, self.clock)
        make: Callable[..., Dispatcher] = Dispatcher if self._tracing is None else self._tracing.dispatcher
        confirmed_writes = ConfirmedWrites(self.store)

        def make_dispatcher(*arguments: Any, **options: Any) -> Dispatcher:
            dispatcher = make(*arguments, **options)
            dispatcher.confirmed_writes = confirmed_writes
            return dispatcher

        self._input = InputShare(self.clock.monotonic)
        self._shedder = make_shedder(config, self._input, reactor, recorder, self.logger.warn)
        date = HttpDate(self.clock).value
        parts = PortParts(config, reactor, self.logs, recorder, date, self._input, self._shedder, self._link or OWN_SOCKETS)
        stored = StoredCertificates(self.store, config.root / "keys")

        certificates = PortCertificates(APPLICATION, config, stored, self.logs, self.clock, reactor.loop)
        self.interfaces = ApplicationInterfaces(
            config, self.store, self.resources, self.types, reactor, self.accounts, certificates.clients, self._executors["graphql"]
        )
        if config.sql.access != "none":
            self.interfaces.rest.serve_sql(self.statements, self.store, config.sql.access)
        self.interfaces.siblings = self.siblings
        self.interfaces.answer_siblings()
        self.interfaces.recorder = recorder
        self.interfaces.mqtt_log = self.logs.log("mqtt")
        dispatchers = PortDispatchers(
            config,
            self.interfaces,
            self.accounts.origins,
            recorder,
            reactor,
            access=AccessLog.from_config(config, self.logs),
            input=self._input,
            make=make_dispatcher,
        )
        if self._options.screen is not None:
            dispatchers.on_sent = self._options.screen.request
        dispatcher, upgrades = dispatchers.make(self.resources)
        self.application_port = ServerPorts(APPLICATION, parts, dispatcher, certificates)
        self.application_ports = ApplicationPorts(
            parts,
            certificates,
            make_dispatcher=lambda: dispatchers.make(None),
            scopes=ListenerScopes(entered, partial(Transaction, self.store)),
            opens_ports=self._options.opens_ports,
        )
        self.application_ports.set_default(self.application_port, dispatcher, upgrades)
        self.mqtt_port: ServerPorts | None = None
        if self._options.opens_ports and (config.mqtt.network.port is not None or config.mqtt.network.secure_port is not None):
            certificates = PortCertificates(MQTT, config, stored, self.logs, self.clock, reactor.loop)
            self.interfaces.mqtt_identifier = self.accounts.application_identifier(certificates.clients)
            self.mqtt_port = ServerPorts(
                MQTT, parts, dispatcher, certificates, make_receiver=lambda certificate: self.interfaces.mqtt_link(certificate)
            )
            self.application_ports.others.append(self.mqtt_port)

        accounts = self.accounts
        self.node = Node(
            store=self.store,
            config=config,
            clock=self.clock,
            loop=reactor.loop,
            executor=reactor.executor,
            logs=self.logs,
            directory=accounts.directory,
            verifier=accounts.verifier,
            resources=self.resources,
            types=self.types,
            tokens=accounts.tokens,
            sessions=accounts.sessions,
            status=StatusBoard(self.clock),
            analytics=self.analytics,
            restart=self.restart,
            reload=self.reload,
            addresses=self._addresses,
            siblings=self.siblings,
            instance=self.siblings.number,
            statements=self.statements,
        )
        self.node.status.restarts = self._link
        self.node.answer_siblings()
        self._jobs = JobRecords(self.node)
        self.siblings.on_left += [self._jobs.owner_left, self.node.owner_left]
        certificates = PortCertificates(OPERATIONS, config, stored, self.logs, self.clock, reactor.loop)
        origins = accounts.operations_origins()
        self.operations_interface = OperationsInterface(self.node, reactor, lambda: self.is_ready)
        self.interfaces.rest.use_operations(
            lambda body, user: self.operations_interface.operations.perform(body, user, authorize=True),
            lambda: self.operations_port.addresses if config.local_studio.enabled else (),
        )
        self.operations_interface.answer_siblings(self.siblings)
        self.operations_port = ServerPorts(
            OPERATIONS,
            parts,
            self.operations_interface.dispatcher(
                accounts.operations_identifier(certificates.clients, origins), origins, recorder, make_dispatcher
            ),
            certificates,
            domain_socket=config.operations_api.network.domain_socket,
        )

    def _load_with(self) -> None:
        """Applications, none of them loaded yet, and what they have of the instance."""
        self.application_server = self._make_application_server()
        self.interface.server, self.interface.auth = self.application_server, self.application_server.auth
        self.applications, self.scheduler = make_applications(
            self.config,
            self.resources,
            self.reactor,
            self.logs,
            self.interface,
            self.siblings,
            self._on_application_loaded,
            answer_graphql=lambda request: self.interfaces.graphql.handle(request),
            serve_graphql=lambda socket, request: self.interfaces.graphql.serve_socket(socket, request),
            account_parts=self._find_account_parts,
        )
        self.node.apps, self.node.scheduler = self.applications, self.scheduler
        self.interface.find_mail = self.node.find_mail = self._find_mail
        self._account_parts: AccountParts | None = None
        self._mail: MailService | None = self._make_mail() if self.config.mail is not None else None
        if self.config.dev and (self._mail is None or self._mail.sender is None):
            from svc.server.kept_mails import KEPT_MAILS, KeptMailsEndpoint

            self.interfaces.rest.serve(KEPT_MAILS, KeptMailsEndpoint(self._find_mail, self.reactor))
        self._stubs = CurrentStubs(self.reactor.loop, self.reactor.executor, self.logger.warn) if self._options.reloads_code else None

    def _make_mail(self) -> MailService:
        from svc.mail.service import MailService

        return MailService(
            self.config, self.store, self.siblings, self.reactor, self._options.make_executor, is_sent=self._options.opens_ports
        )

    def _find_mail(self) -> MailService | None:
        """Mail, if it is configured. In development and tests, where it is kept and not sent, what asks for it first makes it."""
        if self._mail is None and (self.config.dev or not self._options.opens_ports):
            self._mail = self._make_mail()
        return self._mail

    def _find_account_parts(self) -> AccountParts:
        """Made for the first application that has accounts."""
        if self._account_parts is None:
            from svc.server.account_parts import make_account_parts

            self._account_parts = make_account_parts(
                self.config, self.store, self.reactor, self.accounts, self.siblings, self._find_mail(), self.logger
            )
        return self._account_parts

    def _make_application_server(self) -> ApplicationServer:
        config = self.config
        shard = None if config.replication is None else config.replication.shard
        return ApplicationServer(
            ServerParts(
                ports=self.application_ports,
                config=shown_configuration(config),
                recorder=self.analytics.recorder,
                directory=self.accounts.directory,
                verifier=self.accounts.verifier,
                operate=self._operate,
                nodes=self.operations_interface.known_nodes,
                hostname=config.node_name,
                resources=self.interface.resources,
                content_types=self.types,
                shard=shard if isinstance(shard, int) else None,
                instance=self.siblings.number,
                instances=config.instances,
                executor=self.reactor.executor,
                current_request=current_request,
                send_to_node=self.operations_interface.send_to_node,
                mounts=self.mounts,
                make_mqtt=self.interfaces.make_mqtt_server,
            )
        )

    async def _operate(self, body: Any, user: Any, authorize: bool, joined: Any) -> Any:
        """`server.operation`."""
        return await self.operations_interface.operations.perform(body, user, authorize=authorize, joined=joined)

    def _make_reloader(self) -> Reloader:
        config = self.config
        return Reloader(
            self.applications,
            self.reactor,
            ReloadReports(self.logs, self.node.status, self._options.screen),
            components_root=config.components_root,
            excluded=(config.root, config.storage.path, config.logging.path.parent),
            reloads_code=self._options.reloads_code,
        )

    # --- its ports -----------------------------------------------------------------------------------------------------------------------

    def _addresses(self) -> dict[str, list[str]]:
        return {
            "applications": [address for ports in self._all_ports() if ports is not self.operations_port for address in ports.addresses],
            "operations": self.operations_port.addresses,
        }

    def _all_ports(self) -> tuple[ServerPorts, ...]:
        return (self.application_port, self.operations_port, *self.application_ports.others)

    def _sockets_open(self) -> Iterator[Any]:
        if self._link is not None:
            yield self._link
        for ports in (self.application_port, self.operations_port):
            yield from ports.sockets()
        yield from self.application_ports.sockets()

    # --- applications --------------------------------------------------------------------------------------------------------------------

    async def load(self) -> None:
        """Load the applications; before requests come. Raises ConfigError for a table of free topics that cannot be one."""
        if self._options.opens_ports:
            await self.node.open_siblings()
        await self._jobs.recover_soon()
        async with self.node.loads.gate(shared=True):
            await self.node.recover_deployments()
            if os.environ.get("SVC_SAFE_MODE"):
                self.logger.warn("SVC_SAFE_MODE is set: no application is loaded")
            else:
                await self._load_applications()
            self.node.loads.is_open = True
        if self.config.mqtt.free_topics is not None:
            self._open_free_topics(self.config.mqtt.free_topics)

    async def _load_applications(self) -> None:
        self.applications.reloads_code = self._options.reloads_code
        if self._options.watches:
            await self.reloader.open(self._directories)
        began = self.clock.monotonic()
        await self.applications.load_all(self.config.components_root, self._directories)
        if self._options.screen is not None:
            self._options.screen.loaded(list(self.applications), self.clock.monotonic() - began)

    def _open_free_topics(self, name: str) -> None:
        """After the applications are loaded: one may declare the table."""
        from svc.mqtt.free_topics import open_free_topics

        self.interfaces.mqtt.addresses.free = open_free_topics(name, self.store, self.queries, self.realtime)

    def _on_application_loaded(self, app: App) -> None:
        self.interfaces.configure(self.applications)
        self.garbage.has_replaced = True
        self.reloader.on_loaded(app)
        if self._stubs is not None:
            self._stubs.follow(app)

    async def reload(self) -> list[str]:
        """Load all applications again. Returns what failed, a sentence each."""
        if os.environ.get("SVC_SAFE_MODE"):
            return []
        self.logger.notify("Loading all applications again.")
        async with self.node.loads.gate():
            return await self.reloader.reload_all()

    # --- serving -------------------------------------------------------------------------------------------------------------------------

    def _warn(self, texts: Iterator[str]) -> None:
        for text in texts:
            self.logger.warn(text)

    def begin(self) -> None:
        """Requests may come."""
        self._warn(warnings_of(self.config, self.accounts.directory))
        self.reactor.loop.call_later(DRIVES_AFTER, self._warn, drive_warnings(self.config))
        self._is_serving = True
        if self._link is not None:
            self._link.on_retire = lambda heir: self._shutdown.retire(Heir(heir), self.config.http.timeout)
            self._link.on_succeed, self._link.on_lost = self._heritages.take, self._shutdown.stop
            self._link.begin(self.reactor.loop)
        self.application_ports.start()
        if self._options.opens_ports:
            self.interfaces.begin()
        self.periodic.start()
        if self.config.replication is not None and self._options.opens_ports:
            self._replicate()
        self.mounts.begin()
        self.scheduler.start()
        if self._mail is not None:
            self._mail.begin()
        self.reloader.begin()
        self.logger.notify(f"svc {__version__} successfully started.")
        self._ending_restarts = self.reactor.loop.create_task(self._end_restarts(), name="the end of a restart")

    def _replicate(self) -> None:
        from svc.server.replicating import Replicating

        run = self.operations_interface.run_for_node
        self._replicating = Replicating(self.config, self.store, self.siblings, self.realtime.feed, self.logs, self.reactor, run)
        self._replicating.record, self._replicating.gauge = self.analytics.recorder.record, self.analytics.recorder.gauge
        self.node.more_families = self._replicating.families
        self.node.replication = self._replicating.control
        self.reactor.loop.call_soon(self._replicating.begin)  # which needs the loop to run
        self.periodic.sweeps.append(self._replicating.sweep)

    async def _end_restarts(self) -> None:
        try:
            await self._jobs.end_restarts()  # of the jobs that have restarted this instance
        except Problem as problem:
            self.logger.error("the end of a restart could not be written:", problem.message)

    @property
    def is_ready(self) -> bool:
        """The answer of `/ready`: False until the ports are open and from the beginning of a stop on. One that is replaced says what its successor does."""
        shutdown = self._shutdown
        return self._is_serving and (shutdown.is_replaced or not (shutdown.has_begun or shutdown.is_closing))

    def _end_turn(self) -> bool:
        """Runs just before each poll. The order is the meaning."""
        store = self.store
        has_served = self._input.end_turn()  # before the commit, which what those in line write shares
        if store.has_pending:
            if not self._commit_deferred and self.clock.monotonic() - self._turns.turn_started > LONG_TURN:
                # A large write filled this turn, and its commit will take as long again: serve the requests that have arrived meanwhile first.
                self._commit_deferred = True
            else:
                self._commit_deferred = False
                store.commit_turn()  # first: its outcome decides what the held answers say
        if self._others:
            self._meet_others()
        more = self.application_port.connections.end_turn()  # encode and send
        more = self.operations_port.connections.end_turn() or more
        for other in self.application_ports.others:
            more = other.connections.end_turn() or more
        store.end_turn()  # last: no read snapshot outlives a turn, or it would pin pages while we sleep
        if self._turns.active >= self.garbage.due:
            self.garbage.collect()
        return more or has_served or store.has_pending

    def _meet_others(self) -> None:
        """Before the answers of the turn are sent, because there is something for subscribers, too."""
        commits = self.store.commits
        if commits != self._told_commits:
            self._told_commits = commits
            self.siblings.wake()
        feed = self.realtime.feed
        if feed.is_following:
            self.siblings.sleep()  # first: what is committed behind the look wakes this process
            feed.look()

    # --- stopping ------------------------------------------------------------------------------------------------------------------------

    def _on_stop(self) -> None:
        """Others lead and listen from now on."""
        self.siblings.resign()
        if self._link is not None:
            self._link.leave()
        self.application_ports.stop()

    @property
    def shutdown(self) -> Shutdown:
        """How it stops, and what its process does then."""
        return self._shutdown

    def restart(self, in_place: bool = False) -> None:
        """Stop, once the answers under way are sent, to be started again. `in_place`: load the applications again instead."""
        if in_place:
            self._reloading = self.reactor.loop.create_task(self.reload())
        else:
            self._shutdown.restart()

    async def end(self, tasks: Callable[[], Set[asyncio.Task[Any]]]) -> None:
        """Close everything; nothing of it is used any more. `tasks`: those of this instance."""
        await self.end_parts(tasks)
        self.release()

    async def end_parts(self, tasks: Callable[[], Set[asyncio.Task[Any]]]) -> None:
        """The first half of `end`: what needs the loop."""
        self._shutdown.is_closing = True
        await self.reloader.close()
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
        self._heritages.close()
        await self.mounts.close()
        await self.scheduler.stop()
        if self._mail is not None:
            await self._mail.end()
        if self._replicating is not None:
            await self._replicating.end()
        self.accounts.close()
        self.realtime.close()
        await self.node.stop_deployments()
        self.applications.close()
        await self.applications.ended()
        self.interface.close()
        await self.node.stop_jobs()
        await self.siblings.close()
        await _end_tasks(tasks)
        self.interface.end()
        self.statements.close()
        self.analytics.close()
        if self._tracing is not None:
            await self._tracing.close()  # behind all requests, the last of which end with their connections
        self._end_turn()
        self._turns.end_turn = lambda: False
        for executor in self._executors.values():
            executor.shutdown(wait=False, cancel_futures=True)
        self.logs.on_pending = None

    def release(self) -> None:
        """The second half of `end`."""
        self.forked_child.close()
        if self._link is not None:
            self._link.close()
        self.store.close()
        self.siblings.release()
        self.logs.thread = "main"
        self.logger.notify("svc stopped.")
        self._release_logging()
        self.logs.close()


async def _end_tasks(tasks: Callable[[], Set[asyncio.Task[Any]]]) -> None:
    """Cancel the remaining tasks. A commit that has begun is waited for."""
    remaining = {task for task in tasks() if task is not asyncio.current_task()}
    await asyncio.sleep(0)  # each has begun
    for task in remaining:
        task.cancel()
    if remaining:
        await asyncio.wait(remaining, timeout=DRAIN_SECONDS)
