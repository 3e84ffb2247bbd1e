"""How many records a query finds, whatever page of them it asks for (spec: query §8.6)."""

from __future__ import annotations

from svc.query.nodes import Aggregate, Query
from svc.query.plan import AllOf, Plan, Predicate, iter_members
from svc.query.planner import plan_resolved
from svc.query.tables import rule_members


def total_plan(plan: Plan, txn: object) -> Plan:
    """The plan that counts the records of `plan` without cursor, offset and limit. It is planned again, since another index may count sooner than the
    one that delivers the order; the conditions are those of `plan`, so the index rule has been kept and rights have been tested."""
    rule = set(map(id, rule_members(plan.table)))  # which is added again
    members: dict[int, Predicate] = {id(member): member for member in (*plan.served, *iter_members(plan.filter)) if id(member) not in rule}
    found = tuple(members.values())
    where = None if not found else found[0] if len(found) == 1 else AllOf(found)
    return plan_resolved(Query(aggregate=Aggregate("count")), where, plan.table, txn, True)
