"""Where results go: standard output, or a file."""

from __future__ import annotations

import codecs
import io
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

from svc.cli.arguments import UsageError
from svc.cli.output import printable, shows_color


class Sink:
    """Text and bytes to one stream. `width`: cells of a line, None if it is no terminal."""

    def __init__(self, stream: TextIO, name: str = "") -> None:
        self._stream = stream
        self.name = name
        self.is_terminal = stream.isatty()
        self.has_color = self.is_terminal and shows_color(stream)
        self._decoder = io.IncrementalNewlineDecoder(codecs.getincrementaldecoder("utf-8")("replace"), True)

    @property
    def width(self) -> int | None:
        if not self.is_terminal:
            return None
        from rich.console import Console

        return Console(file=self._stream).width

    def write(self, text: str) -> None:
        with self._guard():
            try:
                self._stream.write(text)
            except UnicodeEncodeError:
                encoding = self._stream.encoding or "ascii"
                self._stream.write(text.encode(encoding, "backslashreplace").decode(encoding))

    def copy(self, piece: bytes) -> None:
        """The bytes of an answer as they are; a terminal gets their text, without control characters."""
        if self.is_terminal:
            self.write(printable(self._decoder.decode(piece), lines=True))
            return
        with self._guard():
            self._stream.flush()
            self._stream.buffer.write(piece)

    def flush(self) -> None:
        with self._guard():
            self._stream.flush()

    def close(self) -> None:
        with self._guard():
            if self.name:
                self._stream.close()
            else:
                self._stream.flush()

    @contextmanager
    def _guard(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            if not self.name:
                raise
            raise UsageError(f"{self.name} cannot be written: {error.strerror}") from error


def standard_output() -> Sink:
    return Sink(sys.stdout)


def file_sink(path: str) -> Sink:
    """A new file, or one that is written anew, for its owner only. Raises UsageError."""
    try:
        descriptor = os.open(Path(path).expanduser(), os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise UsageError(f"{path} cannot be written: {error.strerror}") from error
    return Sink(open(descriptor, "w", encoding="utf-8", errors="backslashreplace", newline=""), path)
