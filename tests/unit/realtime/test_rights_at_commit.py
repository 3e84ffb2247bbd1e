"""Rights for an event are those at its commit (spec: security §10): for subscriptions and live queries, whichever process changes them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from svc.auth.users import UserDirectory
from svc.clock import FakeClock
from svc.query import parse_query
from svc.realtime.commit_feed import CommitFeed
from svc.realtime.event import EndReason
from svc.realtime.hub import Hub
from svc.realtime.live import LiveQueries
from svc.store import Store, StoreSettings, Transaction
from svc.store.system import ROLE_TABLE, SYSTEM, USER_TABLE, ensure_system
from tests.support.hub import Sibling
from tests.support.scene import NOTE, Scene

pytestmark = pytest.mark.programs

QUERIES = {
    "plain": "a=ge=0&live()",
    "kept": "a=ge=0&sort(-a)&limit(5)&live()",
    "counted": "a=ge=0&count()&live()",
}


def reader(*, read: bool = True, hidden: tuple[str, ...] = ()) -> dict[str, Any]:
    table: dict[str, Any] = {"read": read, "insert": False, "update": False, "delete": False}
    if hidden:
        names = [name for name in ("id", "a", "b", "secret") if name not in hidden]
        table["attribute_permissions"] = [{"attribute_name": name, "read": True, "insert": False, "update": False} for name in names]
    return {"data": {"tables": {"Note": table}}}


@pytest.fixture(scope="module")
def other() -> Iterator[Sibling]:
    sibling = Sibling()
    yield sibling
    sibling.stop()


class World(Scene):
    """A subscription and live queries of `ann`, all of whose events are taken. `elsewhere` writes in another process."""

    def __init__(self, path: Path, other: Sibling) -> None:
        self.clock = FakeClock()
        self.turns = asyncio.new_event_loop()
        self.store = Store(path, StoreSettings(write_async=True), clock=self.clock)
        ensure_system(self.store)
        self.database = self.store.open_database("data")
        self.table = self.database.define_table(NOTE)
        self.users = UserDirectory(self.store)
        self.feed = CommitFeed(self.store, self.turns, self.clock)
        self.hub = Hub(self.store, self.feed, self.turns, self.clock, self.users)
        self.other = other
        self.live = LiveQueries(self.store, self.feed, self.turns, self.clock, self.users)
        self.ann = self.user("ann", reader())
        self.other.open(path)
        self.sources: dict[str, Any] = {"records": self.subscribe(check_rights=True, user=self.ann)}
        for name, text in QUERIES.items():
            query = parse_query(text, self.table.attributes.__contains__)
            self.sources[name] = self.live.subscribe(query, self.table, self.ann, allow_full_scan=True)
        self.all()

    def settle(self) -> None:
        for _ in range(20):
            self.turns.run_until_complete(asyncio.sleep(0))
        self.store.end_turn()

    def all(self) -> dict[str, list[Any]]:
        """The events of all subscribers, by name."""
        self.feed._poll()  # as it does about every 20 ms, for siblings
        self.settle()
        found: dict[str, list[Any]] = {}
        for name, source in self.sources.items():
            found[name] = [event.members(True) for event in self.take(source)]
        return found

    def at_once(self) -> dict[str, list[Any]]:
        """The same, of what is there before anything else runs."""
        return {name: [event.members(True) for event in source.take(1000)] for name, source in self.sources.items()}

    def elsewhere(self, *writes: list[Any]) -> None:
        self.store.end_turn()
        self.other.write(self.clock.wall(), [list(write) for write in writes])
        self.clock.advance(1)

    def close(self) -> None:
        self.live.close()
        self.hub.close()
        self.feed.close()
        self.other.close()
        self.settle()
        self.turns.close()
        self.store.close()


@pytest.fixture
def world(tmp_path: Path, other: Sibling) -> Iterator[World]:
    found = World(tmp_path / "store", other)
    yield found
    found.close()


def role(world: World, permission: dict[str, Any]) -> Callable[[Transaction], object]:
    table = world.store.databases[SYSTEM].tables[ROLE_TABLE]
    return lambda transaction: transaction.patch(table, "ann", {"permission": permission})


def note(world: World, key: str, **record: Any) -> Callable[[Transaction], object]:
    return lambda transaction: transaction.put(world.table, key, record)


def test_subscribers_get_what_they_may_read(world: World) -> None:
    world.put("x", a=1, secret=2)
    found = world.all()
    for name in ("records", "plain", "kept"):
        assert [event["value"] for event in found[name]] == [{"id": "x", "a": 1, "secret": 2}], name


@pytest.mark.parametrize("changed_by", ["us", "other"])
@pytest.mark.parametrize("written_by", ["us", "other", "one turn"])
def test_a_write_after_the_change_of_rights_is_not_sent(world: World, changed_by: str, written_by: str) -> None:
    """Each write is committed before anybody had a turn to look at the rights."""
    revoked, record = reader(read=False), {"a": 7, "secret": "new"}
    if written_by == "one turn":
        world.write(role(world, revoked), note(world, "x", **record))
    else:
        if changed_by == "us":
            world.write(role(world, revoked))
        else:
            world.elsewhere([SYSTEM, ROLE_TABLE, "put", "ann", {"role": "ann", "permission": revoked}])
        if written_by == "us":
            world.put("x", **record)
        else:
            world.elsewhere(["data", "Note", "put", "x", record])
    for found in (world.at_once(), world.all()):
        for name, events in found.items():
            assert "new" not in repr(events) and "7" not in repr([event.get("value") for event in events]), (name, events)
    if written_by != "one turn" or changed_by == "us":
        assert {name: source.ended for name, source in world.sources.items()} == dict.fromkeys(world.sources, EndReason.REVOKED)


@pytest.mark.parametrize("changed_by", ["us", "other"])
def test_attributes_hidden_before_the_commit_are_not_sent(world: World, changed_by: str) -> None:
    hidden = reader(hidden=("secret",))
    if changed_by == "us":
        world.write(role(world, hidden))
    else:
        world.elsewhere([SYSTEM, ROLE_TABLE, "put", "ann", {"role": "ann", "permission": hidden}])
    world.put("x", a=7, secret="new")
    told = world.at_once()
    told = {name: events + more for (name, events), more in zip(told.items(), world.all().values(), strict=True)}
    for name, events in told.items():
        assert "new" not in repr(events), (name, events)
        assert events and world.sources[name].ended is None, name


def test_an_account_made_again_is_another(world: World) -> None:
    """Same name, same rights, but another user: it was removed and added again."""
    users = world.store.databases[SYSTEM].tables[USER_TABLE]
    world.write(lambda transaction: transaction.delete(users, "ann"))
    world.write(lambda transaction: transaction.put(users, "ann", {"role": "ann", "active": True}))
    world.put("x", a=7, secret="new")
    assert "new" not in repr(world.at_once()) and "new" not in repr(world.all())
    assert {source.ended for source in world.sources.values()} == {EndReason.NO_LOGIN}


def test_a_new_pair_of_tokens_is_no_change_of_rights(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else each login would check the rights of all subscribers."""
    users = world.store.databases[SYSTEM].tables[USER_TABLE]
    looks: list[int] = []
    monkeypatch.setattr(world.hub, "recheck", lambda: looks.append(1))
    monkeypatch.setattr(world.live, "_check_soon", lambda: looks.append(2))
    world.write(lambda transaction: transaction.patch(users, "ann", {"refresh_token": "hash"}))
    world.all()
    assert looks == []
    world.write(lambda transaction: transaction.patch(users, "ann", {"login_epoch": "next"}))
    world.all()
    assert sorted(looks) == [1, 2]


