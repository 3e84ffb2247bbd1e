"""The text of a script, or of what was typed -> statements, and commands of the shell.

A statement ends with a `;` that is in no quotation and no comment, the last one with the text. A line that begins with a dot where a statement could begin
is a command of the shell.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from svc.sql.lexer import tokens_of

WINDOW = 1 << 12  # characters that are looked at for ends of statements; twice as many if there is none in them

_BETWEEN = re.compile(r"(?:\s+|;|--[^\n]*\n|/\*[^*]*(?:\*(?!/)[^*]*)*\*/)*")
_LAST_COMMENT = re.compile(r"--[^\n]*\Z")


@dataclass(frozen=True, slots=True)
class ScriptEntry:
    """A statement without its `;`, or the line of a command with its dot. `line`: where it begins, counted from 1."""

    text: str
    line: int = 1

    @property
    def is_command(self) -> bool:
        return self.text.startswith(".")


class ScriptReader:
    """`feed` text in pieces cut anywhere, take `entries`, and when there is no more text the `last_entries`. Time is proportional to the text."""

    def __init__(self) -> None:
        self._text = ""
        self._at = 0  # of the first character that is in no entry yet
        self._line = 1  # its line
        self._window = WINDOW
        self._tried = 0  # characters in which no end was found
        self._ends: list[int] = []  # of statements, those next first

    @property
    def is_between(self) -> bool:
        """Whether nothing has begun that is not complete."""
        return self._at == len(self._text)

    def feed(self, text: str) -> None:
        self._text = self._text[self._at :] + text
        self._at = 0
        self._ends = []

    def entries(self) -> Iterator[ScriptEntry]:
        """Those that are complete."""
        while self._skip():
            if self._text[self._at] == ".":
                end = self._text.find("\n", self._at)
                self._ends = []
            else:
                end = self._end_of_statement()
            if end < 0:
                return
            yield self._take(end)

    def last_entries(self) -> Iterator[ScriptEntry]:
        self._tried = 0
        yield from self.entries()
        if not self.is_between and not _LAST_COMMENT.fullmatch(self._text, self._at):
            yield self._take(len(self._text))

    def _skip(self) -> bool:
        """Go to the beginning of the next entry; False if there is none."""
        found = _BETWEEN.match(self._text, self._at)
        assert found is not None
        self._advance(found.end())
        return not self.is_between

    def _advance(self, position: int) -> None:
        self._line += self._text.count("\n", self._at, position)
        self._at = position

    def _take(self, end: int) -> ScriptEntry:
        entry = ScriptEntry(self._text[self._at : end].rstrip(), self._line)
        self._advance(end)
        return entry

    def _end_of_statement(self) -> int:
        """-1 if it has not arrived yet."""
        if len(self._text) - self._at < 2 * self._tried:
            return -1
        while not self._ends or self._ends[0] < self._at:
            if self._ends:
                self._ends.pop(0)
                continue
            window = self._text[self._at : self._at + self._window]  # only its last token may be one that goes on behind it
            _, kinds, starts = tokens_of(window)
            self._ends = [self._at + start for start, kind in zip(starts, kinds, strict=False) if kind == ";"]
            if self._ends:
                self._window = WINDOW
                self._tried = 0
            elif self._at + self._window < len(self._text):
                self._window *= 2
            else:
                self._tried = self._window if self._window > WINDOW else 0
                return -1
        return self._ends[0]


def read_script(pieces: Iterable[str]) -> Iterator[ScriptEntry]:
    """All entries of a text.

    >>> [entry.text for entry in read_script(["select ';'; -- one\\n.tables\\nupdate data.t set a ", "= 1"])]
    ["select ';'", '.tables', 'update data.t set a = 1']
    """
    reader = ScriptReader()
    for piece in pieces:
        reader.feed(piece)
        yield from reader.entries()
    yield from reader.last_entries()


def is_complete(text: str) -> bool:
    """Whether what was typed is all of what it begins: commands, and statements up to their `;`."""
    reader = ScriptReader()
    reader.feed(text + "\n")
    for _ in reader.entries():
        pass
    return reader.is_between


def parameters_of(text: str) -> tuple[int, set[str]]:
    """How many values the `?` of a statement take, and the names of its other parameters.

    >>> parameters_of("select ?, ?, :a, '?'"), parameters_of("select ?3")
    ((2, {'a'}), (3, set()))
    """
    tokens, kinds, _ = tokens_of(text)
    count = 0
    names = set()
    for token, kind in zip(tokens, kinds, strict=False):
        if kind != "parameter":
            continue
        if token[0] != "?":
            names.add(token[1:])
        elif len(token) == 1:
            count += 1
        elif len(token) < 10:
            count = max(count, int(token[1:]))
    return count, names
