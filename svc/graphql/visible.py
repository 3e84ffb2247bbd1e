"""What a caller may see of the exported resources, as plain data (spec: graphql §8.2).

Made on the loop, for rights and definitions live there; what is made of it, a schema, can be made elsewhere. `@hidden` and names that GraphQL has no place for
are left out.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable
from dataclasses import dataclass, replace
from enum import IntEnum

from svc.auth.roles import TableRights, rights
from svc.auth.users import User
from svc.errors import QueryError
from svc.graphql.names import Names, is_name
from svc.query.resolve import is_many, related_table
from svc.query.tables import AnyTable
from svc.resources import Registration, TableResource
from svc.store.schema import SCALAR_TYPES, Attribute, Enumeration

ANY = "Any"
CHANGES = ("post", "put", "patch", "delete")
"""Verbs that are mutations."""
_RIGHTS = {"post": "allow_create", "put": "allow_update", "patch": "allow_update", "delete": "allow_delete"}


class Kind(IntEnum):
    SCALAR, EMBEDDED, RELATED = range(3)


@dataclass(frozen=True, slots=True)
class VisibleAttribute:
    """`type`: the name of its type in GraphQL. `is_list`: of such. `is_condition`: conditions may speak of it."""

    name: str
    type: str
    kind: Kind
    is_list: bool
    is_key: bool
    is_condition: bool
    description: str
    enum: tuple[str, Enumeration] | None = None  # the name of the type that its strings are values of, in the extended form


@dataclass(frozen=True, slots=True)
class VisibleType:
    """The records of a table, or an embedded type. `key`: the name of the primary key. `inputs`: what may be written."""

    name: str
    description: str
    attributes: tuple[VisibleAttribute, ...]
    inputs: tuple[VisibleAttribute, ...]
    key: VisibleAttribute | None = None


@dataclass(frozen=True, slots=True)
class VisibleResource:
    """A field at the top level. `record` None: nothing is known of what it answers with but `properties`. `is_live`: its list can be
    followed."""

    name: str
    type: str
    record: VisibleType | None
    properties: tuple[str, ...]
    is_live: bool
    is_readable: bool
    changes: tuple[str, ...]


@dataclass(slots=True)
class Visible:
    """`types`: of tables and embedded ones, by name."""

    resources: list[VisibleResource]
    types: dict[str, VisibleType]

    @property
    def enum_names(self) -> set[str]:
        records = [*self.types.values(), *[resource.record for resource in self.resources if resource.record is not None]]
        return {each.enum[0] for record in records for each in (*record.attributes, *record.inputs) if each.enum is not None}


def visible_resources(names: Names, user: User | None) -> Generator[None, None, Visible]:
    """What `user` may see; in steps, a resource or a table each."""
    return (yield from _View(names, user).steps())


def may_do_anything(names: Names, user: User) -> bool:
    """Whether some exported resource may answer `user`: where code of an application decides, it may. O(resources)."""
    for registration in names.all().values():
        resource = registration.resource
        if user.super_user or resource.own_rights or (issubclass(resource, TableResource) and rights(user, resource.table).any):
            return True
    return False


class _View:
    def __init__(self, names: Names, user: User | None) -> None:
        self._names = names
        self._user = user
        self._super_user = user is not None and user.super_user
        self._types: dict[str, VisibleType] = {}
        self._rights: dict[int, TableRights] = {}
        self._waiting: list[AnyTable] = []  # tables that relationships lead to
        self._known: set[int] = set()

    def steps(self) -> Generator[None, None, Visible]:
        found: list[VisibleResource] = []
        for name, registration in list(self._names.all().items()):
            each = None if registration.fault else self._resource(name, registration)
            if each is not None:
                found.append(each)
            yield
        while self._waiting:
            table = self._waiting.pop()
            visible = self._record(table, self._names.type_name(table))
            self._types[visible.name] = visible
            yield
        return Visible(found, self._types)

    # --- resources -------------------------------------------------------------------------------------------------------------------

    def _resource(self, name: str, registration: Registration) -> VisibleResource | None:
        resource = registration.resource
        if issubclass(resource, TableResource):
            return self._table_resource(name, registration, resource)
        own = resource.own_rights or frozenset()  # of those that code lets do it, or may let: it is asked for each request
        changes = tuple(verb for verb in CHANGES if verb in resource.verbs and (self._super_user or _RIGHTS[verb] in own))
        is_readable = "get" in resource.verbs and (self._super_user or "allow_read" in own)
        if not is_readable and not changes:
            return None
        properties = tuple(each for each in resource.properties if is_name(each))
        return VisibleResource(name, self._names.name_of(registration), None, properties, False, is_readable, changes)

    def _table_resource(self, name: str, registration: Registration, resource: type[TableResource]) -> VisibleResource | None:
        table = resource.table
        if table.definition.hidden:
            return None
        may = self._rights_of(table)
        record = self._record(table, self._names.name_of(registration))
        own = resource.own_rights or frozenset()  # code decides these, the role the others
        is_writable = bool(record.inputs)
        creates = "allow_create" in own or (may.insert and is_writable)
        writes = creates or "allow_update" in own or (may.update and is_writable)
        allowed = {"post": creates, "put": writes, "patch": writes, "delete": "allow_delete" in own or may.delete}
        is_readable = "allow_read" in own or self._is_visible(table)
        changes = tuple(verb for verb in CHANGES if verb in resource.verbs and allowed[verb])
        if not is_readable and not changes:
            return None
        if not record.attributes:  # code of an application may show more; of a record that is written its key is shown
            key = self._attribute(table.attributes.get(table.primary_key), table)
            if key is None:
                return None
            record = replace(record, attributes=(key,), key=key)
        if not hasattr(resource, "application"):
            self._types[record.name] = record
            self._known.add(id(table))
        return VisibleResource(name, record.name, record, (), resource.realtime is not None, is_readable, changes)

    # --- types -----------------------------------------------------------------------------------------------------------------------

    def _rights_of(self, table: AnyTable) -> TableRights:
        found = self._rights.get(id(table))
        if found is None:
            found = self._rights[id(table)] = rights(self._user, table)
        return found

    def _readable(self, table: AnyTable) -> list[Attribute]:
        may = self._rights_of(table)
        if not may.read:
            return []
        return [
            attribute
            for attribute in table.definition.attributes
            if (may.readable is None or attribute.name in may.readable) and not attribute.hidden and is_name(attribute.name)
        ]

    def _is_visible(self, table: AnyTable) -> bool:
        return not table.definition.hidden and any(attribute.relationship is None for attribute in self._readable(table))

    def _record(self, table: AnyTable, name: str) -> VisibleType:
        found = [each for attribute in self._readable(table) if (each := self._attribute(attribute, table)) is not None]
        key = next((each for each in found if each.is_key), None)
        return VisibleType(name, table.definition.description, tuple(found), tuple(self._inputs(table)), key)

    def _inputs(self, table: AnyTable) -> Iterable[VisibleAttribute]:
        may = self._rights_of(table)
        if not (may.insert or may.update):
            return
        for attribute in table.definition.attributes:
            right = None if may.attributes is None else may.attributes.get(attribute.name)
            if may.attributes is not None and (right is None or not (right.insert or right.update)):
                continue
            if attribute.stored and attribute.name not in may.managed and not (attribute.created_time or attribute.updated_time):
                found = self._attribute(attribute, table)
                if found is not None:
                    yield found

    def _attribute(self, attribute: Attribute | None, table: AnyTable) -> VisibleAttribute | None:
        if attribute is None or attribute.hidden or not is_name(attribute.name):
            return None
        if attribute.relationship is not None:
            return self._relationship(attribute, table)
        definition = table.definition
        is_key = attribute.name == definition.primary_key
        kind, type_name = Kind.SCALAR, attribute.type if attribute.type in SCALAR_TYPES else ANY
        if is_key and definition.split_segments:
            type_name = ANY
        elif type_name != attribute.type and self._embedded(attribute.type, table):
            kind, type_name = Kind.EMBEDDED, self._names.type_name(table, attribute.type)
        is_condition = (
            attribute.type != "Blob"
            and attribute.vector is None
            and (attribute.stored or (attribute.computed_from is not None and attribute.indexed))
        )
        enum = attribute.enum
        known = (self._names.type_name(table, enum.name), enum) if enum is not None and all(map(is_name, enum.values)) else None
        return VisibleAttribute(attribute.name, type_name, kind, attribute.elements, is_key, is_condition, attribute.explained, known)

    def _relationship(self, attribute: Attribute, table: AnyTable) -> VisibleAttribute | None:
        try:
            related = related_table(table, attribute)
        except QueryError:
            return None
        if not self._is_visible(related):
            return None
        if id(related) not in self._known:
            self._known.add(id(related))
            self._waiting.append(related)
        many = is_many(attribute, table)
        return VisibleAttribute(attribute.name, self._names.type_name(related), Kind.RELATED, many, False, True, attribute.description)

    def _embedded(self, type_name: str, table: AnyTable) -> bool:
        """Whether the type is one with members that can be shown; it is among the types then."""
        structure = next((each for each in table.definition.structures if each.name == type_name), None)
        members = (
            [] if structure is None else [each for each in structure.attributes if each.stored and not each.hidden and is_name(each.name)]
        )
        if structure is None or not members:
            return False
        name = self._names.type_name(table, type_name)
        if name not in self._types:
            self._types[name] = VisibleType(name, structure.description, (), ())  # it may contain itself
            found = tuple(each for member in members if (each := self._member(member, table)) is not None)
            self._types[name] = VisibleType(name, structure.description, found, found)
        return True

    def _member(self, attribute: Attribute, table: AnyTable) -> VisibleAttribute | None:
        found = self._attribute(attribute, table)
        return None if found is None else replace(found, is_key=False)
