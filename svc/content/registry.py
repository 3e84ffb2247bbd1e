"""`content_types`: every content type by its name, and the best one for a client (spec: http §7.1)."""

from __future__ import annotations

import re
from collections.abc import Iterator, MutableMapping
from copy import copy
from typing import Any

from svc.content.arrow_type import ARROW, ArrowType
from svc.content.cbor_type import CborType
from svc.content.content_type import ContentType
from svc.content.csv_type import CsvType
from svc.content.form_type import FormType
from svc.content.handler_type import HandlerType
from svc.content.json_type import JsonType
from svc.content.msgpack_type import MsgpackType
from svc.content.ndjson_type import NdjsonType
from svc.content.negotiation import FALLBACK, choose, parse_accept
from svc.content.plain_type import EVENT_STREAM, EventStreamType, PlainType
from svc.content.yaml_type import YamlType
from svc.errors import NotAcceptable

PAGE = "text/html"
_READ_AS_IT_IS = frozenset((FALLBACK, "text/plain"))  # browsers in a terminal name the latter beside HTML
_REMEMBERED = 256  # Accept fields; clients use few, when it is full it is cleared
_REMEMBERED_LENGTH = 512  # a longer field is negotiated each time
_media_type = re.compile(r"[!#$%&'*+.^_`|~0-9a-z-]+/[!#$%&'*+.^_`|~0-9a-z-]+").fullmatch


class ContentTypes(MutableMapping[str, Any]):
    """A mapping MIME type -> handler, in the order that decides ties."""

    def __init__(self) -> None:
        self.generation = 0  # grows with each change, so that memos of derived values can be checked
        self._handlers: dict[str, Any] = {}
        self._types: dict[str, ContentType] = {}
        self._writers: dict[str | None, ContentType] = {}  # by Accept field; only successful lookups

    @classmethod
    def built_in(cls) -> ContentTypes:
        """A registry of its own with every type of http §7.1."""
        types = cls()
        msgpack = MsgpackType()
        types["application/json"] = JsonType()
        types["application/cbor"] = CborType()
        types["application/x-msgpack"] = msgpack
        types["application/msgpack"] = msgpack
        types["text/csv"] = CsvType()
        ndjson = NdjsonType()
        types["application/x-ndjson"] = ndjson
        types["application/ndjson"] = ndjson
        types[EVENT_STREAM] = EventStreamType()
        types["text/plain"] = PlainType()
        types["text/yaml"] = YamlType()
        types["application/x-www-form-urlencoded"] = FormType()
        types[ARROW] = ArrowType()
        types[FALLBACK] = _Fallback()
        return types

    # --- the mapping ----------------------------------------------------------------------------------------------------------------

    def __getitem__(self, name: str) -> Any:
        return self._handlers[name.lower()]

    def __setitem__(self, name: str, handler: Any) -> None:
        """Raises ValueError for a name that is not a media type and for a handler that cannot be used."""
        key = name.lower()
        if _media_type(key) is None:
            raise ValueError(f"{name!r} is not a media type")
        if not isinstance(handler, ContentType):
            self._types[key] = HandlerType(key, handler)
        else:
            self._types[key] = handler if key == FALLBACK else handler.under(key)
        self._handlers[key] = handler
        self._changed()

    def __delitem__(self, name: str) -> None:
        key = name.lower()
        del self._handlers[key]
        del self._types[key]
        self._changed()

    def __iter__(self) -> Iterator[str]:
        return iter(self._handlers)

    def __len__(self) -> int:
        return len(self._handlers)

    def _changed(self) -> None:
        self.generation += 1
        self._writers.clear()

    # --- what requests ask ----------------------------------------------------------------------------------------------------------

    def writer(self, accept: str | None) -> ContentType:
        """The type for an `Accept` field; None: the client sent none. Raises NotAcceptable (406), listing what there is."""
        known = self._writers.get(accept)
        return known if known is not None else self._negotiate(accept)

    def _negotiate(self, accept: str | None) -> ContentType:
        found = choose(accept or FALLBACK, self._types.items())
        if found is None:
            names = [name for name, kind in self._types.items() if kind.writes and name != FALLBACK]
            hint = (
                f"; {ARROW} needs pyarrow on the server, the extra 'arrow' of svc"
                if ARROW not in names and ARROW in (accept or "").lower()
                else ""
            )
            raise NotAcceptable(f"No acceptable type; supported are {', '.join(names)}{hint}")
        kind, sequence = found
        if type(kind) is _Fallback:
            named = self._types.get(kind.name)
            kind = named if type(named) is JsonType else kind
        if sequence:
            kind = kind.as_sequence()
        if accept is None or len(accept) <= _REMEMBERED_LENGTH:
            if len(self._writers) >= _REMEMBERED:
                self._writers.clear()
            self._writers[accept] = kind
        return kind

    def prefers_events(self, accept: str | None) -> bool:
        """Whether `text/event-stream` is the best match of an `Accept` field (spec: realtime §3). Only where it is named: a client that accepts `text/*` or
        anything at all does not expect an answer without an end."""
        if accept is None or EVENT_STREAM not in accept.lower():
            return False
        kind = self._types.get(EVENT_STREAM)
        if type(kind) is not EventStreamType:
            return False  # an application has replaced it by another type, which negotiation finds like any other
        offered = copy(kind)
        offered.writes = True
        found = choose(accept, [(name, offered if other is kind else other) for name, other in self._types.items()])
        return found is not None and found[0] is offered

    def prefers_page(self, accept: str | None) -> bool:
        """Whether an `Accept` field is that of a person's browser, which gets pages (spec: http §7.7): it names `text/html`, and no type of data with at
        least its quality. Not where an application writes `text/html` itself."""
        if accept is None or PAGE not in accept.lower():
            return False
        own = self._types.get(PAGE)
        if own is not None and own.writes:
            return False
        ranges = parse_accept(accept)
        if any(name == "*" for name, _, _ in ranges):
            return False  # no media range: what Java's HttpURLConnection sends by itself, `text/html, image/gif, image/jpeg, *; q=.2, */*; q=.2`
        html = max((quality for name, quality, _ in ranges if name == PAGE), default=0.0)
        return html > 0.0 and not any(quality >= html and self._is_data(name) for name, quality, _ in ranges)

    def _is_data(self, name: str) -> bool:
        """Whether a media range names a type that a person does not read as it is."""
        return (name in self._types and name not in _READ_AS_IT_IS) or name.endswith("+json")

    def named(self, media_type: str) -> ContentType | None:
        """The type of a URL's extension; None: no such type is written."""
        kind = self._types.get(media_type)
        return kind if kind is not None and kind.writes else None

    def reader(self, media_type: str) -> ContentType | None:
        """The type that reads bodies of this media type (lower case, without parameters); None: they are raw content (spec: http §7.4)."""
        kind = self._types.get(media_type)
        if kind is None and media_type.startswith("application/") and media_type.endswith("+json"):
            kind = self._types.get("application/json")
        if kind is None and media_type:
            kind = self._types.get(FALLBACK)
        return kind if kind is not None and kind.reads else None


class _Fallback(JsonType):
    """What `*/*` means: JSON, with a quality of its own; it reads nothing under this name."""

    q = 0.5
    reads = False
