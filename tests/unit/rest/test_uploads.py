"""Property uploads through a whole node: into files as they come, or refused with the head."""

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from svc.auth.users import User
from svc.errors import NoSpace
from svc.store.blobs import BlobFile
from tests.support.node import Node, Wire

CONTENT = bytes(range(256)) * 500
SCHEMA = """
type Photo @table @export { id: ID @primaryKey  image: Blob  raw: Bytes  images: [Blob]  title: String }
"""


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


def upload(wire: Wire, content: bytes = CONTENT, target: str = "/Photo/a/image", **fields: str) -> int:
    """The status. The head comes alone, the body in pieces."""
    lines = [f"PUT {target} HTTP/1.1", "Host: localhost", f"Content-Length: {len(content)}"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in fields.items()]
    wire.sock.sent = b""
    answer = wire.send("\r\n".join(lines).encode() + b"\r\n\r\n", *(content[n : n + 50_000] for n in range(0, len(content), 50_000)))
    return int(answer.split(b" ")[1])


def files_of(node: Node) -> int:
    return sum(len(names) for _, names in node.store.databases["data"].blobs.walk())


def test_a_large_body_goes_into_a_file(node: Node, wire: Wire) -> None:
    assert upload(wire, Content_Type="image/png") == 204
    assert files_of(node) == 1
    assert node.connections.bodies == 0
    for target in ("/Photo/a/image", "/Photo/a.image"):
        status, fields, body = wire.ask("GET", target)
        assert (status, fields["content-type"], fields["content-length"], body) == (200, "image/png", "128000", CONTENT)
    assert wire.ask("GET", "/Photo/a.image", fields={"Range": "bytes=100-199"})[2] == CONTENT[100:200]
    assert wire.ask("GET", "/Photo/a.image", fields={"Accept": "image/*"})[0] == 200
    assert wire.ask("HEAD", "/Photo/a/image")[1]["content-length"] == "128000"


def test_the_collected_way_ends_the_same(node: Node, wire: Wire) -> None:
    assert wire.ask("PUT", "/Photo/a/image", CONTENT, {"Content-Type": "image/png"})[0] == 204
    assert files_of(node) == 1
    assert wire.ask("GET", "/Photo/a/image")[2] == CONTENT
    assert wire.ask("PUT", "/Photo/b/image", b"small", {"Content-Type": "image/gif"})[0] == 204
    _, fields, body = wire.ask("GET", "/Photo/b/image")
    assert (fields["content-type"], body) == ("image/gif", b"small")
    assert files_of(node) == 1


def test_a_small_body_that_comes_late_needs_no_file(node: Node, wire: Wire) -> None:
    assert upload(wire, b"small", Content_Type="image/png") == 204
    assert files_of(node) == 0
    assert wire.ask("GET", "/Photo/a/image")[2] == b"small"


def test_without_a_type(node: Node, wire: Wire) -> None:
    assert upload(wire) == 204
    assert wire.ask("GET", "/Photo/a/image")[1]["content-type"] == "application/octet-stream"


def test_the_etag_follows_the_content(node: Node, wire: Wire) -> None:
    upload(wire, Content_Type="image/png")
    tag = wire.ask("GET", "/Photo/a/image")[1]["etag"]
    assert wire.ask("GET", "/Photo/a/image", fields={"If-None-Match": tag})[0] == 304
    assert upload(wire, CONTENT[::-1], Content_Type="image/png", If_Match=tag) == 204
    assert wire.ask("GET", "/Photo/a/image", fields={"If-None-Match": tag})[0] == 200
    assert wire.ask("GET", "/Photo/a/image", fields={"Range": "bytes=0-9", "If-Range": tag})[0] == 200


def test_other_attributes_are_collected(node: Node, wire: Wire) -> None:
    assert upload(wire, target="/Photo/a/raw", Content_Type="image/png") == 204
    assert wire.ask("GET", "/Photo/a/raw")[2] == CONTENT
    assert upload(wire, b'"text"' + b" " * 60_000, target="/Photo/a/title", Content_Type="application/json") == 204
    assert files_of(node) == 0


