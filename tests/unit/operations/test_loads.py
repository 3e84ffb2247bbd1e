"""svc.operations.loads: what is refused before the job exists, what a job reports, what is stored. No sockets: a class plays the peers."""

from __future__ import annotations

import asyncio
import http.client
import io
import os
import socket
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from pathlib import Path
from typing import Any
from urllib.parse import SplitResult

import pytest

from svc.content.csv_reader import MAX_COLUMNS
from svc.errors import NoSpace, Overloaded, Problem, Refusal
from svc.operations import csv_cast, load_sources, loads, outbound, s3
from svc.operations.csv_cast import CsvColumns
from svc.operations.json_records import JsonRecordParser
from svc.operations.outbound import ResolvedAddress
from svc.store import Table
from svc.store.schema import Attribute, TableDefinition
from svc.store.values.records import decode
from tests.support.operations import OperationsNode

PLANT = TableDefinition(
    "plant",
    attributes=(
        Attribute("id", "Int", primary_key=True),
        Attribute("species", "String", indexed=True),
        Attribute("height", "Float"),
        Attribute("planted", "Date"),
        Attribute("code", "String", required=True),
    ),
    primary_key="id",
)
FREE = TableDefinition("free", attributes=(Attribute("id", primary_key=True),), dynamic=True)
PUBLIC = "198.41.0.4"
CSV = "id,species,height,planted,code\n1,fern,12,2024-01-05T10:00:00Z,x\n2,moss,,,y\n"


@pytest.fixture
def node(tmp_path: Path) -> Iterator[OperationsNode]:
    with OperationsNode(tmp_path) as node:
        database = node.store.open_database("data")
        database.define_table(PLANT)
        database.define_table(FREE)
        yield node


def table(node: OperationsNode, name: str = "plant") -> Table:
    return node.store.databases["data"].tables[name]


def content(node: OperationsNode, name: str = "plant") -> dict[Any, dict[str, Any]]:
    found = table(node, name)
    return {found.key_of(raw): decode(raw) for _, raw in found.scan(found.database.snapshot())}


def ended(node: OperationsNode, started: dict[str, Any]) -> dict[str, Any]:
    """The record of a job when it has ended."""
    assert started["message"] == f"Starting job with id {started['job_id']}"
    tasks = [task for task in asyncio.all_tasks(node.loop) if task.get_name() == f"job {started['job_id']}"]
    if tasks:
        node.wait(lambda: asyncio.wait(tasks))
    (job,) = node.run("get_job", id=started["job_id"])
    assert job["status"] in ("COMPLETE", "ERROR") and isinstance(job, dict)
    node.store.check()
    return job


def load(node: OperationsNode, data: str, user: Any = None, name: str = "plant", **more: Any) -> dict[str, Any]:
    return ended(node, node.run("csv_data_load", user, table=name, data=data, **more))


def fault(call: Callable[[], Any]) -> tuple[int, str]:
    with pytest.raises(Problem) as raised:
        call()
    return raised.value.status_code, raised.value.message


# -- what is stored and reported


@pytest.mark.parametrize(
    ("data", "what"),
    [
        ("id;species\n1;fern\n", "semicolons"), ("id\tspecies\n1\tfern\n", "tabs"), ("sep=;\nid;species\n", "semicolons"),
        ('"id";"species"\n"1";"fern"\n', "semicolons"), ("id|species\n1|fern\n", "bars"),
    ],
)  # fmt: skip
def test_other_separators_than_commas_are_refused(node: OperationsNode, data: str, what: str) -> None:
    job = load(node, data, name="free")
    assert job["status"] == "ERROR" and f"separated by commas, not by {what}" in job["message"]
    assert job["faults"][0]["line"] == 1 and not content(node, "free")


def test_a_single_column_may_have_such_a_name(node: OperationsNode) -> None:
    assert load(node, '"a;b"\n1\n', name="free")["message"] == "successfully loaded 1 of 1 records"


def test_columns_are_counted(node: OperationsNode) -> None:
    names = [f"c{n}" for n in range(MAX_COLUMNS)]
    for data in (",".join([*names, "more"]), ",".join(f'"{name}"' for name in [*names, "more"]), "," * 1_900_000):
        job = load(node, f"{data}\n1,2\n", name="free")
        assert job["status"] == "ERROR" and job["message"] == f"The CSV has more than {MAX_COLUMNS} columns, cancelling load operation"
    assert not content(node, "free")
    row = ",".join(["x"] * 3 + [""] * (MAX_COLUMNS - 3))
    assert load(node, f"{','.join(names)}\n{row},surplus\n", name="free")["status"] == "COMPLETE"
    (record,) = content(node, "free").values()
    assert {name: record[name] for name in record if name[0] == "c"} == {"c0": "x", "c1": "x", "c2": "x"}


