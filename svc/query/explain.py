"""A plan shown to the caller, with what was estimated and what was found (spec: query §12, §9).

Everything shown is ready for any JSON encoder: dates are ISO text, bytes are base64.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import msgspec

from svc.query.aggregate import method_of
from svc.query.execution import execute
from svc.query.grouping import date_of
from svc.query.narrowing import is_view
from svc.query.nodes import SortKey
from svc.query.plan import (
    Access,
    AllOf,
    AnyOf,
    AnyRows,
    Branch,
    Comparison,
    IndexRange,
    KeyLookup,
    KeyRange,
    Never,
    Nothing,
    OrderedIndex,
    Plan,
    Predicate,
    RelatedCondition,
    ThroughRelated,
    Union,
    iter_members,
)
from svc.query.planner import estimated_cost, estimated_matches
from svc.query.tables import AnyTable
from svc.store.schema import ACTIONS, TableDefinition
from svc.store.values.keys import NULL_KEY, TEXT, after, decode_key
from svc.store.values.records import decode_payload_json, encode_payload

if TYPE_CHECKING:
    from svc.query.views import TableView

AT_ONCE = 256  # rows in one step
_LONGEST = 60  # characters of a value in the description of an access

_ACCESS: dict[type, str] = {
    Nothing: "nothing",
    KeyLookup: "primary key",
    KeyRange: "primary key",
    IndexRange: "index",
    OrderedIndex: "index",
    Union: "union",
    ThroughRelated: "join",
}
_METHODS = {
    "entries": "counted from its entries",
    "values": "counted from its keys",
    "ends": "the ends of the indexes",
    "records": "counted from the records",
}


def explain(plan: Plan, txn: object = None, *, names_rules: bool = False) -> dict[str, Any]:
    """`{conditions, operator, postOrdering, selectApplied}` in execution order. `txn`: for the estimates, by default the turn's snapshot.

    For a caller whom rules on rows narrow it is what the caller has asked for, and nothing of how it is found, which depends on records that are hidden (spec:
    rows §1.5). `names_rules`: those of the table are told, for super users.
    """
    if is_view(plan.table):
        return _explain_asked(plan, plan.table)
    txn = _transaction(plan.table, txn)
    access = {"access": _ACCESS[type(plan.access)]}
    served = [_predicate(member, plan.table, txn) | access for member in plan.served]
    tested = [_predicate(member, plan.table, txn) for member in iter_members(plan.filter) if member not in plan.served]
    conditions, operator = [*served, *tested], "and"
    if len(conditions) == 1 and conditions[0].get("operator") == "or":
        conditions, operator = conditions[0]["conditions"], "or"
    return {
        "conditions": conditions,
        "operator": operator,
        "postOrdering": [{"attribute": ".".join(key.path), "descending": key.descending} for key in plan.sort] or None,
        "selectApplied": plan.query.select is not None,
    } | (_named_rules(plan.table.definition) if names_rules else {})


def _explain_asked(plan: Plan, view: TableView) -> dict[str, Any]:
    """`{conditions, operator, selectApplied}`: the conditions without those of rules, in an order that says nothing of the plan."""
    rule = set(map(id, view.rule_members))
    members = {id(member): member for member in (*plan.served, *iter_members(plan.filter)) if id(member) not in rule}
    conditions, operator = [_shown(member) for member in members.values()], "and"
    conditions.sort(key=msgspec.json.encode)
    if len(conditions) == 1 and conditions[0].get("operator") == "or":
        conditions, operator = conditions[0]["conditions"], "or"
    return {"conditions": conditions, "operator": operator, "selectApplied": plan.query.select is not None}


def _named_rules(definition: TableDefinition) -> dict[str, Any]:
    """`{rules: [{role, action, text}]}`; `role` null: of all roles that no other rule of the table names. Empty without rules."""
    rules = [
        {"role": role, "action": action, "text": text}
        for each in definition.allow
        for role in (each.roles or (None,))
        for action in ACTIONS
        if (text := getattr(each, action)) is not None
    ]
    return {"rules": rules} if rules else {}


class Explanation:
    """`explain` with an execution: call `step` until it is true."""

    __slots__ = ("_count", "_plan", "rows")

    def __init__(self, plan: Plan, txn: object) -> None:
        self._plan = plan
        self.rows: AnyRows = execute(plan, txn)
        self._count = 0

    def step(self) -> bool:
        """Run for a slice; True when the end is reached."""
        rows = self.rows
        if not rows.done:
            self._count += len(rows.step_pairs(AT_ONCE))
        return rows.done

    def result(self, txn: object, *, names_rules: bool = False) -> dict[str, Any]:
        """`txn`: for the estimates. The plan with `access` in words, `estimatedRows`, `actualRows` and `examined`, the entries and records looked at; for a
        caller whom rules narrow `actualRows` only. `names_rules`: see `explain`."""
        plan = self._plan
        if is_view(plan.table):
            return {**explain(plan, txn), "actualRows": self._count}
        return {
            **explain(plan, txn, names_rules=names_rules),
            "access": describe_plan(plan),
            "estimatedRows": _estimated_rows(plan, _transaction(plan.table, txn)),
            "actualRows": self._count,
            "examined": self.rows.examined,
        }


def describe_plan(plan: Plan) -> str:
    """How the records are reached, in words."""
    text = describe(plan.access, plan.table)
    if plan.query.aggregate is not None:
        text += f", {_METHODS[method_of(plan)]}"
    if plan.sort:
        text += f", sorted in memory by {_sort_text(plan.sort)}"
    return text


def describe(access: Access, table: AnyTable) -> str:
    """One access in words: `index price, 20 <= price < 60, ascending`."""
    key = table.primary_key
    match access:
        case Nothing():
            return "nothing can match"
        case KeyLookup():
            return f"primary key, {key} = {', '.join(_stored_text(stored, table, key) for stored in access.keys)}"
        case KeyRange():
            bounds = range_text(key, access.low, access.high, table)
            name = f"primary key, {bounds}" if bounds else "full scan"
            return f"{name}, {_direction(access.reverse)}{_behind(access.behind)}"
        case IndexRange():
            bounds = range_text(access.attribute, access.low, access.high, table)
            text = f"index {access.attribute}{', ' if bounds else ''}{bounds}, {_direction(access.reverse)}{_behind(access.behind)}"
            return text + (", each record once" if access.distinct else "")
        case OrderedIndex():
            bounds = range_text(access.attribute, access.low, access.high, table)
            order = f", {_direction(access.keys[0].descending)}{_behind(access.behind)}"
            rest = f", equal ones by {_sort_text(access.keys[1:])}" if len(access.keys) > 1 else ""
            return f"index {access.attribute}{', ' if bounds else ''}{bounds}{order}{rest}"
        case Union():
            return f"union of ({'; '.join(_branch_text(branch, table) for branch in access.branches)})"
        case ThroughRelated():
            return _join_text(access, table)


def range_text(name: str, low: bytes | None, high: bytes | None, table: AnyTable) -> str:
    """A range of encoded keys as a condition, "" for everything.

    Ends at the border of a kind are left out: ranges never leave the kind of their values.
    """
    if low is not None and low == after(NULL_KEY) and high is None:
        return f"{name} is not null"
    if low is not None and high is not None and high == after(low):
        return f"{name} = {_stored_text(low, table, name)}"
    if low is not None and low[:1] == bytes((TEXT,)) and _decoded(low) is None and _decoded(low[:-1]) is None and len(low) > 1:
        return f"{name} starts with {_stored_text(low, table, name)}"
    above, below = _bound_text(low, table, name), _bound_text(high, table, name)
    left = f"{above[0]} {'<' if above[1] else '<='} " if above else ""
    right = f" {'<=' if below[1] else '<'} {below[0]}" if below else ""
    return f"{left}{name}{right}" if left or right else ""


def json_value(value: Any) -> Any:
    """Any value of a condition, for any JSON encoder."""
    if isinstance(value, (list, tuple)):
        return [json_value(element) for element in value]
    if isinstance(value, (bytes, bytearray, memoryview)):
        return b64encode(bytes(value)).decode()
    return decode_payload_json(encode_payload(value))


def _bound_text(bound: bytes | None, table: AnyTable, name: str) -> tuple[str, bool] | None:
    """(value, whether the bound stands behind it); None for an open end."""
    if bound is None or len(bound) < 2:
        return None
    behind = bound[-1] == 0 and _decoded(bound) is None
    return _stored_text(bound[:-1] if behind else bound, table, name), behind


def _decoded(data: bytes) -> tuple[object] | None:
    try:
        return (decode_key(data),)
    except ValueError:
        return None


def _stored_text(data: bytes, table: AnyTable, name: str) -> str:
    """The value of an encoded key, or what can be read of one that was cut."""
    decoded = _decoded(data)
    if decoded is None:
        return _shortened(msgspec.json.encode(data[1:].decode(errors="ignore")).decode())
    value = decoded[0]
    attribute = table.attributes.get(name)
    if attribute is not None and attribute.type == "Date":
        value = date_of(value)
    return _shortened(msgspec.json.encode(json_value(value)).decode())


def _shortened(text: str) -> str:
    return text if len(text) <= _LONGEST else text[:_LONGEST] + "..."


def _direction(descending: bool) -> str:
    return "descending" if descending else "ascending"


def _behind(place: object) -> str:
    return "" if place is None else ", from behind the cursor"


def _sort_text(keys: tuple[SortKey, ...]) -> str:
    return ", ".join(f"{'-' if key.descending else ''}{'.'.join(key.path)}" for key in keys)


def _branch_text(branch: Branch, table: AnyTable) -> str:
    return describe(branch.access, table) + ("" if branch.filter is None else ", filtered")


def _join_text(access: ThroughRelated, table: AnyTable) -> str:
    related = access.related
    ours = related.relationship.from_
    how = f"index {ours}" if ours is not None and ours != table.primary_key else "primary key"
    return f"join from {related.target.name}: {_branch_text(access.inner, related.target)}; then {table.name} by {how}"


def _predicate(predicate: Predicate, table: AnyTable, txn: object) -> dict[str, Any]:
    """A condition with its estimate, and those in it with theirs."""

    def estimate(member: Predicate, of: AnyTable) -> dict[str, Any]:
        return {"estimatedRows": estimated_matches(member, of, txn)}

    return _shown(predicate, table, estimate)


def _shown(
    predicate: Predicate, table: AnyTable | None = None, more: Callable[[Predicate, Any], dict[str, Any]] = lambda predicate, table: {}
) -> dict[str, Any]:
    """A condition, with what is `more` to be told of it and of those in it. `table`: whose it is."""
    shown: dict[str, Any]
    match predicate:
        case Comparison():
            shown = {"attribute": ".".join(predicate.path), "comparator": str(predicate.comparator), "value": json_value(predicate.value)}
        case Never():
            shown = {"attribute": ".".join(predicate.path), "comparator": str(predicate.comparator), "value": None}
        case AllOf() | AnyOf():
            inner = [_shown(member, table, more) for member in predicate.members]
            shown = {"operator": "and" if isinstance(predicate, AllOf) else "or", "conditions": inner}
        case RelatedCondition():
            inner = [_shown(member, predicate.target, more) for member in iter_members(predicate.where)]
            shown = {"attribute": predicate.name, "operator": "and", "conditions": inner}
    return shown | more(predicate, table)


def _estimated_rows(plan: Plan, txn: object) -> int | None:
    """The records that the access finds, thinned out by each condition that is left as far as its matches can be estimated (§11.2)."""
    table = plan.table
    estimated = estimated_cost(plan.access, table, txn)
    total = max(table.entry_count(txn), 1)
    for member in iter_members(plan.filter):
        matches = None if member in plan.served else estimated_matches(member, table, txn)
        if matches is not None:
            estimated *= min(matches / total, 1.0)
    if plan.query.aggregate is not None:
        return 1 if plan.query.aggregate.kind == "count" else None
    rows = max(round(estimated) - plan.offset, 0)
    return rows if plan.limit is None else min(rows, plan.limit)


def _transaction(table: AnyTable, txn: object) -> object:
    if txn is not None:
        return txn
    snapshot = getattr(table.database, "snapshot", None)
    return None if snapshot is None else snapshot()
