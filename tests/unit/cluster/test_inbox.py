"""svc.cluster.inbox: the stream of another node, and of this one after a restore, without sockets (spec: replication §6, §15)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest

from svc.clock import FakeClock
from svc.cluster import inbox as inbox_module
from svc.cluster.definitions import DefinitionAnswers, read_definitions, request_definitions
from svc.cluster.inbox import Inbox, Reader
from svc.cluster.pieces import RequestRefused
from svc.cluster.reader import End, Gap, StreamMessage
from svc.cluster.streams import StreamInfo
from svc.cluster.wire import Message, WireError, encode_body
from svc.store.log.entries import PATCH, PUT
from svc.store.schema import definition_from_bytes, definition_to_bytes
from svc.store.table_drops import drop_table
from svc.store.writing.remote_transaction import Origin, RemoteTransaction
from tests.support.copies import ITEM, CopyNode
from tests.support.remote import START, Add, entry

OLD, NEW = b"old-----", b"new-----"


class FakeReader:
    """`info`, and one batch of messages; then nothing more comes."""

    def __init__(self, messages: list[StreamMessage], first: int = 1) -> None:
        last = messages[-1].sequence if messages else first - 1
        self.info = StreamInfo("then", first, last, len(messages), 0)
        self._messages = messages
        self._is_read = False

    async def next_batch(self) -> list[StreamMessage] | End:
        if self._is_read or not self._messages:
            await asyncio.Event().wait()
        self._is_read = True
        return self._messages

    async def close(self) -> None:
        pass


def add(lsn: int, previous: int, incarnation: bytes, number: int, former: tuple[bytes, int] | None = None) -> Message:
    kind, data = (PUT, {"n": number}) if lsn == 1 else (PATCH, {"n": Add(number)})
    changed = entry(kind, "x", data, table="Item", primary="id")
    transaction = RemoteTransaction(lsn, lsn, START + lsn, START + lsn, None, 0, None, [changed])
    return Message(lsn, previous, incarnation, body=encode_body({}, [transaction]), former=former)


def messages(*made: Message, first: int = 1) -> list[StreamMessage]:
    return [StreamMessage(number, message.headers(), message.body) for number, message in enumerate(made, first)]


@pytest.fixture
def node(tmp_path: Path) -> Iterator[CopyNode]:
    node = CopyNode(tmp_path, "a", FakeClock())
    yield node
    node.store.check()
    node.close()


def read(
    node: CopyNode,
    name: str,
    found: list[StreamMessage],
    until: Callable[[Inbox], bool],
    first: int = 1,
    prepare: Callable[[Inbox], None] = lambda inbox: None,
    definitions: Mapping[str, bytes] | None = None,
    asked: list[tuple[str, ...]] | None = None,
) -> Inbox:
    """Until that is so, it ends, or nothing more comes."""
    asked = [] if asked is None else asked

    async def open_reader(start: int, created: str | None) -> Reader | End:
        return Gap(first) if start < first else FakeReader([each for each in found if each.sequence >= start], first)

    async def fetch(names: tuple[str, ...]) -> Mapping[str, bytes]:
        asked.append(names)
        return {**definitions, "NotAsked": b""} if definitions else {}

    async def run() -> Inbox:
        inbox = Inbox(node.database, name, f"L__data__{name}", open_reader, fetch)
        prepare(inbox)
        task = asyncio.ensure_future(inbox.run())
        for _ in range(2000):
            await asyncio.sleep(0)
            if node.store.has_pending:
                node.store.commit_turn()
            node.store.end_turn()
            if until(inbox) or task.done():
                break
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        node.store.end_turn()
        return inbox

    return asyncio.run(run())


def total(node: CopyNode) -> int:
    found: int = node.records()["x"][1]["n"]
    return found


def test_a_node_that_was_restored_goes_on(node: CopyNode) -> None:
    """Both incarnations may come in one batch; what is applied of the former counts."""
    made = messages(
        add(1, 0, OLD, 1), add(2, 1, OLD, 10), add(3, 2, OLD, 100), add(3, 2, NEW, 1000, (OLD, 2)), add(4, 3, NEW, 10_000, (OLD, 2))
    )
    read(node, "b", made, lambda inbox: inbox.applied == 4)
    assert total(node) == 11_111
    state = node.database.replication
    assert state is not None
    assert state.all_applied(node.database.snapshot()) == {Origin("b", OLD): 3, Origin("b", NEW): 4}


def test_what_is_missing_of_the_former_is_missing_of_this(node: CopyNode) -> None:
    made = messages(add(1, 0, OLD, 1), add(3, 2, NEW, 1000, (OLD, 2)))
    assert read(node, "b", made, lambda inbox: inbox.needs_copy).needs_copy
    assert total(node) == 1


@pytest.mark.parametrize("limit", ["TOGETHER", "TOGETHER_BYTES"])
def test_a_batch_is_read_in_slices_and_applied_in_parts(node: CopyNode, monkeypatch: pytest.MonkeyPatch, limit: str) -> None:
    """Each part with the place in the stream that belongs to it."""
    monkeypatch.setattr(inbox_module, "SLICE", 0.0)
    monkeypatch.setattr(inbox_module, limit, 3 if limit == "TOGETHER" else 150)
    known: list[tuple[int, int]] = []
    state = node.database.replication
    assert state is not None

    def note(inbox: Inbox) -> None:
        def applied() -> None:
            hint = state.hint(node.database.snapshot(), "L__data__b")
            known.append((inbox.applied, 0 if hint is None else hint.sequence))

        inbox.on_applied = applied

    made = messages(*(add(lsn, lsn - 1, OLD, 1) for lsn in range(1, 11)))
    read(node, "b", made, lambda inbox: inbox.applied == 10, prepare=note)
    assert total(node) == 10
    assert known[-1] == (10, 10) and len(known) >= 3 and all(lsn == sequence for lsn, sequence in known)


def test_a_stream_that_was_emptied_needs_a_copy(node: CopyNode) -> None:
    assert read(node, "b", [], lambda inbox: inbox.needs_copy, first=8).needs_copy


def test_where_not_all_is_taken_gaps_are_passed_over(node: CopyNode) -> None:
    def since(inbox: Inbox) -> None:
        inbox.since_ms = START + 5

    made = messages(add(4, 3, OLD, 1), add(5, 4, OLD, 10), add(8, 7, OLD, 100), add(9, 8, OLD, 1000), first=3)
    inbox = read(node, "b", made, lambda inbox: inbox.applied == 9, first=3, prepare=since)
    assert total(node) == 1110 and not inbox.needs_copy and not inbox.reason
    read(node, "b", [], lambda inbox: False, first=20, prepare=since)
    assert total(node) == 1110


def drop(node: CopyNode) -> None:
    node.turns.finish(drop_table(node.table))


def test_a_table_that_was_dropped_here_is_made_as_it_is_there(node: CopyNode) -> None:
    drop(node)
    asked: list[tuple[str, ...]] = []
    read(
        node,
        "b",
        messages(add(1, 0, OLD, 1), add(2, 1, OLD, 2)),
        lambda inbox: inbox.applied == 2,
        definitions={"Item": definition_to_bytes(replace(ITEM, database="data"))},
        asked=asked,
    )
    assert total(node) == 3 and asked == [("Item",)] and "NotAsked" not in node.database.tables


def test_what_was_written_to_a_table_that_both_have_dropped_is_left_out(node: CopyNode, caplog: pytest.LogCaptureFixture) -> None:
    drop(node)
    inbox = read(node, "b", messages(add(1, 0, OLD, 1), add(2, 1, OLD, 2)), lambda inbox: inbox.applied == 2)
    assert inbox.applied == 2 and "Item" not in node.database.tables and "left out" in caplog.text


def test_definitions_are_given_of_what_is_sent(node: CopyNode) -> None:
    answers = DefinitionAnswers({"data": node.database}.get, lambda table: table.name == "Item", lambda name: name != "c")
    node.database.define_table(replace(ITEM, name="Own"))

    async def ask(name: str, data: bytes) -> dict[str, bytes]:
        return read_definitions(await answers.answer(name, data))

    found = asyncio.run(ask("b", request_definitions("data", ["Item", "Own", "Gone"])))
    assert list(found) == ["Item"] and definition_from_bytes(found["Item"]).primary_key == "id"
    for name, data in (
        ("c", request_definitions("data", ["Item"])),
        ("b", request_definitions("other", ["Item"])),
        ("b", b""),
        ("b", b"\x91\x01"),
    ):
        with pytest.raises(RequestRefused):
            asyncio.run(ask(name, data))
    for answer in (b"", b"\x90", b"\x81\x01\x02"):
        with pytest.raises(WireError):
            read_definitions(answer)


def test_own_entries_after_the_backup_are_read_and_not_sent_again(node: CopyNode) -> None:
    node.put("x", n=1)
    node.add("x", 10)
    state = node.database.replication
    assert state is not None
    before = node.origin.incarnation
    writer = node.database.writer()
    renewed = state.renew_incarnation(writer, 2)
    node.database.env.touch()
    node.store.commit_turn()
    node.store.end_turn()
    node.add("x", 100)
    made = messages(
        add(1, 0, before, 1),
        add(2, 1, before, 10),
        add(3, 2, before, 1000),
        add(4, 3, before, 10_000),
        add(3, 2, renewed, 100, (before, 2)),
    )
    inbox = read(node, "a", made, lambda inbox: False)
    assert total(node) == 11_111 and inbox.applied == 4
    again = [each for each in node.database.log.read(node.database.snapshot(), 3) if not each.is_repeated]
    assert [each.lsn for each in again] == [3]
    hint = state.hint(node.database.snapshot(), "L__data__a")
    node.store.end_turn()
    assert hint is not None and hint.sequence == 4
    read(node, "a", made, lambda inbox: False)
    assert total(node) == 11_111


@pytest.mark.parametrize(
    "said", ["", "x", "6f6c642d2d2d2d2d", "6f6c642d2d2d2d2d 01", "6f6c642d2d2d2d2d -1", f"6f6c642d2d2d2d2d {1 << 63}", 5]
)
def test_a_damaged_header_is_told(node: CopyNode, said: object) -> None:
    (message,) = messages(add(1, 0, NEW, 1, (OLD, 0)))
    damaged = msgspec.structs.replace(message, headers={**message.headers, "B": said})
    assert "incarnation began" in read(node, "b", [damaged], lambda inbox: bool(inbox.reason)).reason
