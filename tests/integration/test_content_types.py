"""Every content type in both directions, over the real server and with decoders that are not ours (spec: http §7, §1.2, §2.5)."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any
from urllib.parse import parse_qs

import cbor2
import httpx
import msgspec
import pytest
import yaml

pytestmark = pytest.mark.programs

JSON, CBOR, MSGPACK, CSV, FORM = (
    "application/json",
    "application/cbor",
    "application/x-msgpack",
    "text/csv",
    "application/x-www-form-urlencoded",
)
LINES = "application/x-ndjson"
BIG = 2**80 + 1
MOMENT = datetime(2024, 1, 5, 20, 7, 27, 955000, UTC)

SHOWN = {
    "name": 'Key "one", ä',
    "price": 49.5,
    "inStock": True,
    "tags": ["usb", "b,c"],
    "listDate": "2024-01-05T20:07:27.955Z",
    "stock": 3,
    "specs": {"color": None, "sizes": [1, 2.5], "count": BIG},
    "image": "AAH/",
    "brandId": "b1",
}
NATIVE = SHOWN | {"listDate": MOMENT, "image": b"\x00\x01\xff"}


def _extension(code: int, data: memoryview) -> Any:
    return int.from_bytes(data, "big", signed=True) if code == 0x42 else msgspec.msgpack.Ext(code, bytes(data))


unpack = msgspec.msgpack.Decoder(ext_hook=_extension).decode


def pack(value: Any) -> bytes:
    def big(member: Any) -> Any:
        if isinstance(member, dict):
            return {name: big(inner) for name, inner in member.items()}
        if isinstance(member, list):
            return [big(inner) for inner in member]
        if isinstance(member, int) and member.bit_length() > 63:
            return msgspec.msgpack.Ext(0x42, member.to_bytes(member.bit_length() // 8 + 1, "big", signed=True))
        return member

    return msgspec.msgpack.encode(big(value))


def unpack_sequence(content: bytes) -> list[Any]:
    """Values without anything around them. There is no public decoder of streams in the library, so each is measured by encoding it again."""
    found = []
    while content:
        for end in range(1, len(content) + 1):
            try:
                value = unpack(content[:end])
            except msgspec.DecodeError:
                continue
            found.append(value)
            content = content[end:]
            break
    return found


def rows_of(content: bytes) -> list[list[str]]:
    return list(csv.reader(io.StringIO(content.decode(), newline="")))


@pytest.fixture(scope="module")
def filled(server: Any) -> str:
    """The prefix of three records that nobody changes."""
    with server.client() as client:
        for number in range(3):
            answer = client.put(f"/Product/kept/{number}", json=SHOWN | {"stock": number})
            assert answer.status_code == 204, answer.text
    return "/Product/kept"


# --- negotiation (§7.1) ----------------------------------------------------------------------------------------------------------------

NEGOTIATED = [
    (None, JSON),
    ("*/*", JSON),
    ("application/json, */*", JSON),
    ("application/json, application/cbor", CBOR),
    ("application/cbor;q=0.1, application/json", JSON),
    ("application/cbor;q=0, application/json", JSON),
    ("APPLICATION/CBOR", CBOR),
    ("application/x-msgpack", MSGPACK),
    ("application/msgpack", "application/msgpack"),
    ("application/json, application/msgpack", "application/msgpack"),
    ("application/*", CBOR),
    ("text/*", "text/yaml"),
    ("text/csv", "text/csv; charset=utf-8"),
    ("text/plain", "text/plain; charset=utf-8"),
    ("application/x-ndjson", LINES),
    ("application/ndjson", "application/ndjson"),
    (FORM, FORM),
    ("application/xhtml+xml, application/xml;q=0.9, */*;q=0.8", JSON),
    ("text/html, application/json, */*;q=0.8", JSON),
    ("application/json; charset=iso-8859-1", JSON),
    ("image/png, text/csv;q=0.1", "text/csv; charset=utf-8"),
]


@pytest.mark.parametrize(("accept", "content_type"), NEGOTIATED, ids=[str(accept) for accept, _ in NEGOTIATED])
@pytest.mark.parametrize("path", ["/0", "/", "/0?select(name)", "/0.name"])
def test_the_best_type_for_the_client(client: httpx.Client, filled: str, path: str, accept: str | None, content_type: str) -> None:
    request = client.build_request("GET", filled + path)
    del request.headers["accept"]
    if accept is not None:
        request.headers["accept"] = accept
    response = client.send(request)
    assert (response.status_code, response.headers["content-type"]) == (200, content_type)
    assert response.headers["vary"] == "Accept, Accept-Encoding, Authorization, Cookie"


@pytest.mark.parametrize("accept", ["image/png", "application/json;q=0", "application/xml, text/htm"])
def test_nothing_fits(client: httpx.Client, filled: str, accept: str) -> None:
    for method, path in (("GET", "/Product/kept/0"), ("GET", "/Product/kept/"), ("HEAD", "/Product/kept/0"), ("GET", "/Product")):
        response = client.request(method, path, headers={"Accept": accept})
        assert response.status_code == 406, (method, path)
        if method == "GET":
            assert response.headers["content-type"] == "application/problem+json"
            assert response.json()["code"] == "NOT_ACCEPTABLE" and CBOR in response.json()["detail"]


def test_nothing_fits_before_anything_is_done(client: httpx.Client) -> None:
    refused = {"Accept": "image/png"}
    assert client.post("/Product/", json={"id": "not-made"}, headers=refused).status_code == 406
    assert client.get("/Product/not-made").status_code == 404
    assert client.put("/Product/made", json={"name": "a"}, headers=refused).status_code == 204
    assert client.patch("/Product/made", json={"name": "b"}, headers=refused).status_code == 204
    assert client.get("/Product/made.name").json() == "b"
    assert client.delete("/Product/made", headers=refused).status_code == 204


def test_problems_in_the_type_that_is_preferred(client: httpx.Client) -> None:
    decoders: dict[str, Callable[[bytes], Any]] = {CBOR: cbor2.loads, MSGPACK: unpack}
    for accept, decode in decoders.items():
        response = client.get("/Product/none", headers={"Accept": accept})
        assert (response.status_code, response.headers["content-type"]) == (404, accept)
        assert decode(response.content)["code"] == "NOT_FOUND"
    for accept in (CSV, LINES, "text/yaml", "image/png"):
        response = client.get("/Product/?nothing=1", headers={"Accept": f"{accept}, application/json;q=0.01"})
        assert response.headers["content-type"] == "application/problem+json"
        assert response.json()["status"] == 400


@pytest.mark.parametrize("content_type", [JSON, CBOR, MSGPACK, CSV, LINES, "text/yaml", "text/plain", FORM])
@pytest.mark.parametrize("path", ["/0", "/", "/?limit(1)"])
def test_head_tells_what_get_would(client: httpx.Client, filled: str, path: str, content_type: str) -> None:
    head, get = (client.request(method, filled + path, headers={"Accept": content_type}) for method in ("HEAD", "GET"))
    assert (head.status_code, head.content) == (200, b"")
    for name in ("content-type", "etag", "vary", "content-length", "content-disposition"):
        assert head.headers.get(name) == get.headers.get(name), name


# --- one record in every type (§7.2, §7.3) ---------------------------------------------------------------------------------------------


def test_record_as_json(client: httpx.Client, filled: str) -> None:
    text = client.get(filled + "/1").text
    assert json.loads(text) == SHOWN | {"stock": 1, "id": "kept/1"}
    assert str(BIG) in text, "all digits"


def test_record_as_cbor(client: httpx.Client, filled: str) -> None:
    content = client.get(filled + "/1", headers={"Accept": CBOR}).content
    assert cbor2.loads(content) == NATIVE | {"stock": 1, "id": "kept/1"}


def test_record_as_msgpack(client: httpx.Client, filled: str) -> None:
    content = client.get(filled + "/1", headers={"Accept": MSGPACK}).content
    assert unpack(content) == NATIVE | {"stock": 1, "id": "kept/1"}


def test_record_as_csv(client: httpx.Client, filled: str) -> None:
    response = client.get(filled + "/1", headers={"Accept": CSV})
    assert response.headers["content-disposition"] == 'attachment; filename="data.csv"'
    assert response.text.endswith("\r\n") and response.text.startswith('"')
    names, values = rows_of(response.content)
    row = dict(zip(names, values, strict=True))
    assert names == ["id", "name", "price", "inStock", "tags", "listDate", "stock", "specs", "image", "brandId"]
    assert row["name"] == 'Key "one", ä' and row["price"] == "49.5" and row["inStock"] == "true" and row["stock"] == "1"
    assert row["listDate"] == "2024-01-05T20:07:27.955Z" and row["image"] == "AAH/"
    assert json.loads(row["tags"]) == ["usb", "b,c"] and json.loads(row["specs"]) == SHOWN["specs"]
    assert ',49.5,true,"' in response.text, "numbers and booleans are bare"


def test_record_as_yaml(client: httpx.Client, filled: str) -> None:
    loaded = yaml.safe_load(client.get(filled + "/1", headers={"Accept": "text/yaml"}).text)
    assert {name: loaded[name] for name in ("name", "price", "tags", "specs", "stock")} == {
        name: (SHOWN | {"stock": 1})[name] for name in ("name", "price", "tags", "specs", "stock")
    }


def test_record_as_form(client: httpx.Client, filled: str) -> None:
    fields = parse_qs(client.get(filled + "/1", headers={"Accept": FORM}).text, strict_parsing=True)
    assert fields["name"] == ['Key "one", ä'] and fields["tags"] == ["usb", "b,c"] and fields["price"] == ["49.5"]


def test_record_as_line_and_text(client: httpx.Client, filled: str) -> None:
    line = client.get(filled + "/1", headers={"Accept": LINES}).text
    assert line.count("\n") == 1 and line.endswith("\n") and json.loads(line)["stock"] == 1
    assert client.get(filled + "/1.name", headers={"Accept": "text/plain"}).text == SHOWN["name"]
    assert json.loads(client.get(filled + "/1", headers={"Accept": "text/plain"}).text)["stock"] == 1


# --- collections -----------------------------------------------------------------------------------------------------------------------


def test_collections_tell_the_same(client: httpx.Client, filled: str) -> None:
    def ask(accept: str, query: str = "?select(stock,name)") -> bytes:
        return client.get(f"{filled}/{query}", headers={"Accept": accept}).content

    expected = [{"stock": number, "name": SHOWN["name"]} for number in range(3)]
    assert json.loads(ask(JSON)) == cbor2.loads(ask(CBOR)) == unpack(ask(MSGPACK)) == yaml.safe_load(ask("text/yaml")) == expected
    assert [json.loads(line) for line in ask(LINES).splitlines()] == expected and ask(LINES).endswith(b"\n")
    assert unpack_sequence(ask("application/x-msgpack;sequence=true")) == expected
    assert rows_of(ask(CSV)) == [["stock", "name"], *[[str(number), str(SHOWN["name"])] for number in range(3)]]
    assert rows_of(ask(CSV, "?select(stock)")) == [["stock"], ["0"], ["1"], ["2"]]
    assert rows_of(ask(CSV, "?select([stock,name])"))[1] == ["0", SHOWN["name"]]


def test_collections_hold_native_values(client: httpx.Client, filled: str) -> None:
    for accept, decode in ((CBOR, cbor2.loads), (MSGPACK, unpack)):
        found = decode(client.get(f"{filled}/", headers={"Accept": accept}).content)
        assert found == [NATIVE | {"stock": number, "id": f"kept/{number}"} for number in range(3)]


@pytest.mark.parametrize(
    "content_type", [JSON, CBOR, MSGPACK, CSV, LINES, "text/yaml", "text/plain", FORM, "application/x-msgpack;sequence=true"]
)
def test_empty_collections(client: httpx.Client, content_type: str) -> None:
    response = client.get("/Product/nothing-there/", headers={"Accept": content_type})
    assert response.status_code == 200
    empty: dict[str, Any] = {JSON: [], CBOR: [], MSGPACK: [], "text/yaml": []}
    decoders: dict[str, Callable[[bytes], Any]] = {JSON: json.loads, CBOR: cbor2.loads, MSGPACK: unpack, "text/yaml": yaml.safe_load}
    if content_type in empty:
        assert decoders[content_type](response.content) == empty[content_type]
    elif content_type == CSV:
        assert rows_of(response.content)[0][:3] == ["id", "name", "price"] and len(rows_of(response.content)) == 1
    elif content_type in (LINES, FORM) or "sequence" in content_type:
        assert response.content == b""


def test_long_collections_stream(client: httpx.Client) -> None:
    count = 3000
    body = [{"id": f"long/{number:05}", "stock": number, "listDate": "2024-01-05"} for number in range(count)]
    assert client.put("/Product/", json=body).status_code == 204
    numbers = list(range(count))
    answers = {accept: client.get("/Product/long/", headers={"Accept": accept}) for accept in (JSON, CBOR, MSGPACK, CSV, LINES)}
    assert not any("content-length" in answer.headers for answer in answers.values())
    assert all((answer.headers.get("transfer-encoding") == "chunked") == (answer.http_version != "HTTP/2") for answer in answers.values())
    assert [row["stock"] for row in answers[JSON].json()] == numbers
    assert answers[CBOR].content[0] == 0x9F, "an array of indefinite length"
    assert [row["stock"] for row in cbor2.loads(answers[CBOR].content)] == numbers
    assert answers[MSGPACK].content[0] in (0xDC, 0xDD), "one array"
    assert [row["stock"] for row in unpack(answers[MSGPACK].content)] == numbers
    assert [json.loads(line)["stock"] for line in answers[LINES].content.splitlines()] == numbers
    header, *rows = rows_of(answers[CSV].content)
    assert [int(row[header.index("stock")]) for row in rows] == numbers
    assert client.delete("/Product/long/").headers["x-deleted-count"] == str(count)


def test_open_tables_add_the_columns_of_the_first_record(client: httpx.Client) -> None:
    client.put("/Doc/", json=[{"id": "columns/1", "extra": 1}, {"id": "columns/2", "other": 2}])
    assert rows_of(client.get("/Doc/columns/", headers={"Accept": CSV}).content) == [["id", "extra"], ["columns/1", "1"], ["columns/2", ""]]


# --- extensions (§1.2) -----------------------------------------------------------------------------------------------------------------

EXTENSIONS = [("json", JSON), ("cbor", CBOR), ("msgpack", MSGPACK), ("csv", "text/csv; charset=utf-8"), ("ndjson", "application/x-ndjson")]


@pytest.mark.parametrize(("extension", "content_type"), EXTENSIONS)
@pytest.mark.parametrize("path", ["/0", "/", "/0.name"])
def test_an_extension_beats_accept(client: httpx.Client, filled: str, path: str, extension: str, content_type: str) -> None:
    for accept in ("application/json, application/cbor", "image/png"):
        response = client.get(f"{filled}{path}.{extension}", headers={"Accept": accept})
        assert (response.status_code, response.headers["content-type"]) == (200, content_type)
    with_query = client.get(f"/Product/.{extension}?id=kept/1&select(name)", headers={"Accept": JSON})
    assert (with_query.status_code, with_query.headers["content-type"]) == (200, content_type)


def test_an_encoded_dot_is_none(client: httpx.Client) -> None:
    assert client.put("/Product/dotted%2Ecsv", json={"name": "n"}).status_code == 204
    assert client.get("/Product/dotted%2Ecsv").json()["id"] == "dotted.csv"
    assert client.get("/Product/dotted.csv").json()["id"] == "dotted.csv", "the record of the whole key goes first"
    assert client.put("/Product/dotted", json={"name": "other"}).status_code == 204
    assert client.get("/Product/dotted%2Ecsv").json()["name"] == "n"
    assert client.delete("/Product/dotted.csv").status_code == 204
    assert client.get("/Product/dotted%2Ecsv").status_code == 404
    assert client.get("/Product/dotted.csv").headers["content-type"].startswith("text/csv")
    client.delete("/Product/dotted")


# --- bodies (§7.1, §7.2) ---------------------------------------------------------------------------------------------------------------

BODIES: list[tuple[str, Callable[[Any], bytes], dict[str, Any]]] = [
    (JSON, lambda value: json.dumps(value).encode(), SHOWN),
    ("application/vnd.shop+json", lambda value: json.dumps(value).encode(), SHOWN),
    ("Application/JSON; charset=utf-8", lambda value: json.dumps(value).encode(), SHOWN),
    (CBOR, cbor2.dumps, NATIVE),
    (MSGPACK, pack, NATIVE),
    ("application/msgpack", pack, NATIVE),
]
BODY_IDS = [content_type for content_type, _, _ in BODIES]


@pytest.mark.parametrize(("content_type", "encode", "record"), BODIES, ids=BODY_IDS)
def test_records_in(client: httpx.Client, content_type: str, encode: Callable[[Any], bytes], record: dict[str, Any]) -> None:
    headers = {"Content-Type": content_type}
    assert client.put("/Product/in/put", content=encode(record), headers=headers).status_code == 204
    assert client.get("/Product/in/put").json() == SHOWN | {"id": "in/put"}
    assert (
        client.patch("/Product/in/put", content=encode({"stock": {"__op__": "add", "value": 2}, "name": None}), headers=headers).status_code
        == 204
    )
    assert client.get("/Product/in/put").json() == SHOWN | {"id": "in/put", "stock": 5, "name": None}
    created = client.post("/Product/", content=encode(record | {"id": "in/post"}), headers=headers)
    assert (created.status_code, created.json(), created.headers["location"]) == (201, "in/post", "/Product/in/post")
    several = client.post("/Product/", content=encode([record | {"id": "in/1"}, record | {"id": "in/2"}]), headers=headers)
    assert (several.status_code, several.json(), "location" in several.headers) == (201, ["in/1", "in/2"], False)
    assert client.put("/Product/", content=encode([record | {"id": "in/1", "stock": 9}]), headers=headers).status_code == 204
    assert [row["stock"] for row in client.get("/Product/in/").json()] == [9, 3, 3, 5]
    assert client.delete("/Product/in/").headers["x-deleted-count"] == "4"


def test_the_new_key_comes_in_the_negotiated_type(client: httpx.Client) -> None:
    created = client.post("/counters/", json={"label": "x"}, headers={"Accept": CBOR})
    assert created.headers["content-type"] == CBOR and created.headers["location"] == f"/counters/{cbor2.loads(created.content)}"
    client.delete("/Product/key/")
    created = client.post("/Product/", json=[{"id": "key/1"}, {"id": "key/2"}], headers={"Accept": MSGPACK})
    assert unpack(created.content) == ["key/1", "key/2"]


def test_what_cbor_and_msgpack_know_besides(client: httpx.Client) -> None:
    def keep(content_type: str, content: bytes) -> Any:
        assert client.put("/Doc/besides", content=content, headers={"Content-Type": content_type}).status_code == 204
        return cbor2.loads(client.get("/Doc/besides.cbor").content)["value"]

    assert keep(CBOR, cbor2.dumps({"value": {1, 2}})) in ([1, 2], {1, 2})  # tag 258
    assert keep(CBOR, cbor2.dumps({"value": MOMENT}, datetime_as_timestamp=True)) == MOMENT  # tag 1
    assert keep(CBOR, cbor2.dumps({"value": MOMENT}, datetime_as_timestamp=False)) == MOMENT  # tag 0
    assert keep(CBOR, cbor2.dumps({"value": cbor2.CBORTag(259, {"a": 1})})) == {"a": 1}
    assert keep(CBOR, cbor2.dumps({"value": BIG})) == keep(MSGPACK, pack({"value": BIG})) == BIG
    assert keep(CBOR, cbor2.dumps({"value": -BIG})) == keep(MSGPACK, pack({"value": -BIG})) == -BIG
    assert keep(MSGPACK, pack({"value": [MOMENT, b"\x00", 1.5, 5.0]})) == [MOMENT, b"\x00", 1.5, 5]
    assert keep(MSGPACK, msgspec.msgpack.encode({"value": msgspec.msgpack.Ext(0x73, msgspec.msgpack.encode([1, 2]))})) in ([1, 2], {1, 2})
    assert keep(JSON, b'{"value": 1, "value": 2.0}') == 2, "of duplicate keys the last wins"


def test_lines_in(client: httpx.Client) -> None:
    lines = b'{"id": "line/1", "stock": 1}\n\n{"id": "line/2", "stock": 2}'
    for content_type in (LINES, "application/ndjson"):
        created = client.post("/Product/", content=lines, headers={"Content-Type": content_type})
        assert (created.status_code, created.json()) == (201, ["line/1", "line/2"])
        assert client.put("/Product/", content=lines, headers={"Content-Type": content_type}).status_code == 204
        assert client.delete("/Product/line/").headers["x-deleted-count"] == "2"
    bad = client.post("/Product/", content=b'{"id": "line/1"}\n{"id": ', headers={"Content-Type": LINES})
    assert (bad.status_code, bad.json()["code"]) == (400, "BAD_BODY") and "2" in bad.json()["detail"]
    assert client.get("/Product/line/").json() == []


def test_csv_in(client: httpx.Client) -> None:
    headers = {"Content-Type": CSV}
    table = (
        'id,name,price,inStock,stock,listDate,specs,extra,image,tags\r\n"csv/1","A ""B"", c",1.5,true,3,2024-01-05,12,"12",AAH/,"[""x""]"\r\n'
        "csv/2,,,,,,text,12,,\r\n"
    )
    client.delete("/Product/csv/")
    created = client.post("/Product/", content=table, headers=headers)
    assert (created.status_code, created.json()) == (201, ["csv/1", "csv/2"])
    assert client.get("/Product/csv/1").json() == {
        "id": "csv/1", "name": 'A "B", c', "price": 1.5, "inStock": True, "stock": 3, "listDate": "2024-01-05T00:00:00.000Z", "specs": 12,
        "extra": "12", "image": "AAH/", "tags": ["x"],
    }  # fmt: skip
    assert client.get("/Product/csv/2").json() == {"id": "csv/2", "specs": "text", "extra": 12}
    assert client.put("/Product/", content="id,stock\ncsv/2,7\n", headers=headers).status_code == 204
    assert client.get("/Product/csv/2").json() == {"id": "csv/2", "stock": 7}
    assert client.put("/Product/csv/3", content="stock\n8", headers=headers).status_code == 204
    assert client.patch("/Product/csv/3", content='name\n"x"\n', headers=headers).status_code == 204
    assert client.get("/Product/csv/3").json() == {"id": "csv/3", "stock": 8, "name": "x"}
    for content, said in (("id,stock\ncsv/9,1\ncsv/8,1,2\n", "line 3"), ("id,stock\ncsv/9,many\n", "line 2")):
        refused = client.post("/Product/", content=content, headers=headers)
        assert refused.status_code == 400 and said in refused.json()["detail"], refused.text
    assert client.put("/Product/csv/3", content="stock\n1\n2\n", headers=headers).status_code == 400
    assert client.put("/Product/csv/3", content="stock\n", headers=headers).status_code == 400
    assert [row["id"] for row in client.get("/Product/csv/").json()] == ["csv/1", "csv/2", "csv/3"]


def test_what_was_written_as_csv_can_be_read_back(client: httpx.Client) -> None:
    """But for objects where nothing is declared: a quoted cell is text there."""
    records = [{name: value for name, value in SHOWN.items() if name != "specs"} | {"id": f"back/{number}"} for number in range(3)]
    assert client.put("/Product/", json=[*records, {"id": "back/3"}, {"id": "back/4", "specs": "007"}]).status_code == 204
    exported = client.get("/Product/back/.csv").content
    before = client.get("/Product/back/").json()
    client.delete("/Product/back/")
    assert client.post("/Product/", content=exported, headers={"Content-Type": CSV}).status_code == 201
    assert client.get("/Product/back/").json() == before


def test_forms_in(client: httpx.Client) -> None:
    client.delete("/Product/form/")
    created = client.post(
        "/Product/", data={"id": "form/1", "name": "a b+c", "price": "1.5", "inStock": "true", "tags": ["x", "y"], "extra": "5"}
    )
    assert (created.status_code, created.json()) == (201, "form/1")
    record = {"id": "form/1", "name": "a b+c", "price": 1.5, "inStock": True, "tags": ["x", "y"], "extra": "5"}
    assert client.get("/Product/form/1").json() == record
    assert client.patch("/Product/form/1", data={"tags": "z", "stock": "2"}).status_code == 204
    assert client.get("/Product/form/1").json() == record | {"tags": ["z"], "stock": 2}
    assert client.put("/Product/form/1", data={"extra": ["1", "2"]}).status_code == 204
    assert client.get("/Product/form/1").json() == {"id": "form/1", "extra": ["1", "2"]}
    refused = client.put("/Product/form/1", data={"price": "dear"})
    assert (refused.status_code, refused.json()["code"]) == (400, "BAD_VALUE")


BROKEN = [
    (JSON, b'{"a": '),
    (JSON, b'{"a": 1} x'),
    (JSON, b'{"a": "\xff"}'),
    (CBOR, b"\xa1\x61"),
    (CBOR, b"\xa0\xa0"),
    (CBOR, b"\xff"),
    (MSGPACK, b"\x81\xa1"),
    (MSGPACK, b"\x80\x80"),
    (MSGPACK, b"\xc1"),
    (LINES, b"{}\n{"),
    (CSV, b'"open\n'),
    (CSV, b"name\n\xff\n"),
    (FORM, b"name=%zz"),
    (FORM, b"name=%ff"),
]


@pytest.mark.parametrize(("content_type", "content"), BROKEN)
@pytest.mark.parametrize("method", ["PUT", "PATCH"])
def test_broken_bodies(client: httpx.Client, method: str, content_type: str, content: bytes) -> None:
    response = client.request(method, "/Product/broken", content=content, headers={"Content-Type": content_type})
    assert (response.status_code, response.json()["code"]) == (400, "BAD_BODY")
    assert client.get("/Product/broken").status_code == 404


@pytest.mark.parametrize("content_type", [JSON, CBOR, MSGPACK, CSV, LINES, FORM, "text/html", None])
def test_no_body_at_all(client: httpx.Client, content_type: str | None) -> None:
    headers = {} if content_type is None else {"Content-Type": content_type}
    for method, path in (("PUT", "/Product/empty"), ("PATCH", "/Product/empty"), ("POST", "/Product/"), ("PUT", "/Product/")):
        assert client.request(method, path, content=b"", headers=headers).status_code == 400
    assert client.get("/Product/empty").status_code == 404


def test_what_is_no_object(client: httpx.Client) -> None:
    for value in (None, 5, "text", True, []):
        for content_type, content in ((JSON, json.dumps(value).encode()), (CBOR, cbor2.dumps(value)), (MSGPACK, pack(value))):
            response = client.put("/Product/scalar", content=content, headers={"Content-Type": content_type})
            assert response.status_code == 400, (value, content_type)


@pytest.mark.parametrize("content_type", ["application/merge-patch+json", "application/json-patch+json"])
def test_patches_of_another_kind(client: httpx.Client, content_type: str) -> None:
    response = client.patch("/Product/patched", content=b"{}", headers={"Content-Type": content_type})
    assert (response.status_code, response.headers["accept-patch"]) == (415, "application/json, application/cbor, application/x-msgpack")


def test_codings_of_a_body(client: httpx.Client) -> None:
    refused = client.put("/Product/coded", content=b"{}", headers={"Content-Type": JSON, "Content-Encoding": "rot13"})
    assert refused.status_code == 415


# --- content as it comes (§7.4) --------------------------------------------------------------------------------------------------------


def test_content_of_any_type_comes_back_as_it_was(client: httpx.Client) -> None:
    page = "<h1>Grüße</h1>"
    assert client.put("/Doc/page", content=page.encode(), headers={"Content-Type": "text/html; charset=utf-8; level=1"}).status_code == 204
    for accept in ("image/png", CBOR, "*/*"):
        response = client.get("/Doc/page", headers={"Accept": accept})
        assert (response.status_code, response.text) == (200, page)
        assert response.headers["content-type"] == "text/html; level=1; charset=utf-8"
        assert response.headers["x-content-type-options"] == "nosniff"
        assert response.headers["vary"] == "Accept-Encoding, Authorization, Cookie"
        assert response.headers["etag"] == client.get("/Doc/page.json").headers["etag"]
    stored = {"id": "page", "contentType": "text/html; level=1", "data": page}
    assert client.get("/Doc/page.json").json() == stored
    assert client.get("/Doc/page?select(contentType)").json() == "text/html; level=1"
    assert client.get("/Doc/?id=page").json() == [stored]
    assert client.get("/Doc/page", headers={"If-None-Match": response.headers["etag"]}).status_code == 304


def test_charsets(client: httpx.Client) -> None:
    assert (
        client.put("/Doc/latin", content="für".encode("latin-1"), headers={"Content-Type": "text/plain; charset=ISO-8859-1"}).status_code
        == 204
    )
    assert client.get("/Doc/latin.json").json() == {"id": "latin", "contentType": "text/plain", "data": "für"}
    for content_type in ("text/plain; charset=utf-8", "text/plain", "text/plain; charset=klingon"):
        refused = client.put("/Doc/latin", content=b"f\xfcr", headers={"Content-Type": content_type})
        assert (refused.status_code, refused.json()["code"]) == (400, "BAD_BODY")


def test_bytes_of_any_type(client: httpx.Client) -> None:
    content = bytes(range(256))
    for content_type in ("image/png", "application/octet-stream", "multipart/mixed; boundary=x"):
        assert client.put("/Doc/bytes", content=content, headers={"Content-Type": content_type}).status_code == 204
        response = client.get("/Doc/bytes")
        assert (response.headers["content-type"], response.content) == (content_type, content)
        assert cbor2.loads(client.get("/Doc/bytes.cbor").content) == {"id": "bytes", "contentType": content_type, "data": content}
    part = client.get("/Doc/bytes", headers={"Range": "bytes=10-19", "Accept-Encoding": "identity"})
    assert (part.status_code, part.content, part.headers["content-range"]) == (206, content[10:20], "bytes 10-19/256")
    behind = client.get("/Doc/bytes", headers={"Range": "bytes=256-"})
    assert (behind.status_code, behind.headers["content-range"]) == (416, "bytes */256")


def test_a_type_that_is_only_written_is_content(client: httpx.Client) -> None:
    for content_type in ("text/yaml", "text/plain"):
        assert client.put("/Doc/written", content=b"a: 1", headers={"Content-Type": content_type}).status_code == 204
        assert client.get("/Doc/written.json").json() == {"id": "written", "contentType": content_type, "data": "a: 1"}


def test_a_body_without_a_type(client: httpx.Client) -> None:
    def put(content: bytes) -> Any:
        request = client.build_request("PUT", "/Doc/untyped", content=content)
        request.headers.pop("content-type", None)
        assert client.send(request).status_code == 204
        return client.get("/Doc/untyped.json").json()

    assert put(b'{"a": 1}') == {"id": "untyped", "a": 1}
    assert put(b"{not json")["contentType"] == "application/octet-stream"
    assert put(b"plain") == {"id": "untyped", "contentType": "application/octet-stream", "data": "cGxhaW4="}


def test_a_table_may_have_no_place_for_content(client: httpx.Client) -> None:
    refused = client.put("/Strict/content", content=b"<p>", headers={"Content-Type": "text/html"})
    assert (refused.status_code, refused.json()["code"]) == (400, "VALIDATION")


# --- one property (§2.5) ---------------------------------------------------------------------------------------------------------------


def test_bytes_of_a_property(client: httpx.Client) -> None:
    content = b"\x89PNG\x00" * 100
    assert client.put("/Product/up/1/image", content=content, headers={"Content-Type": "application/octet-stream"}).status_code == 204
    for path in ("/Product/up/1/image", "/Product/up/1.image"):
        response = client.get(path, headers={"Accept": "text/csv"})
        assert (response.headers["content-type"], response.content) == ("application/octet-stream", content)
    assert client.put("/Product/up/1/image", content=b"<svg/>", headers={"Content-Type": "image/svg+xml"}).status_code == 204
    assert client.get("/Product/up/1.image").content == b"<svg/>"
    assert client.put("/Product/up/1/image", content=b'"AAH/"', headers={"Content-Type": JSON}).status_code == 204
    assert client.get("/Product/up/1.image").content == b"\x00\x01\xff"
    assert client.put("/Product/up/1/image", content=cbor2.dumps(b"\x07"), headers={"Content-Type": CBOR}).status_code == 204
    assert client.get("/Product/up/1").json() == {"id": "up/1", "image": "Bw=="}


def test_values_of_a_property(client: httpx.Client) -> None:
    for content_type, content in ((JSON, b"2.5"), (CBOR, cbor2.dumps(2.5)), (MSGPACK, pack(2.5))):
        assert client.put("/Product/up/2/price", content=content, headers={"Content-Type": content_type}).status_code == 204
        assert client.get("/Product/up/2/price").json() == 2.5
        client.delete("/Product/up/2")
    assert client.put("/Product/up/2/specs", content=b"<p>", headers={"Content-Type": "text/html"}).status_code == 204
    assert client.get("/Product/up/2").json()["specs"] == {"contentType": "text/html", "data": "<p>"}
    shown = client.get("/Product/up/2.specs")
    assert (shown.headers["content-type"], shown.text) == ("text/html; charset=utf-8", "<p>")
    refused = client.put("/Product/up/2/price", content=b"<p>", headers={"Content-Type": "text/html"})
    assert (refused.status_code, refused.json()["code"]) == (400, "VALIDATION")


def test_properties_in_every_type(client: httpx.Client, filled: str) -> None:
    def ask(name: str, accept: str) -> bytes:
        return client.get(f"{filled}/0.{name}", headers={"Accept": accept}).content

    assert json.loads(ask("listDate", JSON)) == SHOWN["listDate"]
    assert cbor2.loads(ask("listDate", CBOR)) == unpack(ask("listDate", MSGPACK)) == MOMENT
    assert cbor2.loads(ask("specs", CBOR)) == unpack(ask("specs", MSGPACK)) == SHOWN["specs"]
    assert json.loads(ask("tags", JSON)) == cbor2.loads(ask("tags", CBOR)) == SHOWN["tags"]
