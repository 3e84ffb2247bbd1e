"""Forms through a whole node: parts are attributes, files go to disk as they come (spec: http §7.5)."""

import gzip
import json
import random
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from svc.content import multipart
from svc.errors import NoSpace
from svc.store.blobs import BlobFile
from svc.store.values.records import decode
from tests.support.node import Node, Wire

SCHEMA = """
type Photo @table @export {
  id: ID @primaryKey  image: Blob  raw: Bytes  images: [Blob]  title: String  seats: Int  at: Date  yes: Boolean  tags: [String]  place: Place
}
type Place { hall: String  row: Int }
type Strict @table @export @sealed { id: ID @primaryKey  name: String! }
"""
CONTENT = bytes(range(256)) * 500
BOUNDARY = "--------x7"

PartOf = tuple[str, bytes] | tuple[str, bytes, dict[str, str]]
"""(what follows `form-data` in its disposition, content, further fields)."""


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    app = tmp_path / "app"
    app.mkdir()
    (app / "schema.graphql").write_text(SCHEMA)
    made = Node(tmp_path / "database", app)
    yield made
    assert made.errors == []
    made.store.check()
    made.close()


@pytest.fixture
def wire(node: Node) -> Wire:
    return node.connect()


def form(*parts: PartOf, end: bytes = b"--\r\n") -> bytes:
    body = b""
    for disposition, content, *fields in parts:
        lines = [f"--{BOUNDARY}", f"Content-Disposition: form-data{disposition}"]
        lines += [f"{name}: {value}" for each in fields for name, value in each.items()]
        body += "\r\n".join(lines).encode() + b"\r\n\r\n" + content + b"\r\n"
    return body + f"--{BOUNDARY}".encode() + end


def field(name: str, text: str) -> PartOf:
    return f'; name="{name}"', text.encode()


def file(name: str, content: bytes = CONTENT, kind: str = "image/png") -> PartOf:
    return f'; name="{name}"; filename="a picture.png"', content, {"Content-Type": kind}


def send(wire: Wire, method: str, target: str, body: bytes, cut: int | None = None, **fields: str) -> tuple[int, Any]:
    """`cut`: bytes of the pieces in which the body comes after its head; None: all at once."""
    wire.sock.sent = b""
    lines = [f"{method} {target} HTTP/1.1", "Host: localhost", f"Content-Length: {len(body)}"]
    lines += [
        f"Content-Type: multipart/form-data; boundary={BOUNDARY}",
        *(f"{name.replace('_', '-')}: {value}" for name, value in fields.items()),
    ]
    head = "\r\n".join(lines).encode() + b"\r\n\r\n"
    pieces = [head + body] if cut is None else [head, *(body[start : start + cut] for start in range(0, len(body), cut))]
    head, _, answer = wire.send(*pieces).partition(b"\r\n\r\n")
    return int(head.split(b" ")[1]), json.loads(answer) if answer else None


def stored(node: Node, key: str) -> dict[str, Any]:
    raw = node.store.databases["data"].tables["Photo"].get_raw(key)
    assert raw is not None
    found = decode(raw)
    node.store.end_turn()
    return found


def files_of(node: Node) -> int:
    return sum(len(names) for _, names in node.store.databases["data"].blobs.walk())


@pytest.mark.parametrize("cut", [None, 7, 1000, 50_000])
def test_parts_are_attributes(node: Node, wire: Wire, cut: int | None) -> None:
    content = CONTENT if cut != 7 else b"small"
    body = form(
        field("title", "007"), field("seats", "12"), field("at", "2024-01-05"), field("yes", "TRUE"), field("tags", '["a","b"]'), field("odd", "1.50"),
        field("place", '{"hall":"A","row":1}'), field("empty", ""), field("word", "ja, ñ\r\n--"), file("image", content), file("images", b"y"),
        file("other", b"x", "a/b; c=d"),
        file("raw", b"\0\xff"), ('; name="json"', b'{"a":[1]}', {"Content-Type": "application/json"}),
    )  # fmt: skip
    assert send(wire, "PUT", "/Photo/a", body, cut)[0] == 204
    record = stored(node, "a")
    assert (record["image"].type, record["image"].read()) == ("image/png", content)
    assert (record["other"].type, record["other"].read()) == ("a/b; c=d", b"x")
    assert record.pop("at").isoformat() == "2024-01-05T00:00:00+00:00"
    assert [(blob.type, blob.read()) for blob in record["images"]] == [("image/png", b"y")]
    del record["image"], record["other"], record["images"]
    assert record == {
        "id": "a", "title": "007", "seats": 12, "yes": True, "tags": ["a", "b"], "odd": 1.5, "place": {"hall": "A", "row": 1}, "word": "ja, ñ\r\n--",
        "raw": b"\0\xff", "json": {"a": [1]},
    }  # fmt: skip
    assert files_of(node) == (len(content) > 8192)
    assert wire.ask("GET", "/Photo/a.image")[2] == content


