"""A gap-free copy of a snapshot, as a stream of bytes.

LMDB writes such a copy to a descriptor, without the interpreter lock, and blocks its thread until it is done. Here that is a thread of its own and
the descriptor is a pipe. So whoever reads the pipe decides how fast it goes, sees every byte once (to hash, write or send it), and can end it: with
the other end of its pipe closed, LMDB stops at once. An environment must not be closed while it is being copied; `stop` waits for that.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Event, Thread
from typing import TYPE_CHECKING

import lmdb

if TYPE_CHECKING:
    Txn = lmdb.Transaction[bytes]
else:
    Txn = lmdb.Transaction

PIECE = 1 << 20  # bytes read at once
_STOP_SECONDS = 30.0  # that `stop` waits for a reader, which needs milliseconds


class Stopped(Exception):
    """Ended from another thread; nothing is left of what was begun."""


class Copy:
    """The copy of one read transaction, which belongs to it from now on. Iterate it once, on any thread, to the end or `close` it."""

    def __init__(self, env: lmdb.Environment, txn: Txn, path: Path, on_end: Callable[[Copy], None]) -> None:
        """`on_end` is called when the environment is no longer needed, on some thread."""
        self._env = env
        self._txn = txn
        self._path = path
        self._on_end = on_end
        self._stopping = False
        self._ended = Event()
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
            while not self._stopping:
                piece = os.read(reader, PIECE)
                if not piece:
                    break
                yield piece
        finally:
            os.close(reader)
            thread.join()
            self._end()
        if self._stopping:
            raise Stopped
        if self._failure is not None:
            raise self._failure

    def _write(self, writer: int) -> None:
        try:
            self._env.copyfd(writer, compact=True, txn=self._txn)
        except BaseException as error:
            self._failure = error
        finally:
            os.close(writer)

    def _end(self) -> None:
        if not self._ended.is_set():
            self._txn.abort()
            self._on_end(self)
            self._ended.set()

    def close(self) -> None:
        """Let go of it, read or not. On the thread that reads it, or when none does."""
        self._pieces.close()  # type: ignore[attr-defined]
        self._end()  # a generator that was never begun does nothing on close

    def stop(self) -> None:
        """End it from another thread, and wait for that."""
        self._stopping = True
        self._ended.wait(_STOP_SECONDS)
