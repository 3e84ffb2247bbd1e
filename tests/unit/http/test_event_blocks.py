"""Events and items as blocks of an event stream, as a browser would read them (spec: realtime §3)."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from svc.http.event_blocks import BLOCK, event_block, event_json, item_block
from tests.support.events import FakeEvent, parse_stream


def test_an_event_is_its_position_and_one_line_of_json() -> None:
    event = FakeEvent(4711, {"text": "a\nb\r\u2028"})
    block = event_block(event)
    head, data, end = block.decode().split("\n", 2)
    assert (head, end) == ("id: 4711", "\n")
    assert json.loads(data.removeprefix("data: ")) == {"type": "put", "id": "k", "value": {"text": "a\nb\r\u2028"}, "localTime": 4711}


def test_an_event_without_position_has_no_id() -> None:
    assert event_block(FakeEvent(None, 1)) == b'data: {"type":"put","id":"k","value":1,"localTime":null}\n\n'


def test_the_bytes_of_an_event_are_made_once() -> None:
    event = FakeEvent(1, {"a": 1})
    assert event_block(event) is event_block(event)
    assert event.memo[BLOCK] is event_block(event)
    assert event_json(event) is event_json(event)
    assert event.made == 1


@pytest.mark.parametrize(
    ("item", "block"),
    [
        ({"data": {"n": 1}}, 'data: {"n":1}\n\n'),
        ({"data": "text", "event": "tick", "id": 7, "retry": 100}, "event: tick\nid: 7\nretry: 100\ndata: text\n\n"),
        ({"event": "end"}, "event: end\n\n"),
        ({"retry": 5}, "retry: 5\n\n"),
        ({"id": "x"}, "id: x\n\n"),
        ({"retry": "soon", "data": 1}, "data: 1\n\n"),
        ({"retry": True, "data": 1}, "data: 1\n\n"),
        ({"retry": -1, "data": 1}, "data: 1\n\n"),
        ({"retry": "soon"}, ""),
        ({"data": 0}, "data: 0\n\n"),
        ({"data": ""}, "data: \n\n"),
        ({"data": False}, "data: false\n\n"),
        ({"data": None}, "data: null\n\n"),
        ({"event": None, "id": None, "retry": None, "data": "x"}, "data: x\n\n"),
        ({"event": "", "id": "", "data": "x"}, "event: \nid: \ndata: x\n\n"),
        ({"id": 5, "name": "a record"}, 'data: {"id":5,"name":"a record"}\n\n'),
        ({"type": "put", "id": "1", "value": None}, 'data: {"type":"put","id":"1","value":null}\n\n'),
        ({}, "data: {}\n\n"),
        ("a\nb\r\nc\rd", "data: a\ndata: b\ndata: c\ndata: d\n\n"),
        ({"data": "a\n\nb\n"}, "data: a\ndata: \ndata: b\ndata: \n\n"),
        ({"data": "x", "event": "two\r\nlines", "id": "1\n2\r3\x00"}, "event: twolines\nid: 123\ndata: x\n\n"),
        ("", "data: \n\n"),
        (0, "data: 0\n\n"),
        (False, "data: false\n\n"),
        (None, "data: null\n\n"),
        (1.5, "data: 1.5\n\n"),
        ([1, "a"], 'data: [1,"a"]\n\n'),
        (datetime(2024, 1, 5, tzinfo=UTC), 'data: "2024-01-05T00:00:00.000Z"\n\n'),
        (b"ab", 'data: "YWI="\n\n'),
        ("ä€😀", "data: ä€😀\n\n"),
        ("half \ud83d", "data: half \ufffd\n\n"),
        ("line\u2028separator", "data: line\u2028separator\n\n"),
    ],
)
def test_items(item: Any, block: str) -> None:
    assert item_block(item).decode() == block


values = st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text() | st.lists(st.text(), max_size=3)


@given(st.lists(st.text()))
def test_no_text_breaks_out_of_its_event(texts: list[str]) -> None:
    stream = b"".join(map(item_block, texts)).decode()
    seen = [event["data"] for event in parse_stream(stream)]
    assert seen == [text.replace("\r\n", "\n").replace("\r", "\n") for text in texts]


@given(st.dictionaries(st.sampled_from(("data", "event", "id", "retry", "other")), values))
def test_any_mapping_is_one_block(item: dict[str, Any]) -> None:
    block = item_block(item).decode()
    if not block:
        assert "data" not in item and item.get("event") is None
        return
    assert block.endswith("\n\n") and "\n\n" not in block[:-2] and "\r" not in block
    events = parse_stream(block)
    if "data" in item:
        data = item["data"]
        assert len(events) == 1
        if not isinstance(data, str):
            assert json.loads(events[0]["data"]) == data
    elif "event" not in item and "other" in item:
        assert json.loads(events[0]["data"]) == item
