"""The connection of this process to one sibling: what it asks and tells that one (`channel`).

States: connecting (what is sent waits), open, lost (connecting again while the sibling lives), ended. A sibling that does not read, because it hangs or
was stopped, keeps at most MAX_WAITING bytes here; what comes on top of that is dropped, and an ask is answered with an error at once.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from svc.siblings.messages import MAX_MESSAGE, Ask, Hello, MessageReader, Reply, encode_message
from svc.siblings.sleep import SleepNumber

logger = logging.getLogger("svc.siblings")

MAX_WAITING = 2 * MAX_MESSAGE  # bytes that wait to be read by a sibling
FIRST_PAUSE = 0.02  # seconds before the next attempt to connect; twice that each time
LONGEST_PAUSE = 1.0

NO_ANSWER = "it does not answer"
HAS_ENDED = "it has ended"
LOST = "the connection to it was lost"
BEHIND = "too much waits for it already"


@dataclass(frozen=True, slots=True)
class Answer:
    """Of the sibling `identity`, with the number `number`, to what it was asked. `error`: why there is no value."""

    identity: str
    number: int
    value: Any = None
    error: str | None = None

    @property
    def pid(self) -> int:
        """Of the process, as that sees it."""
        return int(self.identity.split("-")[0])

    @property
    def started(self) -> int:
        """Seconds since 1970."""
        return int(self.identity.split("-")[1])


class Link(asyncio.Protocol):
    """To the sibling `identity`, which has the number `number` and listens at `path`. `on_end` is called when it has ended."""

    def __init__(
        self,
        identity: str,
        number: int,
        path: str,
        *,
        own: str,
        sleep: SleepNumber,
        is_alive: Callable[[str], bool],
        on_end: Callable[[Link], None],
    ) -> None:
        """`own`: identity of this process. `sleep`: of the sibling."""
        self.identity = identity
        self.number = number
        self._path = path
        self._own = own
        self.sleep = sleep
        self._is_alive = is_alive
        self._on_end = on_end
        self._transport: asyncio.WriteTransport | None = None
        self._waiting: list[bytes] = []  # until it is open
        self._waiting_bytes = 0
        self._reader = MessageReader()
        self._asked: dict[int, asyncio.Future[Answer]] = {}
        self._last = 0
        self._lost = asyncio.Event()
        self._is_behind = False

    async def run(self) -> None:
        """Connect, and again when the connection is lost, for as long as the sibling lives."""
        loop = asyncio.get_running_loop()
        pause = FIRST_PAUSE
        while self._is_alive(self.identity):
            try:
                self._lost.clear()
                await loop.create_unix_connection(lambda: self, self._path)
                pause = FIRST_PAUSE
                await self._lost.wait()
                if not self._is_alive(self.identity):
                    break
            except OSError:  # it does not listen yet, or not any more
                pass
            await asyncio.sleep(pause)
            pause = min(2 * pause, LONGEST_PAUSE)
        self._fail_all(HAS_ENDED)
        self._on_end(self)
        self.sleep.close()

    # --- what is sent -------------------------------------------------------------------------------------------------------------------

    def ask(self, topic: str, value: Any) -> asyncio.Future[Answer]:
        """Done when the answer is there, or there will be none. Raises ValueError and TypeError as `encode_message`."""
        self._last += 1
        frame = encode_message(Ask(self._last, topic, value))
        future: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        if self.send(frame):
            self._asked[self._last] = future
            future.add_done_callback(lambda done, id=self._last: self._asked.pop(id, None))  # type: ignore[misc]
        else:
            future.set_result(self.failed(BEHIND))
        return future

    def failed(self, error: str) -> Answer:
        return Answer(self.identity, self.number, error=error)

    def send(self, frame: bytes) -> bool:
        """Never blocks. False: it is dropped, for too much waits already."""
        transport = self._transport
        waiting = self._waiting_bytes if transport is None else transport.get_write_buffer_size()
        if waiting + len(frame) > MAX_WAITING:
            if not self._is_behind:
                self._is_behind = True
                logger.warning("the process %s does not read what it is sent: it hangs, or was stopped", self.identity)
            return False
        self._is_behind = False
        if transport is None:
            self._waiting.append(frame)
            self._waiting_bytes += len(frame)
        else:
            transport.write(frame)
        return True

    # --- asyncio.Protocol ---------------------------------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.WriteTransport)
        self._transport = transport
        self._reader = MessageReader()
        transport.writelines([encode_message(Hello(self._own)), *self._waiting])
        self._waiting.clear()
        self._waiting_bytes = 0

    def data_received(self, data: bytes) -> None:
        try:
            messages = self._reader.receive_data(data)
        except ValueError as error:
            logger.error("what the process %s has sent cannot be read: %s", self.identity, error)
            self._close()
            return
        for message in messages:
            if type(message) is Reply:
                future = self._asked.get(message.id)
                if future is not None and not future.done():
                    future.set_result(Answer(self.identity, self.number, message.value, message.error))

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        self._fail_all(LOST)
        self._lost.set()

    def _fail_all(self, error: str) -> None:
        for future in list(self._asked.values()):
            if not future.done():
                future.set_result(self.failed(error if self._is_alive(self.identity) else HAS_ENDED))

    def _close(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    def close(self) -> None:
        """This process ends: nobody is called."""
        self._fail_all(LOST)
        self._close()
        self.sleep.close()
