"""Answers over a whole node: which type, which fields, at once or as a stream."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator, Iterator
from itertools import count
from pathlib import Path
from typing import Any
from urllib.parse import urljoin

import cbor2
import msgspec
import pytest

from svc.errors import SnapshotLost
from svc.http.conditional import http_date
from svc.http.response_parts import RestOptions
from svc.http.row_responses import next_page
from tests.support.node import Node

RECORDS = 700  # more than a batch, more than a slice of a filtered scan


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    node = Node(tmp_path_factory.mktemp("node"))
    records = [{"id": f"p{number:04}", "name": f"name {number % 7}", "price": number / 2, "tags": ["a"]} for number in range(RECORDS)]
    assert node.connect().ask("PUT", "/Product/", json.dumps(records).encode())[0] == 204
    yield node
    node.close()


def ask(node: Node, target: str, method: str = "GET", body: bytes = b"", **fields: str) -> tuple[int, dict[str, str], bytes]:
    named = {name.replace("_", "-"): value for name, value in fields.items()}
    status, answered, content = node.connect().ask(method, target, body, {"Content-Type": "application/json"} | named)
    if answered.get("transfer-encoding") == "chunked" and method != "HEAD":
        content = dechunked(content)
    assert not node.errors
    return status, answered, content


def dechunked(content: bytes) -> bytes:
    pieces = []
    while True:
        size, _, content = content.partition(b"\r\n")
        if int(size, 16) == 0:
            assert content == b"\r\n"
            return b"".join(pieces)
        pieces.append(content[: int(size, 16)])
        content = content[int(size, 16) + 2 :]


@pytest.mark.parametrize(
    ("accept", "loads"),
    [("application/json", json.loads), ("application/cbor", cbor2.loads), ("application/x-msgpack", msgspec.msgpack.decode)],
    ids=["json", "cbor", "msgpack"],
)
def test_every_type_tells_the_same(node: Node, accept: str, loads: Any) -> None:
    for target in ("/Product/p0001", "/Product/?price=lt=5", "/Product/", "/Product/?price=ge=0&name==name%203&select(id,price)"):
        plain = json.loads(ask(node, target)[2])
        status, fields, content = ask(node, target, Accept=accept)
        assert (status, fields["content-type"], fields["vary"]) == (200, accept, "Accept, Accept-Encoding, Authorization, Cookie")
        assert loads(content) == plain


def test_long_results_stream_and_short_ones_have_a_length(node: Node) -> None:
    _, long, content = ask(node, "/Product/")
    assert "content-length" not in long and len(json.loads(content)) == RECORDS
    _, short, content = ask(node, "/Product/?price=lt=5")
    assert int(short["content-length"]) == len(content)
    _, page, content = ask(node, "/Product/?limit(500)")
    assert int(page["content-length"]) == len(content) and len(json.loads(content)) == 500


def test_csv_names_its_columns_first(node: Node) -> None:
    _, fields, content = ask(node, "/Product/.csv?price=lt=1&select(id,price)")
    assert content == b'"id","price"\r\n"p0000",0\r\n"p0001",0.5\r\n'
    assert fields["content-disposition"] == 'attachment; filename="Product.csv"'
    assert ask(node, "/Product/p0001.csv?select(id,price)")[2] == b'"id","price"\r\n"p0001",0.5\r\n'
    assert ask(node, "/Product/?price=lt=1&select(price)", Accept="text/csv")[2] == b'"price"\r\n0\r\n0.5\r\n'


def test_an_extension_beats_accept(node: Node) -> None:
    status, fields, _ = ask(node, "/Product/p0001.json", Accept="image/png")
    assert (status, fields["content-type"]) == (200, "application/json")
    assert ask(node, "/Product/p0001", Accept="image/png")[0] == 406
    assert ask(node, "/Product/?price=lt=1", Accept="image/png")[0] == 406


def test_raw_content_is_sent_whatever_is_accepted(node: Node) -> None:
    assert ask(node, "/Product/note", "PUT", b"hello", Content_Type="text/calendar")[0] == 204
    status, fields, content = ask(node, "/Product/note", Accept="image/png")
    assert (status, fields["content-type"], content) == (200, "text/calendar; charset=utf-8", b"hello")
    assert json.loads(ask(node, "/Product/note.json")[2]) == {"contentType": "text/calendar", "data": "hello", "id": "note"}
    assert ask(node, "/Product/note", "DELETE")[0] == 204


@pytest.mark.parametrize(
    ("stored", "answered", "body"),
    [
        ("text/plain; charset=latin-1", "text/plain; charset=latin-1", "5 é".encode("latin-1")),
        ("text/plain;charset=UTF-8", "text/plain; charset=utf-8", "5 é".encode()),
        ("text/plain; charset=us-ascii", "text/plain; charset=utf-8", "5 é".encode()),
        ("text/plain; charset=klingon; format=flowed", "text/plain; format=flowed; charset=utf-8", "5 é".encode()),
        ("application/sql; charset=latin-1", "application/sql; charset=latin-1", "5 é".encode("latin-1")),
        ("application/sql", "application/sql", "5 é".encode()),
    ],
)
def test_raw_text_has_one_charset_and_that_is_true(node: Node, stored: str, answered: str, body: bytes) -> None:
    record = json.dumps({"contentType": stored, "data": "5 é"}).encode()
    assert ask(node, "/Product/note", "PUT", record, Content_Type="application/json")[0] == 204
    status, fields, content = ask(node, "/Product/note")
    assert (status, fields["content-type"], content) == (200, answered, body)
    assert ask(node, "/Product/note", "DELETE")[0] == 204


@pytest.mark.parametrize(
    ("content_type", "policy"), [("text/html", "sandbox"), ("image/svg+xml", "sandbox"), ("application/PDF; a=b", None)]
)
def test_what_users_have_stored_runs_no_scripts_in_browsers(
    node: Node, monkeypatch: pytest.MonkeyPatch, content_type: str, policy: str | None
) -> None:
    assert ask(node, "/Product/page", "PUT", b"<script>alert(1)</script>", Content_Type=content_type)[0] == 204
    assert ask(node, "/Product/page")[1].get("content-security-policy") == policy
    assert ask(node, "/Product/page.json")[1].get("content-security-policy") is None
    monkeypatch.setattr(node.rest._responses, "options", RestOptions(sandbox=False))
    assert "content-security-policy" not in ask(node, "/Product/page")[1]
    assert ask(node, "/Product/page", "DELETE")[0] == 204


def test_problems_come_in_the_binary_type_that_was_asked_for(node: Node) -> None:
    status, fields, content = ask(node, "/Product/missing", Accept="application/cbor")
    assert (status, fields["content-type"], cbor2.loads(content)["code"]) == (404, "application/cbor", "NOT_FOUND")
    _, fields, content = ask(node, "/Product/missing", Accept="text/csv")
    assert (fields["content-type"], json.loads(content)["code"]) == ("application/problem+json", "NOT_FOUND")


def test_queries_tell_where_their_time_went(node: Node) -> None:
    _, fields, _ = ask(node, "/Product/?price=lt=5")
    assert "server-timing" in fields


@pytest.mark.parametrize("accept", ["application/json", "application/x-msgpack", "application/cbor", "text/csv", "application/x-ndjson"])
@pytest.mark.parametrize(
    "query", ["", "?price=ge=0&name==name%203", "?price=ge=0&sort(-name,price)&limit(40)", "?price=ge=0&facet(name)", "?price=ge=0&count()"]
)
def test_what_gives_way_is_answered_alike(node: Node, monkeypatch: pytest.MonkeyPatch, accept: str, query: str) -> None:
    status, fields, at_once = ask(node, "/Product/" + query, Accept=accept)
    monkeypatch.setattr(node.rest._responses, "_now", count().__next__)
    hurried_status, hurried_fields, in_slices = ask(node, "/Product/" + query, Accept=accept)
    assert (hurried_status, hurried_fields.get("link"), in_slices) == (status, fields.get("link"), at_once)


def test_an_answer_given_up_before_it_began_lets_go_of_its_snapshot(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(node.rest._responses, "_now", count().__next__)
    held = []
    snapshots = node.store.snapshots
    hold = snapshots.hold
    monkeypatch.setattr(snapshots, "hold", lambda *given, **options: held.append(hold(*given, **options)) or held[-1])
    wire = node.connect()
    wire.sock.incoming.append(b"GET /Product/?price=ge=0&sort(-name) HTTP/1.1\r\nHost: localhost\r\n\r\n")
    wire.connection.on_readable()
    wire.connection.close_now()
    while node.turn():
        pass
    assert len(held) == 1 and len(snapshots) == 0
    with pytest.raises(SnapshotLost):
        held[0].use()


class Lines:
    """An application's content type without streams."""

    q = 0.3

    async def serialize(self, data: Any) -> str:
        return "\n".join(map(str, [each["id"] for each in data] if isinstance(data, list) else [data["id"]]))


