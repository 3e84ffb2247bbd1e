"""svc.apps.compiled: the code of a module is read again when its file has changed, and only then."""

import os
from pathlib import Path
from types import CodeType

import pytest

from svc.apps import compiled
from svc.clock import SYSTEM_CLOCK, FakeClock


def load(path: Path, text: str | None = None) -> tuple[CodeType | None, int]:
    """(the code, how often it was read)"""
    count = 0

    def read() -> CodeType | None:
        nonlocal count
        count += 1
        return None if text is None else compile(text, str(path), "exec")

    return compiled.code_of(str(path), read), count


def age(path: Path, seconds: float) -> None:
    """Give it a time so long ago."""
    changed = int((SYSTEM_CLOCK.wall() - seconds) * 1e9)
    os.utime(path, ns=(changed, changed))


@pytest.fixture(autouse=True)
def later(monkeypatch: pytest.MonkeyPatch) -> None:
    """All files have been on the disk for an hour."""
    monkeypatch.setattr(compiled, "SYSTEM_CLOCK", FakeClock(wall=SYSTEM_CLOCK.wall() + 3600.0))


def test_the_code_of_a_file_that_has_not_changed_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "a.py"
    path.write_text("x = 1\n")
    age(path, 10.0)
    first, count = load(path, "x = 1\n")
    assert (first is not None, count) == (True, 1)
    assert load(path, "x = 1\n") == (first, 0)
    age(path, 5.0)
    assert load(path, "x = 2\n")[1] == 1
    path.write_text("x = 345\n")
    age(path, 5.0)
    assert load(path, "x = 345\n")[1] == 1


def test_a_file_that_is_overwritten_with_its_size_and_time_is_read_again(tmp_path: Path) -> None:
    """As a copy of a reproducible build leaves it."""
    path = tmp_path / "a.py"
    for text in ("x = 1\n", "x = 2\n"):
        path.write_text(text)
        os.utime(path, ns=(1, 1))
        assert load(path, text)[1] == 1


def test_a_file_that_was_changed_a_moment_ago_may_change_once_more_unseen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiled, "TICK", 1e9)  # however slow the test is
    path = tmp_path / "a.py"
    path.write_text("x = 1\n")
    age(path, 1.0)
    assert load(path, "x = 1\n")[1] == 1
    assert load(path, "x = 2\n")[1] == 1


def test_what_is_compiled_ahead_is_not_read_again(tmp_path: Path) -> None:
    path = tmp_path / "a.py"
    path.write_text("x = 1\n")
    age(path, 1.0)
    compiled.compile_ahead(path)
    code, count = load(path)
    assert count == 0 and code is not None and code.co_filename == str(path)


def test_what_cannot_be_compiled_or_is_not_there_is_left_to_the_load(tmp_path: Path) -> None:
    path = tmp_path / "a.py"
    for content in (b"x = (\n", b"\xff\xfe\x00", b"x = " + b"(" * 500 + b")" * 500):
        path.write_bytes(content)
        age(path, 1.0)
        compiled.compile_ahead(path)
        assert load(path) == (None, 1)
    path.unlink()
    compiled.compile_ahead(path)
    assert load(path) == (None, 1)


def test_only_so_much_is_kept(tmp_path: Path) -> None:
    for number in range(3):
        path = tmp_path / f"{number}.py"
        path.write_text("x = 1\n")
        age(path, 1.0)
        before, compiled.MAX_KEPT = compiled.MAX_KEPT, 2
        try:
            compiled.compile_ahead(path)
        finally:
            compiled.MAX_KEPT = before
    assert len(compiled._kept) <= 2
