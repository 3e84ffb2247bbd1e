"""svc.store.values.computed: values of computed attributes, and their indexes through writes, loads, builds and restarts."""

import logging
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import lmdb
import pytest

from svc.clock import FakeClock
from svc.errors import ClientError, IndexRebuilding, NoSpace, PreconditionFailed, SchemaError
from svc.store import Precondition, Store, Table
from svc.store.database import BUILD_AT_ONCE
from svc.store.definitions import GENERATION_KEY
from svc.store.env import Environment
from svc.store.integrity.check import check_database
from svc.store.schema import Attribute, Structure, TableDefinition
from svc.store.values.computed import computed_attributes
from svc.store.values.keys import decode_key, index_key
from svc.store.writing.bulk_write import load_records

LABEL = Attribute("label", "String", computed_from="hall + '-' + code", indexed=True)
WORDS = Attribute("words", "String", elements=True, computed_from="re.split(' +', title)", indexed=True)
SEAT = TableDefinition(
    "Seat",
    attributes=(Attribute("code", "ID", primary_key=True), Attribute("hall", "String"), Attribute("title", "String"), LABEL, WORDS),
    primary_key="code",
)
CODED = replace(SEAT, attributes=(*SEAT.attributes[:3], replace(LABEL, computed_from="")))


def compute(attribute: Attribute, record: dict[str, Any], structures: tuple[Structure, ...] = ()) -> Any:
    definition = TableDefinition("T", attributes=(Attribute("id", primary_key=True), attribute), structures=structures)
    return computed_attributes(definition, {}, "T")[attribute.name](record)


def entries(table: Table, name: str) -> list[tuple[object, object]]:
    return [(decode_key(key), decode_key(stored)) for key, stored in table.indexes[name].scan(table.database.snapshot())]


def write(table: Table, *records: dict[str, Any]) -> None:
    store = table.database.store
    for record in records:
        transaction = store.begin()
        transaction.put(table, record["code"], dict(record))
        transaction.apply()
    store.commit_turn()


def transact(store: Store, table: Table, precondition: Precondition | None = None) -> None:
    transaction = store.begin()
    transaction.put(table, "a", {"code": "a"})
    transaction.patch(table, "b", {}, precondition)
    transaction.apply()


def define(store: Store, definition: TableDefinition = SEAT) -> Table:
    return store.open_database("data").define_table(definition)


def wait_for_builds(store: Store) -> None:
    while store.maintenance(1.0):
        pass


