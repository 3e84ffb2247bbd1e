"""One request on its way through the listeners of its port (spec: http §12.1).

    listener(request, next)      plain or async

returns a Response, a mapping that is one, data (negotiated, 200), None (404), or an awaitable of one of these. `next(request)` is an awaitable
Response of the steps that follow. A chain without anything that waits is plain calls; a task exists from the first listener on that has to be awaited.

Whatever a step raises is made a response at once, by the dispatcher, so that the listeners before it see what the client will get. Who awaits `next` gets the
response when what was written is on disk; it stays, whatever the listener answers then. At the end of the chain nobody has answered: 404.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Generator, Sequence
from typing import Any

from svc.errors import NotFound, Problem
from svc.http.dispatch import Dispatcher
from svc.http.response_check import check_response
from svc.http.responses import as_response
from svc.listeners.routes import Route
from svc.listeners.scopes import ListenerScope, ListenerScopes
from svc.listeners.step import AUTHENTICATION, GRAPHQL, READS, REST, PlainListener, Step
from svc.loop import is_ours
from svc.messages import Abort, Feed, Request, Response


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


class RequestPass:
    """One request on its way through the steps.

    `accepted`: for a WebSocket, the response that stands for "nobody has refused it"; its fields go with the handshake. None for other requests.
    """

    __slots__ = ("_dispatcher", "_has_rest", "_scopes", "_steps", "accepted", "problem", "refused", "request")

    def __init__(
        self,
        steps: Sequence[Step],
        dispatcher: Dispatcher,
        request: Request,
        *,
        scopes: ListenerScopes | None,
        has_rest: bool,
        for_websocket: bool,
    ) -> None:
        """`has_rest`: whether resources are among the steps."""
        self._steps = steps
        self._scopes = scopes
        self._has_rest = has_rest
        self._dispatcher = dispatcher
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
                    inner = request.pathname if step.route.is_open else step.route.path_inside(request, self._dispatcher.has_resource)
                    if inner is not None:
                        return self._listen(step.listener, position, inner)
                elif step.name == AUTHENTICATION:
                    found = self._dispatcher.authenticate(request)
                    if found is not None:
                        return found if isinstance(found, Response) else self._authenticated(found, position)
                elif step.name == GRAPHQL:
                    if self.accepted is None and self._dispatcher.has_endpoint(request):
                        result = self._dispatcher.ask_resource(request)
                        return result if isinstance(result, Response) else self._resource_answers(result)
                elif step.name == REST:
                    if self.accepted is not None:
                        return self.accepted
                    if position == len(self._steps) or self._dispatcher.has_resource(request):
                        result = self._dispatcher.ask_resource(request)
                        return result if isinstance(result, Response) else self._resource_answers(result)
            if self.accepted is not None:
                return self.accepted
            if not self._has_rest or self._dispatcher.has_resource(request):  # after the resources a listener can have changed the path
                raise NotFound("Not found")
            result = self._dispatcher.ask_resource(request)  # which refuses: 404, or 501 for a method that it does not know
            return result if isinstance(result, Response) else self._resource_answers(result)
        except BaseException as error:
            return self._failed(error)

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
        self._dispatcher.report(fault, self.request)

    async def committed(self, response: Response | None) -> Response | None:
        """The response once it is true."""
        try:
            await self._dispatcher.committed(self.request)
        except Problem as problem:
            return self._failed(problem)
        return response

    def _failed(self, error: BaseException) -> Response:
        """Raises what `is_ours`."""
        if is_ours(error):
            raise error
        self.problem = error if isinstance(error, Problem) else None
        self.refused = self._dispatcher.failure(error, self.request)
        return self.refused

    # --- listeners -------------------------------------------------------------------------------------------------------------------

    def _listen(self, listener: Callable[..., Any], position: int, inner: str) -> Any:
        request = self.request
        outer = request.pathname
        next_steps = NextSteps(self, position, outer, inner)
        request.pathname = inner
        try:
            result = listener(request, next_steps)
            if type(result) is NextResponse:
                result = result.begin()
            if inspect.isawaitable(result):
                return self._listened(result, next_steps)
            response = self._made(result, next_steps)
            if inspect.isawaitable(response):
                return self._listened(response, next_steps)
        except Abort as abort:
            return self._aborted(abort, next_steps)
        except BaseException as error:
            response = self._failed(error)
        next_steps.end(response)
        return response

    async def _listened(self, result: Any, next_steps: NextSteps) -> Response:
        """`result`: an awaitable of what the listener answers."""
        scope = next_steps.scope = None if self._scopes is None else self._scopes.begin(self.request)
        try:
            while inspect.isawaitable(result):
                result = await result
            response = self._made(result, next_steps)
            if inspect.isawaitable(response):
                response = await response
            if scope is not None:
                waiting = scope.commit()
                scope = None
                if waiting is not None:
                    await waiting
        except Abort as abort:
            response = self._aborted(abort, next_steps)
            if inspect.isawaitable(response):
                response = await response
        except BaseException as error:
            if is_ours(error):  # the client has left, or has waited too long
                next_steps.end(None)
                raise
            response = self._failed(error)
        finally:
            if scope is not None:
                scope.abort()
        next_steps.end(response)
        made: Response = response
        return made

    def _aborted(self, abort: Abort, next_steps: NextSteps) -> Any:
        """Answer with the response that the listener raised."""
        self._dispatcher.undo(self.request)
        try:
            response = self._made(abort.response, next_steps)
        except BaseException as error:
            response = self._failed(error)
        if inspect.isawaitable(response):
            return self._encoded(response, next_steps)
        next_steps.end(response)
        return response

    async def _encoded(self, encoding: Awaitable[Response], next_steps: NextSteps) -> Response:
        try:
            response = await encoding
        except BaseException as error:
            response = self._failed(error)
        next_steps.end(response)
        return response

    def _made(self, result: Any, next_steps: NextSteps) -> Any:
        """The response for what a listener returned, or an awaitable of it."""
        request = self.request
        passed = next_steps.response
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
            return self._dispatcher.answer(request, result)
        except (TypeError, ValueError) as error:
            error.add_note(f"what was returned by {_place_of(self._steps[next_steps.position - 1].listener)}")
            raise


def _place_of(listener: Any) -> str:
    code = getattr(listener, "__code__", None)
    return repr(listener) if code is None else f"{code.co_qualname} ({code.co_filename}:{code.co_firstlineno})"


class NextSteps:
    """`next` of a listener."""

    __slots__ = ("_inner", "_next_response", "_outer", "is_done", "position", "request_pass", "scope")

    def __init__(self, request_pass: RequestPass, position: int, outer: str, inner: str) -> None:
        """`outer`, `inner`: the path of the request outside of the listener and inside of it."""
        self.request_pass = request_pass
        self.position = position
        self._outer = outer
        self._inner = inner
        self._next_response: NextResponse | None = None
        self.scope: ListenerScope | None = None
        self.is_done = False

    def __call__(self, request: Any = None, /) -> NextResponse:
        """What follows, when it is awaited or returned. Raises TypeError for another request, RuntimeError when called again."""
        if request is not None and request is not self.request_pass.request:
            raise TypeError(f"next takes the request that the listener got, not {type(request).__name__}")
        if self._next_response is not None:
            raise RuntimeError("a listener can call next once: the steps after it answer a request once")
        if self.is_done:
            raise RuntimeError("the listener has answered: next can only be called before that")
        self._next_response = NextResponse(self)
        return self._next_response

    @property
    def response(self) -> Response | None:
        """What the steps after the listener answered; None if they have not."""
        return None if self._next_response is None else self._next_response.response

    def proceed(self) -> Any:
        """Run the steps after the listener: their response, or an awaitable of it."""
        request = self.request_pass.request
        request.adopt_headers()
        within = request.pathname
        if self._inner != self._outer:
            request.pathname = self._outer if within == self._inner else self._prefix() + within
        result = self.request_pass.step(self.position)
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
            self.request_pass.request.pathname = within

    def _prefix(self) -> str:
        return self._outer[: -len(self._inner)] if self._outer.endswith(self._inner) else self._outer

    def end(self, response: Response | None) -> None:
        """The listener is done: it answers with this. An answer of `next` that lasts, and that it does not pass on, is ended."""
        lasting = None if self._next_response is None else self._next_response.lasting
        if lasting is not None and (response is None or response.body is not lasting):
            lasting.close()
        if self._next_response is not None and not self._next_response.has_begun and response not in (None, self.request_pass.refused):
            self.request_pass.report("a listener has called next, and neither awaited nor returned what it gave")
        self._next_response = self.scope = None  # a cycle: nothing of a request waits for the garbage collector
        self.is_done = True
        if self._inner != self._outer:
            self.request_pass.request.pathname = self._outer


class NextResponse:
    """The awaitable Response of the steps after a listener. They begin when it is awaited, or when the listener returns it; once."""

    __slots__ = ("_next_steps", "has_begun", "lasting", "response")

    def __init__(self, next_steps: NextSteps) -> None:
        self._next_steps = next_steps
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
        result = self._next_steps.proceed()
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
        request_pass = self._next_steps.request_pass
        if request_pass.request.pending_commit is not None:
            self.response = yield from request_pass.committed(self.response).__await__()
        assert self.response is not None
        return self.response
