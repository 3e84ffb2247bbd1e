"""svc.realtime.hub: the events of each commit, and when subscriptions end."""

import asyncio
import logging
from typing import Any

import pytest

from svc.errors import AccessViolation, ClientError, NotFound, Problem, QueryError
from svc.query.nodes import Comparator, Condition, Filter, Group, Select, SelectItem
from svc.realtime.event import EndReason
from svc.realtime.hub import RECHECK
from svc.store.schema import Attribute, Relationship, TableDefinition
from svc.store.system import ROLE_TABLE, SYSTEM, USER_TABLE
from tests.support.scene import Scene


def at_least(name: str, value: int) -> Filter:
    return Condition((name,), Comparator.GREATER_THAN_EQUAL, value)


def test_first_what_there_is_then_what_happens(scene: Scene) -> None:
    scene.put("b", a=2)
    scene.put("a", a=1)
    source = scene.subscribe()
    assert scene.seen(source) == [("put", "a", {"a": 1, "id": "a"}), ("put", "b", {"a": 2, "id": "b"})]
    scene.write(lambda t: t.patch(scene.table, "a", {"b": 3}), lambda t: t.delete(scene.table, "b"))
    assert scene.seen(source) == [("put", "a", {"a": 1, "id": "a", "b": 3}), ("delete", "b", None)]


def test_a_record_that_is_not_there_may_come(scene: Scene) -> None:
    source = scene.subscribe(key="a")
    assert scene.seen(source) == []
    scene.put("b", a=1)
    scene.put("a", a=1)
    assert scene.seen(source) == [("put", "a", {"a": 1, "id": "a"})]


def test_a_record_is_there_with_the_first_look(scene: Scene) -> None:
    scene.put("a", a=1)
    source = scene.subscribe(key="a")
    (event,) = source.take(10)
    assert event.value == {"a": 1, "id": "a"} and event.local_time == 1


def test_only_the_last_current_record_is_a_place_to_resume_from(scene: Scene) -> None:
    """A client that got half of them gets all of them again."""
    for key in "abc":
        scene.put(key)
    scene.write(lambda t: t.publish(scene.table, "a", 1))
    assert [event.position for event in scene.take(scene.subscribe())] == [None, None, 4]


def test_subscribers_share_events(scene: Scene) -> None:
    sources = [scene.subscribe(omit_current=True) for _ in range(3)] + [scene.subscribe(prefix="a/", omit_current=True)]
    scene.settle()
    scene.put("a/1", a=1)
    assert len({id(event) for source in sources for event in scene.take(source)}) == 1


def test_a_rolled_back_transaction_makes_no_events(scene: Scene) -> None:
    source = scene.subscribe()
    transaction = scene.store.begin()
    transaction.put(scene.table, "a", {})
    transaction.create(scene.table, "a", {})
    with pytest.raises(Problem):
        transaction.apply()
    scene.store.commit_turn()
    assert scene.seen(source) == []


def test_on_ready_is_called_once_for_each_turn(scene: Scene) -> None:
    calls: list[int] = []
    source = scene.subscribe(omit_current=True)
    source.on_ready = lambda: calls.append(1)
    assert source.take(10) == [] and calls == []
    scene.write(*[lambda t, n=n: t.put(scene.table, n, {}) for n in range(5)])  # type: ignore[misc]
    assert calls == [1]
    scene.put("more")
    assert calls == [1], "it has not taken yet"
    assert len(source.take(4)) == 4 and not source.waiting
    scene.put("again")
    assert calls == [1], "it has not taken all"
    assert len(source.take(4)) == 3 and source.waiting, "it has, and need not ask again"
    scene.put("once more")
    assert calls == [1, 1]
    assert len(source.take(1)) == 1 and not source.waiting
    scene.put("and more")
    assert calls == [1, 1]
    assert len(source.take(4)) == 1 and source.take(4) == []
    scene.put("last")
    assert calls == [1, 1, 1]


# -- options


def test_conditions(scene: Scene) -> None:
    for number in range(4):
        scene.put(str(number), a=number)
    source = scene.subscribe(where=at_least("a", 2))
    assert [event.id for event in scene.take(source)] == ["2", "3"]
    scene.put("4", a=1)
    scene.put("5", a=2)
    scene.write(
        lambda t: t.patch(scene.table, "0", {"a": 9}), lambda t: t.patch(scene.table, "5", {"a": 0}), lambda t: t.delete(scene.table, "1")
    )
    scene.write(
        lambda t: t.publish(scene.table, None, {"a": 3}),
        lambda t: t.publish(scene.table, None, "no object"),
        lambda t: t.invalidate(scene.table, "2"),
    )
    assert [(event.type, event.id) for event in scene.take(source)] == [
        ("put", "5"),
        ("put", "0"),
        ("delete", "1"),
        ("message", None),
        ("invalidate", "2"),
    ]


