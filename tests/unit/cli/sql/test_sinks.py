"""Where results go."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from svc.cli.arguments import UsageError
from svc.cli.sql.sinks import Sink, file_sink, standard_output


class Terminal(io.TextIOWrapper):
    def isatty(self) -> bool:
        return True


def written(stream: io.TextIOWrapper) -> bytes:
    stream.flush()
    assert isinstance(stream.buffer, io.BytesIO)
    return stream.buffer.getvalue()


def test_a_pipe_gets_bytes_as_they_are() -> None:
    stream = io.TextIOWrapper(io.BytesIO(), "utf-8", newline="")
    sink = Sink(stream)
    sink.write("a\n")
    sink.copy(b"\x1b\xff\r\n")
    sink.write("b")
    sink.flush()
    assert written(stream) == b"a\n\x1b\xff\r\nb"
    assert (sink.is_terminal, sink.width, sink.has_color) == (False, None, False)


def test_a_terminal_gets_no_control_characters(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "77")
    monkeypatch.setenv("NO_COLOR", "1")
    stream = Terminal(io.BytesIO(), "utf-8", newline="")
    sink = Sink(stream)
    sink.copy("a,\u00e4\r".encode()[:-2])
    sink.copy("\u00e4\r".encode()[1:])
    sink.copy(b'\n"\x1b[2J"\n\xff')
    assert written(stream).decode() == 'a,ä\n"\\x1b[2J"\n\ufffd'
    assert (sink.is_terminal, sink.width, sink.has_color) == (True, 77, False)


def test_what_an_encoding_does_not_have() -> None:
    stream = io.TextIOWrapper(io.BytesIO(), "ascii")
    Sink(stream).write("a─…\n")
    assert written(stream) == b"a\\u2500\\u2026\n"


def test_a_file_for_its_owner_only(tmp_path: Path) -> None:
    path = tmp_path / "out.csv"
    sink = file_sink(str(path))
    sink.write("a\ud800\n")
    sink.copy(b"b\r\n")
    sink.close()
    assert path.read_bytes() == b"a\\ud800\nb\r\n"
    assert path.stat().st_mode & 0o777 == 0o600
    assert sink.name == str(path)


def test_a_file_that_cannot_be_written(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot be written: No such file"):
        file_sink(str(tmp_path / "none" / "out"))
    sink = file_sink("/dev/full")
    with pytest.raises(UsageError, match="/dev/full cannot be written: No space left"):
        sink.write("x" * 100_000)
    sink.close()


def test_standard_output_stays_open(capsys: pytest.CaptureFixture[str]) -> None:
    sink = standard_output()
    sink.write("a\n")
    sink.close()
    print("b")
    assert capsys.readouterr().out == "a\nb\n"