OF_STRUCTURED_TYPES = {
    "application/json": b'{"a": 1}',
    "text/csv": b"a,b\r\n1,\r\n",
    "application/cbor": b"\xa1aa\x01",
    "application/x-msgpack": b"\x81\xa1a\x01",
    "application/x-ndjson": b"{}\n{}\n",
    "application/x-www-form-urlencoded": b"a=1",
    "text/yaml": b"a: 1",
}


@pytest.mark.parametrize("kind", OF_STRUCTURED_TYPES)
def test_at_the_address_of_a_blob_every_type_is_content(node: Node, wire: Wire, kind: str) -> None:
    small = OF_STRUCTURED_TYPES[kind]
    for content in (small, small + b" " * 100_000, b"not of this type \xff"):
        for way in (lambda target, content=content: wire.ask("PUT", target, content, {"Content-Type": kind})[0],
                    lambda target, content=content: upload(wire, content, target=target, Content_Type=kind)):  # fmt: skip
            assert way("/Photo/a/image") == 204
            status, fields, body = wire.ask("GET", "/Photo/a/image")
            assert (status, fields["content-type"].partition(";")[0], body) == (200, kind, content)
            assert wire.ask("PUT", "/Photo/a/image", body, {"Content-Type": fields["content-type"]})[0] == 204
            assert wire.ask("GET", "/Photo/a/image")[2] == content


@pytest.mark.parametrize("kind", ["text/plain", "application/json", "image/png"])
def test_what_a_file_is_shown_as_is_not_its_content(node: Node, wire: Wire, kind: str) -> None:
    assert wire.ask("PUT", "/Photo/a/image", b'{"a":1}', {"Content-Type": kind})[0] == 204
    before = wire.ask("GET", "/Photo/a/image")[2]
    for way in (wire.ask, lambda method, target, body, fields: (upload(wire, body, Content_Type=fields["Content-Type"]), {}, b"")):
        _, fields, shown = wire.ask("GET", "/Photo/a.image.json")
        assert shown != before
        assert way("PUT", "/Photo/a/image", shown, {"Content-Type": fields["content-type"]})[0] == 400
        assert wire.ask("GET", "/Photo/a/image")[2] == before
    assert wire.ask("PUT", "/Photo/a/image", b'"a"', {"Content-Type": "application/json"})[0] == 204


BAD_TYPES = [
    "undefined",
    "null",
    "application/json charset=utf-8",
    "application/json, application/json",
    "application/json,text/csv",
    "/",
    "a/",
    "*/*",
    'text/csv; charset="x',
    "x" * 300,
    "json",
    "application/json; a b",
]


@pytest.mark.parametrize("kind", BAD_TYPES)
def test_a_type_that_is_none(node: Node, wire: Wire, kind: str) -> None:
    assert wire.ask("PUT", "/Photo/a", b'{"title":"t"}', {"Content-Type": "application/json"})[0] == 204
    kinds = {"Content-Type": kind}
    ways = "PUT /Photo/a", "PATCH /Photo/a", "POST /Photo/", "PUT /Photo/a/title", "PUT /Photo/a/image", "QUERY /Photo/"
    for method, target in map(str.split, ways):
        status, _, body = node.connect().ask(method, target, b'{"title":"u"}', kinds)
        assert (status, json.loads(body)["code"]) == (400, "BAD_BODY") and json.loads(body)["detail"].startswith("Content-Type ")
    if len(kind) < 300:
        assert upload(node.connect(), Content_Type=kind) == 400
    assert json.loads(wire.ask("GET", "/Photo/")[2]) == [{"title": "t", "id": "a"}]


def test_a_type_on_two_lines(node: Node, wire: Wire) -> None:
    head = b"PUT /Photo/a HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\nContent-Type: application/json\r\nContent-Type: text/csv\r\n\r\n{}"
    assert wire.send(head).startswith(b"HTTP/1.1 400")
    assert wire.ask("GET", "/Photo/a")[0] == 404


