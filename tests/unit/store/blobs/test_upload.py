"""The body of a request on its way into a blob: queue, pauses, failures. The helper is told when to work."""

import gc
from collections.abc import Callable
from typing import Any

import pytest

from svc.errors import BadValue, NoSpace
from svc.store.blobs import Blob, BlobFile, BlobFiles, Helper, Upload
from svc.store.blobs.saving import QUEUE_HIGH

PIECE = b"x" * 100_000


class SlowHelper(Helper):
    """Works only when asked to."""

    def __init__(self) -> None:
        self.jobs: list[tuple[Callable[[], Any], Any]] = []

    def run(self, work: Callable[[], Any], done: Any) -> None:
        self.jobs.append((work, done))

    def step(self) -> None:
        super().run(*self.jobs.pop(0))

    def drain(self) -> None:
        while self.jobs:
            self.step()


class Outcome:
    def __init__(self) -> None:
        self.blob: Blob | None = None
        self.error: BaseException | None = None
        self.changes: list[BaseException | None] = []

    def done(self, blob: Blob | None, error: BaseException | None) -> None:
        assert self.blob is None and self.error is None
        self.blob, self.error = blob, error


def begin(files: BlobFiles) -> tuple[Upload, SlowHelper, Outcome]:
    helper, outcome = SlowHelper(), Outcome()
    upload = Upload(files, helper, "image/png")
    upload.on_change = outcome.changes.append
    return upload, helper, outcome


def names(files: BlobFiles) -> list[str]:
    gc.collect()
    return [name for _, found in files.walk() for name in found]


def test_a_small_body_needs_no_helper_and_no_file(files: BlobFiles) -> None:
    upload, helper, outcome = begin(files)
    assert upload.write(b"ab") and upload.write(b"cd")
    upload.finish(outcome.done)
    assert helper.jobs == []
    assert outcome.blob is not None and outcome.blob.inline == b"abcd" and outcome.blob.type == "image/png"


def test_a_large_body(files: BlobFiles) -> None:
    upload, helper, outcome = begin(files)
    for number in range(5):
        upload.write(b"%d" % number * 10_000)
        if number == 2:
            helper.drain()
    upload.finish(outcome.done)
    assert outcome.blob is None
    helper.drain()
    assert outcome.blob is not None and outcome.blob.size == 50_000
    assert outcome.blob.read() == b"".join(b"%d" % number * 10_000 for number in range(5))
    assert outcome.changes == []


def test_the_sender_is_asked_to_pause_and_to_go_on(files: BlobFiles) -> None:
    upload, helper, outcome = begin(files)
    sent = 0
    while upload.write(PIECE):
        sent += len(PIECE)
    assert QUEUE_HIGH - len(PIECE) <= sent < QUEUE_HIGH
    assert outcome.changes == []
    helper.step()
    assert outcome.changes == []  # the larger part still waits
    helper.step()
    assert outcome.changes == [None]
    upload.finish(outcome.done)
    helper.drain()
    assert outcome.blob is not None and outcome.blob.size == sent + len(PIECE)
    assert outcome.changes == [None]


@pytest.mark.parametrize("finished", [False, True], ids=["while it comes", "at its end"])
def test_a_full_disk_ends_it(files: BlobFiles, monkeypatch: pytest.MonkeyPatch, finished: bool) -> None:
    upload, helper, outcome = begin(files)

    def fail(self: BlobFile, data: bytes) -> None:
        raise NoSpace

    monkeypatch.setattr(BlobFile, "write", fail)
    upload.write(PIECE)
    if finished:
        upload.finish(outcome.done)
    helper.drain()
    failure = outcome.error if finished else outcome.changes[0]
    assert isinstance(failure, NoSpace)
    assert upload.write(PIECE)  # what is still on its way is dropped
    if not finished:
        upload.finish(outcome.done)
        assert outcome.error is failure
    assert helper.jobs == []
    assert names(files) == []


def test_a_full_disk_at_the_very_end(files: BlobFiles, monkeypatch: pytest.MonkeyPatch) -> None:
    upload, helper, outcome = begin(files)

    def fail(self: BlobFile) -> None:
        self.discard()
        raise NoSpace

    monkeypatch.setattr(BlobFile, "finish", fail)
    upload.write(PIECE)
    upload.finish(outcome.done)
    helper.drain()
    assert isinstance(outcome.error, NoSpace)
    assert names(files) == []


@pytest.mark.parametrize("steps", range(4))
def test_discarded_at_any_moment(files: BlobFiles, steps: int) -> None:
    upload, helper, outcome = begin(files)
    actions: list[Callable[[], object]] = [lambda: upload.write(PIECE), helper.step, lambda: upload.finish(outcome.done)]
    for action in actions[:steps]:
        action()
    upload.discard()
    upload.write(PIECE)
    helper.drain()
    assert outcome.blob is None
    assert names(files) == []


def test_a_type_that_is_none_is_refused_before_anything_is_sent(files: BlobFiles) -> None:
    with pytest.raises(BadValue):
        Upload(files, Helper(), "x" * 300)
