"""Entity tags of records, and the preconditions that test them (spec: http §4.1, §4.2).

The strong entity tag of a record is its version, the 8 bytes that the record's header has, in base64url. Behind it are a tilde and a hash of the content, if a
write of another node has changed that under the same version; then a dot and a hash of the names for a caller who does not see all attributes.

A `Precondition` is what a request's If-Match, If-None-Match and If-Unmodified-Since say; it is checked inside the transaction that writes.
"""

from __future__ import annotations

from binascii import b2a_base64
from dataclasses import dataclass
from functools import lru_cache
from hashlib import blake2b
from struct import Struct
from typing import Literal

from svc.errors import PreconditionFailed, RecordExists
from svc.store.values.records import IS_MERGED, raw_payload, version_of

URL_SAFE = bytes.maketrans(b"+/", b"-_")
_HASH = 9  # characters of a hash and what is before it
_WITH_VIEW = 11 + _HASH, 11 + 2 * _HASH  # of a tag with a view
MERGED = "~"
_pack_version = Struct(">d").pack


def etag_of(raw: bytes) -> str:
    """The strong entity tag of a stored record: 11 characters, or 20 if it was merged, without quotes (spec: http §4.1).

    >>> etag_of_version(1767225600000.0)
    'Qnm3baqAAAA'
    """
    tag = b2a_base64(raw[1:9])[:-2].translate(URL_SAFE).decode()
    return tag if not raw[0] & IS_MERGED else f"{tag}{MERGED}{blake2b(raw_payload(raw), digest_size=4).hexdigest()}"


@lru_cache(1024)
def _view_of(visible: frozenset[str]) -> str:
    names = "\0".join(sorted(visible)).encode("utf-8", "surrogatepass")
    return "." + blake2b(names, digest_size=4).hexdigest()  # which does not look like the suffix of a coding


def tag_of_view(raw: bytes, visible: frozenset[str] | None) -> str:
    """The entity tag of what a caller sees of a record, `visible`: the names of these attributes, None: all. Else a cache that has asked whether what it
    keeps still holds would be told so after the right to read an attribute was taken away."""
    return etag_of(raw) if visible is None else etag_of(raw) + _view_of(visible)


def version_tag(tag: str) -> str:
    """The tag of the whole record, from that of a view; others as they are.

    >>> version_tag("Qnm3baqAAAA.31323334"), version_tag("Qnm3baqAAAA"), version_tag("v1.2"), version_tag("Qnm3baqAAAA~35363738.31323334")
    ('Qnm3baqAAAA', 'Qnm3baqAAAA', 'v1.2', 'Qnm3baqAAAA~35363738')
    """
    return tag[:-_HASH] if len(tag) in _WITH_VIEW and tag[-_HASH] == "." else tag


def etag_of_version(version: float) -> str:
    return b2a_base64(_pack_version(version))[:-2].translate(URL_SAFE).decode()


Tags = tuple[str, ...] | Literal["*"]


@dataclass(frozen=True, slots=True)
class Precondition:
    """What must hold of the stored record for a write to happen (spec: http §4.2), tested inside the transaction that writes.

    Tags are entity tags without quotes; `if_match` holds strong ones only. `if_unmodified_since`: seconds since the epoch, which says nothing of a record that
    was merged. `if_version`: the version, whatever was merged into it.
    """

    if_match: Tags | None = None
    if_none_match: Tags | None = None
    if_unmodified_since: float | None = None
    must_not_exist: bool = False
    if_version: float | None = None

    def check(self, raw: bytes | None) -> None:
        """Raise RecordExists or PreconditionFailed unless the record `raw`, None if there is none, satisfies it."""
        if self.must_not_exist and raw is not None:
            raise RecordExists
        if self.if_match is not None:
            if raw is None or (self.if_match != "*" and etag_of(raw) not in self.if_match):
                raise PreconditionFailed("The record does not match If-Match")
        elif (
            self.if_unmodified_since is not None
            and raw is not None
            and (version_of(raw) // 1000 > self.if_unmodified_since or raw[0] & IS_MERGED)
        ):
            raise PreconditionFailed("The record was modified after If-Unmodified-Since")
        if self.if_version is not None and (raw is None or version_of(raw) != self.if_version):
            raise PreconditionFailed("The record does not match If-Match")
        if self.if_none_match is not None and raw is not None and (self.if_none_match == "*" or etag_of(raw) in self.if_none_match):
            raise PreconditionFailed("The record matches If-None-Match")


CREATE = Precondition(must_not_exist=True)
