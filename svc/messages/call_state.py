"""What application code, caching and replication know of the call they run in, besides its request (spec: applications §5).

`CallState` holds it; `ContextMembers` shows it as members of a context, which is a request, or an `api.Context` of code that runs without one.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from datetime import UTC, datetime
from typing import Any, Protocol

from svc.errors import Problem
from svc.messages.response import Response


class AppliedWrites(Protocol):
    """Writes that are applied and not yet on disk: `store.Transaction`. `databases`: that they are in."""

    databases: tuple[Any, ...]
    outcome: tuple[Problem | None] | None  # what `on_done` was called with; None before
    on_done: Callable[[Problem | None], None] | None  # called by the turn's commit: None, or the problem that undid the writes

    def abort(self) -> None: ...


class WritePrecondition(Protocol):
    """A condition on the stored record: `store.Precondition`."""

    def check(self, raw: bytes | None) -> None:
        """Raise unless the stored record satisfies it; None: there is no record."""


class Spans(Protocol):
    """Records the spans below that of a request: `tracing.RequestSpans`."""

    def call(self, name: str, function: Callable[[], Any]) -> Any:
        """`function()` in a span of this name; what it returns, or an awaitable of what its awaitable results in."""

    def note(self, attributes: Mapping[str, str]) -> None:
        """Add to what the span of the request says."""


class OpenTransaction(Protocol):
    """The transaction that a call runs in: `api.Transaction`."""

    @property
    def timestamp(self) -> float:
        """ms since the epoch: that of all it writes."""


class HandlerOfApplication(Protocol):
    """The verb of an application's class that answers: `api.Verb`."""

    @property
    def place(self) -> str:
        """File, line and name, for the log."""

    async def run_in_context(self, awaitable: Awaitable[Any], request: Any) -> Any: ...


class Addressed(Protocol):
    """What is addressed: `resources.RequestTarget`."""

    @property
    def id(self) -> Any:
        """The key of one record; None for many."""


class CallState:
    """What application code knows of the call it runs in, besides the request: the members of a context (spec: applications §5). Most calls set none of
    them, so the defaults are those of the class."""

    transaction: OpenTransaction | None = None  # while one is open
    timestamp: float | None = None  # ms: when the call began, the same in all of it
    expires_at: float | None = None  # ms: when what is written next expires
    handler: HandlerOfApplication | None = None  # that runs
    target: Addressed | None = None  # what the request of the protocol addresses
    owner: object = None  # store.Table of the resource that is addressed
    new_location: str | None = None  # of a record that was created: the answer is 201 with `Location`
    created_resource: bool = False
    loaded_from_source: bool | None = None  # of a caching table: whether the source was asked
    metric_type: str | None = None  # of the metrics of the request: "cache-hit" or "cache-miss" of a caching table, "framework-route"
    trace_id: bytes | None = None  # of the trace that is recorded; None: none is, see `Request.trace_id`
    spans: Spans | None = None  # of the request, if it is traced
    rows: int | None = None  # that the answer has, so far; None: it is no list
    response: Response | None = None  # whose status and header fields apply to plain data
    if_version: float | None = None  # the version that the next write expects
    authorize: bool = False  # calls of code are checked as those of a protocol
    source: object = None  # api.caching.Cache, in the code of its source
    originating_operation: str | None = None
    only_if_cached: bool | None = None
    no_cache: bool | None = None
    no_cache_store: bool | None = None
    stale_if_error: bool | None = None
    must_revalidate: bool | None = None
    max_age: float | None = None
    replicate_to: int | str | list[str] | None = None
    replicated_confirmation: int | None = None
    replicate_from: bool | None = None

    def next_call(self) -> CallState:
        """The state of another call for the same request: of this one it has nothing but the trace."""
        state = CallState()
        state.trace_id, state.spans = self.trace_id, self.spans
        return state


def _member(name: str) -> Any:
    """A member of `CallState` as one of the context itself."""

    def get(self: ContextMembers) -> Any:
        return getattr(self.state, name)

    def set_(self: ContextMembers, value: Any) -> None:
        setattr(self.state, name, value)

    return property(get, set_)


class ContextMembers:
    """The members that every context has, a request or one of code that runs without a request."""

    __slots__ = ()

    _last_modified: Any

    @property
    def state(self) -> CallState:
        raise NotImplementedError

    transaction: OpenTransaction | None = _member("transaction")

    @property
    def timestamp(self) -> float | None:
        """When the call began, ms since the epoch: the same in all of it. None: it has no transaction."""
        state = self.state
        if state.timestamp is None and state.transaction is not None:
            state.timestamp = state.transaction.timestamp
        return state.timestamp

    @property
    def last_modified(self) -> Any:
        """ms: drives `ETag` of what a handler returns."""
        return self._last_modified

    @last_modified.setter
    def last_modified(self, value: Any) -> None:
        if isinstance(value, datetime):
            value = (value if value.tzinfo is not None else value.replace(tzinfo=UTC)).timestamp() * 1000
        self._last_modified = value

    expires_at: float | None = _member("expires_at")
    new_location: str | None = _member("new_location")
    created_resource: bool = _member("created_resource")
    loaded_from_source: bool | None = _member("loaded_from_source")
    response: Response | None = _member("response")
    if_version: float | None = _member("if_version")
    authorize: bool = _member("authorize")
    source: object = _member("source")
    originating_operation: str | None = _member("originating_operation")
    only_if_cached: bool | None = _member("only_if_cached")
    no_cache: bool | None = _member("no_cache")
    no_cache_store: bool | None = _member("no_cache_store")
    stale_if_error: bool | None = _member("stale_if_error")
    must_revalidate: bool | None = _member("must_revalidate")
    max_age: float | None = _member("max_age")
    replicate_to: int | str | list[str] | None = _member("replicate_to")
    replicated_confirmation: int | None = _member("replicated_confirmation")
    replicate_from: bool | None = _member("replicate_from")
