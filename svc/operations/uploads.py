"""Files that callers have sent for a load that follows: kept for an hour below `<rootPath>/tmp`, where every process of the server finds them.

The name of a file says whose it is and what for: <user>-<purpose>-<id>, the first two as hashes. So nothing has to be kept beside it, and who does not know the
id, or is somebody else, does not find it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from secrets import token_hex

from svc.clock import Clock
from svc.deploying.payloads import Payload, store_payload
from svc.errors import ClientError, NotFound, Overloaded
from svc.operations.job_records import UPLOADS
from svc.store.backup.watch import Watch

MOST_BYTES = 64 << 20  # of one
KEPT_SECONDS = 3600.0
OF_A_USER = 4  # after which the oldest of theirs goes
ALL_BYTES = 1 << 30  # of all users
MOST_FILES = 1000
_ID_LENGTH = 32
_TAKEN = ".taken"  # behind the name of one that is being loaded


@dataclass(frozen=True, slots=True)
class Purpose:
    """Whose a file is, and what it is for. `holder`: what the caller has to name besides."""

    user: str
    holder: str
    database: str
    table: str

    @property
    def owner(self) -> str:
        return sha256(self.user.encode(errors="replace")).hexdigest()[:16]

    @property
    def prefix(self) -> str:
        text = "\0".join((self.user, self.holder, self.database, self.table))
        return f"{self.owner}-{sha256(text.encode(errors='replace')).hexdigest()[:32]}-"


class Uploads:
    """All of an installation, of which this process has made some. Everything blocks."""

    def __init__(self, root: Path, clock: Clock) -> None:
        self._directory = root.joinpath(*UPLOADS)
        self._clock = clock
        self._own: set[str] = set()  # ids of those that this process has made

    def add(self, payload: Payload, purpose: Purpose) -> tuple[str, int]:
        """(its id, its bytes). Raises 413, Overloaded, NoSpace, ValidationError."""
        if len(payload.data) > (MOST_BYTES * 4 // 3 + 4096 if payload.is_text else MOST_BYTES):
            raise _too_long()
        self._directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.remove_old()
        found = self._found()
        mine = sorted((time, name) for name, _, time in found if name.startswith(purpose.owner))
        for _, name in mine[: max(0, len(mine) - OF_A_USER + 1)]:
            self._remove(name)
            found = [each for each in found if each[0] != name]
        if len(found) >= MOST_FILES or sum(size for _, size, _ in found) + len(payload.data) > ALL_BYTES:
            raise Overloaded("Too many files wait to be loaded, try again later")
        upload_id = token_hex(_ID_LENGTH // 2)
        path = self._directory / (purpose.prefix + upload_id)
        size = store_payload(payload, path, Watch()).size
        if size > MOST_BYTES:
            path.unlink()
            raise _too_long()
        now = self._clock.wall()
        os.utime(path, (now, now))
        self._own.add(upload_id)
        return upload_id, size

    def find(self, upload_id: str, purpose: Purpose) -> Path:
        """Raises NotFound."""
        path = self._directory / (purpose.prefix + upload_id)
        if len(upload_id) != _ID_LENGTH or not upload_id.isalnum() or not upload_id.isascii() or not self._is_kept(path):
            raise NotFound("The file is not there any more: it is kept for an hour, and until it is loaded. Send it once more")
        return path

    def take(self, upload_id: str, purpose: Purpose) -> Path:
        """Where it is from now on: nobody else finds it. Raises NotFound."""
        path = self.find(upload_id, purpose)
        taken = path.with_name(path.name + _TAKEN)
        try:
            path.rename(taken)
        except FileNotFoundError:  # another one was faster
            return self.find(upload_id, purpose)
        return taken

    def give_back(self, taken: Path) -> None:
        with suppress(OSError):
            taken.rename(taken.with_name(taken.name.removesuffix(_TAKEN)))

    def remove_old(self) -> None:
        """Those that nobody has loaded for an hour."""
        before = self._clock.wall() - KEPT_SECONDS
        for name, _, time in self._found():
            if time < before:
                self._remove(name)

    def remove_own(self) -> None:
        """The process ends."""
        for name, _, _ in self._found():
            if name.removesuffix(_TAKEN)[-_ID_LENGTH:] in self._own:
                self._remove(name)

    def _is_kept(self, path: Path) -> bool:
        try:
            return path.stat().st_mtime >= self._clock.wall() - KEPT_SECONDS
        except OSError:
            return False

    def _found(self) -> list[tuple[str, int, float]]:
        """(name, bytes, time) of each file."""
        return list(self._iter_found())

    def _iter_found(self) -> Iterator[tuple[str, int, float]]:
        with suppress(FileNotFoundError), os.scandir(self._directory) as entries:
            for entry in entries:
                with suppress(FileNotFoundError):
                    about = entry.stat(follow_symlinks=False)
                    yield entry.name, about.st_size, about.st_mtime

    def _remove(self, name: str) -> None:
        with suppress(OSError):
            (self._directory / name).unlink()


def _too_long() -> ClientError:
    return ClientError(f"A file may have {MOST_BYTES >> 20} MiB", 413)
