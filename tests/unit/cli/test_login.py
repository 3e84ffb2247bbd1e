"""`svc login` and `svc logout`."""

import io
import os
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from svc.cli import main
from svc.cli.client import Client
from svc.cli.credentials import SavedLogin, SavedLogins
from svc.cli.login import set_dot_env
from tests.support.cli import FakeAnswer

TOKENS = {"operation_token": "op", "refresh_token": "re"}


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture(autouse=True)
def surroundings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in [name for name in os.environ if name.startswith(("SVC_", "CLI_TARGET"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "stdin", io.StringIO())
    return tmp_path


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[tuple[str, Mapping[str, Any]]]]:
    """(url, body) of each request; any password but `wrong` is right."""
    sent: list[tuple[str, Mapping[str, Any]]] = []

    def send(client: Client, body: Mapping[str, Any], authorization: str | None = None) -> FakeAnswer:
        sent.append((client.target.url, body))
        return FakeAnswer({"error": "invalid credentials"}, 401) if body["password"] == "wrong" else FakeAnswer(TOKENS)

    monkeypatch.setattr(Client, "send", send)
    yield sent


def logins() -> SavedLogins:
    return SavedLogins.of_user(os.environ)


def test_with_everything_given(asked: list[tuple[str, Mapping[str, Any]]], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["login", "db.example", "username=ann", "password=123"]) == 0
    assert asked == [("https://db.example:9925", {"operation": "create_authentication_tokens", "username": "ann", "password": "123"})]
    assert capsys.readouterr().out == "Logged in at https://db.example:9925 as ann.\n"
    assert logins().read() == {"https://db.example:9925": SavedLogin("op", "re", "ann")}


def test_the_password_from_a_file_or_standard_input(asked: list[tuple[str, Mapping[str, Any]]], tmp_path: Path) -> None:
    (tmp_path / "p").write_text("of file\n")
    assert main(["login", "db.example", "username=ann", "password_file=p"]) == 0
    sys.stdin.write("of input\n")
    sys.stdin.seek(0)
    assert main(["login", "db.example", "username=ann", "password_file=-"]) == 0
    assert [body["password"] for _, body in asked] == ["of file", "of input"]
    assert main(["login", "db.example", "username=ann", "password_file=nothing"]) == 1


def test_it_asks_for_what_is_missing(
    asked: list[tuple[str, Mapping[str, Any]]], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "stdin", Terminal("db.example\n\n ann \n"))
    monkeypatch.setattr("getpass.getpass", lambda question: "pass word ")
    assert main(["login"]) == 0
    assert asked[0][1]["username"] == "ann"
    assert asked[0][1]["password"] == "pass word "
    assert asked[0][0] == "https://db.example:9925"
    monkeypatch.setenv("SVC_CLI_TARGET", "https://other:1")
    monkeypatch.setattr(sys, "stdin", Terminal("\nbob\n"))
    assert main(["login"]) == 0
    assert asked[1][0] == "https://other:1"


def test_it_never_waits_without_a_terminal(asked: list[Any], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    for line in (["login"], ["login", "db"], ["login", "db", "username=ann"]):
        assert main(line) == 1
        assert "needs a terminal" in capsys.readouterr().err
    assert asked == []
    monkeypatch.setenv("SVC_CLI_TARGET", "db")
    assert main(["login", "username=ann", "password=x"]) == 0


def test_a_refusal_keeps_nothing(asked: list[Any], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["login", "db", "username=ann", "password=wrong"]) == 1
    assert capsys.readouterr().err == "error: invalid credentials\n"
    assert logins().read() == {}
    assert main(["login", "db", "other", "username=ann", "password=x"]) == 1
    assert "too much" in capsys.readouterr().err


def test_the_variable_in_dot_env(tmp_path: Path, asked: list[Any], capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / ".env"
    file.write_text("A=1\nexport SVC_CLI_TARGET=old\n# end\n")
    file.chmod(0o640)
    assert main(["login", "db", "username=ann", "password=x"]) == 0
    assert file.read_text() == "A=1\n# end\nSVC_CLI_TARGET=https://db:9925\n"
    assert file.stat().st_mode & 0o777 == 0o640
    assert "SVC_CLI_TARGET is set in .env" in capsys.readouterr().out
    assert set_dot_env(tmp_path / "nowhere", "A", "2") is False


def test_logout_of_one_and_of_all(capsys: pytest.CaptureFixture[str]) -> None:
    for url in ("https://a:9925", "https://b:9925"):
        logins().keep(url, SavedLogin("op", "re", "ann"))
    assert main(["logout", "c"]) == 1
    assert capsys.readouterr().err == "Not logged in to https://c:9925. There are logins to: https://a:9925, https://b:9925\n"
    assert main(["logout", "a"]) == 0
    assert list(logins().read()) == ["https://b:9925"]
    assert main(["logout"]) == main(["logout"]) == 0
    assert not logins().file.exists()
    assert capsys.readouterr().out == "Logged out at https://a:9925.\n" + "Logged out everywhere.\n" * 2
