"""What `describe_all` tells."""

from __future__ import annotations

import pytest

from svc.cli.sql.answers import StatementFailed
from svc.cli.sql.schema import Schema, SchemaColumn, SchemaSource, SchemaTable, schema_of
from tests.support.cli import FakeAnswer, FakeClient

DESCRIBED = {
    "data": {
        "plant": {
            "record_count": 3,
            "attributes": [
                {"attribute": "id", "type": "ID", "is_primary_key": True, "nullable": False},
                {"attribute": "height", "type": "Int", "indexed": True, "nullable": False, "default": 7, "check": "height > 0"},
                {"attribute": "tags", "type": "array", "elements": "String", "unique": True, "computed": True},
                {"attribute": "other"},
                {"attribute": "parent", "type": "plant"},
                {"attribute": "children", "type": "array", "elements": "plant"},
                {"attribute": "kind", "type": "Kind", "enum": ["tree", "herb"]},
            ],
        }
    },
    "empty": {},
}


def test_columns() -> None:
    assert schema_of(DESCRIBED).find("data", "plant") == SchemaTable(
        "data",
        "plant",
        3,
        (
            SchemaColumn("id", "ID", "primary key"),
            SchemaColumn("height", "Int", "indexed, not null, default 7, check height > 0"),
            SchemaColumn("tags", "[String]", "unique, computed"),
            SchemaColumn("other", "Any"),
            SchemaColumn("kind", "Kind", "one of tree, herb"),
        ),
    )
    assert [table.name for table in schema_of(DESCRIBED).tables()] == ["plant"]
    assert list(schema_of(DESCRIBED).databases) == ["data", "empty"]


@pytest.mark.parametrize("described", [None, [], {"data": 1}, {"data": {"t": 1}}, {"data": {"t": {"attributes": [1, {}]}}}])
def test_other_answers(described: object) -> None:
    assert all(table.columns == () for table in schema_of(described).tables())


def test_asking() -> None:
    client = FakeClient(FakeAnswer(DESCRIBED), FakeAnswer({"error": "Must login"}, 401))
    source = SchemaSource(client)
    assert source.latest == Schema()
    assert source.read() is source.latest
    assert client.sent == [{"operation": "describe_all", "include_computed": True}]
    with pytest.raises(StatementFailed, match="Must login"):
        source.read()
    assert source.latest == schema_of(DESCRIBED)
