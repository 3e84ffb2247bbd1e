"""Restricts a query to what its caller may read (spec: security §5.6, query §7).

Conditions, sort keys and what an aggregate groups by or computes from are refused if the caller may not read it, or values could be guessed from
the number or the order of results. What a selection may not show is left out of it.
"""

from __future__ import annotations

from dataclasses import replace

from svc.auth.roles import ALL_RIGHTS, TableRights, rights
from svc.auth.users import User
from svc.errors import AccessViolation
from svc.query.nodes import Condition, Filter, Group, Query, Select, SelectItem
from svc.query.resolve import related_table
from svc.query.tables import AnyTable


class Reader:
    """Who asks. `open_table`: one that code of an application has opened to the caller, whatever the role says of it."""

    __slots__ = ("_open_table", "user")

    def __init__(self, user: User | None, open_table: AnyTable | None) -> None:
        self.user = user
        self._open_table = open_table

    def rights(self, table: AnyTable) -> TableRights:
        return ALL_RIGHTS if table is self._open_table else rights(self.user, table)


def narrow_query(query: Query, table: AnyTable, user: User | None, open_table: AnyTable | None = None) -> Query:
    """The query that may be run for `user`, who may read `table`. `open_table`: see `Reader`. Raises AccessViolation."""
    return _narrow(query, table, Reader(user, open_table))


def check_select(select: Select, table: AnyTable, user: User | None, open_table: AnyTable | None = None) -> None:
    """Refuse a selection that names what `user` may not read, where a caller wants that rather than a result without it. Raises AccessViolation."""
    _check_select(select, table, Reader(user, open_table))


def _lacks(reader: Reader, may: TableRights, name: str, through: str = "") -> AccessViolation:
    """The error for an attribute that may not be read. It is named as the caller has named it, declared or not: that confirms nothing. `through`: the
    relationship that leads to its table, which is all that is said of a table on which the caller has no rights."""
    if not may.any:
        return AccessViolation(reader.user, right="read" if through else "", resource=through)
    return AccessViolation(reader.user, right="read", resource=may.table, attribute=name if may.read else "")


def _check_select(select: Select, table: AnyTable, reader: Reader) -> None:
    may = reader.rights(table)
    for item in select.items:
        name = item.path[0]
        if name.startswith(("$", "*")):
            continue
        if not may.read or (may.readable is not None and name not in may.readable):
            raise _lacks(reader, may, name)
        attribute = table.attributes.get(name)
        if attribute is None or attribute.relationship is None:
            continue
        target = related_table(table, attribute)
        if not reader.rights(target).read:
            raise _lacks(reader, reader.rights(target), "", name)
        nested = item.nested if item.query is None else item.query.select
        if nested is not None:
            _check_select(nested, target, reader)


def _narrow(query: Query, table: AnyTable, reader: Reader) -> Query:
    if query.where is not None:
        _check_filter(query.where, table, reader)
    if query.aggregate is None:
        for key in query.sort:
            _check_path(key.path, table, reader)
    else:  # sort keys are names of its rows
        for path in (*query.aggregate.keys, *[path for _, path in query.aggregate.functions if path is not None]):
            _check_path(path, table, reader)
    if query.select is None:
        return query
    return replace(query, select=_narrow_select(query.select, table, reader))


def _check_filter(node: Filter, table: AnyTable, reader: Reader) -> None:
    if isinstance(node, Group):
        for member in node.members:
            _check_filter(member, table, reader)
        return
    target = _check_path(node.path, table, reader)
    if not isinstance(node, Condition) and target is not None:
        _narrow(node.query, target, reader)


def _check_path(path: tuple[str, ...], table: AnyTable, reader: Reader) -> AnyTable | None:
    """Every step of a dotted name must be readable. Returns the table that a path of relationships ends in."""
    through = ""
    for name in path:
        may = reader.rights(table)
        if not may.read or (may.readable is not None and name not in may.readable):
            raise _lacks(reader, may, name, through)
        attribute = table.attributes.get(name)
        if attribute is None or attribute.relationship is None:
            return None  # what follows are properties of a nested object
        table, through = related_table(table, attribute), name
    if not reader.rights(table).read:
        raise _lacks(reader, reader.rights(table), "", through)
    return table


def _narrow_select(select: Select, table: AnyTable, reader: Reader) -> Select:
    may = reader.rights(table)
    items: list[SelectItem] = []
    for item in select.items:
        name = item.path[0]
        if name == "*" and may.readable is not None:
            items += _readable(table, may.readable)
            continue
        if name == "$record" and may.readable is not None:
            continue
        if may.readable is not None and not name.startswith(("$", "*")) and name not in may.readable:
            continue
        attribute = table.attributes.get(name)
        if attribute is not None and attribute.relationship is not None:
            narrowed = _narrow_related(item, related_table(table, attribute), reader)
            if narrowed is None:
                continue
            item = narrowed
        items.append(item)
    if not items and select.shape == "value":
        raise AccessViolation(reader.user)  # there is no object from which the value could be left out
    return replace(select, items=tuple(items))


def _readable(table: AnyTable, readable: frozenset[str]) -> list[SelectItem]:
    """The readable properties of a whole record, without relationships: each of these needs rights of its own."""
    return [SelectItem((name,)) for name, attribute in table.attributes.items() if name in readable and attribute.stored]


def _narrow_related(item: SelectItem, target: AnyTable, reader: Reader) -> SelectItem | None:
    may = reader.rights(target)
    if not may.read:
        return None
    query = None if item.query is None else _narrow(item.query, target, reader)
    if len(item.path) > 1:
        inner = _narrow_select(Select((SelectItem(item.path[1:], item.nested),)), target, reader)
        return replace(item, query=query) if inner.items else None
    nested = item.nested
    if nested is None and may.readable is not None:
        nested = Select(tuple(_readable(target, may.readable)))
    elif nested is not None:
        nested = _narrow_select(nested, target, reader)
    return replace(item, nested=nested, query=query)
