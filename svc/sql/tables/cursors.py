"""Cursors over a table: what a plan finds, as rows (spec: sql §9).

`Next`, `Eof` and `Column` are called for each row, and take most of the time of a statement over many: so they do nothing but take the next row of an
iterator, and have a reader take a value out of it. Whatever else has to be done is done for many rows at once.

What begins again and again, the inner side of a join, remembers the rows that it found for a value.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any

from svc.sql.catalogue import ColumnType
from svc.sql.tables.finding import Finder, PlanRun
from svc.sql.tables.plans import Way
from svc.sql.tables.row_forms import RowForm
from svc.sql.tables.values import SqlValue
from svc.store.raw_chunks import fetch, payload_bytes
from svc.store.values.keys import MAX_STORED, encode_key, storage_key
from svc.store.values.records import decode

if TYPE_CHECKING:
    from svc.sql.tables.module import VirtualTable

Readers = Sequence[Callable[[Any], SqlValue]]

MOST_REMEMBERED = 4096  # values of which a cursor remembers the rows
REMEMBERED_BYTES = 4 << 20  # of their records
FEW = 8  # rows of one value
_EXACT = 1 << 53
_NUMBERS = frozenset((ColumnType.INTEGER, ColumnType.REAL))


class TableCursor:
    """`row`: the one it is at, None at the end. `readers`: of SQLite's columns."""

    __slots__ = ("_batch", "_bytes", "_finder", "_form", "_memo", "_owner", "_raw_of", "_raws", "_rows", "_text", "readers", "row")

    def __init__(self, owner: VirtualTable) -> None:
        self._owner = owner
        self._finder: Finder | None = None
        self._form: RowForm | None = None
        self._memo: dict[Any, tuple[Readers, Sequence[Any], Sequence[bytes]]] | None = None  # by value, from the second one on
        self._bytes = 0  # of the records in it
        self._text = ""  # of the plan that they were found by
        self._raws: Sequence[bytes] = ()  # of the rows in `_batch`
        self._batch: Sequence[Any] = ()
        self._raw_of: dict[int, bytes] = {}  # the same by `id` of the row, once it is asked for
        self._rows: Iterator[Any] = iter(())
        self.readers: Readers = ()
        self.row: Any = None

    # -- for SQLite

    def Filter(self, number: int, text: str, args: tuple[Any, ...]) -> None:
        memo = self._memo
        if memo and text == self._text:
            known = memo.get(args[0])
            if known is not None:
                self.readers, self._batch, self._raws = known
                self._form, self._raw_of = None, {}
                self._rows = iter(self._batch)
                self.row = next(self._rows, None)
                return
        run = self._owner.run_of(text)
        if run.is_look_up:
            if text != self._text:
                self._text, self._memo, self._bytes = text, None, 0
            self._look_up(run, args)
        else:
            self._rows = chain.from_iterable(self._batches(run, args))
        self.row = next(self._rows, None)

    def Next(self) -> None:
        self.row = next(self._rows, None)

    def Eof(self) -> bool:
        return self.row is None

    def Column(self, number: int) -> SqlValue:
        return self.readers[number](self.row)

    def Close(self) -> None:
        self._rows = iter(())
        self._finder = self._form = self._memo = self.row = None
        self._batch = self._raws = self.readers = ()
        self._raw_of = {}

    # -- rows

    def _look_up(self, run: PlanRun, args: Sequence[Any]) -> None:
        """The rows of one value."""
        value, memo = args[0], self._memo
        if memo is None:
            self._memo = {}
        key = _only_key(run.kind, value) if run.plan.way is Way.KEY else None
        if key is not None:
            owner = self._owner
            owner.count(1)
            table, state = owner.shape.table, owner.state
            raw = fetch(table, state.source.txn(table), key, state.now_ms)
            if owner.is_narrowed and raw is not None and not self._can_see(raw):
                raw = None
            rows = self._decoded(run.forms, [] if raw is None else [raw])[0]
            self._rows = iter(rows)
        else:
            batches = self._batches(run, args)
            rows = next(batches, ())
            if len(rows) > FEW:
                self._rows = chain(rows, chain.from_iterable(batches))
                return
            if next(batches, None) is not None:  # which is the batch now
                self._rows = chain.from_iterable(self._batches(run, args))
                return
            self._rows = iter(rows)
        if memo is not None:
            self._remember(memo, value)

    def _make_finder(self) -> Finder:
        owner = self._owner
        self._finder = Finder(owner.shape.view, owner.state, owner.count)
        return self._finder

    def _can_see(self, raw: bytes) -> bool:
        """Whether a record of a narrowed table is there for the caller."""
        seen = (self._finder or self._make_finder()).seen
        assert seen is not None
        return bool(seen.of((raw,)))

    def _remember(self, memo: dict[Any, tuple[Readers, Sequence[Any], Sequence[bytes]]], value: Any) -> None:
        self._bytes += payload_bytes(self._raws) + (len(value) if type(value) is str else 0)
        if len(memo) >= MOST_REMEMBERED or self._bytes > REMEMBERED_BYTES:
            memo.clear()
            self._bytes = 0
        memo[value] = self.readers, self._batch, self._raws

    def _batches(self, run: PlanRun, args: Sequence[Any]) -> Iterator[Sequence[Any]]:
        finder = self._finder or self._make_finder()
        forms: Sequence[RowForm] = run.forms
        self._batch = self._raws = ()
        for is_entries, found in finder.find(run, args):
            if is_entries:
                self._form = None
                self._batch, self._raws = found, ()
                self.readers = (_stored_key_of_entry, *run.entry_readers)
            else:
                _, forms = self._decoded(forms, found)
            yield self._batch

    def _decoded(self, forms: Sequence[RowForm], raws: Sequence[Any]) -> tuple[Sequence[Any], Sequence[RowForm]]:
        """The rows of raw records, which are the batch from here on, and the forms to be tried for the next ones."""
        for number, form in enumerate(forms):
            rows = form.make(raws)
            if rows is not None:
                if form is not self._form:
                    self._form = form
                    self.readers = (self._stored_key, *form.readers[:-1], self._raw)
                self._batch, self._raws, self._raw_of = rows, raws, {}
                return rows, forms[number:]
        for raw in raws:
            decode(raw)  # raises StoreFailure for the one that is damaged
        raise AssertionError("a record that can be decoded, but not in the last form")

    def _stored_key(self, row: Any) -> SqlValue:
        """By which SQLite knows a record again: where several conditions lead to it, or a join has to find out which records had no partner."""
        return storage_key(encode_key(self._owner.shape.table.key_of(self._raw(row))))

    def _raw(self, row: Any) -> bytes:
        """The record as it is stored."""
        if type(row) is bytes:
            return row
        if not self._raw_of:
            self._raw_of = dict(zip(map(id, self._batch), self._raws, strict=True))
        return self._raw_of[id(row)]


def _stored_key_of_entry(row: Any) -> SqlValue:
    return row[1]  # type: ignore[no-any-return]


def _only_key(kind: ColumnType, value: Any) -> bytes | None:
    """The stored key of the only record that can have this value as its key; None if that is not so clear."""
    if type(value) is str:
        if kind is ColumnType.TEXT or (kind is ColumnType.ANY and value[:1].isalpha()):
            key = encode_key(value)
            return key if len(key) < MAX_STORED else storage_key(key)
    elif type(value) is int and kind in _NUMBERS and -_EXACT < value < _EXACT:
        return encode_key(value)
    return None
