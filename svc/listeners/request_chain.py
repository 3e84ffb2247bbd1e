"""The chain of listeners of requests of a port: which of them are asked about a request (spec: http §12).

What is asked by plain calls only, and what no listener is for, is answered without a pass through the chain (`request_pass`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from svc.http.dispatch import Dispatcher
from svc.listeners.request_pass import RequestPass, ask_plain
from svc.listeners.routes import Route
from svc.listeners.scopes import ListenerScopes
from svc.listeners.step import READS, REST, Step
from svc.messages import Request, Response


class RequestChain:
    """The steps of a port in their order. `scopes`: None where code has no contexts and transactions."""

    def __init__(self, steps: Iterable[Step], scopes: ListenerScopes | None = None) -> None:
        self.steps = tuple(steps)
        self._scopes = scopes
        names = [step.name for step in self.steps if step.listener is None]
        at = next((number for number, step in enumerate(self.steps) if step.listener is None and step.name == REST), len(self.steps))
        self.has_rest = REST in names
        self._all = ListenerFilter(self.steps)
        self._in_front = ListenerFilter(self.steps[:at])
        self._behind = ListenerFilter(self.steps[at:])
        # Plain listeners in front of the first built-in step, and what is in front of them: `ask_first` asks them without a pass through the chain.
        before = next((number for number, step in enumerate(self.steps) if step.listener is None), 0)
        plain = [number for number, step in enumerate(self.steps[:before]) if step.plain is not None]
        self._first = self.steps[: plain[-1] + 1] if plain else ()
        self._after_first = ListenerFilter(self.steps[len(self._first) : at])
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

    def enter(self, request: Request) -> AbstractContextManager[None]:
        """The context in which the listeners of a request are called."""
        return nullcontext() if self._scopes is None else self._scopes.enter(request)

    def pass_for(self, dispatcher: Dispatcher, request: Request, *, for_websocket: bool = False) -> RequestPass:
        """The pass of a request, to be begun. `for_websocket`: of a handshake, which is not answered by the steps between the listeners."""
        return RequestPass(self.steps, dispatcher, request, scopes=self._scopes, has_rest=self.has_rest, for_websocket=for_websocket)

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


class ListenerFilter:
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
