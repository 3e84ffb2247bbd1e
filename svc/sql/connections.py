"""Connections of SQLite: each has the tables of one kind of caller, and belongs to one running statement at a time (spec: sql §6, §8).

What a caller may not read is not declared on the connection, so a connection is never shared by callers who differ in that. Nothing is stored in it, and
no statement can change it: the authorizer lets SELECT pass and nothing else, from the end of `__init__` on but for our own declarations.
"""

from __future__ import annotations

import atexit
import contextlib
import weakref
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any

import apsw

from svc.clock import Clock
from svc.sql.bound import BoundQuery
from svc.sql.catalogue import ColumnView, StatementSource, TableView
from svc.sql.functions import WorkMeter, register
from svc.sql.limits import MAX_COLUMNS, MAX_COMPOUND, MAX_PARAMETER
from svc.sql.options import SqlOptions
from svc.sql.tables.module import SpecialTable, TableModules
from svc.sql.work import CHECKED, Work

MOST_IDLE = 16  # connections that wait for a statement
STATEMENTS = 128  # prepared ones that a connection keeps
_LONGEST_STATEMENT = 4 << 20  # bytes, once names are qualified
_LONGEST_PATTERN = 1000
_VALUES = 4  # of the greatest length, that a statement may hold at one time

_ALLOWED = frozenset((apsw.SQLITE_SELECT, apsw.SQLITE_READ, apsw.SQLITE_FUNCTION, apsw.SQLITE_RECURSIVE))


class Connection:
    """`modules`: its tables."""

    __slots__ = ("__weakref__", "_declared", "_is_declaring", "_meter", "_work", "db", "key", "modules")

    def __init__(self, key: Hashable, options: SqlOptions, clock: Clock) -> None:
        self.key = key
        self._work: Work | None = None
        self._meter = WorkMeter(clock)  # of functions
        self._declared: Sequence[TableView | SpecialTable] | None = None  # by the last statement
        self._is_declaring = True
        db = self.db = apsw.Connection(":memory:", statementcachesize=STATEMENTS)
        db.execute("PRAGMA temp_store=memory; PRAGMA cell_size_check=0")
        for option, value in (
            (apsw.SQLITE_DBCONFIG_DQS_DML, 0),
            (apsw.SQLITE_DBCONFIG_DQS_DDL, 0),
            (apsw.SQLITE_DBCONFIG_DEFENSIVE, 1),
            (apsw.SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0),
            (apsw.SQLITE_DBCONFIG_ENABLE_TRIGGER, 0),
            (apsw.SQLITE_DBCONFIG_ENABLE_VIEW, 0),
        ):
            db.config(option, value)
        for limit, most in (
            (apsw.SQLITE_LIMIT_LENGTH, options.max_memory // _VALUES),
            (apsw.SQLITE_LIMIT_SQL_LENGTH, _LONGEST_STATEMENT),
            (apsw.SQLITE_LIMIT_COLUMN, MAX_COLUMNS),
            (apsw.SQLITE_LIMIT_COMPOUND_SELECT, MAX_COMPOUND),
            (apsw.SQLITE_LIMIT_VARIABLE_NUMBER, MAX_PARAMETER),
            (apsw.SQLITE_LIMIT_LIKE_PATTERN_LENGTH, _LONGEST_PATTERN),
        ):
            db.limit(limit, most)
        self.modules = TableModules(db)
        register(db, self._meter)
        db.set_progress_handler(self._is_over, CHECKED)
        self.modules.on_rows = self._count_rows
        db.authorizer = self._authorize
        self._is_declaring = False
        _open.add(self)

    def _authorize(self, action: int, *names: Any) -> int:
        return int(apsw.SQLITE_OK if self._is_declaring or action in _ALLOWED else apsw.SQLITE_DENY)

    @property
    def work(self) -> Work | None:
        """Of the piece of work under way."""
        return self._work

    @work.setter
    def work(self, work: Work | None) -> None:
        if work is not None:
            if work.worked:
                self._meter.resume(work.deadline - work.began, work.late)
            else:
                self._meter.begin(work.wall_ms, work.deadline - work.began, work.options.max_memory, work.late)
        self._work = work

    def _is_over(self) -> bool:
        work = self._work
        if work is None:
            return False
        self._let_others(work)
        return work.is_over()

    def _count_rows(self, number: int) -> None:
        if self._work is not None:
            self._let_others(self._work)
            self._work.check()

    def _let_others(self, work: Work) -> None:
        waited = work.let_others()
        if waited:
            self._meter.extend(waited)

    def declare(self, views: Sequence[TableView | SpecialTable], given: Mapping[str, tuple[ColumnView, ...]] | None = None) -> None:
        """Make these tables known. On the loop."""
        if views is self._declared and not given:
            return
        self._declared = None
        self._is_declaring = True
        try:
            self.modules.declare(*views)
            for name, columns in (given or {}).items():
                self.modules.declare_given(name, columns)
        finally:
            self._is_declaring = False
        self._declared = views

    def begin(self, query: BoundQuery, source: StatementSource) -> None:
        """Read `source` from now on, for a query."""
        self.modules.source = source
        self.modules.is_plain = query.is_plain

    def close(self) -> None:
        _open.discard(self)
        self.db.close(True)


class ConnectionPool:
    """Idle connections by the key of a catalogue, the one used last at the end."""

    def __init__(self, make: Callable[[Hashable], Connection]) -> None:
        self._make = make
        self._idle: list[Connection] = []
        self.is_closed = False

    def take(self, key: Hashable) -> Connection:
        for place in range(len(self._idle) - 1, -1, -1):
            if self._idle[place].key == key:
                return self._idle.pop(place)
        return self._make(key)

    def give_back(self, connection: Connection) -> None:
        connection.modules.source = None
        if self.is_closed:
            connection.close()
            return
        self._idle.append(connection)
        if len(self._idle) > MOST_IDLE:
            self._idle.pop(0).close()

    def __len__(self) -> int:
        return len(self._idle)

    def close(self) -> None:
        self.is_closed = True
        while self._idle:
            self._idle.pop().close()


_open: weakref.WeakSet[Connection] = weakref.WeakSet()


@atexit.register
def _close_all() -> None:
    """A connection with virtual tables that is collected while the interpreter ends crashes it (apsw 3.54)."""
    for connection in list(_open):
        with contextlib.suppress(Exception):
            connection.close()
