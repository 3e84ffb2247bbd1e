"""The body of a request on its way in, when it is not here with its head.

It is collected, unless the application, asked with the head, refuses it or names a `BodySink` that takes it as it comes. While a sink is full, or
the application has not decided and a good piece is here, the peer is held back.

What all intakes hold in memory is bounded (`max_bodies`). Beyond that the largest body of the caller who holds most is refused (`room`).
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, Any, cast

from svc.connection.exchange import BodyChannel, BodyLimit, BodySink, Decision, Exchange
from svc.connection.room import heaviest
from svc.errors import Overloaded, Problem
from svc.loop import contained
from svc.messages import Request, Response

if TYPE_CHECKING:
    from svc.connection.shared import SharedState

READ_AHEAD = 256 * 1024  # bytes a peer may send ahead before we stop reading
JOINED = 8 << 20  # bytes of a body that is put together at once


class BodyIntake:
    """Receives the body of one request, from its head until the request is complete, or until the connection `drop`s it."""

    __slots__ = ("_exchange", "_is_complete", "_is_early", "_is_over", "_is_undecided", "_limit", "_pieces", "_shared", "_sink", "_size")

    def __init__(self, shared: SharedState, exchange: Exchange) -> None:
        self._shared = shared
        self._exchange = exchange
        self._pieces: list[bytes] = []
        self._size = 0
        self._limit: BodyLimit | None = None
        self._sink: BodySink | None = None  # takes the body, or has taken it and is not done
        self._is_undecided = False  # the application has not decided yet; `_pieces` has the bytes received
        self._is_complete = False  # ... all of it
        self._is_over = False
        self._is_early = False  # the request is being handled

    @property
    def is_coming(self) -> bool:
        """The peer is expected to send more of it."""
        return not self._is_complete and not self._is_over

    @property
    def has_sink(self) -> bool:
        return self._sink is not None

    def begin(self) -> None:
        """Ask the application how to receive the body."""
        exchange = self._exchange
        decision = exchange.connection.application.receive(exchange)
        if inspect.isawaitable(decision):
            self._is_undecided = True
            loop: asyncio.AbstractEventLoop = self._shared.loop
            exchange.task = loop.create_task(self._wait_for_decision(decision))
        else:
            self._on_decision(decision)

    async def _wait_for_decision(self, awaited: Awaitable[Decision]) -> None:
        decision = await awaited
        self._exchange.task = None
        if not self._is_over:
            try:
                self._is_undecided = False
                self._on_decision(decision)
            except BaseException as error:
                self._exchange.connection.defect(contained(error))
        elif decision is not None and not isinstance(decision, Response | BodyLimit):
            decision.discard()

    def _on_decision(self, decision: Decision) -> None:
        exchange = self._exchange
        connection = exchange.connection
        if isinstance(decision, Response):
            connection.answer(exchange, decision)
            return
        if isinstance(decision, BodyLimit):
            self._limit, decision = decision, None
            announced = exchange.request.block.fields.get("content-length", "")
            if self._size > self._limit.size or (announced.isdecimal() and int(announced) > self._limit.size):
                self._refuse(self._limit.error)
                return
        connection.send_continue(exchange)
        connection.resume_body(exchange)
        if decision is not None:
            pieces = self._pieces
            self._forget_pieces()
            self._sink = decision
            decision.on_change = self._on_sink_change
            self._is_early = getattr(decision, "handles_early", False)
            for piece in pieces:
                self.on_data(piece)
            if self._is_early and not self._is_over:
                exchange.request.upload = decision
                connection.handle_early(exchange)
        if self._is_complete:
            self.on_end()

    def on_data(self, data: bytes) -> None:
        if self._is_over:
            return
        exchange = self._exchange
        sink = self._sink
        if sink is not None:
            exchange.connection.on_body_progress(exchange)
            if not sink.write(data) and self._sink is sink:
                exchange.connection.pause_body(exchange)
            if self._is_early and self._sink is sink:
                self._count(cast("BodyChannel", sink).held)
            return
        self._pieces.append(data)
        size = self._size + len(data)
        if self._limit is not None and size > self._limit.size:
            self._refuse(self._limit.error)
            return
        if self._is_undecided and size > READ_AHEAD:
            exchange.connection.pause_body(exchange)
        self._count(size)

    def _count(self, held: int) -> None:
        """It holds so many bytes, or its channel does."""
        shared = self._shared
        if not self._size:
            shared.intakes.add(self)
        shared.bodies += held - self._size
        is_more, self._size = held > self._size, held
        if is_more and shared.bodies > shared.max_bodies:
            make_room(shared)

    @property
    def size(self) -> int:
        """Bytes it holds."""
        return self._size

    @property
    def request(self) -> Request:
        return self._exchange.request

    def give_way(self) -> None:
        self._refuse(Overloaded("Too many request bodies at one time"))

    def _refuse(self, error: Problem) -> None:
        exchange = self._exchange
        application = exchange.connection.application
        try:
            response = application.error_response(error, exchange.request)
            if self._is_early or exchange.task is not None:
                application.cancelled(exchange)
            exchange.connection.answer(exchange, response)
        except BaseException as defect:  # the caller may be another request
            exchange.connection.defect(contained(defect))
        self.drop()

    def on_end(self) -> None:
        """The peer has sent all of it."""
        if self._is_over:
            return
        exchange = self._exchange
        self._is_complete = True
        exchange.connection.on_body_end(exchange)
        if self._is_undecided:
            return
        sink = self._sink
        if self._is_early and sink is not None:
            self._sink = None
            sink.finish(_not_waited_for)
            self.drop()
            exchange.connection.resume_body(exchange)  # the last piece may have filled it
            exchange.connection.on_body_taken(exchange)
            return
        if sink is not None:
            sink.finish(partial(self._on_sink_done, sink))
            return
        if self._size > JOINED:
            loop: asyncio.AbstractEventLoop = self._shared.loop
            exchange.task = loop.create_task(self._join())
            return
        self._handle(b"".join(self._pieces))

    async def _join(self) -> None:
        """Put a long body together on another thread: 100 MB take 50 ms, in which the interpreter can do other things."""
        thread = ThreadPoolExecutor(1, thread_name_prefix="body")
        try:
            content = await asyncio.get_running_loop().run_in_executor(thread, _joined, self._pieces)
        finally:
            thread.shutdown(wait=False)
        self._exchange.task = None
        if not self._is_over:
            try:
                self._handle(content)
            except BaseException as error:
                self._exchange.connection.defect(contained(error))

    def _handle(self, content: bytes) -> None:
        exchange = self._exchange
        exchange.request.content = content
        self.drop()
        exchange.connection.handle(exchange)

    def _on_sink_change(self, error: BaseException | None) -> None:
        if self._is_over or self._sink is None:
            return
        if error is None:
            if self._is_early:
                self._count(cast("BodyChannel", self._sink).held)
            self._exchange.connection.resume_body(self._exchange)
        else:
            self._on_sink_done(self._sink, None, error)

    def _on_sink_done(self, sink: BodySink, made: Any, error: BaseException | None) -> None:
        if self._is_over or self._sink is not sink:
            return
        self._sink = None
        exchange = self._exchange
        connection = exchange.connection
        try:
            if error is None:
                self.drop()
                exchange.request.upload = made
                connection.handle(exchange)
            else:
                connection.answer(exchange, connection.application.error_response(error, exchange.request))
        except BaseException as defect:
            connection.defect(contained(defect))

    def drop_sink(self) -> None:
        """Discard the sink."""
        sink, self._sink = self._sink, None
        if sink is not None:
            sink.discard()

    def drop(self) -> None:
        """The request is complete, or answered without the rest of its body."""
        self._is_over = True
        self._forget_pieces()
        self._is_undecided = False
        self.drop_sink()

    def _forget_pieces(self) -> None:
        self._shared.bodies -= self._size
        self._shared.intakes.discard(self)
        self._pieces, self._size = [], 0


def make_room(shared: SharedState) -> None:
    """Refuse bodies until the others are within the bound."""
    while shared.bodies > shared.max_bodies and shared.intakes:
        heaviest(shared.intakes, lambda intake: intake.request, lambda intake: intake.size).give_way()


def _joined(pieces: list[bytes]) -> bytes:
    """The whole of it; the pieces are freed one by one, so that the interpreter can do other things in between."""
    content = b"".join(pieces)
    while pieces:
        pieces.pop()
    return content


def _not_waited_for(made: Any, error: BaseException | None) -> None:
    pass
