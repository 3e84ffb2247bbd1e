"""A step of a chain: a listener as an application has registered it, or one that is always there (spec: http §12.2)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

from svc.listeners.options import DEFAULTS, ListenerOptions
from svc.listeners.routes import ANYWHERE, Route
from svc.messages import Request, Response

HTTP, WS, UPGRADE = "http", "ws", "upgrade"

STATIC = "static"
AUTHENTICATION = "authentication"
GRAPHQL = "graphql"
REST = "rest"
BUILT_IN = (STATIC, AUTHENTICATION, GRAPHQL, REST)
"""Names of the steps that are always there; listeners are placed relative to them whether or not they do anything."""

DEFAULT_UPGRADE = "websocket"
"""The name of the step of upgrades that accepts WebSockets."""

READS = frozenset({"GET", "HEAD"})


class PlainListener:
    """A listener that answers GET and HEAD by a plain call, or passes on, the same for all callers, and that writes nothing: it needs none of what is made
    for others, so that a request which it does not answer costs hardly more than without it. WebSockets and other methods are never for it."""

    def answer(self, request: Request) -> Response | None:
        """A new response; None passes on. Raises Problem."""
        raise NotImplementedError

    def __call__(self, request: Request, next: Callable[..., Any], /) -> Any:
        response = self.answer(request) if request.method in READS and not request.is_websocket else None
        return next(request) if response is None else response


class BodyReceiver(Protocol):
    """A listener that receives bodies while they come, if no other is asked before it: `mounted.application.HttpListener`. `passes_on`: it asks those behind
    it when it has no answer, which need the body then."""

    passes_on: bool

    def __call__(self, request: Request, next: Callable[..., Any], /) -> Any: ...

    def body_channel(self, request: Request) -> Any:
        """A `connection.exchange.BodyChannel`; None: the body is collected."""


@dataclass(slots=True, eq=False)
class Step:
    """`listener` None: the built-in step of this name. `kind`: of the chain, HTTP, WS or UPGRADE. `rank`: ascends with registration.

    `options`: as given, above all where it wants to be. `owner`: what has registered it.
    """

    name: str = ""
    listener: Callable[..., Any] | None = None
    route: Route = ANYWHERE
    kind: str = HTTP
    rank: tuple[int, int] = (0, 0)
    options: ListenerOptions = DEFAULTS
    owner: object = None
    plain: PlainListener | None = field(init=False)

    def __post_init__(self) -> None:
        self.plain = self.listener if isinstance(self.listener, PlainListener) else None
