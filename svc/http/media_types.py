"""Parts of a `Content-Type` field: media type, parameters, charset (RFC 9110 §8.3)."""

from __future__ import annotations

import re

from svc.content.texts import maybe_charset
from svc.content.values import replace_lone_surrogates
from svc.errors import BadBody
from svc.store.values.conversion import printable

# Parameters are read generously, as senders write them. Nothing is matched in two ways: the time is linear.
_TOKEN = r"[!#$%&'+\-.^_`|~0-9A-Za-z]++"
_CONTENT_TYPE = re.compile(rf"{_TOKEN}/{_TOKEN}[ \t]*+(?:;[ \t]*+(?:[^\s;,\"]++(?:\"[^\"]*+\")?+)?+[ \t]*+)*+")


def media_type_of(content_type: str | None) -> str:
    return "" if content_type is None else content_type.partition(";")[0].strip().lower()


def check_content_type(content_type: str) -> None:
    """Raise BadBody if the value of a `Content-Type` field is not a media type: taken for an unknown type it would make the body raw content.

    >>> check_content_type('text/csv; charset="utf-8"; header=present;')
    >>> check_content_type("application/json charset=utf-8")
    Traceback (most recent call last):
    ...
    svc.errors.BadBody: Content-Type "application/json charset=utf-8" is no media type, as application/json; charset=utf-8 is
    """
    if _CONTENT_TYPE.fullmatch(content_type) is None:
        what = "names several types" if "," in content_type else "is no media type, as application/json; charset=utf-8 is"
        raise BadBody(f'Content-Type "{printable(content_type[:100])}" {what}')


def parameters_of(content_type: str) -> dict[str, str]:
    """The parameters of a media type, names in lower case, without quotes.

    >>> parameters_of('text/csv; Charset="utf-8"; header=present')
    {'charset': 'utf-8', 'header': 'present'}
    """
    found = {}
    for part in content_type.split(";")[1:]:
        name, mark, value = part.partition("=")
        if mark:
            found[name.strip().lower()] = value.strip().strip('"')
    return found


def split_charset(content_type: str) -> tuple[str, str]:
    """(the type with its parameters but without charset, the charset in lower case, default utf-8)."""
    charset = "utf-8"
    kept = []
    for part in content_type.split(";"):
        name, _, value = part.strip().partition("=")
        if name.lower() == "charset":
            charset = value.strip().strip('"').lower() or charset
        elif part.strip():
            kept.append(part.strip())
    return "; ".join(kept), charset


def blob_type(content_type: str | None) -> str | None:
    """The type of an uploaded blob. GET answers `text/plain` with its default charset; a PUT with that charset is the same type."""
    if content_type is not None and split_charset(content_type) == ("text/plain", "utf-8"):
        return "text/plain"
    return content_type


def encode_text(text: str, content_type: str) -> tuple[bytes, str]:
    """(a body, its type) for a string that is sent as `content_type`: in the charset that the type names, once. UTF-8 where it names none, which a
    `text` type then says, and where it names one that is unknown or lacks a character of the string. Parts of surrogate pairs are replaced, as in JSON.

    >>> encode_text("\u00e9", "text/plain; charset=latin-1"), encode_text("\u00e9", "text/css"), encode_text("1", "application/sql")
    ((b'\\xe9', 'text/plain; charset=latin-1'), (b'\\xc3\\xa9', 'text/css; charset=utf-8'), (b'1', 'application/sql'))
    >>> encode_text("\u20ac", "text/plain; charset=latin-1; format=flowed")
    (b'\\xe2\\x82\\xac', 'text/plain; format=flowed; charset=utf-8')
    >>> encode_text("a\\ud800", "text/plain; charset=utf-16")
    (b'a\\xef\\xbf\\xbd', 'text/plain; charset=utf-8')
    """
    kept, charset = split_charset(content_type)
    codec = maybe_charset(charset)
    if codec is not None and codec != "utf_8":
        try:
            return text.encode(codec), content_type
        except UnicodeEncodeError:
            pass
    try:
        body = text.encode()
    except UnicodeEncodeError:
        body = replace_lone_surrogates(text).encode()
    is_named = kept[:5].lower() == "text/" or "charset" in parameters_of(content_type)
    return body, f"{kept}; charset=utf-8" if is_named else kept
