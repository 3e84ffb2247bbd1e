"""Stand-ins for a socket and a loop: no descriptors, no waiting, everything visible."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Executor, Future
from typing import Any

from svc.clock import FakeClock
from svc.store.slices import SLICE


class FakeSocket:
    """Gives `incoming` one piece a recv (None = would block, b"" = FIN); takes at most `room` bytes."""

    def __init__(self) -> None:
        self.incoming: list[bytes | OSError] = []
        self.sent = b""
        self.room = 1 << 30
        self.closed = False
        self.half_closed = False

    def shutdown(self, how: int) -> None:
        self.half_closed = True

    def recv(self, size: int) -> bytes:
        if not self.incoming:
            raise BlockingIOError
        piece = self.incoming.pop(0)
        if isinstance(piece, OSError):
            raise piece
        return piece

    def send(self, data: bytes) -> int:
        if self.room == 0:
            raise BlockingIOError
        taken = data[: self.room]
        self.room -= len(taken)
        self.sent += taken
        return len(taken)

    def close(self) -> None:
        self.closed = True


class FakeLoop:
    def __init__(self) -> None:
        self.readers: dict[Any, Callable[[], None]] = {}
        self.writers: dict[Any, Callable[[], None]] = {}

    def add_reader(self, sock: Any, callback: Callable[[], None]) -> None:
        self.readers[sock] = callback

    def remove_reader(self, sock: Any) -> None:
        self.readers.pop(sock, None)

    def add_writer(self, sock: Any, callback: Callable[[], None]) -> None:
        self.writers[sock] = callback

    def remove_writer(self, sock: Any) -> None:
        self.writers.pop(sock, None)


class TickingClock(FakeClock):
    """Its monotonic time passes with every look: so many of them take a slice of long work, on any machine."""

    __slots__ = ("_looks", "_step")

    def __init__(self, looks_a_slice: int = 20) -> None:
        super().__init__()
        self._looks = 0
        self._step = SLICE / looks_a_slice
        self.monotonic = self._look

    def _look(self) -> float:
        self._looks += 1
        return self._monotonic + self._looks * self._step


class AtOnce(Executor):
    """Does in the calling thread, within the call, what a helper thread would do."""

    def submit(self, work: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        future: Future[Any] = Future()
        try:
            future.set_result(work(*args, **kwargs))
        except BaseException as error:
            future.set_exception(error)
        return future
