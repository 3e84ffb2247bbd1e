"""Operations over WebSockets with the sub-protocol `graphql-transport-ws` (spec: graphql §7.4).

    OPENED --connection_init--> IDENTIFYING --ack--> READY --subscribe--> operations, each until next*, error or complete
       '----INIT_SECONDS----> closed (4408)

Callers are identified by the handshake, as everywhere; `Authorization` in the payload of `connection_init` identifies instead, for pages cannot add fields to a
handshake.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable
from typing import Any

from svc.auth.identify import Identifier
from svc.errors import ClientError, NotFound, Overloaded, Problem, ServerError
from svc.graphql import socket_messages as messages
from svc.graphql.execution import Execution
from svc.graphql.faults import problem_of_abort
from svc.graphql.live_field import HIGH_WATER, LiveField
from svc.graphql.operation import SUBSCRIPTION, Operation
from svc.graphql.request_parameters import Parameters
from svc.graphql.socket_caller import SocketCaller
from svc.graphql.socket_messages import PROTOCOL, BadMessage, Message
from svc.graphql.subscriptions import Subscriptions
from svc.loop import contained
from svc.messages import Abort, Request
from svc.websocket.handler import Service, Socket
from svc.websocket.opening_handshake import offered_protocols

INIT_SECONDS = 10.0
MAX_OPERATIONS = 100  # of one WebSocket at a time
MAX_ANSWERS = 8  # of one WebSocket that are made, or wait to be sent, at a time


class SocketTransport:
    """Serves the WebSockets at /graphql: `websocket.resource_sockets.SocketEndpoint`."""

    subprotocol = PROTOCOL

    def __init__(
        self,
        execution: Execution,
        subscriptions: Subscriptions,
        identifier: Identifier,
        loop: asyncio.AbstractEventLoop,
        executor: Any,
        report: Callable[[BaseException], None],
    ) -> None:
        """`executor`: verifies passwords. `report` logs a defect."""
        self.execution = execution
        self.subscriptions = subscriptions
        self.identifier = identifier
        self.loop = loop
        self.executor = executor
        self.report = report

    def find(self, request: Request) -> Service:
        """The service for a handshake. Raises Problem."""
        if not self.execution.options.extended:
            raise NotFound("Not found")
        if PROTOCOL not in offered_protocols(request):
            raise ClientError(f"A WebSocket for GraphQL needs the sub-protocol {PROTOCOL}")
        return lambda socket: GraphQLSocket(self, socket, request).start()


class _Operation:
    """One operation of a socket; the `Sink` of its subscription."""

    __slots__ = ("_head", "_socket", "field", "id", "is_behind", "task")

    def __init__(self, socket: GraphQLSocket, id_: str) -> None:
        self._socket = socket
        self._head = messages.next_head(id_)
        self.id = id_
        self.field: LiveField | None = None
        self.task: asyncio.Task[None] | None = None
        self.is_behind = False

    @property
    def has_room(self) -> bool:
        self.is_behind = self._socket.socket.pending >= HIGH_WATER
        return not self.is_behind

    def send(self, body: bytes) -> None:
        self._socket.socket.send_frame(messages.text_frame(self._head + body + b"}"))

    def end(self, problem: Problem | None) -> None:
        self._socket.finish(self, messages.complete(self.id) if problem is None else messages.error(self.id, problem))

    def stop(self) -> None:
        """The client wants no more, or is gone."""
        if self.field is not None:
            self.field.close()
        elif self.task is not None:
            self.task.cancel()


class GraphQLSocket:
    """One WebSocket."""

    def __init__(self, shared: SocketTransport, socket: Socket, request: Request) -> None:
        self.socket = socket
        self._shared = shared
        now = shared.execution.store.clock.monotonic
        self._caller = SocketCaller(request, shared.identifier, shared.loop, shared.executor, now)
        self._is_initialised = False
        self._is_ready = False
        self._operations: dict[str, _Operation] = {}
        self._identifying: asyncio.Task[None] | None = None
        self._turns = asyncio.Semaphore(MAX_ANSWERS)
        self._room: asyncio.Future[None] | None = None
        self._timer: asyncio.TimerHandle | None = None

    def start(self) -> None:
        socket = self.socket
        socket.limit(messages.MAX_MESSAGE)
        socket.login_code = messages.FORBIDDEN
        socket.on("close", self._on_close)
        socket.on("sent", self._on_sent)
        socket.on("message", self._on_message)
        self._timer = self._shared.loop.call_later(INIT_SECONDS, self._time_out)

    # --- messages --------------------------------------------------------------------------------------------------------------------

    def _on_message(self, raw: str | bytes) -> Awaitable[None] | None:
        """What it returns is awaited before the next message is taken: a client that does not read its answers is not read either."""
        try:
            self._handle(messages.read_message(raw))
        except BadMessage as fault:
            self.socket.close_soon(fault.code, fault.reason)
        return self._wait_for_room() if self.socket.pending >= HIGH_WATER and not self.socket.closed else None

    async def _wait_for_room(self) -> None:
        while self.socket.pending >= HIGH_WATER and not self.socket.closed:
            if self._room is None or self._room.done():
                self._room = self._shared.loop.create_future()
            await asyncio.shield(self._room)  # others may wait for it, too

    def _handle(self, message: Message) -> None:
        kind = message.type
        if kind == "connection_init":
            self._initialise(message.payload or {})
        elif kind == "ping":
            self.socket.send_frame(messages.pong(message.payload))
        elif kind == "subscribe":
            self._subscribe(message)
        elif kind == "complete":
            operation = self._operations.pop(message.id, None)
            if operation is not None:
                operation.stop()

    def _initialise(self, payload: dict[str, Any]) -> None:
        if self._is_initialised:
            raise BadMessage("Too many initialisation requests", messages.INITIALISED_TWICE)
        self._is_initialised = True
        given = next((value for name, value in payload.items() if name.lower() == "authorization"), None)
        if not isinstance(given, str) or not given:
            self._acknowledge()
            return
        if not given.isprintable():
            raise BadMessage("Forbidden", messages.FORBIDDEN)
        self._identifying = self._shared.loop.create_task(self._identify(given))

    async def _identify(self, authorization: str) -> None:
        try:
            self._shared.identifier.watch_login(await self._caller.identify(authorization), self.socket)
        except Problem as problem:
            self.socket.close_soon(messages.FORBIDDEN, problem.message)
            return
        except BaseException as error:
            self._shared.report(contained(error))
            self.socket.close_soon(1011, "Internal Server Error")
            return
        self._acknowledge()

    def _acknowledge(self) -> None:
        self._is_ready = True
        if self._timer is not None:
            self._timer.cancel()
        self.socket.send_frame(messages.ACKNOWLEDGED)

    def _time_out(self) -> None:
        if not self._is_ready:
            self.socket.close_soon(messages.TOO_SLOW, "Connection initialisation timeout")

    # --- operations ------------------------------------------------------------------------------------------------------------------

    def _subscribe(self, message: Message) -> None:
        if not self._is_ready:
            raise BadMessage("Unauthorized", messages.NOT_INITIALISED)
        if message.id in self._operations:
            raise BadMessage(f"Subscriber for {message.id} already exists", messages.DUPLICATE)
        payload = message.payload or {}
        try:
            if len(self._operations) >= MAX_OPERATIONS:
                raise Overloaded(f"There are {MAX_OPERATIONS} operations on this WebSocket already")
            parameters = Parameters(payload.get("query"), payload.get("operationName"), payload.get("variables"))
        except Problem as problem:
            self.socket.send_frame(messages.error(message.id, problem))
            return
        operation = self._operations[message.id] = _Operation(self, message.id)
        operation.task = self._shared.loop.create_task(self._run(operation, parameters))

    async def _run(self, operation: _Operation, parameters: Parameters) -> None:
        try:
            await self._execute(operation, parameters)
        except BaseException as error:
            self.finish(operation, messages.error(operation.id, self._problem(contained(error))))

    async def _execute(self, operation: _Operation, parameters: Parameters) -> None:
        execution = self._shared.execution
        request = await self._caller.request()
        found = execution.operation(parameters, request)
        if inspect.isawaitable(found):
            found = await found
        if found.kind is SUBSCRIPTION:
            field = await self._shared.subscriptions.open(request, found, parameters.variables)
            if self._operations.get(operation.id) is not operation:  # the client has gone meanwhile
                field.close()
                return
            operation.field = field
            field.start(operation)
            return
        async with self._turns:
            await self._answer(operation, request, found, parameters)

    async def _answer(self, operation: _Operation, request: Request, found: Operation, parameters: Parameters) -> None:
        """Run a query or a mutation. Answers that are not sent yet are few, and a client with too much on its way to it would be cut off."""
        await self._wait_for_room()
        reading = self._shared.execution.run(request, found, parameters.variables)
        if inspect.isawaitable(reading):
            reading = await reading
        body = reading.answer.body()
        await self._wait_for_room()
        if self._operations.get(operation.id) is operation:
            operation.send(body if type(body) is bytes else b"".join(body))
            self.finish(operation, messages.complete(operation.id))

    def _problem(self, error: Exception) -> Problem:
        if isinstance(error, Problem):
            return error
        if isinstance(error, Abort):
            return problem_of_abort(error)
        self._shared.report(error)
        return ServerError("Internal Server Error")

    def finish(self, operation: _Operation, frame: bytes) -> None:
        """The last message of an operation, unless the client has ended it."""
        if self._operations.get(operation.id) is operation:
            del self._operations[operation.id]
            self.socket.send_frame(frame)

    # --- the socket ------------------------------------------------------------------------------------------------------------------

    def _on_sent(self) -> None:
        if self._room is not None and not self._room.done():
            self._shared.loop.call_soon_threadsafe(_resolve, self._room)
        for operation in list(self._operations.values()):
            if operation.is_behind and operation.field is not None:
                operation.is_behind = False
                operation.field.wake()

    def _on_close(self, code: int, reason: str) -> None:
        if self._timer is not None:
            self._timer.cancel()
        if self._identifying is not None:
            self._identifying.cancel()
        if self._room is not None:
            self._shared.loop.call_soon_threadsafe(_resolve, self._room)
        operations, self._operations = self._operations, {}
        for operation in operations.values():
            operation.stop()


def _resolve(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)
