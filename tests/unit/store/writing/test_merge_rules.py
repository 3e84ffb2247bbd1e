"""svc.store.writing.merge_rules: the same record, in whatever order its writes arrive (spec: schema-and-store §9)."""

from __future__ import annotations

from itertools import permutations, product
from typing import Any

import pytest

from svc.store.values.validation import Add
from svc.store.writing.merge_rules import RecordWrite, log_changes, logged_changes, merge_write

# Every kind of write that a rule speaks of; `n`: what makes each one's values its own.
KINDS: dict[str, Any] = {
    "put": lambda n: ({"a": 10 * n, "b": f"b{n}"}, False),
    "delete": lambda n: (None, False),
    "assign": lambda n: ({"a": 100 * n}, True),
    "text": lambda n: ({"a": f"t{n}"}, True),
    "add": lambda n: ({"a": Add(n)}, True),
    "mixed": lambda n: ({"a": Add(1000 * n), "b": f"c{n}"}, True),
}


def in_order(writes: list[RecordWrite]) -> dict[str, Any] | None:
    """What the writes make of nothing, one after the other: written down as plainly as can be, and of nothing that is tested."""
    record: dict[str, Any] | None = None
    for write in writes:
        if write.data is None:
            record = None
        elif not write.is_patch:
            record = dict(write.data)
        else:
            record = {} if record is None else dict(record)
            for name, value in write.data.items():
                if isinstance(value, Add):
                    base = record.get(name)
                    record[name] = base + value.value if isinstance(base, int) else value.value
                else:
                    record[name] = value
    return record


class Replica:
    """Knows the writes that have arrived, and the record they make."""

    def __init__(self) -> None:
        self.known: list[RecordWrite] = []
        self.record: Any = None

    def receive(self, write: RecordWrite) -> None:
        if any(known.stamp == write.stamp for known in self.known):
            return
        newer = [known for known in self.known if known.stamp > write.stamp]
        self.record = merge_write(self.record, newer, write)
        self.known.append(write)
        self.known.sort(key=lambda known: known.stamp)


def history(kinds: tuple[str, ...], stamps: list[tuple[float, str, int]]) -> list[RecordWrite]:
    writes = []
    for number, (kind, stamp) in enumerate(zip(kinds, stamps, strict=True), 1):
        data, is_patch = KINDS[kind](number)
        writes.append(RecordWrite(stamp, data, is_patch))
    return writes


@pytest.mark.parametrize("length", [1, 2, 3, 4])
def test_every_order_of_arrival_of_every_history(length: int) -> None:
    # Versions, then nodes, then places in a transaction decide which is newer.
    stamps = [(1.0, "b", 0), (2.0, "a", 0), (2.0, "b", 0), (2.0, "b", 1)][:length]
    count = 0
    for kinds in product(KINDS, repeat=length):
        writes = history(kinds, stamps)
        expected = in_order(writes)
        for arrival in permutations(writes):
            replica = Replica()
            for write in arrival:
                replica.receive(write)
                seen = in_order(replica.known)
                assert replica.record == seen, (kinds, [write.stamp for write in arrival])
            assert replica.record == expected
            count += 1
    assert count == 6**length * [1, 1, 2, 6, 24][length]


def test_a_write_that_comes_again_is_dropped() -> None:
    for kinds in product(KINDS, repeat=2):
        writes = history(kinds, [(1.0, "a", 0), (2.0, "a", 0)])
        for arrival in permutations([*writes, *writes]):
            replica = Replica()
            for write in arrival:
                replica.receive(write)
            assert replica.record == in_order(writes), kinds


def test_what_changes_nothing_leaves_the_record_itself() -> None:
    current = {"a": 1}
    put, patch = RecordWrite((2.0, "a", 0), {"a": 1}), RecordWrite((2.0, "a", 0), {"a": 1}, is_patch=True)
    assert merge_write(current, [put], RecordWrite((1.0, "a", 0), {"b": 2}, is_patch=True)) is current
    assert merge_write(current, [put], RecordWrite((1.0, "a", 0), None)) is current
    assert merge_write(current, [patch], RecordWrite((1.0, "a", 0), {"a": 9}, is_patch=True)) is current
    assert merge_write(current, [patch], RecordWrite((1.0, "a", 0), {"a": Add(9)}, is_patch=True)) is current
    assert current == {"a": 1}


def test_top_level_only() -> None:
    current = {"place": {"hall": "A", "row": 1}, "place.hall": "B"}
    write = RecordWrite((1.0, "a", 0), {"place": {"hall": "C"}, "place.row": 2}, is_patch=True)
    assert merge_write(current, [], write) == {"place": {"hall": "C"}, "place.hall": "B", "place.row": 2}


def test_increments_in_the_log() -> None:
    changes = {"n": Add(-2), "m": Add(0.5), "x": {"__op__": "add", "value": 1, "more": 1}, "y": None}
    logged = log_changes(changes)
    assert logged == {"n": {"__op__": "add", "value": -2}, "m": {"__op__": "add", "value": 0.5}, "x": changes["x"], "y": None}
    assert logged_changes(logged) == changes
