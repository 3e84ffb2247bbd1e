"""Rows of `$mqtt`: what sessions of MQTT keep beside the records of a database (spec: mqtt §7, schema-and-store §13).

They have no entries in the log, and no one is told of them. They are written at the end of the turn, before its commit, and so are in one commit with all
that the turn has written to the database before them. A row that must not be without a certain write, nor that without it, is written by the transaction of
that write (`Transaction.mqtt`).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Coroutine, Iterator
from typing import TYPE_CHECKING, Any

from svc.errors import Problem
from svc.store.disk.faults import LmdbError, store_problem
from svc.store.env import Txn, WriterBusy
from svc.store.writing.applied_batch import AppliedBatch, OnDone

if TYPE_CHECKING:
    from svc.store.database import Database

logger = logging.getLogger("svc.store")

Update = Callable[[bytes | None], bytes | None]
"""The row in place of that which is stored; None: there is none."""

MQTT_ROWS = {b"r": 11, b"o": 11, b"p": 9, b"g": 17}
"""Kinds of rows (`mqtt.rows`, `mqtt.shared`), and the size of their keys."""


class SideRows:
    """Of one database. Used on the thread of the loop alone."""

    def __init__(self, database: Database, spawn: Callable[[Coroutine[Any, Any, None]], object]) -> None:
        """`spawn`: runs a coroutine; for rows that have to wait until a long write is over."""
        self._database = database
        self._spawn = spawn
        self._rows: dict[bytes, bytes | None] = {}
        self._updates: list[tuple[bytes, Update]] = []
        self._told: list[OnDone] = []
        self._is_waiting = False

    def put(self, key: bytes, value: bytes, on_done: OnDone | None = None) -> None:
        """Write a row with the turn. `on_done`: called with None when it is on the disk, else with the problem that prevents it."""
        self._set(key, value, on_done)

    def delete(self, key: bytes, on_done: OnDone | None = None) -> None:
        self._set(key, None, on_done)

    def update(self, key: bytes, change: Update, on_done: OnDone | None = None) -> None:
        """Change a row with the turn, by what is stored then: also by other processes. It is called in the write transaction, behind `put` and `delete`."""
        self._updates.append((key, change))
        self._add(on_done)

    def _set(self, key: bytes, value: bytes | None, on_done: OnDone | None) -> None:
        self._rows[key] = value
        self._add(on_done)

    def _add(self, on_done: OnDone | None) -> None:
        if on_done is not None:
            self._told.append(on_done)
        if not self._is_waiting:
            self._database.store.late_rows[self] = None

    def write(self) -> None:
        """Called by the turn before its commit."""
        try:
            self._write()
        except WriterBusy:
            self._is_waiting = True
            self._spawn(self._write_later())

    async def _write_later(self) -> None:
        """After a long write."""
        database, store = self._database, self._database.store
        try:
            await store.write_when_free(lambda: (database,), self._write)
        except Problem as problem:
            store.undone(self._take()[2], problem)
        finally:
            self._is_waiting = False
            if self._rows or self._updates:
                store.late_rows[self] = None

    def _write(self) -> None:
        """Raises WriterBusy, with nothing done."""
        database, store = self._database, self._database.store
        try:
            store.open_writers((database,), wait=False)
        except Problem as problem:
            store.undone(self._take()[2], problem)
            return
        rows, updates, batch = self._take()
        child = None
        try:
            child = database.env.child()
            handle = database.mqtt_rows
            for key, value in rows.items():
                if value is None:
                    child.delete(key, b"", handle)
                else:
                    child.put(key, value, True, True, False, handle)
            is_changed = bool(rows)
            for key, change in updates:
                before = child.get(key, None, handle)
                before = None if before is None else bytes(before)
                value = _changed(change, before)
                if value == before:
                    continue
                is_changed = True
                if value is None:
                    child.delete(key, b"", handle)
                else:
                    child.put(key, value, True, True, False, handle)
            if not is_changed:
                child.abort()
                store.applied(batch)
                return
            database.env.commit_child(child)
        except (LmdbError, Problem) as error:
            if child is not None:
                child.abort()
            store.undone(batch, error if isinstance(error, Problem) else store_problem(error, database.env.path))
            return
        store.applied(batch)

    def _take(self) -> tuple[dict[bytes, bytes | None], list[tuple[bytes, Update]], AppliedBatch]:
        rows, updates, told = self._rows, self._updates, self._told
        self._rows, self._updates, self._told = {}, [], []
        return rows, updates, AppliedBatch(self._database, told)


def _changed(change: Update, before: bytes | None) -> bytes | None:
    try:
        return change(before)
    except (LmdbError, Problem):
        raise
    except Exception:  # a defect, which is not to undo what others write
        logger.exception("a row of MQTT could not be changed")
        return before


def scan_rows(database: Database, txn: Txn, prefix: bytes, *, behind: bytes = b"") -> Iterator[tuple[bytes, bytes]]:
    """(key, value) of the rows whose keys begin with `prefix`, in order. `behind`: a key, from behind which on."""
    cursor = txn.cursor(database.mqtt_rows)
    if cursor.set_range(behind + b"\0" if behind else prefix):
        for key, value in cursor.iternext():
            if not key.startswith(prefix):
                return
            yield key, value
