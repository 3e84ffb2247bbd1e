"""What is wrong with the rules of a schema, before its tables are defined: names, values, operators, rules that lead to themselves (spec: rows §1.9)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from svc.errors import QueryError
from svc.query.nodes import Condition, Filter, Group
from svc.query.plan import AllOf, AnyOf, Comparison, Predicate, RelatedCondition
from svc.query.refusals import check_indexed
from svc.query.resolve import required_attribute, resolve_where, typed_test
from svc.query.row_rules import NEW, NOW, OLD, Rule, iter_conditions, parse_rule, value_name
from svc.query.tables import AnyTable
from svc.store.schema import ACTIONS, Attribute, TableDefinition

USER_NAMES = ("username", "role")  # that every account has


@dataclass(frozen=True, slots=True)
class RuleFault:
    """One fault, or with `is_warning` something worth knowing. `number`: which of the `@allow`s of the table, from 0. `position`: in the text of the rule,
    None: it is about the whole."""

    table: str
    number: int
    action: str
    message: str
    position: int | None = None
    is_warning: bool = False


class DefinedTable:
    """A table as its definition has it, for names to be resolved (`AnyTable`, without records)."""

    def __init__(self, definition: TableDefinition, database: DefinedDatabase) -> None:
        self.definition = definition
        self.database = database
        self.name = definition.name
        self.primary_key = definition.primary_key
        self.attributes = {attribute.name: attribute for attribute in definition.attributes}
        self.indexes = {attribute.name: _ReadyIndex for attribute in definition.attributes if attribute.indexed}
        self.computed: Mapping[str, Any] = {}


class _ReadyIndex:
    ready = True


class DefinedDatabase:
    def __init__(self, definitions: Iterable[TableDefinition]) -> None:
        self.tables = {definition.name: DefinedTable(definition, self) for definition in definitions}


def rule_faults(definitions: Iterable[TableDefinition], account: TableDefinition | None) -> list[RuleFault]:
    """All faults and warnings of the rules of the tables of one database. `account`: the table of accounts, None: there is none."""
    database = DefinedDatabase(definitions)
    faults: list[RuleFault] = []
    for table in database.tables.values():
        for number, allow in enumerate(table.definition.allow):
            for action in ACTIONS:
                text = getattr(allow, action)
                if text is not None:
                    faults += _faults_of(text, action, number, table, account)
    return [*faults, *_recursions(database)]


def _faults_of(text: str, action: str, number: int, table: DefinedTable, account: TableDefinition | None) -> Iterator[RuleFault]:
    try:
        rule = parse_rule(text, action)
        _check_values(rule, _any(table), account)
        predicate = None if isinstance(rule.node, bool) else resolve_where(_as_plain(rule.node), _any(table), _test)
    except QueryError as error:
        yield RuleFault(table.name, number, action, error.message, error.position)
        return
    if predicate is None or action != "read" or rule.compares:
        return
    try:
        check_indexed(predicate, _any(table))
    except QueryError:
        names = sorted({name for name in _compared(predicate) if name != table.primary_key})
        yield RuleFault(
            table.name,
            number,
            action,
            f"no index serves the rule, so that queries read all records of {table.name}: add @indexed to {' or '.join(names[:5])}",
            is_warning=True,
        )


def _any(table: DefinedTable) -> AnyTable:
    found: Any = table
    return found  # type: ignore[no-any-return]


def _check_values(rule: Rule, table: AnyTable, account: TableDefinition | None) -> None:
    for condition in () if isinstance(rule.node, bool) else iter_conditions(rule.node):
        for value in condition.value if isinstance(condition.value, tuple) else (condition.value,):
            name = value_name(value)
            if name is None or name in (*USER_NAMES, NOW) or name.startswith("claims."):
                continue
            if name.startswith("$"):
                required_attribute(table, name.split(".")[1], condition.position)
                continue
            first = name.split(".")[0]
            if account is None:
                raise QueryError(
                    f"$user.{name} is an attribute of the account's record, and no type is marked @account: there are $user.username, $user.role,"
                    " $user.claims.<name>",
                    code="UNKNOWN_ATTRIBUTE",
                    position=condition.position,
                )
            if account.attribute(first) is None:
                raise QueryError(
                    f"$user.{name}: {account.name}, the record of an account, has no attribute {first}",
                    code="UNKNOWN_ATTRIBUTE",
                    position=condition.position,
                )


def _as_plain(node: Filter) -> Filter:
    """The same with `$old.x` and `$new.x` as `x`: attributes of the table all the same."""
    if isinstance(node, Condition):
        if node.path[0] not in (OLD, NEW):
            return node
        return Group("and", (Condition(node.path[1:], node.comparator, node.value, node.conversion, node.position),))
    if isinstance(node, Group):
        return Group(node.operator, tuple([_as_plain(member) for member in node.members]), node.position)
    return node


def _test(node: Condition, attribute: Attribute, table: AnyTable) -> Predicate:
    values = node.value if isinstance(node.value, tuple) else (node.value,)
    if any(value_name(value) is not None for value in values):
        return Comparison(node.path, node.comparator, None, attribute)
    return typed_test(node, attribute, table)


def _compared(predicate: Predicate) -> Iterator[str]:
    if isinstance(predicate, (AllOf, AnyOf)):
        for member in predicate.members:
            yield from _compared(member)
    elif isinstance(predicate, RelatedCondition):
        yield predicate.relationship.from_ or predicate.name
    else:
        yield predicate.path[0]


# rules that lead to themselves


def tables_read(node: Filter | bool, table: AnyTable) -> set[str]:
    """The names of the tables that a rule goes through. What cannot be resolved leads nowhere."""
    predicate = structure_of(node, table)
    return set() if predicate is None else set(_targets(predicate))


def structure_of(node: Filter | bool, table: AnyTable) -> Predicate | None:
    """A rule with its names resolved, whatever values it is about: for where it leads. None: nowhere."""
    if isinstance(node, bool):
        return None
    try:
        return resolve_where(_as_plain(node), table, _test)
    except QueryError:
        return None


def _targets(predicate: Predicate) -> Iterator[str]:
    if isinstance(predicate, (AllOf, AnyOf)):
        for member in predicate.members:
            yield from _targets(member)
    elif isinstance(predicate, RelatedCondition):
        yield predicate.target.name
        if predicate.where is not None:
            yield from _targets(predicate.where)


def circles(leads: Mapping[str, set[str]]) -> set[str]:
    """Of tables, and the tables that their read rules go through, those from which a way leads back to themselves.

    >>> sorted(circles({"a": {"b"}, "b": {"a"}, "c": {"a"}}))
    ['a', 'b']
    """
    found = set()
    for start in leads:
        pending, seen = list(leads[start]), set[str]()
        while pending:
            name = pending.pop()
            if name == start:
                found.add(start)
                break
            if name not in seen:
                seen.add(name)
                pending += leads.get(name, ())
    return found


def _recursions(database: DefinedDatabase) -> Iterator[RuleFault]:
    leads: dict[str, set[str]] = {}
    where: dict[str, int] = {}
    for table in database.tables.values():
        for number, allow in enumerate(table.definition.allow):
            if allow.read is not None:
                try:
                    rule = parse_rule(allow.read, "read")
                except QueryError:  # a fault of its own
                    continue
                found = tables_read(rule.node, _any(table))
                leads.setdefault(table.name, set()).update(found)
                if found:
                    where.setdefault(table.name, number)
    for name in sorted(circles(leads)):
        others = " and ".join(sorted(leads[name]))
        yield RuleFault(
            name,
            where[name],
            "read",
            f"the rule goes through {others}, whose own rules lead back to {name}: it would never end. What a rule refers to is read by the rules of"
            f" its table; copy the value it needs into {name}, or into a table without such a rule",
        )
