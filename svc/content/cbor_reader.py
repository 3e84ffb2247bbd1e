"""CBOR -> values (spec: http §7.2; RFC 8949). cbor2 decodes; its types for tags are replaced by those that records may hold.

    0, 1            date: string, seconds since the epoch -> datetime
    2, 3            integer beyond 64 bits
    4, 5            decimal fraction, bigfloat -> int or float
    21 22 23 24 32 33 34 55799   hints about the content -> the content
    37              UUID -> its string
    64              bytes, as an array of small integers -> bytes
    100, 1004       date without time -> datetime, midnight UTC
    258             set
    259             object with any keys -> dict
    other tags      refused, and so are simple values other than false, true, null and undefined (which is null)

Above `SMALL` bytes only strings and bytes may be keys of maps (`hashable` says why). cbor2 never allocates what a document claims but does not have.

A long document is read in slices: members of containers one by one, from a file that gives no more than WINDOW bytes for one of them. A member that
needs more is read in slices itself, if it is a container, and without that limit, if it is a string.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from io import BytesIO
from math import isfinite, ldexp, ulp
from typing import Any
from uuid import UUID

import cbor2

from svc.content.content_type import SLICE_BYTES, Slices
from svc.content.hashable import as_key, as_set, check_number
from svc.content.values import as_datetime, number
from svc.errors import BadBody
from svc.store.values.conversion import MAX_BITS, MAX_DATE_MS, MIN_DATE_MS, date_from_ms, date_from_text, whole

SMALL = SLICE_BYTES
MAX_DEPTH = 400
WINDOW = 1 << 14  # bytes of a member of a long container; a longer one is read in slices itself: 3 ms at most
MAX_ENTERED = 32  # levels of containers that are longer than that
MAX_VALUES = 20_000_000  # members of containers that are read in slices
EXACT = 1 << 19  # bytes: an invalid document up to this length is decoded again as a whole for its error message
MAX_EXPONENT = 1100  # of a decimal fraction or a bigfloat: no float has a larger one

_FAULTS = (cbor2.CBORDecodeError, ValueError, RecursionError, IndexError)
SLICE_ELEMENTS = 1000

_PLAIN: frozenset[type] = frozenset((str, int, float, bool, type(None), bytes, datetime))
_SIMPLE_VALUES = bytes((*range(0xE0, 0xF4), 0xF7, 0xF8))  # first bytes of undefined and of values that are refused


def decode_cbor(body: bytes) -> Any:
    """The one value of a document. Raises BadBody."""
    try:
        return _decode(body)
    except _RefusedValue as error:
        raise BadBody(f"Invalid CBOR: {error}") from None
    except _FAULTS as error:
        raise BadBody(f"Invalid CBOR: {_sentence(error)} at byte {_fault_offset(body)}") from None
    except BaseException as error:
        if not _is_panic(error):
            raise
        raise BadBody("Invalid CBOR: it cannot be decoded") from None


def decode_cbor_slices(body: bytes) -> Slices:
    """`decode_cbor` in slices: a generator that pauses between the members of long arrays and maps."""
    if len(body) <= SMALL:
        return decode_cbor(body)
    reading = _CborReading(body)
    try:
        value = yield from reading.value(0)
        if reading.offset != len(body):
            raise _RefusedValue(f"more than one value, the second at byte {reading.offset}")
        return value
    except BaseException as error:
        if not isinstance(error, (*_FAULTS, _RefusedValue)) and not _is_panic(error):
            raise
        if len(body) <= EXACT:
            return decode_cbor(body)  # which reports the offset
        what = (
            _sentence(error) if isinstance(error, _FAULTS) else str(error) if isinstance(error, _RefusedValue) else "it cannot be decoded"
        )
        raise BadBody(f"Invalid CBOR: {what} before byte {reading.offset}") from None


def _is_panic(error: BaseException) -> bool:
    """Whether this is a panic of the decoder's native code, which is not an Exception."""
    return type(error).__name__ == "PanicException"


NO_COUNT = 1 << 64
BREAK = 0xFF