def test_the_condition_needs_an_index_for_what_is_there(scene: Scene) -> None:
    with pytest.raises(QueryError) as refused:
        scene.subscribe(where=at_least("b", 2))
    assert refused.value.code == "NOT_INDEXED" and len(scene.hub) == 0 and scene.feed.position(scene.database) == -1
    scene.put("a/1", b=3)
    assert len(scene.take(scene.subscribe(where=at_least("b", 2), allow_full_scan=True))) == 1
    assert len(scene.take(scene.subscribe(where=at_least("b", 2), prefix="a/"))) == 1
    assert len(scene.take(scene.subscribe(where=at_least("b", 2), key="a/1"))) == 1
    both = Group("and", (at_least("b", 2), at_least("a", 0)))
    assert scene.take(scene.subscribe(where=both)) == []


def test_conditions_of_other_tables_are_refused(scene: Scene) -> None:
    scene.database.define_table(
        TableDefinition(
            "Child",
            attributes=(
                Attribute("id", primary_key=True),
                Attribute("noteId", indexed=True),
                Attribute("note", relationship=Relationship("Note", from_="noteId")),
            ),
        )
    )
    child = scene.database.tables["Child"]
    with pytest.raises(QueryError, match="live") as refused:
        scene.subscribe(table=child, where=Condition(("note", "a"), Comparator.EQUALS, 1))
    assert refused.value.code == "UNUSABLE_OPERATOR"
    with pytest.raises(QueryError) as refused:
        scene.subscribe(where=at_least("nothing", 1))
    assert refused.value.code == "UNKNOWN_ATTRIBUTE"


def test_the_last_events(scene: Scene) -> None:
    for number in range(5):
        scene.put("a" if number % 2 else "b", a=number)
    scene.write(lambda t: t.publish(scene.table, "a", "m"))
    assert [event.local_time for event in scene.take(scene.subscribe(previous_count=3))] == [4, 5, 6]
    assert [event.local_time for event in scene.take(scene.subscribe(previous_count=100))] == [1, 2, 3, 4, 5, 6]
    assert [event.value for event in scene.take(scene.subscribe(key="a", previous_count=2))] == [{"a": 3, "id": "a"}, "m"]
    source = scene.subscribe(key="b", previous_count=0)
    assert scene.take(source) == []
    scene.put("b", a=9)
    assert [event.local_time for event in scene.take(source)] == [7]


def test_events_since_a_time(scene: Scene) -> None:
    for number in range(4):
        scene.put("a", a=number)
    second = scene.take(scene.subscribe(previous_count=3))[0]
    assert [event.local_time for event in scene.take(scene.subscribe(start_time=second.timestamp))] == [3, 4]
    assert [event.local_time for event in scene.take(scene.subscribe(start_time=0.0))] == [1, 2, 3, 4]
    assert [event.local_time for event in scene.take(scene.subscribe(key="a", start_time=second.timestamp))] == [3, 4]
    assert [event.local_time for event in scene.take(scene.subscribe(key="a", start_time=second.timestamp, previous_count=1))] == [4]


@pytest.mark.parametrize(
    "options", [{"previous_count": 1001}, {"previous_count": -1}, {"previous_count": 1.5}, {"previous_count": 1, "start_time": 1.0}]
)
def test_options_that_make_no_sense(scene: Scene, options: dict[str, Any]) -> None:
    with pytest.raises(ClientError):
        scene.subscribe(**options)


def test_a_client_goes_on_where_it_was(scene: Scene) -> None:
    for number in range(4):
        scene.put("a", a=number)
    assert [event.local_time for event in scene.take(scene.subscribe(after=2))] == [3, 4]
    assert [event.local_time for event in scene.take(scene.subscribe(after=4))] == []
    assert [event.local_time for event in scene.take(scene.subscribe(key="a", after=0))] == [1, 2, 3, 4]


@pytest.mark.parametrize("after", [1, 99, -5])
def test_a_position_before_the_log_begins_with_current_records(scene: Scene, after: int) -> None:
    """Also a position that is not of this log: one of before a backup was restored."""
    for number in range(4):
        scene.put("a", a=number)
    writer = scene.database.writer()
    scene.database.log.prune(writer, float("inf"), 2)
    scene.database.env.touch()
    scene.store.commit_turn()
    events = scene.take(scene.subscribe(after=after, omit_current=True))
    assert [(event.local_time, event.value["a"]) for event in events] == [(4, 3)]
    assert [event.local_time for event in scene.take(scene.subscribe(after=2))] == [3, 4]