async def as_lines(data: AsyncIterator[Any]) -> AsyncIterator[str]:
    async for each in data:
        yield each["id"] + "\n"


def test_types_of_applications(node: Node) -> None:
    node.types["text/x-lines"] = Lines()
    node.types["text/x-streamed"] = {"serialize_stream": as_lines, "serialize": lambda data: data["id"]}
    try:
        assert ask(node, "/Product/?price=lt=1", Accept="text/x-lines")[2] == b"p0000\np0001"
        assert ask(node, "/Product/p0001", Accept="text/x-lines")[2] == b"p0001"
        assert ask(node, "/Product/p0001", Accept="text/x-streamed")[2] == b"p0001"
    finally:
        del node.types["text/x-lines"], node.types["text/x-streamed"]
    assert ask(node, "/Product/p0001", Accept="text/x-lines")[0] == 406


def test_the_next_page_replaces_the_cursor() -> None:
    assert next_page("a=1&limit(2)", "X", 2) == "?a=1&limit(2)&after(X)"
    assert next_page("after(W)&limit(2)", "X", 2) == "?limit(2)&after(X)"
    assert next_page("a=1&after(W)&limit(0,2)", "X", 2) == "?a=1&limit(2)&after(X)"
    assert next_page("limit(1,3)&a[b=1&limit(9)&c=2]&d=3", "X", 2) == "?a[b=1&limit(9)&c=2]&d=3&limit(2)&after(X)"
    assert next_page("limit(3)&select(a[b=1&limit(9)],c)", "X", 3) == "?select(a[b=1&limit(9)],c)&limit(3)&after(X)"


