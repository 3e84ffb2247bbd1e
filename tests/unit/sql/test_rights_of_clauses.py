"""Each clause for a user who may not read all (spec: sql §6): what is hidden is refused, or is not there.

Every statement here is asked of stores that differ in what is hidden only, and has to have one answer (`tests.support.sql_rights`).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from svc.errors import Problem, QueryError
from svc.sql.errors import MissingRights
from svc.store.schema import Attribute, TableDefinition
from tests.support.sql_rights import Twins, twins_of

DEFINITIONS = (
    TableDefinition(
        "Item",
        attributes=(
            Attribute("id", "ID", primary_key=True),
            Attribute("name", "String", indexed=True),
            Attribute("n", "Int", indexed=True),
            Attribute("note", "String"),
            Attribute("tags", "String", elements=True),
            Attribute("code", "String", indexed=True, unique=True),
            Attribute("secret", "String", indexed=True, unique=True),
            Attribute("grade", "Int", indexed=True, default="7"),
            Attribute("NAME", "String", indexed=True),
            Attribute("rowid", "Int", indexed=True),
            Attribute("hints", "String", elements=True),
        ),
    ),
    TableDefinition("Pet", attributes=(Attribute("id", "ID", primary_key=True), Attribute("owner", "ID", indexed=True), Attribute("secret", "String"))),
    TableDefinition("PET", attributes=(Attribute("id", "ID", primary_key=True), Attribute("owner", "ID"))),
    TableDefinition("Vault", attributes=(Attribute("id", "ID", primary_key=True), Attribute("name", "String", indexed=True), Attribute("gold", "Int"))),
    TableDefinition("Log", attributes=(Attribute("id", "ID", primary_key=True), Attribute("line", "String"))),
)  # fmt: skip
HIDDEN = {"Item": ("secret", "grade", "NAME", "rowid", "hints"), "Pet": ("secret",), "PET": ..., "Vault": ...}


def _may(name: str, rights: str) -> dict[str, Any]:
    return {"attribute_name": name, "read": "r" in rights, "insert": "i" in rights, "update": "u" in rights}


_EVERYTHING = {"read": True, "insert": True, "update": True, "delete": True}
PERMISSIONS = {
    "Item": _EVERYTHING | {"attribute_permissions": [_may("name", "riu"), _may("n", "ri"), _may("note", "ru"), _may("tags", "r"), _may("code", "iu")]},
    "Pet": _EVERYTHING | {"insert": False, "update": False, "delete": False, "attribute_permissions": [_may("owner", "r")]},
    "Log": {"read": False, "insert": True, "update": False, "delete": False, "attribute_permissions": []},
}  # fmt: skip


def _items(number: int) -> list[dict[str, Any]]:
    """What is hidden is another value for each number, in another order, and null for other records."""
    found = []
    for place in range(4):
        turned = (place * 3 + number) % 4
        hidden = {"secret": f"s{turned}", "grade": turned, "NAME": f"N{turned}", "rowid": turned * number, "hints": ["x"] * turned}
        if turned == number:
            hidden = {"code": None}
        known = {"id": f"i{place}", "name": "abca"[place], "n": (5, 1, 3, 1)[place], "note": f"note {place}", "tags": ["p", "q"][: place % 3]}
        found.append(known | {"code": f"c{turned}"} | hidden)
    return [{name: value for name, value in record.items() if value is not None} for record in found]


def _pets(number: int) -> list[dict[str, Any]]:
    return [{"id": f"p{place}", "owner": f"i{place % 3}", "secret": f"s{place * number}"} for place in range(5)]


def _records(number: int) -> dict[str, list[dict[str, Any]]]:
    gold = [{"id": f"v{place}", "name": "abc"[place % 3], "gold": place * number} for place in range(3 * number)]
    return {"Item": _items(number), "Pet": _pets(number), "PET": [{"id": "P", "owner": f"i{number}"}] * number, "Vault": gold, "Log": []}


@pytest.fixture(scope="module")
def _twins(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Twins]:
    with twins_of(tmp_path_factory.mktemp("twins"), DEFINITIONS, HIDDEN, PERMISSIONS) as made:
        made.fill(_records(1), _records(2))
        yield made


@pytest.fixture
def twins(_twins: Twins) -> Iterator[Twins]:
    yield _twins
    _twins.restore()


def outcome(answer: Any) -> Any:
    """As the tables below have it."""
    if isinstance(answer, MissingRights):
        assert answer.status_code == 403
        [(database, table, right, attribute)] = answer.missing
        place = ".".join([part for part in (database, table, attribute) if part])
        return f"{'no ' if answer.is_hidden else ''}{right} {place}"
    if isinstance(answer, QueryError):
        assert answer.status_code == 400
        return answer.message
    return f"{answer.status_code} {answer.message}" if isinstance(answer, Problem) else answer


def test_the_stores_differ(twins: Twins) -> None:
    """Else nothing here could fail."""
    for statement in ("SELECT id, secret FROM data.Item", "SELECT COUNT(*) FROM data.Vault", "SELECT id, code FROM data.Item", "SELECT grade FROM data.Item"):
        one, other = (twins.stores[name].ask(statement) for name in ("one", "other"))
        assert one != other, statement


# --- attributes ---------------------------------------------------------------------------------------------------------------------------

# `{}` is an attribute: a hidden one does not exist, one that may only be written may not be read.
CLAUSES = {
    "select list": "SELECT {} FROM data.Item",
    "select list, behind *": "SELECT *, {} FROM data.Item",
    "select list, in an expression": "SELECT 1 + LENGTH({} || 'x') FROM data.Item",
    "select list, as": "SELECT {} AS name FROM data.Item",
    "where": "SELECT id FROM data.Item WHERE {} = 's1'",
    "where, is null": "SELECT id FROM data.Item WHERE {} IS NULL",
    "where, between": "SELECT id FROM data.Item WHERE name BETWEEN 'a' AND {}",
    "where, in": "SELECT id FROM data.Item WHERE 's1' IN (name, {})",
    "where, like": "SELECT id FROM data.Item WHERE {} LIKE 's%'",
    "where, glob escape": "SELECT id FROM data.Item WHERE 'x' LIKE name ESCAPE {}",
    "where, regexp": "SELECT id FROM data.Item WHERE {} REGEXP '.'",
    "where, never evaluated": "SELECT id FROM data.Item WHERE 0 AND {} = 1",
    "row value": "SELECT id FROM data.Item WHERE (name, {}) = ('a', 's1')",
    "order by": "SELECT id FROM data.Item ORDER BY {}",
    "order by, expression": "SELECT id FROM data.Item ORDER BY -{} DESC NULLS LAST LIMIT 1",
    "order by, collation": "SELECT id FROM data.Item ORDER BY {} COLLATE NOCASE",
    "group by": "SELECT COUNT(*) FROM data.Item GROUP BY {}",
    "group by, expression": "SELECT COUNT(*) FROM data.Item GROUP BY {} > 1",
    "group by, an indexed value": "SELECT {}, COUNT(*) FROM data.Item GROUP BY {}",
    "having": "SELECT name FROM data.Item GROUP BY name HAVING MAX({}) > 's1'",
    "join on": "SELECT i.id FROM data.Item i JOIN data.Pet p ON p.id = i.{}",
    "left join on": "SELECT p.id FROM data.Pet p LEFT JOIN data.Item i ON i.{} = p.id",
    "right join on": "SELECT p.id FROM data.Item i RIGHT JOIN data.Pet p ON i.{} > 1 AND p.id = i.id",
    "full join on": "SELECT p.id FROM data.Item i FULL JOIN data.Pet p ON i.{} = p.id",
    "joins in parentheses": "SELECT {} FROM data.Pet p LEFT JOIN (data.Item i JOIN data.Pet q ON q.owner = i.id) ON 1",
    "self join": "SELECT a.id FROM data.Item a, data.Item b WHERE a.name < b.{}",
    "sub-select, scalar": "SELECT (SELECT {} FROM data.Item LIMIT 1)",
    "sub-select, exists": "SELECT 1 WHERE EXISTS (SELECT {} FROM data.Item)",
    "sub-select, exists where": "SELECT 1 WHERE EXISTS (SELECT 1 FROM data.Item WHERE {} = 's1')",
    "sub-select, in": "SELECT 1 WHERE 's1' IN (SELECT {} FROM data.Item)",
    "sub-select, left of in": "SELECT 1 FROM data.Item WHERE {} IN (SELECT id FROM data.Pet)",
    "sub-select behind from": "SELECT x FROM (SELECT {} AS x FROM data.Item)",
    "sub-select behind from, not used": "SELECT id FROM (SELECT id, {} FROM data.Item)",
    "sub-select, correlated": "SELECT id FROM data.Item i WHERE EXISTS (SELECT 1 FROM data.Pet p WHERE p.owner = i.{})",
    "sub-select, correlated without a name": "SELECT id FROM data.Item i WHERE EXISTS (SELECT 1 FROM (SELECT 1) WHERE {} = 's1')",
    "common table": "WITH w AS (SELECT {} FROM data.Item) SELECT * FROM w",
    "common table, named columns": "WITH w(x) AS (SELECT {} FROM data.Item) SELECT x FROM w",
    "common table, not used": "WITH w AS (SELECT {} FROM data.Item) SELECT 1",
    "common table, materialized": "WITH w AS MATERIALIZED (SELECT {} FROM data.Item) SELECT * FROM w",
    "common table, recursive": "WITH RECURSIVE w(x) AS (SELECT {} FROM data.Item UNION SELECT x FROM w) SELECT * FROM w",
    "common table, the step": "WITH RECURSIVE w(x) AS (SELECT 's0' UNION SELECT i.{} FROM w JOIN data.Item i ON i.name > x) SELECT * FROM w",
    "union": "SELECT id FROM data.Pet UNION SELECT {} FROM data.Item",
    "union all": "SELECT {} FROM data.Item UNION ALL SELECT id FROM data.Pet",
    "intersect": "SELECT 's1' INTERSECT SELECT {} FROM data.Item",
    "except": "SELECT 's1' EXCEPT SELECT {} FROM data.Item",
    "union, order by": "SELECT id FROM data.Item UNION SELECT id FROM data.Pet ORDER BY {}",
    "window, partition by": "SELECT id, COUNT(*) OVER (PARTITION BY {}) FROM data.Item",
    "window, order by": "SELECT id, ROW_NUMBER() OVER (ORDER BY {}) FROM data.Item",
    "window, function": "SELECT LAG({}) OVER (ORDER BY id) FROM data.Item",
    "window, filter": "SELECT COUNT(*) FILTER (WHERE {} > 's1') OVER () FROM data.Item",
    "window, frame": "SELECT SUM(n) OVER (ORDER BY n RANGE BETWEEN {} PRECEDING AND CURRENT ROW) FROM data.Item",
    "window, named": "SELECT id, RANK() OVER w FROM data.Item WINDOW w AS (PARTITION BY name ORDER BY {})",
    "window, named and not used": "SELECT id FROM data.Item WINDOW w AS (ORDER BY {})",
    "aggregate": "SELECT GROUP_CONCAT({}) FROM data.Item",
    "aggregate, count by index": "SELECT COUNT({}) FROM data.Item",
    "aggregate, distinct": "SELECT COUNT(DISTINCT {}) FROM data.Item",
    "aggregate, min by index": "SELECT MIN({}) FROM data.Item",
    "aggregate, max by index": "SELECT MAX({}) FROM data.Item",
    "aggregate, count of a value": "SELECT COUNT(*) FROM data.Item WHERE {} = 's1'",
    "aggregate, filter": "SELECT COUNT(*) FILTER (WHERE {} = 's1') FROM data.Item",
    "aggregate, order by": "SELECT GROUP_CONCAT(id ORDER BY {}) FROM data.Item",
    "aggregate, array": "SELECT ARRAY({}) FROM data.Item",
    "distinct": "SELECT DISTINCT {} FROM data.Item",
    "limit": "SELECT id FROM data.Item LIMIT (SELECT COUNT({}) FROM data.Item)",
    "offset": "SELECT id FROM data.Item LIMIT 9 OFFSET (SELECT MAX({}) FROM data.Item)",
    "top": "SELECT TOP 1 {} FROM data.Item",
    "json_each": "SELECT value FROM data.Item, json_each({})",
    "json_each, qualified": "SELECT value FROM data.Item i, json_each(i.{})",
    "json_tree, path": "SELECT value FROM data.Item, json_tree('[1]', {})",
    "search_json": "SELECT SEARCH_JSON('$', {}) FROM data.Item",
    "search_json, expression": "SELECT SEARCH_JSON({}, tags) FROM data.Item",
    "arrow": "SELECT {} ->> '$[0]' FROM data.Item",
    "case": "SELECT CASE {} WHEN 's1' THEN 1 END FROM data.Item",
    "case, when": "SELECT CASE WHEN {} > 's1' THEN 1 ELSE 0 END FROM data.Item",
    "case, then": "SELECT CASE WHEN 0 THEN {} END FROM data.Item",
    "coalesce": "SELECT COALESCE(note, {}) FROM data.Item",
    "iif": "SELECT IIF({} IS NULL, 1, 2) FROM data.Item",
    "cast": "SELECT CAST({} AS INT) FROM data.Item",
    "convert": "SELECT CONVERT(INT, {}) FROM data.Item",
    "trim": "SELECT TRIM({} FROM name) FROM data.Item",
    "date_add": "SELECT DATE_ADD({}, 1, days) FROM data.Item",
    "values": "SELECT * FROM (VALUES ((SELECT {} FROM data.Item)))",
    "table as an alias": "SELECT Item.{} FROM data.Item",
    "three names": "SELECT data.Item.{} FROM data.Item",
    "double quotes": 'SELECT "{}" FROM data.Item',
    "back-ticks": "SELECT `{}` FROM data.Item",
    "brackets": "SELECT [{}] FROM data.Item",
    "double quotes, qualified": 'SELECT i."{}" FROM data.Item AS i',
    "alias of this name": "SELECT {} FROM data.Item AS {}",
    "alias of this name, qualified": "SELECT {}.{} FROM data.Item AS {}",
    "insert, values": "INSERT INTO data.Item (id, name) VALUES ('x', (SELECT MAX({}) FROM data.Item))",
    "insert, select": "INSERT INTO data.Item (id, name) SELECT 'x' || id, {} FROM data.Item",
    "insert, with": "WITH w AS (SELECT {} AS x FROM data.Item) INSERT INTO data.Item (id, name) SELECT x, x FROM w",
    "insert, where it is known": "INSERT INTO data.Log (id, line) SELECT id, {} FROM data.Item",
    "insert, returning": "INSERT INTO data.Item (id, name) VALUES ('x', 'y') RETURNING {}",
    "insert, returning an expression": "INSERT INTO data.Item (id, name) VALUES ('x', 'y') RETURNING LENGTH({})",
    "insert, returning a sub-select": "INSERT INTO data.Item (id, name) VALUES ('x', 'y') RETURNING (SELECT MAX({}) FROM data.Item)",
    "do update, set": "INSERT INTO data.Item (id, name) VALUES ('i1', 'y') ON CONFLICT DO UPDATE SET name = Item.{}",
    "do update, set a name": "INSERT INTO data.Item (id, name) VALUES ('i1', 'y') ON CONFLICT DO UPDATE SET name = {}",
    "do update, where": "INSERT INTO data.Item (id, name) VALUES ('i1', 'y') ON CONFLICT (id) DO UPDATE SET name = 'z' WHERE Item.{} = 's1'",
    "do update, excluded": "INSERT INTO data.Item (id, name) VALUES ('i1', 'y') ON CONFLICT (id) DO UPDATE SET name = excluded.{}",
    "do update, where excluded": "INSERT INTO data.Item (id, name) VALUES ('i1', 'y') ON CONFLICT (id) DO UPDATE SET name = 'z' WHERE excluded.{} = 7",
    "do update, returning": "INSERT INTO data.Item (id, name) VALUES ('i1', 'y') ON CONFLICT (id) DO UPDATE SET name = 'z' RETURNING {}",
    "update, set": "UPDATE data.Item SET name = {}",
    "update, set a row": "UPDATE data.Item SET (name, note) = (SELECT id, {} FROM data.Item)",
    "update, where": "UPDATE data.Item SET name = 'x' WHERE {} = 's1'",
    "update, from": "UPDATE data.Item SET name = 'x' FROM data.Pet p WHERE p.owner = Item.{}",
    "update, of another": "UPDATE data.Item SET name = j.{} FROM data.Item j WHERE j.id = Item.id",
    "update, order by": "UPDATE data.Item SET name = 'x' ORDER BY {} LIMIT 1",
    "update, returning": "UPDATE data.Item SET name = 'x' RETURNING {}",
    "delete, where": "DELETE FROM data.Item WHERE {} = 's1'",
    "delete, in": "DELETE FROM data.Item WHERE id IN (SELECT {} FROM data.Item)",
    "delete, order by": "DELETE FROM data.Item ORDER BY {} LIMIT 1",
    "delete, returning": "DELETE FROM data.Item RETURNING {}",
}  # fmt: skip


@pytest.mark.parametrize("clause", CLAUSES)
def test_an_attribute_that_is_hidden_does_not_exist(twins: Twins, clause: str) -> None:
    for name in ("secret", "grade", "hints"):
        found = outcome(twins.ask(CLAUSES[clause].replace("{}", name)))
        assert isinstance(found, str), found
        assert found == outcome(twins.ask(CLAUSES[clause].replace("{}", "no_such"))).replace("no_such", name)
        assert found.startswith("unknown column"), found
        assert found.partition(" (")[0].endswith(name), found


@pytest.mark.parametrize("clause", CLAUSES)
def test_an_attribute_that_may_only_be_written_is_not_read(twins: Twins, clause: str) -> None:
    assert outcome(twins.ask(CLAUSES[clause].replace("{}", "code"))) == "read data.Item.code"


@pytest.mark.parametrize("clause", CLAUSES)
def test_the_plan_of_it_is_refused_alike(twins: Twins, clause: str) -> None:
    for name in ("secret", "code"):
        text = CLAUSES[clause].replace("{}", name)
        assert outcome(twins.ask(f"EXPLAIN {text}")).replace(" EXPLAIN", "") == outcome(twins.ask(text))
        assert outcome(twins.ask(text, explain=True)) == outcome(twins.ask(text))
