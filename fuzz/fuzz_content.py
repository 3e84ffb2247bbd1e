"""Request bodies of every structured type: any bytes are a value or the sender's fault.

Invariant, for any bytes and any of the types, with and without declared attributes:

1. Decoding returns a value or raises BadBody or BadValue, both 400, with a message that can be sent; nothing else.
2. A value consists of plain types alone: no object of a decoder's own, no tuple but as a key, no integer that has no decimal digits.
3. What can be stored is written by every type; and CBOR, MessagePack and JSON read it back as the same value.

The first byte of an input chooses the type, the rest is the body.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from fuzz.runner import mutate, run
from svc.content.csv_reader import CsvRecord
from svc.content.registry import ContentTypes
from svc.errors import BadBody, BadValue, ClientError, NotAcceptable
from svc.store.schema import Attribute
from svc.store.values.records import encode as encode_record

CORPUS = Path(__file__).parent / "corpus" / "content"

TYPES = ContentTypes.built_in()
JSON, CBOR, MSGPACK, CSV, NDJSON, FORM = (
    TYPES[name]
    for name in (
        "application/json",
        "application/cbor",
        "application/x-msgpack",
        "text/csv",
        "application/x-ndjson",
        "application/x-www-form-urlencoded",
    )
)
WRITERS = [kind for name in TYPES if (kind := TYPES.named(name)) is not None]
ATTRIBUTES = {
    attribute.name: attribute
    for attribute in (
        Attribute("a", "Int"),
        Attribute("b", "Float"),
        Attribute("c", "Date"),
        Attribute("d", "Boolean"),
        Attribute("e", "BigInt"),
        Attribute("f", "String", elements=True),
        Attribute("g", "Bytes"),
        Attribute("h", "Any"),
    )
}
# (type, parameters of its Content-Type, declared attributes), by the first byte of an input.
CHOICES: list[tuple[Any, dict[str, str], dict[str, Attribute] | None]] = [
    (JSON, {}, None),
    (CBOR, {}, None),
    (MSGPACK, {}, None),
    (MSGPACK, {"sequence": "true"}, None),
    (CSV, {}, None),
    (CSV, {}, ATTRIBUTES),
    (CSV, {"charset": "utf-16"}, ATTRIBUTES),
    (NDJSON, {}, None),
    (FORM, {}, None),
    (FORM, {"charset": "shift_jis"}, ATTRIBUTES),
]

# What one type can hold and another cannot.
LIMITS = ("nested too deeply", "more than 1000 bits", "an integer of", "a set or an object cannot be a key")

MOMENT = datetime(2024, 1, 5, 20, 7, 27, 955000, UTC)
VALUES: list[Any] = [
    None, True, 0, -1, 2**53, 2**64, -(2**64), 10**290, 1.5, -0.0, 1e300, "", "a", "\u00e9\U0001f600", "007", "null", 'x"y,\r\n', b"", b"\xff\x00",
    MOMENT, datetime(1, 1, 1, tzinfo=UTC), datetime(9999, 12, 31, 23, 59, 59, 999000, UTC), [], [[]], {}, {"a": {"b": []}}, set(), {1, "a", (1, 2)},
    {frozenset((1,))}, {1: 2, None: 3, (1,): 4, MOMENT: 5}, list(range(30)), {str(number): number for number in range(30)},
]  # fmt: skip
ATOMS = b'[ ] { } , : " "" \n \r\n & = + % %41 a b c d e f g h 1 1.0 -1 1e5 null true \\u00e9 \\ud800 \xef\xbb\xbf'.split(b" ")
ATOMS += [
    b"\xd9\x01\x02", b"\xd9\x01\x03", b"\xc1", b"\xc0", b"\xc2\x41\x01", b"\xc3", b"\xc4\x82\x01\x01", b"\xd8\x1c", b"\xd8\x1d\x00", b"\xd8\x19\x00",
    b"\xd9\x01\x00", b"\xd8\x23", b"\xd9\xd9\xf7", b"\x9f", b"\xbf", b"\x5f", b"\x7f", b"\xff", b"\xf7", b"\xe0", b"\x9b\xff\xff\xff\xff\xff\xff\xff\xff",
    b"\xd4\x73\x90", b"\xd5\x73\x91\x01", b"\xd6\xff", b"\xd7\xff", b"\xc7\x09\x42", b"\xdd\xff\xff\xff\xff", b"\xdf\xff\xff\xff\xff", b"\x81", b"\x91",
    b"\xa1",
]  # fmt: skip


def generate(source: random.Random, corpus: Sequence[bytes]) -> bytes:
    chance = source.random()
    if corpus and chance < 0.3:
        return mutate(source, source.choice(corpus), ATOMS)
    choice = source.randrange(len(CHOICES))
    if chance < 0.5:
        body = b"".join([source.choice(ATOMS) for _ in range(source.randint(0, 20))])
    elif chance < 0.6:
        body = source.randbytes(source.randint(0, 30))
    else:
        names = source.sample("abcdefghij", source.randint(1, 6))
        rows: Any = [{name: source.choice(VALUES) for name in names} for _ in range(source.choice((1, 1, 2, 5, 300)))]
        value = rows if source.random() < 0.7 else source.choice((source.choice(VALUES), rows[0]))
        body = mutate(source, CHOICES[choice][0].encode(value), ATOMS)
    return bytes((choice,)) + body


def check(data: bytes) -> None:
    if not data:
        return
    kind, parameters, attributes = CHOICES[data[0] % len(CHOICES)]
    try:
        value = kind.decode(data[1:], parameters, attributes)
    except (BadBody, BadValue) as error:
        assert error.status_code == 400
        assert len(error.message.encode()) < 1000, error.message
        return
    check_plain(value)
    try:
        encode_record({"value": value}, 1.0, 1, None)
    except ClientError:
        return
    for writer in WRITERS:
        try:
            body = writer.encode(value)
        except NotAcceptable:  # nested too deeply for it
            continue
        if writer in (CBOR, MSGPACK):
            try:
                assert same(writer.decode(body, {}), in_ms(value)), (writer, body)
            except BadBody as error:
                assert any(limit in error.message for limit in LIMITS), error.message


def check_plain(value: Any) -> None:
    stack = [(value, False)]
    while stack:
        value, is_key = stack.pop()
        kind = type(value)
        if kind is dict or kind is CsvRecord:
            assert not is_key
            stack += [(key, True) for key in value]
            stack += [(member, False) for member in value.values()]
        elif kind is list:
            assert not is_key
            stack += [(element, False) for element in value]
        elif kind is set or kind is frozenset or kind is tuple:
            assert is_key or kind is set
            stack += [(element, True) for element in value]
        elif kind is datetime:
            assert value.tzinfo is UTC
        elif kind is int:
            str(value)
        else:
            assert kind in (str, float, bool, bytes, type(None)), kind


def in_ms(value: Any) -> Any:
    """Dates with whole milliseconds, as they are written."""
    if isinstance(value, datetime):
        return value.replace(microsecond=value.microsecond // 1000 * 1000)
    if isinstance(value, dict):
        return {in_ms(key): in_ms(member) for key, member in value.items()}
    return type(value)(map(in_ms, value)) if isinstance(value, list | tuple | set | frozenset) else value


def same(one: Any, other: Any) -> bool:
    """Equal, and NaN is equal to itself."""
    try:
        return one == other or repr(one) == repr(other)
    except RecursionError:
        return True


if __name__ == "__main__":
    sys.exit(run("content", generate, check, CORPUS))