def test_few_wide_rows_are_converted_at_one_time(node: OperationsNode, monkeypatch: pytest.MonkeyPatch) -> None:
    steps: list[int] = []
    made = CsvColumns.records

    def records(self: CsvColumns, rows: list[list[str]], lines: list[int]) -> Any:
        steps.append(sum(map(len, rows)))
        return made(self, rows, lines)

    monkeypatch.setattr(CsvColumns, "records", records)
    data = ",".join(f"c{n}" for n in range(2000)) + ("\n" + ",".join(["1"] + [""] * 1999)) * 40
    assert load(node, data, name="free")["message"] == "successfully loaded 40 of 40 records"
    assert max(steps) <= 4096 and sum(steps) == 40 * 2000


def test_insert(node: OperationsNode) -> None:
    job = load(node, CSV)
    assert job["status"] == "COMPLETE" and job["message"] == "successfully loaded 2 of 2 records" and job["type"] == "csv_data_load"
    assert job["result"] == {"written": 2, "skipped": 0, "failed": 0, "errors": []}
    records = content(node)
    assert records[1]["height"] == 12 and records[1]["planted"].isoformat() == "2024-01-05T10:00:00+00:00"
    assert records[2] == {"id": 2, "species": "moss", "code": "y"}, "an empty cell is no value"
    again = load(node, "id,code\n2,changed\n3,z\n", action="insert")
    assert again["message"] == "successfully loaded 1 of 2 records" and again["result"]["skipped"] == 1
    assert content(node)[2]["code"] == "y"


def test_nothing_is_lost_where_each_step_takes_all_of_its_time(node: OperationsNode, monkeypatch: pytest.MonkeyPatch) -> None:
    class SlowClock:
        """Half a second passes whenever it is asked."""

        def __init__(self) -> None:
            self._seconds = 0.0

        def monotonic(self) -> float:
            self._seconds += 0.5
            return node.clock.monotonic() + self._seconds

        def __getattr__(self, name: str) -> Any:
            return getattr(node.clock, name)

    monkeypatch.setattr(node.node, "clock", SlowClock())
    rows = "".join(f"{number},name {number}\n" for number in range(3000))
    record = load(node, f"id,name\n{rows}", name="free")
    assert (record["status"], record["message"]) == ("COMPLETE", "successfully loaded 3000 of 3000 records")
    assert len(content(node, "free")) == 3000


def test_update_and_upsert(node: OperationsNode) -> None:
    load(node, CSV)
    job = load(node, "id,height\n1,13\n9,1\n", action="update")
    assert job["message"] == "successfully loaded 1 of 2 records"
    assert content(node)[1]["height"] == 13 and content(node)[1]["species"] == "fern" and 9 not in content(node)
    job = load(node, "id,height,code\n1,14,\n9,1,z\n,2,new\n10,1,\n", action="upsert")
    assert job["message"] == "successfully loaded 3 of 4 records"
    assert job["result"]["errors"] == [{"row": 4, "message": "Property code is required", "line": 5, "key": 10, "attribute": "code"}]
    assert content(node)[1]["height"] == 14 and {record["code"] for record in content(node).values()} == {"x", "y", "z", "new"}
    entries = list(table(node).database.log.read(table(node).database.snapshot()))
    assert entries[-1].user == "admin" and entries[-1].operation == 3


def test_rows_that_fail_hinder_no_other(node: OperationsNode) -> None:
    job = load(node, "id,code,height\n1,a,x\n2,b,1,surplus\n\n3\n4000000000,d\n5,e\n")
    assert job["message"] == "successfully loaded 2 of 5 records" and job["result"]["failed"] == 3
    assert [entry["row"] for entry in job["result"]["errors"]] == [1, 3, 4]
    message = 'Invalid value for attribute height: "x", expecting Float'
    assert job["result"]["errors"][0] == {"row": 1, "message": message, "line": 2, "key": 1, "attribute": "height"}
    assert [entry["line"] for entry in job["result"]["errors"]] == [2, 5, 6]


def test_lines_of_rows_behind_many_batches(node: OperationsNode) -> None:
    rows = [f'{number},"a\nb"\n' + "\n" * (number % 3 == 0) + ",,\n" * (number % 7 == 0) for number in range(30_000)]
    faulty = (0, 4095, 4096, 20_000, 29_999)
    lines = []
    line = 2
    for number in range(30_000):
        if number in faulty:
            rows[number] = rows[number].replace(f'{number},"a', f'{number}x,"a', 1)
            lines.append(line)
        line += rows[number].count("\n")
    job = load(node, "id,code\n" + "".join(rows))
    assert job["message"] == "successfully loaded 29995 of 30000 records"
    assert [(entry["row"], entry["line"]) for entry in job["result"]["errors"]] == [
        (at + 1, line) for at, line in zip(faulty, lines, strict=True)
    ]
    assert {entry["attribute"] for entry in job["result"]["errors"]} == {"id"}


