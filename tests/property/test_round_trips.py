"""What GET gave can be put back: for every content type and every attribute type the record stays what it is, or 400 and nothing changes (spec: http §7.5)."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import Phase, example, given, settings
from hypothesis import strategies as st

from svc.messages import HeaderBlock, Request
from svc.store.blobs import Blob, create_blob
from svc.store.values.records import decode
from tests.support.node import Node, Wire
from tests.support.operations import OperationsNode
from tests.support.profile import half_by_day

SCHEMA = """
type Thing @table @export {
  id: ID @primaryKey
  s: String  i: Int  l: Long  f: Float  big: BigInt  yes: Boolean  at: Date  raw: Bytes  file: Blob  any: Any
  ss: [String]  is: [Int]  fs: [Float]  bigs: [BigInt]  dates: [Date]  raws: [Bytes]  files: [Blob]  anys: [Any]
  place: Place  places: [Place]
}
type Place { hall: String  row: Int  opened: Date  plan: Bytes  film: Blob  notes: Any }
type Closed @table @export @sealed { id: ID @primaryKey  s: String  at: Date  file: Blob  any: Any }
"""
TYPES = (
    "application/json",
    "application/x-ndjson",
    "application/cbor",
    "application/x-msgpack",
    "application/x-msgpack;sequence=true",
    "text/csv",
    "text/yaml",
    "text/plain",
    "application/x-www-form-urlencoded",
)
NATIVE = ("application/cbor", "application/x-msgpack", "application/x-msgpack;sequence=true")
ONE_VALUE = ("text/yaml", "text/plain", "application/x-www-form-urlencoded")  # that are not read as a list of records

AWKWARD_TEXTS = (
    "", " ", "null", "NULL", "true", "False", "0", "-1", "007", "1e3", "1.50", "12345678901234567890", '"', '"a', '""', "'", "=1+1", "\ufeffx",
    "2024-01-05", "2024-01-05T20:07:27.955Z", "AAEC", "{}", "[]", '{"a":1}', "[1]", '{"description":"x"}', "a,b", "a\nb", "a\r\nb", "\r", "\t",
    "NaN", "Infinity", "undefined", "$1z", "a&b=c%20+", "é\u2028\U0001f600", "\0", "x" * 300,
)  # fmt: skip
texts = st.sampled_from(AWKWARD_TEXTS) | st.text(max_size=8)
INT_EDGES = (0, 1, -1, 2**31 - 1, -(2**31))
long_integers = st.sampled_from((*INT_EDGES, 2**53, -(2**53), 2**53 - 1)) | st.integers(-(2**53), 2**53)
big_integers = long_integers | st.sampled_from((2**63, 2**64, -(2**63) - 1, 2**999, -(2**999))) | st.integers(-(2**200), 2**200)
floats = st.sampled_from((0.5, -0.25, 1e-7, 5e-324, 1e22, 1e300, 1.7976931348623157e308, 2.0**53 + 2, 0.1 + 0.2)) | st.floats(
    allow_nan=False, allow_infinity=False
)
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
dates = st.builds(
    lambda ms: EPOCH + timedelta(milliseconds=ms),
    st.sampled_from(
        (0, 1, -1, 999, -999, 1000, 1704485247955, -62135596800000, 253402300799999, 2**32 * 1000, 2**34 * 1000 - 1, -1704485247001)
    )
    | st.integers(-62135596800000, 253402300799999),
)
binary = st.sampled_from((b"", b"\0", b"\xff\xfe", b"null", b"{}")) | st.binary(max_size=20)
BLOB_TYPES = (
    None, "application/octet-stream", "text/plain", "text/plain; charset=utf-8", "text/markdown", "text/markdown; charset=iso-8859-1",
    "text/plain; charset=hex", "text/csv; header=present", "image/png", "image/svg+xml", "application/json", "x/y; a=b; c=d", "text/html",
)  # fmt: skip
blobs = st.tuples(
    binary | texts.map(str.encode) | st.sampled_from((8191, 8192, 9000)).map(lambda size: b"b" * size), st.sampled_from(BLOB_TYPES)
)
"""(content, type): a Blob belongs to one record, so it is made when it is stored."""

scalars = st.none() | st.booleans() | big_integers | floats | texts
element = st.booleans() | long_integers | texts | st.binary(max_size=4) | dates | st.tuples(st.integers(0, 9), texts)
untyped = st.recursive(
    scalars | dates | binary | blobs | st.sets(element, max_size=3),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3) | st.dictionaries(st.integers(-5, 5), inner, max_size=2)
    ),
    max_leaves=6,
)
places = st.fixed_dictionaries(
    {},
    optional={
        "hall": texts,
        "row": st.none() | st.integers(0, 9),
        "opened": dates,
        "plan": binary,
        "film": blobs,
        "notes": untyped,
        "odd": untyped,
    },
)


def maybe(strategy: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.none() | strategy


ATTRIBUTES: dict[str, st.SearchStrategy[Any]] = {
    "s": maybe(texts),
    "i": maybe(st.sampled_from(INT_EDGES)),
    "l": maybe(long_integers),
    "f": maybe(floats | long_integers | st.sampled_from((10**20, 2**999))),
    "big": maybe(big_integers),
    "yes": maybe(st.booleans()),
    "at": maybe(dates),
    "raw": maybe(binary),
    "file": maybe(blobs),
    "any": untyped,
    "ss": maybe(st.lists(maybe(texts), max_size=3)),
    "is": maybe(st.lists(maybe(st.sampled_from(INT_EDGES)), max_size=3)),
    "fs": maybe(st.lists(maybe(floats), max_size=3)),
    "bigs": maybe(st.lists(maybe(big_integers), max_size=3)),
    "dates": maybe(st.lists(maybe(dates), max_size=3)),
    "raws": maybe(st.lists(maybe(binary), max_size=3)),
    "files": maybe(st.lists(maybe(blobs), max_size=3)),
    "anys": maybe(st.lists(untyped, max_size=3)),
    "place": maybe(places),
    "places": maybe(st.lists(maybe(places), max_size=2)),
    "odd": untyped,
    'odd name, "x"': untyped,
}
DECLARED = ATTRIBUTES.keys() - {"odd", 'odd name, "x"'}
_every_thing = st.fixed_dictionaries({}, optional=ATTRIBUTES)


@st.composite
def _thing(draw: st.DrawFn) -> dict[str, Any]:
    return draw(_every_thing)


things = _thing()  # its description is short


def with_blobs(value: Any) -> Any:
    """The value with a blob in place of each (content, type)."""
    if type(value) is tuple and len(value) == 2 and type(value[0]) is bytes:
        return create_blob(value[0], type=value[1])
    if isinstance(value, list):
        return [with_blobs(part) for part in value]
    return {key: with_blobs(part) for key, part in value.items()} if isinstance(value, dict) else value


def content_of(value: Any) -> Any:
    """What a value is, so that equal means the same: a bool is no number, 5 and 5.0 are one, a blob is its bytes and its type."""
    if isinstance(value, dict):
        return {"object": {key: content_of(member) for key, member in value.items()}}
    if isinstance(value, list | tuple):
        return [content_of(part) for part in value]
    if isinstance(value, set | frozenset):
        return ("set", sorted(map(repr, map(content_of, value))))
    if isinstance(value, Blob):
        return ("blob", value.type, value.read())
    if isinstance(value, float) and value.is_integer():
        return ("int", int(value))
    return (type(value).__name__, value)


class Service:
    """A node, and one record that is put there past all content types."""

    def __init__(self, path: Path) -> None:
        app = path / "app"
        app.mkdir()
        (app / "schema.graphql").write_text(SCHEMA)
        self.node = Node(path / "database", app)
        self.wire: Wire = self.node.connect()
        self.table = self.node.store.databases["data"].tables["Thing"]

    def store(self, record: dict[str, Any], key: str = "a") -> None:
        store = self.node.store
        transaction = store.begin("tester")
        transaction.put(self.table, key, self.table.validator.record({"id": key, **with_blobs(record)}, source="native"))
        transaction.apply()
        store.commit_turn()
        store.end_turn()

    def clear(self) -> None:
        assert self.wire.ask("DELETE", "/Thing/")[0] == 204

    def content(self, key: str = "a") -> Any:
        raw = self.table.get_raw(key)
        found = None if raw is None else content_of(decode(raw))
        self.node.store.end_turn()
        return found

    def get(self, target: str, accept: str) -> tuple[int, dict[str, str], bytes]:
        return self.wire.ask("GET", target, b"", {"Accept": accept})

    def send(self, method: str, target: str, body: bytes, content_type: str) -> tuple[int, bytes]:
        status, _, answer = self.wire.ask(method, target, body, {"Content-Type": content_type})
        return status, answer


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    made = Service(tmp_path_factory.mktemp("round_trips"))
    yield made
    assert made.node.errors == []
    made.node.store.check()
    made.node.close()


every_record = settings(
    phases=(Phase.explicit, Phase.reuse, Phase.generate, Phase.shrink),
)


@every_record
@given(record=things, kind=st.sampled_from(TYPES), method=st.sampled_from(("PUT", "PATCH")))
def test_a_record(service: Service, record: dict[str, Any], kind: str, method: str) -> None:
    service.store(record)
    before = service.content()
    status, fields, body = service.get("/Thing/a", kind)
    assert status == 200
    status, answer = service.send(method, "/Thing/a", body, fields["content-type"])
    assert status == 204, answer
    assert service.content() == before


@settings(every_record, max_examples=half_by_day(100))
@given(records=st.lists(things, min_size=1, max_size=4), kind=st.sampled_from(TYPES))
def test_a_collection(service: Service, records: list[dict[str, Any]], kind: str) -> None:
    keys = [f"c{number}" for number in range(len(records))]
    service.clear()
    for key, record in zip(keys, records, strict=True):
        service.store(record, key)
    before = list(map(service.content, keys))
    status, fields, body = service.get("/Thing/", kind)
    assert status == 200
    status, answer = service.send("PUT", "/Thing/", body, fields["content-type"])
    assert status in ((204, 400) if kind in ("text/csv", *ONE_VALUE) else (204,)), answer
    assert list(map(service.content, keys)) == before


@every_record
@given(record=things, kind=st.sampled_from(TYPES), name=st.sampled_from(sorted(DECLARED)))
@example(record={"file": (b"", "text/plain; charset=utf-8")}, kind="application/json", name="file")
@example(record={"any": None}, kind="application/json", name="any")
def test_a_property(service: Service, record: dict[str, Any], kind: str, name: str) -> None:
    service.store(record)
    before = service.content()
    for extension in ("", ".json", ".csv", ".cbor", ".msgpack"):
        status, fields, body = service.get(f"/Thing/a/{name}{extension}" if not extension else f"/Thing/a.{name}{extension}", kind)
        if status == 200:
            status, answer = service.send("PUT", f"/Thing/a/{name}", body, fields["content-type"])
            assert status in (204, 400), answer
        assert service.content() == before


@every_record
@given(record=things, kind=st.sampled_from(TYPES))
def test_after_a_delete(service: Service, record: dict[str, Any], kind: str) -> None:
    """What a content type has a form for is there again; a blob needs its content, and has the type that this content has by default."""
    service.store(record)
    status, fields, body = service.get("/Thing/a", kind)
    service.clear()
    status, answer = service.send("POST", "/Thing/", body, fields["content-type"])
    assert status in (201, 400), answer
    if status == 400:
        assert service.content() is None


def test_blobs_after_a_delete(service: Service) -> None:
    for kind in TYPES[:6]:
        service.store({"file": (bytes(20_000), "image/png")})
        _, fields, body = service.get("/Thing/a", kind)
        service.clear()
        status, answer = service.send("POST", "/Thing/", body, fields["content-type"])
        if kind in NATIVE:
            assert service.content()["object"]["file"] == ("blob", "application/octet-stream", bytes(20_000))
        else:
            assert status == 400 and b"Property file has the description of a blob" in answer, (kind, answer)
            assert service.content() is None


# --- operations ----------------------------------------------------------------------------------------------------------------------------


class Loads:
    """The same table on a node for operations."""

    def __init__(self, path: Path, service: Service) -> None:
        self.node = OperationsNode(path)
        self.table = self.node.store.open_database("data").define_table(service.table.definition)

    store = Service.store

    def content(self) -> Any:
        raw = self.table.get_raw("a")
        found = None if raw is None else content_of(decode(raw))
        self.node.store.end_turn()
        return found

    def load(self, body: bytes, action: str) -> dict[str, Any]:
        started = self.node.run("csv_data_load", table="Thing", data=body.decode(), action=action)
        tasks = [task for task in asyncio.all_tasks(self.node.loop) if task.get_name() == f"job {started['job_id']}"]
        if tasks:
            self.node.wait(lambda: asyncio.wait(tasks))
        (job,) = self.node.run("get_job", id=started["job_id"])
        return dict(job)


@pytest.fixture(scope="module")
def loads(service: Service, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Loads]:
    made = Loads(tmp_path_factory.mktemp("loads"), service)
    yield made
    made.node.store.check()
    made.node.close()


@settings(every_record, max_examples=half_by_day(100))
@given(record=things, action=st.sampled_from(("update", "upsert")))
def test_a_load(service: Service, loads: Loads, record: dict[str, Any], action: str) -> None:
    service.store(record)
    _, _, body = service.get("/Thing/a", "text/csv")
    loads.store(record)
    before = loads.content()
    job = loads.load(body, action)
    assert job["status"] == "COMPLETE", job
    assert loads.content() == before


@every_record
@given(record=things, operation=st.sampled_from(("update", "upsert")))
def test_an_operation(service: Service, loads: Loads, record: dict[str, Any], operation: str) -> None:
    loads.store(record)
    before = loads.content()
    service.store(record)
    _, _, body = service.get("/Thing/a", "application/json")
    request = Request("POST", "/", HeaderBlock([]))  # whose body was JSON
    node = loads.node
    body_of = {"operation": operation, "table": "Thing", "records": [msgspec.json.decode(body)]}
    result = node.send(body_of, node.admin, request)
    assert result["message"].endswith("1 of 1 records"), result
    assert loads.content() == before
