"""Log entries as changes and events for subscribers (spec: realtime §1).

A `Change` is made once of an entry that concerns a subscription, and has the record as the entry left it. A `View` is how subscribers see changes:
which properties they may read and selected, and whether they want records or raw operations. `Change.event` makes one event for each view, which all
subscribers with that view share.

    entry                     seen as records        seen raw
    put                       put                    put
    patch                     put, whole record      patch, what was set
    delete, expire            delete                 delete
    one that was merged       put, whole record      put, whole record; nothing, if the record stayed what it was
    message, invalidate       the same               the same
    relocate                  -                      relocate

To a subscriber an expired record is a deleted one: the event comes when it is removed.

Where rules on rows narrow what a subscriber may read, as a `Viewpoint` of its view says, of a change counts what was and is there for it (spec: rows §1.3):

    before      after       seen as
    any         there       what it is; raw, where it was not there before: put, whole record
    there       not there   delete
    not there   not there   nothing

A message is read as the record that it is about, with what it says put over that.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from itertools import islice
from typing import TYPE_CHECKING, Any

from svc.query.definition_cache import DefinitionCache
from svc.query.links import Links
from svc.query.nodes import Select
from svc.query.relations import Lookups
from svc.query.select import compile_select
from svc.query.tables import AnyTable
from svc.store import LogEntry, Table
from svc.store.env import Txn
from svc.store.log.entries import DELETE, EXPIRE, INVALIDATE, KINDS, MESSAGE, PATCH, PUT, RELOCATE
from svc.store.values.keys import decode_key, storage_key
from svc.store.values.records import (
    PAYLOAD_AT,
    decode,
    decode_json,
    decode_payload,
    decode_payload_json,
    encode,
    expiry_of,
    is_partial,
    lsn_of,
    payload_size,
    raw_payload,
    version_of,
)
from svc.store.values.validation import Add
from svc.store.writing.merge_rules import logged_changes, merge

if TYPE_CHECKING:
    from svc.realtime.viewpoint import Viewpoint

EVENT_BYTES = 600  # of an event without its value: measured on a record of three short attributes
FORMS = 3  # copies of the value that are kept: stored, decoded, encoded for one kind of client
MAX_CHAIN = 1000  # log entries of a record that are read to find the record after one of them
_TYPES = {PUT: "put", PATCH: "put", DELETE: "delete", EXPIRE: "delete", MESSAGE: "message", INVALIDATE: "invalidate"}
_RAW_TYPES = {kind: KINDS[kind] for kind in (PUT, PATCH, DELETE, MESSAGE, INVALIDATE, RELOCATE)} | {EXPIRE: "delete"}

_NOTHING = 0  # in place of the kind of a change that changed nothing

_shapes = DefinitionCache()


class View:
    """`visible`: names of the properties that may be read, None = all. `select`: narrowed to the rights of the subscriber (`narrow_query`). `viewpoint`: which
    records are there, None = all.

    Equal views share one group of subscriptions.
    """

    __slots__ = ("_hash", "parts", "raw", "select", "table", "transactions", "viewpoint", "visible")

    def __init__(
        self,
        table: Table,
        select: Select | None = None,
        visible: frozenset[str] | None = None,
        *,
        raw: bool = False,
        transactions: bool = False,
        viewpoint: Viewpoint | None = None,
    ) -> None:
        self.table = table
        self.select = select
        self.visible = visible
        self.raw = raw
        self.transactions = transactions
        self.viewpoint = viewpoint
        self.parts = (table, select, visible, raw, transactions, viewpoint)
        self._hash = hash(self.parts)

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        return self is other or (type(other) is View and self.parts == other.parts)

    def record(self, raw: bytes, native: bool) -> Any:
        """The value of an event with a record."""
        select = self.select
        if select is not None:
            return self._selected(select, raw, native)
        record = decode(raw) if native else decode_json(raw)
        visible = self.visible
        return record if visible is None else {name: value for name, value in record.items() if name in visible}

    def message(self, raw: bytes, native: bool) -> Any:
        """The value of an event with a message: an object is shown like a record, anything else as it is."""
        if is_object(raw):
            return self.record(raw, native)
        payload = raw_payload(raw)
        return decode_payload(payload) if native else decode_payload_json(payload)

    def changed(self, raw: bytes, native: bool) -> Any:
        """The value of an event with a raw patch; `select` does not apply to it."""
        changes = decode(raw) if native else decode_json(raw)
        visible = self.visible
        return changes if visible is None else {name: value for name, value in changes.items() if name in visible}

    def _selected(self, select: Select, raw: bytes, native: bool) -> Any:
        table: AnyTable = self.table
        if self.viewpoint is not None:
            table = self.viewpoint.view(table.database.snapshot())  # of related records those that are there

        def make() -> tuple[Callable[[list[bytes], Lookups], list[Any]], bool]:
            links = Links()
            return compile_select(select, table, links, json=not native), len(links) > 0

        shape, joins = _shapes.get(table, (select, native), make)
        return shape([raw], Lookups(table.database.snapshot() if joins else None))[0]


def is_object(raw: bytes) -> bool:
    """Whether a message is an object, as a record is. Messages are not compressed."""
    first = raw[PAYLOAD_AT]
    return 0x80 <= first <= 0x8F or first in (0xDE, 0xDF)


class LogEvent(Mapping[str, Any]):
    """What has happened to a record, or was said about it: a mapping of its members, which are also attributes."""

    # An `event.Event`. `coalesced`: the number of events it replaces, itself included. `begin_txn`: it is the first of its transaction, for subscriptions
    # that want to know. `is_current`: nothing has happened, it is the record that was there when the subscription began.

    __slots__ = ("_json", "_native", "begin_txn", "change", "coalesced", "is_current", "memo", "position", "size", "type", "view")

    def __init__(self, change: Change, view: View, kind: str, position: int | None, *, begin_txn: bool = False, coalesced: int = 1) -> None:
        self.change = change
        self.view = view
        self.type = kind
        self.position = position
        self.begin_txn = begin_txn
        self.coalesced = coalesced
        self.is_current = False
        self.size = change.size
        self.memo: dict[Any, Any] = {}
        self._native: dict[str, Any] | None = None
        self._json: dict[str, Any] | None = None

    @property
    def id(self) -> Any:
        return None if self.type == "end_txn" else self.change.id

    @property
    def value(self) -> Any:
        return self.members(True)["value"]

    @property
    def version(self) -> float | int:
        return self.change.version

    @property
    def timestamp(self) -> float | int:
        return self.change.version

    @property
    def local_time(self) -> int:
        """Where its change, or the current record, is in the log."""
        return self.change.lsn if self.position is None else self.position

    @property
    def user(self) -> str | None:
        return self.change.user

    @property
    def node(self) -> str | None:
        """That has made the change, if it is not this one."""
        return self.change.node

    def members(self, native: bool) -> dict[str, Any]:
        known = self._native if native else self._json
        if known is None:
            known = self._make(native)
            if native:
                self._native = known
            else:
                self._json = known
        return known

    def _make(self, native: bool) -> dict[str, Any]:
        change = self.change
        version = change.version
        key = self.id
        made: dict[str, Any] = {
            "type": self.type,
            "id": list(key) if type(key) is tuple else key,
            "value": self._value(native),
            "version": version,
            "timestamp": version,
            "localTime": self.local_time,
        }
        if change.node is not None:
            made["node"] = change.node
        if self.coalesced > 1:
            made["coalesced"] = self.coalesced
        if self.view.transactions:
            if self.begin_txn:
                made["begin_txn"] = True
            made["user"] = change.user
        elif self.view.raw:
            made["user"] = change.user
        return made

    def _value(self, native: bool) -> Any:
        kind, change, view = self.type, self.change, self.view
        if kind == "put":
            return None if change.after is None else view.record(change.after, native)
        if kind == "message":
            return None if change.after is None else view.message(change.after, native)
        if kind == "patch":
            return None if change.patch is None else view.changed(change.patch, native)
        return None

    def seen_in(self, view: View) -> LogEvent | None:
        """What another view shows of it; None: nothing."""
        if self.type == "end_txn" or (view.viewpoint is None and self.view.viewpoint is None):
            return self._with_view(view)
        if not self.is_current:
            return self.change.event(view, begin_txn=self.begin_txn, coalesced=self.coalesced)
        return self._with_view(view) if self.change.is_current_in(view) else None

    def _with_view(self, view: View) -> LogEvent:
        event = LogEvent(self.change, view, self.type, self.position, begin_txn=self.begin_txn, coalesced=self.coalesced)
        event.is_current = self.is_current
        return event

    def __getitem__(self, name: str) -> Any:
        return self.members(True)[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.members(True))

    def __len__(self) -> int:
        return len(self.members(True))

    # Equality is identity: to compare values would decode them.
    def __eq__(self, other: object) -> bool:
        return self is other

    def __hash__(self) -> int:
        return id(self)

    def __repr__(self) -> str:
        return f"<{self.type} {self.id!r} at {self.position}>"


class Change:
    """One entry of the log. `after`: the record as the entry left it, or the message, undecoded; None: no record. `patch`: what a patch has set.

    `transaction`: LSN of the first entry of the same one. `values`: of attributes, for the conditions of groups. `txn`: of the entry or later, for
    patches. `node`: the other node that has made it; None: this one. `entry`: where the table has rules on rows. A change is immutable.
    """

    __slots__ = (
        "_events",
        "_id",
        "after",
        "entry",
        "key",
        "kind",
        "lsn",
        "mqtt",
        "node",
        "patch",
        "size",
        "table",
        "transaction",
        "user",
        "values",
        "version",
    )

    def __init__(self, table: Table, entry: LogEntry, txn: Txn | None = None) -> None:
        self.table = table
        self.kind = kind = entry.kind
        self.key = entry.key
        self.lsn = entry.lsn
        self.transaction = entry.transaction
        self.version = whole_number(entry.version)
        self.user = entry.user
        self.node = None if entry.node in ("", table.database.node) else entry.node
        self.mqtt = entry.mqtt
        self.patch = entry.value if kind == PATCH else None
        if entry.is_merged:
            assert txn is not None
            self.kind = PUT if entry.changed else _NOTHING
            self.after: bytes | None = record_after(table, entry, txn)
        elif kind == PATCH:
            assert txn is not None
            self.after = record_after(table, entry, txn)
        else:
            self.after = entry.value
        self.size = EVENT_BYTES + (0 if self.after is None else FORMS * payload_size(self.after))
        self.entry: LogEntry | None = None
        if table.definition.allow:
            self.entry = entry
            self.size += len(entry.image or b"")
        self.values: dict[tuple[str, ...], tuple[object, ...]] = {}
        self._id: Any = _UNKNOWN
        self._events: dict[Any, LogEvent] = {}

    @classmethod
    def of_record(cls, table: Table, key: bytes, raw: bytes, version: float, lsn: int) -> Change:
        """A current record as a change, for the first events of a subscription."""
        entry = LogEntry(lsn, lsn, 0.0, version, table.name, table.number, key, PUT, None, "", 0, raw, (), None)
        return cls(table, entry)

    @property
    def id(self) -> Any:
        found = self._id
        if found is _UNKNOWN:
            found = self._id = _id_of(self.key)
        return found

    def event(self, view: View, *, begin_txn: bool = False, coalesced: int = 1) -> LogEvent | None:
        """The event of this change in a view; None if the view does not show it."""
        seen = self.kind
        key: Any = view if coalesced == 1 and not begin_txn else (view, begin_txn, coalesced)
        if view.viewpoint is not None:
            seen = self._seen_from(view.viewpoint, view.raw)
            if seen != self.kind:
                key = (key, seen)
        event = self._events.get(key)
        if event is None:
            kind = (_RAW_TYPES if view.raw else _TYPES).get(seen)
            if kind is None:
                return None
            event = self._events[key] = LogEvent(self, view, kind, self.lsn, begin_txn=begin_txn, coalesced=coalesced)
        return event

    def _seen_from(self, viewpoint: Viewpoint, raw: bool) -> int:
        """The kind of entry that this is to those who see with `viewpoint`, `_NOTHING` if they see nothing of it."""
        kind = self.kind
        if kind == _NOTHING or not (self.key or kind == MESSAGE) or viewpoint.shows_all:
            return kind
        database = self.table.database
        txn = database.snapshot()
        if database.log.newest_lsn(txn) >= self.lsn:
            return self._seen_at(viewpoint, raw, txn)
        txn = database.open_snapshot()  # that of the turn is older
        try:
            return self._seen_at(viewpoint, raw, txn)
        finally:
            txn.abort()

    def _seen_at(self, viewpoint: Viewpoint, raw: bool, txn: Txn) -> int:
        kind, stored = self.kind, storage_key(self.key)

        def is_there(record: bytes | None) -> bool:
            return record is not None and not is_partial(record) and viewpoint.may_see(stored, record, txn)

        if kind == MESSAGE:
            return kind if is_there(self._message_as_record(stored, txn)) else _NOTHING
        if kind == RELOCATE:
            return kind if is_there(self.table.read(stored, txn)) else _NOTHING
        if kind not in (PUT, PATCH):
            return kind if is_there(self._before(txn)) else _NOTHING
        if is_there(self.after):
            return PUT if kind == PATCH and raw and not is_there(self._before(txn)) else kind
        return DELETE if is_there(self._before(txn)) else _NOTHING

    def _before(self, txn: Txn) -> bytes | None:
        """The record before the entry; None: there was none, or it is not known."""
        entry = self.entry
        if entry is None or entry.image is not None:
            return None if entry is None else entry.image
        before = self.table.database.log.get(txn, entry.previous) if entry.previous else None
        if before is None or before.kind not in (PUT, PATCH):
            return None
        return before.value if before.kind == PUT and not before.is_merged else record_after(self.table, before, txn)

    def _message_as_record(self, stored: bytes, txn: Txn) -> bytes:
        record: dict[str, Any] = {}
        if self.key:
            raw = self.table.read(stored, txn)
            if raw is not None and not is_partial(raw):
                record = decode(raw)
        if self.after is not None and is_object(self.after):
            record = {**record, **decode(self.after)}
        if self.key:
            key = self.id
            record[self.table.primary_key] = list(key) if type(key) is tuple else key
        return encode(record, 0.0, 0, None)

    def is_current_in(self, view: View) -> bool:
        """Whether a current record is there for a view, now."""
        if view.viewpoint is None:
            return True
        txn = self.table.database.snapshot()
        return self.after is not None and view.viewpoint.may_see(storage_key(self.key), self.after, txn)

    def end(self, view: View) -> LogEvent:
        """The end of the transaction of which this is the last event."""
        return LogEvent(self, view, "end_txn", self.lsn)

    def snapshot_event(self, view: View, position: int | None) -> LogEvent:
        event = LogEvent(self, view, "put", position)
        event.is_current = True
        return event


_UNKNOWN = object()


def _id_of(key: bytes) -> Any:
    return decode_key(key) if key else None


def whole_number(version: float) -> float | int:
    """A version without a fraction as an int."""
    return int(version) if version.is_integer() else version


def record_after(table: Table, entry: LogEntry, txn: Txn) -> bytes | None:
    """The record as a patch, or a write that was merged, left it, raw.

    The stored record, if it has not been written since. Else the record before, if the entry has it, with the changes; else the record that the earlier
    entries of its history make of it, as far as they reach: properties that are unknown are left out.
    """
    raw = table.read(storage_key(entry.key), txn)
    if raw is not None and lsn_of(raw) == entry.lsn:
        return raw
    if entry.is_merged:
        return _image_after(table, entry, raw, txn)
    value = entry.value
    assert value is not None
    changes = decode(value)
    if table.primary_key in changes:
        return _made(value, changes)
    steps = [entry]
    image = entry.image
    log = table.database.log
    while image is None and steps[-1].previous and len(steps) < MAX_CHAIN:
        before = log.get(txn, steps[-1].previous)
        if before is None:
            break
        if before.is_merged:
            image = _image_after(table, before, raw, txn)
            break
        if before.kind == PUT:
            image = before.value
        elif before.kind == PATCH and before.value is not None and table.primary_key in (changes := decode(before.value)):
            image = _made(before.value, changes)
        elif before.kind == PATCH:
            steps.append(before)
            image = before.image
        else:
            break
    key = _id_of(entry.key)
    record: dict[str, Any] = {table.primary_key: list(key) if type(key) is tuple else key} if image is None else decode(image)
    for step in reversed(steps):
        assert step.value is not None
        record = merge(record, logged_changes(decode(step.value)))
    return encode(record, entry.version, entry.lsn, None if image is None else expiry_of(image))


def _image_after(table: Table, entry: LogEntry, raw: bytes | None, txn: Txn) -> bytes | None:
    """The record as an entry left it: as the next one of its chain found it. `raw`: as it is now; that is returned if the log has no images, or is too long."""
    newest = None if raw is None else lsn_of(raw)
    for later in islice(table.database.log.read_record_history(txn, table.number, entry.key, newest), MAX_CHAIN):
        if later.previous == entry.lsn:
            return later.image or raw
    return raw


def _made(value: bytes, changes: dict[str, Any]) -> bytes:
    """The record that a patch made, which the log has as `value`: its increments had nothing to be added to."""
    made = logged_changes(changes)
    if Add not in map(type, made.values()):
        return value
    return encode(merge({}, made), version_of(value), lsn_of(value), expiry_of(value))
