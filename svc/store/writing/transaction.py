"""The writes of one request: collected first, applied together, committed with the turn (spec: schema-and-store §8).

    begin --put, patch, delete--> collecting --apply--> applied --the turn's commit--> on_done(None), or on_done(problem)
                                      |                    ^ undone alone if apply raises
                                      +------abort--> aborted

`apply` runs all writes in a child of each database's write transaction, within the call: LMDB allows one child at a time. What it raises
concerns this transaction only. Then the writes wait for the turn's one commit; until `on_done` they may still be lost, so no success may
be reported before it. Writes are added in the order in which they were asked for, and a later one sees the earlier.

`apply` runs to its end without looking left or right. A transaction that `is_long` would hold the loop for too long that way, and its
commit again: it is awaited instead (`apply_long`). Then it gives way to readers, and other writers of its database wait for it
(`long_write`). `apply_in_turn` is `apply` for callers that can wait for that.
"""

from __future__ import annotations

import operator
from collections.abc import Awaitable, Callable, Generator, Iterator
from typing import TYPE_CHECKING, Any

from svc.errors import ClientError, NotUnique, Problem
from svc.store.blobs import Blob, BlobFiles, UnsavedContent, blobs_in, save, save_now
from svc.store.caching.copies import FetchedAnswer
from svc.store.disk.faults import LmdbError, store_problem
from svc.store.entity_tags import CREATE, Precondition
from svc.store.log.entries import DELETE, EXPIRE, INVALIDATE, MESSAGE, NOTES, PATCH, PUT
from svc.store.log.replicated_log import VersionBehind
from svc.store.slices import run_now
from svc.store.values.expression_functions import meter
from svc.store.values.keys import Key, encode_primary, is_hashed
from svc.store.values.records import encode_payload
from svc.store.writing.long_write import LongWrite
from svc.store.writing.preview import Preview
from svc.store.writing.references import AT_ONCE, NeedsLongWrite
from svc.store.writing.write_list import FETCHED, INSERT, UPDATE, DecidedWrites, Write, WriteList, apply_write, assign_keys, place_of
from svc.store.writing.write_set import Decide, RemovalReason, RowGuard, WriteSet

if TYPE_CHECKING:
    from svc.store.database import Database
    from svc.store.env import Txn
    from svc.store.schema import TableDefinition
    from svc.store.table import Table
    from svc.store.turn import Turn
    from svc.store.writing.mqtt_message import MqttMessage

EXPRESSIONS = (
    200_000  # units of work of checks and computed attributes, about 2 ms, after which the rest of the writes is carried out in slices
)
LONG_WRITES = 50  # more take longer than about 2 ms, with their share of the commit


