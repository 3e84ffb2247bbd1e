"""The dispatchers of an instance: resources of the applications, and operations (spec: http §14, operations §1)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor
from typing import Any

from svc.analytics import Recorder
from svc.analytics.recorder import OPERATION_METHOD
from svc.apps import App
from svc.auth.identify import Identifier
from svc.auth.origin_policy import OriginPolicy
from svc.auth.tickets import Tickets
from svc.clock import Clock
from svc.config import Config
from svc.connection.exchange import Exchange
from svc.connection.input_share import InputShare
from svc.content.registry import ContentTypes
from svc.graphql import GraphQLEndpoint
from svc.http.compression import Compression
from svc.http.cors import OPERATIONS_METHODS, Cors
from svc.http.decoding import RequestDecoder
from svc.http.dispatch import Dispatcher
from svc.listeners.upgrade_chain import UpgradeChain
from svc.logs import AccessLog, Logs
from svc.operations.endpoint import OperationsEndpoint
from svc.operations.service import Operations
from svc.resources import Resources
from svc.rest import Rest, RestOptions
from svc.store import Store
from svc.websocket import WebSocketRegistry
from svc.websocket.resource_sockets import ResourceSockets, SocketEndpoint

LogError = Callable[[str, BaseException | None], None]


def make_rest(
    config: Config,
    resources: Resources,
    *,
    clock: Clock,
    loop: asyncio.AbstractEventLoop,
    log_error: LogError,
    types: ContentTypes,
    executor: Executor,
    tickets: Tickets,
) -> Rest:
    """The REST interface to the resources. `executor`: a thread for what pages need at first."""
    return Rest(
        resources,
        clock,
        _stream_reporter(log_error),
        compression=Compression(config.http.compression_threshold),
        decoder=_decoder(config),
        loop=loop,
        types=types,
        executor=executor,
        tickets=tickets,
    )


def make_graphql(
    config: Config,
    resources: Resources,
    store: Store,
    types: ContentTypes,
    identifier: Identifier,
    *,
    loop: asyncio.AbstractEventLoop,
    executor: Executor,
    verifying: Executor,
    log_error: LogError,
) -> GraphQLEndpoint:
    """The GraphQL interface to the resources. `executor`: a thread for long documents. `verifying`: those that verify passwords."""
    compression = Compression(config.http.compression_threshold)
    report = _stream_reporter(log_error)
    return GraphQLEndpoint(resources, store, types, compression, _decoder(config), identifier, loop, executor, verifying, report)


def rest_options(apps: Sequence[App]) -> RestOptions:
    """The options that the configurations of applications give to REST."""
    return RestOptions(
        last_modified=any(_rest_option(app, "lastModified") for app in apps),
        sandbox=all(_rest_option(app, "sandbox") is not False for app in apps),
    )


def make_websockets(
    clock: Clock, loop: asyncio.AbstractEventLoop, recorder: Recorder, log_error: LogError, input: InputShare
) -> WebSocketRegistry:
    """What the WebSockets of all application ports share."""
    return WebSocketRegistry(loop, clock, recorder, log_error, input=input)


def make_application_dispatcher(
    config: Config,
    rest: Rest,
    resources: Resources | None,
    identifier: Identifier,
    origins: OriginPolicy,
    recorder: Recorder,
    sockets: WebSocketRegistry,
    *,
    clock: Clock,
    loop: asyncio.AbstractEventLoop,
    executor: Executor,
    logs: Logs,
    log_error: LogError,
    on_sent: Callable[[Exchange, float], None] | None = None,
    make_dispatcher: Callable[..., Dispatcher] = Dispatcher,
    socket_endpoints: Mapping[str, SocketEndpoint] | None = None,
) -> tuple[Dispatcher, UpgradeChain]:
    """The dispatcher of the application's ports: REST, and WebSockets on the same paths. `resources` None: of a port that has only listeners. `on_sent`:
    called with each exchange that is over, and the time. `make_dispatcher`: called with the arguments of `Dispatcher`. `socket_endpoints`: what
    serves WebSockets before the resources, by path."""
    upgrades = UpgradeChain(sockets)
    if resources is not None:
        upgrades.serve_with(ResourceSockets(resources, rest.types, loop, _stream_reporter(log_error), socket_endpoints))
    dispatcher = make_dispatcher(
        rest,
        identifier,
        Cors(origins, config.http.cors_access_control_allow_headers, credentials=config.authentication.enable_sessions),
        recorder,
        clock,
        loop,
        executor,
        log_error,
        AccessLog.from_config(config, logs),
        upgrades=upgrades,
        on_sent=on_sent,
    )
    return dispatcher, upgrades


def make_operations_dispatcher(
    operations: Operations,
    identifier: Identifier,
    origins: OriginPolicy,
    recorder: Recorder,
    *,
    log_error: LogError,
    is_ready: Callable[[], bool],
    make_dispatcher: Callable[..., Dispatcher] = Dispatcher,
) -> Dispatcher:
    """The dispatcher of the operations ports. `is_ready`: the answer of `/ready`; no operation begins while it is False. `make_dispatcher`: as above."""
    node = operations.node
    config = node.config
    endpoint = OperationsEndpoint(
        operations,
        compression=Compression(config.http.compression_threshold),
        decoder=_decoder(config),
        report=_stream_reporter(log_error),
        is_ready=is_ready,
    )
    cors = Cors(
        origins,
        config.http.cors_access_control_allow_headers,
        credentials=config.authentication.enable_sessions,
        methods=OPERATIONS_METHODS,
    )
    return make_dispatcher(endpoint, identifier, cors, recorder, node.clock, node.loop, node.executor, log_error, None, OPERATION_METHOD)


def _decoder(config: Config) -> RequestDecoder:
    max_body = config.http.max_request_body_size
    return RequestDecoder(max_body, max_body)


def _stream_reporter(log_error: LogError) -> Callable[[BaseException], None]:
    """Logs an error that ends a response after its head was sent."""

    def report(error: BaseException) -> None:
        log_error("while streaming an answer", error)

    return report


def _rest_option(app: App, name: str) -> Any:
    options = app.config.get("rest")
    return options.get(name) if isinstance(options, dict) else None