def test_dynamic_tables_learn(node: OperationsNode) -> None:
    job = load(node, '\ufeffid,n,t,j,when\r\n1,5,"5","{""a"": [1]}",2024-01-05T10:00:00Z\r\n,TRUE,007,null,NaN\r\n', name="free")
    assert job["message"] == "successfully loaded 2 of 2 records"
    assert list(table(node, "free").attributes) == ["id", "n", "t", "j", "when"]
    records = content(node, "free")
    assert records.pop(1) == {"id": 1, "n": 5, "t": 5, "j": {"a": [1]}, "when": "2024-01-05T10:00:00Z"}
    ((key, record),) = records.items()
    assert record == {"id": key, "n": True, "t": "007", "j": None, "when": "NaN"} and type(key) is int


def test_managed_times_are_dropped(node: OperationsNode) -> None:
    load(node, "id,__createdtime__,code\n1,5,a\n")
    assert content(node)[1] == {"id": 1, "code": "a"}


@pytest.mark.parametrize("name", ["a/b", "", "null", "undefined", "a`b", "species"])
def test_bad_column_names(node: OperationsNode, name: str) -> None:
    job = load(node, f"id,species,{name}\n1,2,3\n")
    assert job["status"] == "ERROR" and job["message"] == f"Invalid column name '{name}', cancelling load operation"
    assert content(node) == {}


@pytest.mark.parametrize("data", ["\n", "id,code", "id,code\n\n\r\n", "id,code\n,\n", "\ufeff"])
def test_no_rows(node: OperationsNode, data: str) -> None:
    job = load(node, data)
    assert (job["status"], job["message"]) == ("ERROR", "No records parsed from csv file.")


def test_what_cannot_be_read_any_further(node: OperationsNode, monkeypatch: pytest.MonkeyPatch) -> None:
    job = load(node, 'id,code\n1,"a\n')
    assert job["status"] == "ERROR" and job["message"] == "The quoted cell that begins in line 2 or later has no end"

    def broken(*_: Any) -> Any:
        raise KeyError("a defect")

    monkeypatch.setattr(csv_cast.CsvColumns, "records", broken)
    job = load(node, CSV)
    assert (job["status"], job["message"]) == ("ERROR", loads.FAILED)


def test_a_full_disk_tells_how_much_there_is(node: OperationsNode, monkeypatch: pytest.MonkeyPatch) -> None:
    def full() -> None:
        raise NoSpace

    data = "id,code\n" + "".join(f"{number},x\n" for number in range(5000))
    original = table(node).database.store.count_commit

    def count_commit(**failed: Any) -> None:
        monkeypatch.setattr(table(node).database, "require_space", full)
        table(node).database.env.reserve.is_low = True
        original(**failed)

    monkeypatch.setattr(table(node).database.store, "count_commit", count_commit)
    job = load(node, data)
    assert job["status"] == "ERROR"
    assert job["message"] == "No space left for this write (4096 of 4096 records were loaded before)" and len(content(node)) == 4096


def test_many_rows(node: OperationsNode) -> None:
    data = "id,species,code\n" + "".join(f"{number},s{number % 50},c\n" for number in range(20_000))
    job = load(node, data)
    assert job["message"] == "successfully loaded 20000 of 20000 records" and job["progress"]["done"] == 20_000
    assert len(content(node)) == 20_000


# -- what is refused before


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({}, "'table' is required. 'data' is required"),
        ({"table": "plant"}, "'data' is required"),
        ({"table": "plant", "data": 5}, "'data' must be a string"),
        ({"table": "plant", "data": CSV, "action": "delete"}, "Action is required and must be either insert, update, or upsert"),
        ({"table": "plant", "data": CSV, "action": ["insert"]}, "Action is required and must be either insert, update, or upsert"),
        ({"table": "none", "data": CSV}, "Table 'data.none' does not exist"),
        ({"table": "plant", "database": "none", "data": CSV}, "database 'none' does not exist"),
        ({"table": "a/b", "data": CSV}, "'table' names cannot include backticks or forward slashes"),
    ],
)
def test_bad_requests(node: OperationsNode, fields: dict[str, Any], text: str) -> None:
    assert fault(lambda: node.run("csv_data_load", **fields)) == (400, text)