def test_transactions_are_marked(scene: Scene) -> None:
    source = scene.subscribe(supports_transactions=True, prefix="a/")
    scene.settle()
    scene.write(
        lambda t: (t.put(scene.table, "b", {}), t.put(scene.table, "a/1", {}), t.put(scene.table, "a/2", {}), t.put(scene.table, "c", {})),
        lambda t: t.put(scene.table, "a/3", {}),
    )
    assert [(event.type, event.id, event.begin_txn, event.local_time) for event in scene.take(source)] == [
        ("put", "a/1", True, 2),
        ("put", "a/2", False, 3),
        ("end_txn", None, False, 3),
        ("put", "a/3", True, 5),
        ("end_txn", None, False, 5),
    ]


def test_images_are_kept_for_subscriptions(scene: Scene) -> None:
    quiet = scene.database.define_table(TableDefinition("Quiet", attributes=(Attribute("id", primary_key=True),), audit=False))
    assert not quiet.audit
    source = scene.subscribe(table=quiet)
    assert quiet.audit
    scene.write(lambda t: t.put(quiet, "a", {"n": 1}))
    scene.write(lambda t: t.patch(quiet, "a", {"m": 1}))
    assert scene.seen(source)[-1] == ("put", "a", {"n": 1, "id": "a", "m": 1})


# -- rights


def reader(*, read: bool = True, hidden: tuple[str, ...] = ()) -> dict[str, Any]:
    table: dict[str, Any] = {"read": read, "insert": False, "update": False, "delete": False}
    if hidden:
        shown = [
            {"attribute_name": name, "read": True, "insert": False, "update": False}
            for name in ("id", "a", "b", "secret")
            if name not in hidden
        ]
        table["attribute_permissions"] = shown
    return {"data": {"tables": {"Note": table}}}


def set_role(scene: Scene, name: str, permission: dict[str, Any]) -> None:
    roles = scene.store.databases[SYSTEM].tables[ROLE_TABLE]
    scene.write(lambda t: t.patch(roles, name, {"permission": permission}))


def test_subscribing_needs_the_right_to_read(scene: Scene) -> None:
    with pytest.raises(AccessViolation) as refused:
        scene.subscribe(check_rights=True)
    assert refused.value.status_code == 401
    with pytest.raises(AccessViolation) as refused:
        scene.subscribe(check_rights=True, user=scene.user("ann", reader(read=False)))
    assert refused.value.status_code == 403
    ben = scene.user("ben", reader(hidden=("secret",)))
    for options in ({"where": Condition(("secret",), Comparator.EQUALS, 1), "allow_full_scan": True},):
        with pytest.raises(AccessViolation):
            scene.subscribe(check_rights=True, user=ben, **options)
    assert len(scene.hub) == 0


def test_attributes_that_may_not_be_read_are_left_out(scene: Scene) -> None:
    scene.put("a", a=1, secret=2)
    user = scene.user("ann", reader(hidden=("secret",)))
    source = scene.subscribe(check_rights=True, user=user)
    selected = scene.subscribe(check_rights=True, user=user, select=Select((SelectItem(("a",)), SelectItem(("secret",)))))
    assert scene.seen(source) == [("put", "a", {"a": 1, "id": "a"})]
    assert scene.seen(selected) == [("put", "a", {"a": 1})]


def test_changed_rights_count_at_once_also_for_what_waits(scene: Scene) -> None:
    user = scene.user("ann", reader())
    source = scene.subscribe(check_rights=True, user=user)
    selected = scene.subscribe(check_rights=True, user=user, where=at_least("a", 0))
    scene.settle()
    scene.put("a", a=1, secret=2)
    set_role(scene, "ann", reader(hidden=("secret",)))
    assert scene.seen(source) == [("put", "a", {"a": 1, "id": "a"})]
    scene.put("a", a=2, secret=3)
    assert scene.seen(source) == [("put", "a", {"a": 2, "id": "a"})]
    assert source.ended is None and selected.ended is None
    set_role(scene, "ann", reader(hidden=("a",)))
    assert source.ended is None and selected.ended is EndReason.REVOKED, "its condition is on what may not be read any more"
    scene.put("a", a=3, secret=3)
    set_role(scene, "ann", reader(read=False))
    assert source.ended is EndReason.REVOKED and source.take(10) == [], "not even what waited"
    assert len(scene.hub) == 0


@pytest.mark.parametrize("how", ["inactive", "gone"])
def test_a_subscription_ends_with_its_user(scene: Scene, how: str) -> None:
    source = scene.subscribe(check_rights=True, user=scene.user("ann", reader()))
    others = scene.subscribe()
    users = scene.store.databases[SYSTEM].tables[USER_TABLE]
    calls: list[int] = []
    source.on_ready = lambda: calls.append(1)
    scene.take(source)
    scene.write(lambda t: t.patch(users, "ann", {"active": False}) if how == "inactive" else t.delete(users, "ann"))
    scene.settle()
    assert source.ended is EndReason.NO_LOGIN and calls == [1] and others.ended is None


