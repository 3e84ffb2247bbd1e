"""The chain of HTTP listeners of a port: application code around and instead of the resources (spec: http §12).

    listener(request, next)      plain or async

returns a Response, a mapping that is one, data (negotiated, 200), None (404), or an awaitable of one of these. `next(request)` is an awaitable
Response of the steps that follow. A chain without anything that waits is plain calls; a task exists from the first listener on that has to be awaited.

Whatever a step raises is made a response at once, by the dispatcher, so that the listeners before it see what the client will get. Who awaits `next` gets the
response when what was written is on disk; it stays, whatever the listener answers then. At the end of the chain nobody has answered: 404.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Generator, Iterable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Protocol

from svc.errors import NotFound, Problem
from svc.http.response_check import check_response
from svc.http.responses import as_response
from svc.http.routes import ANYWHERE, Route
from svc.loop import is_ours
from svc.messages import Abort, Feed, Request, Response

Listener = Callable[[Request, Callable[..., Any]], Any]

READS = frozenset({"GET", "HEAD"})

AUTHENTICATION = "authentication"
GRAPHQL = "graphql"
REST = "rest"
BUILT_IN = ("static", AUTHENTICATION, GRAPHQL, REST)
"""Names of the steps that are always there; listeners are placed relative to them whether or not they do anything."""


class Scope(Protocol):
    """What one async listener writes itself, in a transaction: `api.listener_scopes`."""

    def resume(self) -> None:
        """The steps after the listener are done: it goes on."""

    def commit(self) -> Awaitable[None] | None:
        """The listener has returned: apply what it has written. An awaitable if that takes longer. Raises Problem."""

    def abort(self) -> None:
        """The listener has failed."""


class Scopes(Protocol):
    def enter(self, request: Request) -> AbstractContextManager[Any]:
        """The context that the listeners of a request are called in."""

    def begin(self, request: Request) -> Scope: ...


class ChainHost(Protocol):
    """What the steps between the listeners do: `dispatch.Dispatcher`."""

    def authenticate(self, request: Request) -> Response | Awaitable[Response | None] | None:
        """Identify the caller, or answer a preflight. Raises Problem."""

    def has_resource(self, request: Request) -> bool:
        """Whether `ask_resource` is to be asked, even where it refuses."""

    def has_endpoint(self, request: Request) -> bool:
        """Whether the path is one of the step `graphql`; `rest` answers at all others."""

    def ask_resource(self, request: Request) -> Any:
        """The Response of the addressed resource, or an awaitable of it. Raises Problem."""

    def answer(self, request: Request, result: Any) -> Any:
        """The Response for what a listener returned, or an awaitable of it. Raises Problem."""

    def failure(self, error: BaseException, request: Request) -> Response:
        """The response to an exception; writes of the request that are not applied yet are undone."""

    def undo(self, request: Request) -> None:
        """Undo the writes of the request that are not applied yet."""

    async def committed(self, request: Request) -> None:
        """Wait until what the request has written is on disk. Raises the Problem that prevents it."""

    def report(self, fault: str, request: Request) -> None:
        """Log a fault of a listener that did not raise anything."""


class PlainListener:
    """A listener that answers GET and HEAD by a plain call, or passes on, the same for all callers, and that writes nothing: it needs none of what is made
    for others, so that a request which it does not answer costs hardly more than without it. WebSockets and other methods are never for it."""

    def answer(self, request: Request) -> Response | None:
        """A new response; None passes on. Raises Problem."""
        raise NotImplementedError

    def __call__(self, request: Request, next: Callable[..., Any], /) -> Any:
        response = self.answer(request) if request.method in READS and not request.is_websocket else None
        return next(request) if response is None else response


@dataclass(frozen=True, slots=True)
class Step:
    """`listener` None: the built-in step of this name."""

    name: str
    listener: Listener | None = None
    route: Route = ANYWHERE

    @property
    def plain(self) -> PlainListener | None:
        return self.listener if isinstance(self.listener, PlainListener) else None


class BodyReceiver(Protocol):
    """A listener that receives bodies while they come, if no other is asked before it: `mounted.application.HttpListener`. `passes_on`: it asks those behind
    it when it has no answer, which need the body then."""

    passes_on: bool

    def __call__(self, request: Request, next: Callable[..., Any], /) -> Any: ...

    def body_channel(self, request: Request) -> Any:
        """A `connection.exchange.BodyChannel`; None: the body is collected."""


class Chain:
    """The steps of a port in their order. `scopes`: None where code has no contexts and transactions."""

    def __init__(self, steps: Iterable[Step], scopes: Scopes | None = None) -> None:
        self.steps = tuple(steps)
        self.scopes = scopes
        names = [step.name for step in self.steps if step.listener is None]
        at = next((number for number, step in enumerate(self.steps) if step.listener is None and step.name == REST), len(self.steps))
        self.has_rest = REST in names
        self._all = Asked(self.steps)
        self._in_front = Asked(self.steps[:at])
        self._behind = Asked(self.steps[at:])
        # Plain listeners in front of the first built-in step, and what is in front of them: `ask_first` asks them without a pass through the chain.
        before = next((number for number, step in enumerate(self.steps) if step.listener is None), 0)
        plain = [number for number, step in enumerate(self.steps[:before]) if step.plain is not None]
        self._first = self.steps[: plain[-1] + 1] if plain else ()
        self._after_first = Asked(self.steps[len(self._first) : at])
        self._count_of_first = len(self._first)
        answers = [step.plain.answer for step in self._first if step.plain is not None and step.route.is_open]
        self._first_answers = answers if len(answers) == len(self._first) else None  # None: not all of them are plain, and for all requests
        self.has_first = bool(self._first)
        # Plain listeners that alone are behind the resources, where no other is in front: `ask_last` asks them in the same way.
        self._last = [step.plain.answer for step in self.steps[at + 1 :] if step.plain is not None and step.route.is_open]
        is_plain = self._first_answers is not None
        self.has_more = not (is_plain and self.has_rest and self._after_first.is_empty and self._behind.is_empty)
        """Whether others than those of `ask_first` may be asked."""
        self.has_last = bool(self._last) and len(self._last) == len(self.steps) - at - 1 and self._after_first.is_empty

    def body_channel(self, request: Request, knows: Callable[[Request], bool]) -> Any:
        """How the first step that is asked receives the body of the request while it answers (`BodyReceiver`); None if it does not, or is not a listener."""
        for number, step in enumerate(self.steps):
            if step.listener is not None:
                if _is_for(step, request):
                    receive = getattr(step.listener, "body_channel", None)
                    if receive is None or (step.listener.passes_on and any(_is_for(later, request) for later in self.steps[number + 1 :])):  # type: ignore[attr-defined]
                        return None
                    return receive(request)
            elif step.name == REST and knows(request):
                return None
        return None

    def concerns(self, request: Request) -> bool:
        """Whether some listener may be asked about this request."""
        return self._all.may_match(request)

    def comes_first(self, request: Request) -> bool:
        """Whether some listener may be asked before the resources are."""
        return self._in_front.may_match(request)

    def ask_first(self, request: Request) -> Response | int:
        """The response of a plain listener in front of all others that are for this request, or the number of the step from which the chain goes on.
        Raises Problem."""
        answers = self._first_answers
        if answers is not None:
            if request.method in READS:
                for answer in answers:
                    response = answer(request)
                    if response is not None:
                        return response
            return self._count_of_first
        for number, step in enumerate(self._first):
            plain = step.plain
            if plain is None:
                if step.route.may_match(request):
                    return number
            elif request.method in READS:
                response = ask_plain(plain, step.route, request)
                if response is not None:
                    return response
        return self._count_of_first

    def asks_last(self, request: Request, position: int) -> bool:
        """Whether a request that needs the chain from this step on, since no resource answers, is for `ask_last` once its caller is identified."""
        return self.has_last and position == self._count_of_first and request.method in READS

    def ask_last(self, request: Request) -> Response | None:
        """The response of a plain listener behind the resources, None if all pass on. Raises Problem."""
        for answer in self._last:
            response = answer(request)
            if response is not None:
                return response
        return None

    def is_needed(self, request: Request, position: int, knows: Callable[[Request], bool]) -> bool:
        """Whether a listener from the step of this number on may be asked. `knows`: whether a resource answers, so that none behind it is."""
        if not self.has_rest:
            return True
        in_front = self._after_first if position == self._count_of_first else self._in_front
        if not in_front.is_empty and in_front.may_match(request):
            return True
        return not self._behind.is_empty and self._behind.may_match(request) and not knows(request)


def _is_for(step: Step, request: Request) -> bool:
    """Whether it is a listener that is asked about this request."""
    return step.listener is not None and (step.plain is None or request.method in READS) and step.route.rest_of(request) is not None


class Asked:
    """Which requests the listeners among some steps may be asked about."""

    __slots__ = ("_by_method", "_routes", "is_empty")

    def __init__(self, steps: Sequence[Step]) -> None:
        self.is_empty = all(step.listener is None for step in steps)
        self._routes = _routes([step for step in steps if step.listener is not None and step.plain is None])  # None: all requests
        self._by_method = _routes([step for step in steps if step.plain is not None])  # None: all of READS

    def may_match(self, request: Request) -> bool:
        routes = self._routes
        if routes is None or (routes and any(route.may_match(request) for route in routes)):
            return True
        routes = self._by_method
        if routes == () or request.method not in READS or request.is_websocket:
            return False
        return routes is None or any(route.may_match(request) for route in routes)


def _routes(steps: Sequence[Step]) -> tuple[Route, ...] | None:
    return None if any(step.route.is_open for step in steps) else tuple(step.route for step in steps)


def ask_plain(listener: PlainListener, route: Route, request: Request) -> Response | None:
    """What a plain listener answers, with the path that it sees; None: it passes on, or the request is not for its route. Raises Problem."""
    if route.is_open:
        return listener.answer(request)
    outer = request.pathname
    inner = route.rest_of(request)
    if inner is None:
        return None
    request.pathname = inner
    try:
        return listener.answer(request)
    finally:
        request.pathname = outer


class ChainPass:
    """One request on its way through the steps.

    `accepted`: for a WebSocket, the response that stands for "nobody has refused it"; its fields go with the handshake. None for other requests.
    """

    __slots__ = ("_has_rest", "_host", "_scopes", "_steps", "accepted", "problem", "refused", "request")

    def __init__(self, chain: Chain, host: ChainHost, request: Request, *, for_websocket: bool = False) -> None:
        self._steps: Sequence[Step] = chain.steps
        self._scopes = chain.scopes
        self._has_rest = chain.has_rest
        self._host = host
        self.request = request
        self.accepted = Response(None, 101) if for_websocket else None
        self.refused: Response | None = None  # the last response that was made of an exception
        self.problem: Problem | None = None  # ... if that was a Problem

    def begin(self, position: int = 0) -> Response | Awaitable[Response]:
        """The response, or an awaitable of it. Neither raises, but for cancellation. `position`: of the first step to ask."""
        answer: Response | Awaitable[Response] = self.step(position)
        return answer

    # --- steps -----------------------------------------------------------------------------------------------------------------------

    def step(self, position: int) -> Any:
        """The response of the steps from `position` on, or an awaitable of it."""
        request = self.request
        try:
            while position < len(self._steps):
                step = self._steps[position]
                position += 1
                plain = step.plain
                if plain is not None:
                    if request.method in READS and self.accepted is None:
                        response = ask_plain(plain, step.route, request)
                        if response is not None:
                            return response
                elif step.listener is not None:
                    inner = request.pathname if step.route.is_open else self._rest_of(step.route)
                    if inner is not None:
                        return self._listen(step.listener, position, inner)
                elif step.name == AUTHENTICATION:
                    found = self._host.authenticate(request)
                    if found is not None:
                        return found if isinstance(found, Response) else self._authenticated(found, position)
                elif step.name == GRAPHQL:
                    if self.accepted is None and self._host.has_endpoint(request):
                        result = self._host.ask_resource(request)
                        return result if isinstance(result, Response) else self._resource_answers(result)
                elif step.name == REST:
                    if self.accepted is not None:
                        return self.accepted
                    if position == len(self._steps) or self._host.has_resource(request):
                        result = self._host.ask_resource(request)
                        return result if isinstance(result, Response) else self._resource_answers(result)
            if self.accepted is not None:
                return self.accepted
            if not self._has_rest or self._host.has_resource(request):  # after the resources a listener can have changed the path
                raise NotFound("Not found")
            result = self._host.ask_resource(request)  # which refuses: 404, or 501 for a method that it does not know
            return result if isinstance(result, Response) else self._resource_answers(result)
        except BaseException as error:
            return self._failed(error)

    def _rest_of(self, route: Route) -> str | None:
        rest = route.rest_of(self.request)
        if rest is None and route.is_extended(self.request) and self._host.has_resource(self.request):
            return "/"
        return rest

    async def _authenticated(self, identifying: Awaitable[Response | None], position: int) -> Response:
        try:
            found = await identifying
        except BaseException as error:
            return self._failed(error)
        result = self.step(position) if found is None else found
        response: Response = await result if inspect.isawaitable(result) else result
        return response

    async def _resource_answers(self, result: Any) -> Response:
        try:
            while inspect.isawaitable(result):
                result = await result
            response: Response = result
        except BaseException as error:
            return self._failed(error)
        return response

    def report(self, fault: str) -> None:
        self._host.report(fault, self.request)

    async def committed(self, response: Response | None) -> Response | None:
        """The response once it is true."""
        try:
            await self._host.committed(self.request)
        except Problem as problem:
            return self._failed(problem)
        return response

    def _failed(self, error: BaseException) -> Response:
        """Raises what `is_ours`."""
        if is_ours(error):
            raise error
        self.problem = error if isinstance(error, Problem) else None
        self.refused = self._host.failure(error, self.request)
        return self.refused

    # --- listeners -------------------------------------------------------------------------------------------------------------------

    def _listen(self, listener: Listener, position: int, inner: str) -> Any:
        request = self.request
        outer = request.pathname
        following = Following(self, position, outer, inner)
        request.pathname = inner
        try:
            result = listener(request, following)
            if type(result) is Continuation:
                result = result.begin()
            if inspect.isawaitable(result):
                return self._listened(result, following)
            response = self._made(result, following)
            if inspect.isawaitable(response):
                return self._listened(response, following)
        except Abort as abort:
            return self._aborted(abort, following)
        except BaseException as error:
            response = self._failed(error)
        following.end(response)
        return response

    async def _listened(self, result: Any, following: Following) -> Response:
        """`result`: an awaitable of what the listener answers."""
        scope = following.scope = None if self._scopes is None else self._scopes.begin(self.request)
        try:
            while inspect.isawaitable(result):
                result = await result
            response = self._made(result, following)
            if inspect.isawaitable(response):
                response = await response
            if scope is not None:
                waiting = scope.commit()
                scope = None
                if waiting is not None:
                    await waiting
        except Abort as abort:
            response = self._aborted(abort, following)
            if inspect.isawaitable(response):
                response = await response
        except BaseException as error:
            if is_ours(error):  # the client has left, or has waited too long
                following.end(None)
                raise
            response = self._failed(error)
        finally:
            if scope is not None:
                scope.abort()
        following.end(response)
        made: Response = response
        return made

    def _aborted(self, abort: Abort, following: Following) -> Any:
        """Answer with the response that the listener raised."""
        self._host.undo(self.request)
        try:
            response = self._made(abort.response, following)
        except BaseException as error:
            response = self._failed(error)
        if inspect.isawaitable(response):
            return self._encoded(response, following)
        following.end(response)
        return response

    async def _encoded(self, encoding: Awaitable[Response], following: Following) -> Response:
        try:
            response = await encoding
        except BaseException as error:
            response = self._failed(error)
        following.end(response)
        return response

    def _made(self, result: Any, following: Following) -> Any:
        """The response for what a listener returned, or an awaitable of it."""
        request = self.request
        passed = following.response
        if passed is not None and result is passed:
            if result is self.accepted and result.status == 101:
                return result
            check_response(result)
            if result.data is None or result.body is not None:
                return result
        if result is None:
            if getattr(request.exchange, "status", 0):
                return Response(status=204)  # the listener has answered through `raw_response`: this is not sent
            raise NotFound("Not found")
        try:
            if type(result) is dict:
                result = as_response(result)
            if isinstance(result, Response):
                # A copy: an application may return one object to many requests.
                check_response(result)
                result = Response(result.body, result.status, None, result.data, pairs=list(result.pairs))
            return self._host.answer(request, result)
        except (TypeError, ValueError) as error:
            error.add_note(f"what was returned by {_place_of(self._steps[following.position - 1].listener)}")
            raise


def _place_of(listener: Any) -> str:
    code = getattr(listener, "__code__", None)
    return repr(listener) if code is None else f"{code.co_qualname} ({code.co_filename}:{code.co_firstlineno})"


class Following:
    """`next` of a listener."""

    __slots__ = ("_continuation", "_inner", "_outer", "chain_pass", "is_done", "position", "scope")

    def __init__(self, chain_pass: ChainPass, position: int, outer: str, inner: str) -> None:
        """`outer`, `inner`: the path of the request outside of the listener and inside of it."""
        self.chain_pass = chain_pass
        self.position = position
        self._outer = outer
        self._inner = inner
        self._continuation: Continuation | None = None
        self.scope: Scope | None = None
        self.is_done = False

    def __call__(self, request: Any = None, /) -> Continuation:
        """What follows, when it is awaited or returned. Raises TypeError for another request, RuntimeError when called again."""
        if request is not None and request is not self.chain_pass.request:
            raise TypeError(f"next takes the request that the listener got, not {type(request).__name__}")
        if self._continuation is not None:
            raise RuntimeError("a listener can call next once: the steps after it answer a request once")
        if self.is_done:
            raise RuntimeError("the listener has answered: next can only be called before that")
        self._continuation = Continuation(self)
        return self._continuation

    @property
    def response(self) -> Response | None:
        """What the steps after the listener answered; None if they have not."""
        return None if self._continuation is None else self._continuation.response

    def proceed(self) -> Any:
        """Run the steps after the listener: their response, or an awaitable of it."""
        request = self.chain_pass.request
        request.adopt_headers()
        within = request.pathname
        if self._inner != self._outer:
            request.pathname = self._outer if within == self._inner else self._prefix() + within
        result = self.chain_pass.step(self.position)
        if inspect.isawaitable(result):
            return self._back(result, within)
        self._return_to(within)
        return result

    async def _back(self, result: Awaitable[Response], within: str) -> Response:
        response = await result
        self._return_to(within)
        return response

    def _return_to(self, within: str) -> None:
        if self.scope is not None:
            self.scope.resume()
        if self._inner != self._outer:
            self.chain_pass.request.pathname = within

    def _prefix(self) -> str:
        return self._outer[: -len(self._inner)] if self._outer.endswith(self._inner) else self._outer

    def end(self, response: Response | None) -> None:
        """The listener is done: it answers with this. An answer of `next` that lasts, and that it does not pass on, is ended."""
        lasting = None if self._continuation is None else self._continuation.lasting
        if lasting is not None and (response is None or response.body is not lasting):
            lasting.close()
        if self._continuation is not None and not self._continuation.has_begun and response not in (None, self.chain_pass.refused):
            self.chain_pass.report("a listener has called next, and neither awaited nor returned what it gave")
        self._continuation = self.scope = None  # a cycle: nothing of a request waits for the garbage collector
        self.is_done = True
        if self._inner != self._outer:
            self.chain_pass.request.pathname = self._outer


class Continuation:
    """The awaitable Response of the steps after a listener. They begin when it is awaited, or when the listener returns it; once."""

    __slots__ = ("_following", "has_begun", "lasting", "response")

    def __init__(self, following: Following) -> None:
        self._following = following
        self.has_begun = False
        self.response: Response | None = None
        self.lasting: Feed | None = None  # its body, if that has to be ended

    def begin(self) -> Any:
        """The response, or an awaitable of it."""
        if self.response is not None:
            return self.response
        if self.has_begun:
            raise RuntimeError("what next returned is being awaited already")
        self.has_begun = True
        result = self._following.proceed()
        if inspect.isawaitable(result):
            return self._wait(result)
        return self._has(result)

    async def _wait(self, result: Awaitable[Response]) -> Response:
        return self._has(await result)

    def _has(self, response: Response) -> Response:
        self.response = response
        if isinstance(response.body, Feed):
            self.lasting = response.body
        return response

    def __await__(self) -> Generator[Any, None, Response]:
        result = self.begin()
        if inspect.isawaitable(result):
            yield from result.__await__()
        chain_pass = self._following.chain_pass
        if chain_pass.request.pending_commit is not None:
            self.response = yield from chain_pass.committed(self.response).__await__()
        assert self.response is not None
        return self.response