class _CborReading:
    """Reads a long document in slices."""

    def __init__(self, body: bytes) -> None:
        self._body = body
        self._stream = _Exact(body)
        self._decode = _decoder(self._stream, True).decode
        self._values = 0
        self._paused = 0

    @property
    def offset(self) -> int:
        return self._stream.offset

    def value(self, depth: int) -> Slices:
        """The value that comes next."""
        stream, body = self._stream, self._body
        start = stream.offset
        stream.limit = start + WINDOW
        try:
            return _cleaned(self._decode())
        except BaseException as error:
            if not stream.is_passed:
                raise
            if not isinstance(error, (*_FAULTS, _TooLong)) and not _is_panic(error):
                raise
        stream.is_passed = False
        kind, count, first = _head(body, start)
        while kind == TAG and count in _ENTERED:
            kind, count, first = _head(body, first)
        stream.offset = first
        if kind in (ARRAY, MAP):
            if depth == MAX_ENTERED:
                raise _RefusedValue("nested too deeply for its size")
            return (yield from (self._array(count, depth) if kind == ARRAY else self._map(count, depth)))
        stream.limit = len(body)
        if kind == TAG and _head(body, first)[0] not in (BYTES, TEXT):
            raise _RefusedValue(f"a value of tag {count} of more than {WINDOW} bytes")
        stream.offset = start
        return _cleaned(self._decode())

    def _array(self, count: int, depth: int) -> Slices:
        values: list[Any] = []
        while self._has_more(len(values), count):
            values.append((yield from self.value(depth + 1)))
            if self._is_pause():
                yield
        return values

    def _map(self, count: int, depth: int) -> Slices:
        value: dict[Any, Any] = {}
        read = 0
        while self._has_more(read, count):
            read += 1
            key = yield from self.value(MAX_ENTERED)
            if type(key) is not str and type(key) is not bytes:
                raise _RefusedValue("a key of a large map that is not a string")
            value[key] = yield from self.value(depth + 1)
            if self._is_pause():
                yield
        return value

    def _has_more(self, read: int, count: int) -> bool:
        if count < NO_COUNT:
            return read < count
        if self._body[self._stream.offset] != BREAK:
            return True
        self._stream.offset += 1
        return False

    def _is_pause(self) -> bool:
        self._values += 1
        if self._values > MAX_VALUES:
            raise _RefusedValue(f"more than {MAX_VALUES} values")
        offset = self._stream.offset
        if offset - self._paused <= SLICE_BYTES // 4 and self._values % SLICE_ELEMENTS:
            return False
        self._paused = offset
        return True


NO_COUNT = 1 << 64
BREAK = 0xFF
BYTES, TEXT, ARRAY, MAP, TAG = 2, 3, 4, 5, 6  # major types
_ENTERED = frozenset((259, 55799))  # tags whose content may be long: a map, and a hint


def _head(body: bytes, offset: int) -> tuple[int, int, int]:
    """(major type, number in it, `NO_COUNT` if it is indefinite, position behind it) of the item at `offset`. Raises IndexError at the end."""
    kind, info = divmod(body[offset], 32)
    if info < 24:
        return kind, info, offset + 1
    if info < 28:
        end = offset + 1 + (1 << info - 24)
        return kind, int.from_bytes(body[offset + 1 : end], "big"), end
    return kind, NO_COUNT, offset + 1


class _TooLong(Exception):
    """The decoder reads beyond the limit."""


class _Exact:
    """A file from which a decoder reads exactly the bytes it needs, because it cannot seek back; and none after `limit`."""

    def __init__(self, body: bytes) -> None:
        self._body = body
        self.offset = 0
        self.limit = 0
        self.is_passed = False  # the decoder has read beyond `limit`

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return False

    def read(self, size: int) -> bytes:
        end = self.offset + size
        if end > self.limit and self.limit < len(self._body):
            self.is_passed = True
            raise _TooLong
        data = self._body[self.offset : end]
        self.offset += len(data)
        return data


class _RefusedValue(Exception):
    """The document is well-formed, but its value is not supported. Has no byte offset."""


