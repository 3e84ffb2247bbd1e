"""Nodes -> predicates: resolves names by the table's definition, types of values, tables of relationships.

Raises QueryError: UNKNOWN_ATTRIBUTE, UNUSABLE_OPERATOR, BAD_VALUE or QUERY_SYNTAX (spec: http §5, query §3-§7).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from svc.errors import BadValue, QueryError
from svc.query.convert import typed_pair, typed_value
from svc.query.hints import for_attribute
from svc.query.matching import CLOSED_RANGES, kind_of
from svc.query.nodes import Comparator, Condition, Conversion, Filter, Group, Query, RelationFilter, SortKey
from svc.query.plan import AllOf, AnyOf, Comparison, Never, Predicate, RelatedCondition, iter_members
from svc.query.tables import AnyTable
from svc.store.schema import Attribute, Relationship, TableDefinition
from svc.store.values.conversion import key_from_text, printable

_TEXT_COMPARATORS = frozenset((Comparator.STARTS_WITH, Comparator.ENDS_WITH, Comparator.CONTAINS))
_OPEN_RANGES = frozenset(
    (Comparator.LESS_THAN, Comparator.LESS_THAN_EQUAL, Comparator.GREATER_THAN, Comparator.GREATER_THAN_EQUAL),
)
_PATH_HINT = "{name} is a relationship, a condition needs an attribute of the related table ({name}.<attribute>)"


Test = Callable[[Condition, Attribute, AnyTable], Predicate]


def typed_test(node: Condition, attribute: Attribute, table: AnyTable) -> Predicate:
    """A condition on a value of the record itself: `attribute` of `table`, which its path begins with. Raises QueryError BAD_VALUE."""
    path, comparator = node.path, node.comparator
    declared = attribute if len(path) == 1 else _nested_attribute(attribute, path, table.definition)
    name = ".".join(path)
    if comparator in CLOSED_RANGES:
        low, high = typed_pair(node.value, node.conversion, declared, name)
        if kind_of(low) != kind_of(high) or low is None:
            return Never(path, comparator)
        return Comparison(path, comparator, (low, high), attribute)
    if comparator in _TEXT_COMPARATORS:
        if node.value is None:
            return Never(path, comparator)
        return Comparison(path, comparator, typed_value(node.value, Conversion.TEXT, declared, name), attribute)
    if comparator is Comparator.PREFIX:
        if path != (table.primary_key,) or not isinstance(node.value, (list, tuple)):
            raise QueryError("The prefix comparator needs the primary key and a list", code="UNUSABLE_OPERATOR")
        return Comparison(path, comparator, tuple(node.value), attribute)
    value = _key_value(node, table) if path == (table.primary_key,) else None
    if value is None:
        value = typed_value(node.value, node.conversion, declared, name)
    if value is None and comparator in _OPEN_RANGES:
        return Never(path, comparator)
    return Comparison(path, comparator, value, attribute)


def resolve_where(node: Filter, table: AnyTable, test: Test = typed_test) -> Predicate:
    """The predicate of a filter of `table`. `test` makes it of each condition whose names are resolved."""
    if isinstance(node, Condition):
        try:
            attribute = required_attribute(table, node.path[0], value=node.value)
            if attribute.relationship is not None:
                return _related(node, attribute, table, test)
            return test(node, attribute, table)
        except QueryError as error:
            if error.position is None and node.position >= 0:
                error.position = node.position
            raise
    if isinstance(node, RelationFilter):
        attribute = required_attribute(table, node.path[0], node.position)
        if attribute.relationship is None:
            raise _unusable(f"{node.path[0]} is not a relationship, [...] cannot be used with it", node.position)
        target = related_table(table, attribute)
        for key in node.query.sort:
            resolve_sort_key(key, target)
        where = None if node.query.where is None else resolve_where(node.query.where, target, test)
        if node.query.limit == 0:
            return Never(node.path, Comparator.EQUALS)
        return RelatedCondition(attribute.name, _relationship(attribute), where, target, is_many(attribute, table))
    if node.operator not in ("and", "or"):
        raise QueryError(f"Unknown operator '{node.operator}', expecting and, or", code="QUERY_SYNTAX")
    if not node.members or (node.operator == "or" and len(node.members) < 2):
        raise QueryError(
            f"An '{node.operator}' group needs at least {'two conditions' if node.members else 'one condition'}", code="QUERY_SYNTAX"
        )
    members = _same_record(node.members, table) if node.operator == "and" else node.members
    resolved = tuple([resolve_where(member, table, test) for member in members])
    if len(resolved) == 1:
        return resolved[0]
    if node.operator == "or":
        return AnyOf(resolved)
    flat: list[Predicate] = []
    for predicate in resolved:
        flat += iter_members(predicate)
    return AllOf(tuple(flat))


def required_attribute(table: AnyTable, name: str, position: int = -1, *, value: object = None) -> Attribute:
    """Raises QueryError UNKNOWN_ATTRIBUTE for a name the table does not declare. `position`: of the node that names it. `value`: what it is compared with."""
    attribute = table.attributes.get(name)
    if attribute is not None:
        return attribute
    if name == table.primary_key:
        return Attribute(name, primary_key=True)
    hint = for_attribute(name, table.attributes, value)
    message = f"{printable(name)} is not a defined attribute" + (f" ({hint})" if hint else "")
    raise QueryError(message, code="UNKNOWN_ATTRIBUTE", position=position if position >= 0 else None)


def resolve_sort_key(key: SortKey, table: AnyTable) -> Attribute:
    """The attribute that a sort key begins with. Raises QueryError."""
    attribute = required_attribute(table, key.path[0], key.position)
    if attribute.relationship is not None:
        if len(key.path) == 1:
            raise _unusable(_PATH_HINT.format(name=key.path[0]), key.position)
        resolve_sort_key(SortKey(key.path[1:], position=key.position), related_table(table, attribute))
    return attribute


def related_table(table: AnyTable, attribute: Attribute) -> AnyTable:
    """The table at the other end of a relationship attribute, found by the name of the table or of its type."""
    name = _relationship(attribute).table
    tables: dict[str, AnyTable] = table.database.tables
    found = tables.get(name)
    if found is None:
        found = next((other for other in tables.values() if other.definition.type_name == name), None)
    if found is None:
        raise QueryError(f"{attribute.name} leads to {name}, which is not a table", code="UNUSABLE_OPERATOR")
    return found


def is_many(attribute: Attribute, table: AnyTable) -> bool:
    """Whether the relationship leads to a list of records (spec: schema-and-store §4.1)."""
    relationship = _relationship(attribute)
    if relationship.to is not None or attribute.elements:
        return True
    source = table.attributes.get(relationship.from_ or "")
    return source is not None and source.elements


def _unusable(message: str, position: int) -> QueryError:
    return QueryError(message, code="UNUSABLE_OPERATOR", position=position if position >= 0 else None)


def _relationship(attribute: Attribute) -> Relationship:
    assert attribute.relationship is not None
    return attribute.relationship


def _related(node: Condition, attribute: Attribute, table: AnyTable, test: Test) -> Predicate:
    if len(node.path) == 1:
        raise _unusable(_PATH_HINT.format(name=node.path[0]), node.position)
    target = related_table(table, attribute)
    where = resolve_where(replace(node, path=node.path[1:]), target, test)
    return RelatedCondition(attribute.name, _relationship(attribute), where, target, is_many(attribute, table))


def _same_record(members: tuple[Filter, ...], table: AnyTable) -> tuple[Filter, ...]:
    """Join the conditions of one AND group that go through the same relationship: they speak of the same related record (spec: query §7)."""
    through: dict[str, list[Filter]] = {}
    joined: list[Filter | str] = []
    for member in members:
        if (
            isinstance(member, Condition)
            and len(member.path) > 1
            and required_attribute(table, member.path[0], member.position).relationship is not None
        ):
            name = member.path[0]
            if name not in through:
                through[name] = []
                joined.append(name)
            through[name].append(replace(member, path=member.path[1:]))
        else:
            joined.append(member)
    if not through:
        return members
    return tuple([_through(name, through[name]) if isinstance(name, str) else name for name in joined])


def _through(name: str, conditions: list[Filter]) -> Filter:
    where = conditions[0] if len(conditions) == 1 else Group("and", tuple(conditions))
    return RelationFilter((name,), Query(where))


def _key_value(node: Condition, table: AnyTable) -> object:
    """A `/`-joined text names a list key where the table splits segments (spec: schema-and-store §6.3); None: nothing special."""
    if not table.definition.split_segments or type(node.value) is not str or "/" not in node.value:
        return None
    try:
        return key_from_text(table.definition, node.value)
    except BadValue as error:
        raise QueryError(error.message, code="BAD_VALUE") from None


def _nested_attribute(attribute: Attribute, path: tuple[str, ...], definition: TableDefinition) -> Attribute | None:
    """The declared attribute at the end of a path through structures; None where nothing is declared."""
    current: Attribute | None = attribute
    for name in path[1:]:
        if current is None:
            return None
        structure = next((found for found in definition.structures if found.name == current.type), None)
        current = None if structure is None else next((found for found in structure.attributes if found.name == name), None)
    return current
