"""Which attributes a search reads, and whether its role may (spec: security §5.4 step 8, §5.6).

Looked at are conditions, sort, the selection and the text of a `query`, all as sent. Paths lead through relationships into other tables, which need
`read` there. Whatever is malformed is skipped: the search refuses it. What is found here is told; what may be read is decided once more where the
search is planned (`svc.query.authorization`), from what was understood of it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from svc.auth.roles import Role
from svc.errors import QueryError
from svc.operations.refusals import Violations
from svc.query.mapping import MAX_NODES
from svc.query.nodes import Condition, Filter, Group, Query, Select
from svc.query.resolve import related_table
from svc.query.tables import AnyTable
from svc.query.url import parse_query

Path = tuple[str, ...]


def check_reads(body: Mapping[str, Any], table: AnyTable, role: Role, violations: Violations) -> None:
    """Collect what a search of `table`, which the role may read, must not read."""
    reader = _ReadCheck(role, violations)
    if not reader.is_free(table):
        reader.body(body, table)


class _ReadCheck:
    __slots__ = ("_left", "_role", "_violations")

    def __init__(self, role: Role, violations: Violations) -> None:
        self._role = role
        self._violations = violations
        self._left = MAX_NODES  # names that are looked at; a search does not take more

    def is_free(self, table: AnyTable) -> bool:
        """Whether nothing that a search of this table may name needs a look."""
        may = self._role.rights(table.database.name, table.name)
        return may.readable is None and not any(attribute.relationship is not None for attribute in table.attributes.values())

    def body(self, body: Mapping[str, Any], table: AnyTable) -> None:
        """Both names of a field are looked at, so it does not matter which one wins."""
        for name in ("attribute", "search_attribute"):
            self._path(_path(body.get(name)), table)
        for name in ("get_attributes", "select"):
            self._selection(body.get(name), table)
        self._conditions(body.get("conditions"), table)
        self._sort(body.get("sort"), table)
        text = body.get("query")
        if isinstance(text, str):
            try:
                query = parse_query(text, table.attributes.__contains__)
            except QueryError:
                return
            self._query(query, table)

    # --- as a body has it ------------------------------------------------------------------------------------------------------------

    def _conditions(self, given: Any, table: AnyTable) -> None:
        """Without recursion: the depth is not limited yet."""
        waiting: list[tuple[Any, AnyTable]] = [(given, table)]
        while waiting and self._left > 0:
            node, table = waiting.pop()
            if isinstance(node, (list, tuple)):
                waiting += [(element, table) for element in reversed(node[: self._left])]
                self._left -= len(node)
            elif isinstance(node, Mapping):
                for name in ("attribute", "search_attribute"):
                    self._path(_path(node.get(name)), table)
                if node.get("conditions") is not None:
                    waiting.append((node["conditions"], table))

    def _selection(self, given: Any, table: AnyTable) -> None:
        waiting: list[tuple[Any, AnyTable]] = [(given, table)]
        while waiting and self._left > 0:
            item, table = waiting.pop()
            if isinstance(item, (list, tuple)):
                waiting += [(element, table) for element in reversed(item[: self._left])]
                self._left -= len(item)
            elif isinstance(item, Mapping):
                target = self._path(_path(item.get("name")), table)
                if target is not None:
                    waiting += [(item[name], target) for name in ("select", "get_attributes") if item.get(name) is not None]
            elif isinstance(item, str) and item != "*":
                self._path(_path(item), table)

    def _sort(self, given: Any, table: AnyTable) -> None:
        while isinstance(given, Mapping) and self._left > 0:
            self._path(_path(given.get("attribute")), table)
            given = given.get("next")
        if isinstance(given, str):
            self._path(_path(given), table)

    # --- as the query language has it ------------------------------------------------------------------------------------------------

    def _query(self, query: Query, table: AnyTable) -> None:
        if query.where is not None:
            self._filter(query.where, table)
        if query.aggregate is None:
            for key in query.sort:
                self._path(key.path, table)
        else:  # sort keys are names of its rows
            for path in (*query.aggregate.keys, *[path for _, path in query.aggregate.functions if path is not None]):
                self._path(path, table)
        if query.select is not None:
            self._select(query.select, table)

    def _filter(self, node: Filter, table: AnyTable) -> None:
        if isinstance(node, Group):
            for member in node.members:
                self._filter(member, table)
            return
        target = self._path(node.path, table)
        if not isinstance(node, Condition) and target is not None:
            self._query(node.query, target)

    def _select(self, select: Select, table: AnyTable) -> None:
        for item in select.items:
            target = None if item.path[0] == "*" else self._path(item.path, table)
            if target is None:
                continue
            if item.query is not None:
                self._query(item.query, target)
            if item.nested is not None:
                self._select(item.nested, target)

    # --- one name --------------------------------------------------------------------------------------------------------------------

    def _path(self, path: Path, table: AnyTable) -> AnyTable | None:
        """Every step of a dotted name must be readable. Returns the table that a path of relationships ends in, if it may be read."""
        if not path:
            return None
        self._left -= 1
        for name in path:
            if name.startswith("$") and name != "$record":
                return None  # of the record, no attribute
            if not self._may_read(name, table):
                return None
            attribute = table.attributes.get(name)
            if attribute is None or attribute.relationship is None:
                return None  # what follows are properties of a nested object
            try:
                table = related_table(table, attribute)
            except QueryError:
                return None
            if not self._may_read_table(table):
                return None
        return table

    def _may_read(self, name: str, table: AnyTable) -> bool:
        may = self._role.rights(table.database.name, table.name)
        if may.readable is None or name in may.readable:
            return True
        self._violations.check_attributes(table.database.name, table.name, may, (name,), ("read",))
        return False

    def _may_read_table(self, table: AnyTable) -> bool:
        may = self._role.rights(table.database.name, table.name)
        if may.read:
            return True
        if may.insert or may.update or may.delete:
            self._violations.add_table(table.database.name, table.name, ("read",))
        else:
            self._violations.add_missing_table(table.database.name, table.name)
        return False


def _path(given: Any) -> Path:
    """The steps of a name as sent; empty for an invalid name."""
    if isinstance(given, str):
        return tuple(given.split(".")) if given else ()
    if isinstance(given, (list, tuple)) and all(isinstance(name, str) for name in given):
        return tuple(given)
    return ()