def _decode(body: bytes) -> Any:
    stream = BytesIO(body)
    try:
        value = _decoder(stream, True).decode()
    except cbor2.CBORDecodeError:
        # Perhaps only because a map has keys of other types.
        if len(body) > SMALL:
            raise
        stream = BytesIO(body)
        value = _decoder(stream, False).decode()
        has_any_keys = True
    else:
        has_any_keys = False
    if stream.tell() != len(body):
        raise _RefusedValue(f"more than one value, the second at byte {stream.tell()}")
    # A body without such a byte has none of them; one with it may have it in a string or a number. (A regular expression takes 20 times as long.)
    if has_any_keys or len(body.translate(None, _SIMPLE_VALUES)) != len(body):
        try:
            return _cleaned(value)
        except (ValueError, RecursionError) as error:
            raise _RefusedValue(_sentence(error))
    return value


def _decoder(stream: Any, only_text_keys: bool, read_size: int = 4096) -> cbor2.CBORDecoder:
    return cbor2.CBORDecoder(
        stream,
        tag_hook=_unknown_tag,
        semantic_decoders=_TAGS,
        max_depth=MAX_DEPTH,
        strict_hashable_types=only_text_keys,
        read_size=read_size,
    )


def _sentence(error: BaseException) -> str:
    cause = error.__cause__
    if isinstance(error, RecursionError):
        return "nested too deeply"
    for each in (error, cause):
        if type(each) is ValueError:
            return str(each)
    if isinstance(cause, UnicodeDecodeError):
        return "a string that is not UTF-8"
    return str(error) if isinstance(error, cbor2.CBORDecodeError) else "it cannot be decoded"


def _fault_offset(body: bytes) -> int:
    """The offset of the fault: how far a decoder reads that reads byte by byte."""
    stream = BytesIO(body)
    try:
        _decoder(stream, len(body) > SMALL, read_size=1).decode()
    except _FAULTS:
        pass
    return stream.tell()


def _cleaned(value: Any) -> Any:
    """The value with null for undefined. Raises ValueError for other simple values and for keys that cannot be one."""
    kind = type(value)
    if kind in _PLAIN:
        return value
    if kind is list:
        if not _PLAIN.issuperset(map(type, value)):
            for index, element in enumerate(value):
                value[index] = _cleaned(element)
        return value
    if kind is dict:
        check_number(value)
        for key in value:
            if type(key) is not str:
                return {as_key(_cleaned(key)): _cleaned(member) for key, member in value.items()}
        if not _PLAIN.issuperset(map(type, value.values())):
            for key, member in value.items():
                value[key] = _cleaned(member)
        return value
    if kind is set or kind is frozenset:
        return value  # its elements are already checked
    if kind is tuple:
        return tuple([_cleaned(element) for element in value])
    if value is cbor2.undefined:
        return None
    raise ValueError(f"simple value {value.value}" if kind is cbor2.CBORSimpleValue else "an object cannot be a key or an element of a set")


# --- tags ------------------------------------------------------------------------------------------------------------------------------


def _date_from_text(value: Any) -> datetime:
    date_value = date_from_text(value) if type(value) is str else None
    if date_value is None:
        raise ValueError("invalid date")
    return date_value


def _date_from_seconds(value: Any) -> datetime:
    """Whole ms, rounded down; but seconds that are the nearest float to whole ms are these."""
    date_value = None
    if type(value) is float and abs(value) < 1 << 40:
        ms = value * 1000
        nearest = round(ms)
        date_value = date_from_ms(nearest if abs(ms - nearest) <= 2 * ulp(ms) else ms)
    if date_value is None:
        raise ValueError("invalid date")
    return date_value


def _date_from_days(value: Any) -> datetime:
    if type(value) is not int or not -719_162 <= value <= 2_932_896:  # the years 1 to 9999
        raise ValueError("invalid date")
    return as_datetime(date(1970, 1, 1) + timedelta(days=value))


def _date_from_day_text(value: Any) -> datetime:
    if type(value) is not str or len(value) != 10:
        raise ValueError("invalid date")
    return _date_from_text(value)


