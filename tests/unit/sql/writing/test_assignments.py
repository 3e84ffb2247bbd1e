"""svc.sql.writing.assignments: what SET says, beyond what tests of statements try."""

from typing import Any

import pytest

from svc.sql.nodes import Update
from svc.sql.parser import parse
from svc.sql.rights import TableViews, UserCatalogue
from svc.sql.writing.assignments import Assignments, ReadNames
from svc.sql.writing.context import BoundQueries, WriteContext
from svc.sql.writing.targets import WriteTarget
from svc.store import Store, Table


def update(text: str) -> Update:
    statement = parse(f"UPDATE data.Item {text}")
    assert isinstance(statement, Update)
    return statement


@pytest.fixture
def target(store: Store, items: Table) -> WriteTarget:
    return WriteTarget(update("SET n = 1").table, UserCatalogue(TableViews(store), None, is_checked=False), None)


def test_what_is_computed_and_what_is_not(store: Store, target: WriteTarget) -> None:
    def refuse(*arguments: Any) -> Any:
        raise AssertionError

    context = WriteContext(UserCatalogue(TableViews(store), None, is_checked=False), None, lambda name: [name], refuse, BoundQueries())
    assignments = Assignments(
        update("SET n = n + 1, flag = TRUE, any = ?, (name, data) = (upper(name), NULL)").assignments, target, context, "update"
    )
    assert [column.name for column in assignments.columns] == ["n", "flag", "any", "name", "data"]
    assert len(assignments.items) == 2
    first, second = assignments.values([5, "A"]), assignments.values([6, "B"])
    assert first == {"flag": True, "any": [1], "data": None, "n": 5, "name": "A"} and second["n"] == 6 and second is not first


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("SET n = 1", set()),
        ("SET n = N + 1", {"n"}),
        ("SET n = 1 WHERE Item.name = 'x' AND id > 5", {"name", "id"}),
        ("SET n = 1 ORDER BY day LIMIT 5", {"day"}),
        ("SET n = (SELECT max(i.big) FROM data.Item i WHERE i.name = Item.name)", {"big", "name"}),
        ("SET n = nothing", set()),
        ("SET n = 1 WHERE double > 5", None),
        ("SET n = l.flag FROM data.Loose l WHERE l.id = Item.ratio", {"flag", "id", "ratio"}),
    ],
)
def test_which_attributes_are_read(target: WriteTarget, text: str, names: set[str] | None) -> None:
    statement = update(text)
    found = ReadNames(statement, target).value
    assert found == (None if names is None else frozenset(names))
