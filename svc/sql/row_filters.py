"""The records that are there for the caller of a statement, of tables whose records are narrowed by rules (spec: rows §1.3, §1.4).

Statements and connections are shared by all callers with one role, so what one of them sees is no part of these: it is asked of the source that the statement
reads, for each view that `is_narrowed`.

    RowFilters    of one statement: on the loop a filter is made for each view that it reads
    RowFilter     of one view: the rule with the values of the caller; other threads may use it
    SeenRecords   the same in one state of the table
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from svc.auth.users import User
from svc.errors import IndexRebuilding
from svc.query import plan_query
from svc.query.budget import Budget
from svc.query.execution import execute
from svc.query.functions import Filter
from svc.query.narrowing import view_of
from svc.query.nodes import Query
from svc.query.plan import Access, KeyRange, Plan, Union
from svc.query.relations import Lookups
from svc.query.row_guard import RowGuard
from svc.query.views import TableView as SeenTable
from svc.sql.catalogue import TableView
from svc.store.values.keys import encode_primary, storage_key

_ALL = Query()
_STEP = 64  # records that are found by the rule in one step


class RowFilters:
    """`user`: the caller, None: an anonymous one."""

    __slots__ = ("_filters", "_user")

    def __init__(self, user: User | None) -> None:
        self._user = user
        self._filters: dict[TableView, RowFilter] = {}

    def cover(self, views: Iterable[TableView]) -> None:
        """Before these are read; on the loop."""
        for view in views:
            if view.is_narrowed and view not in self._filters:
                self._filters[view] = RowFilter(self._user, view)

    def of(self, view: TableView) -> RowFilter:
        return self._filters[view]


class RowFilter:
    """`plan`: finds the records by an index, None: none serves the rule."""

    __slots__ = ("guard", "plan", "test", "view")

    def __init__(self, user: User | None, view: TableView) -> None:
        self.view = view
        table = view.table
        seen = view_of(user, table)
        self.test: Filter | bool = True
        self.guard = RowGuard(user) if view.action else None
        self.plan: Plan | None = None
        if type(seen) is SeenTable:
            seen.database.prepare()
            self.test = seen.test_of("read")
            self.plan = _plan_of(seen)


def _plan_of(seen: SeenTable) -> Plan | None:
    try:
        plan = plan_query(_ALL, seen, seen.table.database.snapshot(), allow_full_scan=True)
    except IndexRebuilding:
        return None
    return None if _is_scan(plan.access) else plan


def _is_scan(access: Access) -> bool:
    if isinstance(access, Union):
        return any(_is_scan(branch.access) for branch in access.branches)
    return isinstance(access, KeyRange) and access.low is None and access.high is None


class _CountedBudget(Budget):
    """Tells of related records before they are read."""

    __slots__ = ("_count",)

    def __init__(self, count: Callable[[int], object]) -> None:
        super().__init__()
        self._count = count

    def read(self, rows: int) -> None:
        self._count(rows)
        super().read(rows)


class SeenRecords:
    """As `txn` has them. `count`: is told how many records that are not the table's own are looked at; it may raise, to end what takes too long."""

    __slots__ = ("_count", "_filter", "_lookups", "_txn")

    def __init__(self, filter: RowFilter, txn: Any, count: Callable[[int], object]) -> None:
        self._filter = filter
        self._txn = txn
        self._count = count
        self._lookups = Lookups(txn, _CountedBudget(count))

    def of(self, raws: Sequence[bytes]) -> Sequence[bytes]:
        """Those of these records that are there, in their order. Raises QueryTooLarge if that takes too many related records."""
        test, lookups = self._filter.test, self._lookups
        if test is False:
            return ()
        if not isinstance(test, bool) and raws:
            pairs: Any = list(enumerate(raws))  # a filter tells records from each other by what is in the place of their keys
            raws = [raw for _, raw in test(pairs, lookups)]
            lookups.budget.end_batch()
        guard = self._filter.guard
        return raws if guard is None else [raw for raw in raws if self._may_write(guard, raw)]

    def _may_write(self, guard: RowGuard, raw: bytes) -> bool:
        """Whether the rule about the action of the view holds, too."""
        view = self._filter.view
        table = view.table
        may = guard.may_update if view.action == "update" else guard.may_delete
        return may(table, self._txn, storage_key(encode_primary(table.key_of(raw))), raw)

    def keys(self) -> Iterator[list[bytes]] | None:
        """The stored keys of all records that may be read, some at a time, in any order; None if no index has them together."""
        plan = self._filter.plan
        return None if plan is None else _keys_found(plan, self._txn, self._count)


def _keys_found(plan: Plan, txn: Any, count: Callable[[int], object]) -> Iterator[list[bytes]]:
    run = execute(plan, txn)
    examined = 0
    try:
        while not run.done:
            yield [stored for stored, _ in run.step_pairs(_STEP)]
            count(run.examined - examined)
            examined = run.examined
    finally:
        run.close()
