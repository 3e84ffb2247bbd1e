"""The loop of the shell, with someone who types."""

from __future__ import annotations

from typing import Any

import pytest

from svc.cli.sql import shell
from svc.cli.sql.parameters import Parameters
from svc.cli.sql.session import Session
from svc.cli.sql.shell import CONTINUATION, PROMPT, PlainEditor, interact, is_finished
from tests.support.cli import FakeAnswer, FakeClient


class Typist:
    """Gives texts in turn, raises exceptions, leaves at the end."""

    def __init__(self, *typed: Any) -> None:
        self.typed = list(typed)

    def read(self, prompt: str = "") -> str:
        text = self.typed.pop(0) if self.typed else EOFError()
        if isinstance(text, BaseException):
            raise text
        assert isinstance(text, str)
        return text


def run(typist: Typist, *answers: Any, address: str = "") -> FakeClient:
    client = FakeClient(*answers)
    assert interact(Session(client, Parameters(), "line", in_shell=True), address, typist) == 0
    return client


def test_it_goes_on_after_errors(capsys: pytest.CaptureFixture[str]) -> None:
    client = run(Typist("selct 1;", "select 2;", ""), FakeAnswer({"error": "no"}, 400), FakeAnswer([{"n": 2}]), address="https://db:9925")
    assert [body["sql"] for body in client.sent] == ["selct 1", "select 2"]
    told = capsys.readouterr()
    assert told.out.startswith("svc ") and "at https://db:9925" in told.out
    assert told.out.endswith("n = 2\n\n") and told.err == "error: no\n"


def test_interrupts_cancel_what_is_typed_and_what_runs(capsys: pytest.CaptureFixture[str]) -> None:
    client = run(Typist(KeyboardInterrupt(), "select 1;", "select 2;"), KeyboardInterrupt(), FakeAnswer([{"n": 2}]))
    assert len(client.sent) == 2
    assert capsys.readouterr().out.splitlines()[1:] == ["", "cancelled", "n = 2", ""]


@pytest.mark.parametrize("word", ["quit", "EXIT", "exit;", ".quit", ".exit"])
def test_leaving(word: str) -> None:
    assert is_finished(word)
    assert run(Typist(word, "select 1;")).sent == []


def test_help(capsys: pytest.CaptureFixture[str]) -> None:
    run(Typist("help"))
    assert ".tables" in capsys.readouterr().out


def test_lines_of_a_terminal(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    prompts: list[str] = []
    typist = Typist("select", " 1;", ".tables", "", "select", KeyboardInterrupt(), "select")

    def typed(prompt: str) -> str:
        prompts.append(prompt)
        return typist.read()

    monkeypatch.setattr("builtins.input", typed)
    editor = PlainEditor()
    assert [editor.read() for _ in range(3)] == ["select\n 1;", ".tables", ""]
    with pytest.raises(KeyboardInterrupt):
        editor.read()
    with pytest.raises(EOFError):
        editor.read()
    assert prompts == [PROMPT, CONTINUATION, PROMPT, PROMPT, PROMPT, CONTINUATION, PROMPT, CONTINUATION]


def test_without_the_line_editor_there_is_a_hint(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "svc.cli.sql.editor", None)
    monkeypatch.setattr("builtins.input", Typist().read)
    client = FakeClient()
    assert interact(Session(client, Parameters(), in_shell=True), "") == 0
    assert shell.HINT in capsys.readouterr().out
