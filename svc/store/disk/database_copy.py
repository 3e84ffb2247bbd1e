"""Copies of a database as of one commit, as streams of bytes.

`Copy` is LMDB's own copy without gaps. It blocks its thread, so it runs on one of its own and writes into a pipe: its reader gets every byte
once (to hash, write or send it), decides how fast it goes, and can end it. But py-lmdb lets no write transaction of the environment be aborted while
it runs. So it is for environments that no other code in the process writes to.

`RawCopy` is for the others. It reads the file itself, page by page, as of a read transaction: LMDB does not touch the pages that one may read, and
writes no others in place but the two meta pages. Those are read when the transaction begins, and written so that the copy opens with its state:

    page 0, page 1   the meta page of the transaction, under its own number and, with the id before it, under the other
    page 2 ...       up to the last page that the transaction knows; pages that it cannot reach may be torn, and are free in the copy

It leaves nothing in the page cache that makes later writes dear: see `page_cache`.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from struct import Struct as Layout
from threading import Thread
from typing import TYPE_CHECKING

import lmdb

from svc.store.disk.page_cache import cache_single_pages

if TYPE_CHECKING:
    Txn = lmdb.Transaction[bytes]
else:
    Txn = lmdb.Transaction

PIECE = 1 << 20  # bytes read at once

# Of a meta page of LMDB 0.9: number of the page at 0, magic number at 16, last page at 136, transaction id at 144.
META_MAGIC = 0xBEEFC0DE
META = Layout("=Q8xI116xQQ")
_NUMBER = Layout("=Q")
_ID_AT = 144


class CopyStopped(Exception):
    """Ended from another thread; nothing is left of what was begun."""


class Copy:
    """The copy of one read transaction, which belongs to it from now on. Iterate it once, on any thread, to the end or `close` it."""

    def __init__(self, env: lmdb.Environment, txn: Txn) -> None:
        self._env = env
        self._txn = txn
        self._failure: BaseException | None = None
        self._pieces = self._read()

    def __iter__(self) -> Iterator[bytes]:
        return self._pieces

    def _read(self) -> Iterator[bytes]:
        reader, writer = os.pipe()
        try:
            fcntl.fcntl(writer, fcntl.F_SETPIPE_SZ, PIECE)
        except OSError:
            pass  # a smaller pipe does it too, in more steps
        thread = Thread(target=self._write, args=(writer,), name="copy", daemon=True)
        thread.start()
        try:
            while piece := os.read(reader, PIECE):
                yield piece
        finally:
            os.close(reader)  # with this end closed, LMDB stops at once
            thread.join()
            self._txn.abort()
        if self._failure is not None:
            raise self._failure

    def _write(self, writer: int) -> None:
        try:
            self._env.copyfd(writer, compact=True, txn=self._txn)
        except BaseException as error:
            self._failure = error
        finally:
            os.close(writer)

    def close(self) -> None:
        """Let go of it, read or not. On the thread that reads it, or when none does."""
        self._pieces.close()  # type: ignore[attr-defined]
        self._txn.abort()  # a generator that was never begun does nothing on close


class RawCopy:
    """The file as of the read transaction `txn`. Made on the thread of the environment; iterated once and closed on any.

    Raises OSError, and Stopped when the environment is closed meanwhile.
    """

    def __init__(self, path: Path, page_size: int, txn: Txn, on_end: Callable[[RawCopy], None]) -> None:
        """`path`: of the data file. `on_end`: called at the end. Raises LookupError if another process has committed twice since `txn` began."""
        self.txn = txn
        self._on_end = on_end
        self._is_stopped = False
        self._page_size = page_size
        self._descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            cache_single_pages(self._descriptor)  # pieces are large, so that it takes no longer
            self._metas, self._pages = self._read_metas(txn.id())
        except BaseException:
            os.close(self._descriptor)
            self._descriptor = -1
            raise

    def _read_metas(self, wanted: int) -> tuple[bytes, int]:
        size = self._page_size
        own = wanted & 1
        page = bytearray(os.pread(self._descriptor, size, own * size))
        _, magic, last, found = META.unpack_from(page)
        if magic != META_MAGIC or found != wanted:
            raise LookupError(wanted)
        other = bytearray(page)
        _NUMBER.pack_into(other, 0, 1 - own)
        _NUMBER.pack_into(other, _ID_AT, wanted - 1)
        return bytes(other + page if own else page + other), last + 1

    def __iter__(self) -> Iterator[bytes]:
        yield self._metas
        position, end = 2 * self._page_size, self._pages * self._page_size
        while position < end:
            piece = os.pread(self._descriptor, min(PIECE, end - position), position)
            if self._is_stopped:
                break
            if not piece:
                raise OSError(0, "the file is shorter than its pages")
            position += len(piece)
            yield piece
        if self._is_stopped:
            raise CopyStopped

    def stop(self) -> None:
        """The environment is about to be closed: pages are no longer kept. On its thread."""
        self._is_stopped = True
        self.txn.abort()

    def close(self) -> None:
        """Let go of the transaction. Harmless when done."""
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)
            self.txn.abort()
            self._on_end(self)