@pytest.mark.parametrize(
    "kind",
    [
        "application/json; charset=utf-8",
        "APPLICATION/JSON",
        "application/json;",
        'application/json;charset="utf-8" ; x=y',
        "application/json; utf-8",
    ],
)
def test_types_as_clients_write_them(wire: Wire, kind: str) -> None:
    assert wire.ask("PUT", "/Photo/a", b'{"title":"t"}', {"Content-Type": kind})[0] == 204
    assert json.loads(wire.ask("GET", "/Photo/a")[2]) == {"title": "t", "id": "a"}


RAW = {
    "text/csv": ("a,b\r\n1,2\r\n", "a,b\r\n1,2\r\n3,4\r\n", "contentType,data\r\nx,y\r\n", "a\r\n"),
    "application/x-ndjson": ('{"a":1}\n', '{"a":1}\n{"a":2}\n'),
    "application/json": ('{"a":1}', "{}", "[1]"),
    "application/x-www-form-urlencoded": ("a=1",),
}


@pytest.mark.parametrize("kind", RAW)
@pytest.mark.parametrize("method", ["PUT", "PATCH"])
def test_raw_records_of_structured_types_come_back(wire: Wire, kind: str, method: str) -> None:
    for text in RAW[kind]:
        record = {"contentType": kind, "data": text, "title": "kept"}
        assert wire.ask("PUT", "/Photo/a", json.dumps(record).encode())[0] == 204
        _, fields, body = wire.ask("GET", "/Photo/a")
        assert (fields["content-type"].partition(";")[0], body.decode()) == (kind, text)
        status, _, _ = wire.ask(method, "/Photo/a", body, {"Content-Type": fields["content-type"]})
        assert status == 204 or (status == 400 and text == "[1]")
        assert json.loads(wire.ask("GET", "/Photo/a?select(*)")[2]) == record | {"id": "a"}


def test_a_property_that_takes_long_to_decode_is_answered_like_a_short_one(node: Node, wire: Wire) -> None:
    short, long = b'"text"', b'"' + b"x" * 200_000 + b'"'
    fields = {"Content-Type": "application/json"}
    answers = [wire.ask("PUT", f"/Photo/{key}/title", body, fields) for key, body in (("a", short), ("b", long), ("a", long), ("a", short))]
    for _, head, _ in answers:
        head.pop("server-timing", None), head.pop("date", None)
    assert [answer[0] for answer in answers] == [204] * 4 and all(answer[1:] == answers[0][1:] for answer in answers)
    assert wire.ask("GET", "/Photo/a/title")[2] == short and wire.ask("GET", "/Photo/b/title")[2] == long
    tag = wire.ask("GET", "/Photo/a")[1]["etag"]
    for body in (short, long):
        assert wire.ask("PUT", "/Photo/a/title", body, {**fields, "If-None-Match": tag})[0] == 412


def test_a_property_with_the_content_of_its_record_is_stored(tmp_path: Path) -> None:
    app = tmp_path / "app"
    app.mkdir()
    (app / "schema.graphql").write_text("type Page @table @export { id: ID @primaryKey  icon: Any }")
    node = Node(tmp_path / "database", app)
    wire = node.connect()
    fields = {"Content-Type": "image/png"}
    assert wire.ask("PUT", "/Page/a", b"pixels", fields)[0] == 204
    assert wire.ask("PUT", "/Page/a/icon", b"pixels", fields)[0] == 204
    for target in ("/Page/a", "/Page/a/icon"):
        assert wire.ask("GET", target)[2] == b"pixels"
    form = b'--x\r\nContent-Disposition: form-data; name="icon"; filename="i"\r\nContent-Type: application/json\r\n\r\n{"a":1}\r\n--x--'
    assert wire.ask("PUT", "/Page/b", form, {"Content-Type": "multipart/form-data; boundary=x"})[0] == 204
    assert wire.ask("PUT", "/Page/b/icon", b'{"a":1}', {"Content-Type": "application/json"})[0] == 204
    shown = json.loads(wire.ask("GET", "/Page/b")[2])
    assert shown["icon"]["contentType"] == "application/json", "the file is still one"
    node.close()


