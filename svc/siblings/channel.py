"""What this process and its siblings say to each other, over a Unix socket of each in the data directory.

Each process connects to each of the others: `link` is the way out, `_Visitor` what comes in. A sibling is found in the directory when it is looked at, and
at once when it connects. Everything runs on the loop, and nothing waits there for a sibling.
"""

from __future__ import annotations

import asyncio
import contextvars
import logging
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

from svc.awaitables import is_waiting
from svc.siblings.link import HAS_ENDED, MAX_WAITING, NO_ANSWER, Answer, Link
from svc.siblings.messages import Ask, Hello, MessageReader, Reply, Tell, encode_message
from svc.siblings.presence import Presence

logger = logging.getLogger("svc.siblings")

_WAKE = encode_message(Tell("siblings.wake", None))  # that it comes is all it says

Function = Callable[[Any], Any]


class Channel:
    """`functions`: how this process answers, by topic. `on_left` is called with the identity of a sibling that has ended."""

    def __init__(self, presence: Presence, loop: asyncio.AbstractEventLoop, on_left: Callable[[str], None]) -> None:
        self.functions: dict[str, Function] = {}
        self._presence = presence
        self._loop = loop
        self._on_left = on_left
        self.links: dict[str, Link] = {}  # by identity
        self._visitors: set[_Visitor] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server | None = None
        self._context = contextvars.copy_context()  # not that of a request which happens to find a sibling

    async def open(self) -> None:
        """Listen, and connect to the others. Raises OSError."""
        self._server = await self._loop.create_unix_server(lambda: _Visitor(self), str(self._presence.place_socket()))
        self.look()

    def look(self) -> None:
        """Connect to siblings that have come. Raises OSError."""
        if self._server is None:
            return
        for identity, notice in self._presence.others():
            if identity not in self.links:
                try:
                    sleep = self._presence.sleep_of(identity)
                except (FileNotFoundError, ValueError):  # it has just ended
                    continue
                self.links[identity] = link = Link(
                    identity,
                    notice.number,
                    str(self._presence.path_of(notice)),
                    own=self._presence.identity,
                    sleep=sleep,
                    is_alive=self._presence.is_alive,
                    on_end=self._ended,
                )
                self.start(link.run())

    def start(self, work: Coroutine[Any, Any, None]) -> None:
        """As a task that ends with the channel."""
        task = self._loop.create_task(work, context=self._context.copy())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _ended(self, link: Link) -> None:
        if self.links.get(link.identity) is link:
            del self.links[link.identity]
            self._on_left(link.identity)

    async def ask(self, topic: str, value: Any, seconds: float) -> list[Answer]:
        """The answers of all that live, in the order of their numbers. Raises ValueError and TypeError as `encode_message`."""
        self.look()
        asked = {link.ask(topic, value): link for link in self.links.values()}
        if not asked:
            return []
        try:
            await asyncio.wait(asked, timeout=seconds)
            answers = [future.result() if future.done() else link.failed(NO_ANSWER) for future, link in asked.items()]
        finally:
            for future in asked:
                future.cancel()
        return sorted((each for each in answers if each.error != HAS_ENDED), key=lambda answer: (answer.number, answer.identity))

    def tell(self, topic: str, value: Any) -> None:
        """Raises ValueError and TypeError as `encode_message`."""
        if self.links:
            frame = encode_message(Tell(topic, value))
            for link in self.links.values():
                link.send(frame)

    def wake(self) -> None:
        """Wake the siblings that sleep until there is a commit."""
        for link in self.links.values():
            if link.sleep.is_new():
                link.send(_WAKE)

    def joined(self, visitor: _Visitor) -> None:
        self._visitors.add(visitor)

    def left(self, visitor: _Visitor) -> None:
        self._visitors.discard(visitor)

    async def close(self) -> None:
        """Nothing is asked or answered any more. Harmless when done."""
        if self._server is not None:
            self._server.close()
            self._server = None
        tasks = set(self._tasks)
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
        for link in self.links.values():
            link.close()
        self.links.clear()
        for visitor in list(self._visitors):
            visitor.close()
        await asyncio.sleep(0)  # in which asyncio closes what is aborted


class _Visitor(asyncio.Protocol):
    """A sibling that has connected."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self._transport: asyncio.WriteTransport | None = None
        self._reader = MessageReader()
        self._identity = ""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.WriteTransport)
        self._transport = transport
        self._channel.joined(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        self._channel.left(self)

    def close(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    def data_received(self, data: bytes) -> None:
        try:
            messages = self._reader.receive_data(data)
        except ValueError as error:
            logger.error("what the process %s has sent cannot be read: %s", self._identity or "that has connected", error)
            self.close()
            return
        for message in messages:
            if type(message) is Ask:
                self._answer(message)
            elif type(message) is Tell:
                self._take(message)
            elif type(message) is Hello:
                self._identity = message.identity
                self._channel.look()

    def _take(self, message: Tell) -> None:
        function = self._channel.functions.get(message.topic)
        if function is None:
            return
        try:
            value = function(message.value)
            if is_waiting(value):
                self._channel.start(self._take_later(message.topic, value))
        except Exception:
            logger.exception("what the process %s has told could not be taken: %s", self._identity, message.topic)

    async def _take_later(self, topic: str, value: Awaitable[Any]) -> None:
        try:
            await value
        except Exception:
            logger.exception("what the process %s has told could not be taken: %s", self._identity, topic)

    def _answer(self, message: Ask) -> None:
        function = self._channel.functions.get(message.topic)
        if function is None:
            self._reply(Reply(message.id, None, "it does not know what it is asked"))
            return
        try:
            value = function(message.value)
        except Exception as error:
            self._fail(message, error)
            return
        if is_waiting(value):
            self._channel.start(self._answer_later(message, value))
        else:
            self._reply(Reply(message.id, value, None))

    async def _answer_later(self, message: Ask, value: Awaitable[Any]) -> None:
        try:
            result = await value
        except Exception as error:
            self._fail(message, error)
        else:
            self._reply(Reply(message.id, result, None))

    def _fail(self, message: Ask, error: Exception) -> None:
        logger.exception("what the process %s has asked could not be answered: %s", self._identity, message.topic, exc_info=error)
        self._reply(Reply(message.id, None, f"{type(error).__name__}: {error}"))

    def _reply(self, reply: Reply) -> None:
        try:
            frame = encode_message(reply)
        except (ValueError, TypeError) as error:
            logger.error("an answer to the process %s cannot be sent: %s", self._identity, error)
            frame = encode_message(Reply(reply.id, None, str(error)))
        if self._transport is None:
            return
        if self._transport.get_write_buffer_size() + len(frame) > MAX_WAITING:
            self.close()  # it asks and does not read
        else:
            self._transport.write(frame)
