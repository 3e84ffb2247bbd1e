"""REST on records, as a client sees it (spec: http §1-§5, §10, §11.1)."""

from __future__ import annotations

import base64
import json
import struct
from typing import Any

import httpx
import pytest

from tests.integration.conftest import Process

pytestmark = pytest.mark.programs

PROBLEM = "application/problem+json"


def problem(response: httpx.Response, status: int, code: str) -> dict[str, Any]:
    """The response is the problem object of http §5."""
    assert response.status_code == status, response.text
    assert response.headers["content-type"] == PROBLEM
    body: dict[str, Any] = response.json()
    assert body["type"] == "about:blank"
    assert body["status"] == status
    assert body["code"] == code, body
    assert body["detail"] == body["error"]
    assert body["title"]
    return body


# --- records ---------------------------------------------------------------------------------------------------------------------------


def test_put_stores_exactly_what_was_sent(client: httpx.Client) -> None:
    body = {"name": "Keyboard", "price": 49.5, "brandId": "b1", "extra": {"deep": [1, None, {"x": "\u00e9\U0001f600"}]}}
    response = client.put("/Product/p1", json=body)
    assert (response.status_code, response.content) == (204, b"")
    got = client.get("/Product/p1")
    assert got.status_code == 200
    assert got.headers["content-type"] == "application/json"
    assert got.json() == {**body, "id": "p1"}
    assert list(got.json()) == [*body, "id"]  # order kept, the key appended
    client.put("/Product/p1", json={"id": "another", "name": "Mouse"})
    assert client.get("/Product/p1").json() == {"id": "p1", "name": "Mouse"}


def test_answers_carry_the_service_headers(client: httpx.Client) -> None:
    client.put("/Product/h1", json={"name": "x"})
    got = client.get("/Product/h1")
    assert got.headers["server-timing"].startswith("db;dur=")
    assert "date" in got.headers
    assert "server" not in got.headers
    assert got.headers["vary"] == "Accept, Accept-Encoding, Authorization, Cookie"
    assert got.headers["cache-control"] == "private, no-cache"
    assert "etag" not in client.put("/Product/h1", json={"name": "y"}).headers


def test_etag_is_the_version_and_304_has_no_body(client: httpx.Client) -> None:
    client.put("/Product/e1", json={"name": "x"})
    first = client.get("/Product/e1")
    tag = first.headers["etag"]
    assert len(tag) == 13
    version = struct.unpack(">d", base64.urlsafe_b64decode(tag[1:-1] + "="))[0]
    assert 1.6e12 < version < 1e14  # milliseconds since the epoch
    again = client.get("/Product/e1", headers={"If-None-Match": tag})
    assert (again.status_code, again.content) == (304, b"")
    assert again.headers["etag"] == tag
    client.put("/Product/e1", json={"name": "x"})
    changed = client.get("/Product/e1", headers={"If-None-Match": tag})
    assert changed.status_code == 200
    assert changed.headers["etag"] != tag


def test_write_preconditions(client: httpx.Client) -> None:
    client.delete("/Product/c1")
    problem(client.put("/Product/c1", json={"name": "x"}, headers={"If-Match": "*"}), 412, "PRECONDITION_FAILED")
    assert client.put("/Product/c1", json={"name": "x"}, headers={"If-None-Match": "*"}).status_code == 204
    problem(client.put("/Product/c1", json={"name": "y"}, headers={"If-None-Match": "*"}), 412, "PRECONDITION_FAILED")
    tag = client.get("/Product/c1").headers["etag"]
    assert client.patch("/Product/c1", json={"stock": 1}, headers={"If-Match": tag}).status_code == 204
    problem(client.patch("/Product/c1", json={"stock": 2}, headers={"If-Match": tag}), 412, "PRECONDITION_FAILED")
    problem(client.delete("/Product/c1", headers={"If-Match": tag}), 412, "PRECONDITION_FAILED")
    past = "Thu, 01 Jan 2015 00:00:00 GMT"
    problem(client.put("/Product/c1", json={"name": "z"}, headers={"If-Unmodified-Since": past}), 412, "PRECONDITION_FAILED")
    problem(client.get("/Product/c1", headers={"If-Match": '"x"'}), 412, "PRECONDITION_FAILED")
    assert client.get("/Product/c1").json() == {"name": "x", "stock": 1, "id": "c1"}


