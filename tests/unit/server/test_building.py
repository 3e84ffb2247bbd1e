"""What a start warns of."""

from __future__ import annotations

from pathlib import Path

import pytest

from svc.server import building
from svc.server.building import drive_warnings
from svc.testing.prepared import make_config


def test_data_on_a_drive_of_another_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    remote = tmp_path / "remote"
    monkeypatch.setattr(building, "remote_drive", lambda path: "nfs4" if path.is_relative_to(remote) else None)
    found: list[tuple[Path, tuple[Path, ...]]] = [
        (tmp_path / "a", (tmp_path / "b",)),
        (remote / "a", (tmp_path / "b",)),
        (tmp_path / "a", (tmp_path / "b", remote / "c")),
    ]
    told = []
    for storage, blobs in found:
        config = make_config(tmp_path, {"storage_path": str(storage), "storage_blobPaths": [str(path) for path in blobs]})
        told.append([text.partition(". Mapped")[0] for text in drive_warnings(config)])
    assert told == [
        [],
        [f"storage.path is on a drive of another machine (nfs4): {remote / 'a'}"],
        [f"storage.blobPaths is on a drive of another machine (nfs4): {remote / 'c'}"],
    ]
