"""Stand-ins for what events come from and go to."""

from __future__ import annotations

import asyncio
from typing import Any

from svc.realtime.event import EndReason


class FakeEvent:
    """One event with these members. `made` counts how often they were asked for."""

    def __init__(self, position: int | None, value: Any = None, kind: str = "put", key: Any = "k") -> None:
        self.type = kind
        self.id = key
        self.value = value
        self.position = position
        self.memo: dict[Any, Any] = {}
        self.made = 0

    def members(self, native: bool) -> dict[str, Any]:
        self.made += 1
        return {"type": self.type, "id": self.id, "value": self.value, "localTime": self.position}

    @property
    def size(self) -> int:
        return 100


class FakeSource:
    """An EventSource to be filled by a test. `asked`: the limits of each `take`."""

    def __init__(self, *events: Any) -> None:
        self.on_ready: Any = None
        self.ended: EndReason | None = None
        self.waiting = False  # it has to be asked again, unless the test says otherwise
        self.events = list(events)
        self.asked: list[int] = []
        self.closed = 0
        self.failure: Exception | None = None

    def take(self, limit: int) -> list[Any]:
        assert not self.closed, "taken from after close"
        self.asked.append(limit)
        if self.failure is not None:
            raise self.failure
        taken, self.events = self.events[:limit], self.events[limit:]
        return taken

    def push(self, *events: Any) -> None:
        self.events += events
        self.on_ready()

    def end(self, why: EndReason) -> None:
        self.ended = why
        self.on_ready()

    def close(self) -> None:
        self.closed += 1


class FakeWriter:
    """A FeedWriter whose peer reads when the test says so."""

    def __init__(self) -> None:
        self.written: list[bytes] = []
        self.pending = 0
        self.ended = False

    def write(self, data: bytes) -> None:
        assert not self.ended, "written to after its end"
        self.written.append(data)
        self.pending += len(data)

    def end(self) -> None:
        self.ended = True

    @property
    def text(self) -> str:
        return b"".join(self.written).decode()


def parse_stream(text: str) -> list[dict[str, str]]:
    """The events of a stream as a browser sees them (WHATWG HTML §9.2.6): `data`, `event` if there is one, and the last `id`."""
    found: list[dict[str, str]] = []
    last_id = ""
    for block in text.split("\n\n")[:-1]:
        data: list[str] = []
        event = ""
        for line in block.split("\n"):
            name, _, value = line.partition(":")
            value = value.removeprefix(" ")
            if name == "data":
                data.append(value)
            elif name == "event":
                event = value
            elif name == "id":
                last_id = value
        if data:
            found.append({"data": "\n".join(data), "id": last_id} | ({"event": event} if event else {}))
    return found


class FakeWebSocket:
    """A `websocket.Socket` whose client is the test: `say` sends a message, `frames` are those it got, `closing` is how it ended."""

    def __init__(self, request: Any = None) -> None:
        self.request = request
        self.frames: list[bytes] = []
        self.pending = 0
        self.closing: tuple[int, str] | None = None
        self.ignores = False
        self._callbacks: dict[str, list[Any]] = {}
        self._messages: list[str | bytes] = []
        self._waiting: asyncio.Future[None] | None = None

    @property
    def closed(self) -> bool:
        return self.closing is not None

    @property
    def close_code(self) -> int | None:
        return None if self.closing is None else self.closing[0]

    @property
    def close_reason(self) -> str:
        return "" if self.closing is None else self.closing[1]

    def __aiter__(self) -> FakeWebSocket:
        return self

    async def __anext__(self) -> str | bytes:
        while not self._messages:
            if self.closed:
                raise StopAsyncIteration
            self._waiting = asyncio.get_running_loop().create_future()
            await self._waiting
        return self._messages.pop(0)

    async def send(self, message: str | bytes) -> None:
        raise AssertionError("frames are shared")

    def send_frame(self, frame: bytes) -> None:
        if not self.closed:
            self.frames.append(frame)
            self.pending += len(frame)

    def ignore_messages(self) -> None:
        self.ignores = True

    async def close(self, code: int = 1000, reason: str = "") -> None:
        self.close_soon(code, reason)

    def close_soon(self, code: int = 1000, reason: str = "") -> None:
        if self.closing is None:
            self.closing = (code, reason)
            self._wake()
            self._call("close", code, reason)

    def fail(self, error: BaseException) -> None:
        raise AssertionError("the caller of the service does that")

    def on(self, name: str, callback: Any) -> None:
        self._callbacks.setdefault(name, []).append(callback)

    # the client

    def say(self, message: str | bytes) -> list[Any]:
        """What the callbacks returned."""
        if self._callbacks.get("message"):
            return self._call("message", message)
        assert not self.ignores
        self._messages.append(message)
        self._wake()
        return []

    def read(self) -> None:
        self.pending = 0
        self._call("sent")

    def _call(self, name: str, *arguments: Any) -> list[Any]:
        return [callback(*arguments) for callback in self._callbacks.get(name, ())]

    def _wake(self) -> None:
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_result(None)

    @property
    def messages(self) -> list[str | bytes]:
        """What the client got, unwrapped (RFC 6455 §5.2)."""
        found: list[str | bytes] = []
        for frame in self.frames:
            size, begin = frame[1], 2
            if size == 126:
                size, begin = int.from_bytes(frame[2:4], "big"), 4
            elif size == 127:
                size, begin = int.from_bytes(frame[2:10], "big"), 10
            payload = frame[begin:]
            assert len(payload) == size and frame[0] in (0x81, 0x82)
            found.append(payload.decode() if frame[0] == 0x81 else payload)
        return found
