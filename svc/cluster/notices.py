"""What nodes tell each other of where they are: the notice `positions` (spec: replication §7). Whatever bytes arrive, they are read or are a WireError.

A short one says what of the receiver's has been applied. A long one, a hello, also says what its sender has written: who hears it knows what is missing.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from svc.cluster.wire import FORMAT, INCARNATION_BYTES, MAX_LSN, UnknownFormat, WireError

NOTICE_MAX = 512 << 10  # bytes
DATABASES_MAX = 2000  # in one notice; more are told in several
_TEXT_MAX = 255


class Place(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """In the log of a database of one node."""

    incarnation: bytes
    lsn: int


class Notice(msgspec.Struct, omit_defaults=True):
    """`applied`: by name of the database, the place in the receiver's log up to which the sender has applied everything. `log`: the place up to which the
    sender has put its own log into its stream; None: it is no hello. `started`: seconds since 1970, when the sender's replication began."""

    applied: dict[str, Place] = {}
    log: dict[str, Place] | None = None
    version: str = ""
    started: float = 0.0
    format: int = FORMAT


class _Format(msgspec.Struct):
    format: int = FORMAT


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Notice).decode
_decode_format = msgspec.msgpack.Decoder(_Format).decode


def encode_notices(
    applied: Mapping[str, Place], log: Mapping[str, Place] | None = None, version: str = "", started: float = 0.0
) -> list[bytes]:
    """One notice, or several for many databases.

    >>> [decode_notice(data).applied for data in encode_notices({"d": Place(b"12345678", 5)})]
    [{'d': Place(incarnation=b'12345678', lsn=5)}]
    """
    names = sorted({*applied, *(log or ())})
    parts = [set(names[start : start + DATABASES_MAX]) for start in range(0, len(names) or 1, DATABASES_MAX)]
    return [
        _encode(
            Notice(
                {name: place for name, place in applied.items() if name in part},
                None if log is None else {name: place for name, place in log.items() if name in part},
                version,
                started,
            )
        )
        for part in parts
    ]


def decode_notice(data: bytes) -> Notice:
    """Raises WireError, UnknownFormat."""
    if len(data) > NOTICE_MAX:
        raise WireError("a notice is too large")
    try:
        notice = _decode(data)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        notice = None
    if notice is None or notice.format != FORMAT:
        try:
            found = _decode_format(data).format
        except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
            found = FORMAT
        if found != FORMAT:
            raise UnknownFormat(f"a notice has the format {found}")
        raise WireError("a notice cannot be read")
    for place in (*notice.applied.values(), *(notice.log or {}).values()):
        if len(place.incarnation) != INCARNATION_BYTES or not 0 <= place.lsn <= MAX_LSN:
            raise WireError("a notice has an impossible position")
    if len(notice.version) > _TEXT_MAX or not 0 <= notice.started < 1e11:
        raise WireError("a notice cannot be read")
    return notice
