"""export_local and export_to_s3 (spec: operations §4)."""

from __future__ import annotations

import asyncio
import csv
import io
import json
import os
from datetime import UTC, datetime
from typing import Any

import pytest

from svc.errors import Problem, QueryError, QueryTooLarge, Refusal, ServerError
from svc.operations import exports, s3
from svc.operations.export_files import ExportFile, check_directory
from svc.operations.outbound import HostRules
from svc.store.schema import Attribute, TableDefinition
from tests.support.operations import OperationsNode
from tests.support.statements import FakeEngine, FakeRows, statements_of

MOMENT = datetime(2024, 1, 5, 20, 7, 27, 955000, UTC)

COUNT = 3000
SEARCH = {
    "operation": "search_by_conditions",
    "database": "garden",
    "table": "plant",
    "conditions": [{"attribute": "height", "comparator": "less_than", "value": 5}],
    "sort": {"attribute": "id"},
}
EVERYTHING = {"operation": "search_by_value", "database": "garden", "table": "plant", "attribute": "id", "value": "*"}
S3 = {"aws_access_key_id": "id", "aws_secret_access_key": "secret", "bucket": "b", "key": "k", "region": "r"}


@pytest.fixture(scope="module")
def node(tmp_path_factory):
    with OperationsNode(tmp_path_factory.mktemp("node")) as made:
        database = made.store.open_database("garden")
        attributes = (Attribute("id", "Int", primary_key=True), Attribute("name", "String"), Attribute("height", "Float"))
        database.define_table(TableDefinition("plant", "garden", attributes=attributes))
        transaction = made.store.begin()
        for number in range(COUNT):
            transaction.put(database.tables["plant"], number, {"id": number, "name": f'a "{number}"', "height": number % 10})
        transaction.apply()
        made.store.commit_turn()
        yield made


def finished(node: OperationsNode, started: dict[str, Any]) -> dict[str, Any]:
    """The record of a job when it has ended."""

    async def ended() -> None:
        job = node.node.jobs._jobs.get(started["job_id"])
        if job is not None and job.task is not None:
            await asyncio.wait([job.task])

    node.wait(ended)
    return node.run("get_job", id=started["job_id"])[0]


def export(node: OperationsNode, path: Any, **fields: Any) -> dict[str, Any]:
    return finished(node, node.run("export_local", **{"format": "json", "path": str(path), "search_operation": SEARCH, **fields}))


def refused(node: OperationsNode, user: Any = None, **fields: Any) -> tuple[int, str]:
    with pytest.raises(Problem) as caught:
        node.run("export_local", user, **fields)
    return caught.value.status_code, caught.value.message


def refusal(node: OperationsNode, user: Any, **fields: Any) -> tuple[int, dict[str, Any]]:
    with pytest.raises(Refusal) as caught:
        node.run("export_local", user, **fields)
    return caught.value.status_code, caught.value.body


