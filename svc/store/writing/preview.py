"""What a transaction that still collects its writes would leave: for its reads, and for the constraints of its records (spec: schema-and-store §8).

The writes are carried out by the code that carries them out in the end (`write_set`), on a copy in memory of what they change (`overlay_txn`): merges,
defaults, stamps, what deletions entail, indexes. Nothing outside is touched: neither the log nor the files of blobs, and the writer is not opened. A preview
follows its transaction: `steps` carries out what was collected since.

The commit carries them out once more, on what is stored then, and decides: preconditions are tested there only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, cast

import msgspec

from svc.errors import ClientError
from svc.store.blobs import blobs_in
from svc.store.disk.faults import LmdbError, store_problem
from svc.store.overlay_txn import Overlay
from svc.store.snapshots import HeldSnapshot
from svc.store.values.keys import storage_key
from svc.store.writing.constraints import remaining
from svc.store.writing.write_list import Write, apply_write
from svc.store.writing.write_set import WriteSet, check_owner

if TYPE_CHECKING:
    from svc.store.database import Database
    from svc.store.env import Txn
    from svc.store.table import Table

MOST_PREVIEWED = 250_000  # changed entries of tables and indexes, of about 200 bytes; and kilobytes of records


class Preview:
    """Of one transaction in one database, on the read transaction `base`. `version`: that its records show."""

    __slots__ = ("_at", "_call", "_current", "_is_too_large", "_mark", "_writes", "base", "overlay")

    def __init__(self, database: Database, base: Txn, version: float, wall_ms: float) -> None:
        self.base = base
        self.overlay = Overlay(base)
        self._writes = _PreviewWrites(database, version, wall_ms, None, txn=cast("Txn", self.overlay))
        self._at = 0  # the number of the next write
        self._current: Iterator[None] | None = None  # that write, half carried out
        self._mark = 0  # before that write
        self._is_too_large = False  # once and for all
        self._call: tuple[int, int, int, int] | None = (
            None  # that is tested: its first write, the mark before it, what was skipped and deleted before
        )

    @property
    def txn(self) -> Txn:
        """What to read with: as of the writes that were carried out."""
        return cast("Txn", self.overlay)

    def steps(self, writes: list[Write], end: int | None = None) -> Iterator[None]:
        """Carry out what of the writes of the transaction was not yet, up to number `end`, in short steps. Raises what prevents it: a further call begins
        with that write.

        Several callers may take steps in turn: they carry on with the same write.
        """
        overlay, write_set = self.overlay, self._writes
        if self._is_too_large:
            raise _too_large()
        while self._at < (len(writes) if end is None else end):
            if self._current is None:
                write = writes[self._at]
                if write.table.database is not write_set.database:
                    self._at += 1
                    continue
                self._mark = overlay.mark()
                self._current = write_set.carry_out(write)
            try:
                ended = next(self._current, self) is self
            except BaseException as error:
                overlay.undo(self._mark)
                self._forget()
                if isinstance(error, LmdbError):
                    raise store_problem(error, write_set.database.env.path) from error
                raise
            write_set.index_changes.clear()
            if overlay.size > MOST_PREVIEWED:  # one write may entail any number of others
                self._is_too_large = True
                self._current = None
                overlay.drop()
                raise _too_large()
            if ended:
                self._forget()
                self._at += 1
            yield

    def _forget(self) -> None:
        self._current = None
        self._writes.forget()
        if self._call is None:
            self.overlay.keep()

    def begin_call(self) -> object:
        """What is carried out from now on can be undone together, with `undo_call` of the result."""
        self._call = self._at, self.overlay.mark(), len(self._writes.skipped), self._writes.deleted
        return self._call

    def end_call(self) -> tuple[list[Any], int]:
        """What a transaction of the call alone would have `skipped` and `deleted`."""
        call, self._call = self._call, None
        self.overlay.keep()
        return ([], 0) if call is None else (self._writes.skipped[call[2] :], self._writes.deleted - call[3])

    def undo_call(self, call: object) -> bool:
        """Undo what was carried out since `begin_call`. False: another call has begun meanwhile, or it was too large, and the preview is of no use any more."""
        if self._is_too_large or self._call is None or self._call is not call:
            return False
        (self._at, mark, skipped, self._writes.deleted), self._call = self._call, None
        del self._writes.skipped[skipped:]
        self.overlay.undo(mark)
        self._forget()
        self._writes.suspects = {}
        return True

    def check(self, writes: list[Write]) -> Iterator[None]:
        """What is `@unique` in the records of these writes, which have been carried out. Raises NotUnique."""
        suspects = self._writes.suspects
        records = {(write.table, storage_key(write.key)) for write in writes} if suspects else set()
        self._writes.suspects = {suspect: entries for suspect, entries in suspects.items() if (suspect[0], suspect[2]) in records}
        yield from remaining(self._writes)


def _too_large() -> ClientError:
    return ClientError(
        "The transaction has written too much to read, or test, what it would leave: commit it before", code="TRANSACTION_TOO_LARGE"
    )


class PreviewedSnapshot(HeldSnapshot):
    """A held snapshot with what a transaction has written so far, whatever it writes later. Another one cannot take its place."""

    __slots__ = ("_below", "_overlay", "_sharers")

    is_replaceable = False

    def __init__(
        self, below: HeldSnapshot, overlay: Overlay, sharers: set[object] | None = None, on_lost: Callable[[], object] | None = None
    ) -> None:
        """`below`: shared, not taken over. `overlay`: a copy, whose `sharers` are known to each of them: the last one lets go of it."""

        def let_go() -> None:
            if on_lost is not None:
                on_lost()
            overlay.let_go()

        self._below = below.share(on_lost=let_go)
        self._overlay = overlay
        self._sharers: set[object] = set() if sharers is None else sharers
        self._sharers.add(self._below)
        self.reader = below.reader

    def use(self) -> Txn:
        self._below.use()
        return cast("Txn", self._overlay)

    def share(self, *, on_lost: Callable[[], object] | None = None) -> HeldSnapshot:
        self.use()
        return PreviewedSnapshot(self._below, self._overlay, self._sharers, on_lost)

    def abort(self) -> None:
        self._below.abort()
        self._sharers.discard(self._below)
        if not self._sharers:
            self._overlay.let_go()


class _PreviewWrites(WriteSet):
    """Writes records and index entries, and nothing else."""

    __slots__ = ("deleted",)

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.deleted = 0  # records, by deletions that were asked for
        self.log = cast(Any, _NoLog(self.log))

    def carry_out(self, write: Write) -> Iterator[None]:
        data = write.data
        self.deleted += apply_write(msgspec.structs.replace(write, precondition=None, data=None if data is None else data.copy()), self)
        yield
        yield from self.follow()

    def forget(self) -> None:
        """What only a commit needs."""
        self.references = None
        self.index_changes.clear()

    def change_files(self, table: Table, stored: bytes, lsn: int, old_raw: bytes | None, record: dict[str, Any] | None) -> None:
        for blob in blobs_in(record or {}):
            check_owner(blob, self.database)

    def _append(self, *entry: Any) -> None:
        pass


class _NoLog:
    """In place of the log: it is read, but nothing is entered. Records show a place behind its end."""

    def __init__(self, log: Any) -> None:
        self._log = log

    def __getattr__(self, name: str) -> Any:
        return getattr(self._log, name)

    def resume_chain(self, *chain: Any) -> int:
        return 0

    def end_chain(self, *chain: Any) -> None:
        pass

    def extend_notes(self, *chain: Any) -> int:
        return 0
