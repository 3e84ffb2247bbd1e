"""One log file: whole lines appended, rotation, retention (spec: configuration §5.6).

Several instances append to the same file, so a batch of whole lines is one `write` to a descriptor opened with O_APPEND. Before each write
the name is compared with what is open: a file that was rotated by another instance, or removed by an operator, is opened again. The handlers
of the standard library do neither batches nor names with a time, and rotate on a schedule of their own; hence this class.

A log that cannot be written (full disk, missing right) must not stop the service: lines are dropped and counted, and the number is written
as soon as writing works again.
"""

import errno
import gzip
import os
import re
import shutil
import sys
import threading
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from svc.clock import AHEAD, SYSTEM_CLOCK, Clock
from svc.logs.lines import JSON_START, json_entry, prefix, timestamp

LARGEST_BATCH = 64 << 10
"""Bytes that may wait for the next flush; more are written at once."""

_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z(?=[ \"])")
_ROTATED_TIME = r"\d{4}-\d\d-\d\dT\d\d-\d\d-\d\d\.\d{3}Z(?:-\d+)?\.log(?:\.gz)?"


@dataclass(frozen=True)
class Rotation:
    """When and where to rotate. `interval` and `retention` in seconds, `max_size` in bytes; None: not for this reason."""

    directory: Path
    enabled: bool = True
    compress: bool = False
    interval: float | None = None
    max_size: int | None = None
    retention: float | None = None


class LogFile:
    """Lines waiting in memory and the file they go to. Safe to be used by helper threads; opened at the first write."""

    def __init__(self, path: Path, rotation: Rotation, *, stem: str = "", clock: Clock = SYSTEM_CLOCK) -> None:
        self.path = path
        self.rotation = rotation
        self.stem = stem or path.stem
        self.is_json = False
        """Whether what it says itself is written as JSON."""
        self._clock = clock
        self._lines: list[str] = []
        self._waiting = 0
        self._descriptor = -1
        self._identity = (0, 0)
        self._lost = 0
        self._lock = threading.RLock()

    def append(self, line: str) -> None:
        """Add an entry, without its line end, to the batch."""
        with self._lock:
            self._lines.append(line)
            self._waiting += len(line)
            if self._waiting > LARGEST_BATCH:
                self.flush()

    def give_up_pending(self) -> None:
        """In a forked child: the lines are the parent's to write, and a thread of it may have the lock."""
        self._lock = threading.RLock()
        self._lines, self._waiting = [], 0

    def flush(self) -> None:
        """Write the batch. Never raises: what cannot be written is counted as lost."""
        with self._lock:
            if not self._lines:
                return
            lines, self._lines, self._waiting = self._lines, [], 0
            try:
                self._open_current()
                if self._lost:
                    lines.insert(0, self._entry("error", f"{self._lost} log entries could not be written"))
                self._write(("\n".join(lines) + "\n").encode("utf-8", "backslashreplace"))
                self._lost = 0
            except OSError as error:
                if not self._lost:
                    print(f"svc cannot write its log {self.path}: {error.strerror}", file=sys.__stderr__)
                self._lost += len(lines)

    def _entry(self, level: str, text: str) -> str:
        time = timestamp(self._clock.wall())
        if self.is_json:
            return json_entry(time, "main", 0, level, (), text)
        return f"{time} {prefix('main', 0, level, ())}{text}"

    def _write(self, data: bytes) -> None:
        view = memoryview(data)
        while view:
            view = view[os.write(self._descriptor, view) :]

    def _open_current(self) -> None:
        """Make sure the descriptor is the file that bears our name."""
        if self._descriptor >= 0:
            try:
                status = self.path.stat()
                if (status.st_dev, status.st_ino) == self._identity:
                    return
            except FileNotFoundError:
                pass
            self._close_descriptor()
        self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._descriptor = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
        opened = os.fstat(self._descriptor)
        self._identity = (opened.st_dev, opened.st_ino)

    def _close_descriptor(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def reopen(self) -> None:
        """Write what waits, then open the file by its name again at the next write."""
        with self._lock:
            self.flush()
            self._close_descriptor()

    def close(self) -> None:
        self.reopen()

    # rotation

    def maybe_rotate(self) -> Path | None:
        """Rotate if the file is too large or too old. Returns where the old one went, None if nothing was due.

        Compression runs on a helper thread, which ends by replacing the file with its `.gz`.
        """
        with self._lock:
            self.flush()
            try:
                if not self._is_due():
                    return None
                target = self._rotated_path()
                self._close_descriptor()
                _move(self.path, target)
            except OSError as error:
                print(f"svc cannot rotate its log {self.path}: {error.strerror}", file=sys.__stderr__)
                return None
        if self.rotation.compress:
            threading.Thread(target=_compress, args=(target,), name="log-compress").start()
            return target.with_name(target.name + ".gz")
        return target

    def _is_due(self) -> bool:
        rotation = self.rotation
        if not rotation.enabled or (rotation.max_size is None and rotation.interval is None) or not self.path.exists():
            return False
        size = self.path.stat().st_size
        if rotation.max_size is not None and size > rotation.max_size:
            return True
        if rotation.interval is None or size == 0:
            return False
        age = self._clock.wall() - self._begun()
        return age >= rotation.interval or age < -AHEAD  # it begins with lines of a clock that was ahead

    def _begun(self) -> float:
        """When the first entry was written, so that a restart does not make the file young again; else the file's time."""
        with self.path.open("rb") as stream:
            text = stream.read(200).removeprefix(JSON_START).decode("utf-8", "replace")
        match = _TIME.match(text)
        try:
            return datetime.fromisoformat(match[0]).timestamp() if match else self.path.stat().st_mtime
        except ValueError:
            return self.path.stat().st_mtime

    def _rotated_path(self) -> Path:
        self.rotation.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        base = f"{self.stem}-{timestamp(self._clock.wall()).replace(':', '-')}"
        names = [base] + [f"{base}-{number}" for number in range(1, 1000)]
        for name in names:
            target = self.rotation.directory / f"{name}.log"
            if not target.exists() and not target.with_name(target.name + ".gz").exists():
                return target
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST))

    def remove_expired(self, divisor: float = 1.0) -> list[Path]:
        """Delete rotated files of this log that are older than the retention, divided by `divisor`; returns them."""
        if self.rotation.retention is None or not self.rotation.directory.is_dir():
            return []
        pattern = re.compile(re.escape(self.stem) + "-" + _ROTATED_TIME)
        oldest = self._clock.wall() - self.rotation.retention / divisor
        removed = []
        for path in sorted(self.rotation.directory.iterdir()):
            try:
                if pattern.fullmatch(path.name) and path.stat().st_mtime < oldest:
                    path.unlink()
                    removed.append(path)
            except FileNotFoundError:
                pass  # compressed or deleted meanwhile
        return removed


def _move(source: Path, target: Path) -> None:
    try:
        source.rename(target)
    except OSError as error:
        if error.errno != errno.EXDEV:
            raise
        shutil.move(source, target)


def _compress(path: Path) -> None:
    """Replace a file by its gzip form; after a crash the plain one is still there. Keeps the modification time, which the retention uses."""
    packed = path.with_name(path.name + ".gz")
    part = packed.with_name("." + packed.name + ".part")
    try:
        descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with path.open("rb") as source, open(descriptor, "wb") as sink, gzip.GzipFile(path.name, "wb", 6, sink) as stream:
            shutil.copyfileobj(source, stream, 1 << 20)
        shutil.copystat(path, part)
        part.replace(packed)
        path.unlink()
    except OSError as error:
        part.unlink(missing_ok=True)
        print(f"svc cannot compress its log {path}: {error.strerror}", file=sys.__stderr__)