def test_patch_merges_at_the_top_and_creates(client: httpx.Client) -> None:
    client.delete("/Product/m1")
    assert client.patch("/Product/m1", json={"name": "x", "specs": {"a": 1, "b": 2}, "a.b": 1}).status_code == 204
    assert client.patch("/Product/m1", json={"specs": {"c": 3}, "price": None}).status_code == 204
    assert client.get("/Product/m1").json() == {"name": "x", "specs": {"c": 3}, "a.b": 1, "price": None, "id": "m1"}


def test_patch_add(client: httpx.Client) -> None:
    client.put("/Product/a1", json={"stock": 5})
    client.patch("/Product/a1", json={"stock": {"__op__": "add", "value": -2}, "fresh": {"__op__": "add", "value": 1.5}})
    assert client.get("/Product/a1").json() == {"stock": 3, "fresh": 1.5, "id": "a1"}
    body = problem(client.patch("/Product/a1", json={"stock": {"__op__": "multiply", "value": 2}}), 400, "VALIDATION")
    assert "Invalid CRDT operation multiply" in body["detail"]
    assert client.patch("/Product/a1", json={"stock": {"__op__": "add", "value": 0.5}}).status_code == 400
    assert client.get("/Product/a1").json()["stock"] == 3


def test_delete_is_idempotent(client: httpx.Client) -> None:
    client.put("/Product/d1", json={"name": "x"})
    for _ in range(2):
        assert client.delete("/Product/d1").status_code == 204
    problem(client.get("/Product/d1"), 404, "NOT_FOUND")
    problem(client.delete("/Product/d1", headers={"If-Match": "*"}), 412, "PRECONDITION_FAILED")


def test_post_creates_with_a_generated_key(client: httpx.Client) -> None:
    response = client.post("/Product/", json={"name": "new"})
    assert response.status_code == 201
    key = response.json()
    assert response.headers["location"] == f"/Product/{key}"
    assert client.get(f"/Product/{key}").json() == {"name": "new", "id": key}
    client.delete("/Product/given%2F1:2")
    assert client.post("/Product", json={"id": "given/1:2", "name": "g"}).headers["location"] == "/Product/given/1%3A2"
    problem(client.post("/Product/", json={"id": "given/1:2"}), 409, "RECORD_EXISTS")
    first, second = (client.post("/counters/", json={"label": "n"}).json() for _ in range(2))
    assert isinstance(first, int)
    assert second > first


def test_post_below_a_prefix(client: httpx.Client) -> None:
    response = client.post("/Product/shelf/", json={"name": "x"})
    assert response.json().startswith("shelf/")
    assert response.headers["location"] == f"/Product/{response.json()}"
    assert client.get(response.headers["location"]).status_code == 200


def test_post_of_a_list_is_one_transaction(client: httpx.Client) -> None:
    client.delete("/counters/?id=ge=901")
    response = client.post("/counters/", json=[{"id": 901, "label": "a"}, {"id": 902, "label": "b"}])
    assert (response.status_code, response.json()) == (201, [901, 902])
    assert "location" not in response.headers
    problem(client.post("/counters/", json=[{"id": 903, "label": "c"}, {"id": 901, "label": "again"}]), 409, "RECORD_EXISTS")
    problem(client.get("/counters/903"), 404, "NOT_FOUND")


def test_put_of_a_list_upserts_each(client: httpx.Client) -> None:
    assert client.put("/Brand/", json=[{"id": "l1", "name": "A"}, {"id": "l2", "name": "B"}]).status_code == 204
    assert client.put("/Brand/", json={"id": "l1", "name": "A2"}).status_code == 204
    assert client.get("/Brand/l1").json()["name"] == "A2"
    assert client.put("/Brand/", json=[{"id": "l3", "name": "C"}, {"name": "no key"}]).status_code == 400
    problem(client.get("/Brand/l3"), 404, "NOT_FOUND")
    assert client.delete("/Brand/?id=sw=l").status_code == 204