def test_pieces_of_any_length(node: Node, wire: Wire) -> None:
    source = random.Random(3)
    inner = b"".join([source.choice([b"\r", b"\n", b"-", b"--", f"\r\n--{BOUNDARY[:-1]}".encode(), b"x"]) for _ in range(3000)])
    for cut in (1, 2, 3, 5, 17, 61, 64, 1023):
        assert send(node.connect(), "PUT", "/Photo/a", form(field("title", "t"), file("image", inner)), cut)[0] == 204
        assert stored(node, "a")["image"].read() == inner


def test_patch_and_post(node: Node, wire: Wire) -> None:
    status, key = send(wire, "POST", "/Photo/", form(field("title", "new"), file("image")), 30_000)
    assert status == 201 and stored(node, key)["image"].read() == CONTENT
    assert send(wire, "PATCH", f"/Photo/{key}", form(field("seats", "5")))[0] == 204
    assert stored(node, key)["seats"] == 5 and stored(node, key)["image"].read() == CONTENT
    assert send(wire, "PATCH", f"/Photo/{key}", form(file("image", b"other", "image/gif")), 10)[0] == 204
    assert stored(node, key)["image"].type == "image/gif"
    assert send(wire, "PUT", "/Photo/", form(field("id", "given"), field("seats", "1")))[0] == 204
    assert stored(node, "given") == {"id": "given", "seats": 1}


@pytest.mark.parametrize("cut", [None, 20_000])
def test_the_single_part_for_a_property(node: Node, wire: Wire, cut: int | None) -> None:
    assert send(wire, "PUT", "/Photo/a/image", form(file("file")), cut)[0] == 204
    assert wire.ask("GET", "/Photo/a/image")[1]["content-type"] == "image/png"
    assert wire.ask("GET", "/Photo/a/image")[2] == CONTENT
    assert send(wire, "PUT", "/Photo/a/image", form(('; name="x"', b"text", {"Content-Type": "text/markdown"})), cut)[0] == 204
    assert stored(node, "a")["image"].type == "text/markdown"
    assert send(wire, "PUT", "/Photo/a/seats", form(field("x", "7")), cut)[0] == 204
    assert send(wire, "PUT", "/Photo/a/raw", form(file("x", b"\xff")), cut)[0] == 204
    assert (stored(node, "a")["seats"], stored(node, "a")["raw"]) == (7, b"\xff")
    for parts in ((), (field("a", "1"), field("b", "2")), (file("a"), file("b"))):
        assert send(node.connect(), "PUT", "/Photo/a/seats", form(*parts), cut)[0] == 400
        assert send(node.connect(), "PUT", "/Photo/a/image", form(*parts), cut)[0] == 400
    assert stored(node, "a")["image"].read() == b"text"