def test_a_search_as_json(node, tmp_path):
    job = export(node, tmp_path, filename="small")
    assert job["status"] == "COMPLETE"
    assert job["message"] == f"Successfully completed job: {job['id']}"
    assert job["result"] == {"message": "Successfully exported JSON locally.", "path": str(tmp_path / "small.json")}
    assert job["progress"] == {"done": COUNT // 2, "total": None}
    found = json.loads((tmp_path / "small.json").read_bytes())
    assert [record["id"] for record in found] == [n for n in range(COUNT) if n % 10 < 5]
    assert found[7] == {"id": 12, "name": 'a "12"', "height": 2}
    assert os.listdir(tmp_path) == ["small.json"]


def test_a_search_as_csv(node, tmp_path):
    job = export(node, tmp_path, format="csv", search_operation={**EVERYTHING, "get_attributes": ["name", "id"]})
    name = f"{int(node.clock.wall() * 1000)}.csv"
    assert job["result"] == {"message": "Successfully exported CSV locally.", "path": str(tmp_path / name)}
    assert job["progress"] == {"done": COUNT, "total": COUNT}
    rows = list(csv.reader((tmp_path / name).read_text().splitlines()))
    assert rows[0] == ["name", "id"] and rows[-1] == [f'a "{COUNT - 1}"', str(COUNT - 1)]
    assert len(rows) == COUNT + 1


@pytest.mark.parametrize("format", ["json", "csv"])
def test_nothing_found_is_an_empty_document(node, tmp_path, format):
    job = export(node, tmp_path, format=format, filename="none", search_operation={**EVERYTHING, "value": -1})
    assert job["status"] == "COMPLETE"
    content = (tmp_path / f"none.{format}").read_bytes().decode()
    assert content == ("[]" if format == "json" else '"id","name","height"\r\n')


def test_searches_by_id(node, tmp_path):
    for operation in ("search_by_id", "search_by_hash"):
        search = {"operation": operation, "database": "garden", "table": "plant", "ids": [5, 3], "get_attributes": ["id"]}
        assert export(node, tmp_path, filename=operation, search_operation=search)["status"] == "COMPLETE"
        assert json.loads((tmp_path / f"{operation}.json").read_bytes()) == [{"id": 5}, {"id": 3}]


def test_an_older_file_is_replaced(node, tmp_path):
    (tmp_path / "a.json").write_text("older")
    export(node, tmp_path, filename="a")
    assert (tmp_path / "a.json").read_text().startswith("[")


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"format": None}, "format missing"),
        ({"format": "xml"}, "format invalid. must be one of the following values: json, csv"),
        ({"format": ["json"]}, "format invalid. must be one of the following values: json, csv"),
        ({"path": None}, "path is missing."),
        ({"path": 5}, "'path' must be a string"),
        ({"path": "/no/such/directory"}, "path '/no/such/directory' does not exist"),
        ({"path": "x" * 5000}, f"path '{'x' * 5000}' does not exist"),
        ({"path": "a\0b"}, "path 'a\0b' does not exist"),
        ({"path": __file__}, f"path '{__file__}' is not a directory, please supply a valid folder path"),
        ({"filename": "../a"}, "'filename' must be the name of a file without a directory"),
        ({"filename": ".."}, "'filename' must be the name of a file without a directory"),
        ({"filename": "a\0"}, "'filename' must be the name of a file without a directory"),
        ({"filename": "x" * 300}, "'filename' must be the name of a file without a directory"),
        ({"filename": "\ud800"}, "'filename' must be a well-formed Unicode string"),
        ({"filename": ""}, "'filename' is not allowed to be empty"),
        ({"search_operation": None}, "'search_operation' is required"),
        ({"search_operation": []}, "'search_operation' must be an object"),
        *[
            (
                {"search_operation": {"operation": name, "table": "plant"}},
                "searchOperation.operation must be one of the following values: "
                "sql, search_by_hash, search_by_id, search_by_value, search_by_conditions",
            )
            for name in (None, 5, "insert", "export_local", "")
        ],
        ({"search_operation": {**SEARCH, "conditions": []}}, "'conditions' must contain at least 1 item"),
        ({"search_operation": {**SEARCH, "table": None}}, "'table' is required"),
        ({"search_operation": {**SEARCH, "get_attributes": ["no"]}}, "unknown attribute 'no'"),
    ],
)
def test_what_is_wrong_is_told_before_there_is_a_job(node, tmp_path, fields, text):
    jobs = len(node.node.jobs)
    assert refused(node, **{"format": "json", "path": str(tmp_path), "search_operation": SEARCH, **fields}) == (400, text)
    assert len(node.node.jobs) == jobs and not os.listdir(tmp_path)


def test_a_table_that_does_not_exist(node, tmp_path):
    search = {**SEARCH, "table": "no"}
    assert refused(node, format="json", path=str(tmp_path), search_operation=search) == (404, "Table 'garden.no' does not exist")


ROWS = [[{"id": 1, "name": 'a "1"', "at": MOMENT}], [], [{"id": None, "name": "x,y", "at": None}] * 300]
STATEMENT = "SELECT id, name, at FROM garden.plant WHERE id < :most"


@pytest.fixture
def engine(node, monkeypatch):
    engine = FakeEngine(
        {STATEMENT: lambda parameters, caller: {"text": "SCAN"} if caller.explain else FakeRows(["id", "name", "at"], *ROWS)}
    )
    monkeypatch.setattr(node.node, "statements", statements_of(engine))
    return engine