def test_times_are_stamped(client: httpx.Client) -> None:
    client.put("/counters/77", json={"label": "t"})
    first = client.get("/counters/77").json()
    client.put("/counters/77", json={"label": "u"})
    second = client.get("/counters/77").json()
    assert second["created"] == first["created"]
    assert second["updated"] >= first["updated"]
    assert second["updated"].endswith("Z")


# --- ids and addresses -----------------------------------------------------------------------------------------------------------------


def test_ids_of_several_segments_are_one_text(client: httpx.Client) -> None:
    client.put("/Product/x/y/z", json={"name": "deep"})
    assert client.get("/Product/x/y/z").json()["id"] == "x/y/z"
    assert client.get("/Product/x%2Fy%2Fz").json()["id"] == "x/y/z"
    client.put("/Product/x/y", json={"name": "parent"})
    client.put("/Product/x/yz", json={"name": "sibling"})
    assert [r["id"] for r in client.get("/Product/x/y/").json()] == ["x/y/z"]


def test_properties(client: httpx.Client) -> None:
    client.put("/Product/q1", json={"name": "x", "price": None, "tags": ["a"], "other": 1})
    assert client.get("/Product/q1.name").json() == "x"
    assert client.get("/Product/q1.price").json() is None
    assert client.get("/Product/q1.tags").json() == ["a"]
    problem(client.get("/Product/q1.stock"), 404, "NOT_FOUND")
    problem(client.get("/Product/q1.other"), 404, "NOT_FOUND")
    assert client.get("/Product/q1.json").json()["id"] == "q1"
    assert client.get("/Product/q1.name").headers["etag"] == client.get("/Product/q1").headers["etag"]


def test_property_upload(client: httpx.Client) -> None:
    client.put("/Product/u1", json={"name": "x"})
    headers = {"Content-Type": "application/octet-stream"}
    assert client.put("/Product/u1/image", content=b"\x00\xff", headers=headers).status_code == 204
    assert client.get("/Product/u1").json() == {"name": "x", "id": "u1", "image": base64.b64encode(b"\x00\xff").decode()}
    assert client.put("/Product/u1/stock", json=7).status_code == 204
    assert client.get("/Product/u1/stock").json() == 7
    assert client.put("/Product/u1/stock", json="seven").status_code == 400


def test_key_types(client: httpx.Client) -> None:
    body = problem(client.get("/counters/x"), 400, "BAD_VALUE")
    assert body["detail"] == 'Invalid value for attribute id: "x", expecting Long'
    assert client.put("/counters/5", json={"label": "five"}).status_code == 204
    assert client.get("/counters/5").json()["id"] == 5
    problem(client.put("/Product/" + "k" * 660, json={}), 400, "BAD_VALUE")
    assert client.put("/Product/" + "k" * 659, json={"name": "long"}).status_code == 204
    assert client.get("/Product/" + "k" * 659).json()["name"] == "long"


@pytest.mark.parametrize("path", ["/Product/%zz", "/Product/a//b", "/Product/%ff", "/Product/%"])
def test_bad_paths(client: httpx.Client, path: str) -> None:
    response = client.request("GET", httpx.URL(client.base_url, raw_path=path.encode()))
    assert response.status_code == 400, response.text


def test_what_is_not_there(client: httpx.Client) -> None:
    assert problem(client.get("/Nothing"), 404, "NOT_FOUND")["detail"] == "Not found"
    problem(client.get("/Secret/"), 404, "NOT_FOUND")
    problem(client.get("/product/1"), 404, "NOT_FOUND")
    assert problem(client.get("/Product/none"), 404, "NOT_FOUND")["detail"] == "Record not found"


# --- methods ---------------------------------------------------------------------------------------------------------------------------


def test_head_is_get_without_a_body(client: httpx.Client) -> None:
    client.put("/Product/hd", json={"name": "x"})
    get, head = client.get("/Product/hd"), client.head("/Product/hd")
    assert (head.status_code, head.content) == (200, b"")
    for name in ("content-length", "content-type", "etag", "vary"):
        assert head.headers[name] == get.headers[name]
    assert client.head("/Product/none").status_code == 404
    assert client.head("/Product/").content == b""


