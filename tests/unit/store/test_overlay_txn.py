"""svc.store.overlay_txn: it reads like a write transaction of LMDB in which the same was written."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import lmdb
from hypothesis import given
from hypothesis import strategies as st

from svc.store.overlay_txn import Overlay

PIECES = st.sampled_from([b"a", b"a\0", b"ab", b"b", b"c", b"ca"])
CHANGES = st.lists(st.tuples(st.booleans(), PIECES, PIECES), max_size=12)
MOVES = ("first", "last", "next", "prev", "next_nodup", "last_dup", "set_range", "set_key", "set_range_dup")
STEPS = st.lists(st.tuples(st.sampled_from(MOVES), PIECES, PIECES), max_size=12)


@contextmanager
def stores(duplicates: bool, before: list[tuple[bool, bytes, bytes]]) -> Iterator[tuple[Any, Any]]:
    with tempfile.TemporaryDirectory() as path, lmdb.open(path, max_dbs=1) as env:
        handle = env.open_db(b"store", dupsort=duplicates)
        with env.begin(write=True) as txn:
            for _, key, value in before:
                txn.put(key, value, True, True, False, handle)
        yield env, handle


def carry_out(txn: Any, handle: Any, changes: list[tuple[bool, bytes, bytes]], duplicates: bool) -> list[bool]:
    return [
        txn.put(key, value, True, True, False, handle) if puts else txn.delete(key, value if duplicates else b"", handle)
        for puts, key, value in changes
    ]


def entries(txn: Any, handle: Any) -> list[Any]:
    cursor = txn.cursor(handle)
    return list(cursor.iternext()) if cursor.first() else []


@given(duplicates=st.booleans(), before=CHANGES, changes=CHANGES.filter(bool), steps=STEPS)
def test_like_a_write_transaction(duplicates: bool, before: Any, changes: Any, steps: Any) -> None:
    with stores(duplicates, before) as (env, handle), env.begin() as base, env.begin(write=True) as real:
        overlay = Overlay(base)
        carry_out(overlay, handle, changes, duplicates)
        carry_out(real, handle, changes, duplicates)
        assert entries(overlay, handle) == entries(real, handle)
        assert overlay.stat(handle)["entries"] == real.stat(handle)["entries"]
        assert overlay.get(b"a", None, handle) == real.get(b"a", None, handle)
        ours, theirs = overlay.cursor(handle), real.cursor(handle)
        for move, key, value in steps:
            arguments = {"set_range": (key,), "set_key": (key,), "set_range_dup": (key, value)}.get(move, ())
            if (not duplicates and move in ("set_range_dup", "last_dup")) or (not arguments and theirs.item() == (b"", b"")):
                continue  # LMDB has no such move, or none from nowhere
            found = getattr(theirs, move)(*arguments)
            assert getattr(ours, move)(*arguments) == found
            if found:
                assert (ours.key(), ours.value(), ours.item()) == (theirs.key(), theirs.value(), theirs.item())
                at = theirs.item()
                following = list(theirs.iternext())
                assert list(ours.iternext()) == following
                assert list(ours.iternext(True, False)) == [key for key, _ in following]
                assert list(ours.iternext(False, True)) == [value for _, value in following]
                theirs.set_key_dup(*at) if duplicates else theirs.set_key(at[0])
                assert list(ours.iterprev()) == list(theirs.iterprev())
                theirs.set_key_dup(*at) if duplicates else theirs.set_key(at[0])
                if duplicates:
                    assert ours.count() == theirs.count()
                    assert list(ours.iternext_dup()) == list(theirs.iternext_dup())
                    theirs.set_key_dup(*at)
            else:
                ours, theirs = overlay.cursor(handle), real.cursor(handle)


@given(duplicates=st.booleans(), before=CHANGES, changes=CHANGES, more=CHANGES)
def test_what_is_undone(duplicates: bool, before: Any, changes: Any, more: Any) -> None:
    with stores(duplicates, before) as (env, handle), env.begin() as base:
        overlay = Overlay(base)
        carry_out(overlay, handle, changes, duplicates)
        found, count = entries(overlay, handle), overlay.stat(handle)["entries"]
        mark = overlay.mark()
        carry_out(overlay, handle, more, duplicates)
        overlay.undo(mark)
        assert (entries(overlay, handle), overlay.stat(handle)["entries"]) == (found, count)


@given(duplicates=st.booleans(), before=CHANGES, changes=CHANGES, more=CHANGES)
def test_a_copy_stays(duplicates: bool, before: Any, changes: Any, more: Any) -> None:
    with stores(duplicates, before) as (env, handle), env.begin() as base, env.begin(write=True) as real:
        overlay = Overlay(base)
        carry_out(overlay, handle, changes, duplicates)
        found = entries(overlay, handle)
        copy = overlay.copied()
        carry_out(overlay, handle, more, duplicates)
        carry_out(real, handle, [*changes, *more], duplicates)
        assert entries(copy, handle) == found
        copy.let_go()
        carry_out(overlay, handle, more, duplicates)
        carry_out(real, handle, more, duplicates)
        assert entries(overlay, handle) == entries(real, handle)
