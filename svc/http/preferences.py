"""The preferences of a client for its answer, parsed once for each header block (spec: http §7.1; RFC 7240)."""

from __future__ import annotations

from copy import copy

from svc.content.content_type import ContentType
from svc.content.registry import ContentTypes
from svc.errors import NotAcceptable
from svc.http.compression import Compression, choice_of
from svc.http.conditional import READ_CONDITIONS
from svc.messages import HeaderBlock


class Preferences:
    """Kept in the memo of the header block, and parsed again when the content types have changed.

    `coding`: name of the preferred content coding, None = identity. `writer`: the best type that the client accepts; None if it accepts none of ours,
    then `refusal` is the message. `threshold`: bytes of a body above which it may be compressed. `explain`: `Prefer: explain`, the plan instead of the
    records. `counts`: `Prefer: count=exact`. `events`: the client accepts `text/event-stream`. `page`: it is a person's browser, which gets pages.
    """

    __slots__ = (
        "coding",
        "conditional",
        "counts",
        "events",
        "explain",
        "generation",
        "page",
        "refusal",
        "threshold",
        "type_pair",
        "writer",
    )

    def __init__(self, block: HeaderBlock, types: ContentTypes, compression: Compression) -> None:
        fields = block.fields
        self.generation = types.generation
        self.conditional = not READ_CONDITIONS.isdisjoint(fields)
        coding = choice_of(block).coding
        self.coding = None if coding is None else coding.name
        self.threshold = compression.threshold_for(block)
        asked = parse_prefer(fields["prefer"]) if "prefer" in fields else {}
        self.explain = "explain" in asked
        self.counts = asked.get("count") == "exact"
        self.refusal = compression.refusal(block) or ""
        self.page = not self.refusal and types.prefers_page(fields.get("accept"))
        self.events = not self.page and types.prefers_events(fields.get("accept"))
        self.writer: ContentType | None = None
        self.type_pair = ("Content-Type", "")
        if self.refusal:
            return
        try:
            self.writer = types.writer(fields.get("accept"))
            self.type_pair = ("Content-Type", self.writer.content_type)
        except NotAcceptable as error:
            self.refusal = error.message

    def without_conditions(self) -> Preferences:
        """A copy for the same request without conditions."""
        same = copy(self)
        same.conditional = False
        return same


def preferences_of(block: HeaderBlock, types: ContentTypes, compression: Compression) -> Preferences:
    preferences: Preferences | None = block.memo.get("rest")
    if preferences is None or preferences.generation != types.generation:
        preferences = block.memo["rest"] = Preferences(block, types, compression)
    return preferences


def parse_prefer(value: str) -> dict[str, str]:
    """The preferences in a `Prefer` field, their names in lower case; of several of one name the first counts (RFC 7240 §2).

    >>> parse_prefer('respond-async, count="exact", Explain; foo="a,b", count=none')
    {'respond-async': '', 'count': 'exact', 'explain': ''}
    """
    found: dict[str, str] = {}
    for preference in value.split(","):
        name, _, given = preference.partition(";")[0].partition("=")
        name = name.strip().lower()
        if name and '"' not in name:
            found.setdefault(name, given.strip().strip('"'))
    return found
