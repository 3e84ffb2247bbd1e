"""A copy of another node's database on its way into this one's: a file (spec: replication §11).

It is written while the other node holds a snapshot, whole and checked before anything of it is put in place. From then on nothing is needed of that node.

    "svccopy1"   8 bytes
    id           8 bytes
    head         its length in 4 bytes, and a `CopyHead` as MessagePack
    frames       the length of a piece in 4 bytes, and the piece

While it is not complete its name ends in `.part`.
"""

from __future__ import annotations

import os
import secrets
from pathlib import Path

import msgspec

from svc.store.writing.copied_write import BadCopy
from svc.store.writing.copy_apply import CopyCheck, CopyHead

MAGIC = b"svccopy1"
ID_BYTES = 8
MOST_PIECE = 272 << 20  # bytes
_LENGTH = 4
_decode_head = msgspec.msgpack.Decoder(CopyHead).decode
_encode = msgspec.msgpack.Encoder().encode


class SpoolWriter:
    """`add` what comes, then `finish`; or `close`. Used by one thread at a time. `size`: bytes so far."""

    def __init__(self, path: Path, head: CopyHead) -> None:
        """Raises OSError."""
        self.size = 0
        self._path = path
        self._part = path.with_name(path.name + ".part")
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._part.unlink(missing_ok=True)
        self._file = open(os.open(self._part, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600), "wb")  # noqa: SIM115
        data = _encode(head)
        self._file.write(b"".join((MAGIC, secrets.token_bytes(ID_BYTES), len(data).to_bytes(_LENGTH), data)))
        self._check = CopyCheck()
        self._waiting = bytearray()

    def add(self, data: bytes) -> None:
        """The next bytes of the frames. Raises BadCopy, OSError."""
        self._waiting += data
        self.size += len(data)
        while len(self._waiting) >= _LENGTH:
            length = int.from_bytes(self._waiting[:_LENGTH])
            if length > MOST_PIECE:
                raise BadCopy(f"A piece of the copy has {length:,} bytes")
            if len(self._waiting) < _LENGTH + length:
                break
            self._check.take(bytes(self._waiting[_LENGTH : _LENGTH + length]))
            del self._waiting[: _LENGTH + length]
        self._file.write(data)

    def finish(self) -> None:
        """It is complete, and on disk. Raises BadCopy, OSError."""
        if self._waiting or not self._check.is_complete:
            raise BadCopy("The copy is incomplete")
        self._file.flush()
        os.fsync(self._file.fileno())
        self._file.close()
        os.replace(self._part, self._path)
        descriptor = os.open(self._path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def close(self) -> None:
        """What is not complete is removed."""
        self._file.close()
        self._part.unlink(missing_ok=True)


class Spool:
    """A complete one. `size`: bytes."""

    def __init__(self, path: Path) -> None:
        """Raises OSError, FileNotFoundError; BadCopy for a damaged one, or one of another version."""
        self._file = path.open("rb")
        try:
            self.size = os.fstat(self._file.fileno()).st_size
            if self._file.read(len(MAGIC)) != MAGIC:
                raise BadCopy("The file of a copy is none of this version of svc")
            self.id = self._file.read(ID_BYTES)
            length = int.from_bytes(self._file.read(_LENGTH))
            try:
                self.head = _decode_head(self._file.read(length))
            except (msgspec.MsgspecError, ValueError) as error:
                raise BadCopy("The file of a copy is damaged") from error
        except BaseException:
            self._file.close()
            raise
        self._places = [self._file.tell()]

    def piece(self, number: int) -> bytes | None:
        """None: there is no such. Raises OSError, BadCopy."""
        while len(self._places) <= number:
            length = self._length(self._places[-1])
            if length is None:
                return None
            self._places.append(self._places[-1] + _LENGTH + length)
        length = self._length(self._places[number])
        if length is None:
            return None
        data = self._file.read(length)
        if len(data) != length:
            raise BadCopy("The file of a copy is damaged")
        return data

    def place(self, number: int) -> int:
        """Bytes before the piece with this number, as far as that is known."""
        return self._places[min(number, len(self._places) - 1)]

    def _length(self, place: int) -> int | None:
        self._file.seek(place)
        data = self._file.read(_LENGTH)
        return None if len(data) < _LENGTH else int.from_bytes(data)

    def close(self) -> None:
        self._file.close()
