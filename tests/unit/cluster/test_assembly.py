"""svc.cluster.assembly: every way in which a message can follow what has been applied, or not, and every lie about transactions."""

from __future__ import annotations

import copy
from typing import Any

import msgspec
import pytest

from svc.cluster import assembly
from svc.cluster.assembly import Assembler, Delivery, Gap, OtherIncarnation, Taken, TransactionTooLarge
from svc.cluster.wire import Message, UnknownFormat, WireError, encode_body, encode_entry
from svc.store.log.entries import DELETE, INVALIDATE, MESSAGE, PATCH, PUT
from svc.store.values.records import encode
from svc.store.writing.remote_transaction import RemoteEntry, RemoteTransaction
from tests.support.wire import INCARNATION

VALUE = encode({"id": 1}, 1.0, 1, None)


def entry(**changes: Any) -> RemoteEntry:
    return msgspec.structs.replace(RemoteEntry(PUT, "Item", b"\x10A\0", VALUE, ("id",)), **changes)


def transaction(lsn: int, last_lsn: int | None = None, *entries: RemoteEntry, **changes: Any) -> RemoteTransaction:
    made = RemoteTransaction(lsn, lsn if last_lsn is None else last_lsn, 2.0, 3.0, "anna", 1, None, list(entries) or [entry()])
    return msgspec.structs.replace(made, **changes)


def whole(previous: int, last_lsn: int, *transactions: Any, **definitions: bytes) -> Message:
    return Message(last_lsn, previous, INCARNATION, body=encode_body(definitions, transactions))


def chunk(
    previous: int, number: int, part: Any = None, *, last: int = 0, piece: bytes = b"", left: int = 0, **definitions: bytes
) -> Message:
    """`last`: L of the last chunk."""
    body = encode_body(definitions, [] if part is None else [part], piece, left)
    return Message(last or previous, previous, INCARNATION, number, number if last else 0, body)


def part(lsn: int, *entries: RemoteEntry, last_lsn: int = 0, **changes: Any) -> RemoteTransaction:
    return transaction(lsn, last_lsn, **changes, entries=list(entries))


def take(assembler: Assembler, message: Message) -> Delivery | Taken:
    return assembler.take(message.headers(), message.body)


# -- whole messages


def test_one_after_the_other() -> None:
    assembler = Assembler(INCARNATION, 5)
    assert take(assembler, whole(5, 9, transaction(6, 7), transaction(8))) == Delivery({}, [transaction(6, 7), transaction(8)], 9)
    assert take(assembler, whole(9, 9, Item=b"d")) == Delivery({"Item": b"d"}, [], 9)
    assert take(assembler, whole(9, 12, Item=b"d")) == Delivery({"Item": b"d"}, [], 12)
    assert take(assembler, whole(12, 13, transaction(13))) == Delivery({}, [transaction(13)], 13)
    assert assembler.applied == 13


@pytest.mark.parametrize(
    ("message", "outcome"),
    [
        (whole(0, 2, transaction(1)), Taken.KNOWN),
        (whole(0, 5, transaction(1)), Taken.KNOWN),
        (whole(3, 3, Item=b"d"), Taken.KNOWN),
        (whole(2, 5, Item=b"d"), [[]]),  # they may come again: nothing is behind them yet
        (whole(5, 5, Item=b"d"), [[]]),
        (whole(3, 7, Item=b"d"), [[]]),
        (whole(6, 6, Item=b"d"), Gap),
        (whole(6, 9, transaction(7)), Gap),
        (whole(5, 9, transaction(6)), [[6]]),
        (whole(0, 9, transaction(1, 5), transaction(6)), [[6]]),
        (whole(3, 9, transaction(4)), [[]]),  # behind what is known there is nothing
        (whole(3, 9, transaction(4, 6)), WireError),  # 5 has been applied, and is in the middle
        (whole(3, 9, transaction(4, 4), transaction(5, 6)), WireError),
    ],
)
def test_where_it_stands(message: Message, outcome: Any) -> None:
    assembler = Assembler(INCARNATION, 5)
    if isinstance(outcome, type):
        with pytest.raises(outcome) as caught:
            take(assembler, message)
        assert type(caught.value) is outcome and assembler.applied == 5
    elif outcome is Taken.KNOWN:
        assert take(assembler, message) is Taken.KNOWN and assembler.applied == 5
    else:
        found = take(assembler, message)
        assert isinstance(found, Delivery)
        assert [[each.lsn for each in found.transactions]] == outcome and assembler.applied == found.last_lsn == message.last_lsn


