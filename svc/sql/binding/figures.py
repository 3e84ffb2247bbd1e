"""What is known of tables before a statement runs, for rewriting (spec: sql §9)."""

from __future__ import annotations

from typing import Protocol

from svc.sql.catalogue import TableView
from svc.sql.tables.index_only import CountView, GroupsView, can_group


class Figures(Protocol):
    def record_count(self, view: TableView) -> int:
        """About how many records the table has."""

    def size(self, view: TableView) -> int:
        """About how many bytes the records take."""

    def groups(self, view: TableView, attribute: str) -> GroupsView | None:
        """The values of an attribute with the number of records that have each, null included; None if no index has these."""

    def count(self, view: TableView) -> CountView:
        """The number of records, as a table with one row."""


class StoreFigures:
    """Of the tables as they are in this turn."""

    def record_count(self, view: TableView) -> int:
        return view.table.entry_count(view.table.database.snapshot())

    def size(self, view: TableView) -> int:
        found = view.table.database.snapshot().stat(view.table.primary)
        return int(found["psize"] * (found["leaf_pages"] + found["overflow_pages"]))

    def groups(self, view: TableView, attribute: str) -> GroupsView | None:
        return GroupsView(view, view.by_name[attribute]) if can_group(view, attribute) else None

    def count(self, view: TableView) -> CountView:
        return CountView(view)
