"""Statements and commands against a server that answers what is written here."""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from svc.cli.arguments import UsageError
from svc.cli.client import AuthenticationRefused, Unreachable
from svc.cli.sql.parameters import Parameters
from svc.cli.sql.session import COMMANDS, MOST_ROWS, Session, SessionEnded
from svc.clock import FakeClock
from svc.content.registry import ContentTypes
from tests.support.cli import FakeAnswer, FakeClient

ROWS = [{"id": 1, "name": "fern"}, {"id": 2, "name": None}]
DESCRIBED = {"data": {"plant": {"record_count": 2, "attributes": [{"attribute": "id", "type": "ID", "is_primary_key": True}]}}, "old": {}}


class Terminal(io.TextIOWrapper):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Callable[[], str]:
    """Makes standard output a terminal of 60 cells without colours the first time it is called; what was written since the last time."""
    streams: list[Terminal] = []

    def written() -> str:
        if not streams:
            streams.append(Terminal(io.BytesIO(), "utf-8", write_through=True))
            monkeypatch.setattr(sys, "stdout", streams[0])
            monkeypatch.setenv("COLUMNS", "60")
            monkeypatch.setenv("NO_COLOR", "1")
        data = streams[0].buffer
        assert isinstance(data, io.BytesIO)
        text = data.getvalue().decode()
        data.seek(0)
        data.truncate()
        return text

    return written


def session(
    *answers: Any, mode: str | None = None, in_shell: bool = False, parameters: Parameters | None = None
) -> tuple[Session, FakeClient]:
    client = FakeClient(*answers)
    return Session(client, parameters or Parameters(), mode, in_shell=in_shell, clock=FakeClock()), client


