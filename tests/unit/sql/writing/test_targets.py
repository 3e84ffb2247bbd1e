"""svc.sql.writing.targets: the table that is written to, and the rights that this takes."""

from typing import Any

import pytest

from svc.auth.roles import ALL_RIGHTS, TableRights, evaluate
from svc.errors import QueryError
from svc.sql.errors import MissingRights
from svc.sql.nodes import TableRef
from svc.sql.rights import TableViews, UserCatalogue
from svc.sql.writing.targets import WriteTarget
from svc.store import Store, Table
from svc.store.schema import Attribute, TableDefinition
from tests.support.sql_writes import Sql, records_of

ALL = {"read": True, "insert": True, "update": True}


def rights(table: Table, **given: Any) -> dict[str, TableRights]:
    """Of a role with these rights on a table: booleans, and `attributes`: name -> (read, insert, update)."""
    listed = given.pop("attributes", {})
    flags = {right: given.get(right, False) for right in ("read", "insert", "update", "delete")}
    attributes = [
        {"attribute_name": name, "read": read, "insert": insert, "update": update} for name, (read, insert, update) in listed.items()
    ]
    permission = {"data": {"tables": {table.name: {**flags, "attribute_permissions": attributes}}}}
    return {table.name: evaluate(permission, table.definition, "data")}


@pytest.fixture
def one(sql: Sql, items: Table) -> Table:
    sql("INSERT INTO data.Item (id, n, name) VALUES (1, 10, 'a')")
    return items


STATEMENTS = {
    "INSERT INTO data.Item (id, n) VALUES (2, 5)": ("insert",),
    "INSERT INTO data.Item (id, n) SELECT 2, 5": ("insert",),
    "INSERT INTO data.Item (id, n) SELECT id + 1, n FROM data.Item": ("insert", "read"),
    "INSERT INTO data.Item (id, n) VALUES (2, 5) RETURNING n": ("insert", "read"),
    "INSERT INTO data.Item (id, n) VALUES (1, 5) ON CONFLICT DO NOTHING": ("insert",),
    "INSERT INTO data.Item (id, n) VALUES (1, 5) ON CONFLICT (id) DO UPDATE SET n = 1": ("insert", "update", "read"),
    "UPDATE data.Item SET n = 5": ("update", "read"),
    "UPDATE data.Item SET n = 5 WHERE id = 1": ("update", "read"),
    "DELETE FROM data.Item": ("delete", "read"),
    "DELETE FROM data.Item WHERE n = 10 RETURNING *": ("delete", "read"),
}


@pytest.mark.parametrize("statement", STATEMENTS)
def test_each_kind_of_write_takes_its_rights(sql: Sql, one: Table, statement: str) -> None:
    needed = STATEMENTS[statement]
    for missing in needed:
        may = {right: right != missing for right in ("read", "insert", "update", "delete")}
        problem = sql.fault(statement, rights=rights(one, **may))
        assert isinstance(problem, MissingRights) and problem.status_code == 403 and not problem.is_hidden
        assert problem.missing[0][:3] == ("data", "Item", missing)
    sql(statement, rights=rights(one, **dict.fromkeys(needed, True)))


@pytest.mark.parametrize("statement", STATEMENTS)
def test_without_any_right_the_table_does_not_exist(sql: Sql, one: Table, statement: str) -> None:
    problem = sql.fault(statement, rights=rights(one))
    assert isinstance(problem, MissingRights) and problem.is_hidden


