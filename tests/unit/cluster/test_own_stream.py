"""svc.cluster.own_stream: what an engine that does not store is told."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import msgspec
import pytest

from svc.cluster.client import Connection, Message, Unavailable
from svc.cluster.outbox import NotPublished
from svc.cluster.own_stream import EngineStream
from svc.cluster.streams import NotStored
from svc.cluster.wire import Message as WireMessage


class FakeConnection:
    """`says`: what each request is answered, as JSON, or the text of Unavailable; `is_closed`: it has ended with that."""

    def __init__(self, says: dict[str, Any] | str, *, is_closed: bool = False) -> None:
        self.says, self.is_closed = says, is_closed
        self.max_payload = 1 << 20

    async def request(self, subject: str, data: bytes, headers: dict[str, str] | None = None, *, seconds: float) -> Message:
        if isinstance(self.says, str):
            raise Unavailable(self.says)
        return Message(subject, "", {}, msgspec.json.encode(self.says))


def stream(connection: FakeConnection) -> tuple[EngineStream, list[str]]:
    refused: list[str] = []
    return EngineStream(cast(Connection, connection), "data", "a", max_age=1, max_bytes=1, on_refused=refused.append), refused


FULL = {"error": {"code": 503, "err_code": 10077, "description": "no space left on device"}}


@pytest.mark.parametrize(
    ("connection", "reason"),
    [
        (FakeConnection(FULL), "the engine's store is full: no space left on device"),
        # A stream that could not be written gives no answer at all, though its engine answers everything else.
        (FakeConnection("no answer in time"), "no answer in time"),
        (FakeConnection("nobody answers there"), "nobody answers there"),
        (FakeConnection("the other end has closed the connection", is_closed=True), None),
        (FakeConnection({"error": {"code": 400, "err_code": 10071, "description": "wrong last sequence: 5"}}), None),
    ],
)
def test_an_engine_that_does_not_store_is_told_of(connection: FakeConnection, reason: str | None) -> None:
    own, refused = stream(connection)
    outcome = asyncio.run(own.publish(WireMessage(1, 0, bytes(8), b"body"), 0))
    assert isinstance(outcome, NotStored) or reason is None
    assert refused == ([] if reason is None else [reason])


@pytest.mark.parametrize(
    ("connection", "reason"),
    [
        (FakeConnection("no answer in time"), "no answer in time"),
        (FakeConnection("nobody answers there"), "nobody answers there"),
        (FakeConnection("the other end has closed the connection", is_closed=True), None),
        (FakeConnection({"error": {"code": 400, "err_code": 10052, "description": "no such configuration"}}), None),
    ],
)
def test_an_engine_that_gives_no_stream_is_told_of(connection: FakeConnection, reason: str | None) -> None:
    own, refused = stream(connection)
    with pytest.raises(NotPublished):
        asyncio.run(own.open())
    assert refused == ([] if reason is None else [reason])
