"""What a rule refers to is as it is at the commit that an event tells, or later, whichever process has written both (spec: rows §1.6, security §10)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from svc.store.schema import Allow, Attribute, TableDefinition
from svc.store.system import SYSTEM, USER_TABLE
from tests.support.hub import Sibling
from tests.support.scene import NOTE
from tests.unit.realtime.test_rights_at_commit import World, reader

pytestmark = pytest.mark.programs

PERSON = TableDefinition("Person", attributes=(Attribute("id", "ID", primary_key=True), Attribute("team")), account=True)
SHOWN = ("plain", "kept")


@pytest.fixture(scope="module")
def other() -> Iterator[Sibling]:
    sibling = Sibling()
    yield sibling
    sibling.stop()


@pytest.fixture(params=["data", "people"])
def world(tmp_path: Path, other: Sibling, request: pytest.FixtureRequest) -> Iterator[World]:
    """`people`: accounts have a database of their own."""
    found = World(tmp_path / "store", other)
    found.store.open_database(request.param).define_table(PERSON)
    found.database.define_table(replace(NOTE, allow=(Allow(("ann",), read="b==$user.team"), Allow(("blind",), read="false"))))
    found.people = request.param  # type: ignore[attr-defined]
    found.other.close()
    found.other.open(tmp_path / "store")
    found.elsewhere([request.param, "Person", "put", "ann", {"id": "ann", "team": "red"}])
    found.live._dispatcher.check_definitions()  # as it does once a second
    found.all()
    yield found
    found.close()


def keys(found: dict[str, list[Any]]) -> dict[str, list[Any]]:
    rows = {name: [event for event in events if event["type"] not in ("reset", "ready")] for name, events in found.items()}
    return {name: [(event["type"], event["id"]) for event in rows[name]] for name in ("records", *SHOWN)}


def test_a_member_is_told(world: World) -> None:
    world.elsewhere(["data", "Note", "put", "1", {"id": "1", "a": 1, "b": "red"}])
    assert keys(world.all()) == {"records": [("put", "1")], "plain": [("enter", "1")], "kept": [("enter", "1")]}


@pytest.mark.parametrize("at_once", [True, False])
def test_one_that_was_put_out_before_is_not(world: World, at_once: bool) -> None:
    """Both commits are seen together, or in one transaction."""
    people: str = world.people  # type: ignore[attr-defined]
    out = [people, "Person", "put", "ann", {"id": "ann", "team": "blue"}]
    note = ["data", "Note", "put", "2", {"id": "2", "a": 1, "b": "red"}]
    if at_once:
        world.elsewhere(out, note)
    else:
        world.elsewhere(out)
        world.elsewhere(note)
    assert keys(world.all()) == {"records": [], "plain": [], "kept": []}
    world.elsewhere(["data", "Note", "put", "3", {"id": "3", "a": 1, "b": "blue"}])
    assert keys(world.all()) == {"records": [("put", "3")], "plain": [("enter", "3")], "kept": [("enter", "3")]}


def test_own_writes_of_one_turn(world: World) -> None:
    table = world.store.databases[world.people].tables["Person"]  # type: ignore[attr-defined]
    world.write(
        lambda t: t.put(table, "ann", {"id": "ann", "team": "blue"}),
        lambda t: t.put(world.table, "2", {"id": "2", "a": 1, "b": "red"}),
        lambda t: t.put(world.table, "3", {"id": "3", "a": 1, "b": "blue"}),
    )
    assert keys(world.all()) == {"records": [("put", "3")], "plain": [("enter", "3")], "kept": [("enter", "3")]}


def test_another_role_of_the_same_turn(world: World) -> None:
    system = world.store.databases[SYSTEM]
    world.write(lambda t: t.put(system.tables["svc_role"], "blind", {"role": "blind", "permission": reader()}))
    world.all()
    world.elsewhere(
        [SYSTEM, USER_TABLE, "put", "ann", {"role": "blind", "active": True}], ["data", "Note", "put", "4", {"id": "4", "a": 1, "b": "red"}]
    )
    found = keys(world.all())
    assert found == {"records": [], "plain": [], "kept": []}
