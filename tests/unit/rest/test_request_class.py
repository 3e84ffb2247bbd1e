"""How soon a request is refused under overload."""

from __future__ import annotations

import pytest

from svc.connection.load_shedding import RequestClass
from svc.graphql.settings import ADDRESS as GRAPHQL_ADDRESS
from svc.operations.registry import all_operations
from svc.operations.request_class import CLASSES, class_of_operation
from svc.rest.request_class import GRAPHQL, LONG, class_of_request


@pytest.mark.parametrize(
    ("method", "target", "content", "kind"),
    [
        ("GET", "/health", b"", "HEALTH"),
        ("GET", "/metrics?x=1", b"", "HEALTH"),
        ("GET", "/health/1", b"", "READ"),
        ("HEAD", "/Product/1", b"", "READ"),
        ("OPTIONS", "/Product/", b"", "READ"),
        ("QUERY", "/Product/", b"price=gt=20", "READ"),
        ("PUT", "/Product/1", b"{}", "WRITE"),
        ("PUT", "/Product/1", b"x" * (LONG + 1), "BULK"),
        ("DELETE", "/Product/1", b"", "WRITE"),
        ("DELETE", "/Product/?price=gt=20", b"", "BULK"),
        ("POST", "/Product/?action=x", b"", "WRITE"),
        ("POST", "/sql", b"{}", "BULK"),
        ("GET", "/sql?x=1", b"", "BULK"),
        ("POST", "/graphql", b'{"query": "{ products { id } }"}', "READ"),
        ("POST", "/graphql", b'{"query": "mutation { add { id } }"}', "WRITE"),
    ],
)
def test_requests(method: str, target: str, content: bytes, kind: str) -> None:
    assert class_of_request(method, target, content).name == kind


@pytest.mark.parametrize(
    ("target", "content", "kind"),
    [
        ("/health", b"", "HEALTH"),
        ("/", b'{"operation":"search_by_id","table":"T","ids":[1]}', "READ"),
        ("/", b'{ "operation" : "insert", "records": []}', "WRITE"),
        ("/", b'{"operation":"export_local"}', "BULK"),
        ("/", b'{"operation":"describe_all"}', "OPERATION"),
        ("/", b'{"operation":"no_such_thing"}', "OPERATION"),
        ("/", b"\x81\xa9operation", "OPERATION"),
    ],
)
def test_operations(target: str, content: bytes, kind: str) -> None:
    assert class_of_operation("POST", target, content).name == kind


def test_the_classes_of_operations_are_those_of_their_categories() -> None:
    categories = {"searches": RequestClass.READ, "records": RequestClass.WRITE, "sql": RequestClass.BULK, "bulk": RequestClass.BULK}
    wanted = {name: categories[row.category] for row in all_operations() for name in row.names if row.category in categories}
    assert {name: kind for kind, names in CLASSES.items() for name in names} == wanted


def test_the_address_of_graphql_is_known() -> None:
    assert GRAPHQL == GRAPHQL_ADDRESS
