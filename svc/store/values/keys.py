r"""Values <-> bytes whose order is the order of the values (spec: schema-and-store §10.1-§10.6, §6.2).

Comparing two encodings as bytes compares the two values:

    null < false < true < numbers < text < bytes < lists

Integers, floats and dates (as milliseconds since the epoch) are one number line; -0 is 0, 5 is 5.0, a bool is no number. Text is ordered by
code point, lists element by element, a shorter list before a longer one with the same beginning.

Format. The first byte is the kind; the rest depends on it:

    02            null
    03  04        false, true
    08 d [s]      number. d: the nearest double, 8 bytes big-endian, sign bit inverted if it is not negative, else all bits inverted.
                  s, only if |double| >= 2**53, where doubles are no longer exact: the number minus its double, as one byte 80 + n and
                  n bytes big-endian; a negative difference as 80 - n and the n bytes of 256**n + difference
    10 t 00       text: UTF-8, in which 00 is written 01 01, and 01 is written 01 02
    18 b 00       bytes, escaped in the same way
    20 e... 00    list: the encodings of its elements

Invariants:

1. encode_key(a) < encode_key(b) exactly if a < b; equal values have equal bytes, and only they.
2. No encoding is the beginning of another. So encodings can be joined (a + b sorts as the pair, `split` takes it apart), a list needs no
   lengths, and cutting all encodings at the same length keeps their order and never makes a long one equal to a short one.
3. `encode_key(decode_key(data)) == data`, or `decode_key` raises ValueError.

LMDB takes keys and duplicate values of at most 511 bytes. Two functions fit an encoding into MAX_STORED = 510 bytes, which leaves room
for `after(key)`; the length of the result shows that it was cut, because an uncut one has at most 509 bytes:

- `storage_key`, for primary keys: the first 494 bytes and a 16-byte BLAKE2b hash of the whole. Two keys that differ in their first 494
  bytes keep their order, and so do two that are not longer than 509 bytes. Where two keys agree in 494 bytes and one of them is longer
  than 509, the order would be arbitrary: the second one is refused when it is written (`write_set`). To keep such keys in order would take a
  store of their ranks, or sorting at each scan, index and cursor, for keys that are rare. The record holds its key attribute,
  which is the whole key.
- `index_key`, for index entries: text cut after 256 characters and marked with FF (which UTF-8 never contains), anything at 510 bytes.
  Values with the same cut key are neighbours; which of them comes first is known from the records only.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from hashlib import blake2b
from struct import Struct

from svc.errors import BadValue

Key = str | int | float | tuple["Key", ...]

NULL, FALSE, TRUE, NUMBER, TEXT, BYTES, LIST, END = 0x02, 0x03, 0x04, 0x08, 0x10, 0x18, 0x20, 0x00

MAX_STORED = 510  # LMDB's 511, less one byte for `after`
MAX_KEY_CHARACTERS = 659  # schema-and-store §6.2
MAX_KEY_BYTES = 1978
INDEX_CHARACTERS = 256  # schema-and-store §10.6
MAX_DEPTH = 64  # lists in lists
HASH_BYTES = 16
KEPT_BYTES = MAX_STORED - HASH_BYTES

NULL_KEY = b"\x02"
FALSE_KEY = b"\x03"
TRUE_KEY = b"\x04"
ZERO_KEY = b"\x08\x80\0\0\0\0\0\0\0"

_pack_number = Struct(">Bd").pack
_pack_double = Struct(">d").pack
_unpack_double = Struct(">d").unpack
_INVERTED = bytes(range(255, -1, -1))
_ESCAPED = re.compile(rb"\x01[\x01\x02]")
_EXACT = 1 << 53
_EXACT_LOW, _EXACT_HIGH = b"\x3c\xc0", b"\xc3\x40"
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)


def encode_key(value: object) -> bytes:
    r"""The bytes that stand for `value` in the total order.

    Takes None, bool, int and float within the range of a double, datetime (without zone: UTC), str, bytes, and lists or tuples of these.
    Raises BadValue for anything else: objects, NaN, infinities, text with half a surrogate pair.

    >>> encode_key("ab")
    b'\x10ab\x00'
    >>> encode_key(5) == encode_key(5.0) != encode_key("5")
    True
    >>> values = [None, False, True, -(10**30), -1.5, 0, 2**53, 2**53 + 1, "10", "A", "a", "a\0", b"", [], [1], [1, None], [2]]
    >>> [decode_key(data) for data in sorted(map(encode_key, reversed(values)))] == [tuple(v) if type(v) is list else v for v in values]
    True
    """
    kind = type(value)
    if kind is str:
        # One formatting and one encoding of the whole: 0.15 us for a short text; joining bytes takes twice as long.
        if "\0" in value or "\1" in value:  # type: ignore[operator]
            value = value.replace("\1", "\1\2").replace("\0", "\1\1")  # type: ignore[attr-defined]
        try:
            return f"\x10{value}\0".encode()
        except UnicodeEncodeError:
            raise BadValue("A string with an unpaired surrogate cannot be a key")
    if kind is int:
        if 0 < value < _EXACT:  # type: ignore[operator]
            # A positive double with its sign bit inverted is its negation.
            return _pack_number(NUMBER, -value)  # type: ignore[operator]
        return _encode_int(value)  # type: ignore[arg-type]
    if kind is float:
        return _encode_float(value)  # type: ignore[arg-type]
    if value is None:
        return NULL_KEY
    if kind is bool:
        return TRUE_KEY if value else FALSE_KEY
    return _encode_other(value)


def decode_key(data: bytes) -> Key | bool | bytes | None:
    r"""The value of an encoding; a whole number as int, a date as its ms, a list as tuple. Raises ValueError for anything else,
    cut or hashed keys included.

    >>> decode_key(encode_key((1, "a", (2.5,))))
    (1, 'a', (2.5,))
    >>> decode_key(b"\x10ab")
    Traceback (most recent call last):
    ...
    ValueError: not an encoded key: 106162
    """
    if data[:1] == b"\x10" and data[-1] == END and len(data) > 1:
        text = data[1:-1].decode()
        if "\1" not in text and "\0" not in text:
            return text
    return _decode(data)


def split(data: bytes) -> tuple[bytes, bytes]:
    r"""Take apart what was joined: (the first encoding, the rest). Decodes nothing.

    >>> split(encode_key("a") + encode_key(1)) == (encode_key("a"), encode_key(1))
    True
    """
    end = _end(data, 0)
    return data[:end], data[end:]


def encode_primary(value: object) -> bytes:
    """`encode_key` for the key of a record: BadValue also for null, booleans and keys over the limits of schema-and-store §6.2.

    >>> encode_primary("a" * 660)
    Traceback (most recent call last):
    ...
    svc.errors.BadValue: Primary key is too long, at most 659 characters and 1978 bytes are allowed
    """
    data = encode_key(value)
    # A key this short is within the limits whatever it consists of.
    if len(data) >= MAX_STORED and (len(data) > MAX_KEY_BYTES + 2 or _characters(value) > MAX_KEY_CHARACTERS):
        raise BadValue(f"Primary key is too long, at most {MAX_KEY_CHARACTERS} characters and {MAX_KEY_BYTES} bytes are allowed")
    if data[0] < NUMBER:
        raise BadValue(f"Primary key must be a string or a number, not {'null' if value is None else str(value).lower()}")
    return data


def storage_key(data: bytes) -> bytes:
    """The key under which a record with this encoded primary key is stored: the same, or its beginning and a hash (see above).

    >>> storage_key(encode_key("a")) == encode_key("a"), len(storage_key(encode_key("a" * 600)))
    (True, 510)
    """
    if len(data) < MAX_STORED:
        return data
    return data[:KEPT_BYTES] + blake2b(data, digest_size=HASH_BYTES).digest()


def is_hashed(stored: bytes) -> bool:
    """Whether `storage_key` left something out, so that `decode_key` cannot be used."""
    return len(stored) == MAX_STORED


def storage_low(low: bytes) -> bytes:
    """Where a scan of stored keys starts so that it meets every key >= `low`; it may meet a few smaller ones if `low` is long."""
    # Even a bound that would be stored whole may stand behind the hash of a greater key with the same beginning.
    return low if len(low) <= KEPT_BYTES else low[:KEPT_BYTES]


def storage_high(high: bytes) -> bytes:
    """Where a scan of stored keys ends (exclusive) so that it meets every key < `high`; it may meet a few others if `high` is long."""
    return high if len(high) <= KEPT_BYTES else _next_beginning(high[:KEPT_BYTES])


def index_key(value: object) -> bytes:
    """`encode_key`, cut so that it fits.

    >>> index_key("a" * 256) < index_key("a" * 257) == index_key("a" * 300) < index_key("a" * 255 + "b")
    True
    """
    if type(value) is str and len(value) > INDEX_CHARACTERS:
        data = encode_key(value[:INDEX_CHARACTERS])
        data = data[:-1] + b"\xff"
    else:
        data = encode_key(value)
    return data if len(data) < MAX_STORED else data[:MAX_STORED]


def is_cut(data: bytes) -> bool:
    """Whether several values may share this index key, so that the record must be asked.

    >>> is_cut(index_key("a" * 256)), is_cut(index_key("a" * 257))
    (False, True)
    """
    return (data[-1] == 0xFF and data[0] == TEXT) or len(data) == MAX_STORED


def index_keys(value: object) -> Sequence[bytes]:
    """The index keys of an attribute's value, each once: one, or one for each element of a list or set. Pass None for a missing attribute.

    What has no place in the order (objects, NaN) contributes nothing (spec: schema-and-store §10.5), nor does an empty list.

    >>> index_keys(["a", None, "a"]) == [encode_key("a"), encode_key(None)], index_keys({"a": 1}), index_keys(None)
    (True, (), (b'\\x02',))
    """
    kind = type(value)
    if kind is list or kind is tuple or kind is set:
        found: dict[bytes, None] = {}
        for element in value:  # type: ignore[attr-defined]
            try:
                found[index_key(element)] = None
            except BadValue:
                continue
        return list(found)
    try:
        return (index_key(value),)
    except BadValue:
        return ()


def after(data: bytes) -> bytes:
    """The smallest bytes behind `data`: as exclusive end of a range it includes `data`, as start it excludes it."""
    return data + b"\0"


def kind_range(value: object) -> tuple[bytes, bytes]:
    """(low, high) of all keys of the kind of `value`, high exclusive: ranges compare like with like (spec: schema-and-store §10.3).

    >>> low, high = kind_range(5)
    >>> [low <= encode_key(v) < high for v in (-1e308, datetime.now(), 10**300, True, "5", None)]
    [True, True, True, False, False, False]
    """
    kind = encode_key(value)[0]
    return bytes((kind,)), bytes((kind + 1,))


def prefix_range(text: str) -> tuple[bytes, bytes]:
    """(low, high) of the keys of all texts that start with `text`, itself included; high exclusive.

    >>> low, high = prefix_range("a/b/")
    >>> [low <= encode_key(key) < high for key in ("a/b/", "a/b/c", "a/b", "a/bc", "a/b0")]
    [True, True, False, False, False]
    """
    low = encode_key(text)[:-1]
    return low, _next_beginning(low)


def index_prefix_range(text: str) -> tuple[bytes, bytes]:
    """The same for index keys: exact up to 256 characters, else the range of all that agree in the part that an index key holds.

    >>> low, high = index_prefix_range("a" * 300)
    >>> low <= index_key("a" * 400) < high
    True
    """
    low = encode_key(text[:INDEX_CHARACTERS])[:-1][: MAX_STORED - 1]
    return low, _next_beginning(low)


def list_prefix_range(elements: Sequence[object]) -> tuple[bytes, bytes]:
    """(low, high) of the keys of all lists that begin with `elements` and are longer; high exclusive.

    >>> low, high = list_prefix_range(("a", 1))
    >>> [low <= encode_key(key) < high for key in (("a", 1), ("a", 1, None), ("a", 1, ("z",)), ("a", 2), "a")]
    [False, True, True, False, False]
    """
    common = encode_key(tuple(elements))[:-1]
    return common + b"\1", common + b"\xff"


def _encode_int(value: int) -> bytes:
    if not value:
        return ZERO_KEY
    if -_EXACT < value < _EXACT:
        return b"\x08" + _pack_double(value).translate(_INVERTED) if value < 0 else _pack_number(NUMBER, -value)
    try:
        double = float(value)
    except OverflowError:
        raise BadValue("Number is too large for a key")
    difference = value - int(double)
    size = (abs(difference).bit_length() + 7) >> 3
    if difference < 0:
        return _encode_double(double) + bytes((0x80 - size,)) + ((1 << 8 * size) + difference).to_bytes(size, "big")
    return _encode_double(double) + bytes((0x80 + size,)) + difference.to_bytes(size, "big")


def _encode_float(value: float) -> bytes:
    if not value:
        return ZERO_KEY
    if -_EXACT < value < _EXACT:
        return _encode_double(value)
    if value - value:  # NaN for NaN and infinities, else 0
        raise BadValue("NaN and infinities cannot be keys")
    return _encode_double(value) + b"\x80"


def _encode_double(value: float) -> bytes:
    """Kind and 8 bytes of a double that is neither zero nor NaN."""
    return _pack_number(NUMBER, -value) if value > 0 else b"\x08" + _pack_double(value).translate(_INVERTED)


def _encode_other(value: object) -> bytes:
    """What is rare: everything but str, int, float, None and bool, and subclasses of these."""
    if isinstance(value, (list, tuple)):
        return _encode_list(value, 1)
    if isinstance(value, datetime):
        aware = value if value.tzinfo is not None else value.replace(tzinfo=UTC)
        return _encode_int((aware - _EPOCH) // _MILLISECOND)
    if isinstance(value, (bytes, bytearray, memoryview)):
        return b"\x18" + _escape(bytes(value)) + b"\0"
    if isinstance(value, str):
        return encode_key(str.__str__(value))
    if isinstance(value, int):
        return _encode_int(int(value))
    if isinstance(value, float):
        return _encode_float(float(value))
    raise BadValue(f"A value of type {type(value).__name__} cannot be a key")


def _encode_list(value: Sequence[object], depth: int) -> bytes:
    if depth > MAX_DEPTH:
        raise BadValue(f"A list nested more than {MAX_DEPTH} times cannot be a key")
    parts = [_encode_list(element, depth + 1) if isinstance(element, (list, tuple)) else encode_key(element) for element in value]
    return b"\x20" + b"".join(parts) + b"\0"


def _decode(data: bytes) -> Key | bool | bytes | None:
    """Any encoding; lists without recursion, which is also faster."""
    opened: list[list[object]] = []
    position = 0
    while True:
        kind = data[position] if position < len(data) else END
        if kind == LIST:
            if len(opened) == MAX_DEPTH:
                raise _not_a_key(data)
            opened.append([])
            position += 1
            continue
        if kind == END and opened and position < len(data):
            value: object = tuple(opened.pop())
            position += 1
        else:
            end = _scalar_end(data, position)
            value = _decode_scalar(data, position, end)
            position = end
        if not opened:
            break
        opened[-1].append(value)
    if position != len(data):
        raise _not_a_key(data)
    return value  # type: ignore[return-value]


def _decode_scalar(data: bytes, start: int, end: int) -> Key | bool | bytes | None:
    kind = data[start]
    if kind == NUMBER:
        return _decode_number(data, start, end)
    if kind == TEXT:
        return _unescape(data[start + 1 : end - 1]).decode()
    if kind == BYTES:
        return _unescape(data[start + 1 : end - 1])
    return None if kind == NULL else kind == TRUE


def _decode_number(data: bytes, start: int, end: int) -> int | float:
    raw = data[start + 1 : start + 9]
    double: float = _unpack_double(raw.translate(_INVERTED))[0] if raw[0] < 0x80 else -_unpack_double(raw)[0]
    if double - double:
        raise _not_a_key(data)
    value = int(double) if double.is_integer() else double
    if end > start + 10:
        size = data[start + 9] - 0x80
        difference = int.from_bytes(data[start + 10 : end], "big")
        value += difference if size > 0 else difference - (1 << -8 * size)
        try:
            # The difference may be longer than needed, or so large that another double would be nearer.
            canonical = _encode_int(value)  # type: ignore[arg-type]
        except BadValue:
            canonical = b""
        if canonical != data[start:end]:
            raise _not_a_key(data)
    elif raw == b"\x7f\xff\xff\xff\xff\xff\xff\xff":  # -0
        raise _not_a_key(data)
    return value


def _end(data: bytes, start: int) -> int:
    """The position after the encoding that begins at `start`; ValueError if there is none."""
    depth = 0
    while start < len(data):
        kind = data[start]
        if kind == LIST:
            depth += 1
            start += 1
        elif kind == END and depth:
            depth -= 1
            start += 1
        else:
            start = _scalar_end(data, start)
        if not depth:
            return start
    raise _not_a_key(data)


def _scalar_end(data: bytes, start: int) -> int:
    kind = data[start] if start < len(data) else END
    if kind in (TEXT, BYTES):
        end = data.find(b"\0", start) + 1
        if end:
            return end
    elif kind == NUMBER:
        end = start + 9
        # Is the magnitude 2**53 or more? Then the exponent, inverted as the number is, lies outside these bounds.
        if not _EXACT_LOW <= data[start + 1 : start + 3] < _EXACT_HIGH:
            end += 1 + (abs(data[end] - 0x80) if end < len(data) else 0)
        if end <= len(data):
            return end
    elif kind in (NULL, FALSE, TRUE):
        return start + 1
    raise _not_a_key(data)


def _escape(data: bytes) -> bytes:
    return data.replace(b"\1", b"\1\2").replace(b"\0", b"\1\1")


def _unescape(data: bytes) -> bytes:
    """Undo the escaping of text and bytes; ValueError if 01 is followed by anything but 01 or 02."""
    if b"\1" not in data:
        return data
    # From left to right, because in 01 01 01 02 (NUL, SOH) the second 01 begins nothing.
    plain = _ESCAPED.sub(lambda match: b"\0" if match[0] == b"\1\1" else b"\1", data)
    if _escape(plain) != data:
        raise _not_a_key(data)
    return plain


def _characters(value: object) -> int:
    """Characters of a text; of a list, of its texts joined by slashes."""
    if isinstance(value, str):
        return len(value)
    if isinstance(value, (list, tuple)):
        return sum(_characters(element) for element in value) + max(len(value) - 1, 0)
    return 0


def _next_beginning(data: bytes) -> bytes:
    """The smallest bytes greater than everything that begins with `data`, which does not consist of FF only."""
    data = data.rstrip(b"\xff")
    return data[:-1] + bytes((data[-1] + 1,))


def _not_a_key(data: bytes) -> ValueError:
    return ValueError(f"not an encoded key: {data.hex()}")
