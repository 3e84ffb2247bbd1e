"""Runs a plan on a transaction, a slice at a time (spec: query §11.4-§11.7, §11.13).

    source -> filter -> [collect and sort] -> offset, limit -> shape

A plan is compiled once (`compiled_plan`). What an execution has looked up in other tables is in its `Lookups`.

`RecordRows` is what a caller holds. `step` does a bounded piece of work and may find nothing; between two steps the caller may look at the
clock, serve others, wait for room in an output buffer. Work that reads other tables is in progress over steps (`relations.SteppedFunction`). Memory grows
with the result only where it must be sorted, and then a limit bounds it too, and the budget of the execution (`budget`).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from svc.errors import QueryTooLarge
from svc.query.budget import PAIR_BYTES, Budget
from svc.query.compiled_plan import CompiledPlan, compiled_plan
from svc.query.cursor import encode_cursor
from svc.query.plan import (
    Plan,
)
from svc.query.relations import Lookups
from svc.query.seek import plan_behind
from svc.query.sorting import RUN, Collector
from svc.query.sources import (
    EmptySource,
    Pair,
    RowSource,
)
from svc.query.steps import SteppedFunction, Steps, in_steps

SLICE = 256  # entries looked at in one step, 1-2 ms when each is decoded
FIRST_SLICE = 32  # the first step of a filtered plan: most queries with a limit are answered by it
FEWEST = 8  # the first step of a plan with relationships to many: each entry may have to look up very many records
MOST_RESTARTS = 3  # of what has to be found as a whole, each on another snapshot
MANY_RELATED = 1024  # related records in one step, after which the next one is shorter
_NO_ROWS = EmptySource()
_GIVEN_UP = EmptySource(done=False)  # there are more rows, in another snapshot


class RecordRows:
    """One execution of a plan. What it returns: raw records, or selected values if the plan selects."""

    __slots__ = (
        "_before",
        "_budget",
        "_collected",
        "_collected_bytes",
        "_collecting",
        "_collector",
        "_compiled",
        "_examined",
        "_held",
        "_held_before",
        "_is_found",
        "_json",
        "_last",
        "_lookups",
        "_moved",
        "_next",
        "_plan",
        "_preparation",
        "_restarts",
        "_seen",
        "_shaped",
        "_shaping",
        "_skip",
        "_slice",
        "_source",
        "_testing",
        "_under_test",
        "_unshaped",
        "_wanted",
        "done",
        "is_costly",
        "joins",
        "keeps_rows",
    )

    def __init__(self, plan: Plan, txn: Any, *, json: bool = False) -> None:
        compiled = compiled_plan(plan, json)
        self._plan = plan
        self._compiled = compiled
        self._budget = Budget()
        self._lookups = lookups = Lookups(txn, self._budget)
        self._source = compiled.start(lookups)
        self._held: list[Pair] = []  # found and not yet returned, from `_next` on
        self._next = 0
        self._skip = plan.offset
        self._wanted = plan.limit  # rows still to return, None: all
        self._last: Pair | None = None  # the last row of the page
        self._seen: Pair | None = None  # the last record that was found and tested
        self._under_test: Pair | None = None  # the last one of the batch that is being tested
        self._moved: Pair | bool | None = False  # the same at the last `move`
        self._json = json
        self._examined = 0  # before the last `move`
        self._restarts = 0
        self._collector: Collector | None = None
        if compiled.sort_keys is not None:
            self._collector = self._new_collector()
        self._collected = self._collected_bytes = 0
        self._testing: Steps[list[Pair]] | None = None  # a filter at work
        self._collecting: Steps[tuple[list[bytes], list[Pair]]] | None = None  # a filter and sort keys at work
        self._shaping: Steps[list[Any]] | None = None  # the selection at work
        self._unshaped: list[Pair] = []  # found, for which it is
        self._slice = self._shaped = FEWEST if compiled.joins_many else FIRST_SLICE
        self._preparation: Iterator[None] | None = None
        if compiled.scanned:
            self._preparation = lookups.preparation(compiled.scanned)
        self.done = self._is_found = plan.limit == 0  # nothing is left to find
        self.joins = compiled.shape_joins
        self.is_costly = compiled.joins or compiled.sort_keys is not None
        self._before = self._held_before = 0  # related records, and bytes, when the selection began
        self.keeps_rows = False  # the caller holds the rows of all steps

    def _new_collector(self) -> Collector:
        plan = self._plan
        # One more than the page, to know whether there is another one.
        return Collector(None if plan.limit is None else plan.offset + plan.limit + 1)

    @property
    def examined(self) -> int:
        """Index entries and records looked at so far, those of other tables included."""
        return self._examined + self._source.examined + self._lookups.examined

    def step(self, max_rows: int) -> list[Any]:
        """Look at up to SLICE entries and return up to `max_rows` rows, maybe none; `done` tells whether more can come."""
        shape = self._compiled.shape
        if shape is None:
            return [raw for _, raw in self.step_pairs(max_rows)]
        lookups = self._lookups
        if not self._compiled.shape_joins:
            pairs = self.step_pairs(max_rows)
            return shape([raw for _, raw in pairs], lookups) if pairs else []
        rows = self._step_shaping(max_rows)
        self.done = self._is_found and not self._unshaped
        return rows

    def _step_shaping(self, max_rows: int) -> list[Any]:
        """A step of a selection that looks at other tables. What is found is shaped over as many steps as it takes."""
        lookups, shape = self._lookups, self._compiled.shape
        shaping = self._shaping
        if shaping is None:
            if not self._unshaped:
                self._unshaped = self.step_pairs(min(max_rows, self._shaped))
                if not self._unshaped:
                    return []
            self._end_batch()
            self._held_before = self._budget.held
            pairs = self._unshaped[: self._shaped]
            shaping = in_steps(shape, [raw for _, raw in pairs], lookups)  # type: ignore[arg-type]
            self._before = lookups.examined
        try:
            next(shaping)
        except StopIteration as ready:
            rows: list[Any] = ready.value
        except QueryTooLarge as error:
            self._shaping = None
            if error.budget != "bytes" or self._shaped == 1 or len(self._unshaped) == 1:
                raise
            self._shaped = 1  # each row alone may be small enough
            self._budget.end_batch(self._held_before)
            return []
        else:
            self._shaping = shaping
            return []
        self._shaping = None
        self._shaped = _adapted(self._shaped, lookups.examined - self._before)
        del self._unshaped[: len(rows)]
        if lookups.has_weights:
            self._budget.returned(sum(map(lookups.weight, rows)) - len(rows))
        return rows

    def _end_batch(self) -> None:
        if not self.keeps_rows:
            self._budget.end_batch()
            self._lookups.forget_weights()

    @property
    def has_weights(self) -> bool:
        """Whether any of them weighs more than one."""
        return self._lookups.has_weights

    def weight(self, value: object) -> int:
        """The number of records that a row of the last step, or a value in it, shows."""
        return self._lookups.weight(value)

    def step_pairs(self, max_rows: int) -> list[Pair]:
        """The same as `step`, but (stored primary key, raw record) whatever the plan selects: for deletes."""
        wanted = self._wanted
        count = max_rows if wanted is None or wanted > max_rows else wanted
        if self._next >= len(self._held) and not self._is_found:
            self._find(count)
        held, start = self._held, self._next
        end = start + count
        if start == 0 and len(held) <= count:
            found = held
            self._held = []
        else:
            found = held[start:end]
            self._next = end
            if end >= len(held):
                self._held, self._next = [], 0
        if wanted is not None and found:
            self._wanted = wanted = wanted - len(found)
            self._last = found[-1]
            if not wanted:
                self.done = self._is_found = True
                return found
        if self._source.done and not self._held and self._collector is None and self._testing is None:
            self.done = self._is_found = True
        return found

    def let_go(self) -> None:
        """The snapshot was given up: keep nothing that refers to it. `move` goes on with another one."""
        source = self._source
        is_found = source.done and self._preparation is None and self._testing is None and self._collecting is None
        self._examined += source.examined
        if source.remembers:
            source.free()
        self._source = _NO_ROWS if is_found else _GIVEN_UP
        self._testing = self._collecting = self._shaping = self._preparation = None  # what these were at is found, or shaped, again
        self._lookups.let_go()

    def move(self, txn: Any) -> bool:
        """Go on with another snapshot, behind the last record that was dealt with. False if the source has no order in which that has a place, if what
        was looked up in other tables cannot be again, if nothing was found since the last time, or if a sort has begun again too often."""
        plan, compiled, seen = self._plan, self._compiled, self._seen
        self.let_go()
        lookups = Lookups(txn, self._budget)
        if self._source is _NO_ROWS:  # what is left is in memory
            if compiled.scanned:
                return False
            source: RowSource = _NO_ROWS
        elif self._collector is not None:  # nothing was returned so far
            if self._restarts == MOST_RESTARTS:
                return False
            self._restarts += 1
            self._collector.free()
            self._budget.replace_kept(self._kept_bytes(), 0)
            self._collector = self._new_collector()
            self._collected = self._collected_bytes = 0
            source = compiled.start(lookups)
        else:
            if seen is self._moved:
                return False
            if seen is not None:
                position = None if plan.order is None else compiled.position(plan.order, seen, lookups)
                rest = None if position is None else plan_behind(plan, position)
                if rest is None:
                    return False
                compiled = compiled_plan(rest, self._json)
            source = compiled.start(lookups)
        self._examined += self._lookups.examined
        self._lookups.close()
        self._compiled, self._lookups, self._source, self._moved = compiled, lookups, source, seen
        self._preparation = lookups.preparation(compiled.scanned) if compiled.scanned else None
        return True

    def next_cursor(self) -> str | None:
        """After the last row of a page: the cursor of the next page. None if there is nothing behind it, if the order has no cursors, or
        if it would be too long. Looks at up to a slice of entries; where all of these do not match, there may be nothing after all."""
        plan = self._plan
        if plan.order is None or self._last is None or self._wanted or not self._has_more():
            return None
        position = self._compiled.position(plan.order, self._last, self._lookups)
        position.before = plan.before + plan.offset + (plan.limit or 0)
        return encode_cursor(plan.table.name, plan.order, position)

    def close(self) -> None:
        """Release the store's iterators. May be called more than once."""
        self.done = self._is_found = True
        self._unshaped = []
        self._testing = self._collecting = self._shaping = None
        if self._source.remembers:
            self._source.free()
        self._source = _NO_ROWS
        self._lookups.close()
        self._held, self._next = [], 0
        if self._collector is not None:
            self._collector.free()
            self._collector = None
        self._preparation = None
        self._last = None

    def _has_more(self) -> bool:
        if self._held:
            return True
        looked, related = self._source.examined, self._lookups.examined
        while not self._source.done or self._collector is not None or self._testing is not None:
            self._find(1)
            if self._held:
                return True
            if self._source.examined - looked >= SLICE or self._lookups.examined - related >= MANY_RELATED:
                return True
        return False

    def _find(self, count: int) -> None:
        """Fill `_held` with what the next slice finds."""
        compiled, lookups, source = self._compiled, self._lookups, self._source
        if self._preparation is not None:
            if next(self._preparation, lookups) is lookups:
                self._preparation = None
            return
        collector = self._collector
        if collector is not None:
            self._collect(collector, count)
            return
        test = compiled.test
        if test is None:
            pairs = source.take(min(count + self._skip, SLICE))
            if pairs:
                self._seen = pairs[-1]
        elif type(test) is SteppedFunction:
            testing = self._testing
            if testing is None:
                self._end_batch()
                self._before = lookups.examined
                pairs = source.take(self._slice)
                if pairs:
                    self._under_test = pairs[-1]
                testing = test.steps(pairs, lookups)
            try:
                next(testing)
            except StopIteration as ready:
                pairs = ready.value
                self._testing = None
                self._seen = self._under_test
            else:
                self._testing = testing
                return
            self._slice = _adapted(self._slice, lookups.examined - self._before)
        else:
            pairs = source.take(self._slice)
            if pairs:
                self._seen = pairs[-1]
            pairs = test(pairs, lookups)
            self._slice = SLICE
        if self._skip:
            skipped = min(self._skip, len(pairs))
            self._skip -= skipped
            del pairs[:skipped]
        self._held, self._next = pairs, 0

    def _collect(self, collector: Collector, count: int) -> None:
        """Take in what the next slice finds; when all is there, fill `_held` with the next rows in order."""
        compiled, lookups, source = self._compiled, self._lookups, self._source
        if collector.busy:
            collector.work()
            return
        if not source.done or self._collecting is not None:
            collecting = self._collecting
            if collecting is None:
                self._end_batch()
                self._before = lookups.examined
                pairs = source.take(self._slice if compiled.joins else SLICE)
                collecting = _keyed(compiled, pairs, lookups)
            try:
                next(collecting)
            except StopIteration as ready:
                keys, pairs = ready.value
                self._collecting = None
            else:
                self._collecting = collecting
                return
            entries = list(zip(keys, pairs, strict=True))
            floor = compiled.floor
            if floor is not None:
                entries = [entry for entry in entries if entry[0] > floor]
            self._count_collected(entries)
            collector.add(entries)
            self._slice = _adapted(self._slice, lookups.examined - self._before)
            if collector.busy or not source.done:
                return
        wanted = min(count + self._skip, SLICE)
        pairs = collector.take(wanted)
        if len(pairs) < wanted:
            self._collector = None
        skipped = min(self._skip, len(pairs))
        self._skip -= skipped
        self._held, self._next = pairs[skipped:], 0

    def _count_collected(self, entries: list[tuple[bytes, Pair]]) -> None:
        """The collector holds these: all, or with a limit about twice as many as are wanted."""
        before = self._kept_bytes()
        self._collected += len(entries)
        self._collected_bytes += sum([len(key) + len(pair[1]) for key, pair in entries]) + PAIR_BYTES * len(entries)
        self._budget.replace_kept(before, self._kept_bytes())

    def _kept_bytes(self) -> int:
        plan = self._plan
        if plan.limit is None or not self._collected:
            return self._collected_bytes
        most = 2 * (plan.offset + plan.limit + 1) + RUN
        return self._collected_bytes * min(most, self._collected) // self._collected


def _keyed(compiled: CompiledPlan, pairs: list[Pair], lookups: Lookups) -> Steps[tuple[list[bytes], list[Pair]]]:
    """What passes the filter, and what to sort it by."""
    if compiled.test is not None:
        pairs = yield from in_steps(compiled.test, pairs, lookups)
    assert compiled.sort_keys is not None
    return (yield from in_steps(compiled.sort_keys, pairs, lookups)), pairs


def _adapted(size: int, related: int) -> int:
    """The size of the next step after one that looked up so many related records."""
    if related > MANY_RELATED:
        return max(size // 2, 1)
    return SLICE if not related else min(size * 2, SLICE)
