"""Conditional requests (contract: http §4.2; RFC 9110 §13)."""

from __future__ import annotations

from datetime import UTC, datetime
from email.utils import formatdate, parsedate_to_datetime
from typing import Literal

from svc.errors import PreconditionFailed
from svc.messages import HeaderBlock
from svc.store import Precondition


def parse_tags(value: str, *, weak_counts: bool) -> tuple[str, ...] | Literal["*"]:
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
        moment = parsedate_to_datetime(value)
    except (ValueError, TypeError, OverflowError):
        return None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    try:
        return moment.timestamp()
    except (OverflowError, ValueError):
        return None


def http_date(seconds: float) -> str:
    return formatdate(seconds, usegmt=True)


def is_unchanged(block: HeaderBlock, tag: str, version_ms: float) -> bool:
    """For GET and HEAD of something with a validator: True = 304. Raises PreconditionFailed (412)."""
    fields = block.fields
    if_match = fields.get("if-match")
    if if_match is not None:
        tags = parse_tags(if_match, weak_counts=False)
        if tags != "*" and tag not in tags:
            raise PreconditionFailed("If-Match: the record has another version")
    elif "if-unmodified-since" in fields:
        since = parse_date(fields["if-unmodified-since"])
        if since is not None and version_ms // 1000 > since:
            raise PreconditionFailed("If-Unmodified-Since: the record was changed later")
    if_none_match = fields.get("if-none-match")
    if if_none_match is not None:
        if len(if_none_match) == 13 and if_none_match[1:-1] == tag:  # the usual form: one strong tag
            return True
        tags = parse_tags(if_none_match, weak_counts=True)
        return tags == "*" or tag in tags
    if "if-modified-since" in fields:
        since = parse_date(fields["if-modified-since"])
        return since is not None and version_ms // 1000 <= since
    return False


WRITE_CONDITIONS = frozenset({"if-match", "if-none-match", "if-unmodified-since"})
READ_CONDITIONS = WRITE_CONDITIONS | {"if-modified-since"}


def write_precondition(block: HeaderBlock) -> Precondition | None:
    """What a write to a record must find when it commits, None if it asks for nothing."""
    fields = block.fields
    if WRITE_CONDITIONS.isdisjoint(fields):
        return None
    if_match = fields.get("if-match")
    if_none_match = fields.get("if-none-match")
    unmodified = fields.get("if-unmodified-since") if if_match is None else None
    return Precondition(
        if_match=None if if_match is None else parse_tags(if_match, weak_counts=False),
        if_none_match=None if if_none_match is None else parse_tags(if_none_match, weak_counts=True),
        if_unmodified_since=parse_date(unmodified),
    )


def last_modified(version_ms: float) -> str:
    return http_date(datetime.fromtimestamp(version_ms / 1000, UTC).timestamp())
