"""Files that are kept for a load (spec: operations §4.2): who finds them, how long, and what becomes of their records."""

from __future__ import annotations

import asyncio
import base64
import csv
import io
import json
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest

from svc.auth.users import User
from svc.errors import Overloaded, Problem
from svc.operations import uploads
from svc.operations.uploads import KEPT_SECONDS, OF_A_USER
from svc.store.schema import Attribute, TableDefinition
from svc.store.values.records import decode
from tests.support.operations import OperationsNode

PLANT = TableDefinition(
    "plant",
    attributes=(Attribute("id", "Int", primary_key=True), Attribute("species", "String"), Attribute("height", "Float")),
    primary_key="id",
    sealed=True,
)
FREE = TableDefinition("free", attributes=(Attribute("id", primary_key=True),), dynamic=True)


@pytest.fixture
def node(tmp_path: Path) -> Iterator[OperationsNode]:
    with OperationsNode(tmp_path) as made:
        database = made.store.open_database("data")
        database.define_table(PLANT)
        database.define_table(FREE)
        yield made


def add(node: OperationsNode, content: str | bytes, user: User | None = None, table: str = "plant", **fields: Any) -> str:
    data = content.encode() if isinstance(content, str) else content
    found: str = node.run("add_upload", user, table=table, payload=data, **fields)["upload"]
    return found


def kept(node: OperationsNode) -> list[Path]:
    directory = node.root / "tmp" / "uploads"
    return sorted(directory.iterdir()) if directory.is_dir() else []


def load(node: OperationsNode, upload: str, user: User | None = None, table: str = "plant", **fields: Any) -> dict[str, Any]:
    started = node.run("load_upload", user, table=table, upload=upload, **fields)
    tasks = [task for task in asyncio.all_tasks(node.loop) if task.get_name() == f"job {started['job_id']}"]
    if tasks:
        node.wait(lambda: asyncio.wait(tasks))
    (job,) = node.run("get_job", id=started["job_id"])
    return job  # type: ignore[no-any-return]


def content(node: OperationsNode, name: str = "plant") -> dict[Any, dict[str, Any]]:
    found = node.store.databases["data"].tables[name]
    return {found.key_of(raw): decode(raw) for _, raw in found.scan(found.database.snapshot())}


def fault(node: OperationsNode, operation: str, user: User | None = None, **fields: Any) -> tuple[int, str]:
    with pytest.raises(Problem) as caught:
        node.run(operation, user, **{"table": "plant", **fields})
    return caught.value.status_code, caught.value.message


def test_kept_read_loaded(node: OperationsNode) -> None:
    upload = add(node, "ID;Species;remark\n1;fern;x\n2;moss;y\n3;;\n")
    found = node.run("read_upload", table="plant", upload=upload)
    assert found == {
        "format": "csv",
        "separator": ";",
        "quotes_mean_text": False,
        "columns": [
            {"name": "ID", "attribute": "id", "type": "Int"},
            {"name": "Species", "attribute": "species", "type": "String"},
            {"name": "remark", "attribute": None, "type": None},
        ],
        "rows": [["1", "fern", "x"], ["2", "moss", "y"], ["3", "", ""]],
        "more": False,
    }
    job = load(node, upload, separator=";", columns={"ID": "id", "Species": "species", "remark": None})
    assert (job["status"], job["result"]["written"]) == ("COMPLETE", 3), job
    assert job["progress"] == {"done": 3, "total": None, "written": 3, "skipped": 0, "failed": 0}
    assert content(node) == {1: {"id": 1, "species": "fern"}, 2: {"id": 2, "species": "moss"}, 3: {"id": 3}}
    assert kept(node) == [] and fault(node, "load_upload", upload=upload)[0] == 404


