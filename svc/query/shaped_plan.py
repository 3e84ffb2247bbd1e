"""Plans of the queries of one shape (`shapes`): names are resolved, rights tested and functions compiled once, values are put in for each query.

Only what values have no say in is kept. Types are converted, ranges of indexes made, figures asked for and a way to the records chosen again each
time, so a plan is the one that the planner would make without it.
"""

from __future__ import annotations

from dataclasses import replace
from enum import Enum

from svc.auth.roles import role_of
from svc.auth.users import User
from svc.query.authorization import narrow_query
from svc.query.definition_cache import Definitions
from svc.query.nodes import Condition, Query
from svc.query.plan import AllOf, AnyOf, Comparison, Plan, Predicate, Related
from svc.query.planner import plan_resolved, resolve_names
from svc.query.resolve import typed_test
from svc.query.shapes import filled, has_slots
from svc.query.tables import AnyTable
from svc.store.schema import Attribute


class Unrestricted(Enum):
    EVERYTHING = "everything"


UNRESTRICTED = Unrestricted.EVERYTHING
Reader = User | None | Unrestricted
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

    __slots__ = ("_allow_full_scan", "_definitions", "_query", "_rights", "_shared", "_where")

    def __init__(self, template: Query, table: AnyTable, reader: Reader, allow_full_scan: bool | None) -> None:
        """`template`: of `template_of`. Raises what narrowing and planning raise."""
        query = template if reader is UNRESTRICTED else narrow_query(template, table, reader)
        where = resolve_names(query, table, _open_test)
        assert where is not None
        self._where = where
        self._query = query
        self._allow_full_scan = allow_full_scan
        self._definitions = Definitions(table)
        self._rights = rights_of(reader, table)
        self._shared: dict[object, object] = {}

    def holds(self, table: AnyTable, reader: Reader) -> bool:
        """Whether definitions and rights are still the same."""
        return self._rights is rights_of(reader, table) and self._definitions.hold(table)

    def plan(self, values: list[str], table: AnyTable, txn: object) -> Plan:
        """The plan with these values. Raises what planning the whole query would, but without positions."""
        plan = plan_resolved(self._query, _filled(self._where, values), table, txn, self._allow_full_scan)
        plan.shared = self._shared
        return plan


def _open_test(node: Condition, attribute: Attribute, table: AnyTable) -> Predicate:
    if not has_slots(node.value):
        return typed_test(node, attribute, table)
    return OpenTest(node, attribute, table)


def _filled(predicate: Predicate, values: list[str]) -> Predicate:
    """The predicate with values in the places of slots."""
    if type(predicate) is OpenTest:
        node = predicate.node
        condition = Condition(node.path, node.comparator, filled(node.value, values), node.conversion)
        return typed_test(condition, predicate.attribute, predicate.table)
    if type(predicate) is AllOf:
        return AllOf(tuple([_filled(member, values) for member in predicate.members]))
    if type(predicate) is AnyOf:
        return AnyOf(tuple([_filled(member, values) for member in predicate.members]))
    if type(predicate) is Related and predicate.where is not None:
        return replace(predicate, where=_filled(predicate.where, values))
    return predicate
