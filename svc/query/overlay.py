"""A query over a snapshot and what a transaction has written since, and not yet committed (spec: schema-and-store §8).

The plan runs on the snapshot, without the records that were written; of these, the ones that match are put in their place in the order; where that
is the order of an index, behind the others. Related records are
those of the snapshot.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping
from dataclasses import replace
from typing import Any

from svc.errors import ClientError
from svc.query.budget import Budget
from svc.query.compiled_plan import sort_keys_for
from svc.query.executor import RecordRows
from svc.query.functions import filter_of
from svc.query.links import Links
from svc.query.nodes import Query
from svc.query.plan import IndexRange, KeyLookup, KeyRange
from svc.query.planner import plan_query
from svc.query.relations import Lookups
from svc.query.resolve import resolve_where
from svc.query.select import compile_select
from svc.query.steps import Steps, in_steps

STEP = 128  # rows between two polls of the clock

Pair = tuple[bytes, bytes]


def overlaid_rows(
    query: Query, table: Any, txn: Any, written: Mapping[bytes, bytes | None], *, allow_full_scan: bool | None
) -> Iterator[list[Any]]:
    """The rows of `query` in batches, which may be empty: raw records, or what it selects.

    `written`: stored key -> the record as it would be, None if it is deleted. Raises QueryError; ClientError for a query that counts
    or groups, or has a cursor.
    """
    if query.aggregate is not None or query.after is not None:
        what = "counts or groups" if query.aggregate is not None else "goes on behind a cursor"
        raise ClientError(f"A search that {what} does not see what its transaction has written to {table.name}: commit that first")
    lookups = Lookups(txn, Budget())
    matching: list[Pair] = yield from _with_pauses(_matching(query, table, written, lookups))
    end = None if query.limit is None else query.offset + query.limit
    inner = replace(query, select=None, offset=0, limit=None if end is None else end + len(written))
    pairs = _in_order(query, table, txn, inner, matching, written, lookups, allow_full_scan)
    shape = None
    if query.select is not None:
        links = Links()
        shape = compile_select(query.select, table, links, json=False)
        yield from _with_pauses(_prepared(links, lookups))

    def shaped(raws: list[bytes]) -> Generator[list[Any], None, list[Any]]:
        if shape is None:
            return raws
        rows: list[Any] = yield from _with_pauses(in_steps(shape, raws, lookups))
        return rows

    skipped = 0
    batch: list[bytes] = []
    left = query.limit
    for pair in pairs:
        if pair is None:
            yield []
            continue
        if skipped < query.offset:
            skipped += 1
            continue
        if left is not None:
            if not left:
                break
            left -= 1
        batch.append(pair[1])
        if len(batch) >= STEP:
            yield (yield from shaped(batch))
            batch = []
    if batch:
        yield (yield from shaped(batch))


def _matching(query: Query, table: Any, written: Mapping[bytes, bytes | None], lookups: Lookups) -> Steps[list[Pair]]:
    """The written records that the query finds."""
    found = [(key, raw) for key, raw in written.items() if raw is not None]
    if query.where is None or not found:
        return found
    links = Links()
    test = filter_of(resolve_where(query.where, table), table, links)
    yield from _prepared(links, lookups)
    matching: list[Pair] = []
    for at in range(0, len(found), STEP):
        matching += yield from in_steps(test, found[at : at + STEP], lookups)
        yield
    return matching


def _prepared(links: Links, lookups: Lookups) -> Steps[None]:
    """Read the tables that have to be read as a whole."""
    scanned = [link for link in links if link.scans]
    if scanned:
        yield from lookups.preparation(scanned)


def _with_pauses(steps: Steps[Any]) -> Generator[list[Any], None, Any]:
    """A pause of `steps` is an empty batch."""
    while True:
        try:
            next(steps)
        except StopIteration as done:
            return done.value
        yield []


def _in_order(
    query: Query,
    table: Any,
    txn: Any,
    inner: Query,
    matching: list[Pair],
    written: Mapping[bytes, bytes | None],
    lookups: Lookups,
    allow_full_scan: bool | None,
) -> Iterator[Pair | None]:
    """All pairs in the order of the query; None between two pieces of work."""
    plan = plan_query(inner, table, txn, allow_full_scan=allow_full_scan)
    run = RecordRows(plan, txn)
    unchanged = _unchanged(run, written)
    access = plan.access
    by_key = isinstance(access, KeyRange | KeyLookup) or (isinstance(access, IndexRange) and access.single)
    if not query.sort and not by_key:  # the order of an index
        yield from unchanged
        yield from sorted(matching)
        return
    keys_of: Callable[[list[Pair], Lookups], list[Any]] = _stored_keys
    if query.sort:
        keys_of, links = sort_keys_for(query.sort, table)
        for _ in _prepared(links, lookups):
            yield None
    own = sorted(zip(keys_of(matching, lookups), matching, strict=True))

    def keyed() -> Iterator[tuple[bytes, Pair] | None]:
        for pair in unchanged:
            yield None if pair is None else (keys_of([pair], lookups)[0], pair)

    waiting = iter(own)
    following = next(waiting, None)
    for each in keyed():
        if each is None:
            yield None
            continue
        while following is not None and following[0] < each[0]:
            yield following[1]
            following = next(waiting, None)
        yield each[1]
    while following is not None:
        yield following[1]
        following = next(waiting, None)


def _stored_keys(pairs: list[Pair], lookups: Lookups) -> list[bytes]:
    return [key for key, _ in pairs]


def _unchanged(run: RecordRows, written: Mapping[bytes, bytes | None]) -> Iterator[Pair | None]:
    try:
        while not run.done:
            for pair in run.step_pairs(STEP):
                if pair[0] not in written:
                    yield pair
            yield None
    finally:
        run.close()
