"""Event streams and live queries as lists that grow."""

from __future__ import annotations

import pytest

from svc.testing import Application, Event
from svc.testing.streams import EventReader


def test_events_come_while_the_test_does_other_things(shop: Application) -> None:
    shop.put("/Product/1", {"stock": 1})
    events = shop.events("/Product/")
    assert [(event.type, event.id, event.value) for event in events] == [("put", events[0].id, {"id": "1", "stock": 1})]
    shop.patch("/Product/1", {"stock": 2})
    shop.tables.Product.delete("1")
    assert [event["type"] for event in events] == ["put", "put", "delete"]
    assert [event["id"] for event in events] == ["1", "1", "1"]
    assert events.take() and events == []
    events.close()
    shop.put("/Product/2", {})
    assert events == [] and events.error is None


def test_a_live_query_is_kept_up_to_date(shop: Application) -> None:
    rows = shop.live("/Product/?sort(-stock)&limit(2)&select(stock)")
    plain = shop.live("/Product/")
    for key, stock in (("1", 1), ("2", 2), ("3", 3)):
        shop.put(f"/Product/{key}", {"stock": stock})
    shop.clock.advance(1)
    assert rows == [3, 2] and rows.ids == ["3", "2"]
    assert sorted(plain.ids) == ["1", "2", "3"]
    shop.delete("/Product/3")
    shop.clock.advance(1)
    assert rows == [2, 1] and len(plain) == 2
    assert rows.is_open and rows.events[0].type in ("snapshot", "ready")


def test_a_stream_of_an_application_is_read_to_its_end(shop: Application) -> None:
    chat = shop.events("/Chat")
    assert chat == [{"to": "you"}, "two\nlines"]
    assert chat[0].name == "hello" and not chat.is_open


def test_what_is_no_stream_says_so(shop: Application) -> None:
    with pytest.raises(AssertionError, match="404 to GET /Nothing"):
        shop.events("/Nothing")
    with pytest.raises(AssertionError, match="401"):
        shop.events("/Product/", user=None)


def test_keep_alives_are_no_events(shop: Application) -> None:
    events = shop.events("/Product/")
    shop.clock.advance(600)
    assert events == [] and events.is_open


def test_blocks_are_read_however_they_are_cut() -> None:
    block = b': c\r\nevent: a\nid: 7\ndata: {"x":\ndata:1}\n\ndata: plain\n\n\nretry: 1\n\n'
    for size in range(1, len(block)):
        found: list[Event] = []
        reader = EventReader(found.append)
        for start in range(0, len(block), size):
            reader.receive(block[start : start + size])
        assert [(event.data, event.name, event.id) for event in found] == [({"x": 1}, "a", "7"), ("plain", "message", None)]
