"""Archives as they were sent with a deployment: decoded into files, kept for a while (spec: deployment §2)."""

from __future__ import annotations

import binascii
import hashlib
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from svc.deploying.unpacking import remove_tree, written_fault
from svc.errors import ValidationError
from svc.store.backup.watch import Watch

PIECE = 1 << 18  # bytes or characters decoded at a time: a fraction of a millisecond
BAD_BASE64 = "'payload' must be an archive, base64 or raw bytes"

_WHITE = b" \t\r\n"


@dataclass(frozen=True)
class Payload:
    """An archive as it was sent. `is_text`: base64."""

    data: memoryview
    is_text: bool

    @classmethod
    def of(cls, value: str | bytes | bytearray | memoryview) -> Payload:
        """Raises ValidationError for what cannot be base64."""
        if isinstance(value, str):
            if not value.isascii():
                raise ValidationError(BAD_BASE64)
            return cls(memoryview(value.encode("ascii")), True)
        return cls(memoryview(value), False)


@dataclass(frozen=True)
class StoredPayload:
    path: Path
    size: int
    hash: str


def store_payload(payload: Payload, path: Path, watch: Watch) -> StoredPayload:
    """Write an archive to a new file. Raises ValidationError, NoSpace, ServerError, Stopped; then there is no file."""
    digest = hashlib.sha256()
    size = 0
    try:
        with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600), "wb") as file:
            for piece in _decoded(payload.data) if payload.is_text else _cut(payload.data):
                digest.update(piece)
                size += len(piece)
                file.write(piece)
                watch.add(len(piece))
    except OSError as error:
        remove_tree(path)
        raise written_fault(error, path) from error
    except BaseException:
        remove_tree(path)
        raise
    if not size:
        remove_tree(path)
        raise ValidationError("'payload' is not allowed to be empty")
    return StoredPayload(path, size, digest.hexdigest())


def _cut(data: memoryview) -> Iterator[memoryview]:
    for start in range(0, len(data), PIECE):
        yield data[start : start + PIECE]


def _decoded(data: memoryview) -> Iterator[bytes]:
    """Base64, also that of URLs, with or without padding and white space."""
    rest = b""
    for piece in _cut(data):
        text = rest + bytes(piece).translate(_TABLE, _WHITE)
        whole = len(text) // 4 * 4
        if whole == len(text):
            whole -= 4  # the last one may be padded
        text, rest = text[: max(whole, 0)], text[max(whole, 0) :]
        if b"=" in text:
            raise ValidationError(BAD_BASE64)
        yield _binary(text)
    yield _binary(rest + b"=" * (-len(rest) % 4))


def _binary(text: bytes) -> bytes:
    try:
        return binascii.a2b_base64(text, strict_mode=True) if text else b""
    except (binascii.Error, ValueError):
        raise ValidationError(BAD_BASE64) from None


_TABLE = bytes.maketrans(b"-_", b"+/")
