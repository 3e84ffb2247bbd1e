"""Conditional requests (spec: http §4.2; RFC 9110 §13)."""

from __future__ import annotations

from datetime import UTC
from email.utils import formatdate, parsedate_to_datetime
from typing import Literal

from svc.errors import PreconditionFailed
from svc.messages import HeaderBlock
from svc.resources.resource import WRITE_CONDITIONS
from svc.store import Precondition
from svc.store.entity_tags import MERGED, version_tag

_LAST_SECOND = 253_402_300_799.0  # of the year 9999: later dates cannot be said

Tags = tuple[str, ...] | Literal["*"]
CODINGS = ("br", "zstd", "gzip")  # content codings; their names are suffixes of entity tags


def parse_tags(value: str, *, weak_counts: bool) -> Tags:
    """The opaque tags of `If-Match` / `If-None-Match` without quotes, or "*". Malformed members match nothing and are left out."""
    if value.strip() == "*":
        return "*"
    tags: list[str] = []
    for member in value.split(","):
        tag = member.strip()
        weak = tag.startswith("W/")
        if weak:
            tag = tag[2:]
        if len(tag) >= 2 and tag[0] == tag[-1] == '"' and (weak_counts or not weak):
            tags.append(tag[1:-1])
    return tuple(tags)


def parse_date(value: str | None) -> float | None:
    """An HTTP date as seconds since the epoch, None if absent or not a date (then it is ignored)."""
    if value is None:
        return None
    try:
        parsed = parsedate_to_datetime(value)
    except (ValueError, TypeError, OverflowError):
        return None
    if parsed.tzinfo is None:
        parsed = parsed.replace(tzinfo=UTC)
    try:
        return parsed.timestamp()
    except (OverflowError, ValueError):
        return None


def http_date(seconds: float) -> str:
    return formatdate(seconds, usegmt=True)


def coded_tag(tag: str, coding: str) -> str:
    """The entity tag of a representation with a content coding, from the tag of the one without (spec: http §8; RFC 9110 §8.8.3.3)."""
    return f"{tag}-{coding}"


def with_identities(tags: Tags) -> Tags:
    """The tags, and for each that has the suffix of a coding or of a view the one without it: either names the same version.

    >>> with_identities(("Qnm3baqAAAA-gzip", "a", "Qnm3baqAAAA.31323334-gzip"))
    ('Qnm3baqAAAA-gzip', 'Qnm3baqAAAA', 'a', 'Qnm3baqAAAA.31323334-gzip', 'Qnm3baqAAAA')
    """
    if tags == "*":
        return tags
    found: list[str] = []
    for tag in tags:
        found.append(tag)
        identity, _, coding = tag.rpartition("-")
        version = version_tag(identity if coding in CODINGS else tag)
        if version != tag:
            found.append(version)
    return tuple(found)


def matched_tag(block: HeaderBlock, tag: str, version_ms: float, coding: str | None = None) -> str | None:
    """Evaluate the conditions of GET or HEAD. None: send the content; else the answer is 304. Raises PreconditionFailed (412).

    `tag`: without a coding; `coding`: the one that the client prefers. Returned is the entity tag that the client has and the answer has to have, ""
    if the conditions name none (`*`, a date).
    """
    fields = block.fields
    if_match = fields.get("if-match")
    if if_match is not None:
        tags = with_identities(parse_tags(if_match, weak_counts=False))
        if tags != "*" and version_tag(tag) not in tags:
            raise PreconditionFailed("If-Match: the record has another version")
    elif "if-unmodified-since" in fields:
        since = parse_date(fields["if-unmodified-since"])
        if since is not None and version_ms // 1000 > since:
            raise PreconditionFailed("If-Unmodified-Since: the record was changed later")
    if_none_match = fields.get("if-none-match")
    if if_none_match is not None:
        if len(if_none_match) == 13 and if_none_match[1:-1] == tag:  # the usual form: one strong tag
            return tag
        if tag not in if_none_match and "*" not in if_none_match:
            return None
        tags = parse_tags(if_none_match, weak_counts=True)
        if tags == "*":
            return ""
        of_coding = None if coding is None else coded_tag(tag, coding)
        for wanted in (of_coding, tag, *[coded_tag(tag, name) for name in CODINGS]):
            if wanted in tags:
                return wanted
        return None
    if "if-modified-since" in fields:
        since = parse_date(fields["if-modified-since"])
        return "" if since is not None and version_ms // 1000 <= since and MERGED not in tag else None
    return None


READ_CONDITIONS = WRITE_CONDITIONS | {"if-modified-since"}


def write_precondition(block: HeaderBlock) -> Precondition | None:
    """The precondition of a write from its header fields (`If-Match` and the like), tested when it commits; None without any."""
    fields = block.fields
    if WRITE_CONDITIONS.isdisjoint(fields):
        return None
    if_match = fields.get("if-match")
    if_none_match = fields.get("if-none-match")
    unmodified = fields.get("if-unmodified-since") if if_match is None else None
    return Precondition(
        if_match=None if if_match is None else with_identities(parse_tags(if_match, weak_counts=False)),
        if_none_match=None if if_none_match is None else with_identities(parse_tags(if_none_match, weak_counts=True)),
        if_unmodified_since=parse_date(unmodified),
    )


def last_modified(version_ms: float) -> str:
    """Of a record that a node with a very wrong clock has written: the last date that can be said."""
    return http_date(min(version_ms // 1000, _LAST_SECOND))
