"""Content on its way into a blob: from memory, from a source of an application, from the body of a request."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from functools import partial

from svc.store.blobs.blob import INLINE_BELOW, Blob
from svc.store.blobs.files import BlobFile, BlobFiles
from svc.store.blobs.helper import Helper

logger = logging.getLogger("svc.store")

QUEUE_HIGH = 1 << 20  # bytes that wait for the disk, at which the sender is asked to pause
QUEUE_LOW = 256 * 1024  # ... and at which it may go on

_tasks: set[asyncio.Task[None]] = set()  # the loop has only weak references to them


class Intake:
    """Takes pieces of content. The first stay in memory; a file is made when they are too many for a record. All of it may block."""

    __slots__ = ("_files", "_head", "file", "size")

    def __init__(self, files: BlobFiles) -> None:
        self._files = files
        self._head: list[bytes] = []
        self.file: BlobFile | None = None
        self.size = 0

    def fits(self, size: int) -> bool:
        """Whether with so many more bytes it still is all in memory."""
        return self.file is None and self.size + size < INLINE_BELOW

    def take(self, pieces: list[bytes]) -> None:
        """Raises NoSpace or StoreFailure."""
        self.size += sum(map(len, pieces))
        if self.file is None:
            self._head += pieces
            if self.size < INLINE_BELOW:
                return
            self.file = self._files.create()
            pieces, self._head = self._head, []
        for piece in pieces:
            self.file.write(piece)

    def finish(self) -> None:
        """That was all: it is on disk when this returns. Raises NoSpace or StoreFailure."""
        if self.file is not None:
            self.file.finish()

    def move_into(self, blob: Blob) -> None:
        if self.file is None:
            blob.hold(b"".join(self._head))
        else:
            blob.move_into(self._files, self.file, self.size)
        blob.settle()

    def discard(self) -> None:
        if self.file is not None:
            self.file.discard()


def save_now(blob: Blob, files: BlobFiles) -> None:
    """Save an unsaved blob; blocks until it is on disk. Raises NoSpace, StoreFailure, BadValue, and what its source raises."""
    unsaved = blob.unsaved
    if unsaved is None:
        return
    if not unsaved.save_before_commit and _is_in_loop():
        _begin_arriving(blob, files, files.create(), Helper())
        return
    intake = Intake(files)
    try:
        for piece in unsaved.pieces_now():
            intake.take([piece])
        intake.finish()
    except BaseException:
        intake.discard()
        raise
    intake.move_into(blob)


async def save(blob: Blob, files: BlobFiles, helper: Helper) -> None:
    """The same for a coroutine: what blocks is done by `helper`."""
    unsaved = blob.unsaved
    if unsaved is None:
        return
    if not unsaved.save_before_commit:
        _begin_arriving(blob, files, await helper.wait(files.create), helper)
        return
    intake = Intake(files)
    try:
        async for piece in unsaved.pieces():
            await helper.wait(partial(intake.take, [piece]))
        await helper.wait(intake.finish)
    except BaseException:
        intake.discard()
        raise
    intake.move_into(blob)


def _is_in_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


def _begin_arriving(blob: Blob, files: BlobFiles, file: BlobFile, helper: Helper) -> None:
    """The record gets its reference now, the content comes as it comes (spec: schema-and-store §14.4)."""
    assert blob.unsaved is not None
    pieces = blob.unsaved.pieces()
    blob.move_into(files, file, None)
    files.arriving[file.number] = file

    async def arrive() -> None:
        try:
            async for piece in pieces:
                await helper.wait(partial(file.write, piece))
                file.notify()
            await helper.wait(file.finish)
        except Exception as error:
            logger.warning("a blob broke off after %d bytes: %s", file.size, error)
            await helper.wait(partial(file.fail, error))
            blob.settle(error)
        else:
            blob.settle()
        finally:
            file.notify()

    task = asyncio.get_running_loop().create_task(arrive())
    _tasks.add(task)
    task.add_done_callback(_tasks.discard)


def _ignore(error: BaseException | None) -> None:
    """Nobody listens yet."""


class Upload:
    """The body of a request on its way into a blob, written by `helper` while it comes.

    `on_change` is called when there is room again after `write` said that there is none, or with the exception that ended it.
    """

    __slots__ = (
        "_done",
        "_error",
        "_files",
        "_helper",
        "_intake",
        "_is_busy",
        "_is_discarded",
        "_is_full",
        "_queue",
        "_queued",
        "_type",
        "on_change",
    )

    def __init__(self, files: BlobFiles, helper: Helper, type: str | None) -> None:
        """`type`: of the content. Raises BadValue if it is not a media type."""
        Blob(b"", type)
        self._files = files
        self._helper = helper
        self._type = type
        self._intake = Intake(files)
        self._queue: list[bytes] = []
        self._queued = 0  # bytes in the queue or being written
        self._is_busy = False
        self._is_full = False
        self._is_discarded = False
        self._error: BaseException | None = None
        self._done: Callable[[Blob | None, BaseException | None], None] | None = None
        self.on_change: Callable[[BaseException | None], None] = _ignore

    def write(self, data: bytes) -> bool:
        """Take a piece. False: no more, please, until `on_change`."""
        if self._error is not None or self._is_discarded:
            return True
        if not self._is_busy and self._intake.fits(len(data)):
            self._intake.take([data])
            return True
        self._queue.append(data)
        self._queued += len(data)
        if not self._is_busy:
            self._write_queue()
        self._is_full = self._queued >= QUEUE_HIGH
        return not self._is_full

    def _write_queue(self) -> None:
        pieces, self._queue = self._queue, []
        self._is_busy = True
        self._helper.run(partial(self._intake.take, pieces), partial(self._written, sum(map(len, pieces))))

    def _written(self, size: int, _: None, error: BaseException | None) -> None:
        self._is_busy = False
        self._queued -= size
        if self._is_discarded:
            self._intake.discard()
        elif error is not None:
            self._fail(error)
        elif self._queue:
            self._write_queue()
        elif self._done is not None:
            self._finish()
        if self._is_full and self._queued <= QUEUE_LOW and self._error is None:
            self._is_full = False
            self.on_change(None)

    def _fail(self, error: BaseException) -> None:
        self._error = error
        self._queue.clear()
        self._intake.discard()
        if self._done is not None:
            self._done(None, error)
        else:
            self.on_change(error)

    def finish(self, done: Callable[[Blob | None, BaseException | None], None]) -> None:
        """That was all: `done` gets the blob, whose content is on disk, or what prevented that."""
        self._done = done
        if self._error is not None:
            done(None, self._error)
        elif not self._is_busy:
            self._finish()

    def _finish(self) -> None:
        if self._intake.file is None:
            self._finished(None, None)
        else:
            self._is_busy = True
            self._helper.run(self._intake.finish, self._finished)

    def _finished(self, _: None, error: BaseException | None) -> None:
        self._is_busy = False
        assert self._done is not None
        if self._is_discarded:
            self._intake.discard()
        elif error is not None:
            self._fail(error)
        else:
            blob = Blob(None, self._type)
            self._intake.move_into(blob)
            done, self._done = self._done, None  # it may refer to this: a cycle, which would keep the file of a blob that nobody takes
            done(blob, None)

    def discard(self) -> None:
        """Cancel: remove the file, as soon as it is no longer being written."""
        self._is_discarded = True
        self._queue.clear()
        self.on_change = _ignore
        if not self._is_busy:
            self._intake.discard()