def test_the_next_page_is_found_behind_a_proxy_with_another_path(node: Node) -> None:
    """The address is relative to that of the request, whatever the peer's peer called it; resolved by RFC 3986."""
    _, fields, _ = ask(node, "/Product/?limit(3)&select(id)")
    reference = fields["link"].partition(">")[0].removeprefix("<")
    outside = urljoin("https://example.org/api/v1/Product/?limit(3)&select(id)", reference)
    assert outside.startswith("https://example.org/api/v1/Product/?")
    assert json.loads(ask(node, outside.removeprefix("https://example.org/api/v1"))[2]) == ["p0003", "p0004", "p0005"]


def test_a_query_in_a_body_has_no_address_of_its_next_page(node: Node) -> None:
    body = json.dumps({"conditions": [{"attribute": "price", "comparator": "gt", "value": 5}], "limit": 2}).encode()
    status, fields, _ = ask(node, "/Product/", "QUERY", body)
    assert status == 200 and "link" not in fields


def test_pages_lead_through_the_whole_result(node: Node) -> None:
    for query in ("limit(100)", "price=ge=0&sort(-name,price)&limit(100)", "name==name%203&limit(10)", "limit(50,150)"):
        found: list[str] = []
        target = f"/Product/?{query}&select(id)"
        while True:
            _, fields, content = ask(node, target)
            found += json.loads(content)
            if "link" not in fields:
                break
            target = urljoin(target, fields["link"].partition(">")[0].removeprefix("<"))
        whole = re.sub(r"&?limit\([^)]*\)", "", query)
        assert found == json.loads(ask(node, f"/Product/?{whole}&select(id)")[2])[50 if "50,150" in query else 0 :], query


def test_a_deleted_record_tells_when_it_was_deleted(tmp_path: Path) -> None:
    """As long as the log knows it, and where times are shown (spec: http §4.1)."""
    node = Node(tmp_path)
    for key in ("gone", "gone/deep", "here"):
        assert ask(node, f"/Product/{key}", "PUT", b"{}")[0] == 204
    written = http_date(node.clock.wall())
    node.clock.advance(100)
    deleted = http_date(node.clock.wall())
    for key in ("gone", "gone/deep"):
        assert ask(node, f"/Product/{key}", "DELETE")[0] == 204
    node.clock.advance(100)
    assert "last-modified" not in ask(node, "/Product/gone")[1], "not asked for"
    node.rest._responses.options = RestOptions(last_modified=True)
    assert ask(node, "/Product/here")[1]["last-modified"] == written
    for target in (
        "/Product/gone",
        "/Product/gone/deep",
        "/Product/gone.name",
        "/Product/gone/name",
        "/Product/gone.csv",
        "/Product/gone?select(id)",
    ):
        for method in ("GET", "HEAD"):
            status, fields, _ = ask(node, target, method)
            assert (status, fields.get("last-modified")) == (404, deleted), target
    assert "last-modified" not in ask(node, "/Product/never")[1]
    assert ask(node, "/Product/gone", "PUT", b"{}")[0] == 204
    assert ask(node, "/Product/gone")[1]["last-modified"] == http_date(node.clock.wall())
    database = node.store.databases["data"]
    assert ask(node, "/Product/gone", "DELETE")[0] == 204
    assert ask(node, "/Product/later", "PUT", b"{}")[0] == 204
    assert database.log.prune(database.writer(), float("inf"), 100) > 0
    database.env.touch()
    node.store.commit_turn()
    node.store.end_turn()
    status, fields, _ = ask(node, "/Product/gone")
    assert (status, "last-modified" in fields) == (404, False), "the log has forgotten it"
    node.close()


