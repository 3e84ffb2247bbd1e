"""A log file: batches, rotation by size and age, retention, and files that others move or remove."""

import gzip
import os
import threading
from pathlib import Path
from typing import Any

import pytest

from svc.clock import FakeClock
from svc.logs.files import LARGEST_BATCH, LogFile, Rotation
from svc.logs.lines import timestamp

# What FakeClock shows: 2026-01-01T00:00:00.000Z
NAME = "SVC-2026-01-01T00-00-00.000Z"


def log_file(directory: Path, clock: FakeClock | None = None, **rotation: object) -> LogFile:
    options: dict[str, object] = {"directory": directory, **rotation}
    return LogFile(directory / "svc.log", Rotation(**options), stem="SVC", clock=clock or FakeClock())  # type: ignore[arg-type]


def test_lines_wait_for_the_flush(tmp_path: Path) -> None:
    file = log_file(tmp_path / "log")
    file.append("one")
    file.append("two ü")
    assert not file.path.exists()
    file.flush()
    assert file.path.read_text(encoding="utf-8") == "one\ntwo ü\n"
    assert file.path.stat().st_mode & 0o777 == 0o600
    assert file.path.parent.stat().st_mode & 0o777 == 0o700
    file.close()


def test_a_large_batch_does_not_wait(tmp_path: Path) -> None:
    file = log_file(tmp_path)
    file.append("x" * (LARGEST_BATCH + 1))
    assert file.path.stat().st_size == LARGEST_BATCH + 2
    file.close()


def test_two_instances_append_whole_lines(tmp_path: Path) -> None:
    one, two = log_file(tmp_path), log_file(tmp_path)
    for number in range(3):
        one.append(f"one {number}")
        two.append(f"two {number}")
        one.flush()
        two.flush()
    assert one.path.read_text().splitlines() == [f"{name} {number}" for number in range(3) for name in ("one", "two")]
    one.close()
    two.close()


def test_surrogates_do_not_stop_the_log(tmp_path: Path) -> None:
    file = log_file(tmp_path)
    file.append("bad \udc80")
    file.flush()
    assert file.path.read_bytes() == b"bad \\udc80\n"
    file.close()


def test_a_removed_or_moved_file_is_made_anew(tmp_path: Path) -> None:
    file = log_file(tmp_path)
    file.append("one")
    file.flush()
    file.path.unlink()
    file.append("two")
    file.flush()
    assert file.path.read_text() == "two\n"
    file.path.rename(tmp_path / "moved")
    file.reopen()
    file.append("three")
    file.flush()
    assert file.path.read_text() == "three\n"
    file.close()


def test_a_log_that_cannot_be_written_loses_lines_and_says_so(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "log").write_text("in the way")
    file = log_file(tmp_path / "log")
    file.append("lost 1")
    file.flush()
    file.append("lost 2")
    file.flush()
    assert capfd.readouterr().err.count("svc cannot write its log") == 1
    (tmp_path / "log").unlink()
    file.append("kept")
    file.flush()
    first, second = file.path.read_text().splitlines()
    assert first.endswith("[error]: 2 log entries could not be written")
    assert second == "kept"
    file.close()


def test_rotation_by_size(tmp_path: Path) -> None:
    file = log_file(tmp_path, max_size=10)
    file.append("0123456789")
    assert file.maybe_rotate() == tmp_path / f"{NAME}.log"
    assert (tmp_path / f"{NAME}.log").read_text() == "0123456789\n"
    assert file.maybe_rotate() is None  # nothing there yet
    file.append("small")
    assert file.maybe_rotate() is None
    file.append("larger now")
    assert file.maybe_rotate() == tmp_path / f"{NAME}-1.log"  # in the same millisecond
    file.close()


def test_rotation_by_age_counts_over_restarts(tmp_path: Path) -> None:
    clock = FakeClock()
    file = log_file(tmp_path, clock, interval=60.0)
    file.append(f"{timestamp(clock.wall())} [main/0] [info]: first")
    assert file.maybe_rotate() is None
    file.close()
    clock.advance(59)
    file = log_file(tmp_path, clock, interval=60.0)
    file.append(f"{timestamp(clock.wall())} [main/0] [info]: second")
    assert file.maybe_rotate() is None
    clock.advance(1)
    assert file.maybe_rotate() is not None
    file.close()


def test_a_file_that_was_begun_while_the_clock_was_ahead_is_rotated(tmp_path: Path) -> None:
    clock = FakeClock()
    file = log_file(tmp_path, clock, interval=100.0)
    for ahead, is_rotated in ((30.0, False), (86_400.0, True)):
        clock.step(ahead)
        file.append(f"{timestamp(clock.wall())} [main/0] [info]: first")
        file.flush()
        clock.step(-ahead)
        assert (file.maybe_rotate() is not None) is is_rotated
        file.path.unlink(missing_ok=True)
    file.close()


def test_the_age_of_a_foreign_file_is_its_time(tmp_path: Path) -> None:
    clock = FakeClock()
    file = log_file(tmp_path, clock, interval=60.0)
    file.append("no prefix")
    file.flush()
    os.utime(file.path, (clock.wall() - 61, clock.wall() - 61))
    assert file.maybe_rotate() is not None
    file.close()


@pytest.mark.parametrize("rotation", [{"enabled": False, "max_size": 1}, {}])
def test_no_rotation(tmp_path: Path, rotation: dict[str, Any]) -> None:
    file = log_file(tmp_path, **rotation)
    file.append("0123456789")
    assert file.maybe_rotate() is None
    file.close()


def test_compression(tmp_path: Path) -> None:
    file = log_file(tmp_path / "log", max_size=1, compress=True)
    file.append("text")
    packed = file.maybe_rotate()
    assert packed == tmp_path / "log" / f"{NAME}.log.gz"
    for thread in threading.enumerate():
        if thread.name == "log-compress":
            thread.join()
    assert gzip.decompress(packed.read_bytes()) == b"text\n"
    assert packed.stat().st_mode & 0o777 == 0o600
    assert [path.name for path in packed.parent.iterdir()] == [packed.name]
    file.append("again")
    assert file.maybe_rotate() == tmp_path / "log" / f"{NAME}-1.log.gz"
    for thread in threading.enumerate():
        if thread.name == "log-compress":
            thread.join()
    file.close()


def test_a_rotation_that_fails_leaves_the_log(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    file = LogFile(tmp_path / "svc.log", Rotation(tmp_path / "f" / "g", max_size=1), clock=FakeClock())
    (tmp_path / "f").write_text("in the way")
    file.append("text")
    assert file.maybe_rotate() is None
    assert "cannot rotate" in capfd.readouterr().err
    file.append("more")
    file.flush()
    assert file.path.read_text() == "text\nmore\n"
    file.close()


def test_retention_deletes_only_old_rotated_files_of_this_log(tmp_path: Path) -> None:
    clock = FakeClock()
    file = log_file(tmp_path, clock, retention=100.0)
    old = ["SVC-2025-01-01T00-00-00.000Z.log", "SVC-2025-01-01T00-00-00.000Z-3.log.gz"]
    others = ["http-2025-01-01T00-00-00.000Z.log", "SVC-notes.log", "svc.log", "SVC-2025-01-02T00-00-00.000Z.log"]
    for name in [*old, *others]:
        (tmp_path / name).write_text("x")
        age = 101 if name != others[-1] else 99
        os.utime(tmp_path / name, (clock.wall() - age, clock.wall() - age))
    assert sorted(path.name for path in file.remove_expired()) == sorted(old)
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(others)
    assert log_file(tmp_path / "absent", clock, retention=1.0).remove_expired() == []
