"""Options of lists where code of an application answers."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.graphql import Shop, open_shop


@pytest.fixture(scope="module")
def extended(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shop]:
    with open_shop(tmp_path_factory.mktemp("app"), "{extended: true}") as shop:
        yield shop


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ("_limit: 2", ["8", "9"]),
        ('_sort: "-price", _limit: 1', ["9"]),
        ('_sort: ["-price"], _offset: 1', ["8"]),
        ('_where: "price=gt=20"', ["9"]),
        ('name: "name 2", _limit: 5', ["8"]),
        ('price: "22.5", _limit: 5', ["9"]),
        ("price: 22.5, _limit: 5", ["9"]),
        ('id: 9, _limit: 5, _where: "brand.name==Zeta"', ["9"]),
        ('id: "9", _limit: 0', []),
        ('brand: {name: "Acme"}, _sort: "id"', ["8"]),
        ('name: "name 2", meta: {x: {y: 8}}, _limit: 5', ["8"]),
        ("price: null, _limit: 5", []),
    ],
)
def test_lists(extended: Shop, arguments: str, expected: list[str]) -> None:
    data = extended.data(f"{{ Dear({arguments}) {{ id b: brand {{ name }} __typename }} }}")
    assert [row["id"] for row in data["Dear"]] == expected
    assert all(row["__typename"] == "Dear" and row["b"]["name"] in ("Acme", "Zeta") for row in data["Dear"])


@pytest.mark.parametrize(
    ("field", "code"),
    [
        ("Weather(_limit: 1)", "UNUSABLE_OPERATOR"),
        ("Dear(_limit: -1)", "QUERY_SYNTAX"),
        ('Dear(_where: "(price=gt=1")', "QUERY_SYNTAX"),
        ('Dear(_where: "select(id)")', "BAD_VALUE"),
    ],
)
def test_faults(extended: Shop, field: str, code: str) -> Any:
    status, found, message = extended.error(f"{{ {field} {{ id }} }}")
    assert (status, found) == (400, code), message