def test_a_coded_body_is_collected_and_decoded(node: Node, wire: Wire) -> None:
    import gzip

    content = bytes(gzip.compress(CONTENT, 0, mtime=0))
    assert upload(wire, content, Content_Type="image/png", Content_Encoding="gzip") == 204
    assert wire.ask("GET", "/Photo/a/image")[2] == CONTENT


def test_in_json_there_is_a_description_or_the_text(node: Node, wire: Wire) -> None:
    upload(wire, Content_Type="image/png")
    body = wire.ask("GET", "/Photo/a")[2]
    assert b'"contentType":"image/png","size":128000' in body
    assert wire.ask("GET", "/Photo/?select(image)")[2].count(b'"size":128000') == 1
    assert wire.ask("PUT", "/Photo/b", b'{"image":"some text"}')[0] == 204
    assert wire.ask("GET", "/Photo/b")[2] == b'{"image":"some text","id":"b"}'
    assert wire.ask("PUT", "/Photo/c", body)[0] == 400  # a description is no content


@pytest.mark.parametrize(
    ("target", "fields", "status"),
    [
        ("/Photo/a/image", {"If-Match": '"AAAAAAAAAAA"'}, 412),
        ("/Photo/a/image", {"Content-Type": "x" * 300}, 400),
        ("/Nowhere/a", {}, 404),
    ],
    ids=["precondition", "type", "address"],
)
def test_refused_with_the_head(node: Node, wire: Wire, target: str, fields: dict[str, str], status: int) -> None:
    lines = [
        f"PUT {target} HTTP/1.1",
        "Host: localhost",
        "Content-Length: 1000000",
        *(f"{name}: {value}" for name, value in fields.items()),
    ]
    answer = wire.send("\r\n".join(lines).encode() + b"\r\n\r\n")
    assert answer.startswith(b"HTTP/1.1 %d" % status)
    assert b"Connection: close" in answer
    assert files_of(node) == 0


@pytest.mark.parametrize("method", ["PUT", "POST", "PATCH", "QUERY"])
@pytest.mark.parametrize("user", ["anonymous", "without rights"])
def test_whose_body_is_not_read(node: Node, wire: Wire, method: str, user: str) -> None:
    node.as_user(None if user == "anonymous" else User("ann"))
    answer = wire.send(f"{method} /Photo/a/image HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000000\r\n\r\n".encode())
    if user == "anonymous":
        assert answer.startswith(b"HTTP/1.1 401")
    elif method != "QUERY":
        assert answer.startswith(b"HTTP/1.1 403")


def test_a_peer_that_goes_away_leaves_nothing(node: Node, wire: Wire) -> None:
    wire.send(b"PUT /Photo/a/image HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000000\r\n\r\n", CONTENT)
    assert files_of(node) == 1
    wire.send(b"")
    assert files_of(node) == 0
    assert wire.sock.closed


