"""svc.realtime.live.list_diff: the changes turn one list into the other, and are not more than needed."""

import random

from svc.realtime.live.list_diff import RowChange, diff, diff_sequences


def apply(rows, change):
    """What a client does."""
    if change.was_at >= 0:
        assert rows[change.was_at] == change.key
        del rows[change.was_at]
    if change.type != "leave":
        rows.insert(change.at, change.key)


def never(key):
    return False


def test_changes_of_a_sequence_make_the_other_one():
    for seed in range(200):
        check_sequence(seed)


def check_sequence(seed):
    source = random.Random(seed)
    keys = [bytes([number]) for number in range(12)]
    old, new = [source.sample(keys, source.randint(0, 12)) for _ in range(2)]
    changed = set(source.sample(keys, 3))
    rows = list(old)
    changes = diff_sequences(old, new, changed.__contains__)
    for change in changes:
        apply(rows, change)
    assert rows == new
    assert {change.key for change in changes} >= changed & set(new)
    assert diff_sequences(old, new, changed.__contains__, len(changes)) == changes
    assert not changes or diff_sequences(old, new, changed.__contains__, len(changes) - 1) is None


def test_changes_of_places_make_the_other_order():
    for seed in range(200):
        check_order(seed)


def check_order(seed):
    source = random.Random(seed)
    keys = [bytes([number]) for number in range(12)]
    old, new = [sorted((bytes([source.randrange(9)]), key) for key in source.sample(keys, source.randint(0, 12))) for _ in range(2)]
    view, rows = list(old), [key for _, key in old]
    changed = set(source.sample(keys, 3))
    changes = diff(view, new, changed.__contains__)
    for change in changes:
        apply(rows, change)
    assert view == new and rows == [key for _, key in new]
    assert {change.key for change in changes} >= changed & set(rows)


def test_one_row_that_moves_is_one_change():
    old = [b"a", b"b", b"c", b"d"]
    assert diff_sequences(old, [b"b", b"c", b"d", b"a"], never) == [RowChange("update", b"a", 3, 0)]
    places = [(bytes([at]), key) for at, key in enumerate(old)]
    moved = sorted([*places[1:], (b"\x09", b"a")])
    assert diff(list(places), moved, never) == [RowChange("update", b"a", 3, 0)]


def test_of_two_rows_that_change_places_the_changed_one_moves():
    assert diff_sequences([b"a", b"b"], [b"b", b"a"], b"a".__eq__) == [RowChange("update", b"a", 1, 0)]
    assert diff_sequences([b"a", b"b"], [b"b", b"a"], b"b".__eq__) == [RowChange("update", b"b", 0, 1)]


def test_a_sort_position_that_changes_without_moving_the_row_makes_no_change():
    assert diff([(b"\x01", b"a"), (b"\x05", b"b")], [(b"\x02", b"a"), (b"\x05", b"b")], never) == []
