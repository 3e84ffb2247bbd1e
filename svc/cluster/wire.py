"""The format of a message between nodes: headers and body <-> values (spec: replication §2). No sockets, no clock, no engine.

    message = Message(last_lsn=9, previous=5, incarnation=b"8 bytes.", body=encode_body({}, transactions))
    publish(subject, message.body, headers=message.headers())
    head, body = read_head(headers), decode_body(data)

Whatever bytes arrive, they are read or are a WireError. What is unpacked has a limit, and nothing is allocated for what a length only claims.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from threading import local
from typing import Any

import msgspec
from zstandard import ZstdCompressor, ZstdDecompressor, ZstdError, frame_content_size

from svc.errors import PeerError
from svc.store.writing.remote_transaction import RemoteEntry, RemoteTransaction

FORMAT = 1
INCARNATION_BYTES = 8
COMPRESS_ABOVE = 600  # bytes of a body: a smaller one would save less than it costs
BATCH = 1 << 16  # bytes of whole transactions that share a message, about
CHUNK = 1 << 19  # bytes of entries in one message, which the engine's limit of 1 MiB has room for
MAX_BODY = 1 << 20  # bytes, unpacked. Senders stay about below CHUNK
MAX_NAMES = 1 << 23  # bytes of the names of attributes in an entry that comes in pieces: as strings they take up to 30 times as many
MAX_LSN = (1 << 63) - 1
_LEVEL = 1  # of Zstandard

F, L, P, I, C, B = "F", "L", "P", "I", "C", "B"  # noqa: E741 - names of headers
_NUMBER = re.compile(r"0|[1-9][0-9]{0,18}", re.ASCII)
_INCARNATION = re.compile(r"[0-9a-f]{16}", re.ASCII)
_FORMER = re.compile(r"([0-9a-f]{16}) (0|[1-9][0-9]{0,18})", re.ASCII)
_CHUNK = re.compile(r"([1-9][0-9]{0,8})(?:/([1-9][0-9]{0,8}))?", re.ASCII)


class WireError(PeerError):
    """A message that is not what nodes send each other, or is not the one that must follow. Nothing of it may be applied."""


class UnknownFormat(WireError):
    """A newer version of svc has written the message: it can be read after an upgrade."""


class _Place(msgspec.Struct, gc=False, frozen=True):
    last_lsn: int  # L: a node that has applied this message has all up to it
    previous: int  # P: L of the message before it
    incarnation: bytes  # I: in which these LSNs count
    chunk: int = 0  # C: from 1 on, if there are several for one transaction; 0: it is whole
    chunks: int = 0  # how many there are, as the last one says; 0: more follow


class Head(_Place, frozen=True, kw_only=True):
    """What the headers of a message say. All LSNs are those of the origin."""

    former: tuple[bytes, int] | None = None  # B: the incarnation before this one, and the LSN up to which both are the same


class Message(Head, frozen=True):
    """One message, ready to be published."""

    body: bytes = b""

    def headers(self) -> dict[str, str]:
        found = {F: _FORMAT_TEXT, L: str(self.last_lsn), P: str(self.previous), I: self.incarnation.hex()}
        if self.chunk:
            found[C] = f"{self.chunk}/{self.chunks}" if self.chunks else str(self.chunk)
        if self.former is not None:
            found[B] = f"{self.former[0].hex()} {self.former[1]}"
        return found


_FORMAT_TEXT = str(FORMAT)


class Body(msgspec.Struct, array_like=True, gc=False):
    """Either `transactions`, or `definitions`: name of a table -> its definition, for those that have changed. Before it applies what follows the receiver
    makes a table that it does not have, and adds attributes and indexes that its own lacks; what that has beside stays. It may see one again.

    `piece`: of an entry that is larger than a chunk, its encoded bytes or the next of them; `left`: how many of them are in the chunks to come.
    """

    definitions: dict[str, bytes]
    transactions: list[RemoteTransaction]
    piece: bytes = b""
    left: int = 0


class _Codecs(local):
    """Of one thread: each does one thing at a time, and gives up the interpreter lock for it."""

    def __init__(self) -> None:
        self.compress = ZstdCompressor(level=_LEVEL).compress
        self.decompress = ZstdDecompressor().decompress


_codecs = _Codecs()
_encode = msgspec.msgpack.Encoder().encode
_decode_body = msgspec.msgpack.Decoder(Body).decode
_decode_parts = msgspec.msgpack.Decoder(tuple[int, str, bytes, bytes | None, msgspec.Raw, bytes | None]).decode  # of a RemoteEntry
_decode_names = msgspec.msgpack.Decoder(tuple[str, ...]).decode
_ZSTANDARD = b"\x28\xb5\x2f\xfd"  # a frame begins with it, and no MessagePack array does

# What msgspec raises for bytes that are not what they should be; the last two: text that is not UTF-8, and lists in lists without end
_DAMAGE = (msgspec.MsgspecError, ValueError, RecursionError)


def encode_body(definitions: Mapping[str, bytes], transactions: Iterable[Any], piece: bytes = b"", left: int = 0) -> bytes:
    """`transactions`: RemoteTransactions, or tuples of the same members. O(bytes)."""
    data = _encode((definitions, transactions, piece, left) if piece else (definitions, transactions))
    if len(data) > COMPRESS_ABOVE:
        packed: bytes = _codecs.compress(data)
        if len(packed) < len(data):
            return packed
    return data


def encode_entry(entry: Any) -> bytes:
    """A RemoteEntry, or a tuple of all of its members, as the pieces of it are joined."""
    return _encode(entry)


def read_head(headers: Mapping[str, str] | None) -> Head:
    """Raises UnknownFormat, and WireError if they are not those of a message. Headers that are not known are ignored."""
    if headers is None:
        raise WireError("The message has no headers")
    if headers.get(F) != _FORMAT_TEXT:
        said = headers.get(F)
        if isinstance(said, str) and _NUMBER.fullmatch(said):
            raise UnknownFormat(f"The message has format {said}, this version of svc knows {FORMAT}: upgrade this node")
        raise WireError("The message does not say its format")
    last_lsn, previous = _number(headers, L), _number(headers, P)
    incarnation = headers.get(I)
    if not isinstance(incarnation, str) or not _INCARNATION.fullmatch(incarnation):
        raise WireError("The message does not say in which incarnation its origin wrote it")
    chunk = chunks = 0
    said = headers.get(C)
    if said is not None:
        found = _CHUNK.fullmatch(said) if isinstance(said, str) else None
        if found is None:
            raise WireError("The message does not say which chunk it is")
        chunk, chunks = int(found[1]), int(found[2] or 0)
        if chunks and chunks != chunk:
            raise WireError("Only the last chunk says how many there are")
    former = None
    said = headers.get(B)
    if said is not None:
        found = _FORMER.fullmatch(said) if isinstance(said, str) else None
        if found is None or int(found[2]) > MAX_LSN:
            raise WireError("The message does not say where its incarnation began")
        former = bytes.fromhex(found[1]), int(found[2])
    if last_lsn < previous or (chunk and not chunks and last_lsn != previous):
        raise WireError(f"The message cannot lead from LSN {previous} to {last_lsn}")
    return Head(last_lsn, previous, bytes.fromhex(incarnation), chunk, chunks, former=former)


def _number(headers: Mapping[str, str], name: str) -> int:
    said = headers.get(name)
    if isinstance(said, str) and _NUMBER.fullmatch(said) and (number := int(said)) <= MAX_LSN:
        return number
    raise WireError(f"The message has no usable header {name}")


def decode_body(data: bytes) -> tuple[Body, int]:
    """(what `encode_body` was given, bytes of it unpacked). Raises WireError. Nothing is said of the values yet: `assembly` looks at these."""
    if data[:4] == _ZSTANDARD:
        try:
            if not 0 <= frame_content_size(data) <= MAX_BODY:
                raise WireError(f"The body of the message would be larger than {MAX_BODY:,} bytes, or does not say how large")
            data = _codecs.decompress(data, allow_extra_data=False)
        except ZstdError:
            raise WireError("The body of the message is damaged")
    if len(data) > MAX_BODY:
        raise WireError(f"The body of the message is larger than {MAX_BODY:,} bytes")
    try:
        return _decode_body(data), len(data)
    except _DAMAGE:
        raise WireError("The body of the message is damaged")


def decode_entry(data: bytes) -> RemoteEntry:
    """The entry whose pieces have been joined. Raises WireError."""
    try:
        kind, table, key, value, names, mqtt = _decode_parts(data)
        if len(names) <= MAX_NAMES:
            return RemoteEntry(kind, table, key, value, _decode_names(names), mqtt)
    except _DAMAGE:
        pass
    raise WireError("An entry that came in pieces is damaged")
