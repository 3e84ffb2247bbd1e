"""The clock of tests, awaitables, and what happens on threads."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from svc.testing import Application, NotEnded
from svc.testing.instance import default_patience


def test_the_time_stands_still(shop: Application) -> None:
    now = shop.clock.now
    shop.post("/Product/", {"id": "1"})
    shop.get("/Product/")
    shop.tables.Product.put({"id": "2"})
    assert shop.get("/InThread").json == shop.get("/ToThread").json == "from a thread"
    assert shop.clock.now == now


def test_what_needs_time_gets_it_at_once(shop: Application) -> None:
    now = shop.clock.now
    assert shop.get("/Slow").json == "slept"
    assert shop.clock.now - now == timedelta(seconds=5)


def test_the_clock_shows_what_it_is_given(svc_app_factory: Any, shop_directory: Path) -> None:
    begin = datetime(2030, 1, 1, tzinfo=UTC)
    shop = svc_app_factory(shop_directory, now=begin)
    assert shop.clock.now == begin
    shop.clock.advance(86400)
    assert shop.clock.now == datetime(2030, 1, 2, tzinfo=UTC) and shop.clock.seconds == begin.timestamp() + 86400
    assert shop.get("/Product/").headers["Date"] == "Wed, 02 Jan 2030 00:00:00 GMT"


def test_records_expire_when_their_time_has_passed(shop: Application) -> None:
    shop.put("/Ticket/1", {"seat": "A1"})
    shop.clock.advance(59)
    assert shop.get("/Ticket/1").status == 200
    shop.clock.advance(2)
    assert shop.get("/Ticket/1").status == 404


def test_a_request_under_way_is_answered_when_its_time_has_come(shop: Application) -> None:
    slow = shop.send("GET", "/Slow")
    shop.clock.advance(4.999)
    assert not slow.is_answered
    shop.clock.advance(0.001)
    assert slow.is_answered


def test_a_thread_of_the_application_is_waited_for(shop: Application) -> None:
    assert shop.get("/OwnThread").json == "from a thread of its own"


def test_the_time_cannot_go_back(shop: Application) -> None:
    with pytest.raises(ValueError, match="cannot go back"):
        shop.clock.advance(-1)


def test_awaitables_are_run(shop: Application) -> None:
    async def scenario() -> Any:
        tables = shop.tables
        await tables.Product.put({"id": "1", "stock": 1})
        await asyncio.sleep(1000)
        record = await tables.Product.get("1")
        return dict(record)

    assert shop.run(scenario()) == {"id": "1", "stock": 1}
    assert shop.run(shop.tables.Product.get("1")).stock == 1
    with pytest.raises(ValueError, match="wrong"):
        shop.run(fail())


async def fail() -> None:
    raise ValueError("wrong")


def test_tables_are_used_without_a_loop(shop: Application) -> None:
    product = shop.tables["Product"]
    product.put({"id": "1", "name": "Walnut", "stock": 3})
    assert product.get("1").name == "Walnut" and product.get("2") is None
    assert [row["id"] for row in product.search({"conditions": [{"attribute": "name", "value": "Walnut"}]})] == ["1"]
    product.patch("1", {"stock": 4})
    assert product.get("1").stock == 4
    assert product.delete("1") and product.get("1") is None
    assert set(shop.tables) == {"Product", "Secret", "Ticket"} and shop.databases.data.Product.get("1") is None
    with pytest.raises(AttributeError, match="no table 'Nothing'"):
        _ = shop.tables.Nothing


def test_what_never_ends_fails_the_test(shop: Application) -> None:
    with pytest.raises(NotEnded, match="what run\\(\\) was given did not come within 10 s"):
        shop.run(asyncio.sleep(20), seconds=10)
    assert shop.get("/Product/").status == 200


def test_the_environment_says_how_long_a_call_may_take(monkeypatch: pytest.MonkeyPatch) -> None:
    for value, patience in (("0.5", 0.5), ("", 10.0)):
        monkeypatch.setenv("SVC_TESTING_PATIENCE", value)
        assert default_patience() == patience
    monkeypatch.setenv("SVC_TESTING_PATIENCE", "long")
    with pytest.raises(ValueError, match="SVC_TESTING_PATIENCE is a number of seconds, not 'long'"):
        default_patience()


def test_an_application_has_the_patience_that_it_is_given(shop: Application, svc_app_factory: Any, shop_directory: Path) -> None:
    assert svc_app_factory(shop_directory, patience=3).instance.patience == 3
    assert shop.instance.patience == default_patience()


def test_a_thread_that_never_ends_fails_the_test(svc_app_factory: Any, shop_directory: Path) -> None:
    import threading

    shop = svc_app_factory(shop_directory, patience=0.1)
    let_go = threading.Event()
    from svc import run_in_thread

    try:
        with pytest.raises(NotEnded, match="functions that run on threads"):
            shop.run(run_in_thread(let_go.wait))
    finally:
        let_go.set()


def test_a_thread_that_waits_for_ever_does_not_hold_up_the_rest(shop: Application) -> None:
    module = shop.module("resources")
    try:
        shop.put("/Queue", {})
        shop.post("/Queue", "one")
        shop.settle()
        assert module.CONSUMED == ["one"]
        assert shop.get("/Slow").json == "slept"
        shop.clock.advance(100)
    finally:
        module.QUEUE.put(None)
        shop.settle()


def test_tests_do_not_ask_from_inside_of_the_application(shop: Application) -> None:
    async def inside() -> None:
        shop.get("/Product/")

    with pytest.raises(RuntimeError, match="event loop of the application"):
        shop.run(inside())
    with pytest.raises(RuntimeError, match=r"waits with asyncio\.sleep"):
        shop.run(advancing(shop))


async def advancing(shop: Application) -> None:
    shop.clock.advance(1)


def test_the_same_calls_are_used_in_async_tests(shop: Application) -> None:
    async def test() -> None:
        assert shop.post("/Product/", {"id": "1"}).status == 201
        assert shop.tables.Product.get("1") is not None
        answers = await asyncio.gather(shop.send("GET", "/Product/1"), shop.send("GET", "/Slow"))
        assert [answer.status for answer in answers] == [200, 200]
        task = asyncio.current_task()
        assert task is not None
        await asyncio.sleep(0)
        assert asyncio.current_task() is task

    asyncio.run(test())


@pytest.mark.parametrize(
    ("seconds", "text"), [(-7200, "the clock went back by 2.0 hours"), (86400, "the clock went forward by 24.0 hours"), (-600, None)]
)
def test_a_step_of_the_clock_by_an_hour_is_logged(shop: Application, seconds: float, text: str | None) -> None:
    shop.clock.advance(2)
    before = len(shop.logs)
    shop.instance.clock.step(seconds)
    shop.clock.advance(2)
    told = [entry.text for entry in shop.logs[before:] if "the clock went" in entry.text]
    assert len(told) == (text is not None) and all(str(text) in each for each in told)