def test_another_incarnation_and_another_format() -> None:
    message = whole(5, 6, transaction(6))
    with pytest.raises(OtherIncarnation) as caught:
        take(Assembler(bytes(8), 5), message)
    assert caught.value.incarnation == INCARNATION
    with pytest.raises(UnknownFormat):
        Assembler(bytes(8), 5).take(message.headers() | {"F": "2"}, message.body)


@pytest.mark.parametrize(
    "message", [whole(5, 6), whole(5, 5), whole(5, 6, transaction(6), T=b""), whole(5, 9, transaction(5)), whole(3, 9, transaction(3))]
)
def test_transactions_that_the_headers_deny(message: Message) -> None:
    with pytest.raises(WireError):
        take(Assembler(INCARNATION, 5), message)


LIES: list[dict[str, Any]] = [
    {"lsn": 0},
    {"lsn": -1},
    {"lsn": 5},
    {"lsn": 1 << 70},
    {"lsn": 9},
    {"last_lsn": 5},
    {"last_lsn": 10},
    {"last_lsn": 0},
    {"version": float("nan")},
    {"version": float("inf")},
    {"version": 1e300},
    {"version": 253_402_300_800_000.0},  # the year 10000
    {"wall_ms": 253_402_300_800_000.0},
    {"wall_ms": -1.0},
    {"version": -1.0},
    {"wall_ms": float("nan")},
    {"wall_ms": float("-inf")},
    {"operation": -1},
    {"operation": 4},
    {"trace_id": b""},
    {"trace_id": bytes(15)},
    {"entries": []},
    *(
        {"entries": [entry(), entry(**changes)]}
        for changes in (
            {"kind": 0},
            {"kind": -1},
            {"kind": 6},
            {"kind": 7},
            {"kind": 8},
            {"table": ""},
            {"key": b""},
            {"kind": DELETE, "key": b"", "value": None},
            {"kind": DELETE},
            {"value": None},
            {"kind": PATCH, "value": None},
            {"value": b""},
            {"value": VALUE[:16]},
            {"kind": MESSAGE, "value": VALUE[:16]},
            {"value": b"\x11" + VALUE[1:]},  # an expiry, for which there is no room
            {"value": b"\x50" + VALUE[1:]},
            {"value": encode({"id": 1}, 1.0, 1, None, refreshed=1.0)},
            {"value": encode({"id": 1}, 1.0, 1, None, refreshed=1.0, partial=True)},
        )
    ),
]


@pytest.mark.parametrize("lie", LIES, ids=str)
def test_transactions_that_are_none(lie: dict[str, Any]) -> None:
    good = transaction(7, 8, entry(), entry(kind=MESSAGE, key=b"", value=None), entry(kind=INVALIDATE, key=b"", value=None), entry())
    bad = msgspec.structs.replace(good, **lie)
    assert isinstance(take(Assembler(INCARNATION, 5), whole(5, 9, transaction(6), good)), Delivery)
    chunked = copy.copy(bad)
    if "last_lsn" not in lie:
        chunked.last_lsn = 9
    try:
        wrong = [whole(5, 9, transaction(6), bad), chunk(5, 1, chunked, last=9)]
    except OverflowError:
        return  # of the encoder: 64 bits
    for message in wrong:
        assembler = Assembler(INCARNATION, 5)
        if message.chunk and lie.get("lsn") in (5, 9):  # it would be the only one in its message: 5 is known, 9 begins where it ends
            continue
        with pytest.raises(WireError) as caught:
            take(assembler, message)
        assert type(caught.value) is WireError and assembler.applied == 5


def test_two_transactions_with_the_same_or_crossing_lsns() -> None:
    for first, second in ((transaction(6), transaction(6)), (transaction(6, 8), transaction(7, 9)), (transaction(7), transaction(6))):
        with pytest.raises(WireError):
            take(Assembler(INCARNATION, 5), whole(5, 9, first, second))


# -- chunks

A, B, C = entry(key=b"\x10A\0"), entry(key=b"\x10B\0"), entry(key=b"\x10C\0", changed=("id", "b"))
WHOLE = transaction(6, 8, A, B, C)
FIRST, SECOND, LAST = chunk(5, 1, part(6, A)), chunk(5, 2, part(6, B)), chunk(5, 3, part(6, C, last_lsn=8), last=8)
DELIVERED = Delivery({}, [WHOLE], 8)


