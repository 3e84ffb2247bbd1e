"""svc.graphql.one_record: what was planned once is answered without a plan, and answers the same."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from svc.graphql import execution
from svc.graphql.table_fields import TableFields
from tests.support.graphql import PRODUCTS, SUPER_USER, Shop, open_shop

CLERK, BUYER = {"role": "clerk"}, {"role": "buyer"}
BY_ID = "query($key: ID) { Product(id: $key) { %s } }"
SELECTIONS = [
    "id name",
    "price key: id madeAt",
    "name secret",
    "id label place { city } meta tags",
    "place { shelf { row } }",
    "__typename id",
    "id brand { name }",
    "nothing",
    "id stock",
]
KEYS: list[Any] = ["1", "9", "none", "", None, 1, 1.5, True, ["1"], {"name": "x"}, "x" * 5000, "\udc00", "1/2", 10**400]
DOCUMENTS = [
    "query($key: ID) { Ticket(code: $key) { code title } }",
    "query($key: ID) { Ticket(id: $key) { code id } }",
    "query($key: Long) { shop_Order(number: $key) { number productId } }",
    "query($key: ID) { shop_Order(id: $key) { number } }",
    "query($key: ID) { p: Product(id: $key) { name } }",
    'query($key: ID) { Product(id: $key, name: "name 1") { name } }',
    "query($key: ID) { Product(id: $key) { name } Brand { id } }",
    "query($key: ID) { Product(name: $key) { name } }",
    "query($key: ID) { Marked(id: $key) { name } }",
    "query($key: ID) { Weather(id: $key) { id } }",
    "query($key: ID) { Hidden(id: $key) { id } }",
    "query($key: ID!) { Product(id: $key) { name } }",
    'query($key: ID = "2") { Product(id: $key) { name } }',
    "query($key: ID) { Product(id: $other) { name } }",
    'query($key: ID) { Product(id: "3") { name } }',
]


@pytest.fixture
def plans(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """The fields that are planned."""
    planned: list[str] = []
    ordinary = TableFields.planned

    def noting(self: TableFields, field: Any, *rest: Any) -> Any:
        planned.append(field.name)
        return ordinary(self, field, *rest)

    monkeypatch.setattr(TableFields, "planned", noting)
    yield planned


@pytest.mark.parametrize("user", [SUPER_USER, CLERK, BUYER, None], ids=["super", "clerk", "buyer", "anonymous"])
@pytest.mark.parametrize("document", [*[BY_ID % selection for selection in SELECTIONS], *DOCUMENTS])
def test_the_answer_is_that_of_a_plan(shop: Shop, monkeypatch: pytest.MonkeyPatch, document: str, user: Any) -> None:
    answers = []
    for maybe in (execution.maybe_record, lambda *arguments: None):
        monkeypatch.setattr(execution, "maybe_record", maybe)
        shop.ask(document, {"key": "1"}, user=user)
        answers.append([shop.ask(document, variables, user=user) for variables in [{"key": key} for key in KEYS] + [None]])
    assert answers[0] == answers[1]


@pytest.mark.parametrize("user", [SUPER_USER, CLERK], ids=["super", "clerk"])
def test_a_record_is_planned_once(shop: Shop, plans: list[str], user: Any) -> None:
    document = BY_ID % f"name price{' ' * (user is CLERK)}"
    for product in PRODUCTS:
        expected = [{"name": product["name"], "price": product["price"]}]
        assert shop.data(document, {"key": product["id"]}, user=user)["Product"] == expected
    assert plans == ["Product"]
    assert shop.data(document, {"key": "none"}, user=user)["Product"] == []
    assert shop.error(document, {"key": "1"}, user=None)[0] == 401
    assert plans == ["Product"]


def test_a_changed_record_and_a_changed_schema_are_seen(tmp_path: Path) -> None:
    with open_shop(tmp_path / "app") as shop:
        document = BY_ID % "name stock"
        for stock in (1, 2, 3):
            shop.app.put("/Product/1", {"name": "n", "stock": stock})
            assert shop.data(document, {"key": "1"})["Product"] == [{"name": "n", "stock": stock}]
        shop.app.delete("/Product/1")
        assert shop.data(document, {"key": "1"})["Product"] == []
        shop.app.put("/Product/1", {"name": "n", "stock": 4})
        for attribute in ("late", "later"):
            shop.app.operation("create_attribute", table="Product", attribute=attribute)
            assert shop.data(document, {"key": "1"})["Product"] == [{"name": "n", "stock": 4}]
        assert shop.data(document, {"key": "1"}, user=BUYER)["Product"] == [{"name": "n", "stock": 4}]
        assert shop.data(document, {"key": "1"}, user=BUYER)["Product"] == [{"name": "n", "stock": 4}]
        permission = {
            "data": {"tables": {"Product": {"read": False, "insert": False, "update": False, "delete": False, "attribute_permissions": []}}}
        }
        shop.app.operation("alter_role", id="buyer", role="buyer", permission=permission)
        assert shop.error(document, {"key": "1"}, user=BUYER)[0] == 403
        shop.app.operation("drop_table", table="Product")
        assert shop.ask(document, {"key": "1"})[0] != 200


def test_a_long_record_is_counted_as_other_answers_are(shop: Shop, plans: list[str]) -> None:
    shop.app.put("/Product/long", {"name": "x" * 70_000})
    document = BY_ID % "id  name"
    assert [len(shop.data(document, {"key": "long"})["Product"][0]["name"]) for _ in range(3)] == [70_000] * 3
    assert plans == ["Product"] * 3
    shop.app.delete("/Product/long")
