"""Whom rules on rows narrow: asked by all that reads and writes for a caller (spec: rows §1). What rules are is imported with the first caller they narrow."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeGuard, cast

from svc.auth.roles import narrowing_role
from svc.auth.users import User
from svc.query.tables import AnyTable

if TYPE_CHECKING:
    from svc.query.row_guard import RowGuard
    from svc.query.views import TableView
    from svc.store import Table


class View:
    """What `views.TableView` is, for those who have to tell it from a table."""

    __slots__ = ()


def is_view(table: AnyTable) -> TypeGuard[TableView]:
    """Whether a table is shown as a caller may see it."""
    return isinstance(table, View)


def view_of(user: User | None, table: AnyTable, also: str | None = None) -> AnyTable:
    """The table as the caller may see it, to plan queries for; itself, if nothing of its database is narrowed for the caller. `also`: an action whose rule has
    to hold, too: what may be updated, or deleted."""
    role = None if user is None else user.role
    if role is None:
        role = narrowing_role(user, table)
    if role.super_user or not role.is_narrowed(table.database):
        return table
    from svc.query.views import READ, database_view

    view = database_view(user, role, table.database, table.name)
    return view.table(cast("Table", table), READ if also is None else ("read", also))


def real_table(table: AnyTable) -> AnyTable:
    """The table itself, of a view of it."""
    return table.table if is_view(table) else table


def is_narrowed(user: User | None, table: AnyTable) -> bool:
    """Whether anything in the database of a table is narrowed for the caller."""
    role = narrowing_role(user, table)
    return not role.super_user and role.is_narrowed(table.database)


def guard_of(user: User | None, table: AnyTable) -> RowGuard | None:
    """What writes to a table by this caller have to ask. None: nothing in the database is narrowed for the caller."""
    role = None if user is None else user.role
    if role is None:
        role = narrowing_role(user, table)
    if role.super_user or not role.is_narrowed(table.database):
        return None
    from svc.query.row_guard import RowGuard

    return RowGuard(user)
