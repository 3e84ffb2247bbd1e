"""The shell: read, run, show, until the user leaves."""

from __future__ import annotations

from typing import Protocol

from svc import __version__
from svc.cli.sql.script import is_complete
from svc.cli.sql.session import Session, SessionEnded

PROMPT, CONTINUATION = "svc> ", "...> "
HINT = "pip install 'svc[shell]' adds history and completion."
WORDS = {"quit": ".quit", "exit": ".quit", "help": ".help"}
"""What people type who do not know the commands."""


class Editor(Protocol):
    def read(self) -> str:
        """Statements and commands as they were typed. Raises KeyboardInterrupt for Ctrl-C, EOFError for Ctrl-D."""


class PlainEditor:
    """Lines as the terminal has them."""

    def read(self) -> str:
        try:
            text = input(PROMPT)
            while not is_finished(text):
                text += "\n" + input(CONTINUATION)
        except (EOFError, KeyboardInterrupt):
            print()
            raise
        return text


def command_word(text: str) -> str | None:
    return WORDS.get(text.strip().rstrip(";").lower())


def is_finished(text: str) -> bool:
    """Whether the text can be run."""
    return command_word(text) is not None or is_complete(text)


def interact(session: Session, address: str, editor: Editor | None = None) -> int:
    """Returns the exit status. `address`: of another server, "" for that of this machine."""
    print(f"svc {__version__}{f' at {address}' if address else ''}. .help lists the commands, Ctrl-D leaves.")
    if editor is None:
        editor = _editor(session)
    try:
        while True:
            try:
                text = editor.read()
            except KeyboardInterrupt:  # the line is dropped
                continue
            try:
                session.run_text(command_word(text) or text)
            except KeyboardInterrupt:
                print("\ncancelled")
    except (EOFError, SessionEnded):
        return 0
    finally:
        session.sink.close()


def _editor(session: Session) -> Editor:
    try:
        from svc.cli.sql.editor import PromptEditor, history_file
    except ImportError:
        print(HINT)
        return PlainEditor()
    import os

    session.schema.read_in_background()
    return PromptEditor(lambda: session.schema.latest, history_file(os.environ))