def _positive_integer(value: Any) -> int:
    if type(value) is not bytes or len(value) > MAX_BITS // 8:
        raise ValueError(f"an integer of more than {MAX_BITS} bits, or an invalid one")
    return int.from_bytes(value, "big")


def _negative_integer(value: Any) -> int:
    return -1 - _positive_integer(value)


def _exponent_and_mantissa(value: Any) -> tuple[int, int]:
    if isinstance(value, list | tuple) and len(value) == 2 and type(value[0]) is int and type(value[1]) is int:
        exponent, mantissa = value
        if abs(exponent) <= MAX_EXPONENT and mantissa.bit_length() <= MAX_BITS:
            return exponent, mantissa
    raise ValueError("a fraction that is out of range or invalid")


def _decimal_fraction(value: Any) -> int | float:
    exponent, mantissa = _exponent_and_mantissa(value)
    return _finite(number(Decimal(mantissa).scaleb(exponent)))


def _bigfloat(value: Any) -> int | float:
    exponent, mantissa = _exponent_and_mantissa(value)
    try:
        return _finite(whole(ldexp(mantissa, exponent)))
    except OverflowError:
        raise ValueError("a fraction that is out of range or invalid")


def _finite(value: int | float) -> int | float:
    if not isfinite(value):
        raise ValueError("a fraction that is out of range or invalid")
    return value


def _uuid(value: Any) -> str:
    if type(value) is not bytes or len(value) != 16:
        raise ValueError("invalid UUID")
    return str(UUID(bytes=value))


def _bytes(value: Any) -> bytes:
    if type(value) is not bytes:
        raise ValueError("invalid array of integers")
    return value


def _set(value: Any) -> set[Any]:
    if not isinstance(value, list | tuple):
        raise ValueError("a set must be an array")
    return as_set([element if type(element) in _PLAIN else _cleaned(element) for element in value])


def _map(value: Any) -> Any:
    if type(value) is not dict:  # as a key it comes as another type
        raise ValueError("invalid map, or a map as a key")
    return value


def _same(value: Any) -> Any:
    return value


def _refusal(tag: int) -> Callable[[Any], Any]:
    def refuse(value: Any) -> Any:
        raise ValueError(f"tag {tag} is not supported")

    return refuse


_CONVERSIONS: dict[int, Callable[[Any], Any]] = {
    0: _date_from_text,
    2: _positive_integer,
    3: _negative_integer,
    4: _decimal_fraction,
    5: _bigfloat,
    37: _uuid,
    64: _bytes,
    100: _date_from_days,
    1004: _date_from_day_text,
    258: _set,
    259: _map,
}
_HINTS = (21, 22, 23, 24, 32, 33, 34, 55799)
# All that cbor2 would make an object of: references to other parts, fractions, patterns, messages, addresses, complex numbers.
_UNWANTED = (25, 28, 29, 30, 35, 36, 52, 54, 256, 260, 261, 43000)


def _as_callback(convert: Callable[[Any], Any]) -> Callable[[Any, bool], Any]:
    def callback(value: Any, immutable: bool) -> Any:
        result = convert(value)
        return frozenset(result) if immutable and type(result) is set else result

    return callback


_TAGS: dict[int, Any] = {
    tag: _as_callback(convert)
    for tag, convert in (_CONVERSIONS | dict.fromkeys(_HINTS, _same) | {tag: _refusal(tag) for tag in _UNWANTED}).items()
}


def _seconds(value: Any, immutable: bool) -> datetime:
    """The most common tag, decoded directly."""
    if type(value) is int and _FIRST_SECOND <= value <= _LAST_SECOND:
        return _EPOCH + timedelta(seconds=value)
    return _date_from_seconds(value)


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_FIRST_SECOND = MIN_DATE_MS // 1000
_LAST_SECOND = MAX_DATE_MS // 1000
_TAGS[1] = _seconds


def _unknown_tag(tag: cbor2.CBORTag, immutable: bool) -> Any:
    raise ValueError(f"tag {tag.tag} is not supported")
