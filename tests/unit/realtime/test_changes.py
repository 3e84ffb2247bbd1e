"""svc.realtime.changes: entries of the log as events."""

from typing import Any

import msgspec
import pytest

from svc.query.nodes import Select, SelectItem
from svc.realtime.changes import Change, LogEvent, View, record_after
from svc.realtime.live.record_change import change_of, needs_snapshot
from svc.store import LogEntry, Table
from svc.store.log.entries import DELETE, EXPIRE, MESSAGE, PATCH, PUT, RELOCATE
from svc.store.schema import Attribute, TableDefinition
from svc.store.values.keys import encode_key
from svc.store.values.records import decode, encode_payload, frame
from svc.store.values.validation import Add
from svc.store.writing.remote_transaction import RemoteEntry
from tests.support import remote
from tests.support.scene import Scene

QUIET = TableDefinition("Quiet", attributes=(Attribute("id", primary_key=True), Attribute("a"), Attribute("n", "Int")), audit=False)


def entry(scene: Scene, lsn: int) -> LogEntry:
    found = scene.database.log.get(scene.database.snapshot(), lsn)
    assert found is not None
    return found


def event(scene: Scene, lsn: int, view: View | None = None, **marks: Any) -> LogEvent:
    table = scene.table
    made = Change(table, entry(scene, lsn), scene.database.snapshot()).event(view or View(table), **marks)
    assert made is not None
    return made


def members(scene: Scene, lsn: int, view: View | None = None) -> tuple[Any, ...]:
    found = event(scene, lsn, view)
    return found.type, found.id, found.value


def test_the_members_come_in_the_order_of_the_specification(scene: Scene) -> None:
    scene.put("42", name="Keyboard", price=44)
    found = event(scene, 1)
    assert list(found.members(False).items()) == [
        ("type", "put"),
        ("id", "42"),
        ("value", {"name": "Keyboard", "price": 44, "id": "42"}),
        ("version", 1767225600000),
        ("timestamp", 1767225600000),
        ("localTime", 1),
    ]
    assert found.members(False) is found.members(False), "made once"


def test_application_code_reads_it_as_mapping_and_by_attributes(scene: Scene) -> None:
    scene.put("a", n=1)
    found = event(scene, 1)
    assert dict(found) == found.members(True) and len(found) == 6 and "coalesced" not in found
    assert (found["localTime"], found.local_time, found.get("value"), found.value) == (1, 1, {"n": 1, "id": "a"}, {"n": 1, "id": "a"})
    assert (found.type, found.id, found.user, found.version, found.timestamp) == ("put", "a", "me", 1767225600000, 1767225600000)
    other = event(scene, 1)
    assert found != other and len({found, other, found}) == 2, "an event is itself alone"


def test_values_are_native_or_as_in_json(scene: Scene) -> None:
    from datetime import UTC, datetime

    moment = datetime(2024, 1, 5, tzinfo=UTC)
    scene.put(("a", 1), at=moment, tags={1})
    found = event(scene, 1)
    assert found.id == ("a", 1) and found.members(True)["id"] == ["a", 1]
    assert found.members(True)["value"] == {"at": moment, "tags": {1}, "id": ["a", 1]}
    assert found.members(False)["value"] == {"at": "2024-01-05T00:00:00.000Z", "tags": [1], "id": ["a", 1]}
    assert msgspec.json.encode(found.members(False))


def test_each_kind_has_its_type(scene: Scene) -> None:
    table = scene.table
    scene.put("a", a=1)
    scene.write(lambda t: t.patch(table, "a", {"b": 2}))
    scene.write(lambda t: t.delete(table, "a"))
    scene.write(lambda t: t.publish(table, None, "hello"), lambda t: t.publish(table, "a", None), lambda t: t.invalidate(table, "a"))
    assert [members(scene, lsn) for lsn in range(1, 7)] == [
        ("put", "a", {"a": 1, "id": "a"}),
        ("put", "a", {"a": 1, "id": "a", "b": 2}),
        ("delete", "a", None),
        ("message", None, "hello"),
        ("message", "a", None),
        ("invalidate", "a", None),
    ]
    raw = View(table, raw=True)
    assert [members(scene, lsn, raw)[::2] for lsn in (1, 2, 3)] == [("put", {"a": 1, "id": "a"}), ("patch", {"b": 2}), ("delete", None)]
    assert list(event(scene, 2, raw))[-1] == "user"


