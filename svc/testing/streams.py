"""Event streams as lists that grow while the test does other things."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from svc.testing.requests import PendingRequest, Wire
from svc.testing.tracebacks import is_hidden

__tracebackhide__ = is_hidden

T = TypeVar("T")


class Event:
    """One event of a stream. `data`: decoded, if it is JSON; `name`: its `event` field; `id`: its `id` field, None without one.

    It is equal to its data, and has their members: `event["type"]`, `event.type`.
    """

    __slots__ = ("data", "id", "name")

    def __init__(self, data: Any, name: str = "message", id: str | None = None) -> None:
        self.data = data
        self.name = name
        self.id = id

    def __getitem__(self, key: Any) -> Any:
        return self.data[key]

    def __getattr__(self, name: str) -> Any:
        data = self.data
        if isinstance(data, Mapping) and name in data:
            return data[name]
        raise AttributeError(f"the event has no {name!r}: {data!r}")

    def __eq__(self, other: object) -> bool:
        return bool(self.data == (other.data if isinstance(other, Event) else other))

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return repr(self.data) if self.name == "message" else f"{self.name}: {self.data!r}"


class EventReader:
    """Bytes of an event stream -> events (WHATWG HTML §9.2)."""

    def __init__(self, on_event: Callable[[Event], None]) -> None:
        self._on_event = on_event
        self._raw = b""
        self._lines: list[str] = []
        self._name = ""
        self._id: str | None = None

    def receive(self, data: bytes) -> None:
        *lines, self._raw = (self._raw + data).split(b"\n")
        for line in lines:
            self._read(line.removesuffix(b"\r").decode(errors="replace"))

    def _read(self, line: str) -> None:
        if not line:
            if self._lines:
                self._on_event(Event(decoded("\n".join(self._lines)), self._name or "message", self._id))
            self._lines, self._name, self._id = [], "", None
            return
        field, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if field == "data":
            self._lines.append(value)
        elif field == "event":
            self._name = value
        elif field == "id":
            self._id = value


def decoded(text: str) -> Any:
    """A text as JSON, or itself if it is none."""
    try:
        return json.loads(text)
    except ValueError:
        return text


class GrowingList(list[T]):
    """A list that grows. `is_open`: whether more may come; `error`: why it ended in the middle, None if it did not."""

    def __init__(self, wire: Wire, shown: str) -> None:
        """Raises AssertionError if the answer is no event stream."""
        super().__init__()
        self._wire = wire
        reader = wire.reader
        reader.on_data = EventReader(self._on_event).receive
        instance = wire.instance
        instance.wait_for(reader.head, f"the answer to {shown}")
        try:
            status, fields = reader.head.result()
        except ConnectionError as error:
            raise AssertionError(f"{shown}: {error}") from None
        kind = next((value for name, value in fields if name.lower() == "content-type"), "")
        if status != 200 or not kind.startswith("text/event-stream"):
            answer = PendingRequest(wire, shown).answer()
            raise AssertionError(f"no event stream is answered: {answer!r}")
        instance.rest()

    def _on_event(self, event: Event) -> None:
        raise NotImplementedError

    @property
    def is_open(self) -> bool:
        return not self._wire.reader.end.done()

    @property
    def error(self) -> str | None:
        end = self._wire.reader.end
        failure = end.exception() if end.done() and not end.cancelled() else None
        return None if failure is None else str(failure)

    def close(self) -> None:
        """The client goes away."""
        self._wire.hang_up()
        self._wire.instance.rest()

    def take(self) -> list[T]:
        """What is there, which is removed from the list."""
        taken = list(self)
        self.clear()
        return taken


class Stream(GrowingList[Event]):
    """The events of an event stream."""

    def _on_event(self, event: Event) -> None:
        self.append(event)


class Rows(GrowingList[Any]):
    """The rows of a live query, as of now. `ids`: theirs; `events`: from which they were made."""

    def __init__(self, wire: Wire, shown: str) -> None:
        self.ids: list[Any] = []
        self.events: list[Event] = []
        super().__init__(wire, shown)

    def _on_event(self, event: Event) -> None:
        self.events.append(event)
        follow_rows(self, self.ids, event.data)


def follow_rows(rows: list[Any], ids: list[Any], data: Any) -> None:
    """Do to the rows of a live query what the `data` of an event says. `ids`: of the rows."""
    kind = data.get("type") if isinstance(data, dict) else None
    if kind == "reset":
        rows.clear()
        ids.clear()
    elif kind in ("snapshot", "enter", "update", "leave"):
        place = data.get("index")
        if data["id"] in ids:
            before = ids.index(data["id"])
            del ids[before]
            del rows[before]
            place = before if place is None else place
        if kind != "leave":
            place = len(rows) if place is None else place
            ids.insert(place, data["id"])
            rows.insert(place, data["value"])