@pytest.mark.parametrize(
    "order",
    [
        [FIRST, SECOND, LAST],
        [FIRST, FIRST, SECOND, LAST],
        [FIRST, SECOND, FIRST, SECOND, LAST],
        [FIRST, SECOND, SECOND, LAST],
        [whole(0, 5, transaction(1)), FIRST, SECOND, LAST],
        [FIRST, SECOND, whole(5, 5, Other=b""), FIRST, SECOND, LAST],  # a sender that has begun again
    ],
)
def test_chunks_are_one_transaction_again(order: list[Message]) -> None:
    assembler = Assembler(INCARNATION, 5)
    *before, last = [take(assembler, message) for message in order]
    assert last == DELIVERED and assembler.applied == 8
    assert all(each in (Taken.PART, Taken.KNOWN) or (isinstance(each, Delivery) and not each.transactions) for each in before)
    assert isinstance(take(assembler, whole(8, 9, transaction(9))), Delivery)


@pytest.mark.parametrize(
    "order",
    [[SECOND], [LAST], [FIRST, LAST], [FIRST, whole(5, 5, Other=b""), SECOND], [chunk(6, 1, part(7, A))], [FIRST, chunk(6, 2, part(6, A))]],
)
def test_chunks_that_are_missing(order: list[Message]) -> None:
    assembler = Assembler(INCARNATION, 5)
    for message in order[:-1]:
        take(assembler, message)
    with pytest.raises(Gap):
        take(assembler, order[-1])
    assert assembler.applied == 5
    assert [take(assembler, message) for message in (FIRST, SECOND, LAST)][-1] == DELIVERED


def test_chunks_of_what_was_applied() -> None:
    assembler = Assembler(INCARNATION, 8)
    assert [take(assembler, message) for message in (FIRST, SECOND, LAST, SECOND)] == [Taken.KNOWN] * 4
    assert take(assembler, chunk(5, 1, part(9, A, last_lsn=9), last=9)) == Delivery({}, [transaction(9, 9, A)], 9)


@pytest.mark.parametrize(
    "second",
    [
        chunk(5, 2, part(7, B)),
        chunk(4, 2, part(6, B)),
        *(
            chunk(5, 2, part(6, B, **changes))
            for changes in ({"version": 9.0}, {"wall_ms": 9.0}, {"user": None}, {"operation": 2}, {"trace_id": bytes(16)}, {"last_lsn": 8})
        ),
        chunk(5, 2),
        chunk(5, 2, Item=b"d"),
        chunk(5, 2, part(6, B), Item=b"d"),
        Message(5, 5, INCARNATION, 2, 0, msgspec.msgpack.encode(({}, [part(6, B)], b"", 5))),
        chunk(5, 2, part(6, B, last_lsn=9), last=8),
        chunk(5, 2, part(6, B, last_lsn=7), last=8),
        chunk(5, 2, last=8),
        chunk(5, 2, part(6, last_lsn=8), last=8, piece=b"x", left=1),
        chunk(5, 2, part(6), piece=b"x", left=-1),
        chunk(5, 2, part(6), piece=b"x", left=0),
        chunk(5, 2, part(6, entry(kind=9))),
        Message(5, 5, INCARNATION, 2, 0, encode_body({}, [part(6, A), part(6, B)])),
        Message(5, 5, INCARNATION, 2, 0, b"\xc1"),
    ],
)
def test_chunks_that_do_not_fit_to_the_one_before(second: Message) -> None:
    assembler = Assembler(INCARNATION, 5)
    take(assembler, FIRST)
    with pytest.raises(WireError) as caught:
        take(assembler, second)
    assert type(caught.value) is WireError and assembler.applied == 5
    assert [take(assembler, message) for message in (FIRST, SECOND, LAST)][-1] == DELIVERED


PIECES = encode_entry(msgspec.structs.replace(C, value=encode({"id": 1, "text": "x" * 100}, 1.0, 1, None)))