def test_an_expired_record_is_a_deleted_one(scene: Scene) -> None:
    scene.put("a", a=1)
    expired = entry(scene, 1)
    expired.kind, expired.value = EXPIRE, None
    for view in (View(scene.table), View(scene.table, raw=True)):
        found = Change(scene.table, expired).event(view)
        assert found is not None and (found.type, found.value) == ("delete", None)


def test_a_relocate_is_a_raw_event_only(scene: Scene) -> None:
    scene.put("a", a=1)
    moved = entry(scene, 1)
    moved.kind = RELOCATE
    change = Change(scene.table, moved)
    assert change.event(View(scene.table)) is None
    found = change.event(View(scene.table, raw=True))
    assert found is not None and found.type == "relocate"


def test_equal_views_share_one_event(scene: Scene) -> None:
    scene.put("a", a=1, b=2)
    change = Change(scene.table, entry(scene, 1))
    first = change.event(View(scene.table, visible=frozenset({"a"})))
    assert first is change.event(View(scene.table, visible=frozenset({"a"}))) is not change.event(View(scene.table))
    assert first is not change.event(View(scene.table, visible=frozenset({"a"})), coalesced=2)


def test_only_what_may_be_read_is_shown(scene: Scene) -> None:
    table = scene.table
    scene.put("a", a=1, secret=2)
    scene.write(
        lambda t: t.patch(table, "a", {"secret": 3, "b": 1}),
        lambda t: t.publish(table, "a", {"secret": 4, "a": 5}),
        lambda t: t.publish(table, "a", "all"),
    )
    narrow = frozenset({"a", "b", "id"})
    shown = [members(scene, lsn, View(table, visible=narrow))[2] for lsn in (1, 2, 3, 4)]
    assert shown == [{"a": 1, "id": "a"}, {"a": 1, "id": "a", "b": 1}, {"a": 5}, "all"]
    assert members(scene, 2, View(table, visible=narrow, raw=True))[2] == {"b": 1}
    found = event(scene, 1).seen_in(View(table, visible=narrow))
    assert found.value == {"a": 1, "id": "a"} and found.local_time == 1


def test_a_selection_shapes_records_and_messages_that_are_objects(scene: Scene) -> None:
    table = scene.table
    scene.put("a", a=1, b=2)
    scene.write(lambda t: t.publish(table, "a", {"b": 4, "x": 5}), lambda t: t.publish(table, "a", [1]), lambda t: t.delete(table, "a"))
    select = Select((SelectItem(("b",)),))
    assert [members(scene, lsn, View(table, select))[2] for lsn in (1, 2, 3, 4)] == [{"b": 2}, {"b": 4}, [1], None]
    assert event(scene, 1, View(table, Select((SelectItem(("b",)),), "value"))).members(False)["value"] == 2


def test_a_selection_may_go_to_other_tables(scene: Scene) -> None:
    from svc.store.schema import Relationship

    brands = scene.database.define_table(TableDefinition("Brand", attributes=(Attribute("id", primary_key=True), Attribute("name"))))
    products = scene.database.define_table(
        TableDefinition(
            "Product",
            attributes=(
                Attribute("id", primary_key=True),
                Attribute("brandId", indexed=True),
                Attribute("brand", relationship=Relationship("Brand", from_="brandId")),
            ),
        )
    )
    scene.write(lambda t: t.put(brands, "b", {"name": "Acme"}), lambda t: t.put(products, "p", {"brandId": "b"}))
    select = Select((SelectItem(("id",)), SelectItem(("brand",), nested=Select((SelectItem(("name",)),)))))
    change = Change(products, entry(scene, 2))
    found = change.event(View(products, select))
    assert found is not None and found.value == {"id": "p", "brand": {"name": "Acme"}}


def test_marks_of_transactions(scene: Scene) -> None:
    scene.put("a", a=1)
    view = View(scene.table, transactions=True)
    assert list(event(scene, 1, view, begin_txn=True))[6:] == ["begin_txn", "user"]
    assert list(event(scene, 1, view))[6:] == ["user"]
    end = Change(scene.table, entry(scene, 1)).end(view)
    assert (end.type, end.id, end.value, end.local_time) == ("end_txn", None, None, 1)


