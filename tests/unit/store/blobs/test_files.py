"""Files of blobs: names, locks, what is left when something goes wrong."""

import errno
import gc
import os
from pathlib import Path

import pytest

from svc.errors import NoSpace, ServerError, StoreFailure
from svc.store.blobs import BlobFiles
from svc.store.blobs import files as files_module
from svc.store.blobs.files import ERROR, PART, is_locked, relative_name


def names(files: BlobFiles) -> list[str]:
    return sorted(name for _, found in files.walk() for name in found)


def test_a_file_has_its_name_when_it_is_complete(files: BlobFiles) -> None:
    file = files.create()
    file.write(b"abc")
    assert names(files) == [f"{file.path.name}{PART}"]
    file.finish()
    assert names(files) == [file.path.name]
    assert file.path.read_bytes() == b"abc"
    assert files.find(file.number) == file.path
    assert file.size == 3


def test_it_goes_with_its_object_unless_a_record_has_it(files: BlobFiles) -> None:
    dropped, kept, claimed, undone = (files.create() for _ in range(4))
    for file in (dropped, kept, claimed, undone):
        file.write(b"x")
        file.finish()
    kept.claim()
    kept.keep()
    claimed.claim()  # whether it was committed nobody knows
    undone.claim()
    undone.unclaim()
    expected = sorted([kept.path.name, claimed.path.name])
    del file, dropped, kept, claimed, undone
    gc.collect()
    assert names(files) == expected


def test_the_lock_is_held_until_the_record_is_committed(files: BlobFiles) -> None:
    file = files.create()
    assert is_locked(Path(f"{file.path}{PART}"))
    file.write(b"x")
    file.finish()
    assert is_locked(file.path)
    file.keep()
    assert not is_locked(file.path)


def test_a_record_may_be_committed_before_its_file_is_complete(files: BlobFiles) -> None:
    file = files.create()
    file.keep()
    file.write(b"x")
    assert files.is_arriving(file.number)
    file.finish()
    assert not is_locked(file.path)
    assert file.path.read_bytes() == b"x"


def test_a_directory_has_at_most_4096_entries(files: BlobFiles, monkeypatch: pytest.MonkeyPatch) -> None:
    numbers = [files._next_number() for _ in range(4097)]
    assert len(set(numbers)) == 4097
    assert [number & 0xFFF for number in numbers] == [*range(4096), 0]
    assert len({number >> 12 for number in numbers}) == 2
    assert len(relative_name(numbers[0])) == 11


def test_two_processes_take_different_directories(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They would not if both drew the same numbers and neither looked."""
    drawn = iter((5, 5, 5, 6))
    monkeypatch.setattr(files_module, "randbits", lambda bits: next(drawn))
    one, other = (BlobFiles(b"identity", "data", (tmp_path / "a", tmp_path / "b")) for _ in range(2))
    assert one.create().number >> 12 == 5
    assert other.create().number >> 12 == 6


def test_a_file_where_directories_should_be(tmp_path: Path) -> None:
    (tmp_path / "data").write_text("not a directory")
    with pytest.raises(StoreFailure):
        BlobFiles(b"identity", "data", (tmp_path,)).create()


def test_an_empty_directory_that_was_cleared_away(files: BlobFiles) -> None:
    file = files.create()
    directory = file.path.parent
    file.discard()
    directory.rmdir()
    again = files.create()
    assert again.path.parent != directory
    again.discard()


def test_files_are_spread_over_paths_by_free_space(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    paths = tmp_path / "a", tmp_path / "b"
    free = {paths[0] / "data": 0, paths[1] / "data": 1 << 30}
    monkeypatch.setattr(files_module, "_free_bytes", free.__getitem__)
    files = BlobFiles(b"identity", "data", paths)
    made = []
    for _ in range(5):
        made.append(files.create())
        made[-1].finish()
    assert {file.path.is_relative_to(paths[1]) for file in made} == {True}
    free[paths[0] / "data"], free[paths[1] / "data"] = 1 << 30, 0
    made.append(files.create())
    made[-1].finish()
    assert made[-1].path.is_relative_to(paths[0])
    moved = BlobFiles(b"identity", "data", paths[::-1])  # the setting was changed
    assert [moved.find(file.number) for file in made] == [file.path for file in made]
    free[paths[1] / "data"] = free[paths[0] / "data"] = 0
    assert files.create().path.is_relative_to(paths[0])


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT, errno.EIO], ids=["ENOSPC", "EDQUOT", "EIO"])
@pytest.mark.parametrize("call", ["write", "fsync", "rename"])
def test_a_failure_leaves_nothing(files: BlobFiles, monkeypatch: pytest.MonkeyPatch, call: str, code: int) -> None:
    def fail(*arguments: object) -> None:
        raise OSError(code, os.strerror(code))

    file = files.create()
    file.write(b"some")
    monkeypatch.setattr(files_module.os, call, fail)
    with pytest.raises(StoreFailure if code == errno.EIO else NoSpace):
        file.write(b"more")
        file.finish()
    monkeypatch.undo()
    assert names(files) == []
    assert not file._descriptors


def test_no_space_for_a_directory(files: BlobFiles, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*arguments: object, **options: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Path, "mkdir", fail)
    with pytest.raises(NoSpace):
        files.create()


def test_a_source_that_broke_before_it_gave_anything_says_why(files: BlobFiles) -> None:
    file = files.create()
    file.keep()
    file.fail(RuntimeError("the camera is off"))
    assert names(files) == [f"{file.path.name}{ERROR}"]
    with pytest.raises(ServerError, match="the camera is off") as caught:
        files.open(file.number, None)
    assert caught.value.code == "BLOB_BROKEN"


def test_a_source_that_broke_in_the_middle(files: BlobFiles) -> None:
    file = files.create()
    file.keep()
    file.write(b"abc")
    with pytest.raises(ServerError) as caught:
        files.open(file.number, None)
    assert caught.value.code == "BLOB_ARRIVING"
    file.fail(RuntimeError("gone"))
    with pytest.raises(ServerError, match="broke off after 3 bytes"):
        files.open(file.number, None)


@pytest.mark.parametrize("damage", ["missing", "shorter"])
def test_a_damaged_file_is_logged(files: BlobFiles, caplog: pytest.LogCaptureFixture, damage: str) -> None:
    file = files.create()
    file.keep()
    file.write(b"abc")
    file.finish()
    if damage == "missing":
        file.path.unlink()
    else:
        file.path.write_bytes(b"ab")
    with pytest.raises(ServerError) as caught:
        files.open(file.number, 3)
    assert caught.value.code == "BLOB_DAMAGED"
    assert relative_name(file.number) in caplog.text


def test_what_others_put_there_is_none_of_ours(files: BlobFiles) -> None:
    file = files.create()
    directory = file.path.parent
    for name in ("README", "0zz", "00.part", "0000", ".part", "001.tmp"):
        assert files.number_of(directory, name) is None
    assert files.number_of(directory, f"{file.path.name}{PART}") == file.number
    files.remove(file.number)
    assert names(files) == []
