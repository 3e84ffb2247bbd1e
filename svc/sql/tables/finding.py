"""Plans -> lists of raw records, or of index entries that have all that is used (spec: sql §9)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import chain
from typing import Any

from svc.sql.catalogue import ColumnType, TableView
from svc.sql.row_filters import SeenRecords
from svc.sql.tables.comparing import NUMBERS, comparison, has_exact_span, sort_place
from svc.sql.tables.plans import Order, Plan, Way
from svc.sql.tables.read_state import ReadState
from svc.sql.tables.row_forms import RowForm
from svc.sql.tables.shape import CUT, TableShape, has_cut, has_hashed
from svc.sql.tables.spans import ALL_KEYS, EQ, IS, Span, intersection, key_span_of, number_span, span_of, whole_key_span, whole_span
from svc.sql.tables.values import sql_value
from svc.store.indexes.build import value_reader
from svc.store.indexes.index import Entry, Index
from svc.store.raw_chunks import ALL, FIRST, MOST, entry_chunks, fetched_chunks, record_chunks
from svc.store.values.keys import after, encode_key, is_cut, storage_key

Found = tuple[bool, Sequence[Any]]  # whether these are entries, else they are raw records


MOST_SORTED = 20_000  # entries; where there are more, records are read in the order of their keys, and tested


MOST_SEEN_SORTED = (
    1000  # keys of the records that there are for a caller: where there are more, the first ones are soon found by reading in order
)


class PlanRun:
    """A plan and what it needs of its table. `is_look_up`: it looks for one value, and the order does not matter."""

    __slots__ = ("_shape", "entry_readers", "forms", "index", "is_look_up", "kind", "plan")

    def __init__(self, plan: Plan, shape: TableShape) -> None:
        self.plan = plan
        self._shape = shape
        self.forms: tuple[RowForm, ...] = (shape.record_form(plan.used),) if _needs_record_only(plan, shape) else shape.forms(plan.used)
        self.index: Index | None = shape.indexes[plan.column] if plan.way is Way.INDEX else None
        self.kind = ColumnType.ANY if plan.way is Way.SCAN else shape.kinds[plan.column]
        self.entry_readers = shape.entry_readers(plan.column) if plan.is_index_only else ()
        self.is_look_up = plan.terms in ((EQ,), (IS,)) and not plan.is_descending and not plan.has_offset

    def span(self, args: Sequence[Any]) -> Span:
        """Where everything is that fulfils the terms. `args`: begins with their values."""
        terms, is_key = self.plan.terms, self.plan.way is Way.KEY
        if len(terms) == 1:
            return (key_span_of if is_key else span_of)(self.kind, terms[0], args[0])
        if terms and self.kind in NUMBERS and (quick := number_span(terms, args)) is not None:
            return quick
        found, of_column = (whole_key_span(self.kind), key_span_of) if is_key else (whole_span(self.kind), span_of)
        for operator, value in zip(terms, args, strict=False):
            found = intersection(found, of_column(self.kind, operator, value))
        return found

    def has_exact_span(self, args: Sequence[Any]) -> bool:
        return all(map(partial(has_exact_span, self.kind), self.plan.terms, args))

    def test(self, args: Sequence[Any]) -> Callable[[Sequence[Any], bool], list[Any]]:
        """A function of raw records, or of entries of the index, that gives those which fulfil the terms."""
        column = self.plan.column
        form = self._shape.forms((column,))[-1]
        tests = [comparison(self.kind, operator, value) for operator, value in zip(self.plan.terms, args, strict=False)]

        def tested(elements: Sequence[Any], is_entries: bool) -> list[Any]:
            read = self.entry_readers[column] if is_entries else form.readers[column]
            rows = elements if is_entries else form.make(elements) or ()
            return [element for element, value in zip(elements, map(read, rows), strict=True) if all(holds(value) for holds in tests)]

        return tested


def _needs_record_only(plan: Plan, shape: TableShape) -> bool:
    """Whether no other column is asked for, or hardly: those that only serve to find and sort the rows are."""
    others = {shape.record}
    if plan.is_left_to_us:
        others.add(plan.column)
    if plan.order is not Order.ANY:
        others |= {plan.column, shape.key}
    return shape.record in plan.used and others.issuperset(plan.used)


class Finder:
    """Of one table in one state. `count`: is told of the records and entries that were looked at. `seen`: what is there for the caller, None: all of it."""

    __slots__ = ("_count", "_state", "_table", "_txn", "seen")

    def __init__(self, view: TableView, state: ReadState, count: Callable[[int], object]) -> None:
        self._table = view.table
        self._state = state
        self._txn = state.source.txn(view.table)
        self._count = count
        self.seen = SeenRecords(state.source.row_filter(view), self._txn, count) if view.is_narrowed else None

    def find(self, run: PlanRun, args: Sequence[Any]) -> Iterator[Found]:
        """`args`: of the cursor."""
        plan = run.plan
        skip = _whole(args[-1]) if plan.has_offset else 0
        first = min(FIRST, (_whole(args[-2 if plan.has_offset else -1]) if plan.has_limit else 0) or FIRST)
        is_exact = not plan.terms or not (plan.is_left_to_us or skip) or run.has_exact_span(args)
        found: Iterable[Found]
        if not self._gives_order(run):
            is_exact, found = False, ((False, raws) for raws in self._sorted(run))
        elif plan.way is Way.INDEX:
            span = run.span(args)
            assert run.index is not None
            chunks = None if span.unlisted or not self._state.is_ready(self._table, run.index) else self._chunks(run, span, first)
            if chunks is None:
                is_exact, found = False, ((False, raws) for raws in self._scan(plan.is_descending, is_ordered=plan.order is not Order.ANY))
            else:
                found = self._find_by_entries(run, chunks, skip if is_exact else 0)
                skip = 0 if is_exact else skip
        elif plan.way is Way.KEY:
            found = ((False, raws) for raws in self._find_by_key(run.span(args), plan.is_descending, first, plan.order is not Order.ANY))
        else:
            found = ((False, raws) for raws in self._scan(plan.is_descending, first, is_ordered=plan.order is not Order.ANY))
        if self.seen is not None:
            found = _only_seen(found, self.seen)
        if not is_exact and plan.terms and (plan.is_left_to_us or skip):
            found = _tested(found, run.test(args))
        return _without(found, skip)

    def _scan(self, descending: bool, first: int = FIRST, *, is_ordered: bool = False) -> Iterator[list[bytes]]:
        """`is_ordered`: they are to come in the order of their keys."""
        if self.seen is not None and (keys := self._seen_keys(self.seen, descending, is_ordered)) is not None:
            return fetched_chunks(self._table, self._txn, keys, self._state.now_ms, self._count)
        return record_chunks(self._table, self._txn, ALL, self._state.now_ms, self._count, reverse=descending, first=first)

    @staticmethod
    def _seen_keys(seen: SeenRecords, descending: bool, is_ordered: bool) -> Iterable[bytes] | None:
        """Where all records are that there are for the caller, if an index has them, and they are few or need not be sorted."""
        chunks = seen.keys()
        if chunks is None or not is_ordered:
            return None if chunks is None else chain.from_iterable(chunks)
        found: list[bytes] = []
        for keys in chunks:
            found += keys
            if len(found) > MOST_SEEN_SORTED:
                return None
        found.sort(reverse=descending)
        return found

    def _find_by_key(self, span: Span, descending: bool, first: int, is_ordered: bool) -> Iterator[list[bytes]]:
        if span.bounds == ALL_KEYS.bounds:
            return self._scan(descending, first, is_ordered=is_ordered)
        if all(high == after(low) for low, high in span.bounds):
            keys = [low for low, _ in span.bounds]
            return fetched_chunks(self._table, self._txn, reversed(keys) if descending else keys, self._state.now_ms, self._count)
        return record_chunks(self._table, self._txn, span.bounds, self._state.now_ms, self._count, reverse=descending, first=first)

    def _chunks(self, run: PlanRun, span: Span, first: int) -> Iterable[Sequence[Entry]] | None:
        """The entries of a span in the order of the plan; None if they are too many to be sorted here."""
        plan, index = run.plan, run.index
        assert index is not None
        chunks: Iterable[Sequence[Entry]] = entry_chunks(
            index, self._txn, span.bounds, self._count, reverse=plan.is_descending, first=first
        )
        if plan.order is Order.KEY and not span.is_point:
            entries: list[Entry] = []
            for chunk in chunks:
                entries += chunk
                if len(entries) > MOST_SORTED:
                    return None
            entries.sort(key=_primary_of, reverse=plan.is_descending)
            return _cut_up(entries)
        if plan.order is Order.COLUMN and run.kind in CUT:
            return self._with_sorted_runs(chunks, index, plan.is_descending)
        return chunks

    def _find_by_entries(self, run: PlanRun, chunks: Iterable[Sequence[Entry]], skip: int) -> Iterator[Found]:
        plan, table = run.plan, self._table
        if not self._state.is_clean(table):
            return _without(((False, raws) for raws in self._fetch(chunks)), skip)
        if skip:
            chunks = (chunk for _, chunk in _without(((True, chunk) for chunk in chunks), skip))
        if plan.is_index_only:
            return self._entries_or_records(chunks, run.kind in CUT)
        return ((False, raws) for raws in self._fetch(chunks))

    def _fetch(self, chunks: Iterable[Sequence[Entry]]) -> Iterator[list[bytes]]:
        for chunk in chunks:
            yield from fetched_chunks(self._table, self._txn, [primary for _, primary in chunk], self._state.now_ms)

    def _entries_or_records(self, chunks: Iterable[Sequence[Entry]], may_be_cut: bool) -> Iterator[Found]:
        for chunk in chunks:
            if has_hashed(chunk) or (may_be_cut and has_cut(chunk)):
                for raws in self._fetch((chunk,)):
                    yield False, raws
            else:
                yield True, chunk

    # -- order

    def _gives_order(self, run: PlanRun) -> bool:
        """Whether the way still gives the order that was promised when the statement was prepared."""
        plan, table = run.plan, self._table
        if plan.order is Order.ANY:
            return True
        if plan.order is Order.COLUMN and run.index is not None and not self._state.is_ready(table, run.index):
            return False
        return self._state.has_plain_keys(table)

    def _sorted(self, run: PlanRun) -> Iterator[list[bytes]]:
        """All records, sorted here."""
        table, plan = self._table, run.plan
        value_of = value_reader(run.index) if plan.order is Order.COLUMN and run.index is not None else lambda raw: None
        found = []
        for raws in self._scan(False):
            for raw in raws:
                key = table.key_of(raw)
                found.append((sort_place(sql_value(value_of(raw))), sort_place(sql_value(key)), storage_key(encode_key(key))))
        found.sort(reverse=plan.is_descending)
        return fetched_chunks(table, self._txn, [stored for _, _, stored in found], self._state.now_ms)

    def _with_sorted_runs(self, chunks: Iterable[Sequence[Entry]], index: Index, descending: bool) -> Iterator[Sequence[Entry]]:
        """The entries with those in the order of their values that have the same part of it as key."""
        run: list[Entry] = []
        for chunk in chunks:
            if not run and not has_cut(chunk):
                yield chunk
                continue
            found: list[Entry] = []
            for entry in chunk:
                if run and entry[0] != run[0][0]:
                    found += self._sorted_run(run, index, descending)
                    run = []
                (run if is_cut(entry[0]) else found).append(entry)
            yield found
        yield self._sorted_run(run, index, descending)

    def _sorted_run(self, run: Sequence[Entry], index: Index, descending: bool) -> list[Entry]:
        value_of, key_of = value_reader(index), self._table.key_of
        found = [(value_of(raw), storage_key(encode_key(key_of(raw)))) for raws in self._fetch((run,)) for raw in raws]
        return [(run[0][0], stored) for _, stored in sorted(found, reverse=descending)]


def _primary_of(entry: Entry) -> bytes:
    return entry[1]


def _cut_up(entries: Sequence[Entry]) -> Iterator[Sequence[Entry]]:
    return (entries[start : start + MOST] for start in range(0, len(entries), MOST))


def _only_seen(found: Iterable[Found], seen: SeenRecords) -> Iterator[Found]:
    """Of records: a plan of what is narrowed reads no entries alone."""
    for is_entries, raws in found:
        assert not is_entries
        yield False, seen.of(raws)


def _tested(found: Iterable[Found], test: Callable[[Sequence[Any], bool], list[Any]]) -> Iterator[Found]:
    return ((is_entries, test(elements, is_entries)) for is_entries, elements in found)


def _without(found: Iterable[Found], skip: int) -> Iterator[Found]:
    """What is found behind the first `skip`."""
    for is_entries, elements in found:
        if skip < len(elements):
            yield is_entries, elements[skip:] if skip else elements
        skip = max(0, skip - len(elements))


def _whole(value: Any) -> int:
    """Of LIMIT and OFFSET, which SQLite has tested; 0 for what means nothing to it."""
    try:
        return max(0, int(value))
    except (TypeError, ValueError):
        return max(0, int(float(value))) if type(value) is str else 0
