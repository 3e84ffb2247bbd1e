"""Text, and values of request bodies, to values and keys (spec: schema-and-store §5, §6, http §1.3, query §4).

Numbers are normalised here once for the whole store: `5.0` is `5`, and only finite numbers of at most 1000 bits exist. A whole float is
turned into an int up to 2**53; beyond that a float is no longer one exact integer and stays what it is.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from math import isfinite

from svc.errors import BadValue, ValidationError
from svc.store.schema import Attribute, Enumeration, TableDefinition

Key = str | int | float | tuple["Key", ...]

INT_MIN, INT_MAX = -(2**31), 2**31 - 1
LONG_MAX = 2**53  # inclusive, on both sides of zero
KEY_LIMIT = 2**64  # integer keys: absolute value below it
MAX_BITS = 1000
_SHORT = 15  # characters: a numeral is a number within every bound
MAX_DIGITS = 302  # no longer numeral fits in MAX_BITS; int() takes quadratic time for long ones

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MS = timedelta(milliseconds=1)
MIN_DATE_MS = (datetime(1, 1, 1, tzinfo=UTC) - _EPOCH) // _MS
MAX_DATE_MS = (datetime(9999, 12, 31, 23, 59, 59, 999_000, UTC) - _EPOCH) // _MS

# [0-9], not \d: that would take the digits of every script.
_integer = re.compile(r"-?[0-9]+").fullmatch
_base36 = re.compile(r"\$-?[0-9a-zA-Z]+").fullmatch
_number = re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]{1,4})?").fullmatch
_plain_number = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?").fullmatch
_iso_date = re.compile(
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}(?:[Tt ][0-9]{2}:[0-9]{2}(?::[0-9]{2}(?:[.,][0-9]+)?)?(?:[Zz]|[+-][0-9]{2}(?::?[0-9]{2})?)?)?"
).fullmatch


def whole(value: float) -> int | float:
    """The int that a whole float stands for; other floats as they are.

    >>> whole(5.0), whole(-0.0), whole(2.5), whole(1e300)
    (5, 0, 2.5, 1e+300)
    """
    return int(value) if value.is_integer() and -LONG_MAX <= value <= LONG_MAX else value


def date_from_ms(value: float) -> datetime | None:
    """The time `value` ms after the epoch, whole ms; None outside the years 1 to 9999."""
    if MIN_DATE_MS <= value < MAX_DATE_MS + 1:  # False for NaN
        return _EPOCH + timedelta(milliseconds=value // 1)
    return None


def ms_from_date(value: datetime) -> int:
    """Milliseconds since the epoch of an aware datetime."""
    return (value - _EPOCH) // _MS


def date_from_text(text: str) -> datetime | None:
    """ISO 8601 text, extended form: a date, or date and time, without zone UTC. None if it is no date.

    >>> date_from_text("2024-01-05T21:07:27.9559+01:00").isoformat()
    '2024-01-05T20:07:27.955000+00:00'
    >>> date_from_text("2024-02-30") is date_from_text("20240105") is date_from_text("now") is None
    True
    """
    if _iso_date(text) is None:
        return None
    try:
        return utc(datetime.fromisoformat(text.upper()))
    except (ValueError, OverflowError):  # the 30th of February; a zone that leads out of the years 1 to 9999
        return None


def utc(value: datetime) -> datetime:
    """The same time in UTC, whole ms; without zone it is UTC. The same object if nothing changes. May raise OverflowError."""
    zone = value.tzinfo
    if zone is None:
        value = value.replace(tzinfo=UTC)
    elif zone is not UTC:
        value = value.astimezone(UTC)
    rest = value.microsecond % 1000
    return value.replace(microsecond=value.microsecond - rest) if rest else value


def to_date(value: object) -> datetime | None:
    """A `Date` from what a writer may give: datetime, ISO text, number of ms (not a bool). None if it is none of them."""
    kind = type(value)
    if kind is str:
        return date_from_text(value)  # type: ignore[arg-type]
    if kind is int or kind is float:
        return date_from_ms(value)  # type: ignore[arg-type]
    if isinstance(value, datetime):
        try:
            return utc(value)
        except OverflowError:
            return None
    if isinstance(value, date):
        return datetime(value.year, value.month, value.day, tzinfo=UTC)
    return None


# --- text of a URL -------------------------------------------------------------------------------------------------------------------


def _integer_from_text(text: str) -> int | None:
    if len(text) > MAX_DIGITS + 1:
        return None
    if _integer(text):
        return int(text)
    return int(text[1:], 36) if _base36(text) else None


def _bigint_from_text(text: str) -> int | None:
    if len(text) > MAX_DIGITS + 1 or _integer(text) is None:
        return None
    value = int(text)
    return value if value.bit_length() <= MAX_BITS else None


def _float_from_text(text: str) -> int | float | None:
    if len(text) <= _SHORT and _integer(text):
        return int(text)
    if _integer(text) and (integer := _bigint_from_text(text)) is not None:
        return integer
    if len(text) > 2 * MAX_DIGITS or _number(text) is None:
        return None
    value = float(text)
    if not isfinite(value) or (_integer(text) and int(value) != int(text)):  # too many digits for an integer, and more than a float has
        return None
    return whole(value)


def _boolean_from_text(text: str) -> bool | None:
    return {"true": True, "false": False}.get(text.lower())


def _date_from_text(text: str) -> datetime | None:
    if (value := _float_from_text(text)) is not None:
        return date_from_ms(value)
    return date_from_text(text)


# None: not convertible. `null` and the empty text mean null for all but bytes.
_FROM_TEXT: dict[str, Callable[[str], object]] = {
    "Int": _integer_from_text,
    "Long": _integer_from_text,
    "Float": _float_from_text,
    "BigInt": _bigint_from_text,
    "Boolean": _boolean_from_text,
    "Date": _date_from_text,
}
_TEXT_TYPES = frozenset(("ID", "String", "Any"))


def text_to_value(attribute: Attribute | None, text: str) -> object:
    """The value a text stands for by the declared type of `attribute` alone, of its elements if it is a list; None: undeclared.

    Raises BadValue if the text cannot be converted. Numbers are not held to the range of their type: no record is beyond it.
    """
    if attribute is None:
        return text
    if attribute.enum is not None:
        return _member_from_text(attribute.name, attribute.enum, text)
    kind = attribute.type
    if kind in _TEXT_TYPES:
        return text
    if kind == "Bytes":
        return text.encode("utf-8", "surrogatepass")  # half a pair equals no stored bytes
    if not text:
        return None
    convert = _FROM_TEXT.get(kind)
    if convert is not None:
        if text == "null":
            return None
        value = convert(text)
        if value is not None:
            return value
    raise bad_text(attribute.name, text, kind)


def _member_from_text(name: str, enum: Enumeration, text: str) -> str | None:
    """Null is written as for numbers: no enumeration has a value of that name."""
    if text in enum.values:
        return text
    if text in ("", "null"):
        return None
    raise bad_text(name, text, members(enum))


def members(enum: Enumeration) -> str:
    """What a message says that a value of this type must be.

    >>> members(Enumeration("Status", ("OPEN", "CLOSED"))), members(Enumeration("Number", tuple(map(str, range(30)))))[-30:]
    ('one of OPEN, CLOSED', '6, 17, 18, 19 or another of 30')
    """
    shown = ", ".join(map(printable, enum.values[:_SHOWN_ENUM_VALUES]))
    return f"one of {shown}" + (f" or another of {len(enum.values)}" if len(enum.values) > _SHOWN_ENUM_VALUES else "")


def autoconvert(text: str) -> object:
    """What a text stands for where nothing is declared: null, a boolean, a plain decimal number, else the text itself.

    >>> [autoconvert(text) for text in ("null", "true", "12", "-1.50", "007", "1e3", "0.5", "", "TRUE")]
    [None, True, 12, -1.5, '007', '1e3', 0.5, '', 'TRUE']
    """
    if text in _WORDS:
        return _WORDS[text]
    value = _plain_number_from_text(text)
    return text if value is None else value


_WORDS = {"null": None, "true": True, "false": False}


def _plain_number_from_text(text: str) -> int | float | None:
    if _plain_number(text) is None or len(text) > 2 * MAX_DIGITS:
        return None
    return _float_from_text(text)


def bad_text(name: str, text: str, expected: str) -> BadValue:
    return BadValue(f"Invalid value for attribute {printable(name)}: {shown(text)}, expecting {expected}")


# --- keys ----------------------------------------------------------------------------------------------------------------------------


def key_from_text(definition: TableDefinition, text: str, raw: str = "") -> Key:
    """The key that the id part of a path stands for (spec: http §1.3): by the type of the key attribute; with @splitSegments, segment by segment.

    `raw`: the text before it was percent-decoded, "" if it is the same. A numeral of an untyped key whose digits are escaped (`%35`) is a string: else
    the string "5" had no address. Raises BadValue. The limit on the length of keys is the concern of `keys.encode_primary`.
    """
    attribute = definition.attribute(definition.primary_key)
    kind = "Any" if attribute is None else attribute.type
    if kind == "Any" and "%" in raw:
        return _untyped_from_raw(definition, text, raw)
    if attribute is not None and attribute.enum is not None and text not in attribute.enum.values:
        raise bad_text(definition.primary_key, text, members(attribute.enum))
    if definition.split_segments and "/" in text:
        return tuple([_segment_from_text(definition.primary_key, kind, segment) for segment in text.split("/")])
    if kind == "ID" or kind == "String":
        return text
    return _segment_from_text(definition.primary_key, kind, text)


def _untyped_from_raw(definition: TableDefinition, text: str, raw: str) -> Key:
    texts, raws = [text], [raw]
    if definition.split_segments:
        texts, raws = text.split("/"), _ANY_SLASH.split(raw)
    spelt = zip(texts, [_ESCAPED_DOT.sub(".", segment) for segment in raws], strict=True)
    keys = [segment if "%" in spelling else _segment_from_text(definition.primary_key, "Any", segment) for segment, spelling in spelt]
    return tuple(keys) if len(keys) > 1 else keys[0]


_ANY_SLASH = re.compile("/|%2F", re.IGNORECASE)
_ESCAPED_DOT = re.compile("%2E", re.IGNORECASE)


def is_plain_number(text: str) -> bool:
    """Whether an untyped key of this text, in a path, is a number."""
    number = _plain_number_from_text(text)
    return number is not None and is_key_number(number)


def _segment_from_text(name: str, kind: str, text: str) -> Key:
    if kind == "ID" or kind == "String":
        return text
    if kind == "Any":
        number = _plain_number_from_text(text)
        return text if number is None or not is_key_number(number) else number
    value = _FROM_TEXT[kind](text)
    if value is None or not _KEY_RANGE[kind](value):  # type: ignore[arg-type]
        raise bad_text(name, text, kind)
    return value  # type: ignore[return-value]


def is_key_number(value: int | float) -> bool:
    return type(value) is float or -KEY_LIMIT < value < KEY_LIMIT


_KEY_RANGE: dict[str, Callable[[int | float], bool]] = {
    "Int": lambda value: INT_MIN <= value <= INT_MAX,
    "Long": lambda value: -LONG_MAX <= value <= LONG_MAX,
    "Float": is_key_number,
    "BigInt": is_key_number,
    "Any": is_key_number,
}


EMPTY_KEYS = ("", [""], ("",))
"""What says that there is no key: a record of that name would have no address (spec: http §1.3)."""


def check_key(definition: TableDefinition, value: object) -> Key:
    """The key that a value of a body or of code stands for. Raises ValidationError.

    With @splitSegments a list is a key, a text with slashes is the list it spells, and a list of one is its element.
    """
    name = definition.primary_key
    attribute = definition.attribute(name)
    kind = "Any" if attribute is None else attribute.type
    if attribute is not None and attribute.enum is not None and value not in attribute.enum.values:
        raise ValidationError(refusal(value, name, members(attribute.enum)))
    if definition.split_segments:
        if type(value) is list or type(value) is tuple:
            segments = tuple([_check_segment(name, kind, segment, "strings or numbers without slashes") for segment in value])
            if any(type(segment) is str and "/" in segment for segment in segments) or not segments:
                raise ValidationError(refusal(value, name, "a list of strings or numbers without slashes"))
            return segments if len(segments) > 1 else segments[0]
        if type(value) is str and "/" in value and is_encodable(value):
            return key_from_text(definition, value)
    return _check_segment(name, kind, value)


def _check_segment(name: str, kind: str, value: object, expected: str = "") -> Key:
    given = type(value)
    if kind in _TEXT_TYPES and isinstance(value, str) and is_encodable(value):
        return value if given is str else str.__str__(value)
    if kind not in _KEY_TEXTS and given is not bool and isinstance(value, int | float):
        number = whole(value) if isinstance(value, float) else int(value)
        if kind == "BigInt" and type(number) is float:
            number = int(number) if isfinite(number) and number.is_integer() else number
        integral = kind == "Float" or kind == "Any" or type(number) is int
        if integral and (type(number) is int or isfinite(number)) and _KEY_RANGE[kind](number):
            return number
    if kind == "BigInt" and given is str and (converted := _bigint_from_text(value)) is not None and is_key_number(converted):  # type: ignore[arg-type]
        return converted
    raise ValidationError(refusal(value, name, expected or _KEY_EXPECTED[kind]))


_KEY_TEXTS = frozenset(("ID", "String"))
_KEY_EXPECTED = {
    "ID": "a string",
    "String": "a string",
    "Int": f"an integer from {INT_MIN} to {INT_MAX}",
    "Long": f"an integer from {-LONG_MAX} to {LONG_MAX}",
    "Float": "a number",
    "BigInt": "an integer of at most 64 bits",
    "Any": "a string or a number",
}


# --- what messages show --------------------------------------------------------------------------------------------------------------

_SHOWN_CHARACTERS = 100
_SHOWN_MEMBERS = 5
_SHOWN_ENUM_VALUES = 20


def is_encodable(text: str) -> bool:
    """Whether the text can be UTF-8, so no half of a surrogate pair is in it."""
    if text.isascii():
        return True
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def refusal(value: object, path: str, expected: str) -> str:
    """The sentence for a value of the wrong type (spec: http §2.3).

    >>> refusal("x", "price", "a number")
    'Value "x" in property price must be a number'
    """
    return f"Value {shown(value)} in property {printable(path)} must be {expected}"


def printable(text: str) -> str:
    """A name as a message shows it: bounded, and always encodable."""
    if len(text) > 2 * _SHOWN_CHARACTERS:
        text = text[: 2 * _SHOWN_CHARACTERS] + "..."
    return text if is_encodable(text) else json.dumps(text)[1:-1]


def shown(value: object, depth: int = 0) -> str:
    """A value as a message shows it: JSON where it has one, bounded, and always encodable.

    >>> shown({"a": [1, 2.5, None, True, "x", 6], "b": float("nan")})
    '{"a": [...], "b": NaN}'
    """
    if isinstance(value, str):
        text = value if len(value) <= _SHOWN_CHARACTERS else value[:_SHOWN_CHARACTERS] + "..."
        return json.dumps(text, ensure_ascii=not is_encodable(text))
    if value is None or isinstance(value, bool):
        return json.dumps(value)
    if isinstance(value, int):
        return int.__repr__(value) if value.bit_length() <= MAX_BITS else f"of {value.bit_length()} bits"
    if isinstance(value, float):
        return json.dumps(float(value))
    if isinstance(value, dict):
        if depth:
            return "{...}"
        members = [f"{shown(name, 1)}: {shown(member, 1)}" for name, member in list(value.items())[:_SHOWN_MEMBERS]]
        return "{" + ", ".join(members + ["..."] * (len(value) > _SHOWN_MEMBERS)) + "}"
    if isinstance(value, list | tuple):
        if depth:
            return "[...]"
        return "[" + ", ".join([shown(member, 1) for member in value[:_SHOWN_MEMBERS]] + ["..."] * (len(value) > _SHOWN_MEMBERS)) + "]"
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, bytes | bytearray | memoryview):
        return f"of {len(value)} bytes"
    return f"of type {type(value).__name__}"
