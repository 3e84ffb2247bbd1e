"""The tables of WITH: which of them a name means (spec: sql §2).

As in SQLite all tables of one WITH know each other, whatever their order, and a table that names itself behind UNION or UNION ALL is recursive: with or
without the word RECURSIVE.
"""

from __future__ import annotations

from enum import IntEnum

from svc.sql.binding.faults import misuse
from svc.sql.binding.names import Labels, Names
from svc.sql.binding.relations import Relation
from svc.sql.binding.scopes import Scope
from svc.sql.binding.walking import walk
from svc.sql.nodes import CommonTable, Query, TableRef


class State(IntEnum):
    UNBOUND = 0
    BINDING = 1
    BOUND = 2


class CommonTableEntry:
    """`label`: its name in SQLite. `relation`: its query, once the first SELECT of that is bound. `member`: the scope of the SELECT that is being bound and
    may name the table itself; `uses`: how often it has. `bound`: what SQLite gets."""

    __slots__ = ("bound", "is_recursive", "label", "member", "node", "outer", "relation", "state", "tables", "uses")

    def __init__(self, node: CommonTable, label: str, outer: Scope | None, tables: CommonTables) -> None:
        self.node = node
        self.label = label
        self.outer = outer
        self.tables = tables
        self.state = State.UNBOUND
        self.relation: Relation | None = None
        self.member: Scope | None = None
        self.uses = 0
        self.is_recursive = False
        self.bound: CommonTable | None = None


class CommonTables:
    """The tables that a query may name: those of its own WITH, and of those around it."""

    def __init__(self, nodes: tuple[CommonTable, ...], around: CommonTables | None, outer: Scope | None, labels: Labels) -> None:
        self._around = around
        self._entries: Names[CommonTableEntry] = Names()
        for node in nodes:
            if self._entries.get(node.name) is not None:
                raise misuse(f"WITH has two tables of the name {node.name[:100]}", node.at)
            self._entries.add(node.name, CommonTableEntry(node, labels.label(node.name), outer, self))

    def find(self, name: str) -> CommonTableEntry | None:
        tables: CommonTables | None = self
        while tables is not None:
            found = tables._entries.get(name)
            if found is not None:
                return found
            tables = tables._around
        return None

    def entries(self) -> list[CommonTableEntry]:
        """As the statement has them."""
        return list(self._entries.values())

    def in_order(self) -> list[CommonTableEntry]:
        """Each behind those that it needs, unless it needs itself."""
        found: dict[int, CommonTableEntry] = {}
        begun: set[int] = set()
        waiting = list(reversed(self.entries()))
        while waiting:
            entry = waiting[-1]
            if id(entry) in begun:
                waiting.pop()
                found.setdefault(id(entry), entry)
            else:
                begun.add(id(entry))
                needed = [self._entries.get(name) for name in sorted(_tables_named_in(entry.node.query))]
                waiting += [each for each in needed if each is not None and id(each) not in begun]
        return list(found.values())


def _tables_named_in(query: Query) -> set[str]:
    """The names without a database, but those of tables of a WITH in the query itself."""
    found: set[str] = set()
    parts = (query.tables, query.first, query.others, query.order_by, query.limit, query.offset)
    for node in walk(parts, lambda node: not (isinstance(node, Query) and node.tables)):
        if isinstance(node, TableRef) and not node.database:
            found.add(node.name)
        elif isinstance(node, Query) and node.tables:
            found |= _tables_named_in(node)
    own = {table.name.casefold() for table in query.tables}
    return {name for name in found if name.casefold() not in own}


def own_relation(entry: CommonTableEntry, ref: TableRef, scope: Scope) -> Relation:
    """Of a table that is being bound, for a SELECT in it whose scope is `scope`. Raises QueryError if that may not name it."""
    if entry.relation is None or entry.member is not scope:
        raise misuse(
            f"the table {entry.node.name[:100]} of WITH needs itself: it may be named behind FROM in what follows its first UNION", ref.at
        )
    entry.uses += 1
    if entry.uses > 1:
        raise misuse(f"a SELECT names the recursive table {entry.node.name[:100]} more than once", ref.at)
    return entry.relation
