"""svc.api.subscriptions: what code of an application is told of tables, with each option, and what it sends itself."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from svc.api.interface import transaction
from svc.errors import ClientError, Problem, QueryError
from tests.support.application import Application, application

SCHEMA = """
type Seat @table @export { id: ID @primaryKey stock: Int name: String }
type Piece @table @export @splitSegments { id: ID @primaryKey n: Int }
type Part @table @export { id: ID @primaryKey n: Int }
"""


@pytest.fixture
def app(tmp_path: Path) -> Iterator[Application]:
    with application(tmp_path, "from svc import Resource\nclass Empty(Resource):\n    pass\n", SCHEMA) as made:
        yield made
        made.node.settle()
        assert len(made.node.realtime.hub) == 0, "a subscription is left"


async def some(subscription: Any, count: int) -> list[Any]:
    """The next events."""
    found: list[Any] = []
    async for event in subscription:
        found.append(event)
        if len(found) == count:
            break
    return found


def short(events: list[Any]) -> list[tuple[Any, ...]]:
    return [(event.type, event.id, event.value) for event in events]


def seat(stock: int, key: str = "a") -> dict[str, Any]:
    return {"stock": stock, "id": key}


def test_the_current_records_then_each_change(app: Application) -> None:
    Seat = app.tables.Seat

    async def main() -> None:
        await Seat.put("a", {"stock": 1})
        subscription = await Seat.subscribe("a")
        assert short(await some(subscription, 1)) == [("put", "a", seat(1))]
        await Seat.patch("a", {"stock": 2})
        await Seat.publish("a", {"stock": 5})
        await Seat.publish("a", "any")
        await Seat.put("other", {"stock": 3})
        await Seat.delete("a")
        events = await some(subscription, 4)
        assert short(events) == [("put", "a", seat(2)), ("message", "a", {"stock": 5}), ("message", "a", "any"), ("delete", "a", None)]
        first = events[0]
        assert list(first) == ["type", "id", "value", "version", "timestamp", "localTime"]
        assert first.version == first.timestamp == first["version"] and first.local_time == first["localTime"]
        assert [event.local_time for event in events] == sorted({event.local_time for event in events})
        assert (await Seat.get("other")).stock == 3
        subscription.end()
        assert subscription.ended and await some(subscription, 1) == []

    app.run(main())


def test_a_collection_in_the_order_of_its_keys_and_messages_to_the_table(app: Application) -> None:
    Seat = app.tables.Seat

    async def main() -> None:
        for key in ("b", "a"):
            await Seat.put(key, {"stock": 1})
        subscription = Seat.subscribe()
        events = aiter(subscription)
        assert [(await anext(events)).id for _ in range(2)] == ["a", "b"]
        await Seat.publish({"stock": 7})
        message = await anext(events)
        assert (message.type, message.id, message.value) == ("message", None, {"stock": 7})
        await events.aclose()  # type: ignore[attr-defined]

    app.run(main())


@pytest.mark.parametrize("name", ["Part", "Piece"])
def test_which_records_below(app: Application, name: str) -> None:
    table = app.tables[name]

    async def ids(**options: Any) -> list[Any]:
        subscription = await table.subscribe(omit_current=True, **options)
        seen: list[Any] = []
        subscription.on("data", lambda event: seen.append(event.id if isinstance(event.id, str) else "/".join(event.id)))
        for key in ("a", "a/b", "a/b/c", "x"):
            await table.put(key, {"n": 1})
        for _ in range(5):
            await asyncio.sleep(0)
        subscription.end()
        return seen

    async def main() -> None:
        assert await ids(id="a") == ["a"]
        assert await ids(id="a", include_descendants=True) == ["a", "a/b", "a/b/c"]
        assert await ids(id="a", includeDescendants=True) == ["a", "a/b", "a/b/c"]
        assert await ids(id="a", only_children=True) == ["a/b"]
        assert await ids(id="a", is_collection=True) == ["a/b", "a/b/c"]
        assert await ids(id="a/", isCollection=True) == ["a/b", "a/b/c"]
        assert await ids(id=["a", "b"], is_collection=True) == ["a/b/c"]
        assert await ids(only_children=True) == ["a", "x"]
        assert await ids() == ["a", "a/b", "a/b/c", "x"]

    app.run(main())


def test_what_is_in_the_log_comes_first(app: Application) -> None:
    Seat = app.tables.Seat

    async def main() -> None:
        for number in range(5):
            app.node.clock.advance(1.0)
            await Seat.put("a", {"stock": number})
        assert [event.value["stock"] for event in await some(Seat.subscribe("a", previous_count=2), 2)] == [3, 4]
        assert [event.value["stock"] for event in await some(Seat.subscribe({"previousCount": 3}), 3)] == [2, 3, 4]
        third = (await some(Seat.subscribe("a", previous_count=3), 1))[0]
        assert third.value["stock"] == 2
        later = await some(Seat.subscribe({"id": "a", "start_time": third.timestamp}), 2)
        assert [event.value["stock"] for event in later] == [3, 4]
        as_date = datetime.fromtimestamp(third.timestamp / 1000, UTC)
        assert len(await some(Seat.subscribe("a", start_time=as_date), 2)) == 2

    app.run(main())


def test_conditions_select_and_a_whole_query(app: Application) -> None:
    Seat = app.tables.Seat

    async def main() -> None:
        many = {"attribute": "stock", "comparator": "greater_than", "value": 5}
        subscription = await Seat.subscribe(conditions=[many], select=["stock"])
        live = aiter(Seat.subscribe({"conditions": [many], "sort": {"attribute": "stock"}, "live": True}))
        ready = await anext(live)
        assert (ready.type, ready.count) == ("ready", 0)
        await Seat.put("few", {"stock": 1})
        await Seat.put("many", {"stock": 9})
        assert short(await some(subscription, 1)) == [("put", "many", {"stock": 9})]
        row = await anext(live)
        assert (row.type, row.id, row.index, row.value) == ("enter", "many", 0, seat(9, "many")) and row.local_time == row["localTime"]
        with pytest.raises(AttributeError, match="count"):
            _ = row.count
        await live.aclose()  # type: ignore[attr-defined]

    app.run(main())


def test_patches_and_transactions_as_they_were_written(app: Application) -> None:
    Seat = app.tables.Seat

    async def main() -> None:
        await Seat.put("a", {"stock": 1})
        raw = await Seat.subscribe("a", raw_events=True, omit_current=True)
        grouped = await Seat.subscribe(omit_current=True, supports_transactions=True)

        async def both(txn: Any) -> None:
            await Seat.patch("a", {"stock": 2})
            await Seat.put("b", {"stock": 3})

        await transaction(both)
        (patch,) = await some(raw, 1)
        assert (patch.type, patch.value) == ("patch", {"stock": 2}) and "user" in patch
        events = await some(grouped, 3)
        assert [(event.type, bool(event.begin_txn)) for event in events] == [("put", True), ("put", False), ("end_txn", False)]

    app.run(main())


def test_callbacks_plain_and_async_and_a_call_that_is_returned(app: Application) -> None:
    Seat, Part = app.tables.Seat, app.tables.Part

    async def main() -> None:
        seen: list[Any] = []

        async def later(event: Any) -> None:
            await asyncio.sleep(0)
            seen.append(("later", event.id))

        def fails(event: Any) -> None:
            raise ValueError("mine")

        subscription = await Seat.subscribe(omit_current=True, listener=lambda event: Part.put(event.id, {"n": 1}))
        subscription.on("data", later).on("data", fails).on("close", lambda: seen.append("closed")).on("close", seen.append)
        await Seat.put("a", {"stock": 1})
        await Seat.put("b", {"stock": 1})
        while len(seen) < 2 or await Part.get("b") is None:  # noqa: ASYNC110  # each turn of the node is a step
            await asyncio.sleep(0)
        assert seen == [("later", "a"), ("later", "b")]
        subscription.end()
        for _ in range(5):
            await asyncio.sleep(0)
        assert seen[2:] == ["closed", "The subscription was ended"]

    app.run(main())


def test_what_is_sent_is_in_order_with_commits(app: Application) -> None:
    Seat = app.tables.Seat

    async def main() -> None:
        subscription = await Seat.subscribe(omit_current=True)
        await Seat.put("a", {"stock": 1})
        subscription.send({"mine": 1})
        await Seat.put("b", {"stock": 1})
        events = await some(subscription, 3)
        assert [getattr(event, "id", event.get("mine")) for event in events] == ["a", 1, "b"]

    app.run(main())


def test_an_empty_subscription_has_what_is_sent_to_it(app: Application) -> None:
    Empty = app.module.Empty

    async def main() -> None:
        subscription = await Empty.subscribe()
        subscription.send(1)
        subscription.send(2)
        assert await some(subscription, 2) == [1, 2] and not subscription.ended
        waiting = asyncio.create_task(some(subscription, 1))
        for _ in range(3):
            await asyncio.sleep(0)
        assert not waiting.done()
        subscription.end()
        assert await waiting == []
        heard: list[Any] = []
        listened = await Empty.subscribe(listener=heard.append)
        listened.send(3)
        for _ in range(3):
            await asyncio.sleep(0)
        assert heard == [3]
        listened.end()
        other = await Empty.subscribe()
        for number in range(10_001):
            other.send(number)
        assert other.ended

    app.run(main())


def test_one_that_nobody_uses_ends(app: Application) -> None:
    Seat = app.tables.Seat

    async def main() -> None:
        kept = await Seat.subscribe(listener=lambda event: None)
        await Seat.subscribe()
        gc.collect()
        for _ in range(3):
            await asyncio.sleep(0)
        assert len(app.node.realtime.hub) == 1, "the one with a listener goes on"
        kept.end()

    app.run(main())


@pytest.mark.parametrize(
    ("request_", "error", "message"),
    [
        ({"previous_count": 1001}, ClientError, "1000"),
        ({"previous_count": -1}, ClientError, "previous_count"),
        ({"previous_count": True}, ClientError, "previous_count"),
        ({"previous_count": 1, "start_time": 1}, ClientError, "single record"),
        ({"start_time": "yesterday"}, ClientError, "start_time"),
        ({"start_time": float("inf")}, ClientError, "start_time"),
        ({"sort": {"attribute": "stock"}}, QueryError, "sort"),
        ({"limit": 1}, QueryError, "limit"),
        ({"conditions": [{"attribute": "none", "value": 1}]}, QueryError, "none"),
        ({"omit": True}, QueryError, "omit"),
        ({"live": True, "omit_current": True}, ClientError, "live query"),
        ({"live": True, "id": "a"}, ClientError, "live query"),
        ({"id": [1], "is_collection": True}, ClientError, "begin with"),
        ({"id": {"a": 1}}, Problem, "key|id"),
        ({"listener": 3}, TypeError, "function"),
    ],
)
def test_what_cannot_be_subscribed_to(app: Application, request_: dict[str, Any], error: type[Exception], message: str) -> None:
    async def main() -> None:
        with pytest.raises(error, match=message) as found:
            await app.tables.Seat.subscribe(request_)
        assert not isinstance(found.value, Problem) or found.value.status_code == 400

    app.run(main())


def test_unknown_events(app: Application) -> None:
    async def main() -> None:
        with pytest.raises(ValueError, match="data and close"):
            (await app.tables.Seat.subscribe("a")).on("datum", print)

    app.run(main())


def test_publishing_belongs_to_the_transaction_and_is_tested_by_type(app: Application) -> None:
    Seat = app.tables.Seat

    async def main() -> None:
        subscription = await Seat.subscribe("a", omit_current=True)

        async def undone(txn: Any) -> None:
            await Seat.publish("a", {"stock": 1})
            raise ValueError("no")

        with pytest.raises(ValueError, match="no"):
            await transaction(undone)
        with pytest.raises(ClientError):
            await Seat.publish("a", {"stock": "many"})
        await Seat.publish("a", {"name": "kept"})
        assert short(await some(subscription, 1)) == [("message", "a", {"name": "kept"})]
        assert await Seat.get("a") is None

    app.run(main())


def test_options_of_a_subscription_mean_nothing_elsewhere(app: Application) -> None:
    async def search() -> Any:
        return await app.tables.Seat.search({"start_time": 1}).to_list()

    with pytest.raises(QueryError, match="'start_time' is unknown"):
        app.run(search())
    with pytest.raises(QueryError, match="'nonsense' is unknown"):
        app.run(app.tables.Seat.subscribe("a", nonsense=1))
