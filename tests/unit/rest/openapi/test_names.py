"""Names of schemas and operations (spec: http §10.2)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Documents = Callable[..., dict[str, Any]]


def operation_ids(document: dict[str, Any]) -> dict[str, str]:
    return {
        f"{method} {path}": operation["operationId"]
        for path, item in document["paths"].items()
        for method, operation in item.items()
        if method not in ("parameters", "options")
    }


def test_operations_are_called_as_the_type(document_of: Documents) -> None:
    names = operation_ids(document_of('type Category @table @export(name: "shop/categories") { id: ID @primaryKey }'))
    assert names == {
        "get /shop/categories/": "listCategories",
        "put /shop/categories/": "replaceCategories",
        "post /shop/categories/": "createCategory",
        "delete /shop/categories/": "deleteCategories",
        "get /shop/categories/{id}": "getCategory",
        "put /shop/categories/{id}": "replaceCategory",
        "patch /shop/categories/{id}": "updateCategory",
        "delete /shop/categories/{id}": "deleteCategory",
        "get /shop/categories/{id}.{property}": "getCategoryProperty",
    }


def test_a_table_of_the_default_database_keeps_its_name(document_of: Documents) -> None:
    own = "type A @table @export { id: ID @primaryKey }"
    other = 'type A @table(database: "another") @export(name: "1/a") { id: ID @primaryKey }'
    alone, both = document_of(own), document_of(own, other)
    assert operation_ids(alone).items() <= operation_ids(both).items()
    assert operation_ids(both)["get /1/a/{id}"] == "getAnotherA"
    assert "AnotherA" in both["components"]["schemas"]


def test_names_that_differ_in_case_or_number_are_told_apart(document_of: Documents) -> None:
    document = document_of(
        """type Product @table @export { id: ID @primaryKey }
        type Products @table @export { id: ID @primaryKey }
        type product @table @export(name: "small/thing") { id: ID @primaryKey }
        type ProductUpdate @table @export { id: ID @primaryKey }"""
    )
    names = list(operation_ids(document).values())
    assert len({name.lower() for name in names}) == len(names) == 9 * 4
    assert {"Product", "Products", "DataProductUpdate", "DataProduct2"} <= set(document["components"]["schemas"])