def test_more_account_changes_than_fit_into_a_slice_come_first(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    users = world.store.databases[SYSTEM].tables[USER_TABLE]

    def many(transaction: Transaction) -> None:
        for number in range(700):
            transaction.put(users, f"user{number}", {"role": "ann", "active": True})

    heard: list[str] = []
    world.feed.add(world.store.databases[SYSTEM], lambda database, entries: heard.extend(entry.table for entry in entries))
    world.feed.add(world.database, lambda database, entries: heard.append("Note"))
    now = iter(range(1_000_000))
    monkeypatch.setattr(world.feed, "_now", lambda: float(next(now)))  # each look at the clock ends a slice
    world.write(many, role(world, reader(read=False)), note(world, "x", a=7, secret="new"))
    world.all()
    assert heard == [USER_TABLE] * 700 + [ROLE_TABLE, "Note"]
    assert {source.ended for source in world.sources.values()} == {EndReason.REVOKED}


def test_the_directory_follows_siblings(world: World) -> None:
    before, generation = world.users.get_user("ann"), world.users.generation
    world.elsewhere(["data", "Note", "put", "x", {"a": 1}])
    world.users.refresh()
    assert world.users.generation == generation and world.users.get_user("ann") is before
    world.elsewhere([SYSTEM, "svc_info", "put", "1", {"version": "1"}])
    world.users.refresh()
    assert world.users.generation == generation, "of other tables nothing is kept"
    world.elsewhere([SYSTEM, USER_TABLE, "patch", "ann", {"active": False}])
    world.users.refresh()
    after = world.users.get_user("ann")
    assert world.users.generation != generation and after is not None and not after.active


def test_own_commits_are_reported_once(world: World) -> None:
    world.write(role(world, reader(hidden=("b",))))
    generation = world.users.generation
    world.users.refresh()
    world.users.refresh()
    assert world.users.generation == generation


def test_too_much_at_once_is_forgotten_unseen(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("svc.auth.users.MOST_READ", 3)
    generation = world.users.generation
    for number in range(5):
        world.elsewhere([SYSTEM, "svc_info", "put", str(number), {"version": "1"}])
    world.users.refresh()
    assert world.users.generation != generation
