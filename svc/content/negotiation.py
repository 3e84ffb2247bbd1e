"""Content negotiation: the best content type for an `Accept` field (spec: http §7.1; RFC 9110 §12.5.1).

The best is the one with the highest product of the client's quality and ours; ties go to the earlier entry. Of several ranges that match a type,
the most specific decides, so `q=0` on a type excludes it whatever the wildcards say.
"""

from __future__ import annotations

from collections.abc import Iterable

from svc.content.content_type import ContentType

FALLBACK = "*/*"  # the entry that answers a client with no preference


def parse_accept(accept: str) -> list[tuple[str, float, bool]]:
    """`Accept` as (media range in lower case, client quality, whether `sequence=true` is asked for); empty parts are skipped, a bad q counts as 1.

    >>> parse_accept("text/csv, application/*;q=0.5")
    [('text/csv', 1.0, False), ('application/*', 0.5, False)]
    """
    ranges = []
    for part in accept.split(","):
        name, *parameters = part.split(";")
        media_range = name.strip().lower()
        if not media_range:
            continue
        quality, sequence = 1.0, False
        for parameter in parameters:
            key, _, value = parameter.partition("=")
            key = key.strip().lower()
            if key == "q":
                quality = _quality(value)
            elif key == "sequence":
                sequence = value.strip().strip('"').lower() == "true"
        ranges.append((media_range, quality, sequence))
    return ranges


def _quality(text: str) -> float:
    try:
        quality = float(text)
    except ValueError:
        return 1.0
    return min(1.0, max(0.0, quality)) if quality == quality else 1.0


def choose(accept: str, types: Iterable[tuple[str, ContentType]]) -> tuple[ContentType, bool] | None:
    """(the best of `types` for an `Accept` field that is not empty, whether as a sequence); None: nothing fits.

    `types`: (name in the registry, type) in its order; the one named `*/*` is what that range means.
    """
    wanted: dict[str, tuple[float, bool]] = {}
    for media_range, quality, sequence in parse_accept(accept):
        known = wanted.get(media_range)
        if known is None or quality > known[0]:
            wanted[media_range] = quality, sequence
    if not wanted:
        wanted[FALLBACK] = 1.0, False
    any_type = wanted.get(FALLBACK)
    candidates = [(name, kind) for name, kind in types if kind.writes]
    fallback = next((kind for name, kind in candidates if name == FALLBACK), None)
    if any_type is not None and fallback is not None:
        specific = _specific(fallback.name, wanted)
        if specific is not None and specific[0] == 0.0:
            fallback = None  # the client accepts anything but that
    best: ContentType | None = None
    best_product = 0.0
    best_sequence = False
    for name, kind in candidates:
        ours = kind.q
        found = _specific(name, wanted) if name != FALLBACK else None
        if found is None and (kind is fallback or (fallback is None and name != FALLBACK)):
            found = any_type
        if found is not None and found[0] * ours > best_product:
            best, best_product, best_sequence = kind, found[0] * ours, found[1]
    return None if best is None else (best, best_sequence)


def _specific(name: str, wanted: dict[str, tuple[float, bool]]) -> tuple[float, bool] | None:
    return wanted.get(name) or wanted.get(name.partition("/")[0] + "/*")
