"""Results of aggregates: the query is run again when a record has changed that it may count, and the rows are compared.

A run costs as much as the aggregate without `live()`, so there is not one for each change: changes in the meantime are sent together. Rows are identified
by the values that they are grouped by.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

from svc.query.execution import execute
from svc.query.grouping import json_form
from svc.query.relations import Lookups
from svc.realtime.live.events import ListSnapshot, RowEvent, Snapshot, read_payload
from svc.realtime.live.list_diff import diff_sequences
from svc.realtime.live.query_spec import LiveQuerySpec
from svc.realtime.live.recomputed_result import TOO_MANY_CHANGES, RecomputedResult
from svc.realtime.live.record_change import RecordChange
from svc.realtime.live.result import ResultOwner
from svc.realtime.live.subscription import LiveSubscription
from svc.store.values.records import encode_payload

MAX_ROWS = 4096
MAX_CHANGES = 512  # of one run: with more of them clients are reset, which is also less to send
STEP = 128  # rows


class AggregateResult(RecomputedResult):
    """The rows of an aggregate."""

    def __init__(self, owner: ResultOwner, spec: LiveQuerySpec, key: Any) -> None:
        super().__init__(owner, spec, key)
        self._rows: dict[bytes, tuple[Any, bytes]] = {}  # encoded values it is grouped by -> (id, payload), in order

    @property
    def size(self) -> int:
        return len(self._rows)

    def record_changed(self, change: RecordChange) -> None:
        if self.needs_run:
            return
        test = self.spec.test
        if test is not None and change.is_known and change.ended is None and not self.spec.chains:
            pairs = [(change.stored, raw) for raw in (change.before, change.after) if raw is not None]
            if not test(pairs, Lookups(None)):
                return
        self.needs_run = True

    def related_changed(self, stored: list[bytes] | None) -> None:
        self.needs_run = True

    def _update_steps(self) -> Generator[None, None, None]:
        owner = self.owner
        began = owner.now()
        self.needs_run = False
        position = owner.position(self.table.database)
        held = owner.store.snapshots.hold(self.table.database, fresh=True)
        rows: dict[bytes, tuple[Any, bytes]] = {}
        try:
            run = execute(self.spec.plan, held.use())
            held.on_lost = run.let_go
            while not run.done:
                held.use()
                if self.is_closed:
                    return
                for row in run.step(STEP):
                    values = [row[name] for name in self.spec.aggregate_keys]
                    identity = encode_payload(values)
                    while identity in rows:  # different values that are shown alike
                        identity += b"+"
                    rows[identity] = (self._id(values), encode_payload(row))
                if len(rows) > MAX_ROWS:
                    self._reject(f"A live aggregate may have at most {MAX_ROWS} rows: add conditions, a limit, or group by less")
                    return
                yield
        finally:
            held.abort()
        self.position = max(self.position, position)
        if self.is_known:
            self._add_changes(rows)
        self._rows = rows
        self.is_known = True
        self.set_next_run(began)

    def _id(self, values: list[Any]) -> Any:
        aggregate = self.spec.query.aggregate
        assert aggregate is not None
        if not values:
            return None
        return json_form(values[0] if aggregate.kind == "facet" else values)

    def _add_changes(self, rows: dict[bytes, tuple[Any, bytes]]) -> None:
        old = self._rows
        is_changed = {key for key, row in rows.items() if key in old and old[key][1] != row[1]}
        if not is_changed and list(old) == list(rows):
            return
        self._shared = None
        changes = diff_sequences(list(old), list(rows), is_changed.__contains__, MAX_CHANGES)
        if changes is None:
            self.reset(TOO_MANY_CHANGES)
            return
        for change in changes:
            id_, content = rows.get(change.key) or old[change.key]
            at = change.at if self.spec.has_index else None
            self._pending.append(
                RowEvent(change.type, id_, None if change.type == "leave" else content, read_payload, at, self.position, change.was_at)
            )

    def _start_snapshot(self, subscription: LiveSubscription) -> Snapshot | None:
        if self._shared is None:
            in_order = self.spec.has_index
            self._shared = [
                RowEvent("snapshot", id_, content, read_payload, at if in_order else None, None)
                for at, (id_, content) in enumerate(self._rows.values())
            ]
        self.attach(subscription, self.position, -1)
        return ListSnapshot(self._shared)
