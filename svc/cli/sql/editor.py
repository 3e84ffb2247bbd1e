"""The line editor with history and completion, if prompt_toolkit is installed: the extra `shell`. The only module that imports it."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from prompt_toolkit import PromptSession
from prompt_toolkit.completion import CompleteEvent, Completer, Completion, PathCompleter
from prompt_toolkit.document import Document
from prompt_toolkit.enums import DEFAULT_BUFFER
from prompt_toolkit.filters import Always, has_focus
from prompt_toolkit.history import FileHistory, History, InMemoryHistory
from prompt_toolkit.input import Input
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.lexers import PygmentsLexer
from prompt_toolkit.output import Output

from svc.cli.sql.names import candidates
from svc.cli.sql.schema import Schema
from svc.cli.sql.session import COMMANDS, FORMATS
from svc.cli.sql.shell import CONTINUATION, PROMPT, is_finished

MOST_HISTORY = 1 << 20  # bytes; of a file that is longer the later half is kept


def history_file(environ: Mapping[str, str]) -> Path | None:
    """What was typed before (XDG base directories), readable for its owner only; None if it cannot be written."""
    try:
        state = Path(environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state")
        file = state / "svc" / "sql_history"
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        os.close(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600))
        file.chmod(0o600)
        if file.stat().st_size > MOST_HISTORY:
            _shorten(file)
    except (OSError, RuntimeError):  # no home
        return None
    return file


def _shorten(file: Path) -> None:
    from svc.config.document import write_private

    data = file.read_bytes()
    begin = data.find(b"\n# ", len(data) - MOST_HISTORY // 2)
    write_private(file, data[begin:] if begin >= 0 else b"")


class _QuietHistory(FileHistory):
    """On a full disk what is typed is not kept, and that is all."""

    def store_string(self, string: str) -> None:
        try:
            super().store_string(string)
        except OSError:
            pass


class SqlCompleter(Completer):
    """`schema`: what is known now."""

    def __init__(self, schema: Callable[[], Schema]) -> None:
        self._schema = schema

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterable[Completion]:
        before = document.text_before_cursor
        if before.startswith("."):
            yield from self._commands(before, complete_event)
            return
        for candidate in candidates(before, document.text_after_cursor, self._schema()):
            if candidate.replaced or complete_event.completion_requested or before.endswith("."):
                yield Completion(candidate.text, -candidate.replaced, display_meta=candidate.kind)

    def _commands(self, before: str, complete_event: CompleteEvent) -> Iterable[Completion]:
        name, separator, rest = before.partition(" ")
        if not separator:
            for command in COMMANDS:
                if command.name.startswith(name):
                    yield Completion(command.name, -len(name), display=command.usage, display_meta=command.sentence)
            return
        if name == ".read":
            yield from PathCompleter(expanduser=True).get_completions(Document(rest), complete_event)
            return
        choices: Iterable[str] = ("on", "off") if name in (".timer", ".explain") else FORMATS if name == ".mode" else ()
        if name in (".schema", ".tables"):
            choices = [f"{table.database}.{table.name}" for table in self._schema().tables()]
        for choice in choices:
            if rest.lower() in choice.lower():
                yield Completion(choice, -len(rest))


class PromptEditor:
    """`input`, `output`: for tests."""

    def __init__(
        self, schema: Callable[[], Schema], history: Path | None, *, input: Input | None = None, output: Output | None = None
    ) -> None:
        kept: History = InMemoryHistory() if history is None else _QuietHistory(str(history))
        self._prompt: PromptSession[str] = PromptSession(
            PROMPT,
            multiline=Always(),
            prompt_continuation=CONTINUATION,
            lexer=PygmentsLexer.from_filename("statement.sql"),
            completer=SqlCompleter(schema),
            complete_while_typing=True,
            history=kept,
            key_bindings=enter_binding(),
            input=input,
            output=output,
        )

    def read(self) -> str:
        return self._prompt.prompt()


def enter_binding() -> KeyBindings:
    """Enter ends what is complete, and else begins a line."""
    bindings = KeyBindings()

    @bindings.add("enter", filter=has_focus(DEFAULT_BUFFER))
    def _(event: KeyPressEvent) -> None:
        buffer = event.current_buffer
        if buffer.complete_state is not None and buffer.complete_state.current_completion is not None:
            buffer.complete_state = None  # what was chosen stays
        elif is_finished(buffer.text):
            buffer.validate_and_handle()
        else:
            buffer.newline(copy_margin=False)

    return bindings
