"""The line editor, with keys that come through a pipe."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

pytest.importorskip("prompt_toolkit")

from prompt_toolkit.buffer import Buffer, CompletionState
from prompt_toolkit.completion import CompleteEvent, Completion
from prompt_toolkit.document import Document
from prompt_toolkit.input import PipeInput, create_pipe_input
from prompt_toolkit.output import DummyOutput

from svc.cli.sql import editor
from svc.cli.sql.editor import PromptEditor, SqlCompleter, history_file
from svc.cli.sql.schema import Schema, schema_of

SCHEMA = schema_of({"data": {"Flight": {"attributes": [{"attribute": "id"}, {"attribute": "delay", "type": "Int"}]}}})
CTRL_C, CTRL_D, ENTER, UP = "\x03", "\x04", "\r", "\x1b[A"


@pytest.fixture
def keys() -> Iterator[PipeInput]:
    with create_pipe_input() as pipe:
        yield pipe


def made(keys: PipeInput, history: Path | None = None, schema: Callable[[], Schema] = lambda: SCHEMA) -> PromptEditor:
    return PromptEditor(schema, history, input=keys, output=DummyOutput())


def test_enter_ends_what_is_complete(keys: PipeInput) -> None:
    keys.send_text(f"select{ENTER}1;{ENTER}.tables{ENTER}{ENTER}select ';{ENTER}';{ENTER}quit{ENTER}")
    prompt = made(keys)
    assert [prompt.read() for _ in range(5)] == ["select\n1;", ".tables", "", "select ';\n';", "quit"]


def test_interrupt_and_end(keys: PipeInput) -> None:
    keys.send_text(f"select{CTRL_C}{CTRL_D}")
    prompt = made(keys)
    with pytest.raises(KeyboardInterrupt):
        prompt.read()
    with pytest.raises(EOFError):
        prompt.read()


def test_what_was_typed_is_kept(keys: PipeInput, tmp_path: Path) -> None:
    file = history_file({"XDG_STATE_HOME": str(tmp_path)})
    assert file == tmp_path / "svc" / "sql_history"
    assert file.stat().st_mode & 0o777 == 0o600
    keys.send_text(f"select 1,{ENTER}2;{ENTER}")
    made(keys, file).read()
    keys.send_text(f"{UP}{UP}{ENTER}")
    assert made(keys, history_file({"XDG_STATE_HOME": str(tmp_path)})).read() == "select 1,\n2;"


def test_a_history_that_cannot_be_written(tmp_path: Path, keys: PipeInput) -> None:
    (tmp_path / "svc").touch()
    assert history_file({"XDG_STATE_HOME": str(tmp_path)}) is None
    keys.send_text(f"select 1;{ENTER}")
    assert made(keys, tmp_path / "none" / "history").read() == "select 1;"


def test_a_long_history_loses_its_beginning(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(editor, "MOST_HISTORY", 200)
    file = history_file({"XDG_STATE_HOME": str(tmp_path)})
    assert file is not None
    file.write_text("".join(f"\n# time\n+select {number};\n" for number in range(30)))
    history_file({"XDG_STATE_HOME": str(tmp_path)})
    left = file.read_text()
    assert len(left) <= 100 and left.startswith("\n# time\n+select 2") and left.endswith("+select 29;\n")
    file.write_text("x" * 1000)
    history_file({"XDG_STATE_HOME": str(tmp_path)})
    assert file.read_text() == ""


def test_the_home_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    assert history_file({}) == tmp_path / ".local" / "state" / "svc" / "sql_history"


def offered(text: str, *, asked: bool = False) -> list[str]:
    before, _, behind = text.partition("|")
    document = Document(before + behind, len(before))
    return [found.text for found in SqlCompleter(lambda: SCHEMA).get_completions(document, CompleteEvent(completion_requested=asked))]


def test_completion(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert offered("select del| from data.Flight") == ["delay", "delete"]
    assert offered("select f.| from data.Flight f") == ["id", "delay"]
    assert offered("select * from |") == []
    assert offered("select * from |", asked=True) == ["data.", "data.Flight"]
    assert offered(".ta|") == [".tables"]
    assert offered(".schema fl|") == ["data.Flight"]
    assert offered(".timer |") == ["on", "off"]
    assert offered(".mode t|") == ["table"]
    assert offered(".limit |") == []
    (tmp_path / "one.sql").touch()
    monkeypatch.chdir(tmp_path)
    assert offered(".read o|") == ["ne.sql"]


def test_a_chosen_name_is_taken_by_enter() -> None:
    buffer = Buffer(document=Document("select * from data.Flight;"), multiline=True)
    buffer.complete_state = CompletionState(Document("select * from data.Fl;"), [Completion("Flight", -2)], complete_index=0)
    (binding,) = editor.enter_binding().bindings
    binding.handler(SimpleNamespace(current_buffer=buffer))  # type: ignore[arg-type]
    assert (buffer.complete_state, buffer.text) == (None, "select * from data.Flight;")