def test_a_statement_in_sql(node, tmp_path, engine):
    search = {"operation": "sql", "sql": STATEMENT, "parameters": {"most": 5}}
    job = export(node, tmp_path, filename="rows", search_operation=search)
    assert (job["status"], job["progress"]) == ("COMPLETE", {"done": 301, "total": None})
    shown = [{**row, "at": None if row["at"] is None else "2024-01-05T20:07:27.955Z"} for part in ROWS for row in part]
    assert json.loads((tmp_path / "rows.json").read_bytes()) == shown
    assert [(text, parameters, caller.explain) for text, parameters, caller in engine.calls] == [
        (STATEMENT, {"most": 5}, True),
        (STATEMENT, {"most": 5}, False),
    ]
    assert engine.rows[0].is_closed
    export(node, tmp_path, format="csv", filename="rows", search_operation=search)
    lines = (tmp_path / "rows.csv").read_text().splitlines()
    assert lines[:3] == ['"id","name",at', '1,"a ""1""","2024-01-05T20:07:27.955Z"', ',"x,y",']
    assert len(lines) == 302


def test_only_queries_are_exported_and_faults_come_before_the_job(node, tmp_path, engine):
    def answer(text: str, **fields: Any) -> tuple[int, str]:
        search = {"operation": "sql", "sql": text, **fields}
        return refused(node, format="json", path=str(tmp_path), search_operation=search)

    for text in ("DELETE FROM garden.plant", "INSERT INTO garden.plant (id) VALUES (1) RETURNING id", "EXPLAIN SELECT 1"):
        assert answer(text) == (400, "Only a SELECT can be exported")
    assert answer("SELECT FROM")[0] == 400
    assert engine.calls == []
    engine.answers["SELECT nothing FROM garden.plant"] = QueryError("unknown column nothing", code="UNKNOWN_ATTRIBUTE")
    assert answer("SELECT nothing FROM garden.plant") == (400, "unknown column nothing")
    assert refused(node, format="json", path=str(tmp_path), search_operation={"operation": "sql"}) == (
        400,
        "The 'sql' parameter is missing from the request body",
    )
    engine.answers["SELECT 1"] = lambda parameters, caller: (
        {} if caller.explain else FakeRows(["1"], [{"1": 1}], QueryTooLarge("too long", budget="seconds"))
    )
    job = export(node, tmp_path, filename="late", search_operation={"operation": "sql", "sql": "SELECT 1"})
    assert (job["status"], job["message"]) == ("ERROR", "too long")
    assert not (tmp_path / "late.json").exists()


def test_without_an_engine_there_is_no_sql(node, tmp_path):
    search = {"operation": "sql", "sql": "select 1"}
    assert refused(node, format="json", path=str(tmp_path), search_operation=search) == (501, "SQL is not available")


def test_exports_are_for_super_users(node, tmp_path):
    read = {"read": True, "insert": False, "update": False, "delete": False, "attribute_permissions": []}
    tables = {"garden": {"tables": {"plant": read}}}
    ann = node.user("ann", {"super_user": False, **tables})
    assert refused(node, ann, format="json", path=str(tmp_path), search_operation=SEARCH)[0] == 403


def test_whoever_was_granted_exports_exports_what_he_may_read(node, tmp_path):
    grant = {"super_user": False, "operations": ["export_local", "search_by_conditions", "sql"]}
    name = {"attribute_name": "name", "read": True, "insert": False, "update": False}
    read = {"read": True, "insert": False, "update": False, "delete": False, "attribute_permissions": [name]}
    nobody = node.user("bob", grant)
    assert refused(node, nobody, format="json", path=str(tmp_path), search_operation=SEARCH)[0] == 403
    ann = node.user("ann", {**grant, "garden": {"tables": {"plant": read}}})
    search = {**SEARCH, "conditions": [{"attribute": "id", "value": 1}]}
    directory = node.root / "import" / "out"
    directory.mkdir(parents=True)
    started = node.run("export_local", ann, format="json", path=str(directory), filename="a", search_operation=search)
    assert finished(node, started)["status"] == "COMPLETE"
    assert json.loads((directory / "a.json").read_bytes()) == [{"id": 1, "name": 'a "1"'}]
    (node.root / "import" / "link").symlink_to(node.root)
    for path in (node.root, node.root / "backup", directory / ".." / "..", node.root / "import" / "link", tmp_path / "nowhere"):
        status, body = refusal(node, ann, format="json", path=str(path), search_operation=search)
        assert (status, body["unauthorized_access"]) == (403, [f"path '{path}' is outside the directories that files may be exported to"])
    sql = {"operation": "sql", "sql": "select 1"}
    assert refused(node, ann, format="json", path=str(tmp_path), search_operation=sql)[0] == 403


