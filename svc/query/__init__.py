"""Queries: text -> nodes -> plan -> rows (architecture §5)."""

from svc.query.cache import QueryCache
from svc.query.execution import execute
from svc.query.mapping import query_from_mapping
from svc.query.plan import AnyRows, Plan
from svc.query.planner import plan_query
from svc.query.printer import print_query
from svc.query.to_mapping import query_to_mapping
from svc.query.url import parse_query

__all__ = [
    "AnyRows", "Plan", "QueryCache", "execute", "parse_query", "plan_query", "print_query", "query_from_mapping", "query_to_mapping",
]  # fmt: skip
