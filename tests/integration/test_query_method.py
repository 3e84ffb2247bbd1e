"""The method QUERY against the real server: the query is the body (spec: query §9)."""

from __future__ import annotations

from typing import Any

import cbor2
import httpx
import pytest

pytestmark = pytest.mark.programs

RECORDS = [{"id": f"q{number:02}", "name": f"query{number % 3}", "price": number, "brandId": f"qb{number % 2}"} for number in range(20)]


@pytest.fixture(autouse=True)
def records(client: httpx.Client) -> None:
    assert client.put("/Product/", json=RECORDS).status_code == 204
    assert client.put("/Brand/", json=[{"id": "qb0", "name": "Even"}, {"id": "qb1", "name": "Odd"}]).status_code == 204


def query(client: httpx.Client, body: Any, path: str = "/Product/") -> httpx.Response:
    return client.request("QUERY", path, json=body)


def test_conditions_select_sort_and_limit(client: httpx.Client) -> None:
    found = query(
        client,
        {
            "conditions": [
                {"attribute": "name", "comparator": "starts_with", "value": "query"},
                {
                    "operator": "or",
                    "conditions": [{"attribute": "price", "value": 3}, {"attribute": "price", "comparator": "greater_than", "value": 17}],
                },
                {"attribute": ["brand", "name"], "value": "Odd"},
            ],
            "select": ["id", {"name": "brand", "select": ["name"]}],
            "sort": {"attribute": "price", "descending": True},
            "limit": 2,
        },
    )
    assert found.json() == [{"id": "q19", "brand": {"name": "Odd"}}, {"id": "q03", "brand": {"name": "Odd"}}]


def test_any_structured_type_holds_a_query(client: httpx.Client) -> None:
    body = cbor2.dumps({"conditions": [{"attribute": "id", "value": "q07"}], "select": "price"})
    answered = client.request(
        "QUERY", "/Product/", content=body, headers={"Content-Type": "application/cbor", "Accept": "application/cbor"}
    )
    assert cbor2.loads(answered.content) == [7]
    assert client.request("QUERY", "/Product/", content=b"x", headers={"Content-Type": "text/plain"}).status_code == 415


def test_explain_shows_the_plan_and_runs_nothing(client: httpx.Client) -> None:
    plan = query(client, {"conditions": [{"attribute": "price", "comparator": "gt", "value": 5}], "explain": True}).json()
    assert set(plan) >= {"conditions", "operator", "postOrdering", "selectApplied"}


def test_faults_are_told_with_their_place(client: httpx.Client) -> None:
    for body, code in (
        ({"conditions": [{"attribute": "prise", "value": 1}]}, "UNKNOWN_ATTRIBUTE"),
        ({"conditions": [{"attribute": "inStock", "value": True}]}, "NOT_INDEXED"),
        ({"conditions": [{"attribute": "price", "comparator": "like", "value": 1}]}, "UNUSABLE_OPERATOR"),
        ({"conditions": [{"attribute": "price", "value": "cheap"}]}, "BAD_VALUE"),
        ({"where": []}, "QUERY_SYNTAX"),
        (7, "QUERY_SYNTAX"),
    ):
        answered = query(client, body)
        assert (answered.status_code, answered.json()["code"]) == (400, code), answered.text


def test_only_collections_are_queried(client: httpx.Client) -> None:
    assert query(client, {}, "/Product/q01").status_code == 405
    assert query(client, {}, "/Product/?price=gt=1").json()["code"] == "QUERY_SYNTAX"
    assert "QUERY" in client.options("/Product/").headers["allow"]
    assert client.request("QUERY", "/Product/").status_code == 400
