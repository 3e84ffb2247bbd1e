"""`svc install` asks on a terminal for what is missing."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from svc.cli.arguments import Arguments, installation_of
from svc.cli.installing import _ask_missing, _start_command
from svc.config.document import write_document

Ask = Callable[..., tuple[dict[str, str], list[str]]]


@pytest.fixture
def ask(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Ask:
    """Returns the options after the answers, and what was asked. `options`: given ones; an answer that is missing is Enter."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setattr("getpass.getpass", lambda prompt: "")

    def ask(*answers: str, **options: str) -> tuple[dict[str, str], list[str]]:
        waiting, asked = list(answers), []

        def answer(prompt: str) -> str:
            asked.append(prompt)
            return waiting.pop(0) if waiting else ""

        monkeypatch.setattr("builtins.input", answer)
        given = {"ROOTPATH": str(tmp_path / "root"), "SVC_ADMIN_USERNAME": "admin", "NODE_HOSTNAME": "n1", **options}
        arguments = Arguments("install", options=given)
        _ask_missing(installation_of(arguments), arguments)
        return arguments.options, asked

    return ask


def test_enter_leaves_the_addresses_of_a_first_configuration(ask: Ask) -> None:
    options, asked = ask()
    assert [prompt.partition("[")[2] for prompt in asked] == ["*]: ", "127.0.0.1]: "]
    assert "HTTP_HOST" not in options
    assert all("[127.0.0.1]: " in prompt for prompt in ask(DEFAULTS_MODE="dev")[1])


def test_answers_are_checked(ask: Ask, capsys: pytest.CaptureFixture[str]) -> None:
    options, asked = ask("db.example", "127.0.0.1, ::1", "localhost")
    assert (options["HTTP_HOST"], options["OPERATIONSAPI_NETWORK_HOST"]) == ("127.0.0.1, ::1", "localhost")
    assert len(asked) == 3
    assert "The answer has 'db.example', which is not an address to listen on" in capsys.readouterr().out


def test_addresses_that_are_given_are_not_asked_for(ask: Ask, tmp_path: Path) -> None:
    options, asked = ask(HTTP_HOST="::1")
    assert (options["HTTP_HOST"], len(asked)) == ("::1", 1)
    template = tmp_path / "wanted.yaml"
    template.write_text("http: {host: [10.0.0.7, '::1']}\n")
    assert "[10.0.0.7, ::1]: " in ask(SVC_CONFIG=str(template))[1][0]


def test_the_command_that_starts_it_names_the_root_where_that_is_needed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("ROOTPATH", raising=False)
    monkeypatch.chdir(tmp_path)
    for name, expected in (("svc", "svc"), ("two words", f"svc --ROOTPATH '{tmp_path}/two words'"), (".svc", "svc")):
        root = tmp_path / name
        root.mkdir()
        write_document(root / "svc-config.yaml", {})
        assert _start_command(installation_of(Arguments("install", options={"ROOTPATH": str(root)}))) == expected
