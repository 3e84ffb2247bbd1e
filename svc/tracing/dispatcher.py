"""A dispatcher whose requests are traced: when the span of a request begins, is current, and ends (spec: tracing §3).

It begins with the complete head and ends with the last byte of the answer. While the dispatcher works on the request the span is current, so whatever is
called, and every task that is started, is below it. Event streams and WebSockets end it when they begin: they may last for days.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import TYPE_CHECKING, Any, cast

from opentelemetry.context import attach, detach
from opentelemetry.trace import Tracer

from svc.errors import PeerError, Problem
from svc.http.dispatch import Dispatcher
from svc.messages import Abort, Feed, Request, Response
from svc.store.writing.commit import COMMIT
from svc.tracing.spans import RequestSpans, fail

if TYPE_CHECKING:
    from svc.connection import Exchange


class TracedDispatcher(Dispatcher):
    def __init__(self, tracer: Tracer, *arguments: Any, **options: Any) -> None:
        """`arguments`, `options`: those of `Dispatcher`."""
        super().__init__(*arguments, **options)
        self._tracer = tracer
        self._has_operations = bool(self._recorded_method)

    def _begin(self, request: Request) -> RequestSpans:
        state = request.state
        if state.spans is None:
            state.spans = RequestSpans(self._tracer, request)
        return cast(RequestSpans, state.spans)

    # --- the span is current ---------------------------------------------------------------------------------------------------------

    def receive(self, exchange: Exchange) -> Any:
        token = attach(self._begin(exchange.request).context)
        try:
            return super().receive(exchange)
        finally:
            detach(token)

    def handle(self, exchange: Exchange) -> Response | None:
        token = attach(self._begin(exchange.request).context)
        try:
            return super().handle(exchange)
        finally:
            detach(token)

    def upgrade(self, exchange: Exchange) -> Response | None:
        token = attach(self._begin(exchange.request).context)
        try:
            return super().upgrade(exchange)
        finally:
            detach(token)

    # --- commits ---------------------------------------------------------------------------------------------------------------------

    def _hold(self, exchange: Exchange, response: Response) -> None:
        transaction = exchange.request.pending_commit
        super()._hold(exchange, response)
        assert transaction is not None
        on_done, spans = transaction.on_done, spans_of(exchange.request)
        if spans is None or on_done is None or transaction.outcome is not None:
            return
        span = spans.start(COMMIT)

        def committed(problem: Problem | None) -> None:
            if problem is not None:
                fail(span, problem)
            span.end()
            on_done(problem)

        transaction.on_done = committed

    # --- its end ---------------------------------------------------------------------------------------------------------------------

    def failure(self, error: BaseException, request: Request | None) -> Response:
        spans = spans_of(request)
        if spans is not None and not isinstance(error, (Abort, PeerError)) and self._as_problem(error) is None:
            spans.defect(error)
        return super().failure(error, request)

    def _finished(self, request: Request, response: Response) -> Response:
        response = super()._finished(request, response)
        spans = spans_of(request)
        if spans is not None:
            body = response.body
            if isinstance(body, Feed):
                spans.end(response.status, self._has_operations)
            elif isinstance(body, (Iterator, AsyncIterator)):
                spans.stream()
        return response

    def _upgraded(self, request: Request, response: Response) -> Response:
        response = super()._upgraded(request, response)
        spans = spans_of(request)
        if spans is not None and response.status == 101:
            spans.end(101, self._has_operations)
        return response

    def sent(self, exchange: Exchange, now: float) -> None:
        super().sent(exchange, now)
        spans = spans_of(exchange.request)
        if spans is not None:
            spans.end(exchange.status, self._has_operations)

    def cancelled(self, exchange: Exchange) -> None:
        super().cancelled(exchange)
        spans = spans_of(exchange.request)
        if spans is not None and exchange.abandoned:
            spans.abandon(self._has_operations)


def spans_of(request: Request | None) -> RequestSpans | None:
    """None: the request ended before it was handled."""
    state = None if request is None else request._state
    return None if state is None else cast(RequestSpans | None, state.spans)