@pytest.fixture
def quiet(scene: Scene) -> Table:
    return scene.database.define_table(QUIET)


def after(scene: Scene, table: Table, lsn: int) -> Any:
    raw = record_after(table, entry(scene, lsn), scene.database.snapshot())
    return None if raw is None else decode(raw)


def test_the_record_after_a_patch_is_known_without_images(scene: Scene, quiet: Table) -> None:
    scene.write(lambda t: t.put(quiet, "a", {"n": 1}))
    scene.write(lambda t: t.patch(quiet, "a", {"a": 2}))
    assert after(scene, quiet, 2) == {"n": 1, "id": "a", "a": 2}, "the record itself"
    scene.write(lambda t: t.patch(quiet, "a", {"n": Add(5)}))
    scene.write(lambda t: t.delete(quiet, "a"))
    assert after(scene, quiet, 2) == {"n": 1, "id": "a", "a": 2}, "what came before it, with its changes"
    assert after(scene, quiet, 3) == {"n": 6, "id": "a", "a": 2}
    assert all(entry(scene, lsn).image is None for lsn in (1, 2, 3, 4))


def test_unknown_properties_are_left_out(scene: Scene, quiet: Table) -> None:
    scene.write(lambda t: t.put(quiet, "a", {"n": 1}))
    scene.write(lambda t: t.patch(quiet, "a", {"a": 2}))
    scene.write(lambda t: t.patch(quiet, "a", {"a": 3}))
    writer = scene.database.writer()
    scene.database.log.prune(writer, float("inf"), 1)
    scene.database.env.touch()
    scene.store.commit_turn()
    assert after(scene, quiet, 2) == {"id": "a", "a": 2}


def test_a_patch_that_makes_a_record(scene: Scene, quiet: Table) -> None:
    for table in (scene.table, quiet):
        scene.write(lambda t, table=table: t.put(table, "a", {"n": 1}, expires_at=scene.clock.wall() * 1000 + 500))  # type: ignore[misc]
        scene.write(lambda t, table=table: t.patch(table, "a", {"a": 2}))  # type: ignore[misc]
        scene.write(lambda t, table=table: t.patch(table, "a", {"a": 3}))  # type: ignore[misc]
    assert after(scene, scene.table, 2) == {"id": "a", "a": 2} == after(scene, quiet, 5), "of the expired one nothing is left"


def test_increments_are_carried_out(scene: Scene) -> None:
    table = scene.table
    scene.put("a", a=1)
    scene.write(lambda t: t.patch(table, "a", {"a": Add(2), "b": Add(1)}))
    scene.write(lambda t: t.patch(table, "a", {"a": Add(2)}))
    assert after(scene, table, 2) == {"a": 3, "id": "a", "b": 1}
    assert members(scene, 2, View(table, raw=True))[2] == {"a": {"__op__": "add", "value": 2}, "b": {"__op__": "add", "value": 1}}


def test_increments_make_a_record(scene: Scene, quiet: Table) -> None:
    """There is nothing to add them to; of what has expired nothing counts."""
    for table in (scene.table, quiet):
        scene.write(lambda t, table=table: t.patch(table, "a", {"n": Add(2), "a": 1}))  # type: ignore[misc]
        scene.write(lambda t, table=table: t.patch(table, "a", {"n": Add(3)}))  # type: ignore[misc]
        scene.write(lambda t, table=table: t.put(table, "a", {"n": 7}, expires_at=scene.clock.wall() * 1000 + 500))  # type: ignore[misc]
        scene.write(lambda t, table=table: t.patch(table, "a", {"n": Add(4)}))  # type: ignore[misc]
        scene.write(lambda t, table=table: t.patch(table, "a", {"n": Add(5)}))  # type: ignore[misc]
    for first, table in ((1, scene.table), (6, quiet)):
        assert after(scene, table, first) == {"id": "a", "n": 2, "a": 1}
        assert after(scene, table, first + 1) == {"id": "a", "n": 5, "a": 1}
        assert after(scene, table, first + 3) == {"id": "a", "n": 4}
        assert after(scene, table, first + 4) == {"id": "a", "n": 9}
    raw = members(scene, 1, View(scene.table, raw=True))[2]
    assert raw == {"id": "a", "n": {"__op__": "add", "value": 2}, "a": 1}