@pytest.mark.parametrize(
    ("text", "format_name"),
    [('[{"id": 1, "species": "a"}, {"id": 2}]', "json"), ('\ufeff{"id": 1, "species": "a"}\n{"id": 2}\n', "ndjson")],
)
def test_json(node: OperationsNode, text: str, format_name: str) -> None:
    upload = add(node, text)
    found = node.run("read_upload", table="plant", upload=upload)
    assert (found["format"], found["separator"]) == (format_name, None)
    assert [each["name"] for each in found["columns"]] == ["id", "species"] and found["rows"] == [[1, "a"], [2, ""]]
    job = load(node, upload, format=format_name, columns={"species": None})
    assert job["status"] == "COMPLETE" and content(node) == {1: {"id": 1}, 2: {"id": 2}}


def test_names_that_meet(node: OperationsNode) -> None:
    upload = add(node, '{"id": 1, "a": "x", "species": "y"}\n{"id": 2, "a": "x"}\n')
    job = load(node, upload, format="ndjson", columns={"a": "species"})
    assert job["result"]["written"] == 1 and "Two of its properties" in job["result"]["errors"][0]["message"]
    job = load(node, add(node, "id,a,species\n3,x,y\n"), columns={"a": "species"})
    assert (job["status"], job["message"]) == ("ERROR", "Invalid column name 'species', cancelling load operation")
    assert fault(node, "load_upload", upload="x", columns={"a": "id", "b": "id"})[0] == 400


def test_faulty_rows_are_counted(node: OperationsNode) -> None:
    job = load(node, add(node, "id,height\n1,2.5\n2,tall\nx,1\n"))
    assert job["result"]["written"] == 1 and [each["row"] for each in job["result"]["errors"]] == [2, 3]
    assert job["progress"] == {"done": 3, "total": None, "written": 1, "skipped": 0, "failed": 2}


def test_actions(node: OperationsNode) -> None:
    load(node, add(node, "id,species\n1,old\n"))
    assert load(node, add(node, "id,species\n1,new\n2,two\n"), action="update")["result"]["skipped"] == 1
    assert content(node) == {1: {"id": 1, "species": "new"}}


def test_only_its_owner_finds_it(node: OperationsNode) -> None:
    node.run("add_role", role="gardener", permission={"data": {"tables": {"plant": _rights(insert=True, update=True)}}})
    for name in ("ann", "bob"):
        node.run("add_user", username=name, password="secret", role="gardener", active=True)
    ann, bob = node.directory.get_user("ann"), node.directory.get_user("bob")
    upload = add(node, "id\n1\n", ann, holder="session 1")
    for user, fields in ((bob, {"holder": "session 1"}), (ann, {"holder": "session 2"}), (ann, {}), (None, {"holder": "session 1"})):
        assert fault(node, "load_upload", user, upload=upload, **fields)[0] == 404
        assert fault(node, "read_upload", user, upload=upload, **fields)[0] == 404
    assert fault(node, "load_upload", None, table="free", upload=upload, holder="session 1")[0] == 404
    assert load(node, upload, ann, holder="session 1")["status"] == "COMPLETE"


def _rights(**given: bool) -> dict[str, Any]:
    return {"read": True, "insert": False, "update": False, "delete": False, "attribute_permissions": []} | given


@pytest.mark.parametrize(("action", "status"), [("insert", 200), ("update", 403), ("upsert", 403)])
def test_rights_are_those_of_the_action(node: OperationsNode, action: str, status: int) -> None:
    node.run("add_role", role="adder", permission={"data": {"tables": {"plant": _rights(insert=True)}}})
    node.run("add_user", username="ann", password="secret", role="adder", active=True)
    ann = node.directory.get_user("ann")
    if status == 200:
        assert load(node, add(node, "id\n1\n", ann, action=action), ann, action=action)["status"] == "COMPLETE"
    else:
        assert fault(node, "add_upload", ann, payload=b"id\n1\n", action=action)[0] == status
        assert fault(node, "load_upload", ann, upload="a", action=action)[0] == status


