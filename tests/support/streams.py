"""A client of event streams that reads what `httpx` gives it, as a browser would (WHATWG HTML §9.2.6)."""

from __future__ import annotations

import json
from types import TracebackType
from typing import Any, Self

import httpx


class EventClient:
    """One request for events. `next` waits for the next one as (id, data), `until` for the one that fits; StopIteration is the end of the answer."""

    def __init__(self, client: httpx.Client, target: str, last_id: str | None = None, **fields: str) -> None:
        headers = {"Accept": "text/event-stream"} | {name.replace("_", "-"): value for name, value in fields.items()}
        if last_id is not None:
            headers["Last-Event-ID"] = last_id
        self._stream = client.stream("GET", target, headers=headers)
        self.response = self._stream.__enter__()
        self.last_id = last_id
        self.comments: list[str] = []
        self.retry: int | None = None
        self._buffer = ""
        self._chunks = self.response.iter_text() if self.response.status_code == 200 else iter(())

    def __enter__(self) -> Self:
        assert self.response.status_code == 200, self.response.read()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._stream.__exit__(kind, error, trace)

    def problem(self) -> tuple[int, dict[str, Any]]:
        """The answer if it is none of events."""
        try:
            return self.response.status_code, json.loads(self.response.read() or b"{}")
        finally:
            self._stream.__exit__(None, None, None)

    def next(self) -> dict[str, Any]:
        """The data of the next event. Raises StopIteration."""
        while True:
            block, mark, rest = self._buffer.partition("\n\n")
            if not mark:
                self._buffer += next(self._chunks)
                continue
            self._buffer = rest
            data: list[str] = []
            for line in block.split("\n"):
                name, _, value = line.partition(":")
                value = value.removeprefix(" ")
                if name == "":
                    self.comments.append(value)
                elif name == "data":
                    data.append(value)
                elif name == "id":
                    self.last_id = value
                elif name == "retry":
                    self.retry = int(value)
                else:
                    raise AssertionError(f"unexpected line {line!r}")
            if data:
                found: dict[str, Any] = json.loads("\n".join(data))
                return found

    def take(self, count: int) -> list[dict[str, Any]]:
        return [self.next() for _ in range(count)]

    def rest(self) -> list[dict[str, Any]]:
        """Everything up to the end of the answer."""
        found = []
        while True:
            try:
                found.append(self.next())
            except StopIteration:
                return found
