"""The context of a call: who asks, and what the call has done so far (spec: applications §5).

The context of an HTTP call is its `Request`; code that runs without one has a `Context` with the same members. It is held in a context variable, so calls
inside a handler, and tasks that it starts, find it without being told.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar, Token
from typing import Any

from svc.auth.users import User
from svc.messages import AppliedWrites, Caller, CallState, Headers, Request, Response, WritePrecondition
from svc.messages.call_state import ContextMembers


class Context(ContextMembers):
    """What a call knows: who asks, and what it has done so far. That of a request is the request; this one is for code that runs without: `transaction()`
    outside of a request, the source of a caching table, a subscription."""

    __slots__ = (
        "_added_headers",
        "_last_modified",
        "_state",
        "is_narrowed",
        "native_body",
        "pending_commit",
        "precondition",
        "restore",
        "trace_id",
        "user",
    )

    def __init__(self, user: Caller | None = None, trace_id: bytes | None = None) -> None:
        """`trace_id`: as `Request.trace_id`."""
        self.user = user
        self.trace_id = trace_id
        self._last_modified = None
        self.pending_commit: AppliedWrites | None = None
        self.precondition: WritePrecondition | None = None
        self.native_body = True
        self.is_narrowed = False  # as `Request.is_narrowed`
        self.restore: Any = None
        self._added_headers: Headers | None = None
        self._state = CallState()

    @classmethod
    def within(cls, context: AnyContext | None) -> Context:
        """A context of its own for what `context` asks: for the same user, in the same trace."""
        if context is None:
            return Context()
        own = (UserContext if type(context) is UserContext else Context)(context.user, context.trace_id)
        own.trace_as(context)
        return own

    def trace_as(self, context: AnyContext) -> None:
        """Spans are below that of the request of `context`."""
        state = context._state
        if state is not None and state.spans is not None:
            self._state.spans = state.spans

    @property
    def state(self) -> CallState:
        return self._state

    method = ""  # it is of no protocol

    @property
    def response_headers(self) -> Headers:
        if self._added_headers is None:
            self._added_headers = Headers()
        return self._added_headers


class UserContext(Context):
    """The context of calls of code that see and write what its user would: what is read in it is what the user may read, related records too."""

    __slots__ = ()


AnyContext = Request | Context

_current: ContextVar[AnyContext | None] = ContextVar("svc_context", default=None)

current_context = _current.get
enter = _current.set


def leave(token: Token[AnyContext | None]) -> None:
    """The opposite of `enter`. In a coroutine that was abandoned and is closed by others there is nothing to restore."""
    try:
        _current.reset(token)
    except ValueError:
        pass


def get_context() -> Any:
    """The context of the running call: its request, or a `Context` for code that runs without one; None outside of any call."""
    return _current.get()


def current_request() -> Request | None:
    """The request that the running code answers; None outside of one."""
    context = _current.get()
    return context if isinstance(context, Request) else None


def get_user() -> Caller | None:
    """The user that the running call is made for; None: anonymous, or outside of any call."""
    context = _current.get()
    return None if context is None else context.user


def get_response() -> Any:
    """The response of the running call: its `status` and `headers` apply to plain data that the handler returns. None outside of any call."""
    context = _current.get()
    if context is None:
        return None
    state = context.state
    if state.response is None:
        state.response = Response()
    return state.response


@contextmanager
def entered(context: AnyContext) -> Iterator[None]:
    """Run the block in `context`."""
    token = enter(context)
    try:
        yield
    finally:
        leave(token)


def context_of(given: Any) -> AnyContext | None:
    """The context that a `context=` argument means: a context, a request, an instance of a resource, or `{"user": ...}`. Raises TypeError."""
    if given is None or isinstance(given, Request | Context):
        return given
    own = getattr(given, "_context", None)
    if isinstance(own, Request | Context):
        return own
    if isinstance(given, dict):
        user = given.get("user")
        if user is not None and not isinstance(user, User):
            raise TypeError("context: 'user' must be a user object, as from server.get_user")
        return Context(user)
    raise TypeError(f"context must be a context, a request or an instance of a resource, not {type(given).__name__}")
