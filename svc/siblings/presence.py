"""Which processes work with a data directory: each holds the lock of a file of its own (flock(2)), which the kernel releases however it ends.

    <identity>       locked by that process as long as it lives. Content: JSON, `Notice`, with spaces up to NOTICE_BYTES; then its `SleepNumber`
    <identity>.sock  where it listens (or elsewhere, if that path would be too long for a socket)
    .<identity>      the first of these before it is locked

A file gets its name when it is locked: so one that is not is of a process that has ended, and may be removed by any other at any time.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import suppress
from fcntl import LOCK_EX, LOCK_NB, LOCK_SH, flock
from pathlib import Path

import msgspec

from svc.clock import Clock
from svc.root.socket_path import make_private_directory, socket_path
from svc.siblings.sleep import SleepNumber

NOTICE_BYTES = 1024
_IDENTITY = re.compile(r"\d+-\d+-[0-9a-f]{8}", re.ASCII)
_ABANDONED = 60.0  # seconds after which a file that has not got its name belongs to nobody


class Notice(msgspec.Struct, frozen=True):
    """What a process says of itself. `socket`: the path to connect to, below the directory or absolute."""

    number: int
    socket: str


class Presence:
    """This process among those over `directory`. `number`: of this instance; the lowest that is free if none is given."""

    def __init__(self, directory: Path, number: int | None, clock: Clock) -> None:
        """Raises OSError."""
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._directory = directory.resolve()
        self._clock = clock
        self.identity = f"{os.getpid()}-{clock.wall():.0f}-{os.urandom(4).hex()}"
        self.socket = socket_path(self._directory / f"{self.identity}.sock")
        self.number = self._free_number() if number is None else number
        self._descriptor = self._appear()
        self.sleep = self.sleep_of(self.identity, own=True)
        if number is None:
            self._settle_number()

    def _appear(self) -> int:
        unnamed = self._directory / f".{self.identity}"
        descriptor = os.open(unnamed, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            flock(descriptor, LOCK_EX)
            os.ftruncate(descriptor, NOTICE_BYTES + 8)
            self._write(descriptor)
            unnamed.rename(self._directory / self.identity)
        except BaseException:
            os.close(descriptor)
            unnamed.unlink(missing_ok=True)
            raise
        return descriptor

    def _write(self, descriptor: int) -> None:
        socket = str(self.socket) if self._listens_elsewhere else self.socket.name
        text = msgspec.json.encode(Notice(self.number, socket))
        os.pwrite(descriptor, text.ljust(NOTICE_BYTES), 0)

    def _free_number(self) -> int:
        taken = {notice.number for _, notice in self.others()}
        return next(number for number in range(len(taken) + 1) if number not in taken)

    def _settle_number(self) -> None:
        """Two that start at once see each other by now: the one whose identity is lower keeps the number."""
        while any(notice.number == self.number and identity < self.identity for identity, notice in self.others()):
            self.number = self._free_number()
            self._write(self._descriptor)

    @property
    def _listens_elsewhere(self) -> bool:
        return self.socket.parent != self._directory

    def place_socket(self) -> Path:
        """The path to listen at, in a directory that nobody else may use. Raises OSError."""
        if self._listens_elsewhere:
            make_private_directory(self.socket.parent)
        return self.socket

    def path_of(self, notice: Notice) -> Path:
        """Where another process listens."""
        return self._directory / notice.socket

    def sleep_of(self, identity: str, *, own: bool = False) -> SleepNumber:
        """Raises OSError and ValueError."""
        return SleepNumber(self._directory / identity, NOTICE_BYTES, own=own)

    def is_alive(self, identity: str) -> bool:
        """Whether the process of this identity lives; False for a text that is none."""
        if identity == self.identity:
            return True
        if _IDENTITY.fullmatch(identity) is None:
            return False
        try:
            descriptor = os.open(self._directory / identity, os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            return False
        try:
            return _is_locked(descriptor)
        finally:
            os.close(descriptor)

    def others(self) -> Iterator[tuple[str, Notice]]:
        """(identity, what it says of itself) of each other process that lives. Removes what those that have ended left."""
        for name in os.listdir(self._directory):
            if name == self.identity:
                continue
            if _IDENTITY.fullmatch(name) is not None:
                notice = self._find(self._directory / name)
                if notice is not None:
                    yield name, notice
            elif name.startswith(".") or name.endswith(".sock"):
                self._remove_left(name)

    def _find(self, path: Path) -> Notice | None:
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            return None
        try:
            lives = _is_locked(descriptor)
            notice = msgspec.json.decode(os.pread(descriptor, NOTICE_BYTES, 0), type=Notice)
        except msgspec.DecodeError:  # it is being written
            return None
        finally:
            os.close(descriptor)
        if lives:
            return notice
        for left in (self.path_of(notice), path):  # the socket first: without the file nobody knows of it
            with suppress(OSError):
                left.unlink()
        return None

    def _remove_left(self, name: str) -> None:
        """What a process has left that was killed at its start or at its end."""
        path = self._directory / name
        owner = name.removeprefix(".").removesuffix(".sock")
        with suppress(OSError):
            if not self.is_alive(owner) and self._clock.wall() - path.stat().st_mtime > _ABANDONED:
                path.unlink()

    def close(self) -> None:
        """The others see from now on that this process has ended. Harmless when done."""
        if self._descriptor >= 0:
            for path in (self.socket, self._directory / self.identity):
                with suppress(OSError):
                    path.unlink()
            self.sleep.close()
            os.close(self._descriptor)
            self._descriptor = -1


def _is_locked(descriptor: int) -> bool:
    try:
        flock(descriptor, LOCK_SH | LOCK_NB)
    except BlockingIOError:
        return True
    return False