@pytest.mark.parametrize(
    ("path", "methods"),
    [
        ("/Product/1", "GET, HEAD, PUT, PATCH, DELETE, OPTIONS"),
        ("/Product/1.name", "GET, HEAD, OPTIONS"),
        ("/Product/", "GET, HEAD, PUT, POST, DELETE, OPTIONS"),
        ("/Product/a/", "GET, HEAD, PUT, POST, DELETE, OPTIONS"),
        ("/Product", "GET, HEAD, PUT, POST, OPTIONS"),
    ],
)
def test_options_tell_the_methods_of_the_address(client: httpx.Client, anonymous: httpx.Client, path: str, methods: str) -> None:
    response = anonymous.options(path)
    assert response.status_code == 204
    assert response.headers["allow"].replace("QUERY, ", "") == methods
    assert ("accept-patch" in response.headers) == ("PATCH" in methods)
    refused = client.request("TRACE", path)
    assert (refused.status_code, refused.headers["allow"]) == (405, response.headers["allow"])
    assert anonymous.request("TRACE", path).status_code == 401


@pytest.mark.parametrize(
    ("method", "path"),
    [("POST", "/Product/1"), ("PATCH", "/Product/"), ("PATCH", "/Product"), ("DELETE", "/Product"), ("TRACE", "/Product/1"), ("COPY", "/Product/1"),
     ("MOVE", "/Product/1")],
)  # fmt: skip
def test_methods_a_table_lacks(client: httpx.Client, method: str, path: str) -> None:
    response = client.request(method, path, json={})
    problem(response, 405, "METHOD_NOT_ALLOWED")
    assert "GET" in response.headers["allow"]


def test_unknown_methods(client: httpx.Client) -> None:
    body = problem(client.request("BREW", "/Product/1"), 501, "NOT_IMPLEMENTED")
    assert body["detail"] == "Method BREW is not recognized"


# --- bodies ----------------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "body",
    [
        b"", b"{", b"nonsense", b"[" * 50_000, b'{"a":' * 2000 + b"1" + b"}" * 2000, b'{"a":NaN}', b'{"a":"\\ud800"}', b'{"a":"\xff"}',
        b"null", b"7", b'"text"', b'{"a":' + b"9" * 5_000_000 + b"}", b'{"a":1e999}', b'{"a":1,}',
    ],
    ids=lambda body: f"{len(body)}-{body[:12]!r}",
)  # fmt: skip
def test_bad_bodies_change_nothing(client: httpx.Client, body: bytes) -> None:
    client.put("/Product/bad", json={"name": "kept"})
    for method in ("PUT", "PATCH"):
        response = client.request(method, "/Product/bad", content=body, headers={"Content-Type": "application/json"})
        assert response.status_code == 400, (method, body[:20], response.text)
        assert response.json()["code"] in ("BAD_BODY", "VALIDATION")
    assert client.get("/Product/bad").json() == {"name": "kept", "id": "bad"}


def test_values_of_the_wrong_type(client: httpx.Client) -> None:
    body = problem(
        client.put("/Product/v1", json={"price": "x", "inStock": 1, "stock": 1.5, "tags": "t", "listDate": "soon"}), 400, "VALIDATION"
    )
    assert len(body["errors"]) == 5
    assert 'Value "x" in property price must be a number' in body["errors"]
    assert body["detail"] == ". ".join(body["errors"])
    problem(client.put("/Strict/s1", json={"size": 1, "foo": 2}), 400, "VALIDATION")
    assert "Property foo is not allowed" in client.put("/Strict/s1", json={"foo": 2}).json()["detail"]
    problem(client.put("/counters/1001", json={"hits": 1}), 400, "VALIDATION")
    problem(client.put("/Product/v1", json={"brand": {"id": "b"}}), 400, "VALIDATION")


