"""Requests and answers over HTTP: methods, parameters, media types, statuses."""

import gzip
from pathlib import Path
from typing import Any
from urllib.parse import quote

import cbor2
import pytest

from tests.support.graphql import NEWER, OLDER, Shop, open_shop

QUERY = '{ Brand(id: "acme") { name } }'
DATA = {"data": {"Brand": [{"name": "Acme"}]}}


def test_the_same_by_every_way(shop: Shop) -> None:
    app = shop.app
    for path in ("/graphql", "/graphql/"):
        answer = app.post(path, {"query": QUERY, "variables": None, "operationName": None, "extensions": {"a": 1}, "more": 1})
        assert (answer.status, answer.json) == (200, DATA)
        answer = app.get(f"{path}?query={quote(QUERY)}&variables={{}}&extensions={{}}&operationName=&other=1")
        assert (answer.status, answer.json) == (200, DATA)
    assert shop.get("query A($id:ID){Brand(id:$id){name}}query B{Brand{id}}", operationName="A", variables='{"id":"acme"}').json == DATA
    assert app.get("/graphql?query=query+A%7BBrand(id%3A%22acme%22)%7Bname%7D%7D&operationName=A").json == DATA
    for sent in ("application/graphql+json", "application/vnd.api+json; charset=utf-8"):
        assert app.post("/graphql", data=b'{"query": "{Brand(id:\\"acme\\"){name}}"}', headers={"Content-Type": sent}).json == DATA
    head = app.head(f"/graphql?query={quote(QUERY)}")
    assert (head.status, head.content) == (200, b"")


def test_other_structured_types(shop: Shop) -> None:
    body = b"\x81\xa5query" + bytes([0xA0 | len(b"{Brand{id}}")]) + b"{Brand{id}}"
    answer = shop.app.post("/graphql", data=body, headers={"Content-Type": "application/x-msgpack"})
    assert answer.json == {"data": {"Brand": [{"id": "acme"}, {"id": "zeta"}]}}


@pytest.mark.parametrize(
    "accept", [None, "*/*", NEWER, f"{OLDER};q=0.5, {NEWER}", "application/*", "text/csv", f"{OLDER}, {NEWER}", "", "nonsense;;q=x"]
)
def test_the_newer_type_is_the_default(shop: Shop, accept: str | None) -> None:
    headers = {} if accept is None else {"Accept": accept}
    answer = shop.app.post("/graphql", {"query": QUERY}, headers=headers)
    assert answer.headers["Content-Type"] == f"{NEWER}; charset=utf-8"
    assert answer.headers["Vary"] == "Accept, Accept-Encoding, Authorization, Cookie"
    assert answer.headers["Cache-Control"] == "private, no-cache"
    assert answer.headers["Server-Timing"].startswith("execute;dur=")
    assert "ETag" not in answer.headers
    assert shop.app.post("/graphql", {"query": "{ Nothing { id } }"}, headers=headers).status == 400


@pytest.mark.parametrize("accept", [OLDER, f"{NEWER};q=0.5, {OLDER}", f"{OLDER}, */*;q=0.1", f"{OLDER}; charset=utf-8", "application/JSON"])
def test_the_older_type_says_faults_in_the_body(shop: Shop, accept: str) -> None:
    answer = shop.app.post("/graphql", {"query": "{ Nothing { id } }"}, headers={"Accept": accept})
    assert (answer.status, answer.headers["Content-Type"]) == (200, f"{OLDER}; charset=utf-8")
    assert answer.json["errors"][0]["extensions"]["code"] == "NOT_FOUND"


MALFORMED: list[tuple[Any, str]] = [
    (b"{", "Invalid JSON"),
    (b"\xff", "Invalid JSON"),
    (b"", "needs a body"),
    (b"[]", "The body must be an object with 'query'"),
    (b'[{"query": "{ a }"}]', "a list of requests is not supported"),
    (b'"{ a }"', "The body must be an object with 'query'"),
    (b"{}", "'query' is missing"),
    (b'{"query": null}', "'query' is missing"),
    (b'{"query": ""}', "'query' is missing"),
    (b'{"query": 5}', "'query' must be a string"),
    (b'{"query": "{ a }", "operationName": 5}', "'operationName' must be a string or null"),
    (b'{"query": "{ a }", "variables": "{}"}', "'variables' must be an object or null"),
    (b'{"query": "{ a }", "variables": []}', "'variables' must be an object or null"),
]


@pytest.mark.parametrize(("body", "message"), MALFORMED)
@pytest.mark.parametrize("accept", [NEWER, OLDER])
def test_malformed_requests(shop: Shop, body: bytes, message: str, accept: str) -> None:
    answer = shop.app.post("/graphql", data=body, headers={"Content-Type": "application/json", "Accept": accept})
    (error,) = answer.json["errors"]
    assert (answer.status, error["extensions"]["code"]) == (400, "BAD_BODY")
    assert message in error["message"]


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ("", "'query' is missing"),
        ("?query=", "'query' is missing"),
        ("?query={a}&query={b}", "'query' is given twice"),
        ("?query={a}&variables=[", "'variables' is no JSON"),
        ("?query={a}&variables=5", "'variables' must be an object or null"),
        ("?query={a}&extensions=[", "'extensions' is no JSON"),
        ("?query=%FF", "not UTF-8"),
        ("?query={a}" + "&x=1" * 200, "more than 100 fields"),
    ],
)
@pytest.mark.parametrize("accept", [NEWER, OLDER])
def test_malformed_addresses(shop: Shop, parameters: str, message: str, accept: str) -> None:
    answer = shop.app.get(f"/graphql{parameters}", headers={"Accept": accept})
    (error,) = answer.json["errors"]
    assert (answer.status, error["extensions"]["code"]) == (400, "BAD_BODY")
    assert message in error["message"]