class TestValues:
    @pytest.mark.parametrize(
        ("attribute", "record", "expected"),
        [
            (Attribute("c", "Int", computed_from="a + 1"), {"a": 1}, 2),
            (Attribute("c", "Int", computed_from="a / 2"), {"a": 4}, 2),
            (Attribute("c", "Date", computed_from="a"), {"a": "2026-01-05"}, datetime(2026, 1, 5, tzinfo=UTC)),
            (Attribute("c", "String", elements=True, computed_from="a, b"), {"a": "x"}, ["x", None]),
            (Attribute("c", "P", computed_from="{'x': a}"), {"a": 1}, {"x": 1}),
            (Attribute("c", computed_from="{'x': (a, {a})}"), {"a": 1}, {"x": [1, [1]]}),
            (Attribute("c", computed_from="missing"), {}, None),
        ],
    )
    def test_values_are_what_the_attribute_says(self, attribute: Attribute, record: dict[str, Any], expected: object) -> None:
        found = compute(attribute, record, (Structure("P", (Attribute("x", "Int", required=True),)),))
        assert found == expected
        assert type(found) is type(expected)

    @pytest.mark.parametrize(
        ("attribute", "record"),
        [
            (Attribute("c", "Int", computed_from="a"), {"a": "1"}),
            (Attribute("c", "Int", computed_from="a"), {"a": 2**40}),
            (Attribute("c", "Int", computed_from="a == 1"), {"a": 1}),
            (Attribute("c", "String", computed_from="[a]"), {"a": "x"}),
            (Attribute("c", "String", elements=True, computed_from="a"), {"a": "x"}),
            (Attribute("c", "String", elements=True, element_required=True, computed_from="[a]"), {}),
            (Attribute("c", "P", computed_from="{'y': a}"), {"a": 1}),
            (Attribute("c", computed_from="float('nan')"), {}),
            (Attribute("c", computed_from="2 ** 2000"), {}),
            (Attribute("c", computed_from="a - b"), {"a": datetime(2026, 1, 5, tzinfo=UTC), "b": datetime(2026, 1, 4, tzinfo=UTC)}),
            (Attribute("c", computed_from="a[0]"), {"a": "\ud800"}),
            (Attribute("c", computed_from="a + 1"), {}),
            (Attribute("c", computed_from="open(a)"), {}),  # stored by another version
        ],
    )
    def test_what_does_not_fit_is_null(self, attribute: Attribute, record: dict[str, Any]) -> None:
        assert compute(attribute, record, (Structure("P", (Attribute("x", "Int", required=True),)),)) is None

    def test_failures_are_debug_lines(self, caplog: pytest.LogCaptureFixture) -> None:
        caplog.set_level(logging.DEBUG, "svc.store")
        compute(Attribute("c", "Int", computed_from="a + 1"), {})
        compute(Attribute("c", "Int", computed_from="a"), {"a": "x"})
        assert [(record.levelname, record.getMessage()) for record in caplog.records] == [
            ("DEBUG", "T.c could not be computed: TypeError: unsupported operand type(s) for +: 'NoneType' and 'int'"),
            ("DEBUG", 'T.c could not be computed: Value "x" in property c must be an integer from -2147483648 to 2147483647'),
        ]

    def test_definitions_that_cannot_be(self, store: Store) -> None:
        for attribute, fault in (
            (replace(LABEL, computed_from="open(code)"), r"Seat\.label: the function open is not known"),
            (replace(LABEL, computed_from="label"), "label, which is not stored"),
            (replace(LABEL, computed_from="words[0]"), "words, which is not stored"),
            (replace(LABEL, type="Blob"), "a Blob cannot be computed"),
        ):
            with pytest.raises(SchemaError, match=fault):
                define(store, replace(SEAT, attributes=(*SEAT.attributes[:3], attribute, WORDS)))


