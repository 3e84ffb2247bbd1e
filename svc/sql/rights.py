"""The tables as one caller sees them (spec: sql §6)."""

from __future__ import annotations

from collections.abc import Collection, Hashable
from typing import Any

from svc.auth.roles import ALL_RIGHTS, NO_RIGHTS, Role, TableRights
from svc.auth.users import User
from svc.errors import NotFound, Problem
from svc.query.hints import did_you_mean
from svc.query.narrowing import guard_of
from svc.query.row_guard import RowGuard
from svc.sql.binding.walking import walk
from svc.sql.catalogue import TableView
from svc.sql.errors import MissingRights, unknown_column
from svc.sql.nodes import TableRef
from svc.sql.tables.views import table_view
from svc.store import Store, Table
from svc.store.schema import TableDefinition
from svc.store.system import SYSTEM

MOST_VIEWS = 1024  # that are remembered


class TableViews:
    """Views of tables, shared by all callers who may read the same."""

    def __init__(self, store: Store) -> None:
        self.store = store
        # With code of the system database rights are limited as a super user's are: passwords are never shown.
        self.super_role = Role("super_user", "super_user", {"super_user": True}, databases=store.databases)
        self._views: dict[tuple[Table, frozenset[str] | None, bool, str], tuple[TableDefinition, TableView]] = {}

    def view(self, table: Table, readable: frozenset[str] | None, *, is_narrowed: bool = False, action: str = "") -> TableView:
        place = (table, readable, is_narrowed, action)
        known = self._views.get(place)
        if known is not None and known[0] is table.definition and known[1].is_current:
            return known[1]
        if len(self._views) >= MOST_VIEWS:
            self._views.clear()
        made = table_view(table, readable, is_narrowed=is_narrowed, action=action)
        self._views[place] = (table.definition, made)
        return made


class UserCatalogue:
    """What a user may see; `is_checked` False: everything, as code of applications does."""

    def __init__(self, views: TableViews, user: User | None, *, is_checked: bool) -> None:
        self._views = views
        self._store = views.store
        self._user = user
        role: Role | None
        if not is_checked:
            role = views.super_role
        else:
            role = None if user is None else user.role
            if role is None:
                role = self._store.anonymous_role()
        self._role = role
        self.key: Hashable = role  # another one when anything of it changes

    def view(self, database: str, table: str, at: int = -1) -> TableView:
        found = self._find(database, table, at)
        may = self.rights(found)
        if not may.read:
            raise self._lacks(found, "read", "")
        return self._views.view(found, may.readable, is_narrowed=may.rows is not None and _narrows(may.rows.read))

    def view_to_write(self, database: str, table: str, action: str, at: int = -1) -> TableView:
        seen = self.view(database, table, at)
        rows = self.rights(seen.table).rows
        if rows is None or not _narrows(getattr(rows, action)):
            return seen
        return self._views.view(seen.table, self.rights(seen.table).readable, is_narrowed=True, action=action)

    def row_guard(self, table: Table) -> RowGuard | None:
        return None if self._role is None or self._role.super_user else guard_of(self._user, table)

    def table(self, database: str, table: str, at: int = -1) -> Table:
        return self._find(database, table, at)

    def _find(self, database: str, table: str, at: int) -> Table:
        """A table that the caller has any right on: for the names of statements there are no others."""
        owner = self._store.find_database(database)
        found = None
        if owner is not None:
            found = owner.tables.get(table)
            if found is None or not self.rights(found).any:
                name = _in_any_case(table, [each.name for each in owner.tables.values() if self.rights(each).any])
                found = owner.tables.get(name)
        if found is None:
            if self._sees_all(database):
                if owner is None:
                    raise NotFound(f"database '{database}' does not exist{self._hint(database, self._store.databases)}")
                raise NotFound(f"Table '{database}.{table}' does not exist{self._hint(table, owner.tables)}")
            raise MissingRights(self._user, [(database, table, "read", "")], is_hidden=True)
        return found

    def _sees_all(self, database: str) -> bool:
        return self._role is not None and self._role.super_user

    @staticmethod
    def _hint(name: str, names: Any) -> str:
        hint = did_you_mean(name, names)
        return f" ({hint})" if hint else ""

    def rights(self, table: Table) -> TableRights:
        if self._role is None:
            return NO_RIGHTS
        database = table.database.name
        if self._role is self._views.super_role and database != SYSTEM:
            return ALL_RIGHTS
        return self._role.rights(database, table.name)

    def column_missing(self, view: TableView, name: str, at: int) -> Exception:
        table = view.table
        others = [
            attribute.name
            for attribute in table.definition.attributes
            if attribute.relationship is None and attribute.name not in view.by_name
        ]
        given = {other: self.rights(table).attribute(other) for other in others}
        # What the caller may not write either is not known to it, and is told of as one that does not exist.
        meant = _in_any_case(name, [other for other, right in given.items() if right.insert or right.update])
        if meant:
            return self._lacks(table, "read", meant)
        shown = view.table.name
        return unknown_column(f"{shown}.{name}", did_you_mean(name, view.by_name), at)

    def _lacks(self, table: Table, right: str, attribute: str) -> MissingRights:
        return MissingRights(self._user, [(table.database.name, table.name, right, attribute)])

    def databases(self) -> list[str]:
        return sorted(
            name for name, database in self._store.databases.items() if any(self.rights(table).read for table in database.tables.values())
        )


class FoundTables:
    """A catalogue for a thread: what a statement names has been looked for already, on the loop. All else needs nothing of the loop."""

    def __init__(self, catalogue: UserCatalogue, statement: object) -> None:
        self.key = catalogue.key
        self.rights, self.column_missing, self.databases = catalogue.rights, catalogue.column_missing, catalogue.databases
        self.view_to_write, self.row_guard = catalogue.view_to_write, catalogue.row_guard
        self._found: dict[tuple[str, str], TableView | Problem] = {}
        for node in walk(statement):
            if type(node) is TableRef and node.database and (node.database, node.name) not in self._found:
                try:
                    self._found[node.database, node.name] = catalogue.view(node.database, node.name, node.at)
                except Problem as fault:
                    self._found[node.database, node.name] = fault

    def view(self, database: str, table: str, at: int = -1) -> TableView:
        found = self._found[database, table]
        if isinstance(found, Problem):
            raise found
        return found

    def table(self, database: str, table: str, at: int = -1) -> Table:
        """Only what is written to is asked for without being read, and that is not bound here."""
        return self.view(database, table, at).table


def _narrows(rules: Collection[str] | None) -> bool:
    """Whether there may be records for which none of these rules holds."""
    return rules is not None and not any(rule.strip() == "true" for rule in rules)


def _in_any_case(name: str, names: Collection[str]) -> str:
    """The one of these names that is meant: this one, else the only one that differs from it in upper and lower case only; "" if there is none."""
    if name in names:
        return name
    folded = name.casefold()
    others = [known for known in names if known.casefold() == folded]
    return others[0] if len(others) == 1 else ""