def test_rights_are_checked_periodically(scene: Scene) -> None:
    """They depend on the definition of the table too, whose changes are not reported."""
    source = scene.subscribe(check_rights=True, user=scene.user("ann", reader(hidden=("secret",))))
    role = scene.users.get_role("ann")
    assert role is not None and RECHECK <= 60
    role.permission["data"]["tables"]["Note"]["read"] = False  # type: ignore[index]
    role._rights.clear()
    scene.loop.fire()
    assert source.ended is None
    scene.loop.fire(long=True)
    assert source.ended is EndReason.REVOKED


def test_accounts_that_a_sibling_changes_are_read_again(scene: Scene) -> None:
    """It shows as entries of the log of which the directory has not heard."""
    source = scene.subscribe(check_rights=True, user=scene.user("ann", reader()))
    system = scene.store.databases[SYSTEM]
    system.on_commit.remove(scene.users._committed)
    set_role(scene, "ann", reader(read=False))
    assert source.ended is EndReason.REVOKED


# -- ends


def test_a_dropped_table_ends_its_subscriptions(scene: Scene) -> None:
    other = scene.database.define_table(TableDefinition("Other", attributes=(Attribute("id", primary_key=True),)))
    source, stays = scene.subscribe(table=other), scene.subscribe()
    scene.settle()
    scene.write(lambda t: t.put(other, "a", {}))
    scene.database.drop_table("Other")
    assert source.ended is EndReason.DROPPED and stays.ended is None
    assert [event.id for event in scene.take(source)] == ["a"]
    with pytest.raises(NotFound):
        scene.subscribe(table=other)


def test_a_dropped_database_ends_its_subscriptions(scene: Scene) -> None:
    other = scene.store.open_database("other")
    table = other.define_table(TableDefinition("T", attributes=(Attribute("id", primary_key=True),)))
    source = scene.subscribe(table=table)

    async def drop() -> None:
        await scene.store.drop_database("other")

    asyncio.run(drop())
    scene.loop.fire()
    assert source.ended is EndReason.DROPPED and scene.take(source) == []


def test_with_the_last_subscription_everything_is_let_go(scene: Scene) -> None:
    sources = [scene.subscribe(), scene.subscribe(key="a"), scene.subscribe(check_rights=True, user=scene.user("ann", reader()))]
    assert len(scene.hub) == 3
    for source in sources:
        source.close()
        source.close()
    assert len(scene.hub) == 0 and not scene.database.on_commit
    assert not [timer for timer in scene.loop.timers if not timer.cancelled]
    assert len(scene.store.snapshots) == 0


def test_the_hub_ends_all(scene: Scene) -> None:
    source = scene.subscribe()
    scene.hub.close()
    assert source.ended is EndReason.FINISHED and len(scene.hub) == 0


def test_a_read_error_ends_one_subscription(scene: Scene, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    scene.put("a")
    source = scene.subscribe()

    def fail(*args: Any) -> Any:
        raise RuntimeError("a defect")

    monkeypatch.setattr(scene.hub, "change", fail)
    monkeypatch.setattr("svc.realtime.changes.Change.of_record", fail)
    with caplog.at_level(logging.CRITICAL, "svc.realtime"):
        scene.settle()
        assert source.take(10) == []
    assert source.ended is EndReason.FAILED and source.take(10) == []


def test_removed_entries_of_a_sibling_end_what_is_live(scene: Scene) -> None:
    """Which subscriptions they concerned is unknown."""
    live, reading = scene.subscribe(omit_current=True), scene.subscribe()
    entry_lists: list[Any] = []
    scene.database.on_commit.insert(0, lambda database, entries: entry_lists.append(entries))
    scene.put("a")
    entries = entry_lists.pop()
    entries[0].lsn += 5
    scene.hub._committed(scene.database, entries)
    assert live.ended is EndReason.TOO_SLOW and reading.ended is None


def test_the_end_of_a_subscription_does_not_depend_on_how_many_others_there_are(scene: Scene) -> None:
    class Unread(dict[Any, Any]):
        def items(self) -> Any:
            raise AssertionError("all groups are looked at")

        values = keys = __iter__ = items

    sources = [scene.subscribe(key=str(number), omit_current=True) for number in range(3)]
    followed = scene.hub._followed[scene.database]
    followed.groups = Unread(followed.groups)
    for source in sources:
        source.close()
    assert not len(followed.groups) and not followed.indexes and scene.database not in scene.hub._followed