def test_the_system_database_takes_no_loads(node: OperationsNode) -> None:
    for name in ("svc_user", "svc_job", "none"):
        status, _ = fault(lambda name=name: node.run("csv_data_load", database="system", table=name, data=CSV))  # type: ignore[misc]
        assert status in (400, 403)
    status, text = fault(lambda: node.run("csv_data_load", database="system", table="svc_user", data="username\nmallory\n"))
    assert status == 403 and node.directory.get_user("mallory") is None and "cannot be updated" in text


# -- rights


def permission(**attributes: bool) -> dict[str, Any]:
    listed = [{"attribute_name": name, "read": True, "insert": True, "update": update} for name, update in attributes.items()]
    rights = {"read": True, "insert": True, "update": True, "delete": False, "attribute_permissions": listed}
    return {"data": {"tables": {"plant": rights}}}


def test_columns_need_rights(node: OperationsNode) -> None:
    user = node.user("ann", permission(id=True, code=True, species=False))
    assert load(node, "id,code,species\n1,a,b\n", user)["message"] == "successfully loaded 1 of 1 records"
    job = load(node, "id,code,species,height\n2,a,b,1\n", user)
    assert job["status"] == "ERROR" and job["message"]["invalid_schema_items"] == ["Attribute 'height' does not exist on 'data.plant'"]
    job = load(node, "id,code,species\n1,a,c\n", user, action="update")
    assert job["message"]["unauthorized_access"] == [
        {
            "schema": "data",
            "table": "plant",
            "required_table_permissions": [],
            "required_attribute_permissions": [{"attribute_name": "species", "required_permissions": ["update"]}],
        }
    ]
    job = load(node, "id,code,__updatedtime__\n3,a,1\n", user)
    assert job["message"].startswith("Internal timestamp attributes")
    assert set(content(node)) == {1} and content(node)[1]["species"] == "b"


# -- files


def load_file(node: OperationsNode, path: Any, user: Any = None) -> dict[str, Any]:
    return ended(node, node.run("csv_file_load", user, table="plant", file_path=str(path)))


def test_files(node: OperationsNode, tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_text("id,code\n" + "".join(f"{number},{'ü' * 50}\n" for number in range(4000)))
    assert load_file(node, path)["message"] == "successfully loaded 4000 of 4000 records"
    assert load_file(node, "rows.csv")["message"] == "successfully loaded 0 of 4000 records", "relative to the root"
    path.write_bytes(b"id,code\n9000,a\n9001,\xff\n")
    job = load_file(node, path)
    assert job["status"] == "ERROR"
    assert job["message"] == 'The content is not valid UTF-8 near byte 20: name its encoding, as in "encoding": "windows-1252"'
    assert 9000 not in content(node)


@pytest.mark.parametrize("encoding", ["windows-1252", "iso-8859-1", "utf-16", "UTF-16LE", "utf-8"])
def test_a_file_in_another_encoding(node: OperationsNode, tmp_path: Path, encoding: str) -> None:
    path = tmp_path / "rows.csv"
    path.write_text("id,code\n" + "".join(f"{number},a\n" for number in range(20_000)) + "20000,für\n", encoding=encoding)
    if encoding != "utf-8":
        job = load_file(node, path)
        assert job["status"] == "ERROR" and "name its encoding" in job["message"] and content(node) == {}
    started = node.run("csv_file_load", table="plant", file_path=str(path), encoding=encoding)
    assert ended(node, started)["message"] == "successfully loaded 20001 of 20001 records"
    assert content(node)[20_000]["code"] == "für"


def test_an_encoding_that_is_none(node: OperationsNode, tmp_path: Path) -> None:
    for encoding in ("klingon", "hex", "rot13", "utf-7"):
        status, text = fault(lambda name=encoding: node.run("csv_file_load", table="plant", file_path="x", encoding=name))  # type: ignore[misc]
        assert status == 400 and "'encoding' must be" in text


def test_files_that_are_none(node: OperationsNode, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "none.csv", "a\0b", "x" * 5000, tmp_path / "loop"):
        if str(path).endswith("loop"):
            (tmp_path / "loop").symlink_to(tmp_path / "loop")
        status, text = fault(lambda path=path: load_file(node, path))  # type: ignore[misc]
        assert status == 400 and text.startswith("No such file or directory ")
    assert fault(lambda: load_file(node, tmp_path)) == (400, f"Not a file {tmp_path}")
    assert fault(lambda: load_file(node, tmp_path / "pipe")) == (400, f"Not a file {tmp_path / 'pipe'}")
    assert fault(lambda: node.run("csv_file_load", table="plant")) == (400, "'file_path' is required")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_files_that_may_not_be_read(node: OperationsNode, tmp_path: Path) -> None:
    path = tmp_path / "secret.csv"
    path.write_text(CSV)
    path.chmod(0)
    assert fault(lambda: load_file(node, path)) == (400, f"Permission denied {path}")


def test_others_read_only_below_the_import_roots(node: OperationsNode, tmp_path: Path) -> None:
    user = node.user("ann", {"data": {"tables": {"plant": {"read": True, "insert": True, "update": True, "delete": False}}}})
    roots = tmp_path / "import"
    (roots / "deep").mkdir(parents=True)
    (roots / "deep" / "rows.csv").write_text(CSV)
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "rows.csv").write_text(CSV)
    (tmp_path / "import-not").mkdir()
    (tmp_path / "import-not" / "rows.csv").write_text(CSV)
    (roots / "link.csv").symlink_to(outside / "rows.csv")
    (roots / "linked").symlink_to(outside)
    (roots / "inside.csv").symlink_to(roots / "deep" / "rows.csv")
    assert load_file(node, roots / "deep" / "rows.csv", user)["status"] == "COMPLETE"
    assert load_file(node, "import/inside.csv", user)["status"] == "COMPLETE"
    for path in (
        outside / "rows.csv", roots / "link.csv", roots / "linked" / "rows.csv", roots / ".." / "outside" / "rows.csv", "/etc/passwd",
        tmp_path / "import-not" / "rows.csv", tmp_path / "nothing-there", roots,
    ):  # fmt: skip
        with pytest.raises(Refusal) as raised:
            load_file(node, path, user)
        assert raised.value.status_code == 403 and "outside" in raised.value.body["unauthorized_access"][0]  # type: ignore[index]
    assert fault(lambda: load_file(node, roots / "none.csv", user)) == (400, f"No such file or directory {roots / 'none.csv'}")


