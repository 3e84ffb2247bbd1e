"""`svc log`: the last lines of a file, and those that follow."""

import io
import os
import random
from pathlib import Path
from threading import Event

import pytest

from svc.cli import log_tail, main
from svc.cli.log_tail import Tail
from svc.config.document import write_document


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in [name for name in os.environ if name.upper().startswith(("SVC_", "LOGGING_"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("ROOTPATH", str(tmp_path))
    write_document(tmp_path / "svc-config.yaml", {})
    (tmp_path / "log").mkdir()
    return tmp_path / "log" / "svc.log"


def test_the_last_lines(file: Path, capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    file.write_bytes(b"".join(b"line %d\n" % number for number in range(100)))
    assert main(["log"]) == 0
    assert capsysbinary.readouterr().out == b"".join(b"line %d\n" % number for number in range(60, 100))
    assert main(["log", "-n", "2"]) == 0
    assert capsysbinary.readouterr().out == b"line 98\nline 99\n"
    assert main(["log", "-n", "0"]) == 0
    assert capsysbinary.readouterr().out == b""


def test_what_is_the_end_does_not_depend_on_blocks(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    random_ = random.Random(3)
    for _ in range(200):
        monkeypatch.setattr(log_tail, "BLOCK", random_.choice([1, 2, 3, 7, 100]))
        data = b"".join(random_.choice([b"a", b"\n", b"bc"]) for _ in range(random_.randrange(20)))
        file.write_bytes(data)
        lines = random_.randrange(5)
        with Tail(file, lines) as tail:
            expected = b"".join(data.splitlines(keepends=True)[-lines:] if lines else [])
            assert b"".join(iter(tail.read, b"")) == expected, (data, lines)


def test_lines_that_follow_also_when_the_file_is_rotated_or_cut_off(file: Path) -> None:
    file.write_bytes(b"a\nb\n")
    with Tail(file, 1) as tail:
        assert tail.read() == b"b\n"
        assert tail.read() == b""
        with file.open("ab") as stream:
            stream.write(b"c\n")
        assert tail.read() == b"c\n"
        with file.open("ab") as stream:
            stream.write(b"d\n")
        file.rename(file.with_name("old.log"))
        assert tail.read() == b"d\n", "what the old one has is shown first"
        assert tail.read() == b""
        file.write_bytes(b"e\n")
        assert tail.read() == b"e\n"
        os.truncate(file, 0)
        assert tail.read() == b""
        with file.open("ab") as stream:
            stream.write(b"f\n")
        assert tail.read() == b"f\n"


def test_following_ends_with_the_keyboard(file: Path, monkeypatch: pytest.MonkeyPatch, capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    file.write_bytes(b"a\n")
    waits = iter([b"b\n", b""])

    def wait(self: Event, seconds: float) -> None:
        data = next(waits)
        if not data:
            raise KeyboardInterrupt
        with file.open("ab") as stream:
            stream.write(data)

    monkeypatch.setattr(Event, "wait", wait)
    assert main(["log", "-f"]) == 0
    assert capsysbinary.readouterr().out == b"a\nb\n"


def test_a_terminal_is_not_commanded(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    file.write_bytes(b"a\x1b[2J\xff\n")
    monkeypatch.setattr("sys.stdout", shown := Terminal())
    assert main(["log"]) == 0
    assert shown.getvalue() == "a\\x1b[2J\ufffd\n"


def test_without_a_log(file: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert main(["log"]) == 1
    assert capsys.readouterr().err == f"Error: there is no log at {file}\n"
    monkeypatch.setenv("LOGGING_FILE", "false")
    assert main(["log"]) == 1
    assert capsys.readouterr().err.endswith("; logging.file is false\n")
    assert main(["log", "--ROOTPATH", str(tmp_path / "none")]) == 1
    assert "svc is not installed" in capsys.readouterr().err


@pytest.mark.parametrize("words", [["-n", "x"], ["-n", "-1"], ["-x"], ["more"]])
def test_what_is_not_understood(words: list[str], file: Path) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["log", *words])
    assert ended.value.code == 2