# -- writes of other nodes that came late: what they say is not what the record is


def late(scene: Scene, kind: int, version: float, data: dict[str, Any] | None) -> None:
    sent = remote.transaction(1, version, [remote.entry(kind, "a", data, "Note", primary="id")])
    remote.apply_all(scene.database, [(remote.origin("b"), sent)])


def test_an_entry_that_was_merged_has_the_record_that_came_of_it(scene: Scene) -> None:
    scene.database.enable_replication()
    scene.write(lambda t: t.patch(scene.table, "a", {"a": 1}))
    scene.write(lambda t: t.patch(scene.table, "a", {"b": 2}))
    start = remote.START
    late(scene, PUT, start - 1, {"a": 0, "secret": "s"})
    late(scene, PATCH, start + 1, {"a": 5, "secret": "t"})
    late(scene, PATCH, start - 2, {"secret": "void"})  # a put is newer
    late(scene, PATCH, start + 0.5, {"a": 4})  # an assignment is newer
    late(scene, DELETE, start + 0.25, None)  # all that is there is newer
    expected = [
        ("put", "a", {"a": 1, "secret": "s", "id": "a", "b": 2}),
        ("put", "a", {"a": 5, "secret": "t", "id": "a", "b": 2}),
        None,
        None,
    ]
    for view in (View(scene.table), View(scene.table, raw=True)):
        found = [Change(scene.table, entry(scene, lsn), scene.database.snapshot()).event(view) for lsn in range(3, 7)]
        assert [each and (each.type, each.id, each.value) for each in found] == expected
    scene.put("a", a=9)
    found = [Change(scene.table, entry(scene, lsn), scene.database.snapshot()).event(View(scene.table)) for lsn in range(3, 7)]
    assert [each and (each.type, each.id, each.value) for each in found] == expected
    scene.store.check()


def test_subscribers_and_live_queries_see_what_came_of_a_late_write(scene: Scene) -> None:
    scene.database.enable_replication()
    scene.write(lambda t: t.patch(scene.table, "a", {"a": 1}))
    late(scene, PUT, remote.START - 1, {"a": 0, "b": "late"})
    late(scene, DELETE, remote.START - 0.5, None)
    snapshot = scene.database.snapshot()
    put, delete = entry(scene, 2), entry(scene, 3)
    assert needs_snapshot(put) and needs_snapshot(delete)
    first, second = change_of(scene.table, put, put, snapshot), change_of(scene.table, delete, delete, snapshot)
    records = [None if raw is None else decode(raw) for raw in (first.before, first.after, second.before, second.after)]
    assert records == [{"a": 1, "id": "a"}, {"a": 1, "id": "a", "b": "late"}, {"a": 1, "id": "a", "b": "late"}, {"a": 1, "id": "a"}]


def test_changes_of_other_nodes_come_once_to_each_and_name_the_node(scene: Scene) -> None:
    scene.database.enable_replication()
    table, one = scene.subscribe(), scene.subscribe(key="a")
    assert scene.take(table) == scene.take(one) == []
    scene.put("a", a=1)
    for lsn, text in enumerate(("first", "second", "third"), 1):
        message = RemoteEntry(MESSAGE, "Note", encode_key("a"), frame(encode_payload({"b": text}), 1.0, 1, None))
        sent = remote.transaction(lsn, remote.START - lsn, [message])  # older than the one before: the order is that of arrival
        remote.apply_all(scene.database, [(remote.origin("b"), sent)])
    sent = remote.transaction(9, remote.START + 1e6, [remote.entry(PUT, "a", {"a": 2}, "Note", primary="id")])
    remote.apply_all(scene.database, [(remote.origin("c"), sent)])
    scene.put("b", a=3)
    for source, keys in ((table, "aaaaab"), (one, "aaaaa")):
        events = scene.take(source)
        assert [event.id for event in events] == list(keys)
        assert [event.node for event in events] == [None, "b", "b", "b", "c", None][: len(keys)]
        assert [event.value["b"] for event in events[1:4]] == ["first", "second", "third"]
        for native in (True, False):
            assert [event.members(native).get("node") for event in events] == [event.node for event in events]
        assert "node" not in events[0].members(False)
