"""Running a plan: rows of records, or rows computed from them."""

from __future__ import annotations

from typing import Any

from svc.query.aggregate import AggregateRows, row_names
from svc.query.executor import RecordRows
from svc.query.plan import AnyRows, Plan
from svc.query.select import columns_of


def execute(plan: Plan, txn: Any, *, json: bool = False) -> AnyRows:
    """Begin an execution on a read transaction, which must stay open until the rows are exhausted or closed.

    `json`: values are ready for a JSON encoder (dates are strings).
    """
    return RecordRows(plan, txn, json=json) if plan.query.aggregate is None else AggregateRows(plan, txn, json=json)


def result_columns(plan: Plan) -> tuple[str, ...]:
    """The column names of a tabular form of the result (spec: http §7.3)."""
    return columns_of(plan.query.select, plan.table) if plan.query.aggregate is None else row_names(plan.query.aggregate)