def test_few_are_kept_of_a_user_and_not_for_long(node: OperationsNode) -> None:
    first = add(node, "id\n1\n")
    for _ in range(OF_A_USER):
        node.clock.advance(1)
        last = add(node, "id\n1\n")
    assert len(kept(node)) == OF_A_USER
    assert fault(node, "read_upload", upload=first)[0] == 404
    node.clock.advance(KEPT_SECONDS + 1)
    assert fault(node, "read_upload", upload=last)[0] == 404
    node.wait(lambda: node.node.jobs.records.recover_soon())
    assert kept(node) == []


def test_the_end_of_a_process_removes_its_own(node: OperationsNode) -> None:
    add(node, "id\n1\n")
    (node.root / "tmp" / "uploads" / "of another").write_text("x")
    node.wait(node.node.stop_jobs)
    assert [path.name for path in kept(node)] == ["of another"]


def test_there_is_a_limit_for_all(node: OperationsNode, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(uploads, "ALL_BYTES", 20)
    add(node, "id\n1\n2\n3\n")
    with pytest.raises(Overloaded):
        add(node, "id\n1\n2\n3\n4\n5\n6\n")
    monkeypatch.setattr(uploads, "MOST_BYTES", 5)
    assert fault(node, "add_upload", payload=b"123456")[0] == 413
    assert fault(node, "add_upload", payload="A" * 9000)[0] == 413
    assert len(kept(node)) == 1


@pytest.mark.parametrize("head", [b"\x1f\x8b\x08", b"PK\x03\x04", b"\x28\xb5\x2f\xfd"])
def test_archives_are_refused(node: OperationsNode, head: bytes) -> None:
    assert "compressed" in fault(node, "add_upload", payload=head + bytes(100))[1]
    upload = node.run("add_upload", table="plant", payload=base64.b64encode(head + bytes(100)).decode())["upload"]
    assert "compressed" in fault(node, "read_upload", upload=upload)[1]
    assert "compressed" in fault(node, "load_upload", upload=upload)[1]
    assert len(kept(node)) == 1, "it is given back"


@pytest.mark.parametrize(
    ("content", "text"),
    [
        (b"id,a\n1,\xff\n", "not valid UTF-8 near byte 7"),
        (b"", "is not allowed to be empty"),
        (b"\n\n", "no rows"),
        (b'{"id": 1', "is not JSON, or its end is missing"),
        (b"[" * 10_000, "is not an object"),
        (b'{"a":' * 10_000, "nested too deeply"),
        (b'id,a\n1,"open', "has no end"),
        (("a," * 20_000 + "\n1\n").encode(), "more than 10000 columns"),
        (b'id,a\n1,"' + b"x" * (3 << 20), "longer than"),
    ],
)
def test_what_cannot_be_read_is_said(node: OperationsNode, content: bytes, text: str) -> None:
    with pytest.raises(Problem) as caught:
        node.run("read_upload", table="plant", upload=add(node, content))
    assert text in caught.value.message and caught.value.status_code == 400


def test_other_encodings(node: OperationsNode) -> None:
    upload = add(node, "id,species\n1,Märchen\n".encode("windows-1252"))
    assert node.run("read_upload", table="plant", upload=upload, encoding="windows-1252")["rows"] == [["1", "Märchen"]]
    load(node, upload, encoding="windows-1252")
    assert content(node)[1]["species"] == "Märchen"


def test_a_dynamic_table_takes_new_columns(node: OperationsNode) -> None:
    upload = add(node, '=1+1,"<img src=x onerror=alert(1)>",id\n=cmd,-2,k\n', table="free")
    found = node.run("read_upload", table="free", upload=upload)
    assert [each["attribute"] for each in found["columns"]] == ["=1+1", "<img src=x onerror=alert(1)>", "id"]
    load(node, upload, table="free")
    assert content(node, "free") == {"k": {"id": "k", "=1+1": "=cmd", "<img src=x onerror=alert(1)>": -2}}


def test_rows_of_any_length(node: OperationsNode) -> None:
    upload = add(node, "id,species\n1\n2,b,c,d\n" + "".join(f"{n},x\n" for n in range(3, 50)))
    found = node.run("read_upload", table="plant", upload=upload)
    assert found["rows"][:2] == [["1", ""], ["2", "b"]] and len(found["rows"]) == 20 and found["more"] is True
    assert load(node, upload)["result"]["written"] == 49


@pytest.mark.parametrize(
    ("text", "is_meant", "value"),
    [
        ('"id","a"\n"x",1.10\n"y","1.10"\n', True, "1.10"),
        ('"id","a"\n"y","1.10"\n', False, 1.1),
        ('id,a\ny,"1.10"\n', False, 1.1),
        ('"id",a\ny,"1.10"\n', True, "1.10"),
    ],
)
def test_quotes_that_mean_text(node: OperationsNode, text: str, is_meant: bool, value: Any) -> None:
    upload = add(node, text, table="free")
    found = node.run("read_upload", table="free", upload=upload)
    assert found["quotes_mean_text"] is is_meant and [each["name"] for each in found["columns"]] == ["id", "a"]
    load(node, upload, table="free", quotes_mean_text=is_meant)
    assert content(node, "free")["y"]["a"] == value and content(node, "free")["y"]["id"] == "y"


def test_names_that_need_quotes_say_nothing_of_those_below(node: OperationsNode) -> None:
    found = node.run("read_upload", table="free", upload=add(node, 'id,"a,b"\nx,1\n', table="free"))
    assert found["quotes_mean_text"] is False and [each["name"] for each in found["columns"]] == ["id", "a,b"]


def test_columns_of_one_name_are_one_attribute_once(node: OperationsNode) -> None:
    found = node.run("read_upload", table="plant", upload=add(node, "id,id,SPECIES,species,Height\n1,2,a,b,3\n"))
    assert [each["attribute"] for each in found["columns"]] == ["id", None, None, "species", "height"]


def test_quotes_with_other_separators(node: OperationsNode) -> None:
    upload = add(node, '"id";"a"\n"y";"1;10 ""x"""\n"z";\n"v";""\n', table="free")
    load(node, upload, table="free", separator=";", quotes_mean_text=True)
    assert content(node, "free") == {"y": {"id": "y", "a": '1;10 "x"'}, "z": {"id": "z"}, "v": {"id": "v", "a": ""}}


@pytest.mark.parametrize("separator", [",", ";", "\t", "|"])
@pytest.mark.parametrize("quoting", [csv.QUOTE_ALL, csv.QUOTE_MINIMAL, csv.QUOTE_NONNUMERIC])
def test_what_other_programs_write(node: OperationsNode, separator: str, quoting: Any) -> None:
    """Cells of all signs that mean something, written by the csv module."""
    random = Random(7)
    texts = {n: "".join(random.choices("ab ;,|\t\"'\n\r{}[]é😀", k=random.randrange(12))) for n in range(300)}
    for quotes_mean_text in (False, True):
        file = io.StringIO(newline="")
        writer = csv.writer(file, delimiter=separator, quoting=quoting)
        writer.writerow(["species", "id"])
        writer.writerows([[text, n] for n, text in texts.items()])
        load(node, add(node, file.getvalue()), separator=separator, quotes_mean_text=quotes_mean_text, action="upsert")
        found = {n: record.get("species", "") for n, record in content(node).items()}
        assert found == texts


def test_bad_ids(node: OperationsNode) -> None:
    for wrong in ("../../x", "a/b", "\0", "é" * 32, "x" * 5000):
        assert fault(node, "read_upload", upload=wrong)[0] == 400
    assert fault(node, "read_upload", upload="0" * 32)[0] == 404
    assert fault(node, "add_upload", payload=5)[0] == 400 and fault(node, "add_upload")[0] == 400
    assert fault(node, "add_upload", payload="é")[0] == 400
    assert fault(node, "load_upload", upload="0" * 32, separator="x")[0] == 400
    assert fault(node, "load_upload", upload="0" * 32, format="xml")[0] == 400
    assert json.dumps(node.run("search_jobs_by_start_date", from_date="2000-01-01", to_date="2100-01-01")) == "[]"
