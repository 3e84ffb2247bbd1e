"""Conditions of GET and HEAD for a file (RFC 9110 §13)."""

from __future__ import annotations

from collections.abc import Mapping

from svc.errors import PreconditionFailed
from svc.http.conditional import CODINGS, coded_tag, parse_date, parse_tags

_CONDITIONS = frozenset(("if-none-match", "if-modified-since", "if-match", "if-unmodified-since"))
STRONG_SECONDS = 1  # how much older than its answer a date is that stands for one version only (RFC 9110 §8.8.2.2)


def is_unchanged(fields: Mapping[str, str], tag: str, identity: str, modified: int) -> bool:
    """Whether the client has this representation: 304. `tag`: of the representation, `identity`: of the file, without quotes; `modified`: in seconds.

    Raises PreconditionFailed (412).
    """
    if _CONDITIONS.isdisjoint(fields):
        return False
    wanted = fields.get("if-match")
    if wanted is not None:
        tags = parse_tags(wanted, weak_counts=False)
        if tags != "*" and {tag, identity, *(coded_tag(identity, coding) for coding in CODINGS)}.isdisjoint(tags):
            raise PreconditionFailed("If-Match: the file has another version")
    elif (since := parse_date(fields.get("if-unmodified-since"))) is not None and modified > since:
        raise PreconditionFailed("If-Unmodified-Since: the file was changed later")
    known = fields.get("if-none-match")
    if known is not None:
        tags = parse_tags(known, weak_counts=True)
        return tags == "*" or tag in tags
    since = parse_date(fields.get("if-modified-since"))
    return since is not None and modified <= since


def range_applies(fields: Mapping[str, str], tag: str, modified: int, now: float) -> bool:
    """`If-Range`: whether the client's part is of this representation. True without the field."""
    condition = fields.get("if-range")
    if condition is None:
        return True
    wanted = condition.strip()
    if wanted[:1] == '"' or wanted[:2] == "W/":  # a weak tag never compares as strong
        return wanted == f'"{tag}"'
    date = parse_date(wanted)
    return date is not None and date == modified and now - modified >= STRONG_SECONDS
