"""Stand-ins for what events come from and go to."""

from __future__ import annotations

from typing import Any

from svc.realtime.event import Ended


class FakeEvent:
    """One event with these members. `made` counts how often they were asked for."""

    def __init__(self, position: int | None, value: Any = None, kind: str = "put", key: Any = "k") -> None:
        self.type = kind
        self.id = key
        self.value = value
        self.local_time = position
        self.memo: dict[Any, Any] = {}
        self.made = 0

    def members(self, native: bool) -> dict[str, Any]:
        self.made += 1
        return {"type": self.type, "id": self.id, "value": self.value, "localTime": self.local_time}

    @property
    def size(self) -> int:
        return 100


class FakeSource:
    """An EventSource to be filled by a test. `asked`: the limits of each `take`."""

    def __init__(self, *events: Any) -> None:
        self.on_ready: Any = None
        self.ended: Ended | None = None
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

    def end(self, why: Ended) -> None:
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
