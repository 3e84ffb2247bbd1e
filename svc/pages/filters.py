"""The forms of a collection: three fields, sent without scripts, become a condition of the query language, or a count of values.

A form can only send names and values, and a condition is neither. So the fields have names of their own, and the answer to them is a redirect to the address
with the condition: that is what a person sees, copies, and gives to other programs.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any
from urllib.parse import parse_qsl, quote

from svc.errors import ClientError, QueryError
from svc.http.query_fields import query_fields
from svc.pages.cells import CELL, shown
from svc.pages.links import Variants, conditions_of, printed, with_conditions
from svc.query import QueryCache
from svc.query.nodes import Aggregate, Comparator, Condition, Conversion, Query, Select, SelectItem
from svc.resources import TableResource
from svc.store import Table
from svc.store.schema import Attribute

COLUMN, OPERATOR, VALUE, REST = "_column", "_operator", "_value", "_query"
LINE, COLUMNS, SHOWN, OPEN = "_filter", "_columns", "_show", "_open"
"""First fields of other forms: a query as text; the query whose columns are chosen, and each that is to be shown; the key of a record to go to."""
MOST_FIELDS = 10
MOST_SHOWN = 300  # columns that a form chooses
COUNT = "count"  # as the operator: how often each value comes, with figures of the column that is the value
VIEW = "_view="
"""How the query of a view begins: a page that a record or collection has besides (`views`)."""
_FIGURES = ("sum", "avg", "min", "max")
_LONGEST_LINE = 4000
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

    @property
    def columns(self) -> list[tuple[str, str]]:
        return [(name, name) for name in self.fields]


@dataclass(slots=True)
class FilterLine:
    """The query as text, to be written. `names`: (as the language writes it, type) of the attributes that there are. `fault`: what is wrong with it, `before`,
    `at`, `behind`: where."""

    text: str
    names: list[tuple[str, str]] = field(default_factory=list)
    fault: str = ""
    code: str = ""
    before: str = ""
    at: str = ""
    behind: str = ""
    position: int | None = None


@dataclass(slots=True)
class ColumnForm:
    """`columns`: (name, as it is shown, whether it is chosen), the chosen ones first, in their order. `query`: without a selection. `reset`: its address, "" if
    no columns are chosen."""

    columns: list[tuple[str, str, bool]]
    query: str
    reset: str


@dataclass(slots=True)
class CountForm:
    """The columns whose values can be counted, and those that figures can be made of."""

    fields: list[str]
    numbers: list[str]
    query: str

    @property
    def columns(self) -> list[tuple[str, str]]:
        return [(name, name) for name in self.fields]

    @property
    def figures(self) -> list[tuple[str, str]]:
        return [("", "no column"), *((name, name) for name in self.numbers)]


def filter_form(fields: list[str], query: Query) -> FilterForm:
    """An empty one for the records of `query`."""
    operators = [(key, each.name) for key, each in OPERATORS.items() if query.where is not None or not each.needs_others]
    return FilterForm(fields, operators, (printed(replace(query, after=None, offset=0)) or "?")[1:])


def filled_form(text: str, fields: list[str]) -> FilterForm:
    """The form as it was sent, to be mended."""
    sent = query_fields(text)
    column, operator, value = [sent.get(name, "")[:_LONGEST_VALUE] for name in (COLUMN, OPERATOR, VALUE)]
    return FilterForm(fields, [(key, each.name) for key, each in OPERATORS.items()], sent.get(REST, ""), column, operator, value)


def form_of(text: str | None, table: Table) -> str:
    """The first field of the form that has sent a query; "" if none has."""
    if text is None or not text.startswith("_"):
        return ""
    name = text.partition("=")[0]
    return name if name in (COLUMN, LINE, COLUMNS, OPEN) and name not in table.attributes else ""


def filtered(text: str, table: Table, queries: QueryCache) -> Query:
    """The query with what a form makes of it. Raises ClientError 400.

    Whether there is such an attribute is said where that leads, to callers who may know.
    """
    form = form_of(text, table)
    if form == LINE:
        line = line_of(text)
        return queries.parse(line, table) if line else Query()
    if form == COLUMNS:
        return _with_columns(_fields_of(text, MOST_SHOWN + 1), table, queries)
    fields = dict(_fields_of(text, MOST_FIELDS))
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


def _fields_of(text: str, most: int) -> list[tuple[str, str]]:
    try:
        return parse_qsl(text, keep_blank_values=True, max_num_fields=most, errors="strict")
    except ValueError:
        raise ClientError("The fields of the filter form cannot be read", code="QUERY_SYNTAX") from None


def line_of(text: str) -> str:
    """The query that was written. Raises ClientError 400."""
    return _fields_of(text, MOST_FIELDS)[0][1].strip().removeprefix("?")


def opened_key(text: str) -> str:
    """The key of the record that is to be opened. Raises ClientError 400."""
    key = _fields_of(text, MOST_FIELDS)[0][1]
    if not key:
        raise ClientError("The key of a record is needed to open it", code="BAD_VALUE")
    return key


def _with_columns(fields: list[tuple[str, str]], table: Table, queries: QueryCache) -> Query:
    """The query with these columns in their order; one that was selected stays as it was written."""
    rest = fields[0][1]
    query = queries.parse(rest, table) if rest else Query()
    known = {} if query.select is None else {item.name: item for item in query.select.items}
    names = dict.fromkeys([value for name, value in fields[1:] if name == SHOWN])
    if not names:
        return replace(query, select=None, after=None)
    return replace(query, select=Select(tuple([known.get(name) or SelectItem((name,)) for name in names])), after=None)


def filter_line(text: str, attributes: list[Attribute]) -> FilterLine:
    """`text`: the query that there is. `attributes`: that conditions can speak of."""
    return FilterLine(text, [(written(each.name), f"[{each.type}]" if each.elements else each.type) for each in attributes])


def faulty_line(text: str, error: ClientError, attributes: list[Attribute]) -> FilterLine:
    """The line as it was written, with what is wrong."""
    try:
        line = line_of(text)
    except ClientError:
        line = ""
    found = filter_line(line, attributes)
    found.fault, found.code = error.message, error.code
    position = error.position if isinstance(error, QueryError) else None
    if position is not None and len(line) <= _LONGEST_LINE:
        found.position = position = min(position, len(line))
        found.before, found.at, found.behind = line[:position], line[position : position + 1] or " ", line[position + 1 :]
    return found


def column_form(query: Query, attributes: list[Attribute], variants: Variants) -> ColumnForm | None:
    """None where columns cannot be chosen. `attributes`: that the caller may see. `variants`: of the query."""
    if query.aggregate is not None or (query.select is not None and query.select.shape != "object"):
        return None
    if query.select is None:
        names = {each.name: each.relationship is None and each.stored for each in attributes}
    else:
        names = {item.name: True for item in query.select.items}
        names |= {each.name: False for each in attributes if each.name not in names}
    columns = [(name, shown(name[:CELL]), is_chosen) for name, is_chosen in names.items()][: MOST_SHOWN - 1]
    return ColumnForm(columns, variants.text(), "" if query.select is None else variants.whole())


def written(name: str) -> str:
    """A name as the query language writes it.

    >>> written("a.b c")
    'a%2Eb%20c'
    """
    return quote(name, safe="").replace(".", "%2E")


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
