"""Results that are remembered: by the keys of their rows and, if these have an order, by their places.

Of each row is known only a hash of what clients were shown, so a change that shows nothing is not told. A record is looked at again when it has changed, or
when a record that it leads to has; what it is then is read from the newest commit, so however late or often it is looked at, the result comes to be
what the query finds.

Of an order with a limit a *beginning* is known: all rows up to a `boundary`, more than the client sees. Rows behind the boundary come and go unseen.
When so many have left that the window cannot be filled, the query is run again, up to that many rows. Without a limit everything is known and there is
no boundary.

A result whose relationships cannot be followed backwards (`asked.RECOMPUTED`) is always run again, though not at once with every change, and its rows are
kept with all they show, because what is stored is ahead of it.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Generator, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from svc.query.execution import execute
from svc.query.relations import Lookups
from svc.query.sources import Pair
from svc.realtime.live.commits import RecordChange
from svc.realtime.live.events import ListSnapshot, MaterializedSnapshot, Read, RowEvent, id_of, read_payload, read_record, shown_key
from svc.realtime.live.list_diff import Change, Place, become, enter, leave, move
from svc.realtime.live.query_spec import RECOMPUTED, LiveQuerySpec
from svc.realtime.live.recomputed_result import TOO_MANY_CHANGES, RecomputedResult
from svc.realtime.live.result import LiveResult, content_of
from svc.realtime.live.subscription import LiveSubscription, Snapshot
from svc.store.env import Txn
from svc.store.values.keys import is_hashed
from svc.store.values.records import encode_payload, expiry_of

if TYPE_CHECKING:
    from svc.realtime.live.queries import LiveQueries

MAX_ROW_KEYS = 100_000  # rows of one result whose keys are kept
MAX_ROWS_WITH_CONTENT = 10_000  # ... with all they show
MAX_CONTENT_BYTES = 16 << 20
MAX_COMPARED = 10_000  # rows of a result that was run again: comparing more takes too long, so their clients begin anew
RECORDS_PER_STEP = 64  # records that are looked at in one step
ROWS_PER_STEP = 128  # rows of a run that are taken in one step
SHARED_ROWS = 256  # of a snapshot that is made at once, for all who begin within SHARED_SECONDS
SHARED_SECONDS = 1.0

UNKNOWN = 0  # in place of a hash


class MaterializedResult(RecomputedResult):
    """Records, in an order or without."""

    def __init__(self, owner: LiveQueries, asked: LiveQuerySpec, key: Any) -> None:
        super().__init__(owner, asked, key)
        self._is_run = asked.mode == RECOMPUTED
        self._in_order = asked.sort_keys is not None
        self._is_window = asked.end is not None or asked.offset > 0
        self._rows: dict[bytes, int] = {}  # stored key -> hash of what is shown, of the rows that clients have
        self._view: list[Place] = []  # the same in order
        self._known: list[Place] = self._view  # all places up to the boundary
        self._place_of: dict[bytes, Place] = {}  # of `_known`
        self._boundary: Place | None = None
        self._ids: dict[bytes, Any] = {}  # of rows whose stored key does not tell
        self._contents: dict[bytes, bytes] = {}  # only with `_is_run`
        self._touched: dict[bytes, None] = {}
        self._read: Read = read_record if asked.shape is None else read_payload

    @property
    def size(self) -> int:
        return max(len(self._rows), len(self._place_of))

    @property
    def has_work(self) -> bool:
        return self.is_lost or bool(self._touched)

    # -- what happened

    def change(self, change: RecordChange) -> None:
        if not self._is_run:
            self._touched[change.stored] = None
        elif not self.is_lost and self._may_concern(change):
            self.is_lost = True

    def concern(self, stored: list[bytes] | None) -> None:
        if stored is None or self._is_run:
            self.is_lost = True
        else:
            self._touched.update(dict.fromkeys(stored))

    def lose(self) -> None:
        self.is_lost = True
        self._touched.clear()

    def finish(self, lsn: int) -> None:
        if self.is_known and not self.is_lost and not self.is_running and len(self._touched) <= RECORDS_PER_STEP:
            self.position = max(self.position, lsn)
            if self._touched:
                self._look_again()
                if not self.is_lost:
                    LiveResult.finish(self, lsn)
                    return
        super().finish(lsn)

    def _may_concern(self, change: RecordChange) -> bool:
        test = self.asked.test
        if test is None or not change.is_known or change.ended is not None:
            return True
        pairs = [(change.stored, raw) for raw in (change.before, change.after) if raw is not None]
        return bool(test(pairs, Lookups(None)))

    # -- looking at records again

    def _work(self) -> Generator[None, None, None]:
        if self.is_lost:
            yield from self._run()
        elif self._touched:
            self._look_again()
            yield

    def _look_again(self) -> None:
        """Look at some of the records that were touched."""
        keys = list(self._touched)[:RECORDS_PER_STEP]
        for key in keys:
            del self._touched[key]
        with self.owner.newest(self.table.database) as txn:
            lookups = Lookups(txn)
            pairs = self.table.get_many(keys, txn)
            if self.asked.test is not None:
                pairs = self.asked.test(pairs, lookups)
            if not self._in_order:
                self._update_rows(keys, self._contents_of(pairs, lookups), dict(pairs))
                return
            assert self.asked.sort_keys is not None
            places = {pair[0]: (code, pair[0]) for code, pair in zip(self.asked.sort_keys(pairs, lookups), pairs, strict=True)}
            if self._is_window:
                self._update_window(keys, places, dict(pairs), lookups)
            else:
                self._update_order(keys, places, self._contents_of(pairs, lookups), dict(pairs))

    def _update_rows(self, keys: list[bytes], contents: Mapping[bytes, bytes], raws: Mapping[bytes, bytes]) -> None:
        rows = self._rows
        for key in keys:
            content = contents.get(key)
            old = rows.get(key)
            if content is None:
                if old is not None:
                    self._tell("leave", key)
                continue
            digest = rows[key] = self._digest(content)
            if digest != old:
                self._tell("enter" if old is None else "update", key, content, raw=raws[key])

    def _update_order(
        self, keys: list[bytes], places: Mapping[bytes, Place], contents: Mapping[bytes, bytes], raws: Mapping[bytes, bytes]
    ) -> None:
        rows, view = self._rows, self._view
        for key in keys:
            old, new = self._place_of.get(key), places.get(key)
            if new is None:
                if old is not None:
                    del self._place_of[key]
                    self._tell_change(leave(view, old), None, None)
                continue
            self._place_of[key] = new
            digest = self._digest(contents[key])
            if old is None:
                change = enter(view, new)
            else:
                change = move(view, old, new)
                if change.at == change.was_at and rows[key] == digest:
                    continue
            rows[key] = digest
            self._tell_change(change, contents[key], raws[key])

    def _update_window(self, keys: list[bytes], places: Mapping[bytes, Place], raws: Mapping[bytes, bytes], lookups: Lookups) -> None:
        """Bring the known beginning up to date, then the window in it."""
        known, place_of, boundary = self._known, self._place_of, self._boundary
        for key in keys:
            old = place_of.pop(key, None)
            if old is not None:
                del known[bisect_left(known, old)]
        for key, place in places.items():
            if boundary is None or place <= boundary:
                insort(known, place)
                place_of[key] = place
        keep = self.asked.keep
        if keep is not None and len(known) > 2 * keep:
            for _, key in known[keep:]:
                del place_of[key]
            del known[keep:]
            self._boundary = known[-1] if known else None
        looked_at = set(keys)
        found = dict(raws)
        while True:
            if self._boundary is not None and len(known) < (self.asked.end or 0):
                self.is_lost = True  # too few are known
                return
            new = known[self.asked.offset : self.asked.end]
            wanted = [key for _, key in new if (key in looked_at or key not in self._rows) and key not in found]
            more = dict(self.table.get_many(wanted, lookups.txn)) if wanted else {}
            found.update(more)
            gone = [key for key in wanted if key not in more]  # they have expired, or the next commit has removed them
            if not gone:
                break
            for key in gone:
                del known[bisect_left(known, place_of.pop(key))]
        contents = self._contents_of([(key, found[key]) for _, key in new if key in looked_at or key not in self._rows], lookups)
        self._become(new, contents, found)

    def _become(self, new: list[Place], contents: Mapping[bytes, bytes], raws: Mapping[bytes, bytes]) -> None:
        """Make `new` what the clients have. `contents`, `raws`: of the rows that may show something else, or are new."""
        rows = self._rows
        digests = {key: self._digest(content) for key, content in contents.items()}
        for change in become(self._view, new, lambda key: key in digests and rows.get(key) != digests[key]):
            if change.type == "leave":
                self._tell_change(change, None, None)
                continue
            rows[change.key] = digests[change.key]  # only what was looked at can have moved
            self._tell_change(change, contents[change.key], raws[change.key])

    # -- running the query

    def _run(self) -> Generator[None, None, None]:
        """Run the query and tell in what the result differs from what was known."""
        asked, owner = self.asked, self.owner
        began = owner.now()
        self.is_lost = False
        self._touched.clear()
        position = owner.position(self.table.database)
        if self.is_known and len(self._rows) > MAX_COMPARED:
            self._forget()
        rows = self._rows
        most = MAX_ROWS_WITH_CONTENT if self._is_run else MAX_ROW_KEYS
        held = owner.store.snapshots.hold(self.table.database, fresh=True)
        places: list[Place] = []
        keys: dict[bytes, None] = {}  # of the rows that are shown
        contents: dict[bytes, bytes] = {}
        raws: dict[bytes, bytes] = {}
        size = 0
        try:
            txn = held.use()
            lookups = Lookups(txn)
            run = execute(asked.plan, txn)
            while not run.done:
                held.use()
                if self.is_closed:
                    return
                pairs = run.step_pairs(ROWS_PER_STEP)
                if not pairs:
                    yield
                    continue
                first = len(places) if self._in_order else len(keys)
                if asked.sort_keys is not None:
                    places += zip(asked.sort_keys(pairs, lookups), [key for key, _ in pairs], strict=True)
                end = len(pairs) if asked.end is None else asked.end - first
                pairs = pairs[max(asked.offset - first, 0) : max(end, 0)]
                for key, content in self._contents_of(pairs, lookups).items():
                    keys[key] = None
                    if self._is_run or not self.is_known or rows.get(key) != self._digest(content) or self._in_order:
                        contents[key] = content
                        size += len(content)
                if not self.is_known and not self._is_run:
                    self._take_in(pairs, contents)
                    size = 0
                else:
                    raws.update(pairs)
                if len(places) > most or len(keys) > most or size > MAX_CONTENT_BYTES:
                    if not self._is_run and self.is_known and len(keys) <= most:
                        self._forget()  # too much to compare
                        self.is_lost = True
                    else:
                        self._refuse(f"A live query like this may have at most {most} records: add conditions, or a limit")
                    return
                yield
        finally:
            held.abort()
        if asked.keep is not None:
            self._boundary = places[-1] if len(places) >= asked.keep else None
        if self._in_order:
            self._place_of = {place[1]: place for place in places}
        self._settle(places, keys, contents, raws)
        self.position = max(self.position, position)
        if self._is_run:
            self._contents = contents
            self.rest(began)

    def _take_in(self, pairs: list[Pair], contents: dict[bytes, bytes]) -> None:
        """The first run: nothing is to be told, so nothing but hashes is kept."""
        for key, raw in pairs:
            self._rows[key] = self._digest(contents.pop(key))
            self._remember_id(key, raw)

    def _settle(
        self, places: list[Place], keys: Mapping[bytes, None], contents: Mapping[bytes, bytes], raws: Mapping[bytes, bytes]
    ) -> None:
        asked = self.asked
        if not self.is_known:
            self.is_known = True
            if self._is_run:
                for key, raw in raws.items():
                    self._rows[key] = self._digest(contents[key])
                    self._remember_id(key, raw)
            if self._is_window:
                self._known, self._view = places, places[asked.offset : asked.end]
            elif self._in_order:
                self._known = self._view = places
            self._shared = None
            return
        if not self._in_order:
            gone = [key for key in self._rows if key not in keys]
            self._update_rows([*gone, *contents], contents, raws)
            return
        if self._is_window:
            self._known = places
            self._become(places[asked.offset : asked.end], contents, raws)
        else:
            self._become(places, contents, raws)

    def _forget(self) -> None:
        """Begin anew, clients as well."""
        self.is_known = False
        self._rows = {}
        self._ids = {}
        self._view = []
        self._known = self._view
        self._place_of = {}
        self._boundary = None
        self.reset(TOO_MANY_CHANGES)

    # -- rows

    def _contents_of(self, pairs: list[Pair], lookups: Lookups) -> dict[bytes, bytes]:
        """What the rows show: raw records, or the payloads of what is selected."""
        shape = self.asked.shape
        if shape is None or not pairs:
            return dict(pairs)
        values = shape([raw for _, raw in pairs], lookups)
        return {key: encode_payload(value) for (key, _), value in zip(pairs, values, strict=True)}

    def _digest(self, content: bytes) -> int:
        return hash(content_of(content) if self.asked.shape is None else content) or 1

    def _tell_change(self, change: Change, content: bytes | None, raw: bytes | None) -> None:
        self._tell(change.type, change.key, content, raw=raw, index=change.at, was_at=change.was_at)

    def _tell(
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
        self._told.append(RowEvent(type_, self._id(key), content, self._read, index, self.position, was_at))
        if type_ == "leave":
            self._rows.pop(key, None)
            self._ids.pop(key, None)

    def _remember_id(self, key: bytes, raw: bytes) -> None:
        if is_hashed(key):
            self._ids[key] = shown_key(self.table.key_of(raw))

    def _id(self, key: bytes) -> Any:
        return self._ids[key] if is_hashed(key) else id_of(key)

    # -- snapshots

    def _begin(self, subscription: LiveSubscription) -> Snapshot | None:
        keys = [key for _, key in self._view] if self._in_order else list(self._rows)
        if not self._is_run and len(keys) > SHARED_ROWS:
            self.attach(subscription, self.position, -1)
            held = self.owner.store.snapshots.hold(self.table.database, fresh=True)
            return MaterializedSnapshot(self.rows_at, keys, dict(self._ids), held)
        events = self._shared if self.owner.now() < self._shared_until else None
        if events is None:
            events = self._whole(keys) if self._is_run else self._snapshot_now(keys)
            if events is None:
                return None
            self._shared = events
        self.attach(subscription, self.position, -1)
        return ListSnapshot(events)

    def _whole(self, keys: list[bytes]) -> list[RowEvent]:
        self._shared_until = float("inf")
        return [self.row(key, at, self._contents[key]) for at, key in enumerate(keys)]

    def _snapshot_now(self, keys: list[bytes]) -> list[RowEvent] | None:
        """All rows, few as they are; None if some have expired, so that the result has changed."""
        with self.owner.newest(self.table.database) as txn:
            pairs = self.table.get_many(keys, txn)
            if len(pairs) < len(keys):
                found = dict(pairs)
                self._touched.update(dict.fromkeys(key for key in keys if key not in found))
                self.owner.work_later(self)
                return None
            contents = self._contents_of(pairs, Lookups(txn))
        self.shown(keys, contents)
        until = self.owner.now() + SHARED_SECONDS
        expiry = min([ends for _, raw in pairs if (ends := expiry_of(raw)) is not None], default=None)
        if expiry is not None:
            until = min(until, self.owner.now() + expiry / 1000 - self.owner.store.clock.wall())
        self._shared_until = until
        return [self.row(key, at, contents[key]) for at, key in enumerate(keys)]

    def row(self, key: bytes, at: int, content: bytes | None) -> RowEvent:
        return RowEvent("snapshot", self._id(key), content, self._read, at if self._in_order else None, None)

    def rows_at(self, keys: list[bytes], ids: Mapping[bytes, Any], first: int, txn: Txn) -> list[RowEvent]:
        """Rows of a snapshot. One that has expired since shows nothing: that it leaves is told when it is removed."""
        contents = self._contents_of(self.table.get_many(keys, txn), Lookups(txn))
        self.shown(keys, contents)
        found = []
        for at, key in enumerate(keys, first):
            id_ = ids[key] if is_hashed(key) else id_of(key)
            found.append(RowEvent("snapshot", id_, contents.get(key), self._read, at if self._in_order else None, None))
        return found

    def shown(self, keys: Iterable[bytes], contents: Mapping[bytes, bytes]) -> None:
        """A client is shown this. What is stored may be ahead of the result, or a related record may have expired: then the row is told when it is
        looked at next, even if it is again what it was."""
        rows = self._rows
        for key in keys:
            if key in rows and (key not in contents or rows[key] != self._digest(contents[key])):
                rows[key] = UNKNOWN
