"""The filter form of a collection: three fields, sent without scripts, become a condition of the query language.

A form can only send names and values, and a condition is neither. So the fields have names of their own, and the answer to them is a redirect to the address
with the condition: that is what a person sees, copies, and gives to other programs.
"""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import parse_qsl

from svc.errors import ClientError, QueryError
from svc.pages.links import conditions_of, printed, with_conditions
from svc.query import QueryCache
from svc.query.nodes import Comparator, Condition, Conversion, Query
from svc.store import Table

COLUMN, OPERATOR, VALUE, REST = "_column", "_operator", "_value", "_query"
MOST_FIELDS = 10


@dataclass(frozen=True, slots=True)
class Operator:
    """`needs_others`: no index answers it, so the query has to have another condition."""

    name: str
    comparator: Comparator
    conversion: Conversion = Conversion.CONVERTING
    needs_others: bool = False
    is_null: bool = False


OPERATORS = {
    "eq": Operator("=", Comparator.EQUALS),
    "gt": Operator(">", Comparator.GREATER_THAN),
    "ge": Operator("≥", Comparator.GREATER_THAN_EQUAL),
    "lt": Operator("<", Comparator.LESS_THAN),
    "le": Operator("≤", Comparator.LESS_THAN_EQUAL),
    "sw": Operator("starts with", Comparator.STARTS_WITH, Conversion.TEXT),
    "null": Operator("is null or missing", Comparator.EQUALS, Conversion.FORCED, is_null=True),
    "ne": Operator("≠", Comparator.NOT_EQUAL, needs_others=True),
    "ct": Operator("contains", Comparator.CONTAINS, Conversion.TEXT, needs_others=True),
    "ew": Operator("ends with", Comparator.ENDS_WITH, Conversion.TEXT, needs_others=True),
}
_MAY_BE_EMPTY = (Comparator.EQUALS, Comparator.NOT_EQUAL)


def is_form(text: str | None, table: Table) -> bool:
    """Whether a query is what the form has sent."""
    return text is not None and text.startswith(f"{COLUMN}=") and COLUMN not in table.attributes


def filtered(text: str, table: Table, queries: QueryCache) -> str:
    """The reference to the collection with the condition of the form. Raises ClientError 400.

    Whether there is such an attribute is said where that leads, to callers who may know.
    """
    try:
        fields = dict(parse_qsl(text, keep_blank_values=True, max_num_fields=MOST_FIELDS, errors="strict"))
    except ValueError:
        raise ClientError("The fields of the filter form cannot be read", code="QUERY_SYNTAX") from None
    name, value = fields.get(COLUMN, ""), fields.get(VALUE, "")
    operator = OPERATORS.get(fields.get(OPERATOR, ""))
    if operator is None:
        raise QueryError("Unknown query comparator", code="UNUSABLE_OPERATOR")
    rest = fields.get(REST, "")
    query = queries.parse(rest, table) if rest else Query()
    if value or operator.is_null or operator.comparator in _MAY_BE_EMPTY:
        condition = Condition((name,), operator.comparator, None if operator.is_null else value, operator.conversion)
        query = with_conditions(query, (*conditions_of(query), condition))
    reference = printed(query)
    if reference is None:
        raise ClientError("The query has no form in an address", code="QUERY_SYNTAX")
    return reference
