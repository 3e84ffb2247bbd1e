"""WebSockets of tests."""

from __future__ import annotations

from typing import Any

import pytest

from svc.testing import Application


def test_messages_go_both_ways(shop: Application) -> None:
    talk = shop.connect("/Talk", user={"role": "super_user"})
    assert talk[0]["welcome"].startswith("test_user") and talk.is_open
    talk.clear()
    long = "x" * 200_000
    for message in ("hello", {"a": [1]}, long):
        talk.send(message)
    assert talk.take() == [{"said": "hello"}, {"said": {"a": [1]}}, {"said": long}]
    talk.send("bye")
    assert not talk.is_open and talk.close_code == 1000
    with pytest.raises(RuntimeError, match="closed: 1000"):
        talk.send("more")


@pytest.mark.parametrize(("end", "level"), [("close", "info"), ("cancel", "info")])
def test_the_client_ends_it(shop: Application, end: str, level: str) -> None:
    talk = shop.connect("/Talk")
    getattr(talk, end)()
    assert (talk.close_code == 1000) == (end == "close")
    assert not [entry for entry in shop.logs if entry.level in ("warn", "error")]


def test_a_handler_that_fails_closes_it(shop: Application) -> None:
    talk = shop.connect("/Talk")
    talk.send("wrong")
    assert talk.close_code == 1011
    assert any("ValueError: wrong" in entry.text for entry in shop.logs)


def test_a_subscription_may_be_one(shop: Application) -> None:
    events = shop.connect("/Product/")
    shop.put("/Product/1", {"stock": 1})
    assert [(event["type"], event["id"]) for event in events] == [("put", "1")]
    shop.clock.advance(3600)
    assert events.is_open and len(events) == 1


@pytest.mark.parametrize(("path", "options", "text"), [("/Nothing", {}, "404"), ("/Product/?oops=", {}, "400")])
def test_a_refused_handshake_says_so(shop: Application, path: str, options: dict[str, Any], text: str) -> None:
    with pytest.raises(AssertionError, match=rf"refused: <({text})"):
        shop.connect(path, **options)


def test_who_may_not_is_told_by_the_code(shop: Application) -> None:
    talk = shop.connect("/Talk", user=None)
    assert talk == [] and talk.close_code == 3000