def test_files_are_readable_for_the_user_of_the_server_only(node, tmp_path):
    umask = os.umask(0)
    try:
        export(node, tmp_path, filename="a")
    finally:
        os.umask(umask)
    assert (tmp_path / "a.json").stat().st_mode & 0o777 == 0o600


@pytest.mark.skipif(os.getuid() == 0, reason="root may write everywhere")
def test_a_directory_that_may_not_be_written(node, tmp_path):
    tmp_path.chmod(0o500)
    assert refused(node, format="json", path=str(tmp_path), search_operation=SEARCH) == (400, f"access to path '{tmp_path}' is denied")


def test_a_file_that_cannot_be_written_fails_the_job(node, tmp_path, monkeypatch):
    def full(self: ExportFile, data: bytes) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(ExportFile, "write", full)
    job = export(node, tmp_path, filename="a")
    assert (job["status"], job["message"]) == ("ERROR", f"'{tmp_path / 'a.json'}' could not be written: No space left on device")
    assert not os.listdir(tmp_path)


def test_a_cancelled_export_leaves_nothing(node, tmp_path, monkeypatch):
    started: dict[str, Any] = {}
    write = ExportFile.write

    def cancel_first(self: ExportFile, data: bytes) -> None:
        write(self, data)
        node.loop.call_soon_threadsafe(node.node.jobs._jobs[started["job_id"]].task.cancel)

    monkeypatch.setattr(ExportFile, "write", cancel_first)
    started |= node.run("export_local", format="json", path=str(tmp_path), filename="a", search_operation=EVERYTHING)
    assert finished(node, started)["status"] == "ERROR"
    assert not os.listdir(tmp_path)


def test_a_table_that_is_gone_fails_the_job(tmp_path):
    with OperationsNode(tmp_path / "node") as node:
        database = node.store.open_database("garden")
        database.define_table(TableDefinition("plant", "garden", attributes=(Attribute("id", "Int", primary_key=True),)))

        async def run() -> Any:
            body = {"operation": "export_local", "format": "json", "path": str(tmp_path), "search_operation": EVERYTHING}
            call = node.operations.prepare(body, node.admin)
            return await node.operations.run(call)

        plenty = node.node.jobs
        start = plenty.start

        def start_later(call: Any, work: Any, **options: Any) -> Any:
            database.drop_table("plant")
            return start(call, work, **options)

        plenty.start = start_later  # type: ignore[method-assign]
        job = finished(node, node.wait(run))
        assert (job["status"], job["message"]) == ("ERROR", "Table 'garden.plant' does not exist")


def test_an_export_shows_one_moment(node, tmp_path, monkeypatch):
    """Records written while it runs are not in it."""
    write = ExportFile.write

    def insert_meanwhile(self: ExportFile, data: bytes) -> None:
        def insert() -> None:
            table = node.store.databases["garden"].tables["plant"]
            transaction = node.store.begin()
            transaction.put(table, 10**6, {"id": 10**6, "height": 1})
            transaction.apply()

        node.loop.call_soon_threadsafe(insert)
        write(self, data)

    monkeypatch.setattr(ExportFile, "write", insert_meanwhile)
    monkeypatch.setattr("svc.operations.export_files.WRITTEN_AT_ONCE", 1000)
    try:
        export(node, tmp_path, filename="a", search_operation=EVERYTHING)
        assert len(json.loads((tmp_path / "a.json").read_bytes())) == COUNT
    finally:
        node.run("search_by_id", database="garden", table="plant", ids=[1])
        table = node.store.databases["garden"].tables["plant"]
        transaction = node.store.begin()
        transaction.delete(table, 10**6)
        transaction.apply()
        node.store.commit_turn()