class Transaction:
    """Made by `Store.begin`. `user`: the name that the log shows. `trace_id`: of the request's trace, for the log; 16 bytes. `mqtt`: the message that is
    carried out. `version`: ms, the same for all writes, given by `apply`.

    `on_done` is called once after each `apply` that succeeded, at the end of the turn: with None when the writes are on disk, else with
    the problem that undid them. After it the object may be used for further writes, and `outcome` is what it was called with; None before.
    """

    __slots__ = (
        "_aborted",
        "_are_assigned",
        "_is_keyless",
        "_keys",
        "_rechecks",
        "_store",
        "_tables",
        "_writes",
        "assigned",
        "databases",
        "deleted",
        "expires_at",
        "failed_at",
        "failed_key",
        "inspect",
        "may_cascade",
        "may_use_reserve",
        "mqtt",
        "on_done",
        "operation",
        "outcome",
        "previews",
        "skipped",
        "source",
        "trace_id",
        "unsaved",
        "user",
        "version",
        "writes_copies",
    )

    def __init__(self, store: Turn, user: str | None = None, operation: int = 0, trace_id: bytes | None = None) -> None:
        self._store = store
        self._writes: list[Write] = []
        self._keys: set[tuple[Table, bytes]] = set()  # encoded, of the records that are written
        self._rechecks: list[tuple[int, Database, Callable[[Txn], object]]] = []
        self.may_cascade = False  # a deletion among them may entail that of other records, or change them
        self.previews: dict[Database, Preview] = {}  # what its reads see
        self._tables: dict[Table, TableDefinition] = {}  # the definitions by which the writes were checked
        self._aborted = False
        self._is_keyless = False  # records among the writes are given a key when they are applied
        self._are_assigned = False  # those keys, before the writes are applied
        self.writes_copies = False  # to tables with a source, which is to write them first
        self.expires_at: float | None = (
            None  # ms: of the writes that are collected from now on and do not say themselves when their record expires
        )
        self.source: object = None  # where the writes come from, if that is what loads the records of a table: it does not get them back
        self.assigned: list[Key] = []  # by the last `apply`, to records without a key, in their order
        self.unsaved: list[tuple[Blob, BlobFiles]] = []  # blobs among what is written that need a file first
        self.deleted = 0  # records that the last `apply` removed
        self.failed_at: int | None = None  # the number of the write that the last `apply` has failed with; None: it is not known
        self.failed_key = b""  # the encoded key of that write; empty: it has none
        self.skipped: list[Any] = []  # by the last `apply`, in order: see `insert`, `update`, `delete`
        self.databases: tuple[Database, ...] = ()  # that the last `apply` wrote to
        self.user = user
        self.operation = operation  # one of log.OPERATIONS, for the log
        self.trace_id = trace_id
        self.mqtt: MqttMessage | None = None
        # called by `apply`, of writes to one database, with what they leave: what it raises undoes them
        self.inspect: Callable[[Txn], object] = _look_at_nothing
        self.version = 0.0
        self.may_use_reserve = False  # of a full volume: for what an operation that frees space has to note
        self.outcome: tuple[Problem | None] | None = None
        self.on_done: Callable[[Problem | None], None] | None = None

    @property
    def has_writes(self) -> bool:
        """Whether writes wait to be applied."""
        return bool(self._writes)

    @property
    def size(self) -> int:
        """How many writes wait to be applied."""
        return len(self._writes)

    @property
    def collected(self) -> list[tuple[int, bytes, dict[str, Any] | None]]:
        """What waits to be applied, for a comparison: kind, encoded key, record or changes."""
        return [(write.kind, write.key, None if write.data is None else dict(write.data)) for write in self._writes]

    def records_for(self, table: Table) -> Iterator[dict[str, Any]]:
        """What waits to be written to a table: records, and changes of records."""
        return (write.data for write in self._writes if write.table is table and write.data is not None)

    @property
    def is_long(self) -> bool:
        """Whether it had better be awaited. One that touches several databases cannot be."""
        return len(self._writes) > LONG_WRITES and not self._rechecks and self._is_in_one_database

    @property
    def database(self) -> Database | None:
        """Of all writes that wait to be applied; None: of several, or there are none."""
        databases = self._databases()
        return databases[0] if len(databases) == 1 else None

    # -- collecting

    def put(
        self,
        table: Table,
        key: Key,
        record: dict[str, Any],
        precondition: Precondition | None = None,
        *,
        expires_at: float | None = None,
        decide: Decide | None = None,
        rows: RowGuard | None = None,
    ) -> None:
        """Replace or make the record `key`. `record` has been validated and belongs to the transaction from now on.

        Its primary key becomes `key`, its time attributes are set when it is applied. `expires_at`: ms since the epoch. `decide`: what depends
        on the stored record, see `write_set.Decide`. `rows`, here and below: what the rules on rows say of the caller's writes, None: they do not count.
        """
        self._collect(PUT, table, key, record, precondition, expires_at, decide, rows)

    def create(
        self,
        table: Table,
        key: Key | None,
        record: dict[str, Any],
        *,
        key_prefix: str = "",
        expires_at: float | None = None,
        rows: RowGuard | None = None,
    ) -> Key | None:
        """Make a record. `apply` raises RecordExists if there is one with this key.

        `key` None: under a new one, that no record has. Returns the key; None if it is one of `assigned` once this is applied.
        """
        return self._collect(PUT, table, self._key(table, key, key_prefix), record, CREATE, expires_at, None, rows, adds=True)

    def patch(
        self,
        table: Table,
        key: Key,
        changes: dict[str, Any],
        precondition: Precondition | None = None,
        *,
        decide: Decide | None = None,
        rows: RowGuard | None = None,
    ) -> None:
        """Set these attributes and leave the others; `validation.Add` increments. Makes the record if there is none. `decide`: as for `put`."""
        changes = {name: value for name, value in changes.items() if name != table.primary_key}
        self._collect(PATCH, table, key, changes, precondition, None, decide, rows)

    def insert(
        self, table: Table, key: Key | None, record: dict[str, Any], *, expires_at: float | None = None, rows: RowGuard | None = None
    ) -> Key | None:
        """Make a record; if there is one with this key, that is `skipped`. `key`, and what is returned: as for `create`."""
        return self._collect(INSERT, table, self._key(table, key), record, None, expires_at, None, rows, adds=True)

    def update(
        self,
        table: Table,
        key: Key,
        changes: dict[str, Any],
        *,
        expires_at: float | None = None,
        decide: Decide | None = None,
        rows: RowGuard | None = None,
    ) -> Key:
        """Set these attributes of a record and leave the others. If there is no such record, the key is `skipped`. Returns the key."""
        changes = {name: value for name, value in changes.items() if name != table.primary_key}
        self._collect(UPDATE, table, key, changes, None, expires_at, decide, rows)
        return key

    def upsert(
        self,
        table: Table,
        key: Key | None,
        changes: dict[str, Any],
        *,
        expires_at: float | None = None,
        decide: Decide | None = None,
        rows: RowGuard | None = None,
    ) -> Key | None:
        """`update`, or `insert` if there is no such record: then `changes` are all of it, and `apply` checks it as such."""
        changes = {name: value for name, value in changes.items() if name != table.primary_key}
        return self._collect(PATCH, table, self._key(table, key), changes, None, expires_at, decide, rows, adds=True)

    def delete(
        self, table: Table, key: Key, precondition: Precondition | None = None, *, mark: object = None, rows: RowGuard | None = None
    ) -> None:
        """Remove the record if there is one; if not, the key is `skipped`, or what is given as `mark`."""
        self._collect(DELETE, table, key, None, precondition, None, None, rows)
        if mark is not None:
            self._writes[-1].id = mark

    def delete_stored(
        self, table: Table, stored: bytes, raw: bytes, found: RemovalReason | None = None, rows: RowGuard | None = None
    ) -> None:
        """The same for a record that a scan has found; of it no more than the key is kept. `found`: if it is to stay when it has changed since."""
        if self._aborted:
            raise ClientError("The transaction was aborted, no more can be written with it")
        self._add(Write(DELETE, table, self._key_of(table, stored, raw), None, None, None, found=found, rows=rows))

    def expire(self, table: Table, stored: bytes, raw: bytes) -> None:
        """Remove a record that a scan has found, as one whose time is over here: other nodes are not told."""
        if self._aborted:
            raise ClientError("The transaction was aborted, no more can be written with it")
        self._add(Write(EXPIRE, table, self._key_of(table, stored, raw), None, None, None))

    def publish(self, table: Table, key: Key | None, message: Any, *, source: str = "json", rows: RowGuard | None = None) -> None:
        """Publish a message to the subscribers of the record `key`, existing or not, or with None of the whole table. No record changes.

        `message`: any value that can be stored. Of an object the attributes that the table declares are checked. `source`: see `Validator`.
        Raises ValidationError, BadValue, ClientError.
        """
        if isinstance(message, dict):
            message = table.validator.message(message, source=source)
        for _ in blobs_in({"": message}):
            raise ClientError("A message cannot hold a blob: store it in a record", code="VALIDATION")
        self._note(MESSAGE, table, key, encode_payload(message), rows)

    def invalidate(self, table: Table, key: Key) -> None:
        """Say that what is known of the record `key` does not hold any more. The record stays what it is, but in a caching table: there its content
        is discarded (`caching.copies`)."""
        self._note(INVALIDATE, table, key, None)

    def store_fetched(
        self, table: Table, key: Key, fetched: FetchedAnswer, record: dict[str, Any] | None = None, *, expires_at: float | None = None
    ) -> None:
        """Store what the source of a caching table says of the record `key`, unless the record has been written or invalidated since it was asked.

        `record`: if it is new, validated; it belongs to the transaction from now on.
        """
        if record is not None:
            record = table.validator.complete(record, is_new=True)  # what the source has no value for, whenever it is asked
        self._collect(FETCHED, table, key, record, None, expires_at)
        self._writes[-1].fetched = fetched

    def _note(self, kind: int, table: Table, key: Key | None, payload: bytes | None, rows: RowGuard | None = None) -> None:
        if self._aborted:
            raise ClientError("The transaction was aborted, no more can be written with it")
        if table not in self._tables:
            self._enter(table)
        # Not among those by key: they say nothing of what the record is.
        self._writes.append(Write(kind, table, b"" if key is None else encode_primary(key), None, None, None, None, payload, rows=rows))

    def _enter(self, table: Table) -> None:
        self._tables[table] = table.definition
        if table.is_caching and table.caching is not self.source:
            self.writes_copies = True

    def write_through(self, holder: object) -> Awaitable[None] | None:
        """Have the sources of caching tables carry out the writes to them. Returns an awaitable if that takes longer; raises what they raise."""
        self.writes_copies = False
        if self._is_keyless:  # a source has to know the keys
            self._assign_all()
        work = [
            (table.caching, [write for write in self._writes if write.table is table])
            for table in self._tables
            if table.is_caching and table.caching is not self.source
        ]
        return _write_each(work, holder)

    @staticmethod
    def _key_of(table: Table, stored: bytes, raw: bytes) -> bytes:
        return encode_primary(table.key_of(raw)) if is_hashed(stored) else stored

    @staticmethod
    def _key(table: Table, key: Key | None, prefix: str = "") -> Key | None:
        """A new key in place of None (spec: schema-and-store §6.5). Numbers stay None: which one is free is decided when they are written.

        Raises ClientError if keys have to be given.
        """
        return table.new_key(prefix) if key is None and (prefix or not table.has_sequence) else key

    def _collect(
        self,
        kind: int,
        table: Table,
        key: Key | None,
        data: dict[str, Any] | None,
        precondition: Precondition | None,
        expires_at: float | None,
        decide: Decide | None = None,
        rows: RowGuard | None = None,
        *,
        adds: bool = False,
    ) -> Key | None:
        """Returns `key`. `adds`: it may be None."""
        if self._aborted:
            raise ClientError("The transaction was aborted, no more can be written with it")
        if key is None and adds:
            encoded = b""
            self._is_keyless = True
        else:
            encoded = encode_primary(key)
        if expires_at is None:
            expires_at = self.expires_at
        if data is not None and table.definition.dynamic:
            table.database.learn_attributes(table, data)
        if data is not None and UnsavedContent.alive:
            self.unsaved += [(blob, table.database.blobs) for blob in blobs_in(data) if blob.unsaved is not None]
        if data is not None and key is not None and kind not in (PATCH, UPDATE):
            data[table.primary_key] = list(key) if type(key) is tuple else key
        self._add(Write(kind, table, encoded, None if kind == PUT else key, data, precondition, expires_at, None, decide, rows=rows))
        return key

    def _add(self, write: Write) -> None:
        table = write.table
        if table not in self._tables:
            self._enter(table)
        self._writes.append(write)
        self._keys.add((table, write.key))
        if write.kind == DELETE and table.database.references_to(table):
            self.may_cascade = True

    # -- reading

    def has_written(self, table: Table, key: Key) -> bool:
        """Whether writes to this record wait to be applied."""
        return bool(self._keys) and (table, encode_primary(key)) in self._keys

    def concerns(self, table: Table, key: Key) -> bool:
        """Whether what was collected may make this record another one."""
        return self.may_cascade or self.has_written(table, key)

    def get_raw(self, table: Table, key: Key, txn: Txn | None = None) -> bytes | None:
        """The record as this transaction would leave it: as of the snapshot `txn`, default the turn's, with what was collected so far."""
        if not self.concerns(table, key):
            return table.get_raw(key, txn)
        database = table.database
        run_now(self.previewing(database, database.snapshot() if txn is None else txn))
        return table.get_raw(key, self.previews[database].txn)

    def has_written_to(self, database: Database) -> bool:
        """Whether writes to records of this database wait to be applied."""
        return bool(self._keys) and any(table.database is database for table in self._tables)

    def previewing(self, database: Database, txn: Txn, end: int | None = None) -> Iterator[None]:
        """Bring `preview` up to date, on the snapshot `txn`: in short steps, with the writes before number `end`. Raises what prevents what was collected."""
        self._save_blobs_now()
        if self._is_keyless:
            self._assign_all()
        preview = self.previews.get(database)
        if preview is None or preview.base is not txn:
            store = self._store
            preview = self.previews[database] = Preview(database, txn, store.coming_version(), store.clock.wall() * 1000)
        return preview.steps(self._writes, end)

    def preview(self, database: Database) -> Preview:
        """What its reads see, once `previewing` has ended."""
        return self.previews[database]

    def joining(self, other: Transaction, snapshot_of: Callable[[Database], Txn]) -> Generator[None]:
        """Take over what another one has collected, in short steps. Of that one is known then what else its `apply` says. Raises what prevents it, with
        nothing taken over. `snapshot_of`: as for `admitting`."""
        start, assigned = len(self._writes), len(self.assigned) if self._are_assigned else 0
        is_keyless = other._is_keyless
        for write in other._take():
            self._add(write)
        self._is_keyless = self._is_keyless or is_keyless
        self.unsaved += other.unsaved
        other.unsaved = []
        other.skipped, other.deleted = yield from self.admitting(start, snapshot_of)
        other.assigned = self.assigned[assigned:] if is_keyless else []
        other.version = self._store.coming_version()

    def recheck(self, start: int, database: Database, check: Callable[[Txn], object]) -> None:
        """Have `apply` call `check` with what there is then before write number `start`: what it raises prevents it."""
        self._rechecks.append((start, database, check))

    def _check_again(self) -> None:
        previews: dict[Database, Preview] = {}
        for start, database, check in self._rechecks:
            if database not in previews:
                previews[database] = Preview(database, database.env.writer(), self._store.coming_version(), self._store.clock.wall() * 1000)
            run_now(previews[database].steps(self._writes, start))
            check(previews[database].txn)

    def admitting(self, start: int, snapshot_of: Callable[[Database], Txn]) -> Generator[None, None, tuple[list[Key], int]]:
        """Test what the tables demand of the records of the writes from number `start` on, in short steps. Raises what is wrong, and then has forgotten
        these writes. `snapshot_of`: what is read of a database. Returns the keys of those that found nothing to do, and the number of records that were
        deleted."""
        own = self._writes[start:]
        calls: list[tuple[Preview, object]] = []
        try:
            for database in {write.table.database: None for write in own}:
                yield from self.previewing(database, snapshot_of(database), start)
                preview = self.previews[database]
                calls.append((preview, preview.begin_call()))
                yield from preview.steps(self._writes, start + len(own))
                yield from preview.check(own)
        except BaseException:
            undone = [preview.undo_call(call) for preview, call in calls]
            if not all(undone):
                self.previews.clear()
            self.forget(own, start)
            raise
        skipped: list[Key] = []
        deleted = 0
        for preview, _ in calls:
            outcome = preview.end_call()
            skipped += outcome[0]
            deleted += outcome[1]
        return skipped, deleted

    def forget_from(self, start: int) -> None:
        """Drop the writes from number `start` on: of a call that has failed."""
        self.forget(self._writes[start:], start)

    def forget(self, own: list[Write], start: int) -> None:
        """Drop these writes, the first of which was number `start`."""
        end = start + len(own)
        self._rechecks = [(at if at <= start else at - len(own), *check) for at, *check in self._rechecks]  # type: ignore[misc]
        if all(map(operator.is_, self._writes[start:end], own)):
            del self._writes[start:end]
        else:  # others have been dropped meanwhile
            dropped = set(map(id, own))
            self._writes = [write for write in self._writes if id(write) not in dropped]
            self.previews.clear()
        self._take_stock()

    def _take_stock(self) -> None:
        """Find out what the writes that are left are about."""
        writes = [write for write in self._writes if write.kind not in NOTES]
        self._keys = {(write.table, write.key) for write in writes}
        self.may_cascade = any(write.kind == DELETE and write.table.database.references_to(write.table) for write in writes)
        self._is_keyless = any(write.is_keyless for write in writes)

    # -- ending

    async def save_blobs(self) -> None:
        """Put the content of new blobs on disk, without blocking: to be awaited before `apply`, which else does it itself.

        Raises NoSpace, StoreFailure, and what the sources of the blobs raise.
        """
        unsaved, self.unsaved = self.unsaved, []
        for blob, files in unsaved:
            await save(blob, files, self._store.helper)

    def _save_blobs_now(self) -> None:
        unsaved, self.unsaved = self.unsaved, []
        for blob, files in unsaved:
            save_now(blob, files)

    def apply(self, *, wait: bool = True) -> None:
        """Carry out what was collected, as part of the turn. Raises the Problem that prevents it, with nothing done.

        With `wait=False` it raises NeedsLongWrite if deletions concern too many other records for a turn, or expressions take too
        much of it, and what was collected stays.

        While a long write is under way in the database it makes that begin again; with `wait=False` it raises WriterBusy, and what was
        collected stays.
        """
        if self._aborted:
            raise ClientError("The transaction was aborted, nothing of it can be applied")
        store = self._store
        if self.unsaved:
            self._save_blobs_now()
        if not self._writes:
            self._apply_nothing()
            return
        databases = self._databases()
        store.open_writers(databases, wait=wait)
        store.check_tables(self._tables)  # from here on no other process can change them
        if self._rechecks:
            if self._is_keyless:
                self._assign_all()
            self._check_again()
        is_keyless, tables = self._is_keyless, self._tables
        writes = self._take()
        if not self._are_assigned:
            self.assigned = []
        self._are_assigned = False
        if is_keyless:
            self._assign_keys(writes)
        for database in databases:
            if database.env.reserve.is_low and not self.may_use_reserve:
                _require_space(database, writes)
        self.version = version = store.next_version()
        wall_ms = store.clock.wall() * 1000
        keeps_row = self.mqtt is not None and self.mqtt.row is not None
        last = databases[-1] if len(databases) == 1 else max(databases, key=lambda database: database.name)
        sets: list[WriteSet] = []
        deleted, work = 0, meter.spent - meter.left
        write: Write | None = None
        try:
            for database in databases:
                write_set = WriteSet(database, version, wall_ms, self.user, self.operation, None, self.trace_id)
                write_set.mqtt = self.mqtt
                write_set.keeps_row = keeps_row and database is last
                sets.append(write_set)
                write_set.may_repeat = not wait and len(databases) == 1
                write_set.reference_limit = LONG_WRITES if write_set.may_repeat else AT_ONCE
                for number, write in enumerate(writes):
                    if number and write_set.may_repeat and meter.spent - meter.left - work > EXPRESSIONS:
                        raise NeedsLongWrite
                    if write.table.database is database:
                        deleted += apply_write(write, write_set)
                        if write_set.references is not None:
                            run_now(write_set.references.steps())
                write = None
                sets[-1].check()
            self.inspect(sets[0].txn)
        except BaseException as error:
            self._note_failure(error, writes, write)
            _rollback(sets)
            if isinstance(error, LmdbError):
                entries = [entry for write_set in sets for entry in write_set.entries]
                raise database.explained(store_problem(error, database.env.path), entries) from error
            if isinstance(error, (NeedsLongWrite, VersionBehind)):
                self._writes, self._tables, self._are_assigned = writes, tables, True
                self._apply_again(error, wait)
                return
            raise
        skipped = sets[0].skipped if len(sets) == 1 else [key for write_set in sets for key in write_set.skipped]
        while sets:
            try:
                sets.pop(0).commit()
            except BaseException:
                _rollback(sets)
                raise
        self.databases = databases
        self.deleted, self.skipped = deleted, skipped
        self.outcome = None
        store.applied(self)

    def _apply_again(self, error: NeedsLongWrite | VersionBehind, wait: bool) -> None:
        """With a version that exceeds that of a record which is ahead of the clock. Raises NeedsLongWrite if that was the error."""
        if isinstance(error, NeedsLongWrite):
            raise error
        with self._store.next_version_is(error.version):
            self.apply(wait=wait)

    def _apply_nothing(self) -> None:
        self.databases = ()
        self.deleted, self.skipped, self.assigned = 0, [], []
        self._are_assigned = False
        self.outcome = None
        self._store.applied(self)

    def _note_failure(self, error: BaseException, writes: list[Write], write: Write | None) -> None:
        """`write`: the one that was applied last; None: all were."""
        self.failed_at = next((number for number, each in enumerate(writes) if each is write), None)
        if isinstance(error, NotUnique):  # known when all is written
            self.failed_at = place_of(error, writes)
            write = None if self.failed_at is None else writes[self.failed_at]
        self.failed_key = b"" if write is None else write.key

    def _assign_all(self) -> None:
        """Give records their keys before they are applied."""
        if not self._are_assigned:
            self.assigned = []
        self._assign_keys(self._writes)
        self._keys.update((write.table, write.key) for write in self._writes if write.kind not in NOTES)
        self._is_keyless, self._are_assigned = False, True

    def _assign_keys(self, writes: list[Write]) -> None:
        keyless = [write for write in writes if write.is_keyless]
        run_now(assign_keys(keyless, writes, lambda table, count: table.new_keys(count), self.assigned))

    async def apply_in_turn(self) -> None:
        """`apply`, after the long write that is under way in the database, and after the writers before it. Raises Overloaded, NeedsLongWrite."""

        def attempt() -> None:
            self._store.check_tables(self._tables)
            self.apply(wait=False)

        await self._store.write_when_free(self._databases, attempt)

    async def apply_long(self) -> None:
        """Carry out what was collected, in slices. When it returns, everything is on the disk and `on_done` will not be called.

        Raises the Problem that prevents it, with nothing done; Overloaded if it would have to wait for too long. Cancelled, it undoes
        everything unless the commit has begun.
        """
        await self.save_blobs()
        databases = self._databases()
        tables = self._tables
        work = WriteList(self._take())
        long_write = LongWrite(self._store, work, tables, self.user, self.operation, self.trace_id)
        long_write.mqtt = self.mqtt
        try:
            await long_write.run()
        except BaseException:
            self.failed_at, self.failed_key = work.at, work.key_at
            raise
        self.databases = databases
        self.version, self.deleted, self.skipped = long_write.version, work.deleted, long_write.skipped
        if not self._are_assigned:
            self.assigned = work.assigned
        self._are_assigned = False

    async def apply_decided(self, table: Table, collect: Callable[[LongWrite], Awaitable[None]], *, size: int, adds: bool = True) -> None:
        """`apply_long` of what `collect` decides, and collects here, when nobody else can commit to the database any more. It is called with the long
        write, whose time it may need, and again if everything was undone. `size`: a guess how many writes there will be."""
        database = table.database
        work = DecidedWrites(database, size, adds=adds)

        async def prepare(long_write: LongWrite) -> None:
            self._store.slices.discard(self._take())
            self.unsaved = []
            await collect(long_write)
            await self.save_blobs()
            is_keyless = self._is_keyless
            work.decide(self._take(), may_be_keyless=is_keyless)

        long_write = LongWrite(self._store, work, {table: table.definition}, self.user, self.operation, self.trace_id)
        long_write.prepare = prepare
        try:
            await long_write.run()
        except BaseException:
            if work.list is not None:
                self.failed_at, self.failed_key = work.list.at, work.list.key_at
            raise
        self.databases = (database,)
        self.version, self.skipped = long_write.version, long_write.skipped
        self.deleted, self.assigned = (0, []) if work.list is None else (work.list.deleted, work.list.assigned)

    def with_assigned(self, keys: list[Key | None]) -> list[Key]:
        """The keys of all records that were added, in their order, once they are applied: `assigned` in place of each None."""
        assigned = iter(self.assigned)
        return [next(assigned) if key is None else key for key in keys]

    @property
    def _is_in_one_database(self) -> bool:
        return len({table.database for table in self._tables}) == 1

    def _databases(self) -> tuple[Database, ...]:
        """Of the writes, in the order in which they are first written to."""
        if len(self._tables) == 1:
            return (next(iter(self._tables)).database,)
        return tuple(dict.fromkeys(table.database for table in self._tables))

    def _take(self) -> list[Write]:
        """The writes, which are no longer waiting."""
        writes, self._writes, self._tables, self._is_keyless = self._writes, [], {}, False
        self._keys, self.may_cascade, self._rechecks = set(), False, []
        self.previews.clear()
        return writes

    def abort(self) -> None:
        """Forget what was collected; further writes are an error. What was applied is not affected."""
        self._store.slices.discard(self._take())
        self._aborted = True


def _look_at_nothing(txn: Txn) -> None:
    pass


def _write_each(work: list[tuple[Any, list[Write]]], holder: object) -> Awaitable[None] | None:
    for number, (caching, writes) in enumerate(work):
        waiting: Awaitable[None] | None = caching.write_through(writes, holder)
        if waiting is not None:
            return _write_rest(waiting, work[number + 1 :], holder)
    return None


async def _write_rest(waiting: Awaitable[None], work: list[tuple[Any, list[Write]]], holder: object) -> None:
    await waiting
    rest = _write_each(work, holder)
    if rest is not None:
        await rest


def _require_space(database: Database, writes: list[Write]) -> None:
    """Raise NoSpace if one of the writes adds something to a database that has no space left but the reserve."""
    if any(write.adds and write.table.database is database for write in writes):
        database.require_space()


def _rollback(sets: list[WriteSet]) -> None:
    for write_set in sets:
        write_set.rollback()
