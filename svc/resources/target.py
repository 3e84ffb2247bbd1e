"""What a request addresses inside a resource (contract: http §1.2, §1.3; applications §5.3)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote_to_bytes

from svc.errors import ClientError

EXTENSIONS = {"json": "application/json", "cbor": "application/cbor", "msgpack": "application/x-msgpack", "csv": "text/csv"}


@dataclass(slots=True)
class RequestTarget:
    """A record (`id`), a property of one, a collection (all, or the ids below `prefix`), or the resource itself (`is_root`).

    `id_text` is the decoded rest of the path; `id` the key it stands for, set by the resource that knows its key type.
    """

    id_text: str | None = None
    id: Any = None
    is_collection: bool = False
    is_root: bool = False
    prefix: str | None = None  # with its final slash: "a/b/"
    property: str | None = None
    extension: str | None = None  # a media type chosen by extension
    query: str | None = None  # the raw query string
    rights: Any = None  # what the caller may do here, set when the request is authorised


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


def parse_target(relative_url: str, query: str | None, properties: Mapping[str, Any]) -> RequestTarget:
    """Split what follows a resource's address. `properties`: names that a final `.name` may select.

    Extensions and properties are found on the raw text, so `%2E` is a dot that means neither (http §1.1).
    """
    target = RequestTarget(query=query)
    rest = relative_url
    dot = rest.rfind(".")
    if dot >= 0 and "/" not in rest[dot:]:
        name = rest[dot + 1 :]
        if name in EXTENSIONS:
            target.extension = EXTENSIONS[name]
            rest = rest[:dot]
            dot = rest.rfind(".")
            name = rest[dot + 1 :] if dot >= 0 and "/" not in rest[dot:] else ""
        if dot > 1 and name and (name in properties or ("%" in name and decode_path(name) in properties)):
            target.property = decode_path(name)
            rest = rest[:dot]
    if rest == "":
        if not query:  # `DELETE /Product?` with a query that turned out empty must not empty the table
            target.is_root = True
        else:
            target.is_collection = True
    elif rest == "/":
        target.is_collection = True
    else:
        if "//" in rest:
            raise ClientError("The path has an empty segment", code="BAD_PATH")
        text = decode_path(rest[1:]) if "%" in rest else rest[1:]
        if rest.endswith("/"):
            target.is_collection = True
            target.prefix = text
        else:
            target.id_text = text
    return target