class TestIndex:
    def test_every_kind_of_write(self, store: Store) -> None:
        table = define(store)
        write(table, {"code": "a", "hall": "H", "title": "big red  big"}, {"code": "b"})
        assert entries(table, "label") == [(None, "b"), ("H-a", "a")]
        assert entries(table, "words") == [(None, "b"), ("big", "a"), ("red", "a")]
        write(table, {"code": "a", "hall": "I", "title": "red"})
        assert entries(table, "label") == [(None, "b"), ("I-a", "a")]
        assert entries(table, "words") == [(None, "b"), ("red", "a")]
        transaction = store.begin()
        transaction.patch(table, "b", {"hall": "K"})
        transaction.patch(table, "new", {"hall": "L"})
        transaction.delete(table, "a")
        transaction.apply()
        store.commit_turn()
        assert entries(table, "label") == [("K-b", "b"), ("L-new", "new")]
        assert entries(table, "words") == [(None, "b"), (None, "new")]
        store.check()

    def test_bulk_load(self, store: Store) -> None:
        table = define(store)
        for _ in load_records(table, ({"code": str(number), "hall": "H", "title": f"w{number} x"} for number in range(20))):
            pass
        for _ in load_records(table, ({"code": str(number), "title": "y"} for number in range(15, 25))):
            pass
        assert len(entries(table, "label")) == 25
        assert entries(table, "words")[-10:] == sorted(("y", str(number)) for number in range(15, 25))
        store.check()

    def test_expiry(self, store: Store, clock: FakeClock) -> None:
        table = define(store, replace(SEAT, expiration=10.0))
        write(table, {"code": "a", "hall": "H"})
        wait_for_builds(store)
        clock.advance(3600)
        wait_for_builds(store)
        assert entries(table, "label") == []
        store.check()

    def test_values_that_are_not_kept_are_not_computed_again(self, store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
        table = define(store)
        write(table, {"code": "a", "hall": "H", "other": 1})
        seen: list[dict[str, Any]] = []
        monkeypatch.setattr(type(table.computed["label"]), "__call__", lambda self, record: seen.append(record))
        transaction = store.begin()
        transaction.patch(table, "a", {"other": 2})
        transaction.apply()
        assert seen == []
        store.commit_turn()

    def test_it_is_built_for_records_that_are_there(self, store: Store, open_store: Callable[..., Store]) -> None:
        table = define(store, replace(SEAT, attributes=SEAT.attributes[:3]))
        for _ in load_records(table, ({"code": f"{number:05}", "hall": "H"} for number in range(BUILD_AT_ONCE + 500))):
            pass
        define(store)
        with pytest.raises(IndexRebuilding):
            entries(table, "label")
        write(table, {"code": "00001", "hall": "X"}, {"code": "99999", "hall": "Y"})
        store = open_store()
        wait_for_builds(store)
        table = store.databases["data"].tables["Seat"]
        assert len(entries(table, "label")) == BUILD_AT_ONCE + 501
        assert entries(table, "label")[-2:] == [("X-00001", "00001"), ("Y-99999", "99999")]
        store.check()

    @pytest.mark.parametrize(
        ("old", "new", "rebuilt"),
        [
            (LABEL, replace(LABEL, computed_from="code"), True),
            (replace(LABEL, computed_version="1"), replace(LABEL, computed_version="2"), True),
            (replace(LABEL, computed_version="1"), replace(LABEL, computed_version="1", computed_from="code"), False),
            (LABEL, replace(LABEL, type="Any"), True),
            (LABEL, replace(LABEL, computed_from=None), True),
        ],
    )
    def test_it_is_rebuilt_when_its_version_changes(self, store: Store, old: Attribute, new: Attribute, rebuilt: bool) -> None:
        first, last = SEAT.attributes[:3], WORDS
        table = define(store, replace(SEAT, attributes=(*first, old, last)))
        write(table, {"code": "a", "hall": "H"})
        handle = table.indexes["label"].handle
        table.database.writer().put(index_key("marker"), b"\x10x\0", db=handle)
        table.database.env.touch()
        store.commit_turn()
        define(store, replace(SEAT, attributes=(*first, new, last)))
        assert ("marker" in [key for key, _ in entries(table, "label")]) is not rebuilt
        if rebuilt:
            store.check()

    def test_svc_check_compares_it(self, store: Store) -> None:
        table = define(store)
        write(table, {"code": "a", "hall": "H", "title": "t"}, {"code": "b"})
        path = table.database.env.path
        store.close()
        assert check_database(path).findings == []
        with lmdb.open(str(path), max_dbs=64) as env:
            handle = env.open_db(b"Seat/label", dupsort=True)
            with env.begin(write=True, db=handle) as txn:
                txn.delete(index_key("H-a"))
                txn.put(index_key("Z"), b"\x10b\0")
        assert check_database(path).findings == [
            "The index Seat.label lacks 'H-a' of the record Seat 'a'.",
            "The index Seat.label has 'Z' for Seat 'b', but the record has another value.",
        ]


class TestFunctionsOfTheApplication:
    def test_only_where_the_declaration_leaves_it_open(self, store: Store) -> None:
        table = define(store)
        with pytest.raises(ClientError, match="hall is not a computed attribute of Seat"):
            table.set_computed_attribute("hall", len)
        with pytest.raises(ClientError, match=r"Seat\.label is computed from an expression"):
            table.set_computed_attribute("label", len)

    def test_until_it_is_set_there_is_no_value_and_one_warning(self, store: Store, caplog: pytest.LogCaptureFixture) -> None:
        table = define(store, CODED)
        caplog.clear()
        assert table.computed["label"]({"code": "a"}) is None
        assert table.computed["label"]({"code": "b"}) is None
        assert [record.levelname for record in caplog.records] == ["WARNING"]
        assert caplog.records[0].getMessage().startswith("data.Seat.label has no function")
        table.set_computed_attribute("label", lambda record: record["code"] + "!")
        assert table.computed["label"]({"code": "a"}) == "a!"
        assert table.computed["label"]({}) is None
        table.set_computed_attribute("label", lambda record: 5)
        assert table.computed["label"]({"code": "a"}) is None, "the attribute is text"

    def test_it_survives_a_new_definition(self, store: Store) -> None:
        table = define(store, CODED)
        table.set_computed_attribute("label", lambda record: "x")
        define(store, replace(CODED, sealed=True))
        assert table.computed["label"]({}) == "x"

    def test_its_index(self, store: Store) -> None:
        table = define(store, CODED)
        table.set_computed_attribute("label", lambda record: record["code"] * 2)
        write(table, {"code": "a"}, {"code": "b"})
        assert entries(table, "label") == [("aa", "a"), ("bb", "b")]
        store.check()

    def test_a_write_before_it_is_set_makes_the_index_be_built_again(self, store: Store, open_store: Callable[..., Store]) -> None:
        table = define(store, CODED)
        table.set_computed_attribute("label", lambda record: record["code"] * 2)
        write(table, {"code": "a"}, {"code": "b"}, {"code": "c"})

        store = open_store()
        table = store.databases["data"].tables["Seat"]
        assert entries(table, "label") == [("aa", "a"), ("bb", "b"), ("cc", "c")], "what is there stays as long as nothing changes"
        transaction = store.begin()
        transaction.delete(table, "a")
        transaction.patch(table, "b", {"hall": "H"})
        transaction.apply()
        store.commit_turn()
        with pytest.raises(IndexRebuilding):
            entries(table, "label")
        wait_for_builds(store)
        assert not table.indexes["label"].ready, "it waits for the function"
        store.check()

        table.set_computed_attribute("label", lambda record: record["code"] * 3)
        write(table, {"code": "d"})
        wait_for_builds(store)
        assert entries(table, "label") == [("bbb", "b"), ("ccc", "c"), ("ddd", "d")]
        store.check()

    def test_a_bulk_load_before_it_is_set(self, store: Store) -> None:
        table = define(store, CODED)
        for _ in load_records(table, [{"code": "a"}, {"code": "b"}]):
            pass
        assert not table.indexes["label"].ready
        table.set_computed_attribute("label", lambda record: record["code"])
        wait_for_builds(store)
        assert entries(table, "label") == [("a", "a"), ("b", "b")]

    def test_a_new_index_waits_for_the_function(self, store: Store) -> None:
        table = define(store, replace(CODED, attributes=CODED.attributes[:3]))
        write(table, {"code": "a"})
        define(store, CODED)
        wait_for_builds(store)
        assert not table.indexes["label"].ready
        table.set_computed_attribute("label", lambda record: "x")
        wait_for_builds(store)
        assert entries(table, "label") == [("x", "a")]

    def test_other_processes_learn_that_it_is_outdated(self, store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
        """By the generation of the definitions, which nothing that failed has raised."""
        table = define(store, CODED)
        database = table.database

        def generation() -> bytes:
            return database.snapshot().get(GENERATION_KEY, b"", database.definitions)

        before = generation()
        with pytest.raises(PreconditionFailed):
            transact(store, table, Precondition(if_match="*"))
        store.commit_turn()
        assert table.indexes["label"].ready and generation() == before

        def full(self: Environment) -> None:
            raise NoSpace

        with monkeypatch.context() as patch:
            patch.setattr(Environment, "commit", full)
            transact(store, table)
            assert not table.indexes["label"].ready
            store.commit_turn()
        assert table.indexes["label"].ready and generation() == before
        assert entries(table, "label") == []

        transact(store, table)
        store.commit_turn()
        assert not table.indexes["label"].ready and generation() > before

    def test_svc_check_does_not_know_the_values(self, store: Store) -> None:
        table = define(store, CODED)
        table.set_computed_attribute("label", lambda record: record["code"])
        write(table, {"code": "a"})
        path = table.database.env.path
        store.close()
        report = check_database(path)
        assert report.findings == []
        assert report.notes == ["The values of the index Seat.label, which the application computes, are not compared with the records."]
        with lmdb.open(str(path), max_dbs=64) as env, env.begin(write=True, db=env.open_db(b"Seat/label", dupsort=True)) as txn:
            txn.put(index_key("Z"), b"\x10b\0")
        assert check_database(path).findings == ["The index Seat.label has 'Z' for Seat 'b', but there is no such record."]
