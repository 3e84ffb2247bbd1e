"""svc.api.caching.fetches and cache: what happens beside the plain course of a fetch, on a real loop."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from svc.api.caching import TableCache, fetches, following
from svc.api.caching.directives import Directives, directives_of, parse_directives
from svc.api.caching.following import SourceFollower
from svc.api.caching.sources import Source, is_unreachable, understand
from svc.api.context import Context
from svc.errors import Overloaded, ServerError
from svc.messages import Response
from svc.store import Table
from svc.store.blobs import create_blob
from svc.store.caching import FetchedAnswer, FetchLocks, State
from svc.store.expiry_index import ExpiryTimes
from svc.store.schema import Attribute, TableDefinition
from svc.store.values.keys import encode_key
from svc.store.values.records import decode
from tests.support.fakes import TickingClock
from tests.support.operations import OperationsNode

RATE = TableDefinition(
    "Rate",
    attributes=(
        Attribute("id", "ID", primary_key=True),
        Attribute("value", "Int"),
        Attribute("name", "String", indexed=True),
        Attribute("made", "Float", created_time=True),
        Attribute("changed", "Float", updated_time=True),
        Attribute("image", "Blob"),
    ),
    expiration=60.0,
)
LOG = TableDefinition("Log", attributes=(Attribute("id", "ID", primary_key=True), Attribute("what", "String")))


class Origin:
    """`answer`: what `get` returns; it is called with the context if it can be."""

    def __init__(self) -> None:
        self.calls = 0
        self.answer: Any = {"value": 1, "name": "x"}

    async def get(self, id: str, context: Any) -> Any:
        self.calls += 1
        await asyncio.sleep(0)
        result = self.answer(context) if callable(self.answer) else self.answer
        return await result if asyncio.iscoroutine(result) else result


class World:
    def __init__(self, path: Path, clock: Any = None) -> None:
        self.node = OperationsNode(path, clock=clock)
        database = self.node.store.open_database("data")
        self.table: Table = database.define_table(RATE)
        self.log: Table = database.define_table(LOG)
        self.origin = Origin()
        self.cache = TableCache(self.table, self.node.store, self.node.loop)
        self.cache.add(Source(self.origin), None, ExpiryTimes())

    def read(self, key: str, **state: Any) -> Any:
        """The record, decoded."""
        raw = self.node.wait(lambda: self.reading(key, **state))
        return None if raw is None else decode(raw)

    async def reading(self, key: str, **state: Any) -> bytes | None:
        context = Context(self.node.admin)
        for name, value in state.items():
            setattr(context, name, value)
        result = self.cache.read(key, None, context)
        raw: bytes | None = await result if asyncio.iscoroutine(result) else result
        flight = self.cache.fetches.find(encode_key(key))
        if flight is not None and flight.is_settled:
            await self.cache.fetches.wait_stored(flight)
        return raw

    def elsewhere(self) -> FetchLocks:
        """The locks of another process."""
        return FetchLocks(self.node.root / "database" / "data")


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    world = World(tmp_path)
    yield world
    world.node.store.check()
    world.node.close()


def locked(world: World) -> Any:
    locks = world.elsewhere()
    lock = locks.try_lock(world.table.number, encode_key("a"))
    assert lock is not None
    return locks, lock


def test_what_another_process_has_fetched_is_taken(world: World) -> None:
    locks, lock = locked(world)

    async def both() -> bytes | None:
        reading = asyncio.ensure_future(world.reading("a"))
        await asyncio.sleep(0.02)
        assert not reading.done() and encode_key("a") in world.table.loading
        transaction = world.node.store.begin()  # as the other process would
        transaction.store_fetched(world.table, "a", FetchedAnswer(State.NEW, 0, 5.0), {"value": 7})
        transaction.apply()
        await asyncio.sleep(0.01)
        lock.release()
        return await reading

    raw = world.node.wait(both)
    assert decode(raw)["value"] == 7 and world.origin.calls == 0 and not world.table.loading
    locks.close()


def test_what_another_process_has_not_fetched_is_fetched(world: World) -> None:
    locks, lock = locked(world)

    async def both() -> bytes | None:
        reading = asyncio.ensure_future(world.reading("a"))
        await asyncio.sleep(0.02)
        lock.release()
        return await reading

    assert decode(world.node.wait(both))["value"] == 1 and world.origin.calls == 1
    locks.close()


def test_nobody_waits_for_another_process_for_ever(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetches, "PATIENCE", 0.0)
    locks, lock = locked(world)
    assert world.read("a")["value"] == 1 and world.origin.calls == 1
    lock.release()
    locks.close()


def test_without_locks_everyone_fetches(world: World, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    def broken(self: FetchLocks, table_number: int, stored: bytes) -> None:
        raise OSError("No locks available")

    monkeypatch.setattr(FetchLocks, "try_lock", broken)
    assert world.read("a")["value"] == 1 and "No locks available" in caplog.text


def test_times_and_files_of_what_is_fetched(world: World) -> None:
    world.origin.answer = lambda context: {"value": 1, "image": create_blob(b"x" * 50_000)}
    record = world.read("a")
    assert record["made"] == record["changed"] and record["image"].size == 50_000
    world.node.clock.advance(100)
    again = world.read("a")
    assert again["made"] == record["made"] < again["changed"]
    assert world.table.get_raw("a") is not None


def test_a_record_that_cannot_be_stored_is_served(world: World, caplog: pytest.LogCaptureFixture) -> None:
    def answer(context: Any) -> Any:
        world.node.store.databases["data"].drop_table("Log")
        context.transaction.writes.put(world.log, "x", {"what": "y"})
        return {"value": 3}

    world.origin.answer = answer
    assert world.read("a")["value"] == 3 and "could not be stored" in caplog.text
    assert world.table.get_raw("a") is None and not world.table.loading
    world.origin.answer = {"value": 4}
    assert world.read("a")["value"] == 4 and world.table.get_raw("a") is not None


def test_a_source_that_writes_much(world: World) -> None:
    """More than a turn takes: it is committed later, with the record."""

    def answer(context: Any) -> Any:
        for number in range(200):
            context.transaction.writes.put(world.log, str(number), {"what": "y"})
        return {"value": 3}

    world.origin.answer = answer
    assert world.read("a")["value"] == 3
    assert world.log.record_count() == 200 and world.table.get_raw("a") is not None
    world.node.clock.advance(100)

    def fails(context: Any) -> Any:
        for number in range(200):
            context.transaction.writes.put(world.log, f"n{number}", {"what": "y"})
        context.transaction.writes.create(world.log, "0", {"what": "z"})
        return {"value": 4}

    world.origin.answer = fails
    assert world.read("a")["value"] == 4 and world.log.record_count() == 200
    assert decode(world.table.get_raw("a") or b"")["value"] == 3 and not world.table.loading


def test_a_long_search_loads_in_slices(tmp_path: Path) -> None:
    world = World(tmp_path, TickingClock(looks_a_slice=3))
    transaction = world.node.store.begin()
    for number in range(900):
        transaction.put(world.table, str(number), {"value": 0, "name": "x" if number % 9 == 0 else "y"})
    transaction.apply()
    world.node.store.commit_turn()
    world.node.clock.advance(100)
    on = {"database": "data", "table": "Rate"}
    found = world.node.run("search_by_value", attribute="value", value=0, get_attributes=["value"], limit=300, **on)
    assert found == [] and world.origin.calls == 900, "none has that value any more"
    found = world.node.run("search_by_value", attribute="name", value="nothing", get_attributes=["value"], **on)
    assert found == [] and world.origin.calls == 900
    world.node.close()


def test_following_goes_on_after_errors(world: World, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.setattr(following, "FIRST_PAUSE", 0.0)
    attempts: list[int] = []
    enough = asyncio.Event()

    class Active:
        def subscribe(self, request: Any) -> Any:
            attempts.append(1)
            if len(attempts) == 4:
                enough.set()
            if len(attempts) == 1:
                raise SystemExit(1)
            if len(attempts) == 2:
                return 5
            writes = [
                {"type": "put", "id": "l", "table": "Log", "value": {"what": "1"}},
                {"type": "patch", "id": "l", "table": "Log", "value": {"what": "2"}},
                {"type": "put", "id": "gone", "table": "Log", "value": {"what": "1"}},
                {"type": "delete", "id": "gone", "table": "Log"},
                {"type": "invalidate", "id": "l", "table": "Log"},
                {"type": "put", "id": "a", "value": {"value": 5}},
            ]
            return [{"type": "transaction", "writes": writes}, {"type": "dance", "id": "l", "table": "Log"}]

    async def follow() -> None:
        task = asyncio.ensure_future(SourceFollower(world.cache, Source(Active()), world.node.store).run())
        await enough.wait()
        task.cancel()

    world.node.wait(follow)
    assert caplog.text.count("its events cannot be followed") == 2 and "'dance' is no type of event" in caplog.text
    assert decode(world.log.get_raw("l") or b"") == {"what": "2", "id": "l"} and world.log.get_raw("gone") is None
    assert decode(world.table.get_raw("a") or b"")["value"] == 5


def test_directives_as_attributes() -> None:
    context = Context()
    assert directives_of(context) == Directives()
    context.no_cache, context.max_age, context.stale_if_error = True, 5, False
    assert directives_of(context) == Directives(no_cache=True, max_age=5)
    for wrong in ("5", True):
        context.max_age = wrong
        with pytest.raises(TypeError, match="max_age"):
            directives_of(context)
    for number in range(1000):  # more than are remembered
        assert parse_directives(f"max-age={number}, no-store") == Directives(no_store=True, max_age=number)
    assert parse_directives("x" * 5000 + ", no-cache").no_cache


class Variadic:
    def get(self, *arguments: Any) -> Any:
        return len(arguments)


class Short:
    def get(self, id: str) -> Any:
        return id


def test_forms_of_sources() -> None:
    context = Context()
    assert Source(Variadic()).call("get", "a", context) == 2 and Source(Short()).call("get", "a", context) == "a"
    assert Source({"a": 1}).has("get"), "whatever has a get"

    async def body() -> Any:
        yield b'{"value"'
        yield b": 1}"

    async def wait() -> Any:
        return await understand(Response(body()))

    answer = asyncio.run(wait())
    assert answer.record == {"value": 1} and answer.is_json
    with pytest.raises(ServerError, match="not an object"):
        understand(Response(b"5"))
    refused = ConnectionRefusedError()
    assert is_unreachable(ExceptionGroup("all", [refused, ConnectionResetError()])) and not is_unreachable(
        ExceptionGroup("some", [refused, ValueError()])
    )
    deep: BaseException = refused
    for _ in range(20):
        outer = ValueError()
        outer.__cause__ = deep
        deep = outer
    assert not is_unreachable(deep), "no further than ten"


class Plain:
    def get(self, id: str, context: Any) -> Any:
        return {"value": 2, "image": create_blob(b"y" * 50_000)} if id == "a" else None


def test_files_of_a_plain_source(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.cache = TableCache(world.table, world.node.store, world.node.loop)
    world.cache.add(Source(Plain()), None, ExpiryTimes())
    assert world.read("a")["image"].size == 50_000 and world.read("none") is None
    assert world.table.get_raw("a") is not None
    world.node.store.check()
    world.node.close()


def test_calls_end_with_the_server(world: World) -> None:
    world.origin.answer = lambda context: asyncio.sleep(100)

    async def stop() -> None:
        reading = asyncio.ensure_future(world.reading("a"))
        await asyncio.sleep(0.01)
        world.cache.close()
        with pytest.raises(ServerError, match="stopping"):
            await reading

    world.node.wait(stop)
    assert not world.table.loading
    world.origin.answer = {"value": 1}
    assert world.read("a")["value"] == 1


def test_callers_who_go_away_leave_nothing_behind(world: World) -> None:
    async def storm() -> None:
        tasks = []
        for number in range(300):
            tasks.append(asyncio.ensure_future(world.reading(str(number % 40), no_cache=number % 3 == 0)))
            if number % 7 == 0:
                await asyncio.sleep(0)
            if number % 2:
                tasks[number // 2].cancel()
        results = await asyncio.gather(*tasks, return_exceptions=True)
        assert all(isinstance(result, bytes | asyncio.CancelledError) for result in results)
        while world.cache.fetches.find(encode_key("0")) is not None:  # noqa: ASYNC110 - a call goes on without its caller
            await asyncio.sleep(0.001)
        await asyncio.sleep(0.05)

    world.node.wait(storm)
    assert not world.table.loading and not world.table.database.fetch_locks._held
    assert world.table.record_count() == 40


class Refusing:
    """A source of which so many calls wait for `gate`; every other one ends at once."""

    def __init__(self, waiting: int) -> None:
        self.gate = asyncio.Event()
        self.waiting = waiting

    def get(self, id: str) -> Any:
        if not self.waiting:
            raise ConnectionRefusedError
        self.waiting -= 1
        return self.wait()

    async def wait(self) -> dict[str, Any]:
        await self.gate.wait()
        return {"value": 1}


def test_a_long_queue_of_calls_that_end_at_once(world: World) -> None:
    source = Refusing(fetches.MOST)
    cache = TableCache(world.table, world.node.store, world.node.loop)
    cache.add(Source(source), None, ExpiryTimes())
    world.cache = cache

    async def storm() -> list[Any]:
        tasks = [asyncio.ensure_future(world.reading(str(number))) for number in range(fetches.MOST + 1200)]
        await asyncio.sleep(0)
        source.gate.set()
        _, pending = await asyncio.wait(tasks, timeout=60)
        assert not pending
        return [task.exception() for task in tasks]

    errors = world.node.wait(storm)
    assert errors[: fetches.MOST] == [None] * fetches.MOST
    assert {str(error)[-17:] for error in errors[fetches.MOST :]} == {"cannot be reached"}
    assert not world.table.loading and not cache.fetches._running


def test_callers_who_go_away_do_not_make_the_queue_endless(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetches, "MOST", 2)
    monkeypatch.setattr(fetches, "MOST_QUEUED", 3)
    gate = asyncio.Event()

    async def late() -> dict[str, Any]:
        await gate.wait()
        return {"value": 1}

    world.origin.answer = lambda context: late()

    async def flood() -> None:
        for number in range(5):
            task = asyncio.ensure_future(world.reading(str(number)))
            await asyncio.sleep(0)
            task.cancel()
        with pytest.raises(Overloaded):
            await world.reading("5")
        assert len(world.table.loading) == 5
        gate.set()
        while world.table.loading:  # noqa: ASYNC110 - the calls go on without their callers
            await asyncio.sleep(0.001)
        assert await world.reading("5") is not None

    world.node.wait(flood)
    assert world.table.record_count() == 6
