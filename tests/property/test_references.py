"""Deletions in tables that refer to each other and to themselves, beside a model of plain dicts (spec: schema-and-store §4.4)."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from svc.errors import StillReferenced
from svc.store import Store, StoreSettings, Table
from svc.store.schema import ON_DELETE, Attribute, Relationship, TableDefinition
from svc.store.values.records import decode
from svc.store.writing import references, transaction
from svc.store.writing.references import NeedsLongWrite
from svc.testing.loop import Pool
from tests.support.fakes import TickingClock
from tests.support.profile import examples
from tests.unit.store.writing.test_long_write import Turns

TABLES = ("A", "B", "C")
KEYS = range(4)

Link = tuple[str, str, str]  # to which table, what its deletions entail, name of the foreign key
Content = dict[tuple[str, int], dict[str, Any]]

links = st.lists(st.tuples(st.sampled_from(TABLES), st.sampled_from((*ON_DELETE, "cascade"))), max_size=2)
values = st.one_of(st.none(), st.sampled_from(KEYS), st.lists(st.sampled_from(KEYS), max_size=3))
writes = st.lists(
    st.tuples(st.sampled_from(("delete", "delete", "put")), st.sampled_from(TABLES), st.sampled_from(KEYS), values, values),
    min_size=1,
    max_size=5,
)


def definition(name: str, given_links: list[tuple[str, str]]) -> TableDefinition:
    attributes = [Attribute("id", primary_key=True)]
    for number, (target, on_delete) in enumerate(given_links):
        attributes.append(Attribute(f"f{number}", indexed=True))
        attributes.append(Attribute(f"r{number}", target, relationship=Relationship(target, f"f{number}", None, on_delete)))
    return TableDefinition(name, attributes=tuple(attributes))


def names(value: Any, key: int) -> bool:
    return key in value if isinstance(value, list) else value == key


def carry_out(content: Content, schema: dict[str, list[tuple[str, str]]], todo: list[Any]) -> Content | None:
    """None: the transaction is refused."""
    result = {address: dict(record) for address, record in content.items()}
    restricted: list[tuple[str, int]] = []

    def referring(table: str, key: int, action: str) -> Iterator[tuple[tuple[str, int], str]]:
        for address, record in list(result.items()):
            for number, (target, on_delete) in enumerate(schema[address[0]]):
                if target == table and on_delete == action and address in result and names(record.get(f"f{number}"), key):
                    yield address, f"f{number}"

    def delete(table: str, key: int) -> None:
        if result.pop((table, key), None) is None:
            return
        restricted.append((table, key))
        for address, name in referring(table, key, "setNull"):
            value = result[address][name]
            result[address][name] = [element for element in value if element != key] if isinstance(value, list) else None
        for address, _ in referring(table, key, "cascade"):
            delete(*address)

    for kind, table, key, first, second in todo:
        if kind == "delete":
            delete(table, key)
        else:
            result[table, key] = {"id": key, "f0": first, "f1": second}
    for table, key in restricted:
        if (table, key) not in result and any(True for _ in referring(table, key, "restrict")):
            return None
    return result


@contextmanager
def opened(schema: dict[str, list[tuple[str, str]]]) -> Iterator[dict[str, Table]]:
    with tempfile.TemporaryDirectory(prefix="references-") as directory:
        store = Store(Path(directory), StoreSettings(map_bytes=64 << 20), clock=TickingClock(3), make_helper=Pool)
        try:
            database = store.open_database("data")
            yield {name: database.define_table(definition(name, given_links)) for name, given_links in schema.items()}
        finally:
            store.close()


def visible(tables: dict[str, Table]) -> Content:
    found = {}
    for name, table in tables.items():
        table.database.env.end_snapshot()
        for _, raw in table.scan(table.database.snapshot()):
            record = decode(raw)
            found[name, record["id"]] = record
    return found


@given(
    schema=st.fixed_dictionaries(dict.fromkeys(TABLES, links)),
    start=st.dictionaries(st.tuples(st.sampled_from(TABLES), st.sampled_from(KEYS)), st.tuples(values, values), max_size=12),
    transactions=st.lists(st.tuples(writes, st.booleans()), min_size=1, max_size=3),
    chunk=st.integers(1, 3),
    limit=st.sampled_from((0, 2, 50)),
)
@settings(max_examples=examples(60), deadline=None)
def test_deletions_do_what_the_model_does(
    schema: dict[str, list[tuple[str, str]]], start: dict[Any, Any], transactions: list[Any], chunk: int, limit: int
) -> None:
    with pytest.MonkeyPatch.context() as patch, opened(schema) as tables, closing(Turns(tables["A"].database.store)) as turns:
        patch.setattr(references, "CHUNK", chunk)
        patch.setattr(transaction, "LONG_WRITES", limit)
        store = turns.store
        content: Content = {(name, key): {"id": key, "f0": first, "f1": second} for (name, key), (first, second) in start.items()}
        made = store.begin()
        for (name, key), record in content.items():
            made.put(tables[name], key, dict(record))
        made.apply()
        store.commit_turn()
        for todo, is_long in transactions:
            expected = carry_out(content, schema, todo)
            made = store.begin()
            for kind, name, key, first, second in todo:
                if kind == "delete":
                    made.delete(tables[name], key)
                else:
                    made.put(tables[name], key, {"f0": first, "f1": second})
            try:
                if is_long:
                    turns.finish(made.apply_long())
                else:
                    try:
                        made.apply(wait=False)
                    except NeedsLongWrite:
                        turns.finish(made.apply_long())
            except StillReferenced:
                assert expected is None
            else:
                assert expected is not None
                content = expected
            store.commit_turn()
            assert visible(tables) == content
        store.check()