def test_the_next_page_keeps_the_form_of_the_client() -> None:
    assert next_page("_limit=2&_sort=a&b=c(d&_offset=4", "X", 2) == "?_sort=a&b=c(d&_limit=2&_after=X"
    assert next_page("_after=W&_limit=2&_count=exact", "X", 2) == "?_count=exact&_limit=2&_after=X"
    assert next_page("limit%2810%2C20%29=&select%28id%29=&a%3Dgt=5", "X", 10) == "?select%28id%29=&a%3Dgt=5&limit(10)&after(X)"
    assert next_page("limit(3)=&after(W)=&_sort=a", "X", 3) == "?_sort=a&limit(3)&after(X)"


@pytest.mark.parametrize(
    ("query", "total"),
    [
        ("_limit=2&_count=exact", 700),
        ("_limit=20&_offset=690&_count=exact", 700),
        ("_limit=20&_offset=900&_count=exact", 700),
        ("price=ge=100&_limit=3&_count=exact", 500),
        ("name==name%203&price=ge=0&sort(-price)&limit(1)&_count=exact", 100),
        ("price=lt=1&_count=exact", 2),
        ("limit(0)&_count=exact", 700),
        ("_count=exact", 700),  # an answer that streams
    ],
)
def test_the_number_of_all_records(node: Node, query: str, total: int) -> None:
    for method in ("GET", "HEAD"):
        status, fields, _ = ask(node, f"/Product/?{query}", method)
        assert (status, fields["x-total-count"]) == (200, str(total))
        assert "preference-applied" not in fields
        _, fields, _ = ask(node, f"/Product/?{query.replace('_count=exact', '')}", method, Prefer="count=exact, wait=5")
        assert (fields["x-total-count"], fields["preference-applied"]) == (str(total), "count=exact")
    assert "x-total-count" not in ask(node, f"/Product/?{query.replace('_count=exact', '')}", Prefer="count=planned")[1]
    for accept in ("application/cbor", "text/csv"):
        assert ask(node, f"/Product/?{query}", Accept=accept)[1]["x-total-count"] == str(total)


def test_what_has_no_total(node: Node) -> None:
    for target in ("/Product/?count()", "/Product/?facet(name)&_limit=2", "/Product/p0001", "/Product/p0001?select(id)"):
        status, fields, _ = ask(node, target, Prefer="count=exact")
        assert status == 200 and "x-total-count" not in fields and "preference-applied" not in fields
    status, fields, _ = ask(node, "/Product/", "QUERY", b'{"limit": 2}', Prefer="count=exact")
    assert (status, fields["x-total-count"]) == (200, "700")
    assert ask(node, "/Product/?_count=exact&facet(name)")[0] == 400


def test_the_total_is_the_same_on_each_page(node: Node) -> None:
    address, pages = "/Product/?price=ge=300&_limit=40&_sort=-price&_count=exact", 0
    while address:
        _, fields, content = ask(node, address)
        assert fields["x-total-count"] == "100" and json.loads(content)
        pages += 1
        link = re.fullmatch('<(.*)>; rel="next"', fields.get("link", ""))
        address = urljoin(address, link[1]) if link else ""
        assert not link or "_limit=40&_after=" in address
    assert pages == 3


def test_plain_parameters_of_a_record_and_of_a_delete(node: Node) -> None:
    assert json.loads(ask(node, "/Product/p0001?_select=id,price")[2]) == {"id": "p0001", "price": 0.5}
    for name in ("_limit", "_where", "_sort"):
        status, _, content = ask(node, f"/Product/?{name}=&price=gt=1", "DELETE")
        assert status == 400 and name in json.loads(content)["detail"]
    assert ask(node, "/Product/?price=gt=9000&_count=exact", "DELETE")[0] == 400
    assert ask(node, "/Product/p9999", "PUT", b'{"price": 5000}')[0] == 204
    status, fields, _ = ask(node, "/Product/?_where=price%3Dgt%3D4000&_limit=5", "DELETE")
    assert (status, fields["x-deleted-count"]) == (204, "1")
