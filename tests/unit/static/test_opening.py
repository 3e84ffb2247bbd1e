"""Opening files below a directory, and sharing them."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from svc.connection.file_range import FileRange
from svc.errors import Overloaded
from svc.static.opening import OpenFiles, open_beneath
from tests.support.leaks import open_files


def everything(name: str) -> bool:
    return True


def opened(path: Path) -> int:
    return sum(target.startswith(f"{path}/") for target in open_files(os.getpid()))


def test_answers_that_send_one_file_share_it(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("hello")
    (tmp_path / "link").symlink_to("a")
    files = OpenFiles()
    first, second, third = (files.open(str(tmp_path), name, everything) for name in ("a", "a", "link"))
    assert first is second is third is not None
    assert opened(tmp_path) == len(files) == 1
    first.release()
    part = FileRange(first, 1, 5)
    second.release()
    assert b"".join(part) == b"ello"
    assert opened(tmp_path) == len(files) == 0


def test_a_part_that_nothing_sends_closes_its_file(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("hello")
    files = OpenFiles()
    file = files.open(str(tmp_path), "a", everything)
    assert file is not None
    part = FileRange(file, 0, 5)
    assert opened(tmp_path) == 1
    del part, file
    assert opened(tmp_path) == 0


def test_a_file_that_has_changed_is_another_one(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("hello")
    files = OpenFiles()
    first = files.open(str(tmp_path), "a", everything)
    (tmp_path / "b").write_text("other")
    (tmp_path / "b").rename(tmp_path / "a")
    second = files.open(str(tmp_path), "a", everything)
    assert first is not None and second is not None and first is not second
    assert (os.pread(first.descriptor, 9, 0), os.pread(second.descriptor, 9, 0)) == (b"hello", b"other")
    first.release()
    second.release()
    assert opened(tmp_path) == 0


def test_too_many_files_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = OpenFiles()
    monkeypatch.setattr(files, "_most", lambda: 2)
    for name in "abc":
        (tmp_path / name).write_text(name)
    kept = [files.open(str(tmp_path), name, everything) for name in "aab"]
    with pytest.raises(Overloaded):
        files.open(str(tmp_path), "c", everything)
    brief = files.open(str(tmp_path), "c", everything, 1)
    assert brief is not None, "one that is closed again at once"
    brief.release()
    assert opened(tmp_path) == 2
    for file in kept:
        assert file is not None
        file.release()
    assert opened(tmp_path) == 0


@pytest.mark.parametrize("code", [errno.EMFILE, errno.ENFILE])
def test_without_descriptors_the_request_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int) -> None:
    def fail(*arguments: object, **options: object) -> int:
        raise OSError(code, "no more")

    monkeypatch.setattr(os, "open", fail)
    with pytest.raises(Overloaded):
        open_beneath(str(tmp_path), "a", everything)


def test_a_failing_disk_is_no_missing_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*arguments: object, **options: object) -> int:
        raise OSError(errno.EIO, "broken")

    monkeypatch.setattr(os, "open", fail)
    with pytest.raises(OSError, match="broken"):
        open_beneath(str(tmp_path), "a", everything)


def test_a_directory_that_becomes_a_link_while_it_is_opened_leads_nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The moment between resolving a link and opening what it leads to."""
    app, secret = tmp_path / "app", tmp_path / "secret"
    (app / "real").mkdir(parents=True)
    secret.mkdir()
    (app / "real" / "a").write_text("public")
    (secret / "a").write_text("secret")
    (app / "link").symlink_to("real")
    resolve = os.path.realpath

    def resolve_and_turn(path: str) -> str:
        found = resolve(path)
        (app / "real" / "a").unlink()
        (app / "real").rmdir()
        (app / "real").symlink_to(secret)
        return found

    monkeypatch.setattr(os.path, "realpath", resolve_and_turn)
    assert open_beneath(str(app), "link/a", everything) is None


def test_where_a_link_leads_is_asked(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("hello")
    (tmp_path / "link").symlink_to("a")
    asked: list[str] = []
    assert open_beneath(str(tmp_path), "link", lambda name: bool(asked.append(name))) is None
    assert asked == ["a"]
