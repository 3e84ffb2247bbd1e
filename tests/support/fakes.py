"""Stand-ins for a socket and a loop: no descriptors, no waiting, everything visible."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from concurrent.futures import Executor, Future
from functools import partial
from typing import Any

from svc.clock import Clock, FakeClock
from svc.reactor import Reactor
from svc.store.slices import SLICE
from svc.testing.loop import Pool


class FakeSocket:
    """Gives `incoming` one piece a recv (None = would block, b"" = FIN); takes at most `room` bytes."""

    def __init__(self) -> None:
        self.incoming: list[bytes | OSError] = []
        self._sent: list[bytes] = []
        self.room = 1 << 30
        self.closed = False
        self.half_closed = False

    @property
    def sent(self) -> bytes:
        if len(self._sent) > 1:
            self._sent = [b"".join(self._sent)]
        return self._sent[0] if self._sent else b""

    @sent.setter
    def sent(self, data: bytes) -> None:
        self._sent = [data] if data else []

    def shutdown(self, how: int) -> None:
        self.half_closed = True

    def recv(self, size: int, flags: int = 0) -> bytes:
        if not self.incoming:
            raise BlockingIOError
        piece = self.incoming[0] if flags & socket.MSG_PEEK else self.incoming.pop(0)
        if isinstance(piece, OSError):
            raise piece
        return piece

    def send(self, data: bytes) -> int:
        if self.room == 0:
            raise BlockingIOError
        taken = data[: self.room]
        self.room -= len(taken)
        self._sent.append(bytes(taken))
        return len(taken)

    def close(self) -> None:
        self.closed = True


class FakeLoop:
    """`loop`: a real one, for tasks."""

    def __init__(self, loop: asyncio.AbstractEventLoop | None = None) -> None:
        if loop is not None:
            self.create_task = loop.create_task
            self.create_future = loop.create_future
        self.readers: dict[Any, Callable[[], None]] = {}
        self.writers: dict[Any, Callable[[], None]] = {}

    def add_reader(self, sock: Any, callback: Callable[..., None], *arguments: Any) -> None:
        self.readers[sock] = partial(callback, *arguments) if arguments else callback

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


def make_reactor(
    loop: Any = None,
    clock: Clock | None = None,
    executor: Executor | None = None,
    log_error: Callable[[str, BaseException | None], None] = lambda where, error: None,
) -> Reactor:
    """What parts of an instance run on: all that a test does not care for does nothing, or does it at once."""
    return Reactor(FakeLoop() if loop is None else loop, FakeClock() if clock is None else clock, executor or Pool(), log_error)  # type: ignore[arg-type]


class Late(Future[Any]):
    """Work that a helper thread has begun. It is done when somebody says so, or waits for it."""

    def __init__(self, work: Callable[..., Any], args: tuple[Any, ...]) -> None:
        super().__init__()
        self.work = work
        self._args = args

    def finish(self) -> None:
        if self.done():
            return
        try:
            result = self.work(*self._args)
        except BaseException as error:
            self.set_exception(error)
        else:
            self.set_result(result)

    def result(self, timeout: float | None = None) -> Any:
        self.finish()
        return super().result(timeout)


class HeldBack(Pool):
    """Does things at once, but while `holding` it leaves commits under way until `release`."""

    def __init__(self) -> None:
        self.commits: list[Late] = []
        self.holding = False

    def submit(self, work: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        if not self.holding or getattr(work, "__name__", "") != "commit":
            return super().submit(work, *args, **kwargs)
        self.commits.append(Late(work, args))
        return self.commits[-1]

    def release(self) -> None:
        while self.commits:
            self.commits.pop(0).finish()

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        self.release()
