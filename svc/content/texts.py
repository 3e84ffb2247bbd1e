"""Text bodies: their charset, and the value of a string by the declared type of its attribute (spec: query §4, http §7.3, §7.4)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from encodings import normalize_encoding
from encodings.aliases import aliases

from svc.content.json_type import decode_json
from svc.errors import BadBody, BadValue
from svc.store.schema import SCALAR_TYPES, Attribute
from svc.store.values.conversion import autoconvert, bad_text, printable, text_to_value

_SHOWN = 40  # characters of a charset's name in a message
# Of the codecs those that decode bytes to text, in linear time and without lone surrogates. Names are looked up here and not by
# codecs.lookup, which remembers every unknown name.
_NO_CHARSETS = frozenset(
    (
        "base64_codec", "bz2_codec", "hex_codec", "idna", "mbcs", "oem", "punycode", "quopri_codec", "raw_unicode_escape", "rot_13",
        "unicode_escape", "utf_7", "uu_codec", "zlib_codec",
    )
)  # fmt: skip
_CHARSETS = {name: codec for name, codec in (aliases | {codec: codec for codec in aliases.values()}).items() if codec not in _NO_CHARSETS}
_TEXT_TYPES = frozenset(("ID", "String", "Bytes"))  # the store reads base64 for Bytes, as in JSON


def maybe_charset(name: str) -> str | None:
    """The codec of a charset's name; None for an unknown name, or a codec that is not a charset."""
    return _CHARSETS.get(normalize_encoding(name[:_SHOWN]).lower())


def charset_of(parameters: Mapping[str, str]) -> str:
    """The codec of the `charset` parameter, UTF-8 if there is none. Raises BadBody for an unknown one."""
    charset = parameters.get("charset") or "utf-8"
    codec = maybe_charset(charset)
    if codec is None:
        raise BadBody(f"Unknown charset: {printable(charset[:_SHOWN])}")
    return codec


def decode_text(body: bytes, parameters: Mapping[str, str]) -> str:
    """The body as a string, without byte order mark. Raises BadBody, with the byte offset."""
    charset = charset_of(parameters)
    try:
        return body.decode(charset).removeprefix("\ufeff")
    except UnicodeError as error:
        at = f" at byte {error.start}" if isinstance(error, UnicodeDecodeError) else ""
        hint = "" if parameters.get("charset") else ": name its charset in the Content-Type, as in text/csv; charset=windows-1252"
        raise BadBody(f"The body is not valid {charset.replace('_', '-')}{at}{hint}") from None


def converter(attribute: Attribute | None) -> Callable[[str], object] | None:
    """A function from a string to a value of this attribute, raising BadValue; None: its type is not declared.

    Lists and structures are JSON.
    """
    if attribute is None or attribute.type == "Any" or not attribute.stored:
        return None if attribute is None or not attribute.elements else lambda text: _from_json(attribute, text)
    if attribute.elements or attribute.type not in SCALAR_TYPES:
        return lambda text: _from_json(attribute, text)
    if attribute.type == "Blob":
        return _blob
    if attribute.enum is not None:
        return lambda text: text or None  # an empty field: what is no value is left to the validation of the record
    if attribute.type in _TEXT_TYPES:
        return str
    return lambda text: text_to_value(attribute, text)


def _blob(text: str) -> object:
    """The content of a blob as a string, or the description of a blob (spec: http §7.2), which is JSON."""
    if text.startswith('{"description":'):
        try:
            return decode_json(text.encode())
        except (BadBody, UnicodeEncodeError):
            pass
    return str.__str__(text)


def _from_json(attribute: Attribute, text: str) -> object:
    if not text:
        return None
    try:
        return decode_json(text.encode())
    except (BadBody, UnicodeEncodeError):
        raise bad_text(attribute.name, text, "JSON") from None


def convert(text: str, attribute: Attribute | None) -> object:
    """The value of a string that was not quoted: by the declared type, else converted as by the operators of the query language."""
    function = converter(attribute)
    return autoconvert(text) if function is None else function(text)


def in_line(error: BadValue, line: int) -> str:
    return f"{error.message} (line {line})"
