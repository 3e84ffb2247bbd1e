"""svc.realtime.subscriber_group: a change is tested once for all members of a group."""

from typing import Any

import pytest

from svc.errors import QueryError
from svc.query.nodes import Comparator, Condition, Filter, Group
from svc.realtime.changes import Change, View
from svc.realtime.subscriber_group import SubscriberGroup, event_predicate
from svc.realtime.targets import Target
from svc.store import Table
from svc.store.schema import Attribute, TableDefinition
from tests.support.scene import NOTE, Scene

EVERYTHING = Target(None, None)


def is_a(value: Any) -> Filter:
    return Condition(("a",), Comparator.EQUALS, value)


def admitted(scene: Scene, group: SubscriberGroup) -> list[int]:
    """The LSNs of the changes that it delivers."""
    log, snapshot = scene.database.log, scene.database.snapshot()
    changes = [Change(scene.table, entry, snapshot) for entry in log.read(snapshot)]
    return [change.lsn for change in changes if group.event(change) is not None]


def test_the_value_decides_where_there_is_one(scene: Scene) -> None:
    table = scene.table
    scene.put("a", a=1)
    scene.put("b", a=2)
    scene.write(lambda t: t.patch(table, "b", {"a": 1}), lambda t: t.delete(table, "a"), lambda t: t.invalidate(table, "b"))
    scene.write(
        lambda t: t.publish(table, None, {"a": 1}), lambda t: t.publish(table, None, {"a": 2}), lambda t: t.publish(table, None, [1])
    )
    assert admitted(scene, SubscriberGroup(EVERYTHING, is_a(1), View(table))) == [1, 3, 4, 5, 6]
    assert admitted(scene, SubscriberGroup(EVERYTHING, is_a(None), View(table))) == [4, 5, 8], (
        "a value that is not an object has no properties"
    )
    assert admitted(scene, SubscriberGroup(EVERYTHING, None, View(table))) == [1, 2, 3, 4, 5, 6, 7, 8]


def test_a_record_that_is_empty_is_a_record(scene: Scene) -> None:
    scene.put("a")
    assert admitted(scene, SubscriberGroup(EVERYTHING, is_a(None), View(scene.table))) == [1]


def test_the_condition_follows_the_definition(scene: Scene) -> None:
    """An attribute with a new computation, and one that is gone."""
    name = Attribute("double", computed_from="a * 2", indexed=True)
    table: Table = scene.database.define_table(TableDefinition("Note", attributes=(*NOTE.attributes, name)))
    scene.put("a", a=2)
    group = SubscriberGroup(EVERYTHING, Condition(("double",), Comparator.EQUALS, 4), View(table))
    assert admitted(scene, group) == [1]
    changed = Attribute("double", computed_from="a * 4", indexed=True)
    scene.database.define_table(TableDefinition("Note", attributes=(*NOTE.attributes, changed)))
    assert admitted(scene, group) == []
    scene.database.define_table(NOTE)
    assert admitted(scene, group) == [] and admitted(scene, group) == [], "judged as before"


def test_conditions_that_need_other_records_are_refused(scene: Scene) -> None:
    with pytest.raises(QueryError):
        event_predicate(Group("and", (is_a(1), Condition(("unknown",), Comparator.EQUALS, 1))), scene.table)
    assert event_predicate(is_a(1), scene.table)
