"""svc.store.writing.copy_apply: the records of another node take the place of those that are here (spec: replication §11)."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from svc.clock import FakeClock
from svc.errors import Overloaded
from svc.store.blobs import create_blob
from svc.store.copy_reader import END, RECORD, TABLE
from svc.store.integrity.check import check_database
from svc.store.writing.copied_write import BadCopy
from svc.store.writing.copy_apply import CopyCheck, progress_of
from svc.store.writing.published_position import note_published
from tests.support.copies import CopyNode, act
from tests.support.remote import sent_since

pytestmark = pytest.mark.programs


@pytest.fixture
def nodes(tmp_path: Path, clock: FakeClock) -> Iterator[tuple[CopyNode, CopyNode, CopyNode]]:
    found = CopyNode(tmp_path, "a", clock), CopyNode(tmp_path, "b", clock), CopyNode(tmp_path, "c", clock)
    yield found
    for node in found:
        node.store.check()
        node.close()
        assert check_database(node.path / "data").findings == []


def settle(*nodes: CopyNode) -> None:
    """All hear of everything."""
    for _ in range(2):
        for node in nodes:
            for other in nodes:
                if other is not node:
                    node.hear(other)


def equal(*nodes: CopyNode) -> bool:
    first, *others = [node.records() for node in nodes]
    assert all(other == first for other in others), [first, *others]
    return True


def test_a_new_node_gets_all_and_goes_on_with_the_stream(nodes: tuple[CopyNode, CopyNode, CopyNode]) -> None:
    a, b, _ = nodes
    for number in range(200):
        a.put(f"k{number:03}", n=number)
    a.add("k001", 5)
    a.delete("k002")
    b.put("own", n=1)
    b.add("k001", 10)
    head, pieces = a.pieces()
    a.add("k001", 100)  # while it is copied
    b.take(head, pieces)
    assert b.applied(a) == head.newest and progress_of(b.database) is None
    assert b.records()["own"][1]["n"] == 1 and "k002" not in b.records()
    settle(a, b)
    assert equal(a, b) and a.records()["k001"][1]["n"] == 116


def test_what_was_deleted_there_is_deleted_and_own_late_writes_stay(nodes: tuple[CopyNode, CopyNode, CopyNode]) -> None:
    a, b, _ = nodes
    for key in ("x", "y", "z", "w"):
        a.put(key, n=1)
    settle(a, b)
    a.delete("x")
    a.delete("y")
    a.patch("z", text="a")
    b.put("y", n=7)
    b.add("z", 2)
    b.delete("w")
    b.put("new", n=3)
    a.prune()
    sent = b.database.log.last_lsn
    b.copy(a)
    assert {key: record for key, (_, record) in b.records().items()} == {
        "y": {"id": "y", "n": 7},
        "z": {"id": "z", "n": 3, "text": "a"},
        "new": {"id": "new", "n": 3},
    }
    a.hear(b)
    assert equal(a, b)
    assert b.database.log.last_lsn > sent
    assert not sent_since(b.database, sent), "what was sent is not sent again"


def test_a_record_of_equal_content_that_other_increments_have_made_is_replaced(nodes: tuple[CopyNode, CopyNode, CopyNode]) -> None:
    a, b, c = nodes
    a.put("n", n=0)
    settle(a, b, c)
    c.add("n", 1)
    b.add("n", 1)
    a.patch("n", text="x")
    a.hear(c)
    b.hear(a)
    b.copy(a)
    settle(a, b, c)
    assert equal(a, b, c) and a.records()["n"][1]["n"] == 2


def test_blobs_in_files_are_expected_from_the_node_that_is_copied(nodes: tuple[CopyNode, CopyNode, CopyNode]) -> None:
    a, b, _ = nodes
    content, other = b"x" * 50_000, b"y" * 60_000
    a.put("x", b=create_blob(content))
    a.put("y", b=create_blob(content))
    b.clock.advance(1)
    b.put("y", b=create_blob(other))
    b.put("z", b=create_blob(other))
    b.patch("x", text="b")
    numbers: set[int] = set()
    for _ in range(2):
        b.copy(a)
        state = b.database.replication
        assert state is not None
        records = {key: record for key, (_, record) in b.records().items()}
        number = records["x"]["b"].number
        remote = state.blobs.remote(b.database.snapshot(), number)
        b.store.end_turn()
        assert remote is not None and remote.node == "a" and remote.identity == a.database.blobs.identity and remote.size == len(content)
        assert records["x"]["text"] == "b"
        numbers.add(number)
        assert records["y"]["b"].read() == other and records["z"]["b"].read() == other
        a.patch("x", n=2)
    assert len(numbers) == 1, "the same content is fetched once"


def test_two_nodes_that_never_met_have_the_records_of_both(nodes: tuple[CopyNode, CopyNode, CopyNode]) -> None:
    a, b, _ = nodes
    for node, keys in ((a, ("x", "both")), (b, ("y", "both"))):
        for key in keys:
            node.put(key, text=node.name)
    a.prune()
    b.prune()
    from_a, from_b = a.pieces(), b.pieces()
    a.take(*from_b)
    b.take(*from_a)
    assert equal(a, b) and set(a.records()) == {"x", "y", "both"} and a.records()["both"][1]["text"] == "b"


def test_copied_again_and_by_others(nodes: tuple[CopyNode, CopyNode, CopyNode]) -> None:
    a, b, c = nodes
    a.put("n", n=0)
    settle(a, b)
    b.add("n", 1)
    a.add("n", 10)
    b.copy(a)
    b.add("n", 100)
    b.copy(a)
    c.add("n", 1000)
    c.copy(b)
    assert b.records()["n"][1]["n"] == 111 and c.records()["n"][1]["n"] == 1111
    settle(a, b, c)
    assert equal(a, b, c) and a.records()["n"][1]["n"] == 1111


@pytest.mark.parametrize("seed", range(40))
def test_any_history_ends_equal_everywhere(nodes: tuple[CopyNode, CopyNode, CopyNode], seed: int) -> None:
    chance = random.Random(seed)
    keys = ["c1", "c2", "x", "y", "z"]
    added = dict.fromkeys(("c1", "c2"), 0)
    copied: dict[tuple[str, str], int] = {}
    for _ in range(60):
        node, other = chance.sample(nodes, 2)
        node.clock.advance(chance.random() / 100)
        what = chance.random()
        if what < 0.7:
            before = {key: node.records().get(key, (0, {"n": 0}))[1]["n"] for key in added}
            act(chance, node, keys)
            for key in added:
                added[key] += node.records().get(key, (0, {"n": 0}))[1]["n"] - before[key]
        elif what < 0.85:
            node.hear(other)
        else:
            assert node.database.replication is not None
            known = other.applied(node)
            if known >= node.database.replication.copied(node.database.snapshot()):
                node.copy(other)
            node.store.end_turn()
            copied[node.name, other.name] = known
    settle(*nodes)
    assert equal(*nodes)
    assert {key: nodes[0].records().get(key, (0, {"n": 0}))[1]["n"] for key in added} == added


def test_those_who_wait_write_between_two_commits(nodes: tuple[CopyNode, CopyNode, CopyNode], monkeypatch: pytest.MonkeyPatch) -> None:
    a, b, _ = nodes
    for number in range(300):
        a.put(f"k{number:03}", n=0)
    b.put("own")
    monkeypatch.setattr("svc.store.writing.copy_apply.BATCH", 1)
    head, pieces = a.pieces()
    copying = b.turns.start(b.taking(head, pieces))
    b.turns.until(lambda: b.database.env.holder is not None)
    noting = b.turns.start(note_published(b.database, 1))
    b.turns.until(noting.done)
    noting.result()
    assert not copying.done() and progress_of(b.database) is not None
    b.turns.until(copying.done)
    copying.result()


def test_it_goes_on_where_it_was_stopped_while_others_write(
    nodes: tuple[CopyNode, CopyNode, CopyNode], monkeypatch: pytest.MonkeyPatch
) -> None:
    a, b, _ = nodes
    for number in range(300):
        a.put(f"k{number:03}", n=0, text="x" * 4000)
        if number % 3 == 0:
            b.put(f"k{number:03}a", n=1)
    monkeypatch.setattr("svc.store.writing.copy_apply.BATCH", 1)
    monkeypatch.setattr("svc.store.copy_reader.PIECE", 2000)
    head, pieces = a.pieces()
    assert len(pieces) > 2
    a.clock.advance(1)  # what b adds is newer than what a has put
    chance = random.Random(1)
    rounds = 0
    while True:
        rounds += 1
        task = b.turns.start(b.taking(head, pieces))
        for _ in range(chance.randrange(60)):
            b.turns.turn()
            if task.done():
                break
            if chance.random() < 0.3:  # it is in the way of the long write, and takes the database
                b.add(f"k{chance.randrange(300):03}", 1)
        if task.done() and not isinstance(task.exception(), Overloaded):
            task.result()
            break
        if chance.random() < 0.3:  # killed
            task.cancel()
            b.turns.turn()
            b.close()
            b.open()
        else:
            task.cancel()
            b.turns.turn()
    assert rounds > 3
    settle(a, b)
    assert equal(a, b)
    own = sum(1 for each in b.database.log.read(b.database.snapshot()) if each.node == "b" and each.kind == 2 and not each.is_repeated)
    b.store.end_turn()
    assert sum(record["n"] for key, (_, record) in b.records().items() if not key.endswith("a")) == own


@pytest.mark.parametrize(
    "rows",
    [
        5,
        [5],
        [[]],
        [[TABLE]],
        [[TABLE, 1]],
        [[9, "x"]],
        [[True, "x"]],
        [[RECORD, b"k", b"", []]],
        [[TABLE, "Item"], [RECORD, b"k", b"v"]],
        [[TABLE, "Item"], [RECORD, b"b", b"v", []], [RECORD, b"a", b"v", []]],
        [[TABLE, "Item"], [RECORD, b"b", b"v", [1]]],
        [[END, 5]],
        [[END, 0], [TABLE, "Item"]],
    ],
)
def test_pieces_that_are_none_are_refused(rows: object) -> None:
    with pytest.raises(BadCopy):
        CopyCheck().take(msgspec.msgpack.encode(rows))


def test_any_damage_is_refused_or_harmless(nodes: tuple[CopyNode, CopyNode, CopyNode]) -> None:
    a, b, _ = nodes
    for number in range(4):
        a.put(f"k{number}", n=number)
        a.patch(f"k{number}", text="y")
    a.delete("k2")
    head, (piece,) = a.pieces()
    chance = random.Random(3)
    refused = 0
    for number in range(300):
        data = bytearray(piece)
        if number % 2:
            data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
        else:
            del data[chance.randrange(len(data)) :]
        try:
            b.take(head, [bytes(data)], name=str(number).encode())
        except (BadCopy, AssertionError):
            refused += 1
        b.store.end_turn()
    assert refused > 150
    b.copy(a)
    assert equal(a, b)
