"""What a request addresses inside a resource, and the address of a record (spec: http §1.2, §1.3).

Whether the last segment names a property or a content type is decided on the raw path, before it is percent-decoded: an encoded dot or slash is data.
`id_path` is the inverse of `parse_target`: it escapes just what would be read as something else.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any
from urllib.parse import quote, unquote_to_bytes

from svc.errors import ClientError
from svc.store.values.conversion import is_plain_number

EXTENSIONS = {
    "json": "application/json",
    "cbor": "application/cbor",
    "msgpack": "application/x-msgpack",
    "csv": "text/csv",
    "ndjson": "application/x-ndjson",
}
_NAME_OF_EXTENSION = {media_type: name for name, media_type in EXTENSIONS.items()}


@dataclass(slots=True, init=False)
class RequestTarget:
    """A record (`id`), a property of one, a collection (all, or the ids below `prefix`), or the resource itself (`is_root`).

    `id_text` is the decoded rest of the path; `id` the key it stands for, set by the resource that knows its key type. `raw`: what follows the slash
    behind the resource's address, percent-encoded, without extension and property; None: there is no such slash.
    """

    id_text: str | None
    id: Any
    is_collection: bool
    is_root: bool
    prefix: str | None  # with its final slash: "a/b/"
    property: str | None
    extension: str | None  # a media type chosen by extension
    query: str | None  # the raw query string
    rights: Any  # what the caller may do here, set when the request is authorised
    raw: str | None
    details: Any  # what `api.RequestTarget` adds for application code

    def __init__(self, query: str | None = None) -> None:
        """Nothing but the query. Written out because each request makes one: 0.22 us, with an argument for each field 0.36."""
        self.id_text = self.id = self.prefix = self.property = self.extension = self.rights = self.raw = self.details = None
        self.is_collection = self.is_root = False
        self.query = query


def decode_path(text: str) -> str:
    """Percent-decode once, as UTF-8. Raises ClientError 400 for bad escapes and bad UTF-8."""
    if "%" not in text:
        return text
    at = text.find("%")
    while at >= 0:
        digits = text[at + 1 : at + 3]
        if len(digits) != 2 or not all(c in "0123456789abcdefABCDEF" for c in digits):
            raise ClientError(f"Bad percent-encoding in the path: '{text[at : at + 3]}'", code="BAD_PATH")
        at = text.find("%", at + 1)
    try:
        return unquote_to_bytes(text).decode()
    except UnicodeDecodeError:
        raise ClientError(f"The path is not UTF-8 after percent-decoding: '{text[:100]}'", code="BAD_PATH") from None


def parse_target(relative_url: str, query: str | None, properties: Mapping[str, Any], extensions: bool = True) -> RequestTarget:
    """Split what follows a resource's address. `properties`: names that a final `.name` may select. `extensions`: whether a final `.csv` may choose
    a content type, which is for reading only (spec: http §1.2); else it is a part of the id. Raises ClientError 400.
    """
    target = RequestTarget(query)
    rest = relative_url
    dot = rest.rfind(".")
    if dot >= 0 and "/" not in rest[dot:]:
        name = rest[dot + 1 :]
        if name in EXTENSIONS:
            name = ""
            if extensions:
                target.extension = EXTENSIONS[rest[dot + 1 :]]
                rest = rest[:dot]
                dot = rest.rfind(".")
                name = rest[dot + 1 :] if dot >= 0 and "/" not in rest[dot:] else ""
        if dot > 1 and name and rest[dot - 1] != "/" and (name in properties or ("%" in name and decode_path(name) in properties)):
            target.property = decode_path(name)
            rest = rest[:dot]
    if rest == "":
        if not query:  # `DELETE /Product?` with a query that turned out empty must not empty the table
            target.is_root = True
        else:
            target.is_collection = True
        return target
    target.raw = raw = rest[1:]
    if raw == "":
        target.is_collection = True
        return target
    if "//" in rest:
        raise ClientError("The path has an empty segment", code="BAD_PATH")
    text = decode_path(raw) if "%" in raw else raw
    if raw[-1] == "/":
        target.is_collection = True
        target.prefix = text
    else:
        target.id_text = text
    return target


def whole_text(target: RequestTarget) -> str | None:
    """The id of a record for which the extension of `target` is a part of its key, None without one. Raises ClientError 400."""
    if target.extension is None or target.raw is None:
        return None
    before = target.raw if target.property is None else f"{target.raw}.{quote(target.property, safe='')}"
    return decode_path(f"{before}.{_NAME_OF_EXTENSION[target.extension]}")


def last_name(target: RequestTarget) -> str | None:
    """The last of several raw segments, decoded: what may be a property that is addressed behind a slash (spec: http §2.5). None: there is but one."""
    raw = target.raw
    if target.id_text is None or raw is None:
        return None
    slash = raw.rfind("/")
    return decode_path(raw[slash + 1 :]) if slash > 0 else None


def id_path(key: Any, properties: Mapping[str, Any], *, untyped: bool = False) -> str:
    """What has to follow the address of a resource and a slash to name the record `key`, whatever the key is; the inverse of `parse_target`.

    `untyped`: keys are of no declared type, so that a numeral in the path is a number, and an escaped one the string (`conversion.key_from_text`).

    >>> id_path("a/b c", {}), id_path("x.csv", {}), id_path(("a", 5), {}), id_path("5", {}, untyped=True)
    ('a/b%20c', 'x%2Ecsv', 'a/5', '%35')
    """
    segments: list[str] = []
    for part in key if type(key) is tuple else (key,):
        if type(part) is str:
            segments += [_escaped(segment, untyped) for segment in part.split("/")]
        else:
            number = format(Decimal(repr(part)), "f")  # no exponent: that would be a string
            segments.append(number if type(part) is int or "." in number else f"{number}.0")
    last = segments[-1]
    name = last.rpartition(".")[2]
    if last in (".", "..") or (name != last and (name in EXTENSIONS or decode_path(name) in properties)):
        segments[-1] = last.replace(".", "%2E")
    between = "/"
    if len(segments) > 1 and (decode_path(last) in properties or not {"", ".", ".."}.isdisjoint(segments)):
        between = "%2F"  # behind a slash stands a property, a collection, or what clients resolve before they send it
    return between.join(segments)


def _escaped(segment: str, untyped: bool) -> str:
    if untyped and is_plain_number(segment):
        return escape_first(segment)
    return quote(segment, safe="")


def escape_first(text: str) -> str:
    """`text`, which is percent-encoded, with its first character escaped where it is not yet: the same text, but nothing that is found by its spelling."""
    return text if text[:1] in ("", "%") else f"%{ord(text[0]):02X}{text[1:]}"