@pytest.mark.parametrize("cut", [None, 9000])
@pytest.mark.parametrize(
    ("body", "fault"),
    [
        (form(file("image"), ("", b"x")), "part 2 has no name"),
        (form(('; name=""', b"x")), "part 1 has no name"),
        (form(('; filename="x"', b"x")), "part 1 has no name"),
        (form(file("image"), field("title", "a"), file("image", b"x")), 'part 3 is a second one with the name "image"'),
        (form(field("seats", "many"), file("image")), 'Part "seats": Invalid value for attribute seats: "many"'),
        (form(file("image"), field("title", "a"), end=b""), "ends before its last boundary"),
        (form(file("image"))[:-4], "ends before its last boundary"),
        (b"", "needs a body"),
        (b"no form at all", "none of its lines begins with its boundary"),
        (form(file("image", kind="x" * 300)), 'Part "image": .*type of a blob'),
        (form(('; name="title"', b"\xff")), 'Part "title": .* not valid utf-8'),
        (form(field("tags", "no list")), 'Part "tags": .*expecting JSON'),
        (form(file("image"), ('; name="place"', b"{", {"Content-Type": "application/json"})), 'Part "place": '),
    ],
)
def test_what_is_refused_changes_nothing(node: Node, wire: Wire, body: bytes, fault: str, cut: int | None) -> None:
    assert wire.ask("PUT", "/Photo/a", b'{"title":"before"}')[0] == 204
    for method in ("PUT", "PATCH"):
        status, answer = send(node.connect(), method, "/Photo/a", body, cut)
        assert status == 400 and re.search(fault, answer["detail"]), answer
        named = re.match('Part "(.*?)"', answer["detail"])
        assert answer.get("faults", []) == ([{"attribute": named[1], "message": answer["detail"]}] if named else [])
    assert stored(node, "a") == {"id": "a", "title": "before"}
    assert files_of(node) == 0


@pytest.mark.parametrize("cut", [None, 60_000])
def test_limits(node: Node, wire: Wire, cut: int | None, monkeypatch: pytest.MonkeyPatch) -> None:
    status, answer = send(node.connect(), "PUT", "/Photo/a", form(*(field(f"f{n}", "1") for n in range(multipart.MAX_PARTS + 1))), cut)
    assert status == 413 and "more than 500 parts" in answer["detail"]
    monkeypatch.setattr(multipart, "MAX_FIELDS", 100_000)
    status, answer = send(
        node.connect(), "PUT", "/Photo/a", form(file("image"), field("title", "x" * 60_000), field("odd", "x" * 60_000)), cut
    )
    assert status == 413 and "at part odd" in answer["detail"]
    assert send(node.connect(), "PUT", "/Photo/a", form(file("image"), field("title", "x" * 60_000)), cut)[0] == 204
    assert files_of(node) == 1


def test_without_a_boundary(wire: Wire) -> None:
    for kind in ("multipart/form-data", 'multipart/form-data; boundary=""', "multipart/form-data; boundary=" + "x" * 400):
        status, _, body = wire.ask("PUT", "/Photo/a", form(field("title", "a")), {"Content-Type": kind})
        assert status == 400 and b"oundary" in body


def test_a_coded_form(node: Node, wire: Wire) -> None:
    body = gzip.compress(form(field("title", "a"), file("image")), 0)
    assert send(wire, "PUT", "/Photo/a", body, 50_000, Content_Encoding="gzip")[0] == 204
    assert stored(node, "a")["image"].read() == CONTENT


def test_a_peer_that_goes_away_leaves_nothing(node: Node, wire: Wire) -> None:
    body = form(file("image"), file("other"))
    head = f"PUT /Photo/a HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\nContent-Type: multipart/form-data; boundary={BOUNDARY}\r\n\r\n"
    wire.send(head.encode(), body[:200_000])
    assert files_of(node) == 2 and wire.sock.sent == b""
    wire.send(b"")
    assert files_of(node) == 0 and wire.sock.closed


