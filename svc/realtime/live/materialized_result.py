"""Materialized results: the keys of their rows are kept and, if the rows have an order, their sort positions.

Of each row only a hash of what clients were shown is kept, so a change that shows nothing makes no event. A record is rechecked when it has changed, or
when a related record has; its content is then read from the newest commit, so however late or often it is rechecked, the result becomes what the query
finds.

Of an order with a limit a *prefix* is known: all rows up to a `boundary`, more than the client sees. Rows behind the boundary enter and leave without
an event. When so many have left that the window cannot be filled, the query is run again, up to that many rows. Without a limit everything is known and
there is no boundary.

A result whose relationships cannot be followed backwards (`query_spec.RECOMPUTED`) is always run again, though not at once with every change, and its
rows are kept with their content, because the store is ahead of the result.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Generator, Iterable, Mapping
from typing import Any

from svc.query.execution import execute
from svc.query.relations import Lookups
from svc.query.sources import Pair
from svc.realtime.live.events import (
    ListSnapshot,
    MaterializedSnapshot,
    Read,
    RowEvent,
    Snapshot,
    id_of,
    read_payload,
    read_record,
    shown_key,
)
from svc.realtime.live.list_diff import RowChange, SortPosition, diff, insert_row, move_row, remove_row
from svc.realtime.live.query_spec import RECOMPUTED, LiveQuerySpec
from svc.realtime.live.recomputed_result import TOO_MANY_CHANGES, RecomputedResult
from svc.realtime.live.record_change import RecordChange
from svc.realtime.live.result import LiveResult, ResultOwner, content_of
from svc.realtime.live.subscription import LiveSubscription
from svc.store.env import Txn
from svc.store.values.keys import is_hashed
from svc.store.values.records import encode_payload, expiry_of

MAX_ROW_KEYS = 100_000  # rows of one result whose keys are kept
MAX_ROWS_WITH_CONTENT = 10_000  # ... with their content
MAX_CONTENT_BYTES = 16 << 20
MAX_COMPARED = 10_000  # rows of a result that was run again: comparing more takes too long, so their clients are reset
RECORDS_PER_STEP = 64  # records rechecked in one step
ROWS_PER_STEP = 128  # rows of a run taken in one step
SHARED_ROWS = 256  # of a snapshot that is made at once, for all subscriptions that begin within SHARED_SECONDS
SHARED_SECONDS = 1.0

UNKNOWN = 0  # instead of a hash


class MaterializedResult(RecomputedResult):
    """Records, with an order or without."""

    def __init__(self, owner: ResultOwner, spec: LiveQuerySpec, key: Any) -> None:
        super().__init__(owner, spec, key)
        self._is_recomputed = spec.mode == RECOMPUTED
        self._in_order = spec.sort_keys is not None
        self._is_window = spec.end is not None or spec.offset > 0
        self._rows: dict[bytes, int] = {}  # stored key -> hash of what is shown, of the rows that clients have
        self._view: list[SortPosition] = []  # the same in order
        self._known: list[SortPosition] = self._view  # all positions up to the boundary
        self._position_of: dict[bytes, SortPosition] = {}  # of `_known`
        self._boundary: SortPosition | None = None
        self._ids: dict[bytes, Any] = {}  # of rows with hashed stored keys
        self._contents: dict[bytes, bytes] = {}  # only with `_is_recomputed`
        self._dirty: dict[bytes, None] = {}
        self._read: Read = read_record if spec.shape is None else read_payload

    @property
    def size(self) -> int:
        return max(len(self._rows), len(self._position_of))

    @property
    def has_work(self) -> bool:
        return self.needs_run or bool(self._dirty)

    # -- notifications

    def record_changed(self, change: RecordChange) -> None:
        if not self._is_recomputed:
            self._dirty[change.stored] = None
        elif not self.needs_run and self._may_concern(change):
            self.needs_run = True

    def related_changed(self, stored: list[bytes] | None) -> None:
        if stored is None or self._is_recomputed:
            self.needs_run = True
        else:
            self._dirty.update(dict.fromkeys(stored))

    def invalidate(self) -> None:
        self.needs_run = True
        self._dirty.clear()

    def end_commit(self, lsn: int) -> None:
        if not self.spec.is_fixed and not self.is_running:
            self.follow_viewer()
            if self.is_closed:
                return
        if self.is_known and not self.needs_run and not self.is_running and len(self._dirty) <= RECORDS_PER_STEP:
            self.position = max(self.position, lsn)
            if self._dirty:
                self._recheck_records()
                if not self.needs_run:
                    LiveResult.end_commit(self, lsn)
                    return
        super().end_commit(lsn)

    def _may_concern(self, change: RecordChange) -> bool:
        test = self.spec.test
        if test is None or not change.is_known or change.ended is not None:
            return True
        pairs = [(change.stored, raw) for raw in (change.before, change.after) if raw is not None]
        return bool(test(pairs, Lookups(None)))

    # -- rechecking records

    def _update_steps(self) -> Generator[None, None, None]:
        if self.needs_run:
            yield from self._run()
        elif self._dirty:
            self._recheck_records()
            yield

    def _recheck_records(self) -> None:
        """Compare some of the dirty records with what clients were shown."""
        keys = list(self._dirty)[:RECORDS_PER_STEP]
        for key in keys:
            del self._dirty[key]
        with self.owner.newest(self.table.database) as txn:
            lookups = Lookups(txn)
            pairs = self.table.get_many(keys, txn)
            if self.spec.test is not None:
                pairs = self.spec.test(pairs, lookups)
            if not self._in_order:
                self._update_rows(keys, self._contents_of(pairs, lookups), dict(pairs))
                return
            assert self.spec.sort_keys is not None
            positions = {pair[0]: (code, pair[0]) for code, pair in zip(self.spec.sort_keys(pairs, lookups), pairs, strict=True)}
            if self._is_window:
                self._update_window(keys, positions, dict(pairs), lookups)
            else:
                self._update_order(keys, positions, self._contents_of(pairs, lookups), dict(pairs))

    def _update_rows(self, keys: list[bytes], contents: Mapping[bytes, bytes], raws: Mapping[bytes, bytes]) -> None:
        rows = self._rows
        for key in keys:
            content = contents.get(key)
            old = rows.get(key)
            if content is None:
                if old is not None:
                    self._add_event("leave", key)
                continue
            digest = rows[key] = self._digest(content)
            if digest != old:
                self._add_event("enter" if old is None else "update", key, content, raw=raws[key])

    def _update_order(
        self, keys: list[bytes], positions: Mapping[bytes, SortPosition], contents: Mapping[bytes, bytes], raws: Mapping[bytes, bytes]
    ) -> None:
        rows, view = self._rows, self._view
        for key in keys:
            old, new = self._position_of.get(key), positions.get(key)
            if new is None:
                if old is not None:
                    del self._position_of[key]
                    self._add_change(remove_row(view, old), None, None)
                continue
            self._position_of[key] = new
            digest = self._digest(contents[key])
            if old is None:
                change = insert_row(view, new)
            else:
                change = move_row(view, old, new)
                if change.at == change.was_at and rows[key] == digest:
                    continue
            rows[key] = digest
            self._add_change(change, contents[key], raws[key])

    def _update_window(
        self, keys: list[bytes], positions: Mapping[bytes, SortPosition], raws: Mapping[bytes, bytes], lookups: Lookups
    ) -> None:
        """Bring the known beginning up to date, then the window in it."""
        known, position_of, boundary = self._known, self._position_of, self._boundary
        for key in keys:
            old = position_of.pop(key, None)
            if old is not None:
                del known[bisect_left(known, old)]
        for key, position in positions.items():
            if boundary is None or position <= boundary:
                insort(known, position)
                position_of[key] = position
        keep = self.spec.keep
        if keep is not None and len(known) > 2 * keep:
            for _, key in known[keep:]:
                del position_of[key]
            del known[keep:]
            self._boundary = known[-1] if known else None
        rechecked = set(keys)
        found = dict(raws)
        while True:
            if self._boundary is not None and len(known) < (self.spec.end or 0):
                self.needs_run = True  # too few are known
                return
            new = known[self.spec.offset : self.spec.end]
            wanted = [key for _, key in new if (key in rechecked or key not in self._rows) and key not in found]
            more = dict(self._readable(self.table.get_many(wanted, lookups.txn), lookups)) if wanted else {}
            found.update(more)
            gone = [key for key in wanted if key not in more]  # they have expired, or the next commit has removed them
            if not gone:
                break
            for key in gone:
                del known[bisect_left(known, position_of.pop(key))]
        contents = self._contents_of([(key, found[key]) for _, key in new if key in rechecked or key not in self._rows], lookups)
        self._set_view(new, contents, found)

    def _set_view(self, new: list[SortPosition], contents: Mapping[bytes, bytes], raws: Mapping[bytes, bytes]) -> None:
        """Change the rows of the clients to `new`. `contents`, `raws`: of the rows that may have changed, or are new."""
        rows = self._rows
        digests = {key: self._digest(content) for key, content in contents.items()}
        for change in diff(self._view, new, lambda key: key in digests and rows.get(key) != digests[key]):
            if change.type == "leave":
                self._add_change(change, None, None)
                continue
            rows[change.key] = digests[change.key]  # only what was rechecked can have moved
            self._add_change(change, contents[change.key], raws[change.key])

    # -- running the query

    def _run(self) -> Generator[None, None, None]:
        """Run the query, and add events for what differs from the rows known before."""
        spec, owner = self.spec, self.owner
        began = owner.now()
        self.needs_run = False
        self._dirty.clear()
        position = owner.position(self.table.database)
        if self.is_known and len(self._rows) > MAX_COMPARED:
            self._reset_rows()
        if not self.is_known:
            self._rows, self._ids = {}, {}  # of a run that was not finished
        rows = self._rows
        most = MAX_ROWS_WITH_CONTENT if self._is_recomputed else MAX_COMPARED if spec.is_volatile else MAX_ROW_KEYS
        held = owner.store.snapshots.hold(self.table.database, fresh=True)
        positions: list[SortPosition] = []
        keys: dict[bytes, None] = {}  # of the rows that are shown
        contents: dict[bytes, bytes] = {}
        raws: dict[bytes, bytes] = {}
        size = 0
        try:
            lookups = Lookups(held.use())
            run = execute(spec.plan, held.use())

            def let_go() -> None:
                run.let_go()
                lookups.let_go()

            held.on_lost = let_go
            while not run.done:
                held.use()
                if self.is_closed:
                    return
                pairs = run.step_pairs(ROWS_PER_STEP)
                if not pairs:
                    yield
                    continue
                first = len(positions) if self._in_order else len(keys)
                if spec.sort_keys is not None:
                    positions += zip(spec.sort_keys(pairs, lookups), [key for key, _ in pairs], strict=True)
                end = len(pairs) if spec.end is None else spec.end - first
                pairs = pairs[max(spec.offset - first, 0) : max(end, 0)]
                for key, content in self._contents_of(pairs, lookups).items():
                    keys[key] = None
                    if self._is_recomputed or not self.is_known or rows.get(key) != self._digest(content) or self._in_order:
                        contents[key] = content
                        size += len(content)
                if not self.is_known and not self._is_recomputed:
                    self._remember_first_run(pairs, contents)
                    size = 0
                else:
                    raws.update(pairs)
                if len(positions) > most or len(keys) > most or size > MAX_CONTENT_BYTES:
                    if not self._is_recomputed and self.is_known and len(keys) <= most:
                        self._reset_rows()  # too much to compare
                        self.needs_run = True
                    else:
                        self._reject(f"A live query like this may have at most {most} records: add conditions, or a limit")
                    return
                yield
        finally:
            held.abort()
        if spec.keep is not None:
            self._boundary = positions[-1] if len(positions) >= spec.keep else None
        if self._in_order:
            self._position_of = {row[1]: row for row in positions}
        self._finish_run(positions, keys, contents, raws)
        self.position = max(self.position, position)
        if self._is_recomputed:
            self._contents = contents
        if self._is_recomputed or spec.is_volatile:
            self.set_next_run(began)

    def _remember_first_run(self, pairs: list[Pair], contents: dict[bytes, bytes]) -> None:
        """The first run makes no events, so only hashes are kept."""
        for key, raw in pairs:
            self._rows[key] = self._digest(contents.pop(key))
            self._remember_id(key, raw)

    def _finish_run(
        self, positions: list[SortPosition], keys: Mapping[bytes, None], contents: Mapping[bytes, bytes], raws: Mapping[bytes, bytes]
    ) -> None:
        spec = self.spec
        if not self.is_known:
            self.is_known = True
            if self._is_recomputed:
                for key, raw in raws.items():
                    self._rows[key] = self._digest(contents[key])
                    self._remember_id(key, raw)
            if self._is_window:
                self._known, self._view = positions, positions[spec.offset : spec.end]
            elif self._in_order:
                self._known = self._view = positions
            self._shared = None
            return
        if not self._in_order:
            gone = [key for key in self._rows if key not in keys]
            self._update_rows([*gone, *contents], contents, raws)
            return
        if self._is_window:
            self._known = positions
            self._set_view(positions[spec.offset : spec.end], contents, raws)
        else:
            self._set_view(positions, contents, raws)

    def _reset_rows(self) -> None:
        """Forget all rows, and reset the clients."""
        self.is_known = False
        self._rows = {}
        self._ids = {}
        self._view = []
        self._known = self._view
        self._position_of = {}
        self._boundary = None
        self.reset(TOO_MANY_CHANGES)

    # -- rows

    def _readable(self, pairs: list[Pair], lookups: Lookups) -> list[Pair]:
        """Those that rules on rows let be shown: the store may be ahead of the result."""
        spec = self.spec
        return pairs if spec.viewpoint is None or spec.test is None else spec.test(pairs, lookups)

    def _contents_of(self, pairs: list[Pair], lookups: Lookups) -> dict[bytes, bytes]:
        """The content of rows: raw records, or the payloads of what is selected."""
        shape = self.spec.shape
        if shape is None or not pairs:
            return dict(pairs)
        values = shape([raw for _, raw in pairs], lookups)
        return {key: encode_payload(value) for (key, _), value in zip(pairs, values, strict=True)}

    def _digest(self, content: bytes) -> int:
        return hash(content_of(content) if self.spec.shape is None else content) or 1

    def _add_change(self, change: RowChange, content: bytes | None, raw: bytes | None) -> None:
        self._add_event(change.type, change.key, content, raw=raw, index=change.at, was_at=change.was_at)

    def _add_event(
        self,
        type_: str,
        key: bytes,
        content: bytes | None = None,
        *,
        raw: bytes | None = None,
        index: int | None = None,
        was_at: int | None = None,
    ) -> None:
        self._shared = None
        if type_ == "enter" and raw is not None:
            self._remember_id(key, raw)
        self._pending.append(RowEvent(type_, self._id(key), content, self._read, index, self.position, was_at))
        if type_ == "leave":
            self._rows.pop(key, None)
            self._ids.pop(key, None)

    def _remember_id(self, key: bytes, raw: bytes) -> None:
        if is_hashed(key):
            self._ids[key] = shown_key(self.table.key_of(raw))

    def _id(self, key: bytes) -> Any:
        return self._ids[key] if is_hashed(key) else id_of(key)

    # -- snapshots

    def _start_snapshot(self, subscription: LiveSubscription) -> Snapshot | None:
        keys = [key for _, key in self._view] if self._in_order else list(self._rows)
        if not self._is_recomputed and len(keys) > SHARED_ROWS:
            self.attach(subscription, self.position, -1)
            held = self.owner.store.snapshots.hold(self.table.database, fresh=True)
            return MaterializedSnapshot(self.rows_at, keys, dict(self._ids), held)
        events = self._shared if self.owner.now() < self._shared_until else None
        if events is None:
            events = self._stored_snapshot(keys) if self._is_recomputed else self._snapshot_now(keys)
            if events is None:
                return None
            self._shared = events
        self.attach(subscription, self.position, -1)
        return ListSnapshot(events)

    def _stored_snapshot(self, keys: list[bytes]) -> list[RowEvent]:
        self._shared_until = float("inf")
        return [self.row(key, at, self._contents[key]) for at, key in enumerate(keys)]

    def _snapshot_now(self, keys: list[bytes]) -> list[RowEvent] | None:
        """All rows of a small result; None if some have expired, so that the result has changed."""
        with self.owner.newest(self.table.database) as txn:
            lookups = Lookups(txn)
            pairs = self._readable(self.table.get_many(keys, txn), lookups)
            if len(pairs) < len(keys):
                found = dict(pairs)
                self._dirty.update(dict.fromkeys(key for key in keys if key not in found))
                self.owner.update_next_turn(self)
                return None
            contents = self._contents_of(pairs, lookups)
        self.mark_shown(keys, contents)
        until = self.owner.now() + SHARED_SECONDS
        expiry = min([ends for _, raw in pairs if (ends := expiry_of(raw)) is not None], default=None)
        if expiry is not None:
            until = min(until, self.owner.now() + expiry / 1000 - self.owner.store.clock.wall())
        self._shared_until = until
        return [self.row(key, at, contents[key]) for at, key in enumerate(keys)]

    def row(self, key: bytes, at: int, content: bytes | None) -> RowEvent:
        return RowEvent("snapshot", self._id(key), content, self._read, at if self._in_order else None, None)

    def rows_at(self, keys: list[bytes], ids: Mapping[bytes, Any], first: int, txn: Txn) -> list[RowEvent]:
        """Rows of a snapshot. One that has expired since has no content: its `leave` follows when it is removed."""
        lookups = Lookups(txn)
        contents = self._contents_of(self._readable(self.table.get_many(keys, txn), lookups), lookups)
        self.mark_shown(keys, contents)
        found = []
        for at, key in enumerate(keys, first):
            id_ = ids[key] if is_hashed(key) else id_of(key)
            found.append(RowEvent("snapshot", id_, contents.get(key), self._read, at if self._in_order else None, None))
        return found

    def mark_shown(self, keys: Iterable[bytes], contents: Mapping[bytes, bytes]) -> None:
        """Note that a client was shown `contents`. The store may be ahead of the result, or a related record may have expired: then the row is sent
        at its next recheck, even if its content is again the same."""
        rows = self._rows
        for key in keys:
            if key in rows and (key not in contents or rows[key] != self._digest(contents[key])):
                rows[key] = UNKNOWN
