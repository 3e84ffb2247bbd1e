"""svc.apps.plugins.tables: `ensure_table`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from svc.apps.plugins.tables import table_maker
from svc.errors import SchemaError
from tests.support.application import Application, application


@pytest.fixture(scope="module")
def app(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Application]:
    with application(tmp_path_factory.mktemp("tables"), "") as made:
        yield made


def test_a_table_is_made_and_gets_what_it_lacks(app: Application) -> None:
    ensure = table_maker(app.node.interface)
    made = ensure({"table": "Words", "primaryKey": "word", "attributes": [{"name": "word"}, {"name": "counts", "elements": "Int"}]})
    assert made is app.tables.Words and made._table.primary_key == "word"
    assert ensure(table="Words") is made, "as it is"
    ensure(table="Words", attributes=[{"name": "more", "type": "Long", "indexed": True, "nullable": True}])
    assert list(app.tables.Words._table.attributes) == ["word", "counts", "more"]
    assert ensure(table="Own", database="other")._table.database.name == "other"
    assert ensure(table="Dynamic")._table.definition.dynamic


@pytest.mark.parametrize(
    ("given", "fault", "said"),
    [
        ({}, TypeError, "needs the name of a table"),
        ({"table": 5}, TypeError, "needs the name of a table"),
        ({"table": "X", "hash": "id"}, TypeError, "has no 'hash'"),
        ({"table": "X", "attributes": ["id"]}, TypeError, "an attribute is a mapping"),
        ({"table": "X", "attributes": [{"type": "Int"}]}, TypeError, "needs a name"),
        ({"table": "X", "attributes": [{"name": "a", "type": "int"}]}, ValueError, "the type is one of"),
        ({"table": "X", "attributes": [{"name": "a", "unique": True}]}, TypeError, "has no 'unique'"),
        ({"table": "X", "attributes": [{"name": name, "is_primary_key": True} for name in "ab"]}, ValueError, "several primary keys"),
        ({"table": "X", "attributes": [{"name": "a"}, {"name": "a"}]}, SchemaError, "."),
        ({"table": "X", "database": "a/b"}, SchemaError, "."),
        ({"table": "X" * 1000}, SchemaError, "."),
        ({"table": "X", "attributes": [{"name": "a", "type": "Blob", "is_primary_key": True}]}, ValueError, "cannot be the primary key"),
        ({"table": "X", "attributes": 5}, TypeError, "attributes is a list"),
        ({"table": "X", "primary_key": 5}, TypeError, "primary_key is the name"),
        ({"table": "X", "database": 5}, TypeError, "database is the name"),
    ],
)
def test_what_is_no_table_is_refused(app: Application, given: dict[str, Any], fault: type[Exception], said: str) -> None:
    with pytest.raises(fault, match=said):
        table_maker(app.node.interface)(given)
