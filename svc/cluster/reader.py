"""Reading a stream from a position, batch by batch (spec: replication-engine §3).

The engine keeps nothing of a reader that lasts: a consumer in memory, without acknowledgements, which begins at a sequence. One request for so many messages
and bytes is open at a time; the next is made when the reader comes for more after what the last one gave. That is the back-pressure, and no more than one
request's worth is ever in memory here. Whatever ends a reader ends it for good: the owner opens another one at its position.

Sequences of a stream are without holes. One that is missing is a gap: it was dropped, because it was too old, too much, or purged; nobody else tells.
"""

from __future__ import annotations

import asyncio

import msgspec

from svc.cluster.client import Connection, Message, Subscription, Unavailable
from svc.cluster.streams import API, StreamFailed, StreamInfo, call_api, checked, maybe_stream

BATCH = 500  # messages of a request
BATCH_BYTES = 1_200_000  # of a request: more than any message may have
REQUEST_SECONDS = 60  # how long a request stays open
HEARTBEAT_SECONDS = 10  # between signs of life while there is nothing to read
SILENCE_SECONDS = 25.0  # without one: the engine has lost the reader
KEPT_SECONDS = 90  # a reader that asks for nothing is forgotten by the engine after
_NANO = 1_000_000_000

_NO_MESSAGES, _TIMEOUT, _CONFLICT = 404, 408, 409
_HEARTBEAT = 100


class StreamMessage(msgspec.Struct):
    sequence: int
    headers: dict[str, str]
    data: bytes


class Gap(msgspec.Struct, frozen=True):
    """`first`: the first sequence there is instead of the one asked for."""

    first: int


class Gone(msgspec.Struct, frozen=True):
    """There is no such stream."""


class Replaced(msgspec.Struct, frozen=True):
    """It is another stream of that name, or it has lost its end."""

    info: StreamInfo


class Lost(msgspec.Struct, frozen=True):
    """The connection, or the engine's part of the reader."""

    reason: str


End = Gap | Gone | Replaced | Lost


