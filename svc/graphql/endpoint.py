"""`/graphql`: queries of all exported resources, on the ports of the applications (spec: graphql)."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable
from concurrent.futures import Executor
from typing import Any

from svc.auth.identify import Identifier
from svc.auth.users import User, user_of
from svc.awaitables import then
from svc.connection.exchange import BodyLimit
from svc.content.registry import ContentTypes
from svc.errors import AccessViolation, ClientError, MethodNotAllowed, NotAcceptable, Problem
from svc.graphql.event_transport import EventTransport
from svc.graphql.execution import DEFAULT_OPTIONS, Execution, GraphQLOptions
from svc.graphql.live_field import LiveFields
from svc.graphql.operation import SUBSCRIPTION, Operation
from svc.graphql.page import PATHS as PAGE_PATHS
from svc.graphql.page import asset, page
from svc.graphql.reading import Reading
from svc.graphql.request_parameters import Parameters, from_address, from_body, is_query_given
from svc.graphql.responses import error_response, forget_record, response_type
from svc.graphql.socket_transport import SocketTransport
from svc.graphql.subscriptions import Subscriptions
from svc.graphql.visible import may_do_anything
from svc.http.bodies import LONG_BODY, QUERY_MAX, Bodies, query_limit
from svc.http.compression import VARY, Compression
from svc.http.decoding import RequestDecoder
from svc.http.media_types import media_type_of
from svc.http.response_parts import PRIVATE, PUBLIC
from svc.messages import Abort, Request, Response
from svc.resources import Resources
from svc.store import Store
from svc.websocket import WebSocket

ADDRESS = "/graphql"
SOCKET_PATHS = (ADDRESS, ADDRESS + "/")
PATHS = (*SOCKET_PATHS, *PAGE_PATHS)
READS = ("GET", "HEAD")
METHODS = (*READS, "POST")
ENTRY_OPTIONS = ("extended", "introspection", "port", "securePort")
"""Of the entry `graphql` in the configuration of an application."""
HANDLER_PATH = "graphql"  # in the metrics (spec: analytics §3)


NEEDS_EVENTS = "A subscription needs a WebSocket with the sub-protocol graphql-transport-ws, or Accept: text/event-stream"


class GraphQLEndpoint:
    """Answers at `PATHS`. It is an endpoint of `rest.Rest`, and of the chains of ports that an application names."""

    methods = METHODS

    def __init__(
        self,
        resources: Resources,
        store: Store,
        types: ContentTypes,
        compression: Compression,
        decoder: RequestDecoder,
        identifier: Identifier,
        loop: asyncio.AbstractEventLoop,
        executor: Executor,
        verifying: Executor,
        report: Callable[[BaseException], None],
        options: GraphQLOptions = DEFAULT_OPTIONS,
    ) -> None:
        """`identifier`: of the callers of WebSockets. `executor`: threads for what would hold the loop: long documents, the description of a schema.
        `verifying`: threads that verify passwords. `report` logs a defect."""
        self.execution = Execution(resources, store, loop, executor, report, options)
        subscriptions = Subscriptions(self.execution, LiveFields(loop, store.clock.monotonic, report))
        self._events = EventTransport(self.execution, subscriptions)
        self.sockets = SocketTransport(self.execution, subscriptions, identifier, loop, verifying, report)
        self._types = types
        self._bodies = Bodies(types, decoder)
        self._compression = compression

    @property
    def options(self) -> GraphQLOptions:
        return self.execution.options

    @options.setter
    def options(self, options: GraphQLOptions) -> None:
        self.execution.options = options

    def handle(self, request: Request) -> Any:
        """A Response, or an awaitable of one. Raises Problem, which `problem` makes a response of."""
        request.handler_path = HANDLER_PATH
        method = request.method
        file = asset(request.pathname)
        if file is not None:
            if method not in READS:
                raise MethodNotAllowed(f"{method[:40]} is no method of {request.pathname}", READS)
            return file.response(request, self._compression)
        if method == "POST":
            media_type = media_type_of(request.block.get("content-type"))
            if not media_type or self._types.reader(media_type) is None:
                raise ClientError(f"{media_type or 'A body without a type'} cannot hold a GraphQL request; send application/json", 415)
            if request.user is None and (len(request.content) > LONG_BODY or "content-encoding" in request.block.fields):
                raise _too_long_for(None)
            value = self._bodies.read(request, max_bytes=QUERY_MAX)
            if inspect.isawaitable(value):
                return then(value, lambda value: self._run(request, from_body(value)))
            return self._run(request, from_body(value))
        if method in READS:
            if response_type(request.block).prefers_page and not is_query_given(request.query):
                return page().response(request, self._compression)
            return self._run(request, from_address(request.query))
        raise MethodNotAllowed(f"{method[:40]} is no method of {ADDRESS}", METHODS)

    def receive(self, request: Request) -> BodyLimit:
        """How a body is collected that is not here yet: a long one only of callers who may do something here."""
        user = user_of(request)
        if user is None or not may_do_anything(self.execution.names, user):
            return BodyLimit(LONG_BODY, _too_long_for(user))
        return query_limit(request)

    def serve_socket(self, socket: WebSocket, request: Request) -> Any:
        """Serve a WebSocket on a port of its own. Raises Abort for a handshake that is refused."""
        try:
            service = self.sockets.find(request)
        except Problem as problem:
            raise Abort(self.problem(problem, request)) from None
        if socket.on_use is not None:  # the handshake is not answered yet
            socket.answer_with(self.sockets.subprotocol, [])
        return service(socket)

    def problem(self, error: Problem, request: Request, request_id: str = "") -> Response:
        """Any error as an answer."""
        forget_record(request)
        return error_response(error, request, request_id)

    # --- running ---------------------------------------------------------------------------------------------------------------------

    def _run(self, request: Request, parameters: Parameters) -> Any:
        if self.execution.options.extended and request.method != "HEAD" and response_type(request.block).prefers_events:
            return self._events.run(request, parameters)
        operation = self.execution.operation(parameters, request)
        if type(operation) is Operation:
            return self._operate(request, operation, parameters)
        return then(operation, lambda operation: self._operate(request, operation, parameters))

    def _operate(self, request: Request, operation: Operation, parameters: Parameters) -> Any:
        operation.note_in(request)
        if operation.kind is SUBSCRIPTION:
            if response_type(request.block).accepts_events and request.method != "HEAD":
                return self._events.run(request, parameters)
            raise NotAcceptable(NEEDS_EVENTS)
        record = self.execution.maybe_record(request, operation, parameters.variables)
        if record is not None:
            return self._respond(request, *record)
        reading = self.execution.run(request, operation, parameters.variables)
        if type(reading) is Reading:
            return self._answer(request, reading)
        return then(reading, lambda reading: self._answer(request, reading))

    def _answer(self, request: Request, reading: Reading) -> Response:
        forget_record(request)
        return self._respond(request, reading.answer.body(), reading.seconds)

    def _respond(self, request: Request, body: Any, seconds: float) -> Response:
        pairs = [
            response_type(request.block).pair,
            VARY,
            PUBLIC if request.user is None else PRIVATE,
            ("Server-Timing", f"execute;dur={seconds * 1000:.2f}"),
        ]
        response = Response(body, 200, pairs=pairs)
        if type(body) is bytes and len(body) <= self._compression.threshold_for(request.block):
            return response
        return self._compression.apply(request, response)


def _too_long_for(user: User | None) -> AccessViolation:
    if user is None:
        return AccessViolation(None, f"Must login: without it a body has at most {LONG_BODY} bytes, and no content coding")
    return AccessViolation(user, f"Nothing is allowed to this user here: a body has at most {LONG_BODY} bytes")
