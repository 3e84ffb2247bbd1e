r"""Comparisons of a column -> the ranges of keys in which everything lies that fulfils them (spec: sql §9).

SQLite compares what it calls values; keys have the order of what is stored (`keys`). Both agree where a column has one type. Where not, a *span* has
more than what fulfils the comparison, never less: SQLite tests each row again. What has to be thought of:

1. Affinity. SQLite converts before it compares, depending on both sides, of which only the value of the other one is known here. Beside a column of numbers,
   texts that look like numbers (`'5'`, `' 05.0'`) are numbers: equal to the number, and less than any text. Beside a value without type a number that is
   compared with a column of texts is a text. A text that comes from a column of numbers does not look like one (`values.column_value`).
2. Values of other types follow each other as null < numbers < texts < bytes: `x > 5` holds for all texts of a column without type.
3. A date is its ISO text, an integer beyond 64 bits its digits: texts, but their keys are numbers. In a column without type the same key may belong to a
   number and to such a text, which are not compared alike: so there are two sets of ranges. A boolean is 1 or 0, and its key is no number.
4. Doubles are compared with integers exactly. From 2**53 on, keys know more of a number than a column of doubles does.
5. Lists, objects and blobs are JSON text, and have no entry of their own in an index. The texts that they are begin with one of JSON_STARTS: `unlisted`
   has those of these characters with which such a text may begin that fulfils the comparison. If there are any, the index does not know all records.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from math import inf, nextafter
from typing import NamedTuple

from svc.errors import BadValue
from svc.sql.catalogue import ColumnType
from svc.sql.tables.values import numeric_value
from svc.store.values.conversion import date_from_text, ms_from_date
from svc.store.values.keys import (
    BYTES,
    FALSE,
    FALSE_KEY,
    INDEX_CHARACTERS,
    LIST,
    NULL,
    NUMBER,
    TEXT,
    TRUE,
    after,
    encode_key,
    index_key,
    index_prefix_range,
    is_cut,
    prefix_range,
    storage_high,
    storage_low,
)

# Operators, with the numbers that SQLite gives them.
EQ, GT, LE, LT, GE, LIKE, GLOB, NOT_NULL, IS_NULL, IS = 2, 4, 8, 16, 32, 65, 66, 70, 71, 72
LIMIT, OFFSET = 73, 74

Bounds = tuple[bytes, bytes]  # low <= key < high
Value = str | int | float | bytes | None

COMPARISONS = frozenset((EQ, GT, LE, LT, GE, IS))

JSON_STARTS = frozenset('"[{')
SHORT = 64  # characters of a text whose key is never cut
MAX_VARIANTS = 16  # of the beginning of a pattern, in upper and lower case

_NOTHING: frozenset[str] = frozenset()
_EXACT = 1 << 53
_DOUBLE = 9  # bytes of the key of a number that is a double
_PLAIN = frozenset((ColumnType.TEXT, ColumnType.INTEGER, ColumnType.REAL, ColumnType.ANY))
_UNLISTED = frozenset((ColumnType.ANY, ColumnType.JSON))  # types of which an index may not know all records
_LOW, _HIGH = b"", b"\xff"


def _kinds(first: int, last: int) -> Bounds:
    return bytes((first,)), bytes((last + 1,))


_NULLS, _FALSE, _TRUE = _kinds(NULL, NULL), _kinds(FALSE, FALSE), _kinds(TRUE, TRUE)
_NUMBERS, _TEXTS, _BYTES, _LISTS = _kinds(NUMBER, NUMBER), _kinds(TEXT, TEXT), _kinds(BYTES, BYTES), _kinds(LIST, LIST)
_VALUES = (FALSE_KEY, _HIGH)  # all that is not null
_BEYOND = ((_NUMBERS[0], encode_key(-(1 << 63))), (encode_key(1 << 63), _NUMBERS[1]))  # numbers that are no integers of 64 bits


class Span(NamedTuple):
    """`plain`, `textual`: ranges for all values, and for those that are texts though their keys are numbers. Each in their order, none of them empty, none
    touching another."""

    plain: tuple[Bounds, ...]
    unlisted: frozenset[str] = _NOTHING
    textual: tuple[Bounds, ...] = ()

    @property
    def bounds(self) -> tuple[Bounds, ...]:
        """Where all values are."""
        return _united((*self.plain, *self.textual)) if self.textual else self.plain

    @property
    def is_point(self) -> bool:
        """Whether it is one key at most."""
        bounds = self.bounds
        return not bounds or (len(bounds) == 1 and bounds[0][1] == after(bounds[0][0]))


ALL_KEYS = Span(((_LOW, _HIGH),))
NO_SPAN = Span(())


def span_of(kind: ColumnType, operator: int, value: object) -> Span:
    """In the index of a column of this type; TEXT, INTEGER and so on promise that no record has anything else. `value`: None, text, number or bytes, as
    SQLite gives them.

    >>> span_of(ColumnType.TEXT, EQ, "ab").bounds
    ((b'\\x10ab\\x00', b'\\x10ab\\x00\\x00'),)
    >>> span_of(ColumnType.ANY, GT, "c").unlisted, span_of(ColumnType.ANY, LT, 5).unlisted
    (frozenset({'{'}), frozenset())
    """
    points = _point(kind, value) if operator == EQ and kind in _PLAIN else None
    return _span(kind, operator, value, is_key=False) if points is None else points


def key_span_of(kind: ColumnType, operator: int, value: object) -> Span:
    """The same for the stored keys of records."""
    points = _point(kind, value) if operator == EQ and kind in _PLAIN else None
    if points is not None:
        return points
    span = _span(kind, operator, value, is_key=True)
    plain = [(storage_low(low), storage_high(high)) for low, high in span.plain]
    if span.unlisted:
        plain.append(_LISTS)  # lists are keys as a whole
    return Span(_united(plain), textual=span.textual)


def _point(kind: ColumnType, value: object) -> Span | None:
    """The span of EQ where it is one key, which is usual."""
    if kind is ColumnType.TEXT or kind is ColumnType.ANY:
        # A text that begins with a letter is nothing but a text.
        if type(value) is not str or len(value) > SHORT or not (kind is ColumnType.TEXT or value[:1].isalpha()):
            return None
    elif type(value) is not int or not -_EXACT < value < _EXACT:
        return None
    try:
        key = encode_key(value)
    except BadValue:
        return None
    return Span(((key, after(key)),))


def number_span(operators: Sequence[int], values: Sequence[object]) -> Span | None:
    """The span of all these comparisons together in the index of a column of numbers, where that is one range that is easily found.

    >>> number_span((GE, LT), (1, 2.5)) == intersection(span_of(ColumnType.REAL, GE, 1), span_of(ColumnType.REAL, LT, 2.5))
    True
    """
    low, high = _NUMBERS
    for operator, value in zip(operators, values, strict=False):
        if not (type(value) is int or type(value) is float) or not -_EXACT < value < _EXACT:
            return None
        key = encode_key(value)
        if len(key) != _DOUBLE:
            return None
        if operator in (GE, GT, EQ):
            low = max(low, after(key) if operator == GT else key)
        elif operator not in (LT, LE):
            return None
        if operator in (LT, LE, EQ):
            high = min(high, key if operator == LT else after(key))
    return Span(((low, high),)) if low < high else NO_SPAN


def whole_span(kind: ColumnType) -> Span:
    """That of all records."""
    return Span(ALL_KEYS.plain, JSON_STARTS, (_NUMBERS,)) if kind in _UNLISTED else ALL_KEYS


def whole_key_span(kind: ColumnType) -> Span:
    """That of all records, of their keys."""
    return whole_span(kind)._replace(unlisted=_NOTHING)


def intersection(one: Span, other: Span) -> Span:
    """What lies in both.

    >>> low, high = span_of(ColumnType.ANY, GE, "b"), span_of(ColumnType.ANY, LT, "c")
    >>> intersection(low, high)
    Span(plain=((b'\\x10b\\x00', b'\\x10c\\x00'),), unlisted=frozenset(), textual=())
    """
    return Span(_common(one.plain, other.plain), one.unlisted & other.unlisted, _common(one.textual, other.textual))


def _common(one: Iterable[Bounds], other: Iterable[Bounds]) -> tuple[Bounds, ...]:
    found = []
    ours, theirs = iter(one), iter(other)
    mine, its = next(ours, None), next(theirs, None)
    while mine is not None and its is not None:
        low, high = max(mine[0], its[0]), min(mine[1], its[1])
        if low < high:
            found.append((low, high))
        if mine[1] <= its[1]:
            mine = next(ours, None)
        else:
            its = next(theirs, None)
    return tuple(found)


def _united(bounds: Iterable[Bounds]) -> tuple[Bounds, ...]:
    found: list[Bounds] = []
    for low, high in sorted(bounds):
        if found and low <= found[-1][1]:
            if high > found[-1][1]:
                found[-1] = found[-1][0], high
        elif low < high:
            found.append((low, high))
    return tuple(found)


def _span(kind: ColumnType, operator: int, value: object, *, is_key: bool) -> Span:
    if operator == IS_NULL or (operator == IS and value is None):
        return Span((_NULLS,))
    if operator == NOT_NULL:
        return Span((_VALUES,), *whole_span(kind)[1:])
    if value is None:
        return NO_SPAN  # a comparison with null is never true
    if kind is ColumnType.JSON:
        return whole_span(kind)
    try:
        rule = _Rule(operator, value, is_key)
        if kind is ColumnType.ANY:
            plain, textual, unlisted = _find_any(rule)
            return Span(_united(plain), unlisted, _united(textual))
        plain = _RULES[kind](rule)
    except BadValue:  # no key is like it
        return whole_span(kind)
    return Span(_united(plain))


class _Rule:
    """One comparison with a value that is not null. `is_equal`, `is_low`, `is_high`: the value is equal, a lower bound, an upper bound; of a pattern none."""

    __slots__ = ("is_equal", "is_high", "is_key", "is_low", "is_pattern", "is_strict", "operator", "value")

    def __init__(self, operator: int, value: object, is_key: bool) -> None:
        self.operator = operator
        self.value = value
        self.is_key = is_key
        self.is_equal = operator in (EQ, IS)
        self.is_low = operator in (GT, GE)
        self.is_high = operator in (LT, LE)
        self.is_strict = operator in (GT, LT)
        self.is_pattern = operator in (LIKE, GLOB)

    # -- ranges of one kind of key

    def around(self, low: bytes, high: bytes, kind: Bounds, *, is_exact: bool = True) -> list[Bounds]:
        """What is compared with a value whose keys are from `low` to before `high`. Not `is_exact`: others may have these, too."""
        if self.is_equal:
            return [(low, high)]
        if self.is_low:
            return [(high if self.is_strict and is_exact else low, kind[1])]
        return [(kind[0], low if self.is_strict and is_exact else high)]

    def text(self, value: str) -> list[Bounds]:
        key = encode_key(value) if self.is_key else index_key(value)
        return self.around(key, after(key), _TEXTS, is_exact=self.is_key or not is_cut(key))

    def bytes(self, value: bytes) -> list[Bounds]:
        key = encode_key(value) if self.is_key else index_key(value)
        return self.around(key, after(key), _BYTES, is_exact=self.is_key or not is_cut(key))

    def number(self, value: float, *, is_exact: bool = True) -> list[Bounds]:
        if value in (inf, -inf):
            is_all = not self.is_equal and (value > 0) == self.is_high
            return [_NUMBERS] if is_all else []
        low = key = encode_key(value)
        if not is_exact:
            low, key = encode_key(nextafter(value, -inf)), encode_key(nextafter(value, inf))
        if len(low) == len(key) == _DOUBLE:
            return self.around(low, after(key), _NUMBERS, is_exact=is_exact)
        # All numbers with this double, or one of these.
        return self.around(low[:9], _following(key[:9]), _NUMBERS, is_exact=False)

    def booleans(self, value: float) -> list[Bounds]:
        return [bounds for number, bounds in ((0, _FALSE), (1, _TRUE)) if self.holds(number, value)]

    def holds(self, number: float, value: float) -> bool:
        if self.is_equal:
            return number == value
        if self.is_low:
            return number > value if self.is_strict else number >= value
        return number < value if self.is_strict else number <= value


def _following(data: bytes) -> bytes:
    return (int.from_bytes(data, "big") + 1).to_bytes(len(data), "big")


def _find_text(rule: _Rule) -> Sequence[Bounds]:
    value = rule.value
    if rule.is_pattern:
        return _pattern_bounds(rule)
    if type(value) is str:
        return [*rule.text(value), *_NUMERIC_TEXTS] if rule.is_high else rule.text(value)
    if type(value) is bytes:
        return [_TEXTS] if rule.is_high else []
    return _numeric_texts(value) if rule.is_equal else [_TEXTS]  # type: ignore[arg-type]


def _find_number(rule: _Rule) -> Sequence[Bounds]:
    value = rule.value
    if rule.is_pattern:
        return [_NUMBERS]
    is_exact = True
    if type(value) is str:
        value, is_exact = numeric_value(value)
    if type(value) is int or type(value) is float:
        return rule.number(value, is_exact=is_exact)
    return [_NUMBERS] if rule.is_high else []  # texts and bytes are greater


def _find_boolean(rule: _Rule) -> Sequence[Bounds]:
    value = rule.value
    if rule.is_pattern:
        return [_FALSE, _TRUE]
    if type(value) is str:
        value = numeric_value(value)[0]
    if type(value) is int or type(value) is float:
        return rule.booleans(value)
    return [_FALSE, _TRUE] if rule.is_high else []


def _find_date(rule: _Rule) -> Sequence[Bounds]:
    value = rule.value
    if type(value) is str:
        if not rule.is_pattern:
            return _date_bounds(rule, value)
        start = _beginning(rule.operator, value)
        low, high, _ = _dates_with(start)
        return [(low, high)] if start else [_NUMBERS]
    if type(value) is bytes and not rule.is_pattern:
        return [_NUMBERS] if rule.is_high else []
    return [] if rule.is_equal else [_NUMBERS]


def _find_bytes(rule: _Rule) -> Sequence[Bounds]:
    value = rule.value
    if rule.is_pattern:
        return [_BYTES]
    if type(value) is bytes:
        return rule.bytes(value)
    return [_BYTES] if rule.is_low else []


def _find_big(rule: _Rule) -> Sequence[Bounds]:
    value = rule.value
    if rule.is_pattern or (type(value) is str and not rule.is_equal):
        return [_NUMBERS]
    if type(value) is str:
        return _digits(rule, value)
    if type(value) is int or type(value) is float:
        return [*rule.number(value), *(_BEYOND if rule.is_low else ())]
    return [_NUMBERS] if rule.is_high else []


_Ranges = Sequence[Bounds]


def _find_any(rule: _Rule) -> tuple[_Ranges, _Ranges, frozenset[str]]:
    """(`plain`, `textual`, `unlisted`)"""
    value = rule.value
    if rule.is_pattern:
        return _any_pattern(rule)
    if type(value) is str:
        return _any_text(rule, value)
    if type(value) is bytes:
        return ([_VALUES], [_NUMBERS], JSON_STARTS) if rule.is_high else (rule.bytes(value), [], _NOTHING)
    numbers = rule.number(value)  # type: ignore[arg-type]
    found = [*numbers, *rule.booleans(value)]  # type: ignore[arg-type]
    if rule.is_equal:
        return [*found, *_numeric_texts(value)], _common(numbers, _BEYOND), _NOTHING  # type: ignore[arg-type]
    if rule.is_high:
        return [*found, *_NUMERIC_TEXTS], _common(numbers, _BEYOND), _NOTHING
    return [*found, _TEXTS, _BYTES, _LISTS], [_NUMBERS], JSON_STARTS


def _any_text(rule: _Rule, value: str) -> tuple[_Ranges, _Ranges, frozenset[str]]:
    first = value[:1]
    if rule.is_equal:
        return rule.text(value), [*_digits(rule, value), *_date_bounds(rule, value)], JSON_STARTS.intersection(first)
    textual = [*_date_bounds(rule, value), *_BEYOND]
    if rule.is_high:
        below = frozenset([each for each in JSON_STARTS if each <= first])
        return [(_FALSE[0], _NUMBERS[1]), *rule.text(value), *_NUMERIC_TEXTS], textual, below
    unlisted = frozenset([each for each in JSON_STARTS if each >= first])
    return [*rule.text(value), _BYTES], textual if first < ":" else [], unlisted


def _any_pattern(rule: _Rule) -> tuple[_Ranges, _Ranges, frozenset[str]]:
    start = _beginning(rule.operator, rule.value)
    if not start:
        return [_VALUES], [_NUMBERS], JSON_STARTS
    found = [*_pattern_bounds(rule), _BYTES]
    if start[0].isalpha() and start[0] not in "iInN":
        return found, [], JSON_STARTS.intersection(start[:1])
    return [*found, (_FALSE[0], _NUMBERS[1])], [_NUMBERS], JSON_STARTS.intersection(start[:1])  # numbers, dates; Inf


_RULES = {
    ColumnType.TEXT: _find_text,
    ColumnType.INTEGER: _find_number,
    ColumnType.REAL: _find_number,
    ColumnType.BOOLEAN: _find_boolean,
    ColumnType.DATE: _find_date,
    ColumnType.BYTES: _find_bytes,
    ColumnType.BIG: _find_big,
}


# --- texts that look like numbers ---------------------------------------------------------------------------------------------------------


def _between(first: str, last: str) -> Bounds:
    """The keys of texts that begin with one of these characters of ASCII."""
    return b"\x10" + first.encode(), b"\x10" + bytes((ord(last) + 1,))


_NUMERIC_TEXTS = (_between("\t", "\r"), _between(" ", " "), _between("+", "+"), _between("-", "."), _between("0", "9"))


def _numeric_texts(value: float) -> list[Bounds]:
    """Where all texts are that SQLite may take for this number."""
    if not 1e-290 < abs(value) < inf:  # `1e-400` is 0, `1e400` infinite
        return [*_NUMERIC_TEXTS, _between("I", "I")]
    found = [*_NUMERIC_TEXTS[:-1], _between("0", "0")]
    digits = [digit for digit in str(abs(value)) if digit in "123456789"]
    if digits and value > 0:
        # What is nearest to it may be a little less or more, and begin with the digit before or behind.
        digit = int(digits[0])
        found += [_between(str(each), str(each)) for each in {(digit + 7) % 9 + 1, digit, digit % 9 + 1}]
    return found


def _digits(rule: _Rule, value: str) -> list[Bounds]:
    """Where the integer is whose digits are this text, if it is beyond 64 bits."""
    digits = value.removeprefix("-")
    if not 19 <= len(digits) <= 310 or not digits.isascii() or not digits.isdigit():
        return []
    key = encode_key(int(value))
    return rule.around(key, after(key), _NUMBERS)


# --- dates --------------------------------------------------------------------------------------------------------------------------------

_TEMPLATE = "0001-01-01T00:00:00.000Z"
_LAST_OF = {  # length of a text that names it -> how long it takes at most
    4: timedelta(days=366),
    7: timedelta(days=31),
    10: timedelta(days=1),
    13: timedelta(hours=1),
    16: timedelta(minutes=1),
    19: timedelta(seconds=1),
    24: timedelta(milliseconds=1),
}
_YEARS = (datetime(1, 1, 1, tzinfo=UTC), datetime(9999, 12, 31, tzinfo=UTC))
_shape = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}\.[0-9]{3}Z").fullmatch


def _dates_with(text: str) -> tuple[bytes, bytes, int]:
    """(low, high, length) of the dates that begin with the text, or with as much of it as is a date: its first `length` characters."""
    for length in sorted(_LAST_OF, reverse=True):
        begun = text[:length]
        filled = begun + _TEMPLATE[length:]
        if len(begun) == length and _shape(filled):
            start = date_from_text(filled)
            if start is not None:
                low = encode_key(ms_from_date(start))
                if length == 24:
                    return low, after(low), length
                return low, encode_key(ms_from_date(start) + _LAST_OF[length] // timedelta(milliseconds=1)), length
    return (*_NUMBERS, 0)


def _date_bounds(rule: _Rule, value: str) -> list[Bounds]:
    low, high, length = _dates_with(value)
    if rule.is_equal:
        return [(low, high)] if length == len(value) == 24 else []
    if not length:
        return [_NUMBERS]
    if rule.is_low:
        return [(low, _NUMBERS[1])]
    return [(_NUMBERS[0], low if length == len(value) < 24 else high)]


# --- patterns -----------------------------------------------------------------------------------------------------------------------------

_ENDS = {LIKE: "%_\0", GLOB: "*?[\0"}  # SQLite matches up to a null character only
_UPPER = {ord(each): each.upper() for each in "abcdefghijklmnopqrstuvwxyz"}
_LOWER = {ord(each): each.lower() for each in "ABCDEFGHIJKLMNOPQRSTUVWXYZ"}


def _beginning(operator: int, pattern: object) -> str:
    """What everything begins with that the pattern matches, "" if that is not known."""
    if type(pattern) is int:
        return str(pattern)
    if type(pattern) is not str:
        return ""
    end = min([at for each in _ENDS[operator] if (at := pattern.find(each)) >= 0], default=len(pattern))
    return pattern[:end]


def _pattern_bounds(rule: _Rule) -> list[Bounds]:
    start = _beginning(rule.operator, rule.value)[:INDEX_CHARACTERS]
    if not start:
        return [_TEXTS]
    range_of = prefix_range if rule.is_key else index_prefix_range
    if rule.operator == GLOB:
        return [range_of(start)]
    beginnings = [""]
    for at, character in enumerate(start):
        both = {character.translate(_UPPER), character.translate(_LOWER)}
        if len(beginnings) * len(both) > MAX_VARIANTS:
            rest = start[at:]
            upper, lower = rest.translate(_UPPER), rest.translate(_LOWER)
            return [(range_of(each + upper)[0], range_of(each + lower)[1]) for each in beginnings]
        beginnings = [each + one for each in beginnings for one in both]
    return [range_of(each) for each in beginnings]