class StreamReader:
    """`info`: of the stream when it was opened. `position`: the sequence of the next message to come. `end`: what `next_batch` has returned as the end."""

    def __init__(self, connection: Connection, stream: str, info: StreamInfo, start: int) -> None:
        self.info = info
        self.position = start
        self.end: End | None = None
        self._connection = connection
        self._stream = stream
        self._name = connection.new_inbox().rpartition(".")[2]
        self._inbox = connection.new_inbox()
        self._loop = asyncio.get_running_loop()
        self._batch, self._bytes = BATCH, BATCH_BYTES
        self._waiting: list[StreamMessage] = []
        self._left = 0  # messages that the open request may still bring; 0: none is open
        self._was_empty = True  # it has brought none so far
        self._heard = self._loop.time()
        self._wake: asyncio.Future[None] | None = None
        self._subscription: Subscription | None = None

    @classmethod
    async def open(
        cls,
        connection: Connection,
        stream: str,
        start: int,
        *,
        created: str | None = None,
        batch: int = BATCH,
        batch_bytes: int = BATCH_BYTES,
        since: str | None = None,
    ) -> StreamReader | End:
        """A reader whose first message is that with sequence `start`. `created`: of the stream that `start` is of; None: of any. `since`: a time as RFC 3339
        has it: begin with the first message from then on, if that is later than `start`. Never raises."""
        try:
            info = await maybe_stream(connection, stream)
            if info is None:
                return Gone()
            if (created is not None and info.created != created) or info.last + 1 < start:
                return Replaced(info)
            if info.first > start and since is None:
                return Gap(info.first)
            reader = cls(connection, stream, info, start)
            reader._batch, reader._bytes = batch, batch_bytes
            if since is not None:
                reader.position = 0  # whatever comes first
            try:
                await reader._open(since)
            except BaseException:
                await reader.close()
                raise
        except StreamFailed as error:
            return Lost(str(error))
        except Unavailable as error:
            return Lost(connection.reason or str(error))
        return reader

    async def _open(self, since: str | None) -> None:
        begin = (
            {"deliver_policy": "by_start_sequence", "opt_start_seq": self.position}
            if since is None
            else {"deliver_policy": "by_start_time", "opt_start_time": since}
        )
        config = {
            "name": self._name,
            "ack_policy": "none",
            "replay_policy": "instant",
            "mem_storage": True,
            "num_replicas": 1,
            "max_waiting": 2,
            "inactive_threshold": KEPT_SECONDS * _NANO,
            **begin,
        }
        self._connection.on_closed.add(self._lost)
        self._subscription = await self._connection.subscribe(self._inbox, self._take, waiting_max=2 * self._bytes + (1 << 20))
        created = await call_api(
            self._connection,
            f"CONSUMER.CREATE.{self._stream}.{self._name}",
            {"stream_name": self._stream, "config": config, "action": "create"},
        )
        checked(created)

    async def close(self) -> None:
        """Harmless when done. The engine forgets the reader by itself."""
        self._connection.on_closed.discard(self._lost)
        subscription, self._subscription = self._subscription, None
        if subscription is not None:
            await subscription.stop()
        self._finish(Lost("closed"))

    async def next_batch(self) -> list[StreamMessage] | End:
        """What has come since the last call, at least one message; waits for it. Never raises. To be called when the batch before has been dealt with."""
        while not self._waiting:
            if self.end is not None:
                return self.end
            if not self._left:
                try:
                    await self._ask()
                except Unavailable as error:
                    self._finish(Lost(str(error)))
                    continue
            await self._wait()
        batch, self._waiting = self._waiting, []
        return batch

    async def _ask(self) -> None:
        request = {
            "batch": self._batch,
            "max_bytes": self._bytes,
            "expires": REQUEST_SECONDS * _NANO,
            "idle_heartbeat": HEARTBEAT_SECONDS * _NANO,
        }
        self._left, self._was_empty, self._heard = self._batch, True, self._loop.time()
        await self._connection.publish(
            f"{API}.CONSUMER.MSG.NEXT.{self._stream}.{self._name}", msgspec.json.encode(request), reply=self._inbox
        )

    async def _wait(self) -> None:
        self._wake = self._loop.create_future()
        timer = self._loop.call_at(self._heard + SILENCE_SECONDS, self._look)
        try:
            await self._wake
        finally:
            timer.cancel()
            self._wake = None

    def _look(self) -> None:
        """Nothing has come for a while; the timer is from before what has come since."""
        if self._loop.time() - self._heard >= SILENCE_SECONDS:
            self._finish(Lost("the engine is silent"))
        self._notify()

    def _lost(self, reason: str) -> None:
        self._finish(Lost(reason))

    def _notify(self) -> None:
        if self._wake is not None and not self._wake.done():
            self._wake.set_result(None)

    def _finish(self, end: End) -> None:
        if self.end is None:
            self.end = end
        self._notify()

    # --- what comes ------------------------------------------------------------------------------------------------------------------------

    def _take(self, message: Message) -> None:
        self._heard = self._loop.time()
        if message.status:
            self._take_status(message)
        elif self.end is None:
            self._take_message(message)

    def _take_message(self, message: Message) -> None:
        sequence = stream_sequence(message.reply)
        if sequence is None or not self._left:
            self._finish(Lost("it sends what was not asked for"))
            return
        if sequence != self.position and self.position:
            self._finish(Gap(sequence) if sequence > self.position else Lost(f"message {sequence} comes where {self.position} is next"))
            return
        self.position = sequence + 1
        self._left -= 1
        self._was_empty = False
        self._waiting.append(StreamMessage(sequence, dict(message.headers), message.data))
        self._notify()

    def _take_status(self, message: Message) -> None:
        text = message.headers.get("Description", "")
        if message.status == _HEARTBEAT:
            return
        if message.status in (_NO_MESSAGES, _TIMEOUT):
            self._left = 0
        elif message.status == _CONFLICT and ("Batch Completed" in text or "MaxBytes" in text):
            if self._was_empty and "MaxBytes" in text:
                self._finish(Lost("a message is larger than what is asked for at once"))
            self._left = 0
        else:
            self._finish(Lost(f"the engine has ended it: {message.status} {text}".rstrip()))
        self._notify()


def stream_sequence(reply: str) -> int | None:
    """The sequence of a message in its stream, from the subject for its acknowledgement; None: it is no such subject.

    >>> stream_sequence("$JS.ACK.L__d__a.c1.1.17.4.1700000000000000000.0")
    17
    >>> stream_sequence("$JS.ACK._.hash.L__d__a.c1.1.17.4.1700000000000000000.0.token")
    17
    >>> stream_sequence("_INBOX.x")
    """
    parts = reply.split(".")
    if reply.startswith("$JS.ACK.") and len(parts) >= 9:
        number = parts[5 if len(parts) == 9 else 7]
        if number.isascii() and number.isdigit() and len(number) < 20:
            return int(number)
    return None
