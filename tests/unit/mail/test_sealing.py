"""The key of the outbox, and what it seals."""

from __future__ import annotations

from pathlib import Path

import pytest

from svc.mail.sealing import KEY_FILE, Seal, SealBroken


def test_the_key_is_made_once_and_private(tmp_path: Path) -> None:
    directory = tmp_path / "keys"
    sealed = Seal.from_directory(directory).close(b"secret", "row")
    assert b"secret" not in sealed
    assert Seal.from_directory(directory).open(sealed, "row") == b"secret"
    assert (directory / KEY_FILE).stat().st_mode & 0o777 == 0o600 and directory.stat().st_mode & 0o777 == 0o700


def test_each_time_it_is_sealed_otherwise(tmp_path: Path) -> None:
    seal = Seal.from_directory(tmp_path)
    assert seal.close(b"secret", "row") != seal.close(b"secret", "row")


@pytest.mark.parametrize(
    "change", [lambda sealed: sealed[:-1], lambda sealed: sealed + b"x", lambda sealed: b"", lambda sealed: sealed[:12]]
)
def test_what_was_changed_is_not_opened(tmp_path: Path, change) -> None:  # type: ignore[no-untyped-def]
    seal = Seal.from_directory(tmp_path)
    with pytest.raises(SealBroken):
        seal.open(change(seal.close(b"secret", "row")), "row")
    with pytest.raises(SealBroken):
        seal.open(seal.close(b"secret", "row"), "other")


def test_a_file_that_is_no_key(tmp_path: Path) -> None:
    (tmp_path / KEY_FILE).write_bytes(b"short")
    with pytest.raises(ValueError, match="is no key of 32 bytes"):
        Seal.from_directory(tmp_path)