@pytest.mark.parametrize("size", [1, 7, len(PIECES) - 1, len(PIECES)])
def test_an_entry_in_pieces(size: int) -> None:
    assembler = Assembler(INCARNATION, 5)
    take(assembler, FIRST)
    number = 1
    for at in range(0, len(PIECES), size):
        number += 1
        piece = PIECES[at : at + size]
        assert take(assembler, chunk(5, number, part(6), piece=piece, left=len(PIECES) - at - len(piece))) is Taken.PART
    found = take(assembler, chunk(5, number + 1, part(6, B, last_lsn=8), last=8))
    assert isinstance(found, Delivery)
    assert found.transactions[0].entries == [A, msgspec.msgpack.decode(PIECES, type=RemoteEntry), B]


@pytest.mark.parametrize(
    "following",
    [
        chunk(5, 2, part(6, B)),
        chunk(5, 2, part(6, B), piece=PIECES[10:], left=0),
        chunk(5, 2, part(6), piece=PIECES[10:20], left=len(PIECES) - 21),
        chunk(5, 2, part(6), piece=PIECES[10:20], left=len(PIECES)),
        chunk(5, 2, part(6), piece=PIECES[10:-1] + b"\0", left=0, last=0),
        chunk(5, 2, part(6), piece=PIECES[10:] + b"\0"),
        chunk(5, 2, part(6, last_lsn=8), last=8),
        chunk(5, 2, part(6, last_lsn=8), last=8, piece=PIECES[10:20], left=len(PIECES) - 20),
    ],
)
def test_pieces_that_do_not_fit(following: Message) -> None:
    assembler = Assembler(INCARNATION, 5)
    assert take(assembler, chunk(5, 1, part(6), piece=PIECES[:10], left=len(PIECES) - 10)) is Taken.PART
    with pytest.raises(WireError):
        take(assembler, following)


def test_definitions_in_chunks() -> None:
    assembler = Assembler(INCARNATION, 5)
    messages = [chunk(5, 1, T=b"ab", U=b""), chunk(5, 2, T=b"cd"), chunk(5, 3, last=7, T=b"e", V=b"v")]
    for _ in range(2):  # they may come again: nothing is behind them yet
        *parts, last = [take(assembler, message) for message in messages]
        assert parts == [Taken.PART, Taken.PART] and last == Delivery({"T": b"abcde", "U": b"", "V": b"v"}, [], 7)
    take(assembler, whole(7, 8, transaction(8)))
    assert [take(assembler, message) for message in messages][-1] is Taken.KNOWN
    with pytest.raises(WireError):
        take(assembler, chunk(5, 1, piece=b"x", T=b"d"))


# -- limits


def test_a_transaction_has_a_limit() -> None:
    value = encode({"id": 1, "text": "x" * 1000}, 1.0, 1, None)
    some = [entry(value=value) for _ in range(10)]
    assembler = Assembler(INCARNATION, 5, limit=100_000)
    with pytest.raises(TransactionTooLarge, match="100,000"):
        for number in range(1, 100):
            take(assembler, chunk(5, number, part(6, *some)))
    assert number == 8
    assert isinstance(take(assembler, chunk(5, 1, part(6, *some, last_lsn=9), last=9)), Delivery)


@pytest.mark.parametrize(
    "bodies",
    [
        [encode_body({}, [part(6)], b"x", 200_000)],  # said to come
        [encode_body({"T": b"d" * 60_000}, [])] * 2,
        [encode_body({}, [part(6, *(entry(kind=MESSAGE, table="T", key=b"", value=None, changed=()) for _ in range(300)))])] * 2,
        [encode_body({}, [part(6, entry(changed=tuple(map(str, range(1500)))))]), encode_body({}, [part(6, entry(changed=("a",) * 500))])],
        [encode_body({}, [part(6)])] * 4000,
    ],
)
def test_what_counts(bodies: list[bytes]) -> None:
    assembler = Assembler(INCARNATION, 5, limit=100_000)
    with pytest.raises(TransactionTooLarge):
        for number, body in enumerate(bodies, 1):
            take(assembler, Message(5, 5, INCARNATION, number, 0, body))


def test_entries_of_a_large_transaction_share_their_lists_of_names() -> None:
    assembler = Assembler(INCARNATION, 5)
    take(assembler, chunk(5, 1, part(6, A, B)))
    found = take(assembler, chunk(5, 2, part(6, A, C, last_lsn=9), last=9))
    assert isinstance(found, Delivery)
    assert len({id(each.changed) for each in found.transactions[0].entries}) == 2


def test_the_default_limit_is_that_of_the_specification() -> None:
    assert assembly.MAX_TRANSACTION == 256 << 20 and assembly.ENTRY_BYTES == 256
