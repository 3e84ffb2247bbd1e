"""A connection to an engine that is opened again whenever it ends."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable
from contextlib import suppress

from svc.cluster.client import ConnectFailed, Connection
from svc.logs import Logger

logger = logging.getLogger("svc.cluster")

FIRST_PAUSE, LAST_PAUSE = 0.2, 30.0  # seconds between two attempts: doubled each time, then less by up to a half, at random
_AGAIN = 0.5  # seconds until a task that goes on is cancelled once more
GOOD_LIFE = 10.0  # seconds: a connection that has lived so long begins with FIRST_PAUSE again


def pauses(first: float, last: float) -> Callable[[], float]:
    """Seconds, each time twice as many, without the randomness.

    >>> pause = pauses(1, 5)
    >>> [pause() for _ in range(4)]
    [1, 2, 4, 5]
    """
    following = first

    def pause() -> float:
        nonlocal following
        found, following = following, min(following * 2, last)
        return found

    return pause


async def cancelled(task: asyncio.Task[None]) -> None:
    """Cancel it, and wait for its end. Again if it goes on: `asyncio.wait_for` of Python 3.11, which nats-py uses, loses a cancellation that comes together
    with what it waits for."""
    while not task.done():
        task.cancel()
        await asyncio.wait((task,), timeout=_AGAIN)
    if not task.cancelled() and (error := task.exception()) is not None:
        logger.error("a task of replication has failed", exc_info=error)  # what is behind it has to end all the same


class Link:
    """`connection`: None while there is none. `fault`: why. `what`: as messages call the other end.

    `open`: opens a connection; raises ConnectFailed. `on_up`: called with each new one, before anyone else has it; when it fails, the connection is closed.
    `on_down`: called with the reason, after each of these has ended.
    """

    def __init__(
        self,
        what: str,
        open: Callable[[], Awaitable[Connection]],
        log: Logger,
        *,
        on_up: Callable[[Connection], Awaitable[None]],
        on_down: Callable[[str], None] = lambda reason: None,
    ) -> None:
        self.connection: Connection | None = None
        self.fault = ""
        self._what = what
        self._open = open
        self._log = log
        self._on_up = on_up
        self._on_down = on_down
        self._task: asyncio.Task[None] | None = None
        self._sooner = asyncio.Event()
        self._reported: str | None = None

    def start(self) -> None:
        """Harmless when done."""
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._run())

    def try_now(self) -> None:
        """Do not wait for the end of the pause: what has hindered it may have changed."""
        self._sooner.set()

    async def close(self) -> None:
        """Harmless when done."""
        task, self._task = self._task, None
        if task is not None:
            await cancelled(task)

    async def _run(self) -> None:
        loop = asyncio.get_running_loop()
        pause = pauses(FIRST_PAUSE, LAST_PAUSE)
        while True:
            began = loop.time()
            reason = await self._attempt()
            if loop.time() - began >= GOOD_LIFE:
                pause = pauses(FIRST_PAUSE, LAST_PAUSE)
            self._report(reason)
            self._sooner.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout(pause() * (1 - random.random() / 2)):
                    await self._sooner.wait()

    async def _attempt(self) -> str:
        """One connection, from its begin to its end. Returns why it has ended."""
        try:
            connection = await self._open()
        except ConnectFailed as error:
            return str(error)
        ended: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        connection.on_closed.add(lambda reason: None if ended.done() else ended.set_result(reason))
        try:
            await self._on_up(connection)
            if connection.is_closed:
                return connection.reason
            self.connection, self.fault = connection, ""
            self._log.info(f"{self._what} is connected")
            self._reported = None
            return await ended
        except ConnectFailed as error:
            return str(error)
        finally:
            was_up, self.connection = self.connection is not None, None
            await connection.close()
            if was_up:
                self._on_down(connection.reason)

    def _report(self, reason: str) -> None:
        """The same reason once only: attempts go on for as long as the other end is away."""
        self.fault = reason
        if reason != self._reported:
            self._reported = reason
            self._log.warn(f"{self._what} is not connected: {reason}")
