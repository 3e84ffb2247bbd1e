"""The sweep removes what belongs to nobody, and nothing else."""

import gc
from pathlib import Path

from svc.store.blobs import BlobFiles, Sweep
from svc.store.blobs.files import PART


def sweep(files: BlobFiles, known: set[int]) -> int:
    found = Sweep(files, lambda number, fresh: number in known)
    while found.step():
        pass
    return found.removed


def test_files_that_nobody_knows_go(files: BlobFiles) -> None:
    ours = files.create()
    ours.write(b"x")
    ours.finish()
    ours.keep()
    writing = files.create()
    left = writing.path.with_name(f"fff{PART}")
    left.write_bytes(b"of a killed process")
    foreign = writing.path.with_name("README")
    foreign.write_bytes(b"what is this?")
    unknown = writing.path.with_name("ffe")
    unknown.write_bytes(b"")
    assert sweep(files, {ours.number}) == 2
    assert ours.path.exists() and foreign.exists() and Path(f"{writing.path}{PART}").exists()
    assert not left.exists() and not unknown.exists()


def test_who_commits_at_this_moment_is_asked_again(files: BlobFiles) -> None:
    file = files.create()
    file.write(b"x")
    file.finish()

    def knows(number: int, fresh: bool) -> bool:
        if not fresh:
            file.keep()  # between the first look and the lock
        return fresh

    passage = Sweep(files, knows)
    while passage.step():
        pass
    assert passage.removed == 0
    assert file.path.exists()


def test_empty_directories_go(files: BlobFiles) -> None:
    file = files.create()
    directory = file.path.parent
    file.discard()
    del file
    gc.collect()
    assert directory.exists()
    assert sweep(files, set()) == 0
    assert not directory.exists() and not directory.parent.exists()
    assert sweep(files, set()) == 0
