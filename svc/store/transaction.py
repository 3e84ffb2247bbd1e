"""The writes of one request: collected first, applied together, committed with the turn (contract: schema-and-store §8).

    begin --put, patch, delete--> collecting --apply--> applied --the turn's commit--> on_done(None), or on_done(problem)
                                      |                    ^ undone alone if apply raises
                                      +------abort--> aborted

`apply` runs all writes in a child of each database's write transaction, within the call: LMDB allows one child at a time. What it raises
concerns this transaction only. Then the writes wait for the turn's one commit; until `on_done` they may still be lost, so no success may
be reported before it. Writes are added in the order in which they were asked for, and a later one sees the earlier.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from svc.errors import ClientError, Problem
from svc.store.env import LmdbError, store_problem
from svc.store.keys import Key, encode_primary
from svc.store.log import DELETE, PATCH, PUT
from svc.store.records import decode, encode
from svc.store.writes import CREATE, Precondition, WriteSet, merge

if TYPE_CHECKING:
    from svc.store.database import Database
    from svc.store.store import Store
    from svc.store.table import Table


@dataclass(slots=True)
class Write:
    """One write that is waiting to be applied. `data`: the record, the changes, or None for a delete."""

    kind: int
    table: Table
    key: bytes  # encoded, whole
    id: Key
    data: dict[str, Any] | None
    precondition: Precondition | None
    expires_at: float | None = None


class Transaction:
    """Made by `Store.begin`. `user`: the name that the log shows. `version`: ms, the same for all writes, given by `apply`.

    `on_done` is called once after each `apply` that succeeded, at the end of the turn: with None when the writes are on disk, else with
    the problem that undid them. After it the object may be used for further writes.
    """

    __slots__ = ("_aborted", "_store", "_writes", "databases", "on_done", "operation", "user", "version")

    def __init__(self, store: Store, user: str | None = None, operation: int = 0) -> None:
        self._store = store
        self._writes: list[Write] = []
        self._aborted = False
        self.databases: tuple[Database, ...] = ()  # that the last `apply` wrote to
        self.user = user
        self.operation = operation  # one of log.OPERATIONS, for the log
        self.version = 0.0
        self.on_done: Callable[[Problem | None], None] | None = None

    @property
    def has_writes(self) -> bool:
        """Whether writes wait to be applied."""
        return bool(self._writes)

    # -- collecting

    def put(
        self, table: Table, key: Key, record: dict[str, Any], precondition: Precondition | None = None, *, expires_at: float | None = None
    ) -> None:
        """Replace or make the record `key`. `record` has been validated and belongs to the transaction from now on.

        Its primary key becomes `key`, its time attributes are set when it is applied. `expires_at`: ms since the epoch.
        """
        self._collect(PUT, table, key, record, precondition, expires_at)

    def create(
        self, table: Table, key: Key | None, record: dict[str, Any], *, key_prefix: str = "", expires_at: float | None = None
    ) -> Key:
        """Make a record, under a new key if `key` is None; returns the key. `apply` raises RecordExists if there is such a record."""
        if key is None:
            key = self.new_key(table, prefix=key_prefix)
        self._collect(PUT, table, key, record, CREATE, expires_at)
        return key

    def patch(self, table: Table, key: Key, changes: dict[str, Any], precondition: Precondition | None = None) -> None:
        """Set these attributes and leave the others; `validation.Add` increments. Makes the record if there is none."""
        changes = {name: value for name, value in changes.items() if name != table.primary_key}
        self._collect(PATCH, table, key, changes, precondition, None)

    def delete(self, table: Table, key: Key, precondition: Precondition | None = None) -> None:
        """Remove the record if there is one."""
        self._collect(DELETE, table, key, None, precondition, None)

    def new_key(self, table: Table, *, prefix: str = "") -> Key:
        """A key that no record has (schema-and-store §6.5)."""
        return table.new_key(prefix)

    def _collect(
        self,
        kind: int,
        table: Table,
        key: Key,
        data: dict[str, Any] | None,
        precondition: Precondition | None,
        expires_at: float | None,
    ) -> None:
        if self._aborted:
            raise ClientError("The transaction was aborted, no more can be written with it")
        encoded = encode_primary(key)
        if data is not None and table.definition.dynamic:
            table.database.learn_attributes(table, data)
        if kind == PUT and data is not None:
            data[table.primary_key] = list(key) if type(key) is tuple else key
        self._writes.append(Write(kind, table, encoded, key, data, precondition, expires_at))

    # -- reading

    def get_raw(self, table: Table, key: Key) -> bytes | None:
        """The record as this transaction would leave it: as of the turn's snapshot, with what was collected so far."""
        raw = table.get_raw(key)
        if not self._writes:
            return raw
        encoded = encode_primary(key)
        for write in self._writes:
            if write.table is table and write.key == encoded:
                if write.data is None:
                    raw = None
                    continue
                record = write.data
                if write.kind == PATCH:
                    record = merge({} if raw is None else decode(raw), record)
                    record.setdefault(table.primary_key, list(key) if type(key) is tuple else key)
                raw = encode(record, self.version, 0, write.expires_at)
        return raw

    # -- ending

    def apply(self) -> None:
        """Carry out what was collected, as part of the turn. Raises the Problem that prevents it, with nothing done."""
        if self._aborted:
            raise ClientError("The transaction was aborted, nothing of it can be applied")
        writes, self._writes = self._writes, []
        store = self._store
        if not writes:
            self.databases = ()
            store.applied(self)
            return
        database = writes[0].table.database
        databases: tuple[Database, ...] = (database,)
        if any(write.table.database is not database for write in writes):
            databases = tuple(dict.fromkeys(write.table.database for write in writes))
        store.open_writers(databases)
        for database in databases:
            if database.env.is_low and any(write.data is not None and write.table.database is database for write in writes):
                database.require_space()
        self.version = version = store.next_version()
        wall_ms = store.clock.wall() * 1000
        sets: list[WriteSet] = []
        try:
            for database in databases:
                sets.append(WriteSet(database, version, wall_ms, self.user, self.operation))
                for write in writes:
                    table = write.table
                    if table.database is not database:
                        continue
                    if write.data is None:
                        sets[-1].delete(table, write.key, write.precondition)
                    elif write.kind == PUT:
                        sets[-1].put(table, write.key, write.data, write.precondition, write.expires_at)
                    else:
                        sets[-1].patch(table, write.key, write.id, write.data, write.precondition)
        except BaseException as error:
            for write_set in sets:
                write_set.undo()
            if isinstance(error, LmdbError):
                raise store_problem(error, database.env.path) from error
            raise
        while sets:
            try:
                sets.pop(0).keep()
            except BaseException:
                for write_set in sets:
                    write_set.undo()
                raise
        self.databases = databases
        store.applied(self)

    def abort(self) -> None:
        """Forget what was collected; further writes are an error. What was applied is not affected."""
        self._writes = []
        self._aborted = True
