"""`/graphql`: queries of all exported resources, on the ports of the applications (spec: graphql)."""

from __future__ import annotations

import inspect
from concurrent.futures import Executor
from typing import Any

from svc.auth.identify import Identifier
from svc.auth.users import User, user_of
from svc.awaitables import then
from svc.connection.exchange import BodyLimit
from svc.errors import AccessViolation, ClientError, MethodNotAllowed, NotAcceptable, Problem
from svc.graphql.event_transport import EventTransport
from svc.graphql.execution import Execution
from svc.graphql.live_field import LiveFields
from svc.graphql.operation import SUBSCRIPTION, Operation
from svc.graphql.page import asset, page
from svc.graphql.reading import FieldReading
from svc.graphql.request_parameters import Parameters, from_address, from_body, is_query_given
from svc.graphql.responses import error_response, forget_record, response_type
from svc.graphql.settings import ADDRESS, DEFAULT_OPTIONS, HANDLER_PATH, METHODS, READS, GraphQLOptions
from svc.graphql.socket_transport import SocketTransport
from svc.graphql.subscriptions import Subscriptions
from svc.graphql.visible import may_do_anything
from svc.http.bodies import LONG_BODY, QUERY_MAX, Bodies, query_limit
from svc.http.compression import VARY, Compression
from svc.http.media_types import media_type_of
from svc.http.response_parts import PRIVATE, PUBLIC
from svc.messages import Abort, Request, Response
from svc.reactor import Reactor
from svc.resources import Resources
from svc.store import Store
from svc.websocket import WebSocket

NEEDS_EVENTS = "A subscription needs a WebSocket with the sub-protocol graphql-transport-ws, or Accept: text/event-stream"


class GraphQLEndpoint:
    """Answers at `PATHS`. It is an endpoint of `rest.Rest`, and of the chains of ports that an application names."""

    methods = METHODS

    def __init__(
        self,
        resources: Resources,
        store: Store,
        bodies: Bodies,
        compression: Compression,
        identifier: Identifier,
        reactor: Reactor,
        executor: Executor,
        options: GraphQLOptions = DEFAULT_OPTIONS,
    ) -> None:
        """`identifier`: of the callers of WebSockets, whose passwords the threads of `reactor` verify. `executor`: threads of its own for what would
        hold the loop: long documents, the description of a schema."""
        loop, report = reactor.loop, reactor.report_stream
        self.execution = Execution(resources, store, loop, executor, report, options)
        subscriptions = Subscriptions(self.execution, LiveFields(loop, store.clock.monotonic, report))
        self._events = EventTransport(self.execution, subscriptions)
        self.sockets = SocketTransport(self.execution, subscriptions, identifier, loop, reactor.executor, report)
        self._bodies = bodies
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
            if not media_type or self._bodies.types.reader(media_type) is None:
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
        if type(reading) is FieldReading:
            return self._answer(request, reading)
        return then(reading, lambda reading: self._answer(request, reading))

    def _answer(self, request: Request, reading: FieldReading) -> Response:
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
