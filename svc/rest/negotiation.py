"""Which representation a client gets (contract: http §7.1; RFC 9110 §12).

A `Writer` is one type we can write. The best is the one with the highest product of the client's quality and ours; ties go to the earlier.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from svc.errors import NotAcceptable


@dataclass(frozen=True, slots=True)
class Writer:
    """`media_type`: what `Accept` must match; `content_type`: what is sent."""

    media_type: str
    quality: float
    content_type: str = ""


JSON = Writer("application/json", 0.8, "application/json")
WRITERS: Sequence[Writer] = (JSON,)
ANY_QUALITY = 0.5  # of `*/*`, which means JSON


def parse_accept(accept: str) -> list[tuple[str, float]]:
    """`Accept` as (media range in lower case, client quality); unreadable parts are skipped, a bad q counts as 1."""
    ranges: list[tuple[str, float]] = []
    for part in accept.split(","):
        name, *parameters = part.split(";")
        media_range = name.strip().lower()
        if not media_range:
            continue
        quality = 1.0
        for parameter in parameters:
            key, _, value = parameter.partition("=")
            if key.strip().lower() == "q":
                try:
                    quality = min(1.0, max(0.0, float(value.strip())))
                except ValueError:
                    quality = 1.0
        ranges.append((media_range, quality))
    return ranges


def choose_writer(accept: str | None, writers: Sequence[Writer] = WRITERS) -> Writer:
    """The writer for an `Accept` field (None = JSON). Raises NotAcceptable (406) listing what there is."""
    if accept is None:
        return JSON
    ranges = parse_accept(accept)
    if not ranges:
        return JSON
    best: Writer | None = None
    best_product = 0.0
    for writer in writers:
        family = writer.media_type.partition("/")[0] + "/*"
        specificity = -1
        product = 0.0
        for media_range, quality in ranges:
            if media_range == writer.media_type:
                level, ours = 2, writer.quality
            elif media_range == family:
                level, ours = 1, writer.quality
            elif media_range == "*/*" and writer is JSON:
                level, ours = 0, ANY_QUALITY
            else:
                continue
            if level > specificity:  # the most specific range decides (RFC 9110 §12.5.1)
                specificity, product = level, quality * ours
        if product > best_product:
            best, best_product = writer, product
    if best is None:
        raise NotAcceptable(f"No acceptable type; supported are {', '.join(w.media_type for w in writers)}")
    return best
