"""Transactions of a log -> messages -> the same transactions: however they are packed, repeated, interrupted and packed again."""

from __future__ import annotations

import random
from itertools import pairwise
from operator import itemgetter

from hypothesis import given
from hypothesis import strategies as st

from svc.cluster.assembly import Assembler, Delivery, Gap, Taken
from svc.cluster.packing import LogPacker, Row
from svc.cluster.wire import Message, WireError, decode_body
from tests.support.wire import INCARNATION, LEFT_OUT, NODE, made_log, received, sent, transactions_in

seeds = st.integers(0, 2**32 - 1)
batches = st.sampled_from((1, 300, 1_000, 1 << 16))
chunks = st.sampled_from((150, 400, 2_000, 1 << 19))


def pack(rows: list[Row], previous: int, batch: int, chunk: int) -> list[Message]:
    packer = LogPacker(NODE, INCARNATION, left_out=LEFT_OUT, batch=batch, chunk=chunk)
    return [message for message in packer.messages(rows, previous) if message is not None]


@given(seeds, st.integers(0, 12), st.sampled_from((20, 300, 3_000)), batches, chunks)
def test_what_is_sent_arrives(seed: int, count: int, largest: int, batch: int, chunk: int) -> None:
    rows = made_log(random.Random(seed), count, largest)
    messages = pack(rows, 0, batch, chunk)
    found = list(received(messages))
    assert transactions_in(found) == sent(rows)
    assert [each is not Taken.PART for each in found] == [message.chunk == message.chunks for message in messages]
    for one, other in pairwise([Message(0, 0, INCARNATION), *messages]):
        assert other.previous == one.last_lsn
    for message in messages:
        assert decode_body(message.body)[1] <= batch + chunk + 400


@given(seeds, st.integers(1, 12), batches, chunks, st.data())
def test_a_sender_goes_on_anywhere_and_packs_anew(seed: int, count: int, batch: int, chunk: int, data: st.DataObject) -> None:
    """It ends after any message, even between chunks, or the engine has lost the last of them; the receiver has everything up to then."""
    source = random.Random(seed)
    rows = made_log(source, count, 600)
    messages = pack(rows, 0, batch, chunk)
    kept = messages[: data.draw(st.integers(0, len(messages)))]
    lost = kept[: data.draw(st.integers(0, len(kept)))]
    last = lost[-1].last_lsn if lost else 0
    batch, chunk = data.draw(batches), data.draw(chunks)
    again = pack([row for row in rows if row[0] > last], last, batch, chunk)
    first = list(received(kept))
    applied = max((each.last_lsn for each in first if isinstance(each, Delivery)), default=0)
    assert transactions_in(first + list(received(again, applied))) == sent(rows)
    assert transactions_in(received(lost + again)) == sent(rows)  # one who reads the stream from its beginning


@given(seeds, st.integers(1, 10), batches, chunks, st.data())
def test_repeated_reordered_and_missing_messages(seed: int, count: int, batch: int, chunk: int, data: st.DataObject) -> None:
    """Whatever the engine makes of the stream: what arrives is a beginning of what was sent, each transaction once, and what is missing is noticed."""
    rows = made_log(random.Random(seed), count, 600)
    messages = pack(rows, 0, batch, chunk)
    if not messages:
        return
    order = data.draw(st.lists(st.sampled_from(range(len(messages))), max_size=30))
    wanted = sent(rows)
    got = []
    assembler = Assembler(INCARNATION, 0)
    for number in order:
        try:
            found = assembler.take(messages[number].headers(), messages[number].body)
        except Gap:
            assembler = Assembler(INCARNATION, assembler.applied)
            continue
        if isinstance(found, Delivery):
            got += found.transactions
    assert got == wanted[: len(got)]
    got += transactions_in(received(messages, assembler.applied))
    assert got == wanted


@given(seeds, st.integers(1, 10), batches, chunks, st.data())
def test_definitions_come_before_what_is_behind_them(seed: int, count: int, batch: int, chunk: int, data: st.DataObject) -> None:
    """To one who reads from the beginning, and to one who has applied a part when the sender has to pack again."""
    rows = made_log(random.Random(seed), count, 600)
    newest = rows[-1][0]
    changes = sorted(
        data.draw(st.lists(st.tuples(st.integers(0, newest), st.dictionaries(st.text(max_size=5), st.binary(max_size=700))), max_size=3)),
        key=itemgetter(0),
    )
    runs = []
    for options in ((batch, chunk), (data.draw(batches), data.draw(chunks))):
        packer = LogPacker(NODE, INCARNATION, left_out=LEFT_OUT, batch=options[0], chunk=options[1])
        for lsn, definitions in changes:
            packer.define(lsn, definitions)
        runs.append([message for message in packer.messages(rows, 0) if message is not None])
    first = runs[0][: data.draw(st.integers(0, len(runs[0])))]
    got: list[Delivery] = []
    assembler = Assembler(INCARNATION, 0)
    for number, run in enumerate((first, runs[1])):
        if number:
            assembler = Assembler(INCARNATION, assembler.applied)
        for message in run:
            found = assembler.take(message.headers(), message.body)
            if isinstance(found, Delivery):
                got.append(found)
    assert transactions_in(got) == sent(rows)
    known: dict[str, bytes] = {}
    for each in got:
        known |= each.definitions
        for transaction in each.transactions:
            wanted: dict[str, bytes] = {}
            for lsn, definitions in changes:
                if lsn < transaction.lsn:
                    wanted |= definitions
            assert known.items() >= wanted.items()
    assert known == {name: value for _, definitions in changes for name, value in definitions.items()}


@given(seeds, st.data())
def test_damaged_messages_are_refused_or_harmless(seed: int, data: st.DataObject) -> None:
    """A byte is another, or the end is missing. A checksum is the engine's, and TLS's: what is promised is that nothing else is raised, and positions hold."""
    messages = pack(made_log(random.Random(seed), 5, 600), 0, 300, 400)
    if not messages:
        return
    number = data.draw(st.integers(0, len(messages) - 1))
    body = bytearray(messages[number].body)
    at = data.draw(st.integers(0, len(body) - 1))
    if data.draw(st.booleans()):
        del body[at:]
    else:
        body[at] = data.draw(st.integers(0, 255))
    assembler = Assembler(INCARNATION, 0)
    last = 0
    for place, message in enumerate(messages):
        try:
            found = assembler.take(message.headers(), bytes(body) if place == number else message.body)
        except WireError:
            break
        if isinstance(found, Delivery):
            for transaction in found.transactions:
                assert last < transaction.lsn <= transaction.last_lsn <= found.last_lsn
                last = transaction.last_lsn
