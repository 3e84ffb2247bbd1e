"""Another way to the same answer, that costs less with the tables as they are (spec: sql §9). The last step of binding; no statement needs it."""

from __future__ import annotations

from svc.sql.binding.figures import Figures
from svc.sql.binding.index_only import count_by_indexes
from svc.sql.binding.materialised_joins import materialise_inner_tables
from svc.sql.binding.names import Labels
from svc.sql.binding.relations import BoundSelect, Relation
from svc.sql.binding.walking import walk
from svc.sql.nodes import CommonTable, Join, Source, SubqueryRef, TableRef
from svc.sql.tables.index_only import CountView, GroupsView


def rewrite(relation: Relation, relations: list[Relation], figures: Figures, table_labels: Labels) -> list[GroupsView | CountView]:
    """Changes the query of a whole statement. `relations`: all that are in it; `table_labels`: of the tables of WITH.

    Returns the tables that it then reads in place of others.
    """
    special: list[GroupsView | CountView] = []
    for each in relations:
        for select in each.members:
            if isinstance(select, BoundSelect):
                special += count_by_indexes(each, select, figures)
    made: list[CommonTable] = []
    for each in _evaluated_once(relation):
        for select in each.members:
            if isinstance(select, BoundSelect):
                made += materialise_inner_tables(each, select, figures, table_labels)
    relation.tables = (*made, *relation.tables)
    return list(dict.fromkeys(special))


def _evaluated_once(relation: Relation) -> list[Relation]:
    """The query, and those of its sub-selects that depend on no row of others and are not recursive."""
    found = []
    waiting = [relation]
    while waiting:
        each = waiting.pop()
        if each.table is not None and any(isinstance(part, TableRef) and part.name == each.table.name for part in walk(each)):
            continue
        found.append(each)
        waiting += [table.query for table in each.tables if isinstance(table.query, Relation)]
        for select in each.members:
            if isinstance(select, BoundSelect):
                waiting += _behind_from(select.source)
    return found


def _behind_from(source: Source | None) -> list[Relation]:
    found = []
    while source is not None:
        right = source.right if isinstance(source, Join) else source
        if isinstance(right, SubqueryRef) and isinstance(right.query, Relation):
            found.append(right.query)
        source = source.left if isinstance(source, Join) else None
    return found
