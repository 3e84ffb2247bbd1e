"""What answers on the ports of applications: REST and GraphQL, WebSockets on the same paths (spec: http §14)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from functools import cached_property
from typing import TYPE_CHECKING, Any

from svc.analytics import Recorder
from svc.api.mqtt import MqttServer
from svc.apps import App
from svc.apps.graphql_entry import entry_of, graphql_options, is_on_main_ports
from svc.auth.origin_policy import OriginPolicy
from svc.config import Config
from svc.connection.exchange import Exchange
from svc.connection.input_share import InputShare
from svc.content.registry import ContentTypes
from svc.errors import Problem
from svc.graphql.settings import HANDLER_PATH, METHODS, PATHS, SOCKET_PATHS, GraphQLOptions
from svc.http.bodies import Bodies
from svc.http.compression import Compression
from svc.http.cors import Cors
from svc.http.decoding import RequestDecoder
from svc.http.dispatch import Dispatcher
from svc.listeners.upgrade_chain import UpgradeChain
from svc.logs import AccessLog
from svc.logs.core import SectionLog
from svc.messages import Request, Response
from svc.mqtt.group_rows import ENTER, FREE
from svc.mqtt.listeners import ClientListeners
from svc.mqtt.taking_over import TAKE_OVER
from svc.prepared import PreparedRequests
from svc.reactor import Reactor
from svc.resources import Resources
from svc.rest import Rest, RestOptions
from svc.rest.login import LOGIN_PATH
from svc.rest.login import PATHS as LOGIN_PATHS
from svc.server.accounts import Accounts
from svc.siblings import Siblings
from svc.store import Store
from svc.store.system import DURABLE_SESSION_TABLE, SESSION_WILL_TABLE, SYSTEM
from svc.tls.mtls import ClientCertificates
from svc.websocket import WebSocketRegistry
from svc.websocket.resource_sockets import ResourceSockets, SocketEndpoint

if TYPE_CHECKING:
    from svc.accounts.openid.logins import ProviderLogins
    from svc.graphql.endpoint import GraphQLEndpoint
    from svc.mqtt.broker import Broker
    from svc.mqtt.link import Link

CLEANING = 3600.0  # seconds between two looks for rows of sessions of MQTT that have ended


class ApplicationInterfaces:
    """`rest` and `identifier` are of all ports. `socket_endpoints`: what serves WebSockets before the resources, by path. `recorder`: of the metrics.
    `mqtt_log`: of the broker. `siblings`: the other processes over the databases."""

    recorder: Recorder
    mqtt_log: SectionLog
    siblings: Siblings

    def __init__(
        self,
        config: Config,
        store: Store,
        resources: Resources,
        types: ContentTypes,
        reactor: Reactor,
        accounts: Accounts,
        certificates: ClientCertificates | None,
        graphql_executor: Executor,
    ) -> None:
        """`certificates`: of the clients of TLS. `graphql_executor`: a thread for long documents."""
        self._config = config
        self._store = store
        self._resources = resources
        self._reactor = reactor
        self._directory = accounts.directory
        self._graphql_executor = graphql_executor
        self._compression = Compression(config.http.compression_threshold)
        self._decoder = request_decoder(config)
        self._graphql_options = GraphQLOptions()
        self._accounts: Any = None  # that are served
        self._instance_accounts = accounts
        self._logins: ProviderLogins | None = None
        self.identifier = self.mqtt_identifier = accounts.application_identifier(certificates)
        self.rest = Rest(resources, reactor, types=types, compression=self._compression, decoder=self._decoder, tickets=accounts.tickets)
        self._late_graphql = _LateGraphQL(self)
        self.rest.forms[HANDLER_PATH] = self._late_graphql
        self.socket_endpoints: dict[str, SocketEndpoint] = {}
        self._mqtt_listeners = ClientListeners(reactor.loop)
        self._has_begun = False
        self._next_cleaning = reactor.clock.monotonic() + CLEANING

    @cached_property
    def graphql(self) -> GraphQLEndpoint:
        from svc.graphql.endpoint import GraphQLEndpoint  # a tenth of all modules, and many servers are never asked

        bodies = Bodies(self.rest.types, self._decoder)
        return GraphQLEndpoint(
            self._resources,
            self._store,
            bodies,
            self._compression,
            self.identifier,
            self._reactor,
            self._graphql_executor,
            self._graphql_options,
        )

    @cached_property
    def mqtt(self) -> Broker:
        from svc.mqtt.broker import Broker, Identifiers
        from svc.mqtt.client_log import ClientLog
        from svc.mqtt.metrics import MqttMetrics
        from svc.mqtt.payloads import Payloads

        broker = Broker(
            self._config.mqtt,
            self._resources,
            Payloads(self.rest.types),
            Identifiers(self.mqtt_identifier, self.identifier, self._directory),
            self._reactor,
            MqttMetrics(self.recorder),
            self._mqtt_listeners,
            self.siblings,
        )
        broker.log = ClientLog(self.mqtt_log, broker.now)
        return broker

    def make_mqtt_server(self) -> MqttServer:
        """`server.mqtt` of one application."""
        return MqttServer(self._mqtt_listeners, lambda: self.mqtt.clients if "mqtt" in self.__dict__ else [])

    @property
    def mqtt_sockets(self) -> SocketEndpoint | None:
        """What serves MQTT over WebSocket; None: it is switched off."""
        return _LateMqttSockets(self) if self._config.mqtt.web_socket else None

    def mqtt_link(self, certificate: Any) -> Link:
        """What serves a new connection of MQTT. `certificate`: of its client, None without one."""
        from svc.mqtt.link import Link

        return Link(self.mqtt, certificate)

    def answer_siblings(self) -> None:
        """Before they ask, or end."""
        self.siblings.answer(TAKE_OVER, lambda value: self.mqtt.give_up(value))
        self.siblings.on_lead.append(self._take_up)
        self.siblings.on_left.append(self._sibling_left)
        self.siblings.answer(ENTER, lambda name: self.mqtt.share(name) if "mqtt" in self.__dict__ else True)
        self.siblings.answer(FREE, lambda name: self.mqtt.freed(name) if "mqtt" in self.__dict__ else None)

    def begin(self) -> None:
        """Requests may come: what sessions of MQTT have left is taken up."""
        self._has_begun = True
        self._take_up()

    def _take_up(self) -> None:
        """One of the processes does that for all that have ended."""
        if not (self._has_begun and self.siblings.is_leader):
            return
        system = self._store.databases[SYSTEM]
        snapshot = system.snapshot()
        if any(snapshot.stat(system.tables[name].primary)["entries"] for name in (DURABLE_SESSION_TABLE, SESSION_WILL_TABLE)):
            self.mqtt.take_up()

    def sweep(self, now: float) -> None:
        """About once a second."""
        if "mqtt" in self.__dict__:
            self.mqtt.sweep(now)
        if now >= self._next_cleaning:
            self._next_cleaning = now + CLEANING
            self._clean()

    def _clean(self) -> None:
        """One of the processes does that for all."""
        if self.siblings.is_leader:
            databases = [database for database in self._store.databases.values() if not database.is_dropped]
            if any(database.snapshot().stat(database.mqtt_rows)["entries"] for database in databases):
                self.mqtt.clean()

    def _sibling_left(self, identity: str) -> None:
        self._take_up()
        if "mqtt" in self.__dict__:
            self.mqtt.sibling_left()

    def configure(self, applications: Sequence[App]) -> None:
        """Take over what the configurations of applications say."""
        has_login = self._has_login(applications)
        self.rest.configure(_rest_options(applications), login=has_login)
        entries = [entry for app in applications if (entry := entry_of(app.config)) is not None]
        self._graphql_options = graphql_options(entries)
        if "graphql" in self.__dict__:
            self.graphql.options = self._graphql_options
        is_served = any(map(is_on_main_ports, entries))
        for path in PATHS:
            self.rest.serve(path, self._late_graphql if is_served else None)
        self.socket_endpoints.clear()
        if is_served and self._graphql_options.extended:
            self.socket_endpoints.update(dict.fromkeys(SOCKET_PATHS, self.graphql.sockets))
        self._serve_accounts(applications)
        self.identifier.login_path = LOGIN_PATH if has_login and self._config.authentication.enable_sessions else None

    def _serve_accounts(self, applications: Sequence[App]) -> None:
        """One application has accounts at most (`apps.accounts_entry`)."""
        found = next(((app, accounts) for app in applications if (accounts := _accounts_of(app)) is not None), None)
        accounts = None if found is None else found[1]
        if accounts is self._accounts:
            return
        self._accounts = accounts
        if self._logins is not None:
            self._logins.close_soon()
        if found is None:
            self._logins, self.rest.login_pages.choices = None, ()
            self.rest.serve_accounts(None)
        else:
            from svc.server.account_parts import account_endpoints, provider_logins

            app, accounts = found
            self._logins = provider_logins(accounts, self._instance_accounts, self._reactor, self.rest.login_pages)
            pages = app.directory / accounts.settings.pages
            self.rest.serve_accounts(account_endpoints(accounts, pages, self._reactor, self._logins))

    def _has_login(self, applications: Sequence[App]) -> bool:
        """Whether an application wants `/login`. One without a configuration has it too, unless something of its own has that address."""
        wanting = [app for app in applications if app.config.get("login", _accounts_of(app) is not None) is True]
        return any(app.has_config_file for app in wanting) or (
            bool(wanting) and LOGIN_PATHS.isdisjoint(f"/{path}" for path in self._resources)
        )


def _accounts_of(app: App) -> Any:
    """The accounts of an application; None: it has none."""
    return getattr(app.loaded("accounts"), "accounts", None)


class _LateGraphQL:
    """The endpoint of `ApplicationInterfaces.graphql`, which the first request makes."""

    methods = METHODS

    def __init__(self, interfaces: ApplicationInterfaces) -> None:
        self._interfaces = interfaces

    def handle(self, request: Request) -> Any:
        return self._interfaces.graphql.handle(request)

    @property
    def is_extended(self) -> bool:
        """Whether it answers the extended form (spec: graphql §7)."""
        return self._interfaces._graphql_options.extended

    def receive(self, request: Request) -> Any:
        return self._interfaces.graphql.receive(request)

    def problem(self, error: Problem, request: Request, request_id: str = "") -> Response:
        return self._interfaces.graphql.problem(error, request, request_id)


class _LateMqttSockets:
    """The endpoint of MQTT over WebSocket, which the first connection makes."""

    subprotocol = "mqtt"

    def __init__(self, interfaces: ApplicationInterfaces) -> None:
        self._interfaces = interfaces

    def find(self, request: Request) -> Any:
        from svc.mqtt.sockets import MqttSockets

        return MqttSockets(lambda: self._interfaces.mqtt).find(request)


class PortDispatchers:
    """Makes the dispatchers of the application's ports. `on_sent`: called with each exchange that is over, and the time."""

    on_sent: Callable[[Exchange, float], None] | None = None

    def __init__(
        self,
        config: Config,
        interfaces: ApplicationInterfaces,
        origins: OriginPolicy,
        recorder: Recorder,
        reactor: Reactor,
        *,
        access: AccessLog | None,
        input: InputShare,
        make: Callable[..., Dispatcher] = Dispatcher,
    ) -> None:
        """`access`: the log of requests, None: there is none. `input`: the share that the input of all connections has of a turn.
        `make`: called with the arguments of `Dispatcher`."""
        self._config = config
        self._interfaces = interfaces
        self._origins = origins
        self._recorder = recorder
        self._reactor = reactor
        self._access = access
        self._make_dispatcher = make
        self._sockets = WebSocketRegistry(reactor.loop, reactor.clock, recorder, reactor.log_error, input=input)

    def make(self, resources: Resources | None) -> tuple[Dispatcher, UpgradeChain]:
        """For one port: REST, and WebSockets on the same paths. `resources` None: of a port that has only listeners."""
        interfaces, reactor = self._interfaces, self._reactor
        upgrades = UpgradeChain(self._sockets)
        if resources is not None:
            endpoints = interfaces.socket_endpoints
            mqtt = interfaces.mqtt_sockets
            upgrades.serve_with(ResourceSockets(resources, interfaces.rest.types, reactor.loop, reactor.report_stream, endpoints, mqtt))
        credentials = self._config.authentication.enable_sessions
        dispatcher = self._make_dispatcher(
            interfaces.rest,
            interfaces.identifier,
            Cors(self._origins, self._config.http.cors_access_control_allow_headers, credentials=credentials),
            self._recorder,
            reactor,
            self._access,
            upgrades=upgrades,
        )
        dispatcher.on_sent = self.on_sent
        if resources is not None and type(dispatcher) is Dispatcher:  # not one that traces
            dispatcher.prepared = PreparedRequests(dispatcher, interfaces.rest, resources, interfaces.identifier, self._recorder)
        return dispatcher, upgrades


def request_decoder(config: Config) -> RequestDecoder:
    max_body = config.http.max_request_body_size
    return RequestDecoder(max_body, max_body)


def _rest_options(applications: Sequence[App]) -> RestOptions:
    """The options that the configurations of applications give to REST."""
    return RestOptions(
        last_modified=any(_rest_option(app, "lastModified") for app in applications),
        sandbox=all(_rest_option(app, "sandbox") is not False for app in applications),
    )


def _rest_option(app: App, name: str) -> Any:
    options = app.config.get("rest")
    return options.get(name) if isinstance(options, dict) else None