def test_json_in_a_pipe_as_the_server_sent_it(capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    content = b'[{"id":1.0,"name":"\xc3\xa4"},\n {"id":1e2,"name":"\x7f"}]'
    made, client = session(FakeAnswer(content=content), FakeAnswer([]))
    assert made.run_text("select * from data.plant; select 1")
    assert capfdbinary.readouterr().out == content + b"\n[]\n"
    assert [body["sql"] for body in client.sent] == ["select * from data.plant", "select 1"]
    assert client.sent[0] == {"operation": "sql", "sql": "select * from data.plant"}


def test_a_table_on_a_terminal(terminal: Callable[[], str]) -> None:
    terminal()
    made, _ = session(FakeAnswer(ROWS), FakeAnswer([]))
    assert made.run_text("select * from data.plant; select 1")
    assert terminal() == "id  name\n──  ────\n 1  fern\n 2  NULL\n2 rows, 0.0 ms\n0 rows, 0.0 ms\n"


def test_formats_on_a_terminal(terminal: Callable[[], str]) -> None:
    terminal()
    made, client = session(
        FakeAnswer(ROWS),
        FakeAnswer(ROWS),
        FakeAnswer(content=b'"id"\r\n"\x1b"\r\n', content_type="text/csv"),
        FakeAnswer({"message": "ok", "a": []}),
    )
    made.is_timed = False
    assert made.run_text(
        ".mode json\nselect 1;\n.mode line\nselect 1;\n.mode csv\nselect 1;\n.mode\n.mode json\nupdate data.plant set a = 1;"
    )
    assert terminal() == (
        '[\n  {"id": 1, "name": "fern"},\n  {"id": 2, "name": null}\n]\n2 rows\n'
        "  id = 1\nname = fern\n\n  id = 2\nname = NULL\n\n2 rows\n"
        '"id"\n"\\x1b"\n'
        'csv\n{\n  "message": "ok",\n  "a": []\n}\n'
    )
    assert client.accept.startswith("application/json")


def test_csv_is_asked_of_the_server(capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    made, client = session(
        FakeAnswer(content=b'"id"\r\n1\r\n', content_type="text/csv"), FakeAnswer({"message": "updated 1 of 1 records"}), mode="csv"
    )
    assert made.run_text("select 1")
    assert ContentTypes.built_in().writer(client.accept).name == "text/csv", "what a server takes"
    assert made.run_text("update data.plant set a = 1")
    assert capfdbinary.readouterr().out == b'"id"\r\n1\r\nupdated 1 of 1 records\n'


def test_the_body_of_a_write(terminal: Callable[[], str]) -> None:
    terminal()
    body = {"message": "inserted 2 of 2 records\x1b", "inserted_hashes": ["a" * 40, "b" * 40], "skipped_hashes": []}
    made, _ = session(FakeAnswer(body), FakeAnswer({"plan": ["SCAN"]}))
    assert made.run_text("insert into data.plant values (1); explain select 1")
    shown = terminal().splitlines()
    assert shown[0] == "inserted 2 of 2 records\\x1b"
    assert shown[1].startswith('  inserted_hashes: ["aaa') and shown[1].endswith("…") and len(shown[1]) <= 60
    assert shown[2:] == ["0.0 ms", "plan:", "- SCAN", "0.0 ms"]


@pytest.mark.parametrize(
    "answer",
    [
        FakeAnswer({"error": "unknown column no\x1b[2J", "position": 7}, 400),
        FakeAnswer({"error": "Must login"}, 401),
        FakeAnswer([{"a": 1}, {"error": "QueryTooLarge: too long"}]),
        FakeAnswer(ROWS, breaks=True),
        FakeAnswer(content=b"<html>", content_type="text/html"),
        Unreachable("it cannot be reached"),
        AuthenticationRefused("login expired"),
    ],
)
def test_the_first_error_ends_a_script(answer: Any, capsys: pytest.CaptureFixture[str]) -> None:
    made, client = session(answer, FakeAnswer(ROWS))
    assert not made.run_script(["select no from data.plant;\n", "select 2;\n"])
    assert len(client.sent) == 1
    told = capsys.readouterr().err
    assert told.startswith("error: ")
    assert "\x1b" not in told


def test_the_place_of_an_error(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    file = tmp_path / "a.sql"
    file.write_text("\n\nselect id,\n  no from data.plant")
    refused = {"error": "unknown column no", "position": 13}
    made, _ = session(FakeAnswer(refused, 400), FakeAnswer(refused, 400))
    assert not made.run_script(["-- one\n", *file.read_text().splitlines(keepends=True)])
    assert capsys.readouterr().err == "error: line 4: unknown column no\n    no from data.plant\n    ^\n"
    assert not made.run_text(f".read {file}")
    assert capsys.readouterr().err == f"error: {file}:3: unknown column no\n    no from data.plant\n    ^\n"


def test_answers_that_are_nested_too_deeply(capsys: pytest.CaptureFixture[str], terminal: Callable[[], str]) -> None:
    terminal()
    made, _ = session(FakeAnswer(content=b'[{"a":' + b"[" * 100_000 + b"]" * 100_000 + b"}]"))
    assert not made.run_text("select 1")
    assert "nested too deeply" in capsys.readouterr().err


def test_the_shell_shows_the_first_rows(terminal: Callable[[], str]) -> None:
    terminal()
    many = [{"id": number} for number in range(MOST_ROWS + 5)]
    made, _ = session(FakeAnswer(many), FakeAnswer(many[:3]), FakeAnswer(many[:3]), FakeAnswer(many), in_shell=True)
    assert made.run_text("select 1")
    lines = terminal().splitlines()
    assert len(lines) == MOST_ROWS + 3
    assert lines[-1] == "the first 1,000 rows, there are more: .limit 0 shows all, .output FILE keeps them, 0.0 ms"
    assert made.run_text(".limit 2\nselect 1;.limit 3\nselect 1;.limit 0\nselect 1;")
    assert [line for line in terminal().splitlines() if "row" in line] == [
        "the first 2 rows, there are more: .limit 0 shows all, .output FILE keeps them, 0.0 ms",
        "3 rows, 0.0 ms",
        "1,005 rows, 0.0 ms",
    ]


def test_parameters(capsys: pytest.CaptureFixture[str]) -> None:
    made, client = session(*[FakeAnswer([])] * 5, parameters=Parameters(named={"a": 1}))
    assert made.run_text("select 1")
    assert made.run_text("select 1; select :a; .param :b [1]\n.param c x y\nselect :b, :c; .param\n.param clear\nselect :a")
    assert [body.get("parameters") for body in client.sent] == [{"a": 1}, None, {"a": 1}, {"b": [1], "c": "x y"}, {}]
    assert ":b" in capsys.readouterr().out


def test_plans() -> None:
    made, client = session(*[FakeAnswer([])] * 2)
    assert made.run_text(".explain on\nselect 1;.explain off\nselect 2;")
    assert [body.get("explain") for body in client.sent] == [True, None]


def test_names(capsys: pytest.CaptureFixture[str]) -> None:
    made, _ = session(*[FakeAnswer(DESCRIBED)] * 6)
    assert made.run_text(".databases\n.tables\n.tables none\n.schema\n.schema data.plant")
    column = "column  type\n──────  ────  ───────────\nid      ID    primary key\n"
    assert capsys.readouterr().out == (
        "database  tables\n────────  ──────\ndata           1\nold            0\n"
        "table       records  columns\n──────────  ───────  ───────\ndata.plant        2        1\n"
        f"(none)\n{f'data.plant{chr(10)}{column}' * 2}"
    )
    assert not made.run_text(".schema plnt")
    assert capsys.readouterr().err == "error: there is no table plnt. Did you mean plant?\n"


@pytest.mark.parametrize(
    ("line", "text"),
    [
        (".tabels", "Did you mean .tables?"),
        (".", ".help lists them"),
        (".mode xml", ".mode table | csv | json | line"),
        (".timer", ".timer on | off"),
        (".limit x", ".limit ROWS; now 0"),
        (".read", ".read FILE"),
        (".read /nowhere", "/nowhere cannot be read: No such file"),
        (".output /nowhere/x", "/nowhere/x cannot be written: No such file"),
    ],
)
def test_commands_that_are_wrong(line: str, text: str, capsys: pytest.CaptureFixture[str]) -> None:
    made, client = session()
    assert not made.run_text(f"{line}\nselect 1;")
    assert text in capsys.readouterr().err
    assert client.sent == []


def test_output_into_a_file(tmp_path: Path, terminal: Callable[[], str]) -> None:
    terminal()
    made, _ = session(*[FakeAnswer(ROWS)] * 3, in_shell=True)
    file = tmp_path / "out"
    assert made.run_text(f".output {file}\n.mode json\nselect 1;.mode table\nselect 1;.output\nselect 1;")
    table = "id  name\n──  ────\n 1  fern\n 2  NULL\n"
    assert file.read_text() == json.dumps(ROWS) + "\n" + table
    assert terminal() == f"{table}2 rows, 0.0 ms\n"


def test_a_full_disk_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    made, _ = session(FakeAnswer([{"a": "x" * 100_000}]))
    assert not made.run_text(".output /dev/full\nselect 1")
    assert capsys.readouterr().err.endswith("/dev/full cannot be written: No space left on device\n")
    with pytest.raises(UsageError):  # what is left
        made.sink.close()


def test_files_that_read_each_other(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "a.sql"
    file.write_text(f".read {file}\n")
    made, _ = session()
    assert not made.run_text(f".read {file}")
    assert capsys.readouterr().err == f"error: {file}:1: 10 files read each other\n"
    file.write_bytes(b"select '\xff';")
    assert not made.run_text(f".read {file}")
    assert f"{file} is not in UTF-8" in capsys.readouterr().err


def test_help_names_all_commands(capsys: pytest.CaptureFixture[str]) -> None:
    made, _ = session()
    assert made.run_text(".help")
    shown = capsys.readouterr().out
    assert all(command.usage in shown and command.sentence.endswith(".") for command in COMMANDS)


def test_leaving() -> None:
    for line in (".quit", ".exit", ".quit;"):
        with pytest.raises(SessionEnded):
            session()[0].run_text(line)
