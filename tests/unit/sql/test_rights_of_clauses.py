"""Each clause for a user who may not read all (spec: sql §6): what is hidden is refused, or is not there.

Every statement here is asked of stores that differ in what is hidden only, and has to have one answer (`tests.support.sql_rights`).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from svc.errors import Problem, QueryError
from svc.sql.engine import SqlEngine
from svc.sql.errors import MissingRights
from svc.sql.work import TurnIsOver
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
        known = {
            "id": f"i{place}",
            "name": "abca"[place],
            "n": (5, 1, 3, 1)[place],
            "note": f"note {place}",
            "tags": ["p", "q"][: place % 3],
        }
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
    for statement in (
        "SELECT id, secret FROM data.Item",
        "SELECT COUNT(*) FROM data.Vault",
        "SELECT id, code FROM data.Item",
        "SELECT grade FROM data.Item",
    ):
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
        if clause != "union, order by":
            assert found.startswith("unknown column") and found.partition(" (")[0].endswith(name), found


@pytest.mark.parametrize("clause", CLAUSES)
def test_an_attribute_that_may_only_be_written_is_not_read(twins: Twins, clause: str) -> None:
    assert outcome(twins.ask(CLAUSES[clause].replace("{}", "code"))) == "read data.Item.code"


@pytest.mark.parametrize("clause", CLAUSES)
def test_the_plan_of_it_is_refused_alike(twins: Twins, clause: str) -> None:
    for name in ("secret", "code"):
        text = CLAUSES[clause].replace("{}", name)
        assert outcome(twins.ask(f"EXPLAIN {text}")).replace(" EXPLAIN", "") == outcome(twins.ask(text))
        assert outcome(twins.ask(text, explain=True)) == outcome(twins.ask(text))


# --- what a user without these attributes sees ----------------------------------------------------------------------------------------------

KNOWN = [
    ["i0", "a", 5, "note 0", None],
    ["i1", "b", 1, "note 1", ["p"]],
    ["i2", "c", 3, "note 2", ["p", "q"]],
    ["i3", "a", 1, "note 3", None],
]
KNOWN[0][4] = KNOWN[3][4] = []
ANSWERS: dict[str, tuple[str, Any]] = {
    "*": ("SELECT * FROM data.Item", KNOWN),
    "* of an alias": ("SELECT i.* FROM data.Item i", KNOWN),
    "* of a sub-select": ("SELECT * FROM (SELECT * FROM data.Item)", KNOWN),
    "* of a common table": ("WITH w AS (SELECT * FROM data.Item) SELECT * FROM w", KNOWN),
    "* beside a replaced name": ("SELECT *, 1 AS NAME FROM data.Item WHERE id = 'i0'", [[*KNOWN[0], 1]]),
    "another case": ("SELECT NAME, Name, Item.nAME FROM data.Item WHERE id = 'i0'", [["a", "a", "a"]]),
    "another case, quoted": ('SELECT "NAME", [NAME], `NAME` FROM data.Item WHERE id = \'i0\'', [["a", "a", "a"]]),
    "another case, where": ("SELECT id FROM data.Item WHERE NAME = 'b'", [["i1"]]),
    "another case of the table": ("SELECT COUNT(*) FROM data.item", [[4]]),
    "another case of a table that is hidden": ("SELECT COUNT(*) FROM data.PET", [[5]]),
    "another case of two tables": ("SELECT COUNT(*) FROM data.pet", [[5]]),
    "a text in single quotes": ("SELECT 'secret', MAX('grade') FROM data.Item WHERE 'secret' > 'a'", [["secret", "grade"]]),
    "a name of one's own": ("SELECT name AS secret FROM data.Item ORDER BY secret, id LIMIT 1", [["a"]]),
    "a column of one's own": ("WITH w(secret) AS (VALUES ('s1')) SELECT secret FROM w, data.Item WHERE id = 'i0'", [["s1"]]),
    "a column of one's own, natural join": ("WITH w(secret, name) AS (VALUES ('s1', 'b')) SELECT * FROM data.Item NATURAL JOIN w", [[*KNOWN[1], "s1"]]),
    "natural join": ("SELECT COUNT(*) FROM data.Item NATURAL JOIN data.Pet", [[0]]),
    "natural full join": ("SELECT COUNT(*) FROM data.Item NATURAL FULL JOIN data.Pet", [[9]]),
    "count": ("SELECT COUNT(*) FROM data.Item", [[4]]),
    "count by index": ("SELECT name, COUNT(*) FROM data.Item GROUP BY name", [["a", 2], ["b", 1], ["c", 1]]),
    "min and max by index": ("SELECT MIN(n), MAX(name) FROM data.Item", [[1, "c"]]),
    "distinct *": ("SELECT COUNT(*) FROM (SELECT DISTINCT n, name FROM data.Item)", [[4]]),
    "union of *": ("SELECT COUNT(*) FROM (SELECT * FROM data.Pet UNION SELECT * FROM data.Pet)", [[5]]),
    "the order of records": ("SELECT id FROM data.Item WHERE n < 5", [["i1"], ["i2"], ["i3"]]),
    "the order of equal ones": ("SELECT id FROM data.Item ORDER BY n DESC LIMIT 3", [["i0"], ["i2"], ["i3"]]),
    "json_object of what is known": ("SELECT JSON_OBJECT('secret', name) FROM data.Item LIMIT 1", [[{"secret": "a"}]]),
    "insert": (
        "INSERT INTO data.Item (id, name, code) VALUES ('x', 'y', 'z')",
        {"message": "inserted 1 of 1 records", "inserted_hashes": ["x"], "skipped_hashes": []},
    ),
    "insert, another case": (
        "INSERT INTO data.Item (id, NAME) VALUES ('x', 'y') RETURNING *",
        [{"id": "x", "name": "y", "n": None, "note": None, "tags": None}],
    ),
    "insert, into a table without read": (
        "INSERT INTO data.Log (id, line) SELECT id, name FROM data.Item",
        {"message": "inserted 4 of 4 records", "inserted_hashes": ["i0", "i1", "i2", "i3"], "skipped_hashes": []},
    ),
    "insert, without columns": (
        "INSERT INTO data.Log VALUES ('x', 'y')",
        {"message": "inserted 1 of 1 records", "inserted_hashes": ["x"], "skipped_hashes": []},
    ),
    "insert, what exists": (
        "INSERT INTO data.Item (id, name) VALUES ('i1', 'y')",
        {"message": "inserted 0 of 1 records", "inserted_hashes": [], "skipped_hashes": ["i1"]},
    ),
    "do nothing": (
        "INSERT INTO data.Item (id, name) VALUES ('i1', 'y') ON CONFLICT DO NOTHING RETURNING *",
        [],
    ),
    "do update": (
        "INSERT INTO data.Item (id, NAME) VALUES ('i1', 'y') ON CONFLICT DO UPDATE SET NAME = excluded.NAME || Item.NAME RETURNING *",
        [{"id": "i1", "name": "yb", "n": 1, "note": "note 1", "tags": ["p"]}],
    ),
    "do update, what may only be written": (
        "INSERT INTO data.Item (id, code) VALUES ('i1', 'y') ON CONFLICT (id) DO UPDATE SET code = 'y' || id RETURNING id",
        [{"id": "i1"}],
    ),
    "update": (
        "UPDATE data.Item SET NAME = Name || note, code = id RETURNING *",
        [{"id": key, "name": name + note, "n": n, "note": note, "tags": tags} for key, name, n, note, tags in KNOWN],
    ),
    "update, without a record": (
        "UPDATE data.Item SET name = 'x' WHERE NAME = 'N1'",
        {"message": "updated 0 of 0 records", "update_hashes": [], "skipped_hashes": []},
    ),
    "delete, returning *": (
        "DELETE FROM data.Item WHERE NAME = 'b' RETURNING *",
        [{"id": "i1", "name": "b", "n": 1, "note": "note 1", "tags": ["p"]}],
    ),
    "delete": (
        "DELETE FROM data.Item ORDER BY NAME DESC LIMIT 1",
        {"message": "1 of 1 record successfully deleted", "deleted_hashes": ["i2"], "skipped_hashes": []},
    ),
}  # fmt: skip


@pytest.mark.parametrize("clause", ANSWERS)
def test_what_may_be_read_is_answered(twins: Twins, clause: str) -> None:
    text, expected = ANSWERS[clause]
    assert outcome(twins.ask(text)) == expected


@pytest.mark.parametrize("clause", ANSWERS)
def test_what_takes_long_is_answered_alike(twins: Twins, clause: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """By a thread, and by a long write."""

    def is_over(*arguments: Any, **options: Any) -> Any:
        raise TurnIsOver

    monkeypatch.setattr(SqlEngine, "_run_in_turn", is_over)
    text, expected = ANSWERS[clause]
    assert outcome(twins.ask(text)) == expected


@pytest.mark.parametrize("clause", ANSWERS)
def test_plans_tell_of_nothing_else(twins: Twins, clause: str) -> None:
    plan = twins.ask(ANSWERS[clause][0], explain=True)["plan"].lower()
    assert not any(name in plan for name in ("grade", "rowid", "hints", "code", "vault", "\x1f", "\x1d")), plan
    assert "secret" not in plan or "secret" in ANSWERS[clause][0], plan


# --- refusals -------------------------------------------------------------------------------------------------------------------------------

REFUSED = {
    # tables without any right are told as ones that do not exist: with the name that the statement has
    "SELECT * FROM data.Vault": "no read data.Vault",
    "SELECT * FROM data.VAULT": "no read data.VAULT",
    "SELECT * FROM data.vaul": "no read data.vaul",
    "SELECT * FROM dat.Vault": "no read dat.Vault",
    "SELECT gold FROM `data`.[Vault]": "no read data.Vault",
    'SELECT 1 FROM "data"."Vault"': "no read data.Vault",
    "SELECT Vault.gold FROM data.Item": "unknown column Vault.gold",
    "SELECT data.Vault.gold FROM data.Item": "unknown column data.Vault.gold",
    "SELECT 1 FROM data.Item JOIN data.Vault USING (id)": "no read data.Vault",
    "SELECT 1 FROM data.Item NATURAL JOIN data.Vault": "no read data.Vault",
    "SELECT (SELECT COUNT(*) FROM data.Vault)": "no read data.Vault",
    "SELECT 1 WHERE EXISTS (SELECT 1 FROM data.Vault)": "no read data.Vault",
    "SELECT id FROM data.Item WHERE id IN (SELECT id FROM data.Vault)": "no read data.Vault",
    "SELECT 1 FROM (SELECT * FROM data.Vault)": "no read data.Vault",
    "WITH w AS (SELECT * FROM data.Vault) SELECT 1": "no read data.Vault",
    "WITH RECURSIVE w AS (SELECT 1 UNION SELECT 1 FROM data.Vault, w) SELECT 1": "no read data.Vault",
    "SELECT id FROM data.Item UNION SELECT id FROM data.Vault": "no read data.Vault",
    "SELECT id FROM data.Item EXCEPT SELECT id FROM data.Vault": "no read data.Vault",
    "SELECT id FROM data.Item INTERSECT SELECT id FROM data.Vault": "no read data.Vault",
    "SELECT id FROM data.Item ORDER BY (SELECT COUNT(*) FROM data.Vault)": "no read data.Vault",
    "SELECT id FROM data.Item LIMIT (SELECT COUNT(*) FROM data.Vault)": "no read data.Vault",
    "SELECT COUNT(*) FILTER (WHERE EXISTS (SELECT 1 FROM data.Vault)) FROM data.Item": "no read data.Vault",
    "SELECT value FROM json_each((SELECT ARRAY(gold) FROM data.Vault))": "no read data.Vault",
    "INSERT INTO data.Vault (id) VALUES ('x')": "no read data.Vault",
    "INSERT INTO data.VAULT (id) VALUES ('x')": "no read data.VAULT",
    "INSERT INTO data.Vault DEFAULT VALUES": "no read data.Vault",
    "UPDATE data.Vault SET gold = 1": "no read data.Vault",
    "DELETE FROM data.Vault": "no read data.Vault",
    "DELETE FROM data.vault RETURNING *": "no read data.vault",
    "INSERT INTO data.Item (id, name) SELECT id, name FROM data.Vault": "no read data.Vault",
    "INSERT INTO data.Log (id) VALUES ((SELECT MAX(id) FROM data.Vault))": "no read data.Vault",
    "INSERT INTO data.Item (id) VALUES ('i1') ON CONFLICT DO UPDATE SET name = (SELECT MAX(name) FROM data.Vault)": "no read data.Vault",
    "INSERT INTO data.Item (id) VALUES ('x') RETURNING (SELECT COUNT(*) FROM data.Vault)": "no read data.Vault",
    "UPDATE data.Item SET name = (SELECT MAX(name) FROM data.Vault)": "no read data.Vault",
    "UPDATE data.Item SET name = 'x' FROM data.Vault WHERE Vault.id = Item.id": "no read data.Vault",
    "UPDATE data.Item SET name = 'x' WHERE EXISTS (SELECT 1 FROM data.Vault)": "no read data.Vault",
    "DELETE FROM data.Item WHERE id IN (SELECT id FROM data.Vault)": "no read data.Vault",
    "SELECT * FROM system.svc_user": "no read system.svc_user",
    "SELECT * FROM system.svc_usr": "no read system.svc_usr",
    # tables with another right
    "SELECT line FROM data.Log": "read data.Log",
    "SELECT line FROM data.log": "read data.Log",
    "SELECT COUNT(*) FROM data.Log": "read data.Log",
    "INSERT INTO data.Log (id, line) VALUES ('x', 'y') RETURNING id": "read data.Log",
    "INSERT INTO data.Log (id, line) VALUES ('x', 'y') ON CONFLICT DO UPDATE SET line = 'z'": "update data.Log",
    "UPDATE data.Log SET line = 'x'": "update data.Log",
    "DELETE FROM data.Log": "delete data.Log",
    "INSERT INTO data.Pet (id) VALUES ('x')": "insert data.Pet",
    "UPDATE data.Pet SET owner = 'x'": "update data.Pet",
    "DELETE FROM data.Pet": "delete data.Pet",
    # columns that are written
    "INSERT INTO data.Item (id, note) VALUES ('x', 'y')": "insert data.Item.note",
    "INSERT INTO data.Item (id, tags) VALUES ('x', '[]')": "insert data.Item.tags",
    "INSERT INTO data.Item (id, secret) VALUES ('x', 'y')": "no insert data.Item.secret",
    "INSERT INTO data.Item (id, SECRET) VALUES ('x', 'y')": "no insert data.Item.SECRET",
    "INSERT INTO data.Item (id, [secret]) SELECT 'x', 'y'": "no insert data.Item.secret",
    "INSERT INTO data.Item (id, seecret) VALUES ('x', 'y')": "no insert data.Item.seecret",
    "INSERT INTO data.Item VALUES ('x', 'a', 1, 'n', NULL, 'c')": "2: note, tags",
    "INSERT INTO data.Item VALUES ('x', 'a', 1, 'n', NULL, 'c', 's', 1, 'N', 1, NULL)": (
        "There was a problem performing this insert. Please check the logs and try again."
    ),
    "INSERT INTO data.Item (id, name) VALUES ('i1', 'x') ON CONFLICT (id) DO UPDATE SET n = 1": "update data.Item.n",
    "INSERT INTO data.Item (id, name) VALUES ('i1', 'x') ON CONFLICT (id) DO UPDATE SET secret = 1": "no update data.Item.secret",
    "INSERT INTO data.Item (id, code) VALUES ('x', 'c1') ON CONFLICT (code) DO NOTHING": "read data.Item.code",
    "INSERT INTO data.Item (id, code) VALUES ('x', 'c1') ON CONFLICT (CODE) DO UPDATE SET name = 'x'": "read data.Item.code",
    "INSERT INTO data.Item (id) VALUES ('x') ON CONFLICT (secret) DO NOTHING": (
        "ON CONFLICT (secret) needs the primary key of the table, or one of its attributes that are @unique"
    ),
    "INSERT INTO data.Item (id) VALUES ('x') ON CONFLICT (nothing) DO NOTHING": (
        "ON CONFLICT (nothing) needs the primary key of the table, or one of its attributes that are @unique"
    ),
    "UPDATE data.Item SET n = 1": "update data.Item.n",
    "UPDATE data.Item SET secret = NULL": "no update data.Item.secret",
    "UPDATE data.Item SET Secret = NULL": "no update data.Item.Secret",
    "UPDATE data.Item SET nothing = NULL": "no update data.Item.nothing",
    "UPDATE data.Item SET rowid = 5": "no update data.Item.rowid",
    "UPDATE data.Item SET n = 1, secret = 'x', nothing = 1": "3: n, secret, nothing",
    # joins by name
    "SELECT 1 FROM data.Item JOIN data.Pet USING (secret)": "unknown column secret (USING takes columns that both sides have)",
    "SELECT 1 FROM data.Item JOIN data.Item i USING (code)": "read data.Item.code",
    "WITH w(secret) AS (VALUES (1)) SELECT 1 FROM w JOIN data.Item USING (secret)": "unknown column secret (USING takes columns that both sides have)",
    # no name is suggested that is hidden
    "SELECT secre FROM data.Item": "unknown column secre",
    "SELECT Item.gradee FROM data.Item": "unknown column Item.gradee",
    "SELECT hintz FROM data.Item": "unknown column hintz",
    "SELECT cod FROM data.Item": "unknown column cod",
    "SELECT CODE FROM data.Item": "read data.Item.code",
    "SELECT nmae FROM data.Item": 'unknown column nmae (did you mean "name"?)',
    "SELECT Valt.id FROM data.Item": "unknown column Valt.id",
    "SELECT 1 FROM data.Pets": "no read data.Pets",
    # what SQLite has of its own
    "SELECT rowid FROM data.Item": "unknown column rowid",
    "SELECT ROWID FROM data.Pet": "unknown column ROWID",
    "SELECT oid FROM data.Item": 'unknown column oid (did you mean "id"?)',
    "SELECT _rowid_ FROM data.Item": "unknown column _rowid_",
    "SELECT i._rowid_ FROM data.Item i": "unknown column i._rowid_",
    "SELECT * FROM sqlite_master": "schema not defined for table sqlite_master",
    "SELECT * FROM sqlite_schema": "schema not defined for table sqlite_schema",
    "SELECT * FROM sqlite_temp_master": "schema not defined for table sqlite_temp_master",
    "SELECT * FROM `sqlite_schema`": "schema not defined for table sqlite_schema",
    "SELECT * FROM main.sqlite_master": "no read main.sqlite_master",
    "SELECT * FROM temp.sqlite_schema": "no read temp.sqlite_schema",
    "SELECT * FROM data.sqlite_master": "no read data.sqlite_master",
    'SELECT * FROM "@data".sqlite_master': "no read @data.sqlite_master",
    'SELECT * FROM "@data".Item': "no read @data.Item",
    "SELECT * FROM dbstat": "schema not defined for table dbstat",
    "SELECT * FROM sqlite_dbpage": "schema not defined for table sqlite_dbpage",
    "SELECT * FROM sqlite_stmt": "schema not defined for table sqlite_stmt",
    "SELECT * FROM bytecode": "schema not defined for table bytecode",
    "SELECT * FROM pragma_table_list": "schema not defined for table pragma_table_list",
    "SELECT * FROM pragma_table_info('Item')": "unknown table function pragma_table_info",
    "SELECT * FROM pragma_table_xinfo('Item', '@data')": "unknown table function pragma_table_xinfo",
    "SELECT * FROM dbstat('main')": "unknown table function dbstat",
    "SELECT * FROM bytecode('SELECT 1')": "unknown table function bytecode",
    "SELECT * FROM generate_series(1, 3)": "unknown table function generate_series",
    "SELECT * FROM json_each": "schema not defined for table json_each",
    "SELECT json FROM json_each('[1]')": "unknown column json",
    "SELECT root FROM json_tree('[1]')": "unknown column root",
    # names that binding gives
    'SELECT "\x1fname" FROM data.Item': 'unknown column \x1fname (did you mean "name"?)',
    'SELECT "\x1fsecret" FROM data.Item': "unknown column \x1fsecret (texts stand in single quotes)",
    'SELECT "\x1fcolumn8" FROM data.Item': "unknown column \x1fcolumn8 (texts stand in single quotes)",
    'SELECT "column\x1f8" FROM data.Item': "unknown column column\x1f8 (texts stand in single quotes)",
    'SELECT * FROM "\x1dexcluded"': "schema not defined for table \x1dexcluded",
    'SELECT * FROM "\x1dwritten"': "schema not defined for table \x1dwritten",
    'SELECT * FROM data."table\x1f1"': "no read data.table\x1f1",
}  # fmt: skip


def _outcome(answer: Any) -> Any:
    if isinstance(answer, MissingRights) and len(answer.missing) > 1:
        return f"{len(answer.missing)}: {', '.join([attribute for _, _, _, attribute in answer.missing])}"
    return outcome(answer)


@pytest.mark.parametrize("text", REFUSED)
def test_what_is_refused(twins: Twins, text: str) -> None:
    assert _outcome(twins.ask(text)) == REFUSED[text]


@pytest.mark.parametrize("text", REFUSED)
def test_it_is_refused_before_it_is_run(twins: Twins, text: str) -> None:
    """A long text is parsed and bound by a thread."""
    assert _outcome(twins.ask(text, explain=True)) == REFUSED[text]
    assert _outcome(twins.ask(text + " " * 5000)) == REFUSED[text]


def test_pragmas_are_no_statements(twins: Twins) -> None:
    for text in ("PRAGMA table_info(Item)", "ATTACH 'x' AS y", "VACUUM INTO 'x'", "CREATE VIEW v AS SELECT 1"):
        assert outcome(twins.ask(text)).startswith("unsupported SQL type")


# --- values that no two records share -------------------------------------------------------------------------------------------------------


def test_a_value_that_another_record_has(twins: Twins) -> None:
    """That it is there is told as everywhere, of an attribute that the user may write; not which record has it, and not of any other."""
    store, user = twins.stores["one"], twins.users["one"]
    for text in (
        "INSERT INTO data.Item (id, code) VALUES ('x', 'c2')",
        "INSERT INTO data.Item (id, code) VALUES ('x', 'c2') ON CONFLICT DO NOTHING",
        "INSERT INTO data.Item (id, code) VALUES ('x', 'c2') ON CONFLICT (id) DO NOTHING",
        "INSERT INTO data.Item (id, code) VALUES ('x', 'c2') ON CONFLICT DO UPDATE SET name = 'taken' RETURNING *",
        "UPDATE data.Item SET code = 'c2' WHERE id = 'i0'",
    ):
        with pytest.raises(Problem, match=r'^Value "c2" in property code is that of another record') as caught:
            store.ask(text, user=user)
        assert (caught.value.status_code, caught.value.code) == (409, "NOT_UNIQUE")
        assert not any(key in told for key in ("i1", "i2", "i3") for told in (caught.value.message, repr(caught.value.faults))), text


# --- the primary key ------------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        "DELETE FROM data.Item",
        "UPDATE data.Item SET code = 'x'",
        "INSERT INTO data.Item DEFAULT VALUES RETURNING 1",
        "INSERT INTO data.Item (code) VALUES ('x') RETURNING *",
        "INSERT INTO data.Item (code) VALUES ('x') ON CONFLICT DO UPDATE SET code = 'y'",
    ],
)
def test_writes_that_read_the_primary_key(twins: Twins, text: str) -> None:
    """Of a user who may read nothing, or only write to some: a key that is hidden is not named."""
    store = twins.stores["one"]
    for given, expected in ((_may("code", "iu"), "read data.Item.id"), (_may("code", ""), "read data.Item")):
        if expected == "read data.Item" and "code" in text:
            expected = f"no {'update' if text.startswith('UPDATE') else 'insert'} data.Item.code"
        user = store.user({"Item": _EVERYTHING | {"attribute_permissions": [given]}})
        with pytest.raises(MissingRights) as caught:
            store.ask(text, user=user)
        assert outcome(caught.value) == expected


def test_what_a_user_may_count_that_may_read_no_attribute(twins: Twins) -> None:
    store = twins.stores["one"]
    user = store.user({"Item": _EVERYTHING | {"attribute_permissions": [_may("name", "")]}})
    for text in ("SELECT COUNT(*) FROM data.Item", "SELECT COUNT(*) FROM data.Item WHERE 1 + 1", "SELECT SUM(1) FROM data.Item"):
        assert store.ask(text, user=user) == [[4]]
    for text in ("SELECT * FROM data.Item", "WITH w AS (SELECT * FROM data.Item) SELECT COUNT(*) FROM w"):
        with pytest.raises(QueryError, match=r"^\* stands for no column here$"):
            store.ask(text, user=user)
    with pytest.raises(QueryError, match=r"^unknown column id$"):
        store.ask("SELECT id FROM data.Item", user=user)
