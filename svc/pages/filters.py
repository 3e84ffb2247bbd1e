"""The forms of a collection: three fields, sent without scripts, become a condition of the query language, or a count of values.

A form can only send names and values, and a condition is neither. So the fields have names of their own, and the answer to them is a redirect to the address
with the condition: that is what a person sees, copies, and gives to other programs.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import parse_qsl

from svc.errors import ClientError, QueryError
from svc.http.query_fields import query_fields
from svc.pages.links import conditions_of, printed, with_conditions
from svc.query import QueryCache
from svc.query.nodes import Aggregate, Comparator, Condition, Conversion, Query
from svc.resources import TableResource
from svc.store import Table

COLUMN, OPERATOR, VALUE, REST = "_column", "_operator", "_value", "_query"
MOST_FIELDS = 10
COUNT = "count"  # as the operator: how often each value comes, with figures of the column that is the value
VIEW = "_view="
"""How the query of a view begins: a page that a record or collection has besides (`views`)."""
_FIGURES = ("sum", "avg", "min", "max")
_LONGEST_VALUE = 1000  # characters of a field that is shown again


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


@dataclass(slots=True)
class FilterForm:
    """What the form that adds a condition offers, and what is filled in. `operators`: (key, label). `query`: the conditions that there are."""

    fields: list[str]
    operators: list[tuple[str, str]]
    query: str
    column: str = ""
    operator: str = ""
    value: str = ""


@dataclass(slots=True)
class CountForm:
    """The columns whose values can be counted, and those that figures can be made of."""

    fields: list[str]
    numbers: list[str]
    query: str


def filter_form(fields: list[str], query: Query) -> FilterForm:
    """An empty one for the records of `query`."""
    operators = [(key, each.name) for key, each in OPERATORS.items() if query.where is not None or not each.needs_others]
    return FilterForm(fields, operators, (printed(replace(query, after=None, offset=0)) or "?")[1:])


def filled_form(text: str, fields: list[str]) -> FilterForm:
    """The form as it was sent, to be mended."""
    sent = query_fields(text)
    column, operator, value = [sent.get(name, "")[:_LONGEST_VALUE] for name in (COLUMN, OPERATOR, VALUE)]
    return FilterForm(fields, [(key, each.name) for key, each in OPERATORS.items()], sent.get(REST, ""), column, operator, value)


def is_form(text: str | None, table: Table) -> bool:
    """Whether a query is what the form has sent."""
    return text is not None and text.startswith(f"{COLUMN}=") and COLUMN not in table.attributes


def filtered(text: str, table: Table, queries: QueryCache) -> Query:
    """The query with what the form adds. Raises ClientError 400.

    Whether there is such an attribute is said where that leads, to callers who may know.
    """
    try:
        fields = dict(parse_qsl(text, keep_blank_values=True, max_num_fields=MOST_FIELDS, errors="strict"))
    except ValueError:
        raise ClientError("The fields of the filter form cannot be read", code="QUERY_SYNTAX") from None
    name, value = fields.get(COLUMN, ""), fields.get(VALUE, "")
    if fields.get(OPERATOR) == COUNT:
        query = queries.parse(fields[REST], table) if fields.get(REST) else Query()
        figures = [(function, (value,)) for function in _FIGURES] if value else []
        aggregate = Aggregate("group" if figures else "facet", ((name,),), (("count", None), *figures) if figures else ())
        return Query(query.where, aggregate=aggregate)
    operator = OPERATORS.get(fields.get(OPERATOR, ""))
    if operator is None:
        raise QueryError("Unknown query comparator", code="UNUSABLE_OPERATOR")
    rest = fields.get(REST, "")
    query = queries.parse(rest, table) if rest else Query()
    if value or operator.is_null or operator.comparator in _MAY_BE_EMPTY:
        condition = Condition((name,), operator.comparator, None if operator.is_null else value, operator.conversion)
        query = with_conditions(query, (*conditions_of(query), condition))
    return query


def reference_to(query: Query) -> str:
    """Relative to the collection. Raises ClientError 400."""
    reference = printed(query)
    if reference is None:
        raise ClientError("The query has no form in an address", code="QUERY_SYNTAX")
    return reference


def is_view(query: str | None, resource: Any) -> bool:
    """Whether a query names a view, and not a condition on an attribute of that name."""
    return (
        query is not None
        and query.startswith(VIEW)
        and isinstance(resource, type)
        and issubclass(resource, TableResource)
        and ("_view" not in resource.properties)
    )
