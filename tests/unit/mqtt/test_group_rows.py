"""svc.mqtt.group_rows: what is stored of a shared subscription."""

from __future__ import annotations

from collections import Counter

import msgspec
import pytest

from svc.mqtt.group_rows import GroupRow, decode_group, encode_group


def test_a_row_of_an_earlier_version() -> None:
    row = decode_group(msgspec.msgpack.encode(["$share/g/T", 7, [3, 5], {"client": b"12345678"}]))
    assert (row.given, row.open, row.members, row.taken, row.weights) == (7, [3, 5], {"client": b"12345678"}, {}, {})
    data = encode_group(row)
    assert data is not None and decode_group(data) == row


def test_one_without_members_is_not_stored() -> None:
    assert encode_group(GroupRow("g", 7, [3], {}, {"a": [1]})) is None
    assert encode_group(GroupRow("g", 7, [], {}, {}, {"a": 0})) is not None


def test_what_a_process_had_that_has_ended_is_open() -> None:
    row = GroupRow("g", 9, [4], {}, {"a": [2, 6], "b": [7], "c": [8]}, {"a": 1, "c": 1})
    row.release_dead(lambda identity: identity == "c")
    assert (row.open, row.taken, row.weights) == ([2, 4, 6, 7], {"c": [8]}, {"c": 1})


@pytest.mark.parametrize("step", [1, 2, 4, 6])
def test_each_has_its_share(step: int) -> None:
    """Also where other writes lie between the messages, at a fixed distance."""
    row = GroupRow("g", 0, [], {}, {}, {"a": 1, "b": 3, "c": 0})
    found = Counter(each for lsn in range(1, 4000 * step, step) for each in "ab" if row.is_for(lsn, each))
    assert found["a"] + found["b"] == 4000 - (step == 1), "each message is for one"
    assert 0.2 < found["a"] / 4000 < 0.3
    assert row.is_for(1, "c") and row.is_for(1, "unknown"), "those of which is not known that they have room see for themselves"