def test_the_file_appears_when_it_is_whole(tmp_path):
    file = ExportFile(tmp_path / "a", "token")
    file.open()
    file.write(b"12")
    assert not (tmp_path / "a").exists()
    file.write(b"3")
    file.finish()
    file.discard()
    assert (tmp_path / "a").read_bytes() == b"123" and os.listdir(tmp_path) == ["a"]
    other = ExportFile(tmp_path / "b", "token")
    other.open()
    other.discard()
    other.discard()
    assert os.listdir(tmp_path) == ["a"]


def test_a_directory_is_checked(tmp_path):
    assert check_directory(str(tmp_path)) == tmp_path


# --- S3 ------------------------------------------------------------------------------------------------------------------------------


@pytest.fixture
def uploaded(monkeypatch):
    found: list[Any] = []

    def put_object(target: s3.Target, content: Any, rules: HostRules) -> dict[str, Any]:
        found.append((target, content.read()))
        return {"ETag": '"5"'}

    monkeypatch.setattr(exports, "put_object", put_object)
    monkeypatch.setattr(exports, "require_library", lambda: None)
    return found


def to_s3(node: OperationsNode, **fields: Any) -> dict[str, Any]:
    return finished(node, node.run("export_to_s3", **{"format": "json", "s3": S3, "search_operation": SEARCH, **fields}))


@pytest.mark.parametrize(
    ("format", "key", "expected"),
    [("json", "k", "k.json"), ("csv", "a/k", "a/k.csv"), ("csv", "k.csv", "k.csv"), ("json", "k.csv", "k.csv.json")],
)
def test_an_export_to_s3(node, uploaded, format, key, expected):
    job = to_s3(node, format=format, s3={**S3, "key": key})
    assert (job["status"], job["result"]) == ("COMPLETE", {"ETag": '"5"'})
    ((target, content),) = uploaded
    assert (target.key, target.bucket, target.aws_secret_access_key) == (expected, "b", "secret")
    assert content.startswith(b"[{" if format == "json" else b'"id","name"')
    assert not [name for name in os.listdir(node.root) if "export" in name]


def test_faults_of_an_export_to_s3(node, uploaded, monkeypatch):
    for fields, status, text in (
        ({"s3": None}, 400, "s3 is missing."),
        ({"s3": {**S3, "bucket": ""}}, 400, "bucket is missing."),
        ({"format": "x"}, 400, "format invalid. must be one of the following values: json, csv"),
        (
            {"search_operation": {"operation": "x"}},
            400,
            "searchOperation.operation must be one of the following values: sql, search_by_hash,",
        ),
    ):
        with pytest.raises(Problem) as caught:
            to_s3(node, **fields)
        assert caught.value.status_code == status and caught.value.message.startswith(text)
    monkeypatch.setattr(exports, "require_library", s3.require_library)
    monkeypatch.setattr(s3, "find_spec", lambda name: None)
    with pytest.raises(Problem) as caught:
        to_s3(node)
    assert (caught.value.status_code, caught.value.message) == (501, "S3 support is not installed")
    assert not uploaded


def test_what_s3_refuses_fails_the_job(node, uploaded, monkeypatch):
    def refuse(target: s3.Target, content: Any, rules: HostRules) -> dict[str, Any]:
        raise ServerError("S3 refused the request: AccessDenied, no", 502)

    monkeypatch.setattr(exports, "put_object", refuse)
    job = to_s3(node)
    assert (job["status"], job["message"]) == ("ERROR", "S3 refused the request: AccessDenied, no")
    assert not [name for name in os.listdir(node.root) if "export" in name]


