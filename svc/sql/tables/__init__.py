"""The tables of svc as virtual tables of SQLite: read-only, where they are, one state of each (spec: sql §9).

    views -> shape          which columns there are, how SQLite is told of them, what their keys and indexes serve
    values, row_forms       what a record holds -> what SQLite computes with, and the exact value beside it
    spans                   a comparison -> the ranges of keys in which everything lies that fulfils it
    access -> plans         SQLite asks for the best way through a table; the plan is a text that it keeps
    read_state              what the running statement reads, and how many entries there are, about
    finding -> cursors      a plan -> records -> rows
    index_only, given       counts and groups that an index knows, rows that a statement is given: as tables
    module                  all of it for one connection

No thread but the one that runs the statement takes part; the loop is needed to declare tables.
"""

from __future__ import annotations

from svc.sql.tables.index_only import CountView, GroupsView, can_group
from svc.sql.tables.module import TableModules
from svc.sql.tables.plans import explained
from svc.sql.tables.values import exact_value, from_exact, sql_value
from svc.sql.tables.views import table_view

__all__ = ["CountView", "GroupsView", "TableModules", "can_group", "exact_value", "explained", "from_exact", "sql_value", "table_view"]
