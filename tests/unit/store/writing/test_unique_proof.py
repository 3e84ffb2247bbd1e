"""svc.store.writing.unique_proof: attributes become unique while records are written."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest

from svc.clock import FakeClock
from svc.errors import NotUnique, SchemaError
from svc.store import Store, Table, database
from svc.store.schema import Attribute, TableDefinition
from svc.store.values.keys import after, decode_key, index_key
from svc.store.values.records import decode
from svc.store.writing import duplicates, unique_proof
from svc.store.writing.unique_proof import DefinitionProof, UnprovedChange, prove
from tests.support.fakes import TickingClock
from tests.support.indexes import rebuild_index
from tests.unit.store.writing.test_long_write import Turns

RECORDS = 400
KEY = Attribute("id", "ID", primary_key=True)


def definition(mail: Attribute | None = None, *more: Attribute) -> TableDefinition:
    return TableDefinition("T", attributes=(KEY, mail or Attribute("mail", "String", indexed=True), *more), primary_key="id")


UNIQUE = definition(Attribute("mail", "String", indexed=True, unique=True))


@pytest.fixture
def clock() -> FakeClock:
    return TickingClock(looks_a_slice=3)


@pytest.fixture(autouse=True)
def small_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unique_proof, "SMALL", 10)
    monkeypatch.setattr(unique_proof, "FEW", 5)
    monkeypatch.setattr(unique_proof, "LOOKED_AT", 2)
    monkeypatch.setattr(duplicates, "STEP", 8)


@pytest.fixture(params=[True, False], ids=["indexed", "not indexed"])
def table(request: pytest.FixtureRequest, open_store: Callable[..., Store]) -> Table:
    made = open_store().open_database("data").define_table(definition(Attribute("mail", "String", indexed=request.param)))
    write(made, {f"{number:03}": f"m{number:03}" for number in range(RECORDS)})
    return made


@pytest.fixture
def turns(table: Table) -> Iterator[Turns]:
    turns = Turns(table.database.store)
    yield turns
    turns.close()


def write(table: Table, mails: dict[str, str | None], attribute: str = "mail") -> None:
    """A committed write of its own for each record. None: it is deleted."""
    for key, mail in mails.items():
        transaction = table.database.store.begin()
        if mail is None:
            transaction.delete(table, key)
        else:
            transaction.put(table, key, {"id": key, attribute: mail})
        transaction.apply()
        table.database.store.commit_turn()


async def make_unique(table: Table, wanted: TableDefinition = UNIQUE, between: Callable[[], None] = lambda: None) -> Table:
    """`between` is called when the proof is complete."""
    while True:
        proof = await prove(table.database, wanted)
        assert proof is not None
        between()
        try:
            return table.database.define_table(wanted, proof=proof)
        except UnprovedChange:
            continue
        finally:
            proof.close()


def at_turn(turns: Turns, wanted: int, table: Table, mails: dict[str, str | None]) -> tuple[Any, int]:
    """The result with these writes after so many turns, and how many turns it took."""
    task = turns.start(make_unique(table))
    taken = 0
    while not task.done():
        if taken == wanted:
            write(table, mails)
        turns.turn()
        taken += 1
    assert taken > wanted, "there were no so many turns"
    table.database.check()
    return task, taken


def mails(table: Table) -> list[Any]:
    table.database.env.end_snapshot()
    return [decode(raw).get("mail") for _, raw in table.scan(table.database.snapshot())]


def test_it_takes_many_turns_and_holds_then(turns: Turns, table: Table) -> None:
    task, taken = at_turn(turns, 0, table, {})
    assert taken > 10
    assert task.result() is table and table.definition == UNIQUE
    with pytest.raises(NotUnique):
        write(table, {"new": "m007"})
    turns.turn()
    assert not table.database.env.open_snapshots(), "its snapshot is closed"


@pytest.mark.parametrize("turn", [0, 1, 4, 8])
@pytest.mark.parametrize("twin", ["m001", "m200", "m399"])
def test_a_duplicate_that_is_written_meanwhile(turns: Turns, table: Table, turn: int, twin: str) -> None:
    before, had_index = table.definition, "mail" in table.indexes
    task, _ = at_turn(turns, turn, table, {"100b": twin})
    with pytest.raises(SchemaError) as caught:
        task.result()
    keys = sorted(['"100b"', f'"{twin[1:]}"'])
    assert caught.value.message == f'T.mail cannot be @unique: 1 value is that of several records: "{twin}" ({", ".join(keys)})'
    assert table.definition is before and ("mail" in table.indexes) is had_index
    write(table, {"100b": "other"})
    assert turns.finish(make_unique(table)) is table and table.definition == UNIQUE


@pytest.mark.parametrize("turn", [0, 1, 4, 8])
def test_values_that_change_hands_meanwhile(turns: Turns, table: Table, turn: int) -> None:
    """More of them than the switch looks at."""
    moved: dict[str, str | None] = {f"{number:03}": f"moved {number}" for number in range(0, RECORDS, 20)}
    moved |= {"399": None, "x": "m399", "y": "m000", "z": "m020", "040": "m060"}
    task, _ = at_turn(turns, turn, table, moved)
    assert task.result() is table and table.definition == UNIQUE
    for twin in ("m399", "m000", "m020", "m060", "moved 60"):
        with pytest.raises(NotUnique):
            write(table, {"new": twin})
    write(table, {"new": "m040"})


def test_a_duplicate_between_proof_and_switch(turns: Turns, table: Table) -> None:
    calls = []

    def between() -> None:
        calls.append(len(calls))
        write(table, {"twin": "m007"} if len(calls) == 1 else {})

    with pytest.raises(SchemaError, match=r'1 value is that of several records: "m007" \("007", "twin"\)'):
        turns.finish(make_unique(table, between=between))
    assert calls == [0], "the second scan has found it"
    assert not table.definition.attributes[1].unique


def test_many_writes_between_proof_and_switch_are_not_looked_at_there(turns: Turns, table: Table) -> None:
    calls = []

    def between() -> None:
        calls.append(len(calls))
        if len(calls) == 1:
            write(table, {f"late {number}": f"late {number}" for number in range(unique_proof.FEW + 1)})

    assert turns.finish(make_unique(table, between=between)) is table
    assert calls == [0, 1] and table.definition == UNIQUE


def test_a_definition_that_changes_meanwhile(turns: Turns, table: Table) -> None:
    task = turns.start(make_unique(table))
    turns.turn()
    turns.turn()
    other = definition(table.attributes["mail"], Attribute("more", "Int"))
    table.database.define_table(other)
    turns.until(task.done)
    assert task.result() is table and table.definition == UNIQUE


def test_a_table_that_is_dropped_meanwhile(turns: Turns, table: Table) -> None:
    task = turns.start(prove(table.database, UNIQUE))
    turns.turn()
    turns.turn()
    table.database.drop_table("T")
    turns.until(task.done)
    assert task.result() is None


@pytest.mark.parametrize("table", [True], indirect=True)
def test_an_index_that_is_built_again_meanwhile(turns: Turns, table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("svc.store.database.BUILD_AT_ONCE", 0)
    task = turns.start(make_unique(table))
    turns.turn()
    turns.turn()
    rebuild_index(table, "mail")
    turns.until(task.done)
    assert task.result() is table and table.definition == UNIQUE


def test_an_end_before_its_end_leaves_nothing(turns: Turns, table: Table) -> None:
    task = turns.start(make_unique(table))
    turns.turn()
    turns.turn()
    task.cancel()
    turns.until(task.done)
    assert task.cancelled() and not table.database.env.open_snapshots() and table.definition != UNIQUE


def test_values_that_get_another_name(turns: Turns, table: Table) -> None:
    renamed = definition(Attribute("post", "String", indexed=True, unique=True, renamed_from="mail"))
    write(table, {"twin": "m007"})
    with pytest.raises(SchemaError, match=r'T.post cannot be @unique: 1 value is that of several records: "m007" \("007", "twin"\)'):
        turns.finish(make_unique(table, renamed))
    write(table, {"twin": "other"})
    assert turns.finish(make_unique(table, renamed)) is table
    while any(not index.ready for index in table.index_list) or table.moves is not None:
        table.database.store.maintenance(1.0)
    with pytest.raises(NotUnique):
        write(table, {"new": "m007"}, "post")
    table.database.check()


def test_values_that_get_the_name_of_an_attribute_that_is_unique_already(turns: Turns, table: Table) -> None:
    unique = Attribute("post", "String", indexed=True, unique=True)
    both = definition(Attribute("mail", "String"), unique)
    assert turns.finish(make_unique(table, both)) is table
    write(table, {"twin": "m007"}, "post")
    renamed = definition(replace(unique, renamed_from="mail"))
    with pytest.raises(SchemaError, match=r'T.post cannot be @unique: 1 value is that of several records: "m007" \("007", "twin"\)'):
        turns.finish(make_unique(table, renamed))
    assert table.definition == both and table.moves is None
    write(table, {"twin": "other"}, "post")
    assert turns.finish(make_unique(table, renamed)) is table


def test_a_table_that_gets_another_name(turns: Turns, table: Table) -> None:
    wanted = replace(UNIQUE, name="New", renamed_from="T")
    new = turns.finish(make_unique(table, wanted))
    assert new.name == "New"
    with pytest.raises(NotUnique):
        write(new, {"new": "m007"})


def test_what_has_expired_does_not_count(turns: Turns, table: Table, clock: FakeClock) -> None:
    transaction = table.database.store.begin()
    transaction.put(table, "old", {"id": "old", "mail": "m007"}, expires_at=clock.wall() * 1000 - 1)
    transaction.apply()
    table.database.store.commit_turn()
    assert turns.finish(make_unique(table)) is table and table.definition == UNIQUE


def test_what_needs_no_proof(turns: Turns, table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    assert turns.finish(prove(table.database, table.definition)) is None
    assert turns.finish(prove(table.database, replace(UNIQUE, name="Other"))) is None
    monkeypatch.setattr(unique_proof, "SMALL", RECORDS)
    assert turns.finish(prove(table.database, UNIQUE)) is None


def test_many_duplicates_end_the_search(turns: Turns, table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(duplicates, "MOST_COUNTED", 16)
    write(table, {f"b{number:03}": f"m{number:03}" for number in range(RECORDS)})
    with pytest.raises(
        SchemaError, match=r'cannot be @unique: \d\d or more values are that of several records: "m000" \("000", "b000"\), "m001"'
    ):
        turns.finish(make_unique(table))
    write(table, {f"b{number:03}": "one" for number in range(RECORDS)})
    with pytest.raises(SchemaError, match=r'1 value is that of several records: "one" \("b000", "b001", "b002", \.\.\.\)'):
        turns.finish(make_unique(table))


def test_only_a_complete_proof_counts(table: Table) -> None:
    proof = unique_proof._proof_of(table.database, UNIQUE)
    assert isinstance(proof, DefinitionProof)
    with pytest.raises(UnprovedChange):
        table.database.define_table(UNIQUE, proof=proof)
    proof.close()
    assert table.definition != UNIQUE


# -- names of attributes


RENAMED = definition(Attribute("post", "String", indexed=True, renamed_from="mail"))


@pytest.fixture
def indexed(open_store: Callable[..., Store]) -> Table:
    made = open_store().open_database("data").define_table(definition())
    write(made, {f"{number:03}": f"m{number:03}" for number in range(RECORDS)})
    return made


def found(table: Table, value: str, attribute: str = "post") -> list[str]:
    key = index_key(value)
    return [decode_key(stored) for _, stored in table.indexes[attribute].scan(table.database.snapshot(), key, after(key))]  # type: ignore[misc]


def renamed(turns: Turns, table: Table, wanted: TableDefinition = RENAMED, between: Callable[[], None] = lambda: None) -> Table:
    made: Table = turns.finish(make_unique(table, wanted, between))
    return made


@pytest.fixture
def indexed_turns(indexed: Table) -> Iterator[Turns]:
    turns = Turns(indexed.database.store)
    yield turns
    turns.close()


def test_an_index_stays_when_its_attribute_gets_another_name(indexed: Table, indexed_turns: Turns, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(database, "BUILD_AT_ONCE", 0)
    handle = indexed.indexes["mail"].handle
    table = renamed(indexed_turns, indexed)
    assert table.moves is not None and list(table.indexes) == ["post"]
    assert table.indexes["post"].ready and table.indexes["post"].handle is handle
    assert found(table, "m007") == ["007"]
    write(table, {"007": "new", "008": None}, "post")
    write(table, {"009": "old"}, "mail")  # under a name that means nothing any more
    assert (found(table, "m007"), found(table, "new"), found(table, "m008"), found(table, "m009")) == ([], ["007"], [], [])
    table.database.store.check()
    while table.database.store.maintenance(1.0) or table.moves is not None:
        pass
    assert found(table, "m010") == ["010"] and found(table, "new") == ["007"]
    table.database.store.check()


def test_an_index_that_stays_is_found_after_a_restart_and_its_name_used_again(
    indexed: Table, indexed_turns: Turns, open_store: Callable[..., Store]
) -> None:
    renamed(indexed_turns, indexed)
    indexed_turns.close()
    again = open_store().databases["data"]
    assert found(again.tables["T"], "m007") == ["007"]
    table = again.define_table(definition(Attribute("post", "String", indexed=True), Attribute("mail", "String", indexed=True)))
    assert table.indexes["mail"].handle is not table.indexes["post"].handle
    again.store.check()
    again.drop_table("T")
    again.store.check()


@pytest.mark.parametrize("is_unique", [False, True])
def test_a_name_that_is_used_has_the_index_built_again(indexed: Table, indexed_turns: Turns, is_unique: bool) -> None:
    if is_unique:
        indexed.database.define_table(UNIQUE)
    write(indexed, {"new": "m007"}, "post")
    wanted = definition(Attribute("post", "String", indexed=True, unique=is_unique, renamed_from="mail"))
    if is_unique:
        with pytest.raises(SchemaError, match='"m007" \\("007", "new"\\)'):
            renamed(indexed_turns, indexed, wanted)
        assert found(indexed, "m007", "mail") == ["007"]
    else:
        assert found(renamed(indexed_turns, indexed, wanted), "m007") == ["007", "new"]
    indexed.database.store.check()


def test_a_name_that_comes_into_use_meanwhile(indexed: Table, indexed_turns: Turns) -> None:
    """Whenever it does, the index has what the records have."""
    for turn in (1, 30, 90):
        task = indexed_turns.start(make_unique(indexed, RENAMED))
        taken = 0
        while not task.done():
            if taken == turn:
                write(indexed, {"new": f"x{turn}"}, "post")
            indexed_turns.turn()
            taken += 1
        assert task.result() is indexed
        assert found(indexed, f"x{turn}") == (["new"] if taken > turn else [])
        indexed.database.store.check()
        while indexed.database.store.maintenance(1.0) or indexed.moves is not None:
            pass
        write(indexed, {"new": None})
        indexed.database.define_table(definition(Attribute("mail", "String", indexed=True, renamed_from="post")))
        while indexed.database.store.maintenance(1.0) or indexed.moves is not None:
            pass


def test_a_name_that_comes_into_use_before_the_switch(indexed: Table, indexed_turns: Turns) -> None:
    writes = iter([{"new": "late"}])
    table = renamed(indexed_turns, indexed, between=lambda: write(indexed, next(writes, {}), "post"))
    assert found(table, "late") == ["new"] and found(table, "m007") == ["007"]
    table.database.store.check()


def test_what_is_unique_stays_so_under_another_name(indexed: Table, indexed_turns: Turns, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without its values being compared."""
    indexed.database.define_table(UNIQUE)
    monkeypatch.setattr(unique_proof, "search_records", lambda *of: pytest.fail("compared"))
    monkeypatch.setattr(unique_proof, "search_index", lambda *of: pytest.fail("compared"))
    wanted = definition(Attribute("post", "String", indexed=True, unique=True, renamed_from="mail"))
    assert unique_proof.unproved(indexed.database, wanted) == ()
    table = renamed(indexed_turns, indexed, wanted)
    with pytest.raises(NotUnique):
        write(table, {"twin": "m007"}, "post")
    table.database.store.commit_turn()
    table.database.store.check()
