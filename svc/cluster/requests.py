"""What nodes ask and tell each other beside the streams (spec: replication-engine §4).

Whoever asks is connected to the engine of the other node, to read its streams, and asks there; the other one's process listens on its own engine. Who it is
stands in the subject, and the engine lets each node use its own name only.

    svc.from.<node>.ask.<other>.<kind>      a request, with an answer
    svc.from.<node>.tell.<other>.<kind>     no answer: it may be lost
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Awaitable, Callable

from svc.cluster.client import Connection, Message, Subscription
from svc.cluster.names import name_of, token
from svc.cluster.pieces import Answers, RequestRefused, ask, ask_series

logger = logging.getLogger("svc.cluster")

Answerer = Callable[[str, bytes], Awaitable[bytes]]
"""(name of the node that asks, request) -> answer. Raises RequestRefused. A request is cancelled when the engine is lost."""
Listener = Callable[[str, bytes], None]
"""(name of the node that tells, what). Must not fail."""


class NodeRequests:
    """What this node answers and hears: functions by kind, a word of letters, all added before `open`."""

    def __init__(self, node: str) -> None:
        """`node`: the own name."""
        self._node = node
        self._answerers: dict[str, Answerer] = {}
        self._listeners: dict[str, Listener] = {}
        self._answers: Answers | None = None
        self._subscription: Subscription | None = None

    def answer(self, kind: str, answerer: Answerer) -> None:
        self._answerers[kind] = answerer

    def hear(self, kind: str, listener: Listener) -> None:
        self._listeners[kind] = listener

    async def open(self, connection: Connection) -> None:
        """Requests that come over this connection to the own engine are answered when this returns. Raises Unavailable."""
        await self.close()
        self._subscription = await connection.subscribe(_subject("*", "tell", self._node, "*"), self._hear)
        self._answers = Answers(connection, self._answer)
        await self._answers.open(_subject("*", "ask", self._node, "*"))

    async def close(self) -> None:
        """Harmless when done."""
        subscription, self._subscription = self._subscription, None
        answers, self._answers = self._answers, None
        if subscription is not None:
            await subscription.stop()
        if answers is not None:
            await answers.close()

    async def _answer(self, subject: str, data: bytes) -> bytes:
        node, kind = _parts(subject)
        answerer = self._answerers.get(kind)
        if answerer is None:
            raise RequestRefused("this node does not know this request")
        return await answerer(node, data)

    def _hear(self, message: Message) -> None:
        try:
            node, kind = _parts(message.subject)
        except RequestRefused:
            return
        listener = self._listeners.get(kind)
        if listener is not None:
            listener(node, message.data)


async def ask_node(connection: Connection, node: str, other: str, kind: str, data: bytes, *, seconds: float) -> bytes:
    """The answer of the node `other`, to whose engine `connection` is. `seconds`: for each message. Raises RequestRefused, Unavailable."""
    return await ask(connection, _subject(token(node), "ask", other, kind), data, seconds=seconds)


def ask_node_series(
    connection: Connection, node: str, other: str, kind: str, requests: Callable[[int], bytes], *, seconds: float
) -> AsyncIterator[bytes]:
    """As `pieces.ask_series`."""
    return ask_series(connection, _subject(token(node), "ask", other, kind), requests, seconds=seconds)


async def tell_node(connection: Connection, node: str, other: str, kind: str, data: bytes) -> None:
    """Raises Unavailable."""
    await connection.publish(_subject(token(node), "tell", other, kind), data)


def _subject(sender: str, verb: str, other: str, kind: str) -> str:
    return ".".join(("svc.from", sender, verb, token(other), kind))


def _parts(subject: str) -> tuple[str, str]:
    """(sender, kind). Raises RequestRefused."""
    words = subject.split(".")
    if len(words) == 6:
        try:
            return name_of(words[2]), words[5]
        except ValueError:
            pass
    raise RequestRefused("the subject is no request")