EXACT: list[dict[str, Any]] = [
    {"v": text}
    for text in (
        "1.10", "", "007", "12", "true", "null", "undefined", "NaN", "[1]", '{"a": 1}', "{a}", '"', '"quoted"', '""', "a,b", "two\nlines", "\r\n", " 5 ",
        "1e5", "-", "=1+1", "ünï", '",', ',"', '"1.10"', "\t;",
    )
] + [
    {"v": value}
    for value in (12, -7, 1.5, 1e300, 5e-324, 2**60, True, False, [1, "1.10", None], [], {}, {"a": {"b": ["x", 1]}}, ["[1]"], 0)
] + [
    {}, {"later": "1.10"}, {"later": "", "v": 2}, {"an odd, \"name\"": "x"}, {"s": "12"}, {"s": ""}, {"s": "null"}, {"s": "[1]"}, {"i": 5}, {"b": True},
    {"l": ["a", ""]}, {"l": []}, {"f": 2.5, "i": -1, "s": '"', "v": '"'},
]  # fmt: skip


def test_what_a_csv_of_an_export_holds_is_loaded_as_it_was(tmp_path):
    attributes = (
        Attribute("id", "ID", primary_key=True), Attribute("s", "String"), Attribute("i", "Int"), Attribute("f", "Float"), Attribute("b", "Boolean"),
        Attribute("l", "String", elements=True),
    )  # fmt: skip
    with OperationsNode(tmp_path / "node") as node:
        database = node.store.open_database("garden")
        for name in ("plant", "copy"):
            database.define_table(TableDefinition(name, "garden", attributes=attributes))
        records = [{"id": f"{number:03}", **record} for number, record in enumerate(EXACT)]
        node.run("insert", database="garden", table="plant", records=records)
        searches = (
            EVERYTHING,
            {
                "operation": "search_by_id",
                "database": "garden",
                "table": "plant",
                "ids": [record["id"] for record in records],
                "get_attributes": ["*"],
            },
        )
        for number, search in enumerate(searches):
            assert export(node, tmp_path, filename=str(number), format="csv", search_operation=search)["status"] == "COMPLETE"
            text = (tmp_path / f"{number}.csv").read_bytes().decode()
            rows = list(csv.reader(io.StringIO(text, newline="")))
            assert len(rows) == len(records) + 1 and {len(row) for row in rows} == {len(rows[0])}
            started = node.run("csv_data_load", database="garden", table="copy", data=text)
            assert finished(node, started)["message"] == f"successfully loaded {len(records)} of {len(records)} records"
            search = {**EVERYTHING, "table": "copy"}
            del search["operation"]
            found = {record["id"]: record for record in node.run("search_by_value", **search, get_attributes=["*"])}
            managed = ("__createdtime__", "__updatedtime__")
            for record in records:
                loaded = found[record["id"]]
                shown = {
                    name: value for name, value in loaded.items() if name not in managed and not (value is None and name not in record)
                }
                assert shown == record
                assert all(type(shown[name]) is type(value) or type(value) is float for name, value in record.items())
            node.run("delete", database="garden", table="copy", ids=[record["id"] for record in records])


def test_the_columns_are_those_of_all_records(node, tmp_path):
    database = node.store.databases["garden"]
    database.define_table(TableDefinition("open", "garden", attributes=(Attribute("id", "Int", primary_key=True),)))
    transaction = node.store.begin()
    for number in range(300):
        transaction.put(database.tables["open"], number, {"id": number, **({"only": "here"} if number == 299 else {})})
    transaction.apply()
    node.store.commit_turn()
    assert export(node, tmp_path, format="csv", filename="o", search_operation={**EVERYTHING, "table": "open"})["status"] == "COMPLETE"
    lines = (tmp_path / "o.csv").read_text().splitlines()
    assert lines[0] == '"id",only' and lines[1] == "0," and lines[-1] == '299,"here"'


def test_more_attributes_than_a_csv_may_have(node, tmp_path):
    database = node.store.databases["garden"]
    database.define_table(TableDefinition("wide", "garden", attributes=(Attribute("id", "Int", primary_key=True),)))
    transaction = node.store.begin()
    for number in range(11):
        transaction.put(database.tables["wide"], number, {"id": number, **{f"a{number * 1000 + n}": 1 for n in range(1000)}})
    transaction.apply()
    node.store.commit_turn()
    job = export(node, tmp_path, format="csv", filename="w", search_operation={**EVERYTHING, "table": "wide"})
    assert job["status"] == "ERROR" and "more than 10000 attributes" in job["message"] and os.listdir(tmp_path) == []
