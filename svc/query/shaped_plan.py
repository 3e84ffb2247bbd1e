"""Plans of the queries of one shape (`shapes`): names are resolved, rights tested and functions compiled once, values are put in for each query.

Only what values have no say in is kept. Types are converted, ranges of indexes made, figures asked for and a way to the records chosen again each
time, so a plan is the one that the planner would make without it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from enum import Enum
from typing import Any, TypeAlias

from svc.auth.roles import role_of
from svc.auth.users import User
from svc.errors import QueryError
from svc.query.authorization import narrow_query
from svc.query.compiled_plan import shape_of
from svc.query.definition_cache import Definitions
from svc.query.nodes import Comparator, Condition, Query
from svc.query.plan import AllOf, AnyOf, Comparison, Plan, Predicate, RelatedCondition
from svc.query.planner import plan_resolved, resolve_names
from svc.query.relations import Lookups
from svc.query.resolve import typed_test
from svc.query.select import Shape
from svc.query.shapes import filled, has_slots
from svc.query.steps import SteppedFunction
from svc.query.tables import AnyTable, rule_members
from svc.store.schema import Attribute
from svc.store.values.keys import encode_key, storage_key

_KEY_TYPES = frozenset((str, int, float))
_NO_LOOKUPS = Lookups(None)  # for what looks at no other table


class Unrestricted(Enum):
    EVERYTHING = "everything"


UNRESTRICTED = Unrestricted.EVERYTHING
Reader: TypeAlias = User | Unrestricted | None
"""Whose rights narrow a query, None: those of an anonymous caller; or UNRESTRICTED, where nothing does."""


def rights_of(reader: Reader, table: AnyTable) -> object:
    """The object that stands for the rights of a reader; with a changed role it is another one."""
    return reader if reader is UNRESTRICTED else role_of(reader, table)


class OpenTest(Comparison):
    """A comparison whose value has slots: `node`, of which `attribute` of `table` is what its path begins with."""

    __slots__ = ("node", "table")
    attribute: Attribute

    def __init__(self, node: Condition, attribute: Attribute, table: AnyTable) -> None:
        super().__init__(node.path, node.comparator, None, attribute)
        self.node = node
        self.table = table


class ShapedPlan:
    """What the plans of one shape have in common, for one table and the rights of one user."""

    __slots__ = ("_allow_full_scan", "_definitions", "_record", "_rights", "_shared", "lists", "query", "where")

    def __init__(self, template: Query, table: AnyTable, reader: Reader, allow_full_scan: bool | None) -> None:
        """`template`: of `template_of`. Raises what narrowing and planning raise."""
        query = template if reader is UNRESTRICTED else narrow_query(template, table, reader)
        where = resolve_names(query, table, _open_test)
        assert where is not None
        self.where = where  # with OpenTests
        self.query = query  # what the reader may see of it, with slots
        self._allow_full_scan = allow_full_scan
        self._definitions = Definitions(table)
        self._rights = rights_of(reader, table)
        self._shared: dict[object, object] = {}
        self._record = None if rule_members(table) else _shape_of_one(query, where, table)
        self.lists: dict[bool, object] = {}  # what `compiled_lists` has made of it, by `json`

    def find_record(self, value: object, table: AnyTable, txn: Any) -> list[Any] | None:
        """What `plan` with this one value would find, for JSON: no row or one. None: the plan is not that of one record by its key, or the value is not a
        key, which `plan` explains."""
        if self._record is None or type(value) not in _KEY_TYPES:
            return None
        shape, test = self._record
        try:
            typed = typed_test(Condition(test.path, Comparator.EQUALS, value, test.node.conversion), test.attribute, table)
        except QueryError:
            return None
        if type(typed) is not Comparison or typed.value is None or typed.value is True or typed.value is False:
            return None
        found = table.get_many((storage_key(encode_key(typed.value)),), txn)
        return shape([raw for _, raw in found], _NO_LOOKUPS) if found else found

    def holds(self, table: AnyTable, reader: Reader) -> bool:
        """Whether definitions and rights are still the same."""
        return self._rights is rights_of(reader, table) and self._definitions.hold(table)

    def plan(self, values: list[str], table: AnyTable, txn: object) -> Plan:
        """The plan with these values. Raises what planning the whole query would, but without positions."""
        plan = plan_resolved(self.query, filled_predicate(self.where, values), table, txn, self._allow_full_scan)
        plan.shared = self._shared
        return plan


def _shape_of_one(query: Query, where: Predicate, table: AnyTable) -> tuple[Shape, OpenTest] | None:
    """The selection of a query of nothing but one record by its key, if it looks at no other table."""
    if (
        type(where) is not OpenTest
        or where.path != (table.primary_key,)
        or where.comparator is not Comparator.EQUALS
        or query.select is None
    ):
        return None
    if query != Query(query.where, query.select):
        return None
    shape, links = shape_of(query.select, table, (), True)
    return None if len(links) or type(shape) is SteppedFunction else (shape, where)


def _open_test(node: Condition, attribute: Attribute, table: AnyTable) -> Predicate:
    if not has_slots(node.value):
        return typed_test(node, attribute, table)
    return OpenTest(node, attribute, table)


def filled_predicate(predicate: Predicate, values: Sequence[str]) -> Predicate:
    """The predicate with values in the places of slots."""
    if type(predicate) is OpenTest:
        node = predicate.node
        condition = Condition(node.path, node.comparator, filled(node.value, values), node.conversion)
        return typed_test(condition, predicate.attribute, predicate.table)
    if type(predicate) is AllOf:
        return AllOf(tuple([filled_predicate(member, values) for member in predicate.members]))
    if type(predicate) is AnyOf:
        return AnyOf(tuple([filled_predicate(member, values) for member in predicate.members]))
    if type(predicate) is RelatedCondition and predicate.where is not None:
        return replace(predicate, where=filled_predicate(predicate.where, values))
    return predicate