@pytest.mark.parametrize("accept", [NEWER, OLDER])
def test_statuses_that_do_not_depend_on_the_type(shop: Shop, accept: str) -> None:
    headers = {"Accept": accept}
    for method in ("PUT", "PATCH", "DELETE"):
        answer = getattr(shop.app, method.lower())("/graphql", headers=headers)
        assert (answer.status, answer.headers["Allow"]) == (405, "GET, HEAD, POST")
        assert answer.json["errors"][0]["extensions"]["code"] == "METHOD_NOT_ALLOWED"
    for sent in ("text/plain", "application/graphql", "application/octet-stream", "image/png"):
        answer = shop.app.post("/graphql", data=b"{ Brand { id } }", headers=headers | {"Content-Type": sent})
        assert (answer.status, answer.json["errors"][0]["extensions"]["code"]) == (415, "UNSUPPORTED_MEDIA_TYPE")
    anonymous = shop.app.as_user(None).post("/graphql", {"query": QUERY}, headers=headers)
    assert (anonymous.status, anonymous.json["errors"][0]["extensions"]["code"]) == (401, "UNAUTHENTICATED")
    assert anonymous.headers["WWW-Authenticate"]
    refused = shop.app.as_user({"role": "buyer"}).post("/graphql", {"query": QUERY}, headers=headers)
    assert (refused.status, refused.json["errors"][0]["extensions"]["code"]) == (403, "FORBIDDEN")


def test_options_and_paths(shop: Shop) -> None:
    options = shop.app.options("/graphql")
    assert (options.status, options.headers["Allow"]) == (204, "GET, HEAD, POST")
    for path in ("/graphql/x", "/Graphql", "/graphqlx", "/graphql//"):
        assert shop.app.get(path).status == 404


def test_a_compressed_answer(shop: Shop) -> None:
    query = "{ " + " ".join(f"a{number}: Brand {{ id name country }}" for number in range(50)) + " }"
    answer = shop.app.post("/graphql", {"query": query}, headers={"Accept-Encoding": "gzip"})
    assert answer.headers["Content-Encoding"] == "gzip"
    assert len(answer.json["data"]) == 50


@pytest.mark.parametrize("field", ["Product(id: 1, place: $v)", "Product(brand: $v)", "Weather(city: $v)", "Marked(name: $v)"])
@pytest.mark.parametrize("value", [{1: 2}, {"a": {None: 1}}, {(1, 2): 3}])
def test_members_of_other_types_than_json(shop: Shop, field: str, value: Any) -> None:
    body = cbor2.dumps({"query": f"query ($v: Any) {{ {field} {{ id }} }}", "variables": {"v": value}})
    answer = shop.app.post("/graphql", data=body, headers={"Content-Type": "application/cbor", "Accept": NEWER})
    assert answer.status == 400 and answer.json["errors"][0]["extensions"]["code"] in ("BAD_VALUE", "UNKNOWN_ATTRIBUTE")


def test_members_without_conditions_are_counted(shop: Shop) -> None:
    members: dict[str, Any] = {f"k{number}": {} for number in range(1001)}
    assert shop.error("query ($v: Any) { Product(id: 1, place: $v) { id } }", {"v": members})[:2] == (400, "BAD_VALUE")
    assert shop.data("query ($v: Any) { Product(id: 1, place: $v) { id } }", {"v": {"a": {}}}) == {"Product": [{"id": "1"}]}


def test_an_anonymous_caller_sends_short_bodies(shop: Shop) -> None:
    variables = {"v": "x" * 200_000}
    assert shop.data("{ __typename }", variables) == {"__typename": "Query"}
    assert shop.error("{ __typename }", variables, user=None)[:2] == (401, "UNAUTHENTICATED")
    assert shop.data("{ __typename }", {"v": "x" * 20_000}, user=None) == {"__typename": "Query"}
    body, headers = gzip.compress(b'{"query": "{ __typename }"}'), {"Content-Type": "application/json", "Content-Encoding": "gzip"}
    assert shop.app.post("/graphql", data=body, headers=headers).status == 200
    assert shop.app.as_user(None).post("/graphql", data=body, headers=headers).status == 401


LISTENERS = """
from svc import server

server.http(lambda request, next: "early" if "early" in request.headers else next(request), before="graphql")
server.http(lambda request, next: f"late {request.pathname}" if "late" in request.headers else next(request), after="graphql")
"""


def test_listeners_before_and_after(tmp_path: Path) -> None:
    with open_shop(tmp_path / "app", resources=LISTENERS, roles="") as shop:
        app = shop.app

        def ask(path: str, name: str) -> Any:
            return app.get(path, headers={name: "1"}).json

        assert ask("/graphql?query={__typename}", "early") == ask("/openapi", "early") == ask("/Brand/acme", "early") == "early"
        assert ask("/graphql?query={__typename}", "late") == {"data": {"__typename": "Query"}}
        assert ask("/graphql/?query={__typename}", "late") == {"data": {"__typename": "Query"}}
        assert ask("/openapi", "late") == "late /openapi"
        assert ask("/Brand/acme", "late") == "late /Brand/acme"
