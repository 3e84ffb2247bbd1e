from datetime import UTC, datetime
from typing import Any

import pytest

from svc.content.plain_type import EventStreamType, PlainType
from svc.content.registry import ContentTypes
from svc.errors import NotAcceptable

PLAIN = PlainType()


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("é", "é"),
        ("", ""),
        ("\ud800", "\ufffd"),
        (None, "null"),
        (True, "true"),
        (1.5, "1.5"),
        (datetime(2024, 1, 5, tzinfo=UTC), "2024-01-05T00:00:00.000Z"),
        (b"\xff", '"/w=="'),
        ({"a": [1]}, '{"a":[1]}'),
    ],
    ids=[str(number) for number in range(9)],
)
def test_the_text_form(value: Any, text: str) -> None:
    assert PLAIN.encode(value).decode() == text


def test_collections() -> None:
    writer = PLAIN.row_writer()
    assert writer.begin() + writer.rows([1, "a"]) + writer.rows([2]) + writer.end() == b'[1,"a",2]'
    assert writer.failure({"error": "x"}) is None


def test_what_they_are_for() -> None:
    assert PLAIN.writes and not PLAIN.reads
    assert PLAIN.content_type == "text/plain; charset=utf-8"
    events = EventStreamType()
    assert not (events.writes or events.reads or events.compressible)
    with pytest.raises(NotAcceptable):
        ContentTypes.built_in().writer("text/event-stream")
