from __future__ import annotations

import io
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from svc import demo
from svc.demo import NotOurs, is_filled, make_directory
from svc.demo.data import TABLES
from svc.store import Store


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only the small tables."""
    monkeypatch.setattr(demo, "TABLES", {name: count for name, count in TABLES.items() if count < 2000})


def quiet() -> Console:
    return Console(file=io.StringIO())


def counts(root: Path) -> dict[str, int]:
    store = Store(root / demo.DATABASE)
    try:
        return {name: table.record_count() for name, table in store.databases["data"].tables.items()}
    finally:
        store.close()


def test_makes_a_directory_that_counts_as_filled(tmp_path: Path, few: None) -> None:
    root = tmp_path / "new" / "demo"
    assert not is_filled(root)
    make_directory(root, quiet())
    assert is_filled(root)
    assert counts(root) == {"Airline": 16, "Airport": 1458, "Plane": 0, "Weather": 0, "Flight": 0}
    assert [path.name for path in root.parent.iterdir()] == ["demo"]
    assert root.stat().st_mode & 0o777 == 0o700


def test_takes_an_empty_directory(tmp_path: Path, few: None) -> None:
    assert not is_filled(tmp_path)
    root = tmp_path / "empty"
    root.mkdir()
    make_directory(root, quiet())
    assert is_filled(root)


def test_refuses_a_directory_with_other_files(tmp_path: Path) -> None:
    (tmp_path / "letter.txt").write_text("Dear Ann")
    with pytest.raises(NotOurs, match="is not a data directory of svc"):
        is_filled(tmp_path)


def test_refuses_a_file(tmp_path: Path) -> None:
    path = tmp_path / "letter.txt"
    path.write_text("Dear Ann")
    with pytest.raises(NotOurs):
        is_filled(path)


def test_leaves_nothing_behind_when_interrupted(tmp_path: Path, few: None, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(table: str) -> Iterator[dict[str, Any]]:
        yield {"code": "UA", "name": "United Air Lines Inc."}
        raise KeyboardInterrupt

    monkeypatch.setattr(demo, "iter_records", interrupted)
    with pytest.raises(KeyboardInterrupt):
        make_directory(tmp_path / "demo", quiet())
    assert list(tmp_path.iterdir()) == []
