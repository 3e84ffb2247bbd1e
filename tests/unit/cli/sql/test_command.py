"""`svc sql` from its arguments to its exit status."""

from __future__ import annotations

import io
import sys
from pathlib import Path
from typing import Any

import pytest

from svc.cli import help_text, main
from svc.cli.arguments import Arguments
from svc.cli.sql import command
from tests.support.cli import FakeAnswer, FakeClient


@pytest.fixture(autouse=True)
def surroundings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("SVC_CLI_TARGET", raising=False)
    monkeypatch.chdir(tmp_path)


def client(monkeypatch: pytest.MonkeyPatch, *answers: FakeAnswer) -> tuple[FakeClient, list[Any]]:
    """The client, and what it was made of."""
    made, given = FakeClient(*answers), []

    def local(arguments: Arguments) -> FakeClient:
        given.append(arguments)
        return made

    def remote(address: str, arguments: Arguments, words: Any, environment: Any) -> FakeClient:
        given.append((address, arguments.flags, words.parameters))
        return made

    monkeypatch.setattr(command, "local_client", local)
    monkeypatch.setattr(command, "remote_client", remote)
    return made, given


def test_one_statement(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    made, given = client(monkeypatch, *[FakeAnswer([{"n": 1}])] * 3)
    assert main(["sql", "select n from data.t where id=:id", "--param", "id=7", "--ROOTPATH", "/srv/r"]) == 0
    assert made.sent == [{"operation": "sql", "sql": "select n from data.t where id=:id", "parameters": {"id": 7}}]
    assert given[0].options == {"ROOTPATH": "/srv/r"}
    assert main(["sql", "--format", "table", "-- a comment\nselect n;"]) == 0
    assert main(["--rootpath", "/srv/r", "sql", "sql=select -1", "--json"]) == 0
    assert given[2].options == {"ROOTPATH": "/srv/r"}
    assert made.sent[-1]["sql"] == "select -1"
    assert capsys.readouterr().out == '[{"n": 1}]\nn\n─\n1\n[{"n": 1}]\n'


def test_at_another_server(monkeypatch: pytest.MonkeyPatch) -> None:
    _, given = client(monkeypatch, FakeAnswer([]))
    Path("secret").write_text("pw\n")
    assert main(["sql", "select 1", "target=db.example", "--insecure", "auth_username=ann", "auth_password_file=secret"]) == 0
    assert given == [("db.example", {"insecure"}, {"target": "db.example", "auth_username": "ann", "auth_password": "pw"})]


def test_standard_input(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    made, _ = client(monkeypatch, FakeAnswer([{"n": 1}]), FakeAnswer({"error": "no"}, 400), FakeAnswer([]))
    monkeypatch.setattr(sys, "stdin", io.StringIO("select ';';\nselect\n 2; select 3;"))
    assert main(["sql"]) == 1
    assert [body["sql"] for body in made.sent] == ["select ';'", "select\n 2"]
    told = capsys.readouterr()
    assert (told.out, told.err) == ('[{"n": 1}]\n', "error: line 2: no\n")
    monkeypatch.setattr(sys, "stdin", io.StringIO("select 1; .quit\nselect 2"))
    assert main(["sql"]) == 0
    assert len(made.sent) == 3
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"select '\xff'"), "utf-8"))
    assert main(["sql"]) == 1
    assert "standard input is not in UTF-8" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("line", "text"),
    [
        (["select", "1"], "in quotes: 'select 1'"),
        (["select 1", "--frmat=x"], "--frmat=x is not understood"),
        (["--format", "xml"], "invalid choice: 'xml'"),
        (["--param"], "expected one argument"),
        (["select 1", "--param", "1", "--param", "a=1"], "either all with a name"),
    ],
)
def test_how_it_is_used(line: list[str], text: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    client(monkeypatch)
    assert main(["sql", *line]) == 1
    assert text in capsys.readouterr().err


def test_help(capsys: pytest.CaptureFixture[str]) -> None:
    for line in (["sql", "--help"], ["help", "sql"], ["sql", "-h", "select 1"]):
        assert main(line) == 0
        assert capsys.readouterr().out == help_text("sql") + "\n"


def test_without_a_server(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("ROOTPATH", str(Path.cwd() / "r"))
    assert main(["sql", "select 1"]) == 1
    assert "svc must be running" in capsys.readouterr().err
