"""svc.store.indexes.sorted_runs: runs in a file, and their merge."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from svc.store.indexes import sorted_runs
from svc.store.indexes.sorted_runs import Merge, Run, RunFile


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sorted_runs, "BLOCK", 3)
    monkeypatch.setattr(sorted_runs, "_WRITTEN", 2)


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("runs")


@pytest.fixture
def file(directory: Path) -> Iterator[RunFile]:
    file = RunFile(directory)
    yield file
    file.close()


def written(file: RunFile, entries: list[bytes]) -> Run:
    run: Run = []
    for _ in file.write(sorted(entries), run):
        pass
    return run


def take(merge: Merge) -> list[bytes]:
    for _ in merge.fill():
        pass
    return merge.take()


def rest(merge: Merge) -> list[bytes]:
    found = []
    while some := take(merge):
        assert some == sorted(some)
        found += some
    return found


@given(st.lists(st.lists(st.binary(max_size=5), max_size=30), max_size=6), st.integers(0, 10))
def test_a_merge_has_all_entries_in_order(directory: Path, lists: list[list[bytes]], ahead: int) -> None:
    file = RunFile(directory)
    try:
        merge = Merge.of(file, [written(file, entries) for entries in lists])
        expected = sorted(entry for entries in lists for entry in entries)
        found = [entry for _ in range(ahead) for entry in take(merge)]
        copy = merge.copy()
        assert found + rest(merge) == expected
        assert found + rest(copy) == expected, "a copy goes on from where it was made"
    finally:
        file.close()


@pytest.mark.parametrize(("taken", "most"), [(1, 2), (4, 4), (1000, 6)])
def test_a_step_is_short(file: RunFile, monkeypatch: pytest.MonkeyPatch, taken: int, most: int) -> None:
    monkeypatch.setattr(sorted_runs, "TAKEN", taken)
    entries = [bytes((number,)) for number in range(60)]
    merge = Merge.of(file, [written(file, entries[::2]), written(file, entries[1::2])])
    steps = []
    while some := take(merge):
        steps.append(some)
    assert [entry for step in steps for entry in step] == entries
    assert max(map(len, steps)) <= most


def test_no_file_is_left(file: RunFile, directory: Path) -> None:
    written(file, [b"a"])
    assert list(directory.iterdir()) == []
