"""The 403 of the operations API: everything that stands against a call, together (spec: security §6)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from svc.auth.roles import TableRights
from svc.auth.users import User
from svc.errors import Refusal
from svc.store.values.conversion import printable

REFUSED = "This operation is not authorized due to role restrictions and/or invalid database items"


class Violations:
    """Collects; false as long as nothing stands against the call. `database`, `table`, `name`: as sent."""

    __slots__ = ("_attributes", "_invalid", "_tables", "_texts")

    def __init__(self) -> None:
        self._texts: dict[str, None] = {}
        self._tables: dict[tuple[str, str], list[str]] = {}  # -> missing rights
        self._attributes: dict[tuple[str, str], dict[str, list[str]]] = {}  # -> attribute -> missing rights
        self._invalid: dict[str, None] = {}

    def __bool__(self) -> bool:
        return bool(self._texts or self._tables or self._invalid)

    def add_text(self, text: str) -> None:
        self._texts[text] = None

    def add_table(self, database: str, table: str, rights: Iterable[str]) -> None:
        missing = self._tables.setdefault((database, table), [])
        missing += [right for right in rights if right not in missing]

    def add_attribute(self, database: str, table: str, name: str, rights: Iterable[str]) -> None:
        self._tables.setdefault((database, table), [])
        missing = self._attributes.setdefault((database, table), {}).setdefault(name, [])
        missing += [right for right in rights if right not in missing]

    def add_missing_database(self, database: str) -> None:
        self._invalid[f"database '{printable(database)}' does not exist"] = None

    def add_missing_table(self, database: str, table: str) -> None:
        self._invalid[f"Table '{printable(database)}.{printable(table)}' does not exist"] = None

    def add_missing_attribute(self, database: str, table: str, name: str) -> None:
        self._invalid[f"Attribute '{printable(name)}' does not exist on '{database}.{table}'"] = None

    def check_attributes(self, database: str, table: str, may: TableRights, names: Iterable[str], rights: tuple[str, ...]) -> None:
        """Collect what is wrong with the use of these attributes of a table; nothing is where they follow the rights on the table.

        One without any right is reported as missing: a caller does not learn of attributes it has no rights to.
        """
        if may.attributes is None and may.readable is None:
            return
        for name in names:
            given = may.attribute(name)
            if not (given.read or given.insert or given.update):
                self.add_missing_attribute(database, table, name)
            else:
                missing = [right for right in rights if not getattr(given, right)]
                if missing:
                    self.add_attribute(database, table, name, missing)

    def refusal(self) -> Refusal:
        entries: list[Any] = list(self._texts)
        for (database, table), rights in self._tables.items():
            attributes = self._attributes.get((database, table), {})
            entries.append(
                {
                    "schema": database,
                    "table": table,
                    "required_table_permissions": rights,
                    "required_attribute_permissions": [
                        {"attribute_name": name, "required_permissions": missing} for name, missing in attributes.items()
                    ],
                }
            )
        return Refusal({"error": REFUSED, "unauthorized_access": entries, "invalid_schema_items": list(self._invalid)})

    def check(self) -> None:
        """Raise the Refusal unless nothing was collected."""
        if self:
            raise self.refusal()


def refused(text: str) -> Refusal:
    """For a single reason."""
    violations = Violations()
    violations.add_text(text)
    return violations.refusal()


def super_users_only(name: str) -> Refusal:
    """`name`: the operation as sent."""
    return refused(f"Operation '{printable(name)}' is restricted to 'super_user' roles")


def without_role(user: User) -> Refusal:
    return refused(f"User {printable(user.username)} has no role or permissions.  Please assign the user a valid role.")


def check_written_attributes(database: str, table: str, may: TableRights, names: Iterable[str], rights: tuple[str, ...]) -> None:
    """Raise the refusal unless these attributes of records may be written; for the columns of a load, which are known only in its job.

    `rights`: `("insert",)`, `("update",)` or both.
    """
    violations = Violations()
    violations.check_attributes(database, table, may, names, rights)
    violations.check()
