"""svc.store.writing.index_runs: index entries of many new records, sorted."""

from __future__ import annotations

from typing import Any

import pytest

from svc.store.slices import run_now
from svc.store.values.keys import index_keys
from svc.store.writing.index_runs import IndexRuns, split_entry


class FakeIndex:
    attribute = "n"
    computed = None


@pytest.mark.parametrize("value", [1, -1.5, None, "text", True, 10**400, float("nan"), float("inf"), ["a", "b"], {}, [], b"x"])
def test_the_entries_are_those_of_a_single_write(value: Any) -> None:
    runs = IndexRuns(FakeIndex())  # type: ignore[arg-type]
    runs.add([(b"k", {"n": value}), (b"l", {})])
    found: list[bytes] = []

    def merge() -> Any:
        found.extend((yield from runs.merged()))

    run_now(merge())
    assert sorted(map(split_entry, found)) == sorted(
        [*((key, b"k") for key in index_keys(value)), *((key, b"l") for key in index_keys(None))]
    )
