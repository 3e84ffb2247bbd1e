"""State that all connections of a server share: the loop, limits, timeouts, counters, and the queues of work for the end of the turn.

`connections.Connections` is its one subclass. The connection classes see only this, and so do not depend on each other.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from math import inf
from typing import TYPE_CHECKING, Any, Protocol

from svc.connection.exchange import Application, Timeouts
from svc.connection.input_share import InputShare
from svc.connection.load_shedding import PortShedder
from svc.protocol.http1 import Limits
from svc.protocol.request_head import FieldTuple
from svc.reactor import Reactor

if TYPE_CHECKING:
    from svc.connection.intake import BodyIntake

MAX_HELD = 256 << 20  # bytes of unread output of all connections, beyond which the connections that hold most are closed


class OpenConnection(Protocol):
    """A `base.SocketConnection`, as the end of the turn sees it."""

    deadline: float
    closed: bool
    sock: Any
    peer: str
    scheme: str

    @property
    def held(self) -> int: ...
    def flush(self) -> None: ...
    def on_readable(self) -> None: ...
    def on_deadline(self) -> None: ...
    def drain(self) -> None: ...
    def retire(self) -> None: ...
    def give(self) -> Any: ...
    def close_now(self) -> None: ...


class LastingWork(Protocol):
    """Work without a deadline of its own while the peer listens, a `messages.Feed` or a `messages.Receiver`: it watches the clock itself."""

    def sweep(self, now: float) -> float | None: ...
    def drain(self, is_replaced: bool = False) -> None: ...


class PulledStream(Protocol):
    """A response body with something to send: `bodies.PulledBody`."""

    def pull(self, deadline: float) -> None: ...


class PendingHandshake(Protocol):
    """A TLS handshake that has received bytes: `tls_handshake.TlsHandshake`."""

    def step(self) -> None: ...
    def wait(self) -> bool: ...


class PreparedAnswers(Protocol):
    """Answers requests that repeat others, before they are parsed: `prepared.PreparedRequests`."""

    def answer(self, carrier: Any, shared: SharedState, data: bytes) -> bool:
        """Answer the one request that all that has arrived is, with `carrier.send_at_once`. False: nothing has happened."""

    def answer_stream(self, carrier: Any, shared: SharedState, path: bytes, fields: FieldTuple) -> bool:
        """Answer the request that `carrier.protocol` asks about, with its `answer_plain`. False: nothing has happened."""


class SharedState:
    """What every connection of a server reads and changes."""

    def __init__(
        self,
        application: Application,
        reactor: Reactor,
        *,
        limits: Limits,
        timeouts: Timeouts,
        date: Callable[[], str],
        max_bodies: int = 1 << 30,
        http2: bool = False,
        input: InputShare | None = None,
    ) -> None:
        """`date`: the field of answers, as it is now. `max_bodies`: bytes of request bodies that may be in memory at one time. `http2`: whether clients
        may speak it, by prior knowledge or as agreed with TLS. `input`: shared with others, whose turns end elsewhere."""
        self.loop = reactor.loop
        self.application = application
        self.now = reactor.clock.monotonic
        self.limits = limits
        self.timeouts = timeouts
        self.date = date
        self.date_line = b""  # of this turn, if `make_date_line` has made it
        self.prepared: PreparedAnswers | None = getattr(application, "prepared", None)
        self.log_error = reactor.log_error
        self.max_bodies = max_bodies
        self.http2 = http2
        self._ends_input = input is None
        self.input = InputShare(reactor.clock.monotonic) if input is None else input
        self.shedder: PortShedder | None = None
        """Refuses requests under overload; None: none are."""
        self.bodies = 0
        self.intakes: set[BodyIntake] = set()  # those that hold them
        self.max_held = MAX_HELD  # bytes of output that peers do not take, of all connections together
        self.held = 0
        self._complained_at = -inf  # when the last warning about `max_held` was logged
        self.open: set[OpenConnection] = set()
        self.lasting: dict[LastingWork, float] = {}  # and when they are to be swept, in monotonic seconds
        self.to_flush: list[OpenConnection] = []
        self.streams: list[PulledStream] = []  # have something to pull and room for it
        self.handshakes: deque[PendingHandshake] = deque()  # have a step to take
        self.bytes_received = 0
        self.bytes_sent = 0
        self.woken = False  # a coroutine became ready during the end of the turn

    def make_date_line(self) -> bytes:
        """`Date` as it is sent, which is the same until the turn ends."""
        self.date_line = line = b"Date: %b\r\n" % self.date().encode()
        return line

    def begin_http2(self, connection: Any, data: bytes) -> OpenConnection:
        """Replace a connection by one of HTTP/2: see `Connections`."""
        raise NotImplementedError
