"""Reading records: by id, by value, by conditions (spec: operations §3.2).

Bodies become the same query nodes as the URL language and the QUERY method; the rows are streamed in the type that the client asked for.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any, overload

from svc.api.context import Context
from svc.errors import BadValue, ClientError
from svc.operations.call import Call
from svc.operations.fields import DATABASE, GET_ATTRIBUTES, TABLE, Field, bad_request
from svc.operations.operation import READ, Operation
from svc.operations.search_fields import MemberFault, SearchReader
from svc.operations.searching import loaded, narrowed, planned, planned_text, reader_for, rows_of, table_of
from svc.query import Plan
from svc.query.convert import typed_value
from svc.query.nodes import Comparator, Condition, Conversion, Query
from svc.query.plan import AllOf, KeyLookup
from svc.query.select import validate_select
from svc.query.tables import rule_members
from svc.store import Table
from svc.store.values.conversion import check_key
from svc.store.values.keys import encode_key, storage_key

NOT_BESIDE_QUERY = ("conditions", "operator", "get_attributes", "sort", "limit", "offset", "reverse")


# --- by id --------------------------------------------------------------------------------------------------------------------------------


def search_by_id(call: Call) -> Any:
    began = call.node.clock.monotonic()
    get_attributes = call["get_attributes"]
    table = table_of(call, lambda reader: reader.query(get_attributes=get_attributes))
    query = Query()
    if get_attributes is not None:
        query = call.node.searches.query(
            table, ("id", get_attributes), lambda: reader_for(call, table).query(get_attributes=get_attributes)
        )
    query, visible = narrowed(call, table, query)
    if query.select is not None:
        validate_select(query.select, table)
    keys: Any = StoredKeys(table, call["ids"])
    view = call.seen(table)
    members = rule_members(view)
    plan = Plan(view, query, KeyLookup(keys), (), AllOf(members) if members else None, (), 0, None)
    rows = partial(rows_of, call, table, plan, visible, began)
    if table.caching is None or call.is_check:
        return rows()
    ids = [key for given in call["ids"] if (key := key_of(table, given)) is not None]
    return table.caching.find_keys(ids, rows, Context(call.user))


class StoredKeys(Sequence[bytes]):
    """The stored keys of some ids, made when they are looked up: a slice of a long list at a time. What can be no key of the table has no record."""

    def __init__(self, table: Table, ids: list[Any]) -> None:
        self._table = table
        self._ids = ids

    def __len__(self) -> int:
        return len(self._ids)

    @overload
    def __getitem__(self, at: int) -> bytes: ...
    @overload
    def __getitem__(self, at: slice) -> Sequence[bytes]: ...
    def __getitem__(self, at: int | slice) -> Any:
        return tuple(self)[at]

    def __iter__(self) -> Iterator[bytes]:
        table = self._table
        for given in self._ids:
            stored = stored_key(table, given)
            if stored is not None:
                yield stored


def key_of(table: Table, given: Any) -> Any:
    """The key that an id of a body stands for, converted to the declared type as the value of a condition is; None if it can be none."""
    try:
        try:
            return check_key(table.definition, given)
        except ClientError:
            attribute = table.attributes.get(table.primary_key)
            return check_key(table.definition, typed_value(given, Conversion.TYPED, attribute, table.primary_key))
    except (ClientError, BadValue):
        return None


def stored_key(table: Table, given: Any) -> bytes | None:
    """The stored form of that key."""
    key = key_of(table, given)
    try:
        return None if key is None else storage_key(encode_key(key))
    except (ClientError, BadValue):
        return None


# --- by value -----------------------------------------------------------------------------------------------------------------------------


def search_by_value(call: Call) -> Any:
    began = call.node.clock.monotonic()
    members = tuple([call[name] for name in ("attribute", "value", "get_attributes", "sort", "limit", "offset", "desc")])
    table = table_of(call, lambda reader: _query_by_value(reader, *members))
    query = call.node.searches.query(table, ("value", *members), lambda: _query_by_value(reader_for(call, table), *members))
    return loaded(call, table, partial(planned, call, table, query, began))


def _query_by_value(
    reader: SearchReader, attribute: Any, value: Any, get_attributes: Any, sort: Any, limit: Any, offset: Any, descending: Any
) -> Query:
    comparator, value = wildcard(value)
    where: Condition | None = None
    natural: tuple[str, ...] = ()
    try:
        if comparator is None:
            reader.path(attribute, "attribute")
        else:
            where = reader.condition(attribute, comparator, value)
            if comparator is not Comparator.EQUALS:
                natural = where.path
    except MemberFault as fault:
        raise fault.problem() from None
    return reader.query(None, None, get_attributes, sort, limit, offset, descending, where=where, natural=natural)


def wildcard(value: Any) -> tuple[Comparator | None, Any]:
    """The comparator and the value that a value of a search stands for; (None, None): all records.

    >>> wildcard("f*")
    (<Comparator.STARTS_WITH: 'starts_with'>, 'f')
    >>> wildcard("a*b"), wildcard("*")
    ((<Comparator.EQUALS: 'equals'>, 'a*b'), (None, None))
    """
    if type(value) is not str or "*" not in value:
        return Comparator.EQUALS, value
    if value == "*":
        return None, None
    starts, ends = value[0] == "*", value[-1] == "*"
    if starts and ends:
        return Comparator.CONTAINS, value[1:-1]
    if ends:
        return Comparator.STARTS_WITH, value[:-1]
    return (Comparator.ENDS_WITH, value[1:]) if starts else (Comparator.EQUALS, value)


# --- by conditions ------------------------------------------------------------------------------------------------------------------------


def search_by_conditions(call: Call) -> Any:
    began = call.node.clock.monotonic()
    given = call.arguments
    if given["query"] is not None:
        return _search_by_text(call, given["query"], began)
    if given["conditions"] is None:
        raise bad_request("'conditions' is required")
    members = tuple([given[name] for name in NOT_BESIDE_QUERY])
    table = table_of(call, lambda reader: reader.query(*members))
    query = call.node.searches.query(table, members, lambda: reader_for(call, table).query(*members))
    return loaded(call, table, partial(planned, call, table, query, began))


def _search_by_text(call: Call, text: str, began: float) -> Any:
    others = [f"'{name}'" for name in NOT_BESIDE_QUERY if call[name] is not None]
    if others:
        raise bad_request(f"'query' cannot be used together with {', '.join(others)}")
    return loaded(call, call.table, partial(planned_text, call, call.table, text, began))


# --- rows ---------------------------------------------------------------------------------------------------------------------------------

IDS = Field("ids", "keys", "Primary keys.", required=True, aliases=("hash_values",), shown_as="hash_values")
SORT = Field("sort", "object", '`{"attribute", "descending", "next"}`; `next` is a further one for ties.')
LIMIT = Field("limit", "integer", "Largest number of records to return.", low=1)
OFFSET = Field("offset", "integer", "Number of records to skip.", low=0)
OPERATOR = Field("operator", "string", "`and` or `or`, in any case: how conditions are joined; default `and`.")
CONDITIONS = Field(
    "conditions",
    "non-empty list",
    'Conditions `{"attribute", "comparator", "value"}` and groups `{"operator", "conditions"}` of them, to any depth.',
)

_COMPARATORS = """\
Comparators are `equals` (when none is given), `not_equal`, `greater_than`, `greater_than_equal`, `less_than`, `less_than_equal`, `between`, `contains`,
`starts_with` and `ends_with`, also in their short forms (`eq`, `ne`, `gt`, `>=`, `sw` ...). Values keep their type: `5` is not `"5"`, unless the attribute
has a declared type, to which they are converted. null and absent are the same. Strings are compared with case."""

OPERATIONS: tuple[Operation, ...] = (
    Operation(
        name="search_by_id",
        aliases=("search_by_hash",),
        category="searches",
        summary="Read records by their primary keys",
        permission=READ,
        handler=search_by_id,
        fields=(DATABASE, TABLE, IDS, GET_ATTRIBUTES),
        returns="The records found, in the order of the request; keys without a record are left out.",
        notes="Attributes named in `get_attributes` that a record does not have are null. Without it the records come as they are stored.",
        example={"database": "garden", "table": "plant", "ids": [7, 8], "get_attributes": ["id", "species"]},
        example_answer=[{"id": 7, "species": "fern"}],
    ),
    Operation(
        name="search_by_value",
        category="searches",
        summary="Find records by the value of one attribute",
        permission=READ,
        handler=search_by_value,
        fields=(
            DATABASE,
            TABLE,
            Field("attribute", "any", "Attribute, or a path through related records.", required=True, aliases=("search_attribute",)),
            Field(
                "value",
                "any",
                "Value, or a string with `*` at its beginning, its end or both; `*` alone finds all records, null those without a value.",
                required=True,
                aliases=("search_value",),
                nullable=True,
            ),
            GET_ATTRIBUTES,
            SORT,
            LIMIT,
            OFFSET,
            Field("desc", "bool", "Backwards.", aliases=("reverse",)),
        ),
        returns="The records found.",
        notes="`f*` finds strings that start with `f`, `*f` those that end with it, `*f*` those that hold it; a `*` elsewhere is a character. Without a `*`\n"
        "type and value must be equal.",
        example={"database": "garden", "table": "plant", "attribute": "species", "value": "f*", "get_attributes": ["id", "species"]},
        example_answer=[{"id": 7, "species": "fern"}],
    ),
    Operation(
        name="search_by_conditions",
        category="searches",
        summary="Find records by conditions, or with a query text",
        permission=READ,
        handler=search_by_conditions,
        fields=(
            DATABASE,
            TABLE,
            CONDITIONS,
            OPERATOR,
            GET_ATTRIBUTES,
            SORT,
            LIMIT,
            OFFSET,
            Field("reverse", "bool", "Backwards: by the primary key, or by what `sort` says."),
            Field("query", "any string", "Instead of these: a query of the REST interface without its `?`."),
        ),
        returns="The records found.",
        notes=_COMPARATORS
        + "\n\nA query string, such as `height=gt=5&sort(-height)&limit(0,50)&select(id,height)`, means the same as in a URL, but may read the whole table.\n\n"
        "Of `system.svc_raw_analytics` a search reads at most 10 seconds: those behind the lowest `id` asked for, else the latest.",
        example={
            "database": "garden",
            "table": "plant",
            "operator": "and",
            "conditions": [
                {"attribute": "height", "comparator": "between", "value": [5, 50]},
                {
                    "operator": "or",
                    "conditions": [
                        {"attribute": "species", "comparator": "starts_with", "value": "f"},
                        {"attribute": "potted", "value": True},
                    ],
                },
            ],
            "sort": {"attribute": "height", "descending": True, "next": {"attribute": "id"}},
            "limit": 20,
            "get_attributes": ["id", "species", "height"],
        },
        example_answer=[{"id": 7, "species": "fern", "height": 12}],
    ),
)
