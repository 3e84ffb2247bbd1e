"""svc.realtime.live.ranges beside a list of ranges."""

import random

import pytest

from svc.realtime.live.ranges import FEW, Ranges


def found(ranges, key):
    items = {}
    ranges.find(key, items)
    return set(items)


def test_a_range_holds_its_low_end_and_not_its_high_one():
    ranges = Ranges()
    ranges.add(b"b", b"d", 1)
    assert [found(ranges, key) for key in (b"a", b"b", b"c\xff", b"d")] == [set(), {1}, {1}, set()]


def test_equal_ranges_are_one_and_removing_what_is_not_there_is_harmless():
    ranges = Ranges()
    ranges.add(b"a", b"b", 1)
    ranges.add(b"a", b"b", 2)
    assert len(ranges) == 1
    ranges.remove(b"a", b"b", 3)
    ranges.remove(b"x", b"y", 1)
    ranges.remove(b"a", b"b", 1)
    assert found(ranges, b"a") == {2}
    ranges.remove(b"a", b"b", 2)
    assert not len(ranges) and found(ranges, b"a") == set()


def test_a_range_that_comes_back_is_found_in_the_tree_it_never_left():
    ranges = Ranges()
    for number in range(3 * FEW):
        ranges.add(bytes([number]), bytes([number + 2]), number)
    ranges.remove(b"\x05", b"\x07", 5)
    assert found(ranges, b"\x06") == {6}
    ranges.add(b"\x05", b"\x07", "again")
    assert found(ranges, b"\x06") == {6, "again"}


@pytest.mark.parametrize("seed", range(30))
def test_whatever_is_added_and_removed_the_same_is_found_as_in_a_list(seed):
    source = random.Random(seed)
    ranges, brute = Ranges(), {}
    for step in range(source.choice([50, 400])):
        low, high = sorted(bytes(source.randrange(30) for _ in range(2)) for _ in range(2))
        if low < high and source.random() < 0.6:
            ranges.add(low, high, step % 20)
            brute.setdefault((low, high), set()).add(step % 20)
        elif brute:
            place = source.choice(sorted(brute))
            item = source.choice(sorted(brute[place]))
            ranges.remove(*place, item)
            brute[place].discard(item)
            if not brute[place]:
                del brute[place]
        key = bytes(source.randrange(31) for _ in range(2))
        assert found(ranges, key) == {item for (low, high), items in brute.items() if low <= key < high for item in items}
        assert len(ranges) == len(brute)