# -- URLs


class Answer:
    """Plays `http.client.HTTPResponse`."""

    def __init__(self, body: bytes = CSV.encode(), status: int = 200, *, length: int | None = -1, piece: int = 7, **headers: str) -> None:
        self.status = status
        self.reason = http.client.responses[status]
        self.headers = {"Content-Type": "text/csv; charset=utf-8"} | {name.replace("_", "-"): value for name, value in headers.items()}
        self._body = io.BytesIO(body)
        self._piece = piece  # bytes that come at once
        self.length = len(body) if length == -1 else length
        self.closing: Future[None] = Future()

    def getheader(self, name: str) -> str | None:
        return self.headers.get(name)

    def read(self, size: int) -> bytes:
        data = self._body.read(min(size, self._piece))
        if self.length is not None:
            self.length -= len(data)
        return data

    def close(self) -> None:
        if not self.closing.done():
            self.closing.set_result(None)


class Web:
    """Plays the peers: address -> answer, or what is raised."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.answers: dict[str, Answer | Exception] = {}
        self.asked: list[tuple[str, dict[str, str]]] = []
        monkeypatch.setattr(outbound, "resolve", lambda host, port: [ResolvedAddress(socket.AF_INET, (PUBLIC, port))])
        monkeypatch.setattr(load_sources, "connect", self.connect)

    def connect(self, parts: SplitResult, endpoints: list[ResolvedAddress], timeout: float) -> Connection:
        assert [endpoint.address[0] for endpoint in endpoints] == [PUBLIC]
        return Connection(self, f"{parts.scheme}://{parts.hostname}")


class Connection:
    def __init__(self, web: Web, origin: str) -> None:
        self.web = web
        self.origin = origin
        self.url = ""

    def request(self, method: str, target: str, headers: dict[str, str]) -> None:
        assert method == "GET"
        self.url = self.origin + target
        self.web.asked.append((self.url, headers))

    def getresponse(self) -> Answer:
        answer = self.web.answers[self.url]
        if isinstance(answer, Exception):
            raise answer
        return answer

    def close(self) -> None:
        pass


@pytest.fixture
def web(monkeypatch: pytest.MonkeyPatch) -> Web:
    return Web(monkeypatch)


def load_url(node: OperationsNode, url: Any, **more: Any) -> dict[str, Any]:
    return ended(node, node.run("csv_url_load", table="plant", csv_url=url, **more))


def test_the_encoding_of_an_address(node: OperationsNode, web: Web) -> None:
    body = "id,code\n1,für\n".encode("cp1252")
    web.answers["http://a/1"] = Answer(body, Content_Type='text/csv; header=present; charset="windows-1252"')
    assert load_url(node, "http://a/1")["status"] == "COMPLETE" and content(node)[1]["code"] == "für"
    web.answers["http://a/2"] = Answer(body, Content_Type="text/csv; charset=utf-8")
    assert load_url(node, "http://a/2", encoding="windows-1252", action="update")["result"]["written"] == 1
    web.answers["http://a/3"] = Answer(body, Content_Type="text/csv")
    assert "name its encoding" in load_url(node, "http://a/3")["message"]


def test_what_was_loaded_before_a_fault_is_told(node: OperationsNode, web: Web) -> None:
    """An address is read once, so what is wrong at its end is found when its beginning is there."""
    rows = "id,code\n" + "".join(f"{number},a\n" for number in range(20_000))  # more than a piece, and than a batch
    web.answers["http://a/1"] = Answer(rows.encode() + b"20000,f\xfcr\n", piece=1000)
    job = load_url(node, "http://a/1")
    loaded = len(content(node))
    assert job["status"] == "ERROR" and 0 < loaded < 20_000
    assert job["message"].endswith(f"({loaded} of {loaded} records were loaded before)") and "name its encoding" in job["message"]


def test_urls(node: OperationsNode, web: Web) -> None:
    web.answers["http://a/rows.csv?x=1"] = answer = Answer()
    job = load_url(node, "http://a/rows.csv?x=1", passthrough_headers={"authorization": "Bearer t", "Host": "evil"})
    assert job["message"] == "successfully loaded 2 of 2 records"
    answer.closing.result(60)  # on its own thread
    sent = {name.lower(): value for name, value in web.asked[0][1].items()}
    assert sent["authorization"] == "Bearer t" and "host" not in sent and sent["accept-encoding"] == "identity"
    assert "Bearer" not in str(node.run("get_job", id=job["id"]))


def test_redirects(node: OperationsNode, web: Web) -> None:
    web.answers["http://a/1"] = Answer(status=302, Location="/2")
    web.answers["http://a/2"] = Answer(status=308, Location="https://b/3")
    web.answers["https://b/3"] = Answer()
    assert load_url(node, "http://a/1", passthrough_headers={"X-Key": "k"})["status"] == "COMPLETE"
    assert ["X-Key" in headers for _, headers in web.asked] == [True, True, False], "another server does not get the caller's headers"
    web.answers["http://a/loop"] = Answer(status=301, Location="http://a/loop")
    assert fault(lambda: load_url(node, "http://a/loop"))[1].endswith("status code: none, message: redirected more than 5 times")
    web.answers["http://a/file"] = Answer(status=301, Location="file:///etc/passwd")
    assert fault(lambda: load_url(node, "http://a/file"))[1].endswith("message: redirected to a URL that is neither http nor https")


def test_answers_that_are_refused(node: OperationsNode, web: Web) -> None:
    begin = "CSV Load failed from URL: http://a/x, "
    for answer, text in (
        (Answer(status=404), "status code: 404, message: Not Found"),
        (Answer(Content_Type="text/html; charset=utf-8"), "unsupported content type: text/html"),
        (Answer(Content_Encoding="gzip"), "unsupported content encoding: gzip"),
        (ConnectionRefusedError(111, "Connection refused"), "status code: none, message: Connection refused"),
        (TimeoutError(), "status code: none, message: the server does not answer in time"),
        (http.client.BadStatusLine("x"), "status code: none, message: BadStatusLine"),
    ):
        web.answers["http://a/x"] = answer
        assert fault(lambda: load_url(node, "http://a/x")) == (400, begin + text)
    for kind in ("TEXT/CSV", "application/octet-stream", "text/plain;x=y", "application/vnd.ms-excel"):
        web.answers["http://a/x"] = Answer(b"id,code\n1,a\n", Content_Type=kind)
        assert load_url(node, "http://a/x")["status"] == "COMPLETE"


def test_an_answer_that_is_cut_short(node: OperationsNode, web: Web) -> None:
    web.answers["http://a/x"] = Answer(length=1000)
    job = load_url(node, "http://a/x")
    assert job["status"] == "ERROR" and job["message"].endswith("status code: 200, message: the connection was closed before the end")
    web.answers["http://a/x"] = Answer(length=None)
    assert load_url(node, "http://a/x")["status"] == "COMPLETE"


@pytest.mark.parametrize(
    "url",
    [
        "",
        "rows.csv",
        "ftp://a/x",
        "file:///etc/passwd",
        "http://",
        "http:///x",
        "http://a b/",
        "http://a:port/",
        "http://[::1",
        "http://a\n/",
        5,
    ],
)
def test_what_is_no_url(node: OperationsNode, url: Any) -> None:
    status, text = fault(lambda: node.run("csv_url_load", table="plant", csv_url=url))
    assert status == 400 and text.startswith("'csv_url' ") and (not isinstance(url, str) or not url or text.endswith("must be a valid url"))


@pytest.mark.parametrize("headers", [["a"], {"a": 5}, {"a b": "x"}, {"a": "x\r\nb: y"}, {"": "x"}])
def test_headers_that_are_none(node: OperationsNode, headers: Any) -> None:
    status, text = fault(lambda: node.run("csv_url_load", table="plant", csv_url="http://a/", passthrough_headers=headers))
    assert status == 400 and text.startswith("'passthrough_headers' must be an object")


def test_passwords_of_urls_are_not_shown(node: OperationsNode, web: Web) -> None:
    web.answers["http://a/x"] = Answer(status=403)
    status, text = fault(lambda: load_url(node, "http://ann:secret@a/x"))
    assert status == 400 and text == "CSV Load failed from URL: http://a/x, status code: 403, message: Forbidden"
    assert web.asked[0][1]["Authorization"] == "Basic YW5uOnNlY3JldA=="


def test_loads_that_are_being_opened_are_few(node: OperationsNode, monkeypatch: pytest.MonkeyPatch) -> None:
    """A peer that does not answer keeps a thread: more of them than OPENING are refused, and the place of one that ended is free again."""
    monkeypatch.setattr(load_sources, "OPENING", 2)
    answer = threading.Event()

    def wait() -> Any:
        answer.wait()
        raise ValueError

    async def several() -> list[Any]:
        opening = [asyncio.ensure_future(load_sources.opened(wait)) for _ in range(3)]
        await asyncio.wait(opening, return_when=asyncio.FIRST_COMPLETED)
        answer.set()
        return await asyncio.gather(*opening, return_exceptions=True)

    for _ in range(2):
        answer.clear()
        assert [type(error) for error in node.wait(several)] == [ValueError, ValueError, Overloaded]


# -- S3


TARGET = {"aws_access_key_id": "a", "aws_secret_access_key": "s", "bucket": "b", "key": "rows.csv", "region": "r"}


def load_s3(node: OperationsNode, body: bytes, monkeypatch: pytest.MonkeyPatch, **more: str) -> dict[str, Any]:
    monkeypatch.setattr(loads, "require_library", lambda: None)
    monkeypatch.setattr(loads, "get_object", lambda target, rules: io.BytesIO(body))
    return ended(node, node.run("import_from_s3", table="plant", s3=TARGET | more))


def test_s3(node: OperationsNode, monkeypatch: pytest.MonkeyPatch) -> None:
    assert load_s3(node, CSV.encode(), monkeypatch)["message"] == "successfully loaded 2 of 2 records"
    body = b'[{"id": 3, "code": "x", "__createdtime__": 5},\n {"id": "", "code": "y"}, {"id": 4, "height": "x"}, {"id": 5, "a/b": 1, "code": "z"}]'
    job = load_s3(node, body, monkeypatch, key="rows.json")
    assert job["message"] == "successfully loaded 2 of 4 records" and [entry["row"] for entry in job["result"]["errors"]] == [3, 4]
    told = [(entry["line"], entry["key"], entry["attribute"]) for entry in job["result"]["errors"]]
    assert told == [(2, 4, "height"), (2, 5, "a/b")]
    body = b'\n{"id": 3, "code": "x"}\n\n{"id": "\\ud800", "code": "y"}\n{"id": [["a"]], "code": "y"}\n{"id": 9, "code": 5}\n'
    errors = load_s3(node, body, monkeypatch, key="rows.json")["result"]["errors"]
    assert [(entry["line"], entry.get("key"), entry.get("attribute")) for entry in errors] == [
        (4, None, "id"),
        (5, None, "id"),
        (6, 9, "code"),
    ]
    assert content(node)[3] == {"id": 3, "code": "x"}
    job = load_s3(node, b'{"id": 6, "code": "x"}\n{"id": 7, "code": "x"}\n', monkeypatch, key="rows.json")
    assert job["message"] == "successfully loaded 2 of 2 records"
    assert load_s3(node, b"[1]", monkeypatch, key="rows.json")["message"] == "Record 1 of the file is not an object, in line 1"
    assert (
        load_s3(node, b'[{"id": 8', monkeypatch, key="rows.json")["message"]
        == "Record 1 of the file is not JSON, or its end is missing, in line 1"
    )


def test_s3_is_checked_before(node: OperationsNode, monkeypatch: pytest.MonkeyPatch) -> None:
    assert fault(lambda: node.run("import_from_s3", table="plant")) == (400, "s3 is missing.")
    assert fault(lambda: node.run("import_from_s3", table="plant", s3={**TARGET, "region": ""})) == (400, "region is missing.")
    monkeypatch.setattr(s3, "find_spec", lambda name: None)
    assert fault(lambda: node.run("import_from_s3", table="plant", s3=TARGET)) == (501, "S3 support is not installed")
    assert fault(lambda: node.run("import_from_s3", table="none", s3=TARGET)) == (400, "Table 'data.none' does not exist")


def records(text: str, size: int) -> list[dict[str, Any]]:
    reader = JsonRecordParser()
    found = []
    for start in range(0, len(text), size):
        reader.feed(text[start : start + size])
        while some := reader.records(2):
            found += some
    reader.check_end()
    return found


@pytest.mark.parametrize("size", [1, 3, 1000])
def test_json_in_pieces(size: int) -> None:
    expected = [{"a": 1}, {"b": [{"c": "}, ]"}]}, {}]
    for text in (
        '[{"a": 1}, {"b": [{"c": "}, ]"}]}, {}]',
        '\ufeff {"a": 1}\n{"b": [{"c": "}, ]"}]}\r\n\n{}',
        ' [ {"a":1},{"b":[{"c":"}, ]"}]} ,{} ] \n',
    ):
        assert records(text, size) == expected
    assert records("", size) == records("[]", size) == records(" \n", size) == []
    for text in ('[{"a": NaN}]', "[{]", '[{"a": 1}', '{"a": 1', "[1]", '"x"', "[] {}", '[{"a": 1}] 5', "{" * 100, '{"a":' * 5000):
        with pytest.raises(Problem, match=r"Record [12] of the file"):
            records(text, size)


# -- the faults of a job that fails


def test_a_load_that_fails_has_the_faults(node: OperationsNode) -> None:
    rows = "".join(f"{number},{'' if number in (3, 5) else 'x'}\n" for number in range(5000))
    job = load(node, f'id,code\n{rows}5000,"open')
    assert job["status"] == "ERROR" and job["message"].startswith("The quoted cell that begins in line 5002") and "result" not in job
    message = "Property code is required"
    assert job["faults"] == [
        {"index": 3, "line": 5, "key": 3, "attribute": "code", "code": "VALIDATION", "message": message},
        {"index": 5, "line": 7, "key": 5, "attribute": "code", "code": "VALIDATION", "message": message},
        {"line": 5002, "code": "VALIDATION", "message": "The quoted cell that begins in line 5002 or later has no end"},
    ]
    day = job["created_datetime_converted"][:10] if "created_datetime_converted" in job else "2000-01-01"
    found = node.run("search_jobs_by_start_date", from_date=day, to_date="2100-01-01")
    assert [each["faults"] for each in found] == [job["faults"]]


def test_faults_are_limited_and_end_with_what_ended_the_load(node: OperationsNode) -> None:
    rows = "".join(f"{number},\n" for number in range(5000))
    job = load(node, f'id,code\n{rows}5000,"open')
    assert job["status"] == "ERROR" and len(job["faults"]) == 20
    assert (job["faults"][18]["index"], job["faults"][19]["line"]) == (18, 5002)


def test_a_column_that_cannot_be_is_a_fault(node: OperationsNode) -> None:
    job = load(node, "id,a/b\n1,2\n")
    message = "Invalid column name 'a/b', cancelling load operation"
    assert job["message"] == message and job["faults"] == [{"line": 1, "attribute": "a/b", "code": "VALIDATION", "message": message}]


def test_a_load_that_is_done_has_the_faults_of_rows_that_failed(node: OperationsNode) -> None:
    node.store.databases["data"].define_table(
        TableDefinition("u", attributes=(Attribute("id", primary_key=True), Attribute("mail", indexed=True, unique=True)), primary_key="id")
    )
    job = load(node, "id,mail\n1,m\n2,m\n", name="u")
    message = 'Value "m" in property mail is that of another record'
    assert job["status"] == "COMPLETE" and "faults" not in load(node, "id,mail\n3,n\n", name="u")
    assert job["faults"] == [{"index": 1, "line": 3, "key": 2, "attribute": "mail", "code": "NOT_UNIQUE", "message": message}]


# -- cancelling


def test_a_cancelled_load_leaves_whole_batches(node: OperationsNode) -> None:
    data = "id,code\n" + "".join(f"{number},x\n" for number in range(30_000))
    started = node.run("csv_data_load", table="plant", data=data)
    node.run("cancel_job", id=started["job_id"])
    job = ended(node, started)
    assert job["status"] == "ERROR" and job["message"] == "cancelled by admin"
    assert len(content(node)) % 4096 == 0 and len(content(node)) < 30_000