def test_values_survive_the_journey(client: httpx.Client) -> None:
    numbers = [0, -1, 2**53, 2**63, 2**64 + 1, -(2**70), 10**250, 0.1, 1.5e300, -2.5e-300]
    client.put("/Product/n1", json={"n": numbers, "listDate": "2026-01-05T20:07:27.955Z", "text": "line\u2028\u0000end"})
    got = json.loads(client.get("/Product/n1").text)
    assert got["n"] == numbers
    assert got["listDate"] == "2026-01-05T20:07:27.955Z"
    assert got["text"] == "line\u2028\u0000end"
    client.put("/Product/n2", content=b'{"price": 5.0, "n": [1.0, -0.0]}', headers={"Content-Type": "application/json"})
    assert client.get("/Product/n2").text == '{"price":5,"n":[1,0],"id":"n2"}'


def test_raw_content_comes_back_raw(client: httpx.Client) -> None:
    calendar = "BEGIN:VCALENDAR\r\nSUMMARY:\u00e9\r\n"
    client.put("/Doc/cal", content=calendar.encode(), headers={"Content-Type": "text/calendar"})
    got = client.get("/Doc/cal")
    assert got.text == calendar
    assert got.headers["content-type"].startswith("text/calendar")
    assert got.headers["x-content-type-options"] == "nosniff"
    assert client.get("/Doc/cal.json").json() == {"contentType": "text/calendar", "data": calendar, "id": "cal"}


def test_a_large_record(client: httpx.Client) -> None:
    text = "x" * 3_000_000
    assert client.put("/Doc/large", json={"text": text}).status_code == 204
    assert client.get("/Doc/large").json()["text"] == text

    def chunks() -> Any:
        yield b'{"text":"'
        yield b"y" * 500_000
        yield b'"}'

    assert client.put("/Doc/chunked", content=chunks(), headers={"Content-Type": "application/json"}).status_code == 204
    assert len(client.get("/Doc/chunked").json()["text"]) == 500_000


# --- collections -----------------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def brands(server: Process) -> list[dict[str, Any]]:
    records = [{"id": f"r{n:03}", "name": f"N{n % 7}"} for n in range(300)]
    with server.client() as client:
        assert client.delete("/Brand/").status_code == 204
        assert client.put("/Brand/", json=records).status_code == 204
    return records


def test_a_collection_is_in_key_order(client: httpx.Client, brands: list[dict[str, Any]]) -> None:
    response = client.get("/Brand/")
    assert [r["id"] for r in response.json()] == [r["id"] for r in brands]
    assert "etag" not in response.headers


def test_conditions_and_limit(client: httpx.Client, brands: list[dict[str, Any]]) -> None:
    assert len(client.get("/Brand/?name=N3").json()) == len([b for b in brands if b["name"] == "N3"])
    assert len(client.get("/Brand?name==N3&limit(5)").json()) == 5
    assert [r["id"] for r in client.get("/Brand/?id=ge=r290&limit(2,4)").json()] == ["r292", "r293"]
    assert client.get("/Brand/?name=none").json() == []
    assert len(client.get("/Brand/?name=ge=N5").json()) == len([b for b in brands if b["name"] >= "N5"])


def test_query_faults(client: httpx.Client) -> None:
    assert problem(client.get("/Product/?inStock=true"), 400, "NOT_INDEXED")["detail"].startswith('"inStock" is not indexed')
    assert problem(client.get("/Product/?nope=1"), 400, "UNKNOWN_ATTRIBUTE")["detail"] == "nope is not a defined attribute"
    detail = problem(client.get("/Product/?price==abc"), 400, "BAD_VALUE")["detail"]
    assert detail == 'Invalid value for attribute price: "abc", expecting Float'
    assert "position" in problem(client.get("/Product/?limit(x)"), 400, "QUERY_SYNTAX")["detail"]
    problem(client.get("/Product/?price=in=1"), 400, "UNUSABLE_OPERATOR")


def test_delete_by_query(client: httpx.Client) -> None:
    client.put("/Product/", json=[{"id": f"dq{n}", "brandId": "gone" if n % 2 else "stays"} for n in range(6)])
    assert client.delete("/Product/?brandId=gone").status_code == 204
    assert client.get("/Product/?brandId=gone").json() == []
    assert len(client.get("/Product/?brandId=stays").json()) == 3


