"""The listeners of applications on one port: kept with their wishes, and arranged into the chains that requests go through (spec: http §12)."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Protocol

from svc.http.listener_order import Placed, ordered
from svc.http.listeners import AUTHENTICATION, BUILT_IN, GRAPHQL, REST, Chain, Scopes, Step
from svc.http.routes import Route
from svc.messages import Request

HTTP, WS, UPGRADE = "http", "ws", "upgrade"
KINDS = (HTTP, WS, UPGRADE)
DEFAULT_UPGRADE = "websocket"
"""The name of the default upgrade listener, which accepts WebSockets."""


@dataclass(frozen=True, slots=True, eq=False)
class Registered:
    """A listener as an application has registered it. `owner`: the application. `kind`: one of KINDS."""

    kind: str
    listener: Callable[..., Any]
    placed: Placed
    route: Route
    owner: object
    max_payload: int = 0


class RequestChains(Protocol):
    """`http.dispatch.Dispatcher`."""

    def use(self, chain: Chain | None) -> None: ...


class UpgradeChains(Protocol):
    """`websocket.UpgradeListeners`."""

    def knows(self, request: Request) -> bool: ...
    def replace(self, listeners: Iterable[Callable[..., Any] | None]) -> None: ...
    def replace_ws(self, listeners: Iterable[tuple[Callable[..., Any], int]]) -> None: ...


class PortListeners:
    """`serves_resources`: whether REST answers on this port. `scopes`: what listeners are called in."""

    def __init__(
        self,
        requests: RequestChains,
        upgrades: UpgradeChains,
        *,
        serves_resources: bool,
        scopes: Scopes | None,
    ) -> None:
        self._requests = requests
        self._upgrades = upgrades
        self._serves_resources = serves_resources
        self._scopes = scopes
        self._registered: list[Registered] = []
        self.staged = 0
        """How many listeners wait for their application to take effect."""
        self.faults: list[str] = []
        """What could not be met of the listeners' wishes when they were last arranged."""

    def __len__(self) -> int:
        return len(self._registered)

    @property
    def are_used(self) -> bool:
        """Whether there is a listener, or will be."""
        return bool(self._registered or self.staged)

    def change(self, added: Iterable[Registered], removed: Iterable[Registered] = ()) -> None:
        """Add and remove listeners, and arrange them anew; requests under way keep their chain."""
        gone = set(removed)
        self._registered = [each for each in self._registered if each not in gone] + list(added)
        self.faults = []
        self._arrange_requests()
        self._upgrades.replace_ws((_routed_ws(each, self._upgrades.knows), each.max_payload) for each in self._ordered(WS))
        default = Placed(None, name=DEFAULT_UPGRADE)
        placed = self._order(UPGRADE, (default,), DEFAULT_UPGRADE)
        self._upgrades.replace(None if each is default else _routed_upgrade(each.value) for each in placed)

    def _arrange_requests(self) -> None:
        built_in = tuple(Placed(None, name=name) for name in BUILT_IN)
        placed = self._order(HTTP, built_in, AUTHENTICATION)
        steps = []
        for each in placed:
            if each.value is not None:
                steps.append(Step(each.name, each.value.listener, each.value.route))
            elif each.name == AUTHENTICATION or (each.name in (GRAPHQL, REST) and self._serves_resources):
                steps.append(Step(each.name))
        has_listeners = any(step.listener is not None for step in steps)
        self._requests.use(Chain(steps, self._scopes) if has_listeners or not self._serves_resources else None)

    def _ordered(self, kind: str) -> list[Registered]:
        return [each.value for each in self._order(kind, (), "")]

    def _order(self, kind: str, built_in: tuple[Placed, ...], routed_after: str) -> list[Placed]:
        listeners = [each.placed for each in self._registered if each.kind == kind]
        return ordered(listeners, built_in, routed_after=routed_after, warn=self.faults.append)


def _routed_ws(registered: Registered, knows: Callable[[Request], bool]) -> Callable[..., Any]:
    """The listener, or one that passes on what is not for its route. `knows`: whether a resource serves WebSockets at an address."""
    route, listener = registered.route, registered.listener
    if route.is_open:
        return listener

    async def routed(socket: Any, request: Request, completion: Any, call_next: Callable[..., Any]) -> Any:
        inner = route.rest_of(request)
        if inner is None and route.is_extended(request) and knows(request):
            inner = "/"
        if inner is None:
            return await call_next(socket, request, completion)
        outer, request.pathname = request.pathname, inner

        async def go_on(socket: Any, request: Request, completion: Any) -> Any:
            request.pathname = outer
            return await call_next(socket, request, completion)

        result = listener(socket, request, completion, go_on)
        return await result if inspect.isawaitable(result) else result

    return routed


def _routed_upgrade(registered: Registered) -> Callable[..., Any]:
    """The same for a listener of upgrades."""
    route, listener = registered.route, registered.listener
    if route.is_open:
        return listener

    def routed(request: Request, socket: Any, head: bytes, call_next: Callable[..., Any]) -> Any:
        inner = route.rest_of(request)
        if inner is None:
            return call_next(request, socket, head)
        outer, request.pathname = request.pathname, inner

        def go_on(request: Request, socket: Any, head: bytes) -> Any:
            request.pathname = outer
            return call_next(request, socket, head)

        return listener(request, socket, head, go_on)

    return routed
