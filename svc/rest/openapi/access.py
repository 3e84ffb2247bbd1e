"""What a caller may do at the addresses of an application, for the description of them (spec: http §10.2, security §5.6).

The document of a caller is right as long as the definitions and the rights are those that it was made of, so `View` keeps what it was asked.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import cast

from svc.auth.roles import TableRights, rights
from svc.auth.users import User
from svc.errors import QueryError
from svc.query.resolve import related_table
from svc.resources import Registration, TableResource
from svc.store import Table
from svc.store.schema import Attribute, TableDefinition

DESCRIBED_VERBS = ("get", "put", "patch", "post", "delete")
"""The verbs that OpenAPI 3.0 has a word for."""
_OWN = {"get": "allow_read", "put": "allow_update", "patch": "allow_update", "post": "allow_create", "delete": "allow_delete"}


@dataclass(frozen=True, slots=True)
class TableAccess:
    """A table as one caller sees it, in the order of its definition. `readable`: what answers show, relationships to what may be read among it.
    `creatable`: what a new record may be given; `changeable`: what a record that exists may be given; without the key in both. `is_open`: properties that are
    not declared may be written."""

    definition: TableDefinition
    readable: tuple[Attribute, ...]
    creatable: tuple[Attribute, ...]
    changeable: tuple[Attribute, ...]
    is_open: bool

    @property
    def writable(self) -> tuple[Attribute, ...]:
        """What PUT and PATCH take, which make a record or change one."""
        if self.creatable == self.changeable:
            return self.creatable
        either = {attribute.name for attribute in (*self.creatable, *self.changeable)}
        return tuple(attribute for attribute in self.definition.attributes if attribute.name in either)


class View:
    """What `user` may see, None: without a login. `seen`: the tables that it was asked about, with what the answers depend on."""

    def __init__(self, user: User | None) -> None:
        self._user = user
        self._super_user = user is not None and user.super_user
        self.seen: dict[Table, tuple[TableDefinition, TableRights]] = {}
        self._accesses: dict[Table, TableAccess] = {}

    def is_current(self, user: User | None) -> bool:
        """Whether a user would see the same. Definitions are replaced, never changed."""
        for table, (definition, may) in self.seen.items():
            if table.definition is not definition:
                return False
            now = rights(user, table)
            if now is not may and now != may:
                return False
        return (user is not None and user.super_user) == self._super_user

    def rights(self, table: Table) -> TableRights:
        known = self.seen.get(table)
        if known is None:
            known = self.seen[table] = table.definition, rights(self._user, table)
        return known[1]

    def verbs(self, registration: Registration) -> frozenset[str]:
        """Those of `DESCRIBED_VERBS` that the caller may use there, and those of which code of an application decides when there is a request."""
        resource = registration.resource
        own = resource.own_rights or frozenset()
        allowed = frozenset(DESCRIBED_VERBS if self._super_user else ())
        if issubclass(resource, TableResource):
            allowed = self._table_verbs(resource.table)
        return frozenset(verb for verb in DESCRIBED_VERBS if verb in resource.verbs and (verb in allowed or _OWN[verb] in own))

    def _table_verbs(self, table: Table) -> frozenset[str]:
        may = self.rights(table)
        found = {"delete"} if may.delete else set()
        if may.read:
            found.add("get")
        if may.insert:
            found.add("post")
        if may.insert or may.update:
            found |= {"put", "patch"}
        return frozenset(found)

    def table(self, table: Table) -> TableAccess:
        access = self._accesses.get(table)
        if access is None:
            access = self._accesses[table] = self._access(table)
        return access

    def _access(self, table: Table) -> TableAccess:
        may, definition = self.rights(table), table.definition
        shown = [attribute for attribute in definition.attributes if not attribute.hidden]
        stored = [attribute for attribute in shown if attribute.stored and attribute.name != definition.primary_key]
        visible = may.readable
        readable = [each for each in shown if (visible is None or each.name in visible) and self._is_reachable(table, each)]
        if may.attributes is None:
            return TableAccess(
                definition,
                tuple(readable) if may.read else (),
                tuple(stored) if may.insert else (),
                tuple(stored) if may.update else (),
                not definition.sealed and (may.insert or may.update),
            )
        return TableAccess(
            definition,
            tuple(readable) if may.read else (),
            tuple(each for each in stored if may.attribute(each.name).insert),
            tuple(each for each in stored if may.attribute(each.name).update),
            False,
        )

    def _is_reachable(self, table: Table, attribute: Attribute) -> bool:
        """Whether a value can be shown: of a relationship only if the caller may read the other table."""
        related = related_of(table, attribute)
        return related is None or self.rights(related).read


def related_of(table: Table, attribute: Attribute) -> Table | None:
    """The table that a relationship leads to, None if there is no such table, or for any other attribute."""
    if attribute.relationship is None:
        return None
    try:
        return cast(Table, related_table(table, attribute))
    except QueryError:
        return None


def tables_of(registrations: Iterable[Registration]) -> list[Table]:
    """The tables that are exported, and those that relationships lead to."""
    found: dict[Table, None] = {}
    waiting = [each.resource.table for each in registrations if issubclass(each.resource, TableResource)]
    while waiting:
        table = waiting.pop()
        if table not in found:
            found[table] = None
            for attribute in table.definition.attributes:
                related = related_of(table, attribute)
                if related is not None:
                    waiting.append(related)
    return list(found)