def test_no_request_empties_a_table_by_accident(client: httpx.Client) -> None:
    client.put("/Doc/kept", json={"a": 1})
    for target in ("/Doc", "/Doc?"):
        problem(client.request("DELETE", httpx.URL(client.base_url, raw_path=target.encode())), 405, "METHOD_NOT_ALLOWED")
    problem(client.delete("/Doc/?select(a)"), 400, "BAD_REQUEST")
    for query in ("id=gt=", "id=sw=", "id=ge=a&lt="):
        assert "expected a value" in problem(client.delete(f"/Doc/?{query}"), 400, "QUERY_SYNTAX")["detail"]
    assert client.get("/Doc/kept").status_code == 200


def test_expired_records_are_invisible(client: httpx.Client) -> None:
    client.put("/Fleeting/past", json={"until": 1000.0})
    client.put("/Fleeting/future", json={"until": 4e12})
    problem(client.get("/Fleeting/past"), 404, "NOT_FOUND")
    assert [r["id"] for r in client.get("/Fleeting/").json()] == ["future"]


def test_description(client: httpx.Client) -> None:
    body = client.get("/Product").json()
    assert (body["records"], body["name"], body["database"]) == ("/Product/", "Product", "data")
    by_name = {a["name"]: a for a in body["attributes"]}
    assert by_name["id"] == {"name": "id", "attribute": "id", "type": "ID", "isPrimaryKey": True}
    assert by_name["price"]["indexed"] is True
    assert by_name["tags"]["elements"] == "String"
    assert by_name["brand"]["relationship"] == {"from": "brandId"}
    assert client.get("/counters").json()["records"] == "/counters/"


# --- who is asking ---------------------------------------------------------------------------------------------------------------------


def test_anonymous_callers_may_nothing(anonymous: httpx.Client) -> None:
    for method, path in (
        ("GET", "/Product/1"),
        ("GET", "/Product/"),
        ("GET", "/Product"),
        ("PUT", "/Product/1"),
        ("DELETE", "/Product/1"),
        ("POST", "/Product/"),
    ):
        response = anonymous.request(method, path, json={"name": "x"})
        body = problem(response, 401, "UNAUTHENTICATED")
        assert body["detail"] == "Must login"
        assert response.headers["www-authenticate"].startswith('Basic realm="svc"')


@pytest.mark.parametrize(
    "value", ["Basic !!!", "Basic", "Basic " + base64.b64encode(b"admin:wrong").decode(), "Basic " + base64.b64encode(b"nobody:x").decode()]
)
def test_wrong_credentials(anonymous: httpx.Client, value: str) -> None:
    response = anonymous.get("/Product/1", headers={"Authorization": value})
    assert problem(response, 401, "UNAUTHENTICATED")["detail"] == "Login failed"


def test_a_script_gets_no_challenge(anonymous: httpx.Client) -> None:
    assert "www-authenticate" not in anonymous.get("/Product/1", headers={"X-Requested-With": "XMLHttpRequest"}).headers


def test_an_accept_nobody_can_serve(client: httpx.Client) -> None:
    problem(client.get("/Product/1", headers={"Accept": "image/png"}), 406, "NOT_ACCEPTABLE")
    assert client.put("/Product/1", json={"name": "x"}, headers={"Accept": "image/png"}).status_code == 204


def test_cors(anonymous: httpx.Client) -> None:
    """No origin is listed here: see test_cross_site.py."""
    origin = "https://shop.example"
    preflight = anonymous.options("/Product/1", headers={"Origin": origin, "Access-Control-Request-Method": "PUT"})
    assert preflight.status_code == 200
    assert preflight.headers["access-control-allow-origin"] == "*"
    for response in (anonymous.get("/Product", headers={"Origin": origin}), anonymous.get("/Nothing", headers={"Origin": origin})):
        assert response.headers["access-control-allow-origin"] == "*"
        assert "access-control-allow-credentials" not in response.headers
