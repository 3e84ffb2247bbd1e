"""Messages between nodes: any headers and any bytes are taken, or a WireError, nothing else; and what is taken can be relied upon.

An input is a stream: for each message its headers, as lines `name: value`, an empty line, the length of the body in 4 bytes, and the body. Invariant:

1. `Assembler.take` gives a Delivery or a Taken, or raises WireError. After that a new assembler goes on with what has been applied.
2. LSNs of what it delivers grow, above what was applied, up to `last_lsn`; each transaction has entries, and these have what their kind needs.
3. So it is when the stream comes again, or in another order.
4. What is delivered, sent again as its own origin would, arrives as it was.
5. Names: any text is a token, or a ValueError, and tokens lead back.

Inputs are streams that a packer has made of made-up logs, mutated in their headers, in bodies, and in what is in the bodies.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Iterator, Sequence
from math import isfinite
from pathlib import Path
from typing import Any

import msgspec

sys.path.insert(0, str(Path(__file__).parents[1]))

from fuzz.runner import mutate, run
from svc.cluster.assembly import Assembler, Delivery
from svc.cluster.names import name_of, stream_owner, subject_names, token
from svc.cluster.packing import LogPacker
from svc.cluster.wire import MAX_BODY, Message, WireError, decode_body, encode_body
from svc.store.log.entries import DELETE, NOTES
from tests.support.wire import INCARNATION, LEFT_OUT, NODE, made_log

CORPUS = Path(__file__).parent / "corpus" / "wire"
LIMIT = 1 << 20  # bytes of a transaction
TOKENS = (
    *(
        b"F: 1\n",
        b"F: 2\n",
        b"L: ",
        b"P: ",
        b"I: 0001020304050607\n",
        b"C: 1\n",
        b"C: 2/2\n",
        b"C: ",
        b"\n\n",
        b"9223372036854775807",
        b"-1",
    ),
    *(
        b"\x28\xb5\x2f\xfd",
        b"\x92\x80\x91\x98",
        b"\xdd\xff\xff\xff\xff",
        b"\xdf\xff\xff\xff\xff",
        b"\xc6\xff\xff\xff\xff",
        b"\xc0",
        b"\x90",
        b"\x80",
    ),
    *(b"\xcb\x7f\xf8\0\0\0\0\0\0", b"\xcb\x7f\xf0\0\0\0\0\0\0", b"\xcf" + b"\xff" * 8, b"\xd3" + b"\xff" * 8, b"\x91" * 600),
)
VALUES: tuple[Any, ...] = (
    0,
    -1,
    1,
    5,
    7,
    1 << 62,
    (1 << 64) - 1,
    -(1 << 63),
    float("nan"),
    float("inf"),
    -0.0,
    None,
    "",
    "T",
    b"",
    b"\x10A\0",
    b"x" * 16,
    [],
    {},
)

Pair = tuple[dict[str, str], bytes]


def encode_stream(messages: Sequence[Pair]) -> bytes:
    return b"".join(
        "".join(f"{name}: {value}\n" for name, value in headers.items()).encode() + b"\n" + len(body).to_bytes(4) + body
        for headers, body in messages
    )


def decode_stream(data: bytes) -> list[Pair]:
    found: list[Pair] = []
    while data:
        head, _, rest = data.partition(b"\n\n")
        lines = [line.partition(": ") for line in head.decode("utf-8", "replace").split("\n")]
        size = int.from_bytes(rest[:4])
        found.append(({name: value for name, _, value in lines}, rest[4 : 4 + size]))
        data = rest[4 + size :]
    return found


def deliveries(messages: Sequence[Pair], applied: int = 0) -> Iterator[Delivery]:
    assembler = Assembler(INCARNATION, applied, limit=LIMIT)
    for headers, body in messages:
        before = assembler.applied
        try:
            found = assembler.take(headers, body)
        except WireError:
            assert assembler.applied == before
            assembler = Assembler(INCARNATION, before, limit=LIMIT)
            continue
        if isinstance(found, Delivery):
            last = before
            for transaction in found.transactions:
                assert last < transaction.lsn <= transaction.last_lsn <= found.last_lsn
                assert transaction.entries and isfinite(transaction.version) and isfinite(transaction.wall_ms)
                last = transaction.last_lsn
                for entry in transaction.entries:
                    assert 1 <= entry.kind <= 5 and entry.table and (entry.key or entry.kind in NOTES)
                    assert entry.value is None or (entry.kind != DELETE and len(entry.value) >= 17)
            assert assembler.applied == found.last_lsn >= before
            yield found
        else:
            assert assembler.applied == before


def check(data: bytes) -> None:
    """The whole invariant."""
    messages = decode_stream(data)
    found = list(deliveries(messages))
    source = random.Random(data)
    list(deliveries(messages + source.sample(messages, len(messages)) + messages))
    for each in found:
        if not each.transactions and not each.definitions:
            continue  # of what was known, but for its last LSN
        first = each.transactions[0].lsn - 1 if each.transactions else each.last_lsn
        again = Message(each.last_lsn, first, INCARNATION, body=encode_body(each.definitions, each.transactions))
        if decode_size(again.body) <= MAX_BODY:
            assert list(deliveries([(again.headers(), again.body)], first)) == [each]
    check_names(data[:200].decode("utf-8", "surrogateescape"))


def decode_size(body: bytes) -> int:
    try:
        return decode_body(body)[1]
    except WireError:
        return MAX_BODY + 1  # what came in chunks


def check_names(text: str) -> None:
    try:
        assert name_of(token(text)) == text
    except ValueError:
        pass
    for decode in (name_of, stream_owner, lambda found: subject_names("log", found)):
        try:
            decode(text)
        except ValueError:
            pass


def change_values(source: random.Random, body: bytes) -> bytes:
    """A body with one of its values, somewhere, replaced by another, doubled or left out."""
    try:
        content = msgspec.to_builtins(decode_body(body)[0], builtin_types=(bytes,))
    except WireError:
        return body
    inner = content = list(content)
    while True:
        place = source.randrange(len(inner)) if inner else 0
        if inner and isinstance(inner[place], (list, tuple)) and source.random() < 0.9:
            inner[place] = inner = list(inner[place])
            continue
        match source.randrange(4) if inner else 3:
            case 0:
                del inner[place]
            case 1:
                inner.insert(place, inner[source.randrange(len(inner))])
            case 2 if isinstance(inner[place], bytes):
                inner[place] = mutate(source, inner[place], TOKENS)
            case _:
                inner[place : place + 1] = [source.choice(VALUES)]
        break
    return encode_any(content)


def encode_any(content: Any) -> bytes:
    return msgspec.msgpack.encode(content)


def generate(source: random.Random, corpus: Sequence[bytes]) -> bytes:
    if corpus and source.random() < 0.1:
        return mutate(source, source.choice(corpus), TOKENS)
    packer = LogPacker(NODE, INCARNATION, left_out=LEFT_OUT, batch=source.choice((1, 300, 5_000)), chunk=source.choice((150, 600, 1 << 19)))
    if source.random() < 0.3:
        packer.define(source.randrange(6), {"Item": source.randbytes(source.choice((5, 1_000)))})
    rows = made_log(source, source.randrange(6), source.choice((20, 600)))
    messages = [(message.headers(), message.body) for message in packer.messages(rows, 0) if message is not None]
    for _ in range(source.randrange(4)):
        if not messages:
            break
        place = source.randrange(len(messages))
        headers, body = messages[place]
        match source.randrange(6):
            case 0:
                messages[place] = headers, mutate(source, body, TOKENS)
            case 1 | 2:
                messages[place] = headers, change_values(source, body)
            case 3:
                name = source.choice("FLPIC")
                messages[place] = headers | {name: source.choice(("0", "1", "2", "1/1", "2/2", "3", "7", "9" * 19, "", "x"))}, body
            case 4:
                messages.insert(place, source.choice(messages))
            case _:
                del messages[place]
    data = encode_stream(messages)
    return mutate(source, data, TOKENS) if source.random() < 0.2 else data


if __name__ == "__main__":
    sys.exit(run("wire", generate, check, CORPUS))