def test_rights_on_attributes(sql: Sql, one: Table) -> None:
    some = rights(
        one, read=True, insert=True, update=True, delete=True,
        attributes={"n": (True, True, False), "name": (True, False, True), "flag": (False, True, True), "big": (True, False, False)},
    )  # fmt: skip
    sql("INSERT INTO data.Item (id, n, flag) VALUES (2, 5, TRUE)", rights=some)
    sql("UPDATE data.Item SET name = n, flag = FALSE WHERE big IS NULL AND n = 5".replace("= n,", "= name,"), rights=some)
    faults = {
        "INSERT INTO data.Item (id, name) VALUES (3, 'x')": ("insert", "name", False),
        "INSERT INTO data.Item (id, tags) VALUES (3, NULL)": ("insert", "tags", True),
        "INSERT INTO data.Item (id, nothing) VALUES (3, NULL)": ("insert", "nothing", True),
        "UPDATE data.Item SET n = 5": ("update", "n", False),
        "UPDATE data.Item SET tags = NULL": ("update", "tags", True),
        "UPDATE data.Item SET name = flag": ("read", "flag", None),
        "UPDATE data.Item SET name = 'x' WHERE flag": ("read", "flag", None),
        "UPDATE data.Item SET name = 'x' ORDER BY flag LIMIT 1": ("read", "flag", None),
        "DELETE FROM data.Item WHERE flag": ("read", "flag", None),
        "DELETE FROM data.Item WHERE id = 9 RETURNING flag": ("read", "flag", None),
        "UPDATE data.Item SET name = 'x' WHERE id = 9 RETURNING flag": ("read", "flag", None),
        "INSERT INTO data.Item (id, n) VALUES (1, 1) ON CONFLICT (id) DO UPDATE SET n = 1": ("update", "n", False),
        "INSERT INTO data.Item (id, n) VALUES (1, 1) ON CONFLICT (id) DO UPDATE SET name = Item.flag": ("read", "flag", None),
    }
    for statement, (right, attribute, is_hidden) in faults.items():
        problem = sql.fault(statement, rights=some)
        assert isinstance(problem, MissingRights), statement
        assert problem.missing == [("data", "Item", right, attribute)], statement
        assert is_hidden is None or problem.is_hidden is is_hidden, statement
    assert sql("DELETE FROM data.Item WHERE id = 2 RETURNING *", rights=some) == [{"id": 2, "n": 5, "name": None, "big": None}]


def test_what_is_missing_is_told_together(sql: Sql, one: Table) -> None:
    some = rights(one, read=True, insert=True, update=True, attributes={"n": (True, True, False), "name": (True, False, False)})
    problem = sql.fault("UPDATE data.Item SET n = 1, name = 'x', flag = 1", rights=some)
    assert isinstance(problem, MissingRights)
    assert problem.missing == [("data", "Item", "update", name) for name in ("n", "name", "flag")] and not problem.is_hidden


def test_times_take_no_right(sql: Sql, strict: Table) -> None:
    some = rights(strict, read=True, insert=True, update=True, attributes={"need": (True, True, True), "made": (True, True, True)})
    sql("INSERT INTO data.Strict (key, need, made) VALUES ('a', 1, '2000-01-01')", rights=some)
    sql("UPDATE data.Strict SET need = 2, made = '2000-01-01', changed = 1", rights=some)
    assert records_of(strict)[0]["made"].year == 2026


def test_a_role_with_listed_attributes_adds_none(sql: Sql, loose: Table) -> None:
    sql("INSERT INTO data.Loose (id, color) VALUES ('a', 'red')")
    some = rights(loose, read=True, insert=True, update=True, attributes={"color": (True, True, True)})
    for statement in ("UPDATE data.Loose SET shade = 1", "INSERT INTO data.Loose (id, shade) VALUES (1, 1)"):
        assert isinstance(sql.fault(statement, rights=some), MissingRights)
    assert "shade" not in loose.attributes
    sql("UPDATE data.Loose SET shade = 1", rights={"Loose": TableRights(read=True, update=True)})
    assert "shade" in loose.attributes


def test_the_user_is_told_who_is_known(sql: Sql, one: Table) -> None:
    problem = sql.fault("DELETE FROM data.Item", rights=rights(one, read=True), user=None)
    assert problem.status_code == 401


def test_names_may_differ_in_case(sql: Sql, store: Store) -> None:
    attributes = (
        Attribute("id", "Int", primary_key=True),
        Attribute("Size", "Int"),
        Attribute("size", "Int"),
        Attribute("Color", "String"),
    )
    table = store.open_database("data").define_table(TableDefinition("Shirt", attributes=attributes))
    target = WriteTarget(TableRef("Shirt", "data"), UserCatalogue(TableViews(store), None, is_checked=False), None)
    assert [target.resolved(name) for name in ("Size", "size", "SIZE", "COLOR", "nothing")] == ["Size", "size", "SIZE", "Color", "nothing"]
    assert [column.name for column in target.columns(("ID", "size", "COLOR"), "insert")] == ["id", "size", "Color"]
    with pytest.raises(QueryError, match=r"unknown column Shirt\.SIZE"):
        target.columns(("SIZE",), "update")
    assert target.table is table


def test_whoever_may_do_everything(sql: Sql, one: Table) -> None:
    assert sql("DELETE FROM data.Item", rights={"Item": ALL_RIGHTS})["deleted_hashes"] == [1]
