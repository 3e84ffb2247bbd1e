"""Request -> Response: authentication, handler, commit, answer. The one module where an exception becomes a response.

    preflight -> authentication -> handler (REST) -> the turn's commit, if it wrote -> answer

With listeners of an application all but the last two are steps of a chain (`svc/listeners`); without any there is no chain.

A read is answered inside `handle()` by plain calls. A request that has to wait (for a password check, an awaitable
of a handler, a commit) is answered later through the exchange.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable
from contextlib import AbstractContextManager
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol, cast

from svc.auth.identify import Identifier, PendingVerification, challenge
from svc.auth.origin_policy import explained
from svc.auth.users import user_of
from svc.awaitables import is_waiting, then
from svc.connection.exchange import BodyLimit
from svc.errors import REASONS, NotFound, NotUnique, PeerError, Problem, ServerError, StillReferenced, release_frames
from svc.http.bodies import query_limit
from svc.http.confirmed_writes import HEADER, WRITING, ConfirmedWrites
from svc.http.cors import Cors
from svc.http.event_stream import CodeEvents, is_event_stream
from svc.http.response_check import check_response
from svc.http.response_parts import PRIVATE, PUBLIC, keep_from_others
from svc.loop import contained, is_ours
from svc.messages import Abort, Feed, HeaderPairs, Request, Response, Upgrade
from svc.query.conflicts import explained_to
from svc.reactor import Reactor
from svc.store.blobs import Upload
from svc.store.writing.commit import wait_committed

if TYPE_CHECKING:
    from svc.connection import Exchange


def timing(hundredths: int) -> tuple[str, str]:
    return "Server-Timing", f"db;dur={hundredths / 100:.2f}"


TIMINGS_MADE = 1000  # hundredths of a millisecond: most answers take less than these 10 ms
TIMINGS = [timing(hundredths) for hundredths in range(TIMINGS_MADE)]


_WRITES = frozenset({"PUT", "PATCH", "DELETE", "OPTIONS"})  # no cache keeps answers to these


class Handler(Protocol):
    def handle(self, request: Request) -> Any: ...
    def receive(self, request: Request) -> Any: ...
    def options(self, request: Request) -> Response: ...
    def decode_content(self, request: Request) -> Any: ...
    def problem(self, error: Problem, request: Request | None, request_id: str = "") -> Response: ...

    def answer(self, request: Request, result: Any) -> Any:
        """The Response for what application code returned, or an awaitable of it. Raises Problem."""

    def has_endpoint(self, request: Request) -> bool:
        """Whether it answers at this address in the step `graphql` of the chain."""

    def knows(self, request: Request) -> bool:
        """Whether it answers at this address; if not, listeners behind it are asked."""


class Upgrades(Protocol):
    """Accepts upgrades to other protocols: `listeners.upgrade_chain.UpgradeChain`."""

    @property
    def serves_websockets(self) -> bool: ...

    @property
    def has_listeners(self) -> bool:
        """Whether there are upgrade listeners besides the default one."""

    def knows(self, request: Request) -> bool:
        """Whether a resource serves WebSockets at this address."""

    def handle(self, request: Request, refusal: Problem | None, answer: Response | None = None) -> Any:
        """A Response (`tunnel.Upgrade` accepts), an awaitable of one, or None: no listener accepts it, and the request is answered as one without
        `Upgrade` (RFC 9110 §7.8). `refusal`: why the caller could not be identified, or what a listener refuses the handshake with, which a WebSocket
        reports with a close code (spec: realtime §2); without a user `request.user` is None. `answer`: what a listener of HTTP requests has answered.
        Raises Problem, or Abort with `answer`."""


class RequestPass(Protocol):
    """One request on its way through the listeners: `listeners.request_pass.RequestPass`."""

    request: Request
    accepted: Response | None  # for a WebSocket, the response that stands for "nobody has refused it"
    refused: Response | None  # the last response that was made of an exception
    problem: Problem | None  # ... if that was a Problem

    def begin(self, position: int = 0) -> Response | Awaitable[Response]:
        """The response, or an awaitable of it. Neither raises, but for cancellation. `position`: of the first step to ask."""


class RequestChain(Protocol):
    """The listeners of requests of a port: `listeners.request_chain.RequestChain`, where each is explained."""

    has_rest: bool
    has_first: bool
    has_more: bool

    def concerns(self, request: Request) -> bool: ...
    def comes_first(self, request: Request) -> bool: ...
    def ask_first(self, request: Request) -> Response | int: ...
    def is_needed(self, request: Request, position: int, knows: Callable[[Request], bool]) -> bool: ...
    def asks_last(self, request: Request, position: int) -> bool: ...
    def ask_last(self, request: Request) -> Response | None: ...
    def body_channel(self, request: Request, knows: Callable[[Request], bool]) -> Any: ...
    def enter(self, request: Request) -> AbstractContextManager[None]: ...
    def pass_for(self, dispatcher: Dispatcher, request: Request, *, for_websocket: bool = False) -> RequestPass: ...


class RequestRecorder(Protocol):
    """Records the metrics of a request (spec: analytics §3)."""

    def request_done(
        self, path: str, method: str, duration_ms: float, status: int, body_bytes: int, transfer_ms: float, type: str | None = None
    ) -> None: ...


class RequestLog(Protocol):
    """The access log (spec: configuration §5.5)."""

    def write(
        self,
        method: str,
        url: str,
        protocol: str,
        status: int,
        seconds: float,
        headers: HeaderPairs,
        trace_id: bytes | None,
        client: str,
    ) -> None: ...


class PreparedAnswers(Protocol):
    """Answers to requests that repeat others: `prepared.PreparedRequests`."""

    def consider(self, request: Request, response: Response | None) -> None:
        """A GET is being answered, within the turn in which it has arrived. None: its handler waits."""

    def consider_write(self, request: Request) -> None:
        """The same, of a request without a query whose writes have been applied, and wait for the commit."""


class Dispatcher:
    """The `Application` of a port. `prepared`: what answers before it, None: nothing does."""

    def __init__(
        self,
        handler: Handler,
        identifier: Identifier,
        cors: Cors,
        recorder: RequestRecorder,
        reactor: Reactor,
        access: RequestLog | None = None,
        recorded_method: str = "",
        upgrades: Upgrades | None = None,
    ) -> None:
        """`recorded_method`: the method in the metrics, if not that of HTTP (spec: analytics §3); requests that nothing took keep theirs."""
        self.on_sent: Callable[[Exchange, float], None] | None = None
        """Called with each exchange that is over, and the time."""
        self.prepared: PreparedAnswers | None = None
        self.confirmed_writes: ConfirmedWrites | None = None
        self._handler = handler
        self._handle = handler.handle
        self._identifier = identifier
        self._identify = identifier.identify
        self._cors = cors
        self._request_done = recorder.request_done
        self.now = reactor.clock.monotonic
        self._loop = reactor.loop
        self._executor = reactor.executor
        self._log_error = reactor.log_error
        self._access = access
        self._recorded_method = recorded_method
        self._upgrades = upgrades
        self.chain: RequestChain | None = None
        self._defects = 0

    def use(self, chain: RequestChain | None) -> None:
        """From now on requests go through this chain; None: there are no listeners."""
        self.chain = chain

    @property
    def is_watched(self) -> bool:
        """Whether more is told of an exchange than its metrics."""
        return self._access is not None or self.on_sent is not None

    # --- the Application of a connection ---------------------------------------------------------------------------------------------

    def receive(self, exchange: Exchange) -> Any:
        """How to receive a body: a Response refuses it, a sink takes it, None or a limit has it collected. An awaitable if that has to wait."""
        request = exchange.request
        if self.chain is not None and self.chain.concerns(request):
            return self._receive_for_chain(self.chain, request)
        try:
            if request.method == "OPTIONS":
                return query_limit(request)
            who = self._identify(request)
            if type(who) is PendingVerification:
                return self._receive_verified(request, who)
            request.user = who
            return self._handler.receive(request)
        except BaseException as error:
            return self._answer_to(error, request)

    def handle(self, exchange: Exchange) -> Response | None:
        request = exchange.request
        chain = self.chain
        try:
            if chain is not None:
                first = chain.ask_first(request) if chain.has_first else 0
                if type(first) is Response:
                    return self._finished(request, first)
                if chain.has_more and chain.is_needed(request, first, self._handler.knows):  # type: ignore[arg-type]  # mypy does not narrow by `type`, and cast() is a call
                    if chain.asks_last(request, first):  # type: ignore[arg-type]
                        last = self._ask_last(chain, request)
                        if last is not None:
                            return last
                    return self._run_chain(chain, exchange, first)  # type: ignore[arg-type]
            if request.method == "OPTIONS":
                preflight = self._cors.preflight(request)
                return self._timed(request, preflight) if preflight else self._finished(request, self._handler.options(request))
            who = self._identify(request)
            if type(who) is PendingVerification:
                self._verify(exchange, who)
                return None
            request.user = who
            return self._run(exchange, request, self._handle)
        except BaseException as error:
            return self._answer_to(error, request)

    def go_on(self, exchange: Exchange, answer: Callable[[Request], Any]) -> Response | None:
        """`handle`, for a request whose caller has been identified and whose handler has been called: `answer` gives the Response that comes of it, or an
        awaitable of one, or raises what it has raised."""
        request = exchange.request
        try:
            return self._run(exchange, request, answer)
        except BaseException as error:
            return self._answer_to(error, request)

    def upgrade(self, exchange: Exchange) -> Response | None:
        """A request to switch to another protocol."""
        request = exchange.request
        if request.http_version[:1] == "2" and (self._upgrades is None or request.offers != "websocket"):
            # An extended CONNECT (RFC 8441): any success would say that the tunnel is open, so it cannot be answered as an ordinary request.
            return self.error_response(Problem(f"The protocol {request.offers[:40]} is not available here", 501), request)
        if self._upgrades is None:
            return self.handle(exchange)
        if self.chain is not None and (self.chain.concerns(request) or not self.chain.has_rest):
            if request.offers == "websocket" and request.method == "GET" and self._upgrades.serves_websockets:
                return self._run_websocket_chain(self.chain, exchange)
            if request.http_version[:1] == "2":
                return self.error_response(NotFound("WebSockets are not enabled on this port"), request)
            if not self._upgrades.has_listeners:
                return self._run_chain(self.chain, exchange)
        try:
            who = self._identify(request)
        except Problem as refusal:
            return self._run_upgrade(exchange, refusal)
        except BaseException as error:
            return self._answer_to(error, request)
        if type(who) is PendingVerification:
            exchange.task = self._loop.create_task(self._upgrade_verified(exchange, who))
            return None
        request.user = who
        return self._run_upgrade(exchange, None)

    async def _upgrade_verified(self, exchange: Exchange, pending: PendingVerification) -> None:
        refusal: Problem | None = None
        try:
            exchange.request.user = await pending.wait(self._loop, self._executor)
        except Problem as problem:
            refusal = problem
        except BaseException as error:
            exchange.respond(self._last_answer(exchange, error))
            return
        response = self._run_upgrade(exchange, refusal)
        if response is not None:
            exchange.respond(response)

    def _run_upgrade(self, exchange: Exchange, refusal: Problem | None) -> Response | None:
        request = exchange.request
        assert self._upgrades is not None
        try:
            result = self._upgrades.handle(request, refusal)
            if result is None:
                return self._not_upgraded(exchange, refusal)
        except BaseException as error:
            return self._answer_to(error, request)
        if not isinstance(result, Response):
            exchange.task = self._loop.create_task(self._wait_for_upgrade(exchange, result, refusal))
            return None
        return self._upgraded(request, result)

    def _not_upgraded(self, exchange: Exchange, refusal: Problem | None) -> Response | None:
        """No listener takes the upgrade: an ordinary request. Raises `refusal`, if there is no chain that comes to it in its turn."""
        if self.chain is not None and self.chain.concerns(exchange.request):
            return self._run_chain(self.chain, exchange)
        if refusal is not None:
            raise refusal
        return self._run(exchange, exchange.request, self._handle)

    async def _wait_for_upgrade(self, exchange: Exchange, awaited: Any, refusal: Problem | None) -> None:
        try:
            result = await awaited
            response = self._not_upgraded(exchange, refusal) if result is None else self._upgraded(exchange.request, result)
        except BaseException as error:
            response = self._last_answer(exchange, error)
        if response is not None:
            exchange.respond(response)

    def _upgraded(self, request: Request, response: Response) -> Response:
        if response.status != 101:
            return self._finished(request, response)
        if request.added_headers is not None:
            response.pairs.extend(request.added_headers.pairs())
        request.answered = self.now()
        if request.user is not None and isinstance(response, Upgrade):
            self._identifier.watch_login(request, response.receiver)
        return response

    def _answer_to(self, error: BaseException, request: Request) -> Response:
        """The response to what a call has raised. Raises what `is_ours`."""
        if is_ours(error):
            raise error
        return self.error_response(error, request)

    def _last_answer(self, exchange: Exchange, error: BaseException) -> Response:
        """The same of the task of an exchange. If `cancelled` has not ended that, it is code that has cancelled its own task: the client waits."""
        if is_ours(error) and (exchange.task is None or exchange.abandoned or not isinstance(error, asyncio.CancelledError)):
            raise error
        return self.error_response(error, exchange.request)

    def error_response(self, error: BaseException, request: Request | None) -> Response:
        """The response to an exception. Any other exception than Problem is a defect: logged, and a bare 500 for the client."""
        response = self.failure(error, request)
        if request is None:
            return response
        if not isinstance(error, PeerError):
            return self._finished(request, response)
        if "origin" in request.block.fields:
            self._cors.decorate(request, response.pairs)
        return response

    def failure(self, error: BaseException, request: Request | None) -> Response:
        """The same without the fields that every answer has."""
        if isinstance(error, Abort):
            if request is None:
                return error.response
            self.undo(request)
            try:
                return self._aborted(request, error.response)
            except BaseException as fault:
                error = contained(fault)
        if request is not None and request.foreign is not None:
            error = explained(error, request)
        problem = self._as_problem(error)
        if isinstance(problem, StillReferenced | NotUnique) and request is not None:
            problem = explained_to(user_of(request), problem)
        if problem is not None:
            try:
                response = self._handler.problem(problem, request)
            except BaseException as fault:  # an application has made an error that cannot be sent
                fault.__cause__ = error
                error, problem = contained(fault), None
        if problem is None:
            self._defects += 1
            where = f"{request.method} {request.target[:200]}" if request else "a connection"
            if request is not None and request.handler is not None:
                where += f", answered by {request.handler.place}"
            self._log_error(f"request {self._defects}: {where}", error)
            response = self._handler.problem(ServerError("Internal Server Error"), request, str(self._defects))
        else:
            if isinstance(error, Problem):
                release_frames(error)
            if problem.status_code == 401 and request is not None:
                response = challenge(request, response, self._identifier.login_path)
        if request is not None and not isinstance(error, PeerError):
            self.undo(request)
        return response

    def _aborted(self, request: Request, response: Response) -> Response:
        """The response of an Abort: a copy, for an application may raise one object again and again."""
        response = Response(response.body, response.status, None, response.data, pairs=list(response.pairs))
        check_response(response)
        if response.data is None or response.body is not None:
            return response
        answer = self._handler.answer(request, response)
        if inspect.isawaitable(answer):
            if inspect.iscoroutine(answer):
                answer.close()
            raise TypeError("the data of an Abort cannot be encoded by a content type whose serialize is async")
        encoded: Response = answer
        return encoded

    async def committed(self, request: Request) -> None:
        """Wait until what the request has written is on disk. Raises the Problem that prevents it."""
        applied, request.pending_commit = request.pending_commit, None
        if applied is not None:
            await wait_committed(applied, request.state.spans)

    def undo(self, request: Request) -> None:
        """Undo what the request has written, as far as it is not applied."""
        if request.pending_commit is not None:
            request.pending_commit.abort()
            request.pending_commit = None

    def decode_content(self, request: Request) -> Any:
        return self._handler.decode_content(request)

    def sent(self, exchange: Exchange, now: float) -> None:
        """The last byte was handed to the socket: record the request (spec: analytics §3)."""
        request = exchange.request
        answered = request.answered
        state = request._state
        self._request_done(
            request.handler_path,
            (request.handler_path and self._recorded_method) or request.method,
            (answered - request.arrived) * 1000.0,
            exchange.status,
            exchange.body_bytes,
            (now - answered) * 1000.0,
            *(() if state is None or state.metric_type is None else (state.metric_type,)),
        )
        if self._access is not None:
            protocol = f"{request.scheme.upper()}/{request.http_version}"
            seconds = now - request.arrived
            self._access.write(
                request.method, request.target, protocol, exchange.status, seconds, request.block.pairs, request.trace_id, request.peer
            )
        if self.on_sent is not None:
            self.on_sent(exchange, now)

    def cancelled(self, exchange: Exchange) -> None:
        """The answer is not needed any more. Applied writes still commit: they may be part of the turn already."""
        task, exchange.task = exchange.task, None
        if task is not None and not exchange.abandoned:  # an abandoned one has been cancelled
            task.cancel()

    # --- the chain of listeners ------------------------------------------------------------------------------------------------------

    def _run_chain(self, chain: RequestChain, exchange: Exchange, position: int = 0) -> Response | None:
        request = exchange.request
        request.user = None
        request.handler_path = ""
        self._identifier.give_sessions(request)
        with chain.enter(request):
            result = chain.pass_for(self, request).begin(position)
            if not isinstance(result, Response):
                exchange.task = self._loop.create_task(self._wait_for(exchange, _answer_of_chain(request, result)))
                return None
        response = _own_copy(request, result)
        if _is_confirmed(request):
            exchange.task = self._loop.create_task(self._wait_for(exchange, response))
            return None
        if request.pending_commit is not None:
            self._hold(exchange, response)
            return None
        return self._finished(request, response)

    def _ask_last(self, chain: RequestChain, request: Request) -> Response | None:
        """The answer of a plain listener behind the resources; None: the chain is needed. Raises Problem."""
        who = self._identify(request)
        if type(who) is PendingVerification:
            return None
        request.user = who
        response = chain.ask_last(request)
        return None if response is None else self._finished(request, response)

    def _receive_for_chain(self, chain: RequestChain, request: Request) -> Any:
        """A body that some listener may want is collected. So is one that is refused, if a listener may have answered before; else it is refused here.
        What goes into a file while it comes (a blob) goes there all the same."""
        try:
            channel = chain.body_channel(request, self._handler.knows)
            if channel is not None:
                return channel
            if request.method == "OPTIONS" or not self._handler.knows(request):
                return None
            who = self._identify(request)
            if type(who) is not PendingVerification:
                request.user = who
                return _for_listeners(self._handler.receive(request), chain.comes_first(request))
            decision: Awaitable[Any] = self._receive_verified(request, who)
        except BaseException as error:
            return None if chain.comes_first(request) else self._answer_to(error, request)
        return then(decision, lambda decided: _for_listeners(decided, chain.comes_first(request)))

    def authenticate(self, request: Request) -> Response | Awaitable[Response | None] | None:
        """Identify the caller, or answer a preflight. Raises Problem."""
        if request.method == "OPTIONS":
            return self._cors.preflight(request)
        if request.user is not None:
            self._identifier.admit(request)
            return None
        who = self._identify(request)
        if type(who) is PendingVerification:
            return self._authenticate_later(request, who)
        request.user = who
        return None

    async def _authenticate_later(self, request: Request, pending: PendingVerification) -> None:
        request.user = await pending.wait(self._loop, self._executor)

    def has_resource(self, request: Request) -> bool:
        """Whether `ask_resource` is to be asked, even where it refuses."""
        return self._handler.knows(request) or (request.is_websocket and self._upgrades is not None and self._upgrades.knows(request))

    def has_endpoint(self, request: Request) -> bool:
        """Whether the path is one of the step `graphql`; `rest` answers at all others."""
        return self._handler.has_endpoint(request)

    def ask_resource(self, request: Request) -> Any:
        """The Response of the addressed resource, or an awaitable of it. Raises Problem."""
        if HEADER in request.block.fields:
            self._admit_confirmed(request)
        return self._handler.options(request) if request.method == "OPTIONS" else self._handle(request)

    def answer(self, request: Request, result: Any) -> Any:
        """The Response for what a listener returned, or an awaitable of it. Raises Problem."""
        return self._handler.answer(request, result)

    def report(self, fault: str, request: Request) -> None:
        """Log a fault of a listener that did not raise anything."""
        self._log_error(f"{request.method} {request.target[:200]}: {fault}", None)

    def _run_websocket_chain(self, chain: RequestChain, exchange: Exchange) -> Response | None:
        """The chain of a WebSocket's handshake first, then, with its outcome, those of upgrades and WebSockets."""
        request = exchange.request
        request.user = None
        self._identifier.give_sessions(request)
        with chain.enter(request):
            way = chain.pass_for(self, request, for_websocket=True)
            try:
                answer = then(way.begin(), partial(self._upgrade_after, way))
            except BaseException as error:
                return self._answer_to(error, request)
            if not is_waiting(answer):
                return cast(Response, answer)
            exchange.task = self._loop.create_task(self._respond_later(exchange, answer))
        return None

    async def _respond_later(self, exchange: Exchange, answer: Awaitable[Response]) -> None:
        try:
            response = await answer
        except BaseException as error:
            response = self._last_answer(exchange, error)
        exchange.respond(response)

    def _upgrade_after(self, way: RequestPass, outcome: Response) -> Any:
        """The answer to a handshake for which the chain of HTTP listeners is done, or an awaitable of it. Raises Problem."""
        request = way.request
        refusal: Problem | None = None
        answer: Response | None = None
        if outcome is not way.accepted or outcome.status != 101:
            if outcome.status >= 400:
                refusal = way.problem if outcome is way.refused else None
                refusal = refusal or Problem(REASONS.get(outcome.status, "Refused"), outcome.status)
            if request.http_version[:1] == "2" and outcome.status < 300:  # which would say that the tunnel is open (RFC 8441)
                outcome = self.failure(NotFound("No WebSocket is served here"), request)
            answer = Response(outcome.body, outcome.status, pairs=list(outcome.pairs))
        assert self._upgrades is not None
        return then(self._upgrades.handle(request, refusal, answer), partial(self._chain_upgraded, way, outcome))

    def _chain_upgraded(self, way: RequestPass, outcome: Response, result: Response | None) -> Response:
        if result is None:  # the listeners of upgrades have kept the default one from it, and took it not
            if outcome is way.accepted:
                raise NotFound("Not found")
            result = Response(outcome.body, outcome.status, pairs=list(outcome.pairs))
        elif isinstance(result, Upgrade) and outcome is way.accepted:
            result.pairs.extend(outcome.pairs)
        return self._upgraded(way.request, result)

    # --- steps -----------------------------------------------------------------------------------------------------------------------

    def _run(self, exchange: Exchange, request: Request, answer: Callable[[Request], Any]) -> Response | None:
        if HEADER in request.block.fields:
            self._admit_confirmed(request)
        result = answer(request)
        if type(result) is not Response:
            if self.prepared is not None:
                if request.method == "GET":
                    self.prepared.consider(request, None)
                elif request.query is None:  # it may wait for another process; then most may
                    self.prepared.consider_write(request)
            exchange.task = self._loop.create_task(self._wait_for(exchange, result))
            return None
        if _is_confirmed(request):
            exchange.task = self._loop.create_task(self._wait_for(exchange, result))
            return None
        if request.pending_commit is not None:
            if self.prepared is not None and request.query is None:
                self.prepared.consider_write(request)
            self._hold(exchange, result)
            return None
        response = self._finished(request, result)
        if self.prepared is not None and request.method == "GET":
            self.prepared.consider(request, response)
        return response

    def _hold(self, exchange: Exchange, response: Response) -> None:
        """Answer when the turn's commit is on disk, or has failed."""

        def committed(problem: Problem | None) -> None:
            exchange.request.pending_commit = None
            exchange.respond(self.outcome(exchange.request, problem or response))

        transaction = exchange.request.pending_commit
        assert transaction is not None
        if transaction.outcome is None:
            transaction.on_done = committed
        else:  # the answer took longer to make than the commit
            committed(*transaction.outcome)

    def outcome(self, request: Request, outcome: Response | Problem) -> Response:
        """The answer to a request that has ended with this response, without the fields that every answer has, or with this problem."""
        return self._finished(request, outcome) if isinstance(outcome, Response) else self.error_response(outcome, request)

    async def _wait_for(self, exchange: Exchange, result: Any) -> None:
        """A handler that waits. Its first step already ran inside this task."""
        request = exchange.request
        try:
            while inspect.isawaitable(result):
                result = await result
            response = cast(Response, result)
            if _is_confirmed(request) and response.status < 400:
                await self._confirmed(request)
        except BaseException as error:
            exchange.respond(self._last_answer(exchange, error))
            return
        if request.pending_commit is None:
            exchange.respond(self._finished(request, response))
        else:
            self._hold(exchange, response)

    def _admit_confirmed(self, request: Request) -> None:
        """A request says to which nodes a write has to get. Raises Problem."""
        if self.confirmed_writes is not None and request.method in WRITING:
            self.confirmed_writes.admit(request)

    async def _confirmed(self, request: Request) -> None:
        """Wait until what the request has written is on disk, and as many other nodes have it as was asked for. Raises Problem."""
        applied = request.pending_commit
        await self.committed(request)
        if self.confirmed_writes is not None:
            await self.confirmed_writes.wait(request, applied)

    def _verify(self, exchange: Exchange, pending: PendingVerification) -> None:
        """Verify a password on a helper thread, then handle the request."""
        exchange.task = self._loop.create_task(self._verified(exchange, pending))

    async def _verified(self, exchange: Exchange, pending: PendingVerification) -> None:
        request = exchange.request
        try:
            request.user = await pending.wait(self._loop, self._executor)
            response = self._run(exchange, request, self._handle)
        except BaseException as error:
            response = self._last_answer(exchange, error)
        if response is not None:
            exchange.respond(response)

    async def _receive_verified(self, request: Request, pending: PendingVerification) -> Any:
        try:
            request.user = await pending.wait(self._loop, self._executor)
            return self._handler.receive(request)
        except BaseException as error:
            return self._answer_to(error, request)

    def _finished(self, request: Request, response: Response) -> Response:
        """The fields every answer has (spec: http §2.6, §9)."""
        pairs = response.pairs
        has_cookie = False
        if request.added_headers is not None:
            pairs.extend(request.added_headers.pairs())
            has_cookie = request.added_headers.has("Set-Cookie")
        if request.user is not None and response.body is not None and type(response.body) is not bytes:
            self._watch_stream(request, response)
        if "origin" in request.block.fields:
            self._cors.decorate(request, pairs)
        if (has_cookie or request.is_narrowed) and PUBLIC in pairs:
            pairs[pairs.index(PUBLIC)] = PRIVATE
        if (
            (request.user is not None or request._session is not None or has_cookie or request.is_narrowed)
            and PRIVATE not in pairs
            and request.method not in _WRITES
        ):
            keep_from_others(pairs)
        request.answered = now = self.now()
        hundredths = int((now - request.arrived) * 100_000.0)
        pairs.append(TIMINGS[hundredths] if hundredths < TIMINGS_MADE else timing(hundredths))
        return response

    def _watch_stream(self, request: Request, response: Response) -> None:
        """An event stream ends with what let its caller in (spec: realtime §1 rule 7)."""
        body: Any = response.body
        if not is_event_stream(response.pairs):
            return
        if not isinstance(body, Feed):
            if not hasattr(body, "__aiter__"):
                return  # what waits for nothing
            body = response.body = CodeEvents(aiter(body))
        self._identifier.watch_login(request, body)

    def _timed(self, request: Request, response: Response) -> Response:
        request.answered = self.now()
        response.pairs.append(timing(int((request.answered - request.arrived) * 100_000.0)))
        return response

    @staticmethod
    def _as_problem(error: BaseException) -> Problem | None:
        if isinstance(error, Problem):
            return error
        try:
            for name in ("status_code", "statusCode", "status"):
                status = getattr(error, name, None)
                if isinstance(status, int) and 400 <= status <= 599:
                    code = getattr(error, "code", None)
                    return Problem(_text_of(error), status, code if isinstance(code, str) else None)
        except BaseException as fault:  # of properties that code of an application has given it
            contained(fault)
        return None


def _is_confirmed(request: Request) -> bool:
    """Whether the answer waits for other nodes."""
    return request._state is not None and request._state.replicated_confirmation is not None


def _text_of(error: BaseException) -> str:
    try:
        return str(error)
    except BaseException as fault:  # of code of an application
        contained(fault)
        return type(error).__name__


async def _answer_of_chain(request: Request, answer: Awaitable[Response]) -> Response:
    try:
        response = await answer
    finally:
        request.upload = None
    return _own_copy(request, response)


def _own_copy(request: Request, response: Response) -> Response:
    """The response as one that no listener has, for fields are added to it. An upload that nobody has taken is dropped: else its file would live as long as
    the connection."""
    request.upload = None
    return Response(response.body, response.status, pairs=list(response.pairs))


def _for_listeners(decision: Any, comes_first: bool) -> Any:
    """How a body is received that resources want to receive in this way. Where listeners come first nothing is refused yet, and forms are collected: they
    could not be read again."""
    if comes_first and decision is not None and not isinstance(decision, Upload):
        if not isinstance(decision, Response | BodyLimit):
            decision.discard()
        return None
    return decision
