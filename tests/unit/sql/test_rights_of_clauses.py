"""Rights in each clause: what a caller may not read decides nothing that the caller can see, neither rows nor errors (spec: sql §6).

Each statement is asked of two stores that differ in what the caller may not read only: the answers have to be the same. Statements that name it are answered
as if it were not there.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from svc.auth.users import User
from svc.errors import Problem
from svc.sql.errors import MissingRights
from svc.store.schema import Attribute, TableDefinition
from tests.support.sql_engine import SqlStore

ITEM = TableDefinition(
    "Item",
    attributes=(
        Attribute("id", "ID", primary_key=True),
        Attribute("name", "String", indexed=True),
        Attribute("brand", "ID", indexed=True),
        Attribute("size", "Int"),
        Attribute("secret", "String", indexed=True),
        Attribute("level", "Int", indexed=True),
        Attribute("code", "String", indexed=True, unique=True),
        Attribute("tags", "String", elements=True),
    ),
    dynamic=False,
)
BRAND = TableDefinition(
    "Brand", attributes=(Attribute("id", "ID", primary_key=True), Attribute("name", "String"), Attribute("motto", "String"))
)
VAULT = TableDefinition("Vault", attributes=(Attribute("id", "ID", primary_key=True), Attribute("secret", "String", indexed=True)))

READ = {"read": True, "insert": False, "update": False}
WRITTEN = {"read": True, "insert": True, "update": True}
PERMISSIONS = {
    "Item": {
        "read": True, "insert": True, "update": True, "delete": True,
        "attribute_permissions": [
            {"attribute_name": "id", **WRITTEN}, {"attribute_name": "name", **WRITTEN}, {"attribute_name": "brand", **READ},
            {"attribute_name": "size", "read": True, "insert": True, "update": False},
        ],
    },
    "Brand": {"read": True, "insert": False, "update": False, "delete": False, "attribute_permissions": []},
}  # fmt: skip


class Stores:
    """Two that differ in what `user` may not read."""

    def __init__(self, path: Path) -> None:
        self.stores = [SqlStore(path / name, [ITEM, BRAND, VAULT]) for name in ("one", "other")]
        for number, store in enumerate(self.stores):
            hidden = [("a", 1, "x", ["t"]), ("b", 2, "y", []), ("a", 3, "z", ["u", "v"])]
            if number:
                hidden = [("zz", -5, "y", []), ("zz", -5, "x", ["q"]), (None, None, None, None)]
            store.put(
                "Item",
                [
                    {"id": f"i{row}", "name": f"n{row % 2}", "brand": "b1", "size": row}
                    | {name: value for name, value in zip(("secret", "level", "code", "tags"), values, strict=True) if value is not None}
                    for row, values in enumerate(hidden)
                ],
            )
            store.put("Brand", [{"id": "b1", "name": "n0", "motto": "a"}])
            store.put("Vault", [{"id": f"v{number}", "secret": "a"}] * (number + 1))
        self.users: list[User] = [store.user(PERMISSIONS) for store in self.stores]

    def outcome(self, store: int, text: str, parameters: Any = None) -> Any:
        try:
            return self.stores[store].ask(text, parameters, self.users[store])
        except MissingRights as lacking:
            return "rights", lacking.is_hidden, [place[:3] for place in lacking.missing if lacking.is_hidden is False]
        except Problem as problem:
            return problem.status_code, problem.code, problem.message

    def ask(self, text: str, parameters: Any = None) -> Any:
        """What the user gets, the same from both stores."""
        one, other = self.outcome(0, text, parameters), self.outcome(1, text, parameters)
        assert one == other, text
        return one

    def close(self) -> None:
        for store in self.stores:
            store.close()


@pytest.fixture
def stores(tmp_path: Path) -> Iterator[Stores]:
    made = Stores(tmp_path)
    yield made
    made.close()


NAMED = {
    "select list": "SELECT {0} FROM data.Item",
    "expression": "SELECT UPPER({0}) || 'x' FROM data.Item",
    "function": "SELECT COALESCE({0}, 1) FROM data.Item",
    "search in JSON": "SELECT SEARCH_JSON('$', {0}) FROM data.Item",
    "case": "SELECT CASE WHEN {0} = 'a' THEN 1 END FROM data.Item",
    "where": "SELECT id FROM data.Item WHERE {0} = 'a'",
    "where, by range": "SELECT id FROM data.Item WHERE {0} > 'a'",
    "where, is null": "SELECT id FROM data.Item WHERE {0} IS NULL",
    "where, like": "SELECT id FROM data.Item WHERE {0} LIKE 'a%'",
    "where, in": "SELECT id FROM data.Item WHERE {0} IN ('a', 'b')",
    "where, regexp": "SELECT id FROM data.Item WHERE {0} REGEXP 'a'",
    "order": "SELECT id FROM data.Item ORDER BY {0}",
    "order, computed": "SELECT id FROM data.Item ORDER BY LENGTH({0})",
    "limit": "SELECT id FROM data.Item LIMIT (SELECT {0} FROM data.Item)",
    "group": "SELECT COUNT(*) FROM data.Item GROUP BY {0}",
    "having": "SELECT name FROM data.Item GROUP BY name HAVING MAX({0}) > 'a'",
    "distinct": "SELECT DISTINCT {0} FROM data.Item",
    "count": "SELECT COUNT({0}) FROM data.Item",
    "count by index": "SELECT COUNT(*) FROM data.Item WHERE {0} = 'a'",
    "minimum by index": "SELECT MIN({0}), MAX({0}) FROM data.Item",
    "array": "SELECT ARRAY({0}) FROM data.Item",
    "filter": "SELECT COUNT(*) FILTER (WHERE {0} = 'a') FROM data.Item",
    "order in an aggregate": "SELECT GROUP_CONCAT(id ORDER BY {0}) FROM data.Item",
    "window partition": "SELECT ROW_NUMBER() OVER (PARTITION BY {0}) FROM data.Item",
    "window order": "SELECT ROW_NUMBER() OVER (ORDER BY {0}) FROM data.Item",
    "named window": "SELECT COUNT(*) OVER w FROM data.Item WINDOW w AS (ORDER BY {0})",
    "join on": "SELECT 1 FROM data.Item i JOIN data.Brand b ON i.{0} = b.name",
    "join on, the other side": "SELECT 1 FROM data.Brand b LEFT JOIN data.Item i ON b.name = i.{0}",
    "using": "SELECT 1 FROM data.Item JOIN data.Brand USING ({0})",
    "using, of a table of values": "WITH g({0}) AS (VALUES ('a')) SELECT i.id FROM data.Item i JOIN g USING ({0})",
    "scalar sub-select": "SELECT (SELECT {0} FROM data.Item LIMIT 1)",
    "exists": "SELECT id FROM data.Brand b WHERE EXISTS (SELECT 1 FROM data.Item WHERE {0} = b.name)",
    "in a sub-select": "SELECT 1 WHERE 'a' IN (SELECT {0} FROM data.Item)",
    "behind from": "SELECT x FROM (SELECT {0} AS x FROM data.Item) AS t",
    "correlated": "SELECT id FROM data.Item i WHERE EXISTS (SELECT 1 FROM data.Brand WHERE name = i.{0})",
    "with": "WITH w AS (SELECT {0} AS x FROM data.Item) SELECT x FROM w",
    "with, recursive": "WITH RECURSIVE w(x) AS (SELECT {0} FROM data.Item UNION SELECT x || 'a' FROM w LIMIT 9) SELECT x FROM w",
    "with, not used": "WITH w AS (SELECT {0} AS x FROM data.Item) SELECT 1",
    "union": "SELECT name FROM data.Item UNION SELECT {0} FROM data.Item",
    "intersect": "SELECT name FROM data.Item INTERSECT SELECT {0} FROM data.Item",
    "except": "SELECT name FROM data.Item EXCEPT SELECT {0} FROM data.Item",
    "order of a union": "SELECT name FROM data.Item UNION SELECT name FROM data.Brand ORDER BY {0}",
    "elements": "SELECT value FROM data.Item, json_each({0})",
    "tree": "SELECT t.value FROM data.Item i, json_tree(i.{0}) AS t",
    "update set": "UPDATE data.Item SET {0} = 'q' WHERE id = 'i0'",
    "update from it": "UPDATE data.Item SET name = {0} WHERE id = 'i0'",
    "update where": "UPDATE data.Item SET name = 'q' WHERE {0} = 'a'",
    "update from": "UPDATE data.Item SET name = b.name FROM data.Brand AS b WHERE Item.{0} = b.name",
    "update, sub-select": "UPDATE data.Item SET name = (SELECT MAX({0}) FROM data.Item)",
    "update returning": "UPDATE data.Item SET name = 'q' WHERE id = 'i0' RETURNING {0}",
    "delete where": "DELETE FROM data.Item WHERE {0} = 'a'",
    "delete order": "DELETE FROM data.Item ORDER BY {0} LIMIT 1",
    "delete returning": "DELETE FROM data.Item WHERE id = 'i0' RETURNING {0}",
    "insert": "INSERT INTO data.Item (id, {0}) VALUES ('new', 'q')",
    "insert select": "INSERT INTO data.Item (id, name) SELECT id || 'x', {0} FROM data.Item",
    "insert returning": "INSERT INTO data.Item (id) VALUES ('new') RETURNING {0}",
    "conflict target": "INSERT INTO data.Item (id) VALUES ('i0') ON CONFLICT ({0}) DO NOTHING",
    "conflict set": "INSERT INTO data.Item (id) VALUES ('i0') ON CONFLICT (id) DO UPDATE SET {0} = 'q'",
    "conflict from it": "INSERT INTO data.Item (id) VALUES ('i0') ON CONFLICT (id) DO UPDATE SET name = {0}",
    "conflict from excluded": "INSERT INTO data.Item (id) VALUES ('i0') ON CONFLICT (id) DO UPDATE SET name = excluded.{0}",
    "conflict where": "INSERT INTO data.Item (id) VALUES ('i0') ON CONFLICT (id) DO UPDATE SET name = 'q' WHERE {0} = 'a'",
}
PLANS = {f"plan of {clause}": f"EXPLAIN {text}" for clause, text in NAMED.items()}


WAYS = ["{0}", '"{0}"', "`{0}`", "[{0}]"]


def shown(outcome: Any, name: str) -> Any:
    """Without the name that was asked for."""
    return (*outcome[:-1], str(outcome[-1]).replace(name, "?")) if isinstance(outcome, tuple) else outcome


@pytest.mark.parametrize("clause", [*NAMED, *PLANS])
@pytest.mark.parametrize("name", ["secret", "level", "code", "tags"])
def test_what_is_hidden_is_answered_as_what_does_not_exist(stores: Stores, clause: str, name: str) -> None:
    text = (NAMED | PLANS)[clause]
    nothing = "".join([chr(ord(letter) + 1) for letter in name])  # of the same length
    for way in WAYS:
        expected = shown(stores.ask(text.format(way.format(nothing))), nothing)
        assert isinstance(expected, tuple), expected
        for written in (name, name.upper()):
            assert shown(stores.ask(text.format(way.format(written))), written) == expected, (way, written)


@pytest.mark.parametrize(
    "text",
    [
        "SELECT * FROM data.Item",
        "SELECT i.* FROM data.Item AS i JOIN data.Brand AS b ON i.brand = b.id",
        "SELECT * FROM data.Item NATURAL JOIN data.Brand",
        "SELECT * FROM data.Item AS i JOIN data.Item AS j USING (id)",
        "SELECT * FROM (SELECT * FROM data.Item) AS t",
        "SELECT COUNT(*), name FROM data.Item GROUP BY name ORDER BY name",
        "SELECT id FROM data.Item WHERE name = 'n0' OR brand = 'b1'",
        "SELECT MAX(name), MIN(name), COUNT(*) FROM data.Item",
        "EXPLAIN SELECT * FROM data.Item WHERE name = 'n0'",
        "EXPLAIN SELECT COUNT(*) FROM data.Item",
        "UPDATE data.Item SET name = 'q' RETURNING *",
        "DELETE FROM data.Item WHERE id = 'i0' RETURNING *",
        "INSERT INTO data.Item (id, name, size) VALUES ('new', 'q', 1) RETURNING *",
        "INSERT INTO data.Item (id, name) VALUES ('i0', 'q') ON CONFLICT DO NOTHING",
        "INSERT INTO data.Item (id, name) VALUES ('i0', 'q') ON CONFLICT (id) DO UPDATE SET name = excluded.name RETURNING *",
        "INSERT INTO data.Item VALUES ('new', 'q', 'b1', 1)",
        "INSERT INTO data.Item VALUES ('new', 'q', 1)",
        "INSERT INTO data.Item VALUES ('new', 'q', 'b1', 1, 'a', 2, 'c', NULL)",
    ],
)
def test_what_may_be_read_does_not_depend_on_what_may_not(stores: Stores, text: str) -> None:
    outcome = repr(stores.ask(text))
    for hidden in ("secret", "level", "code", "tags"):
        assert hidden not in outcome


NO_TABLES = [
    "SELECT * FROM data.{0}",
    "SELECT COUNT(*) FROM data.{0}",
    "SELECT 1 FROM data.Item JOIN data.{0} USING (id)",
    "SELECT 1 WHERE EXISTS (SELECT 1 FROM data.{0})",
    "WITH w AS (SELECT * FROM data.{0}) SELECT 1",
    "SELECT id FROM data.Item UNION SELECT id FROM data.{0}",
    "INSERT INTO data.Item (id) SELECT id FROM data.{0}",
    "INSERT INTO data.{0} (id) VALUES ('a')",
    "UPDATE data.{0} SET secret = 'a'",
    "UPDATE data.Item SET name = (SELECT MAX(secret) FROM data.{0})",
    "UPDATE data.Item SET name = v.id FROM data.{0} AS v",
    "DELETE FROM data.{0}",
    "DELETE FROM data.Item WHERE id IN (SELECT id FROM data.{0})",
    "INSERT INTO data.Item (id) VALUES ('i0') ON CONFLICT (id) DO UPDATE SET name = (SELECT MAX(id) FROM data.{0})",
    "UPDATE data.Item SET name = 'q' RETURNING (SELECT COUNT(*) FROM data.{0})",
    "EXPLAIN SELECT * FROM data.{0}",
    "EXPLAIN DELETE FROM data.{0}",
]


@pytest.mark.parametrize("text", NO_TABLES)
def test_a_table_without_rights_is_answered_as_one_that_does_not_exist(stores: Stores, text: str) -> None:
    expected = stores.ask(text.format("Nothing"))
    assert expected == ("rights", True, [])
    for written in ("Vault", "VAULT", '"Vault"', "`Vault`"):
        assert stores.ask(text.format(written)) == expected


@pytest.mark.parametrize(
    "text",
    [
        "INSERT INTO data.Item (id, brand) VALUES ('new', 'b1')",
        "UPDATE data.Item SET size = 1",
        "INSERT INTO data.Item (id) VALUES ('i0') ON CONFLICT (id) DO UPDATE SET size = 1",
        "UPDATE data.Brand SET name = 'q'",
        "DELETE FROM data.Brand",
        "INSERT INTO data.Brand (id) VALUES ('q')",
    ],
)
def test_what_may_be_read_but_not_written_is_named(stores: Stores, text: str) -> None:
    outcome = stores.ask(text)
    assert outcome[0] == "rights" and outcome[1] is False and outcome[2]


@pytest.mark.parametrize(
    "text",
    [
        "SELECT * FROM sqlite_master",
        "SELECT * FROM sqlite_schema",
        "SELECT * FROM data.sqlite_schema",
        "SELECT * FROM main.sqlite_schema",
        "SELECT * FROM temp.sqlite_schema",
        "SELECT * FROM pragma_table_info('Item')",
        "SELECT * FROM pragma_table_xinfo('Item')",
        "SELECT * FROM dbstat",
        "SELECT * FROM sqlite_dbpage",
        "SELECT * FROM bytecode('SELECT 1')",
        "SELECT * FROM tables_used('SELECT 1')",
        "SELECT * FROM sqlite_stmt",
        "SELECT * FROM generate_series(1, 2)",
        "SELECT rowid FROM data.Item",
        "SELECT oid FROM data.Item",
        "SELECT _rowid_ FROM data.Item",
        "SELECT Item FROM data.Item",
        "SELECT load_extension('x')",
        "SELECT readfile('/etc/passwd')",
        "SELECT sqlite_compileoption_get(1)",
        "PRAGMA table_info(Item)",
        "ATTACH 'x' AS y",
        'SELECT * FROM "@data"."Item"',
        'SELECT "\x1f" FROM data.Item',
        'SELECT "\x1f\x1f" FROM data.Item',
        'SELECT "\x1fname" FROM data.Item',
        'SELECT * FROM data."Item\x1fcount"',
        'SELECT * FROM data."Item\x1fgroups\x1fsecret"',
        'SELECT value FROM data."Item\x1fgroups\x1fname"',
    ],
)
def test_what_sqlite_has_of_its_own_is_not_there(stores: Stores, text: str) -> None:
    outcome = stores.ask(text)
    assert isinstance(outcome, tuple) and (outcome[0] == 400 or outcome[:2] == ("rights", True)), outcome
