"""Keys: any bytes are an encoded key or ValueError, and whatever is a key behaves as one.

Invariant, for any bytes `a` and `b` (an input is both, joined by SEPARATOR):

1. `decode_key(a)` returns a value or raises ValueError, nothing else, however deep the nesting.
2. What it returns, encoded, is `a` again: there is one encoding for a value.
3. `split` agrees: it takes exactly `a` off whatever begins with it, or raises ValueError.
4. Two keys are never the beginning of each other, and their order is that of their values, as plain Python compares them.
5. `storage_key` and `index_key` fit LMDB, never contradict the order where they say they keep it, and tell when they left something out.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from fuzz.runner import mutate, run
from svc.errors import BadValue
from svc.store.values.keys import KEPT_BYTES, MAX_STORED, decode_key, encode_key, index_key, is_cut, is_hashed, split, storage_key

CORPUS = Path(__file__).parent / "corpus" / "keys"
SEPARATOR = b"\xfe\xfe"

_KINDS = (type(None), bool, int, float, str, bytes, tuple)
_RANKS = {type(None): 0, bool: 1, int: 2, float: 2, str: 3, bytes: 4, tuple: 5}

TOKENS = (
    b"\x02", b"\x03", b"\x04", b"\x08\x80\0\0\0\0\0\0\0", b"\x08\xc3\x40\0\0\0\0\0\0\x80", b"\x08\x3c\xbf\xff\xff\xff\xff\xff\xff\x7f\xff",
    b"\x10", b"\x18", b"\x20", b"\0", b"\1\1", b"\1\2", b"\1\3", b"\xff", b"\x80", b"\x81\1", b"\x08\x7f\xf0", b"\x10abc\0", b"\x20\0",
    b"a" * 250, b"\xf0\x9f\x98\x80" * 125,
)  # fmt: skip


def decoded(data: bytes) -> tuple[object, bool]:
    """(value, whether there is one)."""
    try:
        value = decode_key(data)
    except ValueError:
        return None, False
    assert type(value) in _KINDS
    assert encode_key(value) == data, f"{value!r} has another encoding than {data.hex()}"
    return value, True


def compare(a: object, b: object) -> int:
    """-1, 0 or 1 by the order of values, without a look at any bytes."""
    rank_a, rank_b = _RANKS[type(a)], _RANKS[type(b)]
    if rank_a != rank_b:
        return -1 if rank_a < rank_b else 1
    if isinstance(a, tuple) and isinstance(b, tuple):
        return next((order for order in map(compare, a, b) if order), (len(a) > len(b)) - (len(a) < len(b)))
    if a is None:
        return 0
    return (a > b) - (a < b)  # type: ignore[operator]


def sign(a: bytes, b: bytes) -> int:
    return (a > b) - (a < b)


def check(data: bytes) -> None:
    """The whole invariant, for the two parts of `data`."""
    a, _, b = data.partition(SEPARATOR)
    value_a, is_key_a = decoded(a)
    value_b, is_key_b = decoded(b)
    for part in (a, b, a + b):
        try:
            first, rest = split(part)
        except ValueError:
            assert not decoded(part)[1]
            continue
        assert first + rest == part
        assert not decoded(part)[1] or not rest
    if is_key_a:
        assert split(a + b) == (a, b)
        stored, entry = storage_key(a), index_key(value_a)
        assert len(stored) <= MAX_STORED >= len(entry)
        assert is_hashed(stored) or stored == a
        assert is_cut(entry) or entry == a
    if is_key_a and is_key_b:
        order = compare(value_a, value_b)
        assert sign(a, b) == order, f"{value_a!r} and {value_b!r} are in the wrong order"
        assert a == b or not (a.startswith(b) or b.startswith(a))
        assert sign(index_key(value_a), index_key(value_b)) in ((order, 0) if is_cut(index_key(value_a)) else (order,))
        short = len(a) < MAX_STORED and len(b) < MAX_STORED
        if short or a[:KEPT_BYTES] != b[:KEPT_BYTES] or a == b:
            assert sign(storage_key(a), storage_key(b)) == order
        assert (storage_key(a) == storage_key(b)) == (a == b)


def some_value(source: random.Random, depth: int = 0) -> object:
    match source.randrange(9 if depth < 3 else 7):
        case 0:
            return source.choice((None, False, True, 0, "", b"", ()))
        case 1:
            return source.randint(-3, 3)
        case 2:
            return source.choice((1, -1)) * (2 ** source.randrange(1001)) + source.randint(-3, 3)
        case 3:
            return source.choice((1, -1)) * source.random() * 10.0 ** source.randint(-300, 300)
        case 4:
            return "".join(source.choices("ab\0\1\2\xff\u0800\uffff\U00010000\U0010ffff", k=source.randrange(4)))
        case 5:
            return source.choice(("a", "é", "😀", "\0")) * source.choice((60, 127, 255, 256, 257, 300, 493, 508)) + source.choice(
                ("", "a", "\0", "b")
            )
        case 6:
            return bytes(source.choices(b"\0\1\2a\xff", k=source.randrange(4)))
        case _:
            return tuple(some_value(source, depth + 1) for _ in range(source.randrange(4)))


def generate(source: random.Random, corpus: Sequence[bytes]) -> bytes:
    if corpus and source.random() < 0.2:
        return mutate(source, source.choice(corpus), TOKENS)
    parts = []
    for _ in range(2):
        try:
            part = encode_key(some_value(source))
        except BadValue:
            part = b""
        parts.append(part)
    if source.random() < 0.2:  # two with a common beginning
        parts[1] = parts[0][: source.randrange(len(parts[0]) + 1)] + parts[1]
    if source.random() < 0.4:
        parts[1] = mutate(source, parts[source.randrange(2)], TOKENS)
    return SEPARATOR.join(parts)


if __name__ == "__main__":
    sys.exit(run("keys", generate, check, CORPUS))