def test_a_full_disk(node: Node, wire: Wire, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(self: BlobFile, data: bytes) -> None:
        self.discard()
        raise NoSpace

    monkeypatch.setattr(BlobFile, "write", fail)
    assert send(wire, "PUT", "/Photo/a", form(field("title", "a"), file("image")), 20_000)[0] == 507
    monkeypatch.undo()
    assert files_of(node) == 0
    assert send(node.connect(), "PUT", "/Photo/a", form(file("image")), 20_000)[0] == 204


@pytest.mark.parametrize(
    "body", [b'{"title":"a"}', b'{"title":"a&b=c"}', b'[{"title":"50%"}]', b"%7B%22a%22%3A1%7D", b"{not=json", b'\xef\xbb\xbf{"a"']
)
def test_json_with_the_type_of_a_form(wire: Wire, body: bytes) -> None:
    status, _, answer = wire.ask("PUT", "/Photo/a", body, {"Content-Type": "application/x-www-form-urlencoded"})
    if body[:1] == b"\xef":
        assert status in (204, 400)
        return
    assert status == 400 and b"Content-Type: application/json" in answer
    assert wire.ask("GET", "/Photo/a")[0] == 404


def test_a_body_without_a_type_that_the_table_cannot_take(wire: Wire) -> None:
    wire.sock.sent = b""
    answer = wire.send(b"PUT /Strict/a HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\n{name: 1}")
    assert answer.startswith(b"HTTP/1.1 400") and b"send Content-Type: application/json" in answer


def test_json_with_a_byte_order_mark(wire: Wire) -> None:
    mark = b"\xef\xbb\xbf"
    assert wire.ask("PUT", "/Photo/a", mark + b'{"title":"a"}')[0] == 204
    assert wire.ask("PUT", "/Photo/", mark + b"[" + b",".join([b'{"id":"b%d","title":"t"}' % n for n in range(8000)]) + b"]")[0] == 204
    assert wire.ask("PUT", "/Photo/c", mark + b'{"id":"c"}\n', {"Content-Type": "application/x-ndjson"})[0] == 204
    wire.sock.sent = b""
    assert wire.send(b"PUT /Photo/d HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\n" + mark + b'{"a":1').startswith(
        b"HTTP/1.1 204"
    )
    assert wire.ask("GET", "/Photo/a")[2] == b'{"title":"a","id":"a"}'
    assert wire.ask("PUT", "/Photo/a", mark + b"{")[0] == 400


UNTOUCHED = '; name="image"; filename=""', b"", {"Content-Type": "application/octet-stream"}


@pytest.mark.parametrize("cut", [None, 1])
def test_a_file_field_without_a_file_is_not_there(node: Node, wire: Wire, cut: int | None) -> None:
    assert send(wire, "PUT", "/Photo/a", form(file("image", b"old"), field("title", "old")))[0] == 204
    assert send(wire, "PATCH", "/Photo/a", form(field("title", "new"), UNTOUCHED), cut)[0] == 204
    assert (stored(node, "a")["title"], stored(node, "a")["image"].read()) == ("new", b"old")
    for name in ("raw", "images", "other"):
        assert send(wire, "PATCH", "/Photo/a", form((f'; name="{name}"; filename=""', b"")), cut)[0] == 204
        assert name not in stored(node, "a")
    assert send(wire, "PUT", "/Photo/a/image", form(UNTOUCHED), cut)[0] == 400
    assert stored(node, "a")["image"].read() == b"old"
    assert send(wire, "PATCH", "/Photo/a", form(('; name="image"; filename=""', b"content without a name")), cut)[0] == 204
    assert stored(node, "a")["image"].read() == b"content without a name"
    assert send(wire, "PATCH", "/Photo/a", form(('; name="image"; filename="empty.txt"', b"")), cut)[0] == 204
    assert stored(node, "a")["image"].read() == b"", "a file that is empty is one"


@pytest.mark.parametrize("cut", [None, 1, 3, 40])
@pytest.mark.parametrize(
    "preamble", [b"This is a message with several parts.\r\n", b"\r\n", b"\n", b"a --------- b\r\n--\r\n" * 9, b"\r\n\r\n"]
)
def test_text_before_the_first_boundary_is_nothing(node: Node, wire: Wire, preamble: bytes, cut: int | None) -> None:
    assert send(wire, "PUT", "/Photo/a", preamble + form(field("title", "t"), file("image", b"x")), cut)[0] == 204
    assert (stored(node, "a")["title"], stored(node, "a")["image"].read()) == ("t", b"x")


@pytest.mark.parametrize("cut", [None, 1])
def test_where_a_form_with_a_preamble_is_malformed(node: Node, wire: Wire, cut: int | None) -> None:
    for preamble in (b"", b"x\r\n", b"many words before it\r\n"):
        body = preamble + form(field("title", "t")).replace(b"form-data;", b"form-data;\0", 1).replace(b"Content-D", b"Content\0D", 1)
        status, problem = send(node.connect(), "PUT", "/Photo/a", body, cut)
        assert status == 400 and problem["detail"].endswith(f"malformed at byte {body.index(bytes(1))}")
    status, problem = send(node.connect(), "PUT", "/Photo/a", b"no boundary at all\r\n" * 90, cut)
    assert status == 400 and "none of its lines begins with its boundary" in problem["detail"]