def test_a_full_disk(node: Node, wire: Wire, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(self: BlobFile, data: bytes) -> None:
        self.discard()
        raise NoSpace

    monkeypatch.setattr(BlobFile, "write", fail)
    assert upload(wire, Content_Type="image/png") == 507
    assert files_of(node) == 0
    monkeypatch.undo()
    assert upload(node.connect(), Content_Type="image/png") == 204


def test_a_body_that_is_too_long(node: Node, wire: Wire) -> None:
    head = b"PUT /Photo/a/image HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
    chunk = b"%x\r\n%b\r\n" % (len(CONTENT), CONTENT)
    assert wire.send(head, *[chunk] * 9).startswith(b"HTTP/1.1 413")
    assert files_of(node) == 0


def test_an_encoded_slash_begins_no_upload(wire: Wire) -> None:
    assert wire.ask("PUT", "/Photo/u2", b'{"title": "kept"}')[0] == 204
    assert wire.ask("PUT", "/Photo/u2%2Ftitle", b'{"title": "mine"}')[0] == 204
    assert json.loads(wire.ask("GET", "/Photo/u2")[2]) == {"title": "kept", "id": "u2"}
    assert json.loads(wire.ask("GET", "/Photo/u2%2Ftitle")[2]) == {"title": "mine", "id": "u2/title"}
    assert wire.ask("DELETE", "/Photo/u2%2Ftitle")[0] == 204
    assert wire.ask("GET", "/Photo/u2%2Ftitle")[0] == 404, "nor is it read as one"
    assert json.loads(wire.ask("GET", "/Photo/u2/title")[2]) == "kept"


def test_an_encoded_slash_in_front_of_an_upload(wire: Wire) -> None:
    assert wire.ask("PUT", "/Photo/a%2Fb/title", b'"x"')[0] == 204
    assert json.loads(wire.ask("GET", "/Photo/a%2Fb")[2]) == {"title": "x", "id": "a/b"}
    assert json.loads(wire.ask("GET", "/Photo/a/b/title.json")[2]) == "x"
    assert upload(wire, target="/Photo/a%2Fb%2Fimage", Content_Type="image/png") == 204
    assert json.loads(wire.ask("GET", "/Photo/a%2Fb%2Fimage.json")[2])["contentType"] == "image/png", "a record of that key"


def test_an_upload_takes_no_query(node: Node, wire: Wire) -> None:
    assert upload(wire, target="/Photo/a/image?x=1", Content_Type="image/png") == 400
    assert node.connect().ask("GET", "/Photo/a")[0] == 404
    assert files_of(node) == 0


def test_the_tag_of_a_file_that_is_sent_coded(node: Node, wire: Wire) -> None:
    assert upload(wire, b"the same again " * 10_000, Content_Type="text/plain") == 204
    assert files_of(node) == 1
    plain = wire.ask("GET", "/Photo/a/image")[1]["etag"]
    coded = f'{plain[:-1]}-gzip"'
    for method in ("GET", "HEAD"):
        _, fields, _ = wire.ask(method, "/Photo/a/image", fields={"Accept-Encoding": "gzip"})
        assert (fields["etag"], fields["content-encoding"], "accept-ranges" in fields) == (coded, "gzip", False)
    before = set(os.listdir("/proc/self/fd"))
    for condition in ({"If-None-Match": coded}, {"If-None-Match": "*"}, {"If-Modified-Since": "Fri, 01 Jan 2100 00:00:00 GMT"}):
        status, fields, body = wire.ask("GET", "/Photo/a/image", fields={"Accept-Encoding": "gzip", **condition})
        assert (status, fields["etag"], body) == (304, coded, b"")
        status, fields, _ = wire.ask("GET", "/Photo/a/image", fields={"Accept-Encoding": "gzip", "Range": "bytes=0-9", **condition})
        assert status == 304
    assert set(os.listdir("/proc/self/fd")) == before, "what was opened to see its coding is closed"


@pytest.mark.parametrize("method", ["PUT", "PATCH", "POST"])
def test_a_part_of_a_body_does_not_replace_the_whole(node: Node, wire: Wire, method: str) -> None:
    assert upload(wire, CONTENT) == 204
    part = {"Content-Range": "bytes 0-4/128000", "Content-Type": "image/png"}
    targets = ("/Photo/a/image", "/Photo/a") if method == "PUT" else ("/Photo/a",) if method == "PATCH" else ("/Photo/",)
    for target in targets:
        for content in (b"12345", CONTENT):
            status, _, body = wire.ask(method, target, content, part)
            assert (status, json.loads(body)["code"]) == (400, "BAD_BODY") and "Content-Range" in json.loads(body)["detail"]
    if method == "PUT":
        assert upload(node.connect(), CONTENT, Content_Range="bytes 0-127999/128000") == 400, "with the head, before the body is read"
    assert wire.ask("GET", "/Photo/a/image")[2] == CONTENT and len(json.loads(wire.ask("GET", "/Photo/")[2])) == 1
