"""`svc passwd`."""

from __future__ import annotations

import getpass
import io
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from svc.cli import main, passwd
from svc.cli.client import Client
from svc.cli.credentials import SavedLogin, SavedLogins
from tests.support.cli import FakeAnswer, FakeClient

URL = "https://db.example:9925"
CHANGED = "The password of ann is changed. Other sessions and tokens of the user have ended.\n"


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture(autouse=True)
def surroundings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith(("SVC_", "CLI_TARGET"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "stdin", io.StringIO())


def on_terminal(monkeypatch: pytest.MonkeyPatch, *answers: str) -> list[str]:
    """The terminal gives these answers in turn. Returns the questions it was asked."""
    asked: list[str] = []
    waiting = list(answers)

    def answer(question: str) -> str:
        asked.append(question)
        return waiting.pop(0)

    monkeypatch.setattr(sys, "stdin", Terminal())
    monkeypatch.setattr(getpass, "getpass", answer)
    return asked


def local(monkeypatch: pytest.MonkeyPatch, *answers: FakeAnswer) -> FakeClient:
    client = FakeClient(FakeAnswer({"username": "admin"}), *answers)
    monkeypatch.setattr(passwd, "local_client", lambda arguments: client)
    return client


def remote(monkeypatch: pytest.MonkeyPatch, *answers: FakeAnswer) -> list[tuple[Mapping[str, Any], str | None]]:
    """(body, Authorization) of each request."""
    sent: list[tuple[Mapping[str, Any], str | None]] = []
    waiting = list(answers)

    def send(client: Client, body: Mapping[str, Any], authorization: str | None = None) -> FakeAnswer:
        sent.append((dict(body), client.authorization if authorization is None else authorization))
        return waiting.pop(0)

    monkeypatch.setattr(Client, "send", send)
    return sent


def test_asks_twice_on_the_machine_of_the_server(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    client = local(monkeypatch, FakeAnswer({}))
    asked = on_terminal(monkeypatch, "blue-heron", "blue-heron")
    assert main(["passwd", "ann"]) == 0
    assert asked == ["New password for ann: ", "Once more: "]
    assert client.sent[1:] == [{"operation": "alter_user", "username": "ann", "password": "blue-heron"}]
    assert capsys.readouterr().out == CHANGED


def test_without_a_name_it_is_that_of_the_caller(monkeypatch: pytest.MonkeyPatch) -> None:
    client = local(monkeypatch, FakeAnswer({}))
    on_terminal(monkeypatch, "blue-heron", "blue-heron")
    assert main(["passwd"]) == 0
    assert client.sent[1]["username"] == "admin"


def test_a_slip_changes_nothing(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    client = local(monkeypatch)
    on_terminal(monkeypatch, "blue-heron", "blue-herom")
    assert main(["passwd", "ann"]) == 1
    assert capsys.readouterr().err == "The two passwords differ; nothing was changed.\n"
    assert len(client.sent) == 1


def test_without_a_terminal(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    local(monkeypatch)
    assert main(["passwd", "ann"]) == 1
    assert capsys.readouterr().err == f"{passwd.NO_TERMINAL}\n"
    client = local(monkeypatch, FakeAnswer({}))
    monkeypatch.setattr(sys, "stdin", io.StringIO("blue-heron\n"))
    assert main(["passwd", "ann", "password_file=-"]) == 0
    assert client.sent[1]["password"] == "blue-heron"
    assert main(["passwd", "ann", "password=blue-heron"]) == 1
    assert "can be read by others" in capsys.readouterr().err
    assert main(["passwd", "ann", "bob"]) == 1


def test_what_the_server_says_against_it(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    local(monkeypatch, FakeAnswer({"error": "password must have at least 8 characters"}, 400))
    on_terminal(monkeypatch, "short", "short")
    assert main(["passwd", "ann"]) == 1
    assert capsys.readouterr().err == "error: password must have at least 8 characters\n"


def test_the_own_one_at_another_server(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    logins = SavedLogins.of_user(os.environ)
    logins.keep(URL, SavedLogin("operation", "refresh", "ann"))
    tokens = {"operation_token": "later", "refresh_token": "later too"}
    sent = remote(monkeypatch, FakeAnswer({"username": "ann"}), FakeAnswer({}), FakeAnswer(tokens))
    asked = on_terminal(monkeypatch, "old password", "blue-heron", "blue-heron")
    assert main(["passwd", "target=db.example"]) == 0
    assert asked == ["Current password: ", "New password for ann: ", "Once more: "]
    change = {"operation": "alter_user", "username": "ann", "current_password": "old password", "password": "blue-heron"}
    assert sent[1] == (change, "Bearer operation")
    assert sent[2] == ({"operation": "create_authentication_tokens", "username": "ann", "password": "blue-heron"}, "")
    assert logins.read() == {URL: SavedLogin("later", "later too", "ann")}
    assert capsys.readouterr().out == CHANGED


def test_another_users_at_another_server(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    sent = remote(monkeypatch, FakeAnswer({"username": "admin"}), FakeAnswer({}))
    (tmp_path / "new").write_text("blue-heron\n")
    words = ["passwd", "ann", "target=db.example", "auth_username=admin", "auth_password=secret", "password_file=new"]
    assert main(words) == 0
    assert sent[1][0] == {"operation": "alter_user", "username": "ann", "password": "blue-heron"}
    assert not SavedLogins.of_user(os.environ).read()


def test_wrong_credentials(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    remote(monkeypatch, FakeAnswer({"error": "Must login"}, 401))
    assert main(["passwd", "target=db.example"]) == 1
    assert capsys.readouterr().err == "error: Must login\n"
