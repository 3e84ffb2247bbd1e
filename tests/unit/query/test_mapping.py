from collections import UserDict
from datetime import UTC, date, datetime
from enum import StrEnum

import pytest

from svc.errors import QueryError
from svc.query import parse_query
from svc.query.calls import MAX_CURSOR, MAX_DEPTH, MAX_PATH
from svc.query.mapping import MAX_NODES, MAX_SORT_KEYS, query_from_mapping, split_options
from svc.query.mapping_members import QUERY_OPTIONS
from svc.query.nodes import Aggregate, Comparator, Condition, Conversion, Group, Query, RelationFilter, Select, SelectItem, SortKey
from svc.query.to_mapping import query_to_mapping

PATH_B = {"attribute": "a.b", "value": 1}


def condition(name, value, comparator=Comparator.EQUALS):
    return Condition(tuple(name.split(".")), comparator, value)


A, B, C = (condition(name, 1) for name in "abc")
JA, JB, JC = ({"attribute": name, "value": 1} for name in "abc")


def names(*given):
    return tuple([SelectItem(tuple(name.split("."))) for name in given])


@pytest.mark.parametrize(
    ("data", "where"),
    [
        ({}, None),
        ([], None),
        ({"conditions": []}, None),
        ({"conditions": None, "limit": None, "select": None, "sort": None, "operator": None, "explain": None}, None),
        ([JA], A),
        ((JA,), A),
        ({"conditions": JA}, A),
        ({"conditions": [JA, JB]}, Group("and", (A, B))),
        ({"conditions": [JA, JB], "operator": "AND"}, Group("and", (A, B))),
        ({"conditions": [JA, JB], "operator": "or"}, Group("or", (A, B))),
        (
            [JA, {"operator": "or", "conditions": [JB, {"conditions": [JA, JC]}]}],
            Group("and", (A, Group("or", (B, Group("and", (A, C)))))),
        ),
        ([{"conditions": [JA]}], A),
        ([{"conditions": JA}], A),
        (UserDict(conditions=[UserDict(JA)]), A),
        # attributes
        ([{"attribute": "a.b", "value": 1}], condition("a.b", 1)),
        ([{"attribute": ["a", "b"], "value": 1}], condition("a.b", 1)),
        ([{"attribute": ("a.b",), "value": 1}], Condition(("a.b",), Comparator.EQUALS, 1)),
        # names of the operations API
        ([{"search_attribute": "a", "search_type": "equals", "search_value": 1}], A),
        ([{"searchAttribute": "a", "searchValue": None}], condition("a", None)),
        # values
        ([{"attribute": "a", "value": None}], condition("a", None)),
        ([{"attribute": "a", "value": "null"}], condition("a", "null")),
        ([{"attribute": "a", "value": b"x"}], condition("a", b"x")),
        ([{"attribute": "a", "value": ["x", 1]}], condition("a", ("x", 1))),
        ([{"attribute": "a", "value": datetime(2024, 1, 1)}], condition("a", datetime(2024, 1, 1, tzinfo=UTC))),
        ([{"attribute": "a", "value": date(2024, 1, 1)}], condition("a", datetime(2024, 1, 1, tzinfo=UTC))),
        ([{"attribute": "a", "value": StrEnum("Colour", "RED").RED}], condition("a", "red")),
        ([{"attribute": "a", "comparator": "between", "value": [1, None]}], condition("a", (1, None), Comparator.BETWEEN)),
        ([{"attribute": "a", "comparator": "prefix", "value": ["x"]}], condition("a", ("x",), Comparator.PREFIX)),
        # relation filters
        (
            [{"attribute": "a", "conditions": [JB, JC], "operator": "or", "limit": 3, "sort": {"attribute": "b"}, "select": ["c"]}],
            RelationFilter(
                ("a",), Query(Group("or", (B, C)), Select((SelectItem(("c",)),)), (SortKey(("b",)),), 0, 3)
            ),
        ),
        ([{"attribute": "a", "conditions": []}], RelationFilter(("a",), Query())),
        # a group of one condition on related records stays apart from its neighbours
        ([{"conditions": [PATH_B]}, JC], Group("and", (Group("and", (condition("a.b", 1),)), C))),
        ([{"conditions": [{"conditions": [PATH_B]}]}, JC], Group("and", (Group("and", (condition("a.b", 1),)), C))),
        ([{"conditions": [JB]}, JC], Group("and", (B, C))),
    ],
)  # fmt: skip
def test_conditions(data, where):
    found = query_from_mapping(data)
    assert found == Query(where)


@pytest.mark.parametrize(
    ("comparator", "spellings"),
    [
        (Comparator.EQUALS, "equals equal eq == === ="),
        (Comparator.NOT_EQUAL, "not_equal notEqual ne != !=="),
        (Comparator.LESS_THAN, "less_than lessThan lt <"),
        (Comparator.LESS_THAN_EQUAL, "less_than_equal lessThanEqual le <="),
        (Comparator.GREATER_THAN, "greater_than greaterThan gt >"),
        (Comparator.GREATER_THAN_EQUAL, "greater_than_equal greaterThanEqual ge >="),
        (Comparator.STARTS_WITH, "starts_with startsWith sw"),
        (Comparator.ENDS_WITH, "ends_with endsWith ew"),
        (Comparator.CONTAINS, "contains ct"),
        (Comparator.BETWEEN, "between gele ..."),
        (Comparator.GELT, "gelt"),
        (Comparator.GTLE, "gtle"),
        (Comparator.GTLT, "gtlt"),
        (Comparator.PREFIX, "prefix"),
    ],
)
def test_comparators(comparator, spellings):
    for spelling in spellings.split():
        found = query_from_mapping([{"attribute": "a", "comparator": spelling, "value": [1, 2]}]).where
        assert found == Condition(("a",), comparator, (1, 2), Conversion.TYPED)


NESTED_B = Select(names("b"))


@pytest.mark.parametrize(
    ("data", "select"),
    [
        ("a", Select(names("a"), "value")),
        ("a.b", Select(names("a.b"), "value")),
        ("*", Select(names("*"))),
        (["a"], Select(names("a"))),
        (["a", "$id", "*"], Select(names("a", "$id", "*"))),
        ([{"name": "a"}], Select(names("a"))),
        ([{"name": ["a.b"]}], Select((SelectItem(("a.b",)),))),
        ({"name": "a", "select": ["b"]}, Select((SelectItem(("a",), NESTED_B),), "value")),
        ([{"name": "a", "select": ["b"]}], Select((SelectItem(("a",), NESTED_B),))),
        ([{"name": "a", "select": "b"}], Select((SelectItem(("a",), Select(names("b"), "value")),))),
        ([{"name": "a", "select": ["b"], "asArray": True}], Select((SelectItem(("a",), Select(names("b"), "array")),))),
        ([{"name": "a", "conditions": [JB]}], Select((SelectItem(("a",), query=Query(B)),))),
        (
            [{"name": "a", "conditions": JB, "sort": {"attribute": "b"}, "limit": 2, "offset": 1, "select": "b"}],
            Select((SelectItem(("a",), query=Query(B, Select(names("b"), "value"), (SortKey(("b",)),), 1, 2)),)),
        ),
        ([{"name": "a", "limit": 2}], Select((SelectItem(("a",), query=Query(limit=2)),))),
        ([{"name": "a", "conditions": []}], Select(names("a"))),
    ],
)
def test_select(data, select):
    assert query_from_mapping({"select": data}) == Query(select=select)


def test_select_as_array():
    assert query_from_mapping({"select": ["a"], "as_array": True}).select == Select(names("a"), "array")
    assert query_from_mapping({"select": ["a"], "asArray": False}).select == Select(names("a"))


def test_the_members_that_are_left():
    sort = {"attribute": "a.b", "descending": True, "next": {"attribute": ["c"], "next": None}}
    found = query_from_mapping({"sort": sort, "limit": 10, "offset": 5.0, "explain": True, "enforceExecutionOrder": True, "after": "x_-Z"})
    assert found == Query(None, None, (SortKey(("a", "b"), True), SortKey(("c",))), 5, 10, True, True, None, "x_-Z")


@pytest.mark.parametrize(
    ("data", "text"),
    [
        ("count", "count()"),
        ({"facet": "a.b"}, "facet(a.b)"),
        ({"facet": ["a", "b"]}, "facet(a.b)"),
        ({"group": "a"}, "group(a)"),
        ({"group": ["a", ["b", "c"]], "functions": []}, "group(a,b.c)"),
        ({"group": [], "functions": [{"max": "x"}]}, "group(;max(x))"),
        ({"group": ["a"], "functions": ["count", {"sum": "x"}, {"avg": ["x", "y"]}]}, "group(a;count,sum(x),avg(x.y))"),
    ],
)
def test_aggregates(data, text):
    assert query_from_mapping({"aggregate": data}) == parse_query(text)


@pytest.mark.parametrize(
    ("data", "part"),
    [
        (None, "it must be an object or a list"),
        ("a=1", "it must be an object or a list"),
        (5, "it must be an object or a list"),
        ({"foo": 1}, "'foo' is unknown (members are conditions,"),
        ({"condition": []}, "'condition' is unknown (did you mean \"conditions\"?)"),
        ({"attribute": "a", "value": 1}, "'attribute' is unknown (conditions belong in \"conditions\")"),
        ({"allow_full_scan": True}, "'allow_full_scan' is unknown (it can only be given by code)"),
        ({"allowFullScan": True}, "'allowFullScan' is unknown"),
        ({1: 2}, "'1' is an unknown member: names must be strings"),
        ({"explain": True, "\ud800": 1}, "is unknown"),
        ({"asArray": True, "as_array": True, "select": ["a"]}, "'as_array' is given twice"),
        ({"conditions": "a"}, "'conditions' must be a list"),
        ({"conditions": [5]}, "'conditions[0]' must be an object"),
        ({"conditions": [JA, None]}, "'conditions[1]' must be an object"),
        ({"conditions": [JA], "operator": "xor"}, "'operator' must be one of [and, or]"),
        ({"conditions": [JA], "operator": "or"}, "'conditions' must hold at least two"),
        ({"operator": "or"}, "'conditions' must hold at least two"),
        ([JA, {"conditions": []}], "'conditions[1].conditions' must hold at least one"),
        ([JA, {"operator": "or", "conditions": [JA]}], "'conditions[1].conditions' must hold at least two"),
        ([{"operator": "or", "conditions": [JA, {"value": 1}]}], "'conditions[0].conditions[1].attribute' is missing"),
        ([{"attribute": "a"}], "'conditions[0].value' is missing"),
        ([{"attribute": "a", "valeu": 1}], "'conditions[0].valeu' is unknown (did you mean \"value\"?)"),
        ([{"attribute": "a", "operator": "eq", "value": 1}], "'conditions[0].operator' is unknown (did you mean \"comparator\"?)"),
        ([{"attribute": "a", "search_attribute": "a", "value": 1}], "'conditions[0].attribute' is given twice"),
        ([{"attribute": 5, "value": 1}], "'conditions[0].attribute' must be the name"),
        ([{"attribute": [], "value": 1}], "'conditions[0].attribute' must not have empty names"),
        ([{"attribute": "a..b", "value": 1}], "'conditions[0].attribute' must not have empty names"),
        ([{"attribute": ["a", 1], "value": 1}], "'conditions[0].attribute' must be the name"),
        ([{"attribute": ["a"] * (MAX_PATH + 1), "value": 1}], "must not have more than 64 names"),
        ([{"attribute": "a.b", "conditions": [JA]}], "'conditions[0].attribute' must be one name"),
        ([{"attribute": "a", "conditions": [JA], "value": 1}], "'conditions[0].value' is unknown"),
        ({"select": []}, "'select' must name at least one"),
        ({"select": 5}, "'select' must be the name"),
        ({"select": ["a", ["b"]]}, "'select[1]' must be the name"),
        ({"select": [{"select": ["a"]}]}, "'select[0].name' is missing"),
        ({"select": [{"name": "a.b", "select": ["c"]}]}, "'select[0].name' must be one name"),
        ({"select": [{"name": "a", "select": [{"nam": "b"}]}]}, "'select[0].select[0].nam' is unknown"),
        ({"select": "a", "as_array": True}, "'as_array' needs a list"),
        ({"as_array": True}, "'as_array' needs a list"),
        ({"sort": "a"}, "'sort' must be an object"),
        ({"sort": {"attribute": "a", "next": {"descending": True}}}, "'sort.next.attribute' is missing"),
        ({"sort": {"attribute": "a", "descending": 1}}, "'sort.descending' must be true or false"),
        ({"limit": -1}, "'limit' must be a whole number"),
        ({"limit": True}, "'limit' must be a whole number"),
        ({"limit": 2.5}, "'limit' must be a whole number"),
        ({"limit": float("inf")}, "'limit' must be a whole number"),
        ({"limit": "5"}, "'limit' must be a whole number"),
        ({"offset": 10**18}, "'offset' must be a whole number"),
        ({"explain": 1}, "'explain' must be true or false"),
        ({"after": ""}, "'after' must be a cursor"),
        ({"after": "a b"}, "'after' must be a cursor"),
        ({"after": "a" * (MAX_CURSOR + 1)}, "'after' must be a cursor"),
        ({"aggregate": "sum"}, "'aggregate' must be 'count' or"),
        ({"aggregate": {}}, "'aggregate' must have either"),
        ({"aggregate": {"facet": "a", "group": "b"}}, "'aggregate' must have either"),
        ({"aggregate": {"facet": "a", "functions": []}}, "'aggregate' must have either"),
        ({"aggregate": {"group": []}}, "'aggregate.group' must name attributes"),
        ({"aggregate": {"group": [], "functions": []}}, "'aggregate.group' must name attributes"),
        ({"aggregate": {"group": ["a", "a"]}}, "'aggregate.group' must name each attribute once"),
        ({"aggregate": {"group": "a", "functions": "count"}}, "'aggregate.functions' must be a list"),
        ({"aggregate": {"group": "a", "functions": [{"sum": "x", "avg": "x"}]}}, "'aggregate.functions[0]' must be"),
        ({"aggregate": {"group": "a", "functions": [{"count": "x"}]}}, "'aggregate.functions[0]' must have one of"),
        ({"aggregate": {"group": "a", "functions": ["count", "count"]}}, "'aggregate.functions' must hold each"),
        ({"aggregate": {"group": "a", "functions": [{"sum": 5}]}}, "'aggregate.functions[0].sum' must be the name"),
        ({"aggregate": "count", "select": ["a"]}, "'aggregate' cannot be used with 'select'"),
        ({"aggregate": "count", "after": "a"}, "'aggregate' cannot be used with 'after'"),
        ({"live": 1}, "'live' must be true or false"),
        ({"live": True, "after": "a"}, "'live' cannot be used with 'after'"),
        ({"live": True, "explain": True}, "'live' cannot be used with 'explain'"),
    ],
)
def test_faults_name_the_member(data, part):
    with pytest.raises(QueryError) as caught:
        query_from_mapping(data)
    assert caught.value.code == "QUERY_SYNTAX" and caught.value.status_code == 400
    assert caught.value.message.startswith("Unable to parse query, ")
    assert part in caught.value.message
    caught.value.message.encode()


@pytest.mark.parametrize(
    ("data", "code", "part"),
    [
        ([{"attribute": "a", "comparator": "like", "value": 1}], "UNUSABLE_OPERATOR", "Unknown query comparator \"like\", 'conditions[0].comparator'"),
        ([{"attribute": "a", "comparator": "greaterthan", "value": 1}], "UNUSABLE_OPERATOR", 'did you mean "greaterThan"?'),
        ([{"attribute": "a", "comparator": 5, "value": 1}], "UNUSABLE_OPERATOR", "must be one of [equals, not_equal,"),
        ({"sort": {"attribute": "a", "target": [1, 2]}}, "UNUSABLE_OPERATOR", "Sorting by distance"),
        ([{"attribute": "a", "comparator": "between", "value": 5}], "BAD_VALUE", "exactly two ends, 'conditions[0].value'"),
        ([{"attribute": "a", "comparator": "between", "value": [1, 2, 3]}], "BAD_VALUE", "exactly two ends"),
        ([{"attribute": "a", "value": {"b": 1}}], "BAD_VALUE", "Invalid value for attribute a: {\"b\": 1}, 'conditions[0].value' must be"),
        ([{"attribute": "a", "value": [1, {}]}], "BAD_VALUE", "'conditions[0].value[1]' must be a plain value"),
        ([{"attribute": "a", "value": float("nan")}], "BAD_VALUE", "NaN"),
        ([{"attribute": "a", "value": 1 << 1000}], "BAD_VALUE", "of 1001 bits"),
        ([{"attribute": "a", "value": object()}], "BAD_VALUE", "of type object"),
        ([{"attribute": "a", "value": "\ud800"}], "BAD_VALUE", "'conditions[0].value' must be"),
    ],
)  # fmt: skip
def test_operators_and_values_have_codes_of_their_own(data, code, part):
    with pytest.raises(QueryError) as caught:
        query_from_mapping(data)
    assert caught.value.code == code and part in caught.value.message


def nested(depth, innermost, wrap):
    for _ in range(depth):
        innermost = wrap(innermost)
    return innermost


@pytest.mark.parametrize(
    "wrap",
    [
        lambda inner: {"conditions": [inner, JA]},
        lambda inner: {"attribute": "a", "conditions": [inner]},
    ],
    ids=["groups", "relation filters"],
)
def test_nesting_is_limited(wrap):
    query_from_mapping([nested(MAX_DEPTH, JA, wrap)])
    for depth in (MAX_DEPTH + 1, 10_000):
        with pytest.raises(QueryError, match="is nested deeper than 32 levels"):
            query_from_mapping([nested(depth, JA, wrap)])


def test_size_and_nesting_of_everything_else_are_limited():
    endless_sort = {"attribute": "a"}
    endless_sort["next"] = endless_sort
    endless_list = []
    endless_list.append(endless_list)
    for data, part in [
        ({"conditions": [JA] * MAX_NODES}, "is beyond the 10000 conditions"),
        ({"select": ["a"] * (MAX_NODES + 1)}, "is beyond the 10000 conditions"),
        ([{"attribute": "a", "value": [1] * (MAX_NODES + 1)}], "is beyond the 10000 conditions"),
        ({"aggregate": {"group": [f"a{number}" for number in range(33)]}}, "'aggregate.group' has more than 32 attributes"),
        ({"aggregate": {"group": "a", "functions": ["count"] * 129}}, "'aggregate.functions' has more than 128 functions"),
        ({"sort": endless_sort}, f"is more than {MAX_SORT_KEYS} attributes"),
        ([{"attribute": "a", "value": endless_list}], "is nested deeper than 32 levels"),
        ({"select": nested(10_000, ["a"], lambda inner: [{"name": "a", "select": inner}])}, "is nested deeper than 32 levels"),
    ]:
        with pytest.raises(QueryError, match=part) as caught:
            query_from_mapping(data)
        assert len(caught.value.message) < 600


def test_options_are_split_off():
    camel = {"allowFullScan": True, "rowFilter": len, "limit": 1}
    assert split_options(camel) == ({"limit": 1}, {"allow_full_scan": True, "row_filter": len})
    assert split_options([JA]) == ([JA], {})
    plain = {"limit": 1}
    assert split_options(plain)[0] is plain
    rest, options = split_options(dict.fromkeys(QUERY_OPTIONS))
    assert rest == {} and set(options) == set(QUERY_OPTIONS)


def test_a_mapping_of_a_query():
    query = Query(
        Group("or", (A, Group("and", (B, condition("x.y", (1, 2), Comparator.BETWEEN))))),
        Select((SelectItem(("a",), NESTED_B), SelectItem(("c",), query=Query(limit=1))), "array"),
        (SortKey(("a",), True), SortKey(("b.c",))),
        2,
        3,
    )
    mapping = {
        "operator": "or",
        "conditions": [
            {"attribute": "a", "comparator": "equals", "value": 1},
            {
                "operator": "and",
                "conditions": [
                    {"attribute": "b", "comparator": "equals", "value": 1},
                    {"attribute": "x.y", "comparator": "between", "value": [1, 2]},
                ],
            },
        ],
        "sort": {"attribute": "a", "descending": True, "next": {"attribute": ["b.c"]}},
        "offset": 2,
        "limit": 3,
        "select": [{"name": "a", "select": ["b"]}, {"name": "c", "conditions": [], "limit": 1}],
        "as_array": True,
    }
    assert query_to_mapping(query) == mapping
    assert query_from_mapping(mapping) == query


@pytest.mark.parametrize(
    "query",
    [
        parse_query("a=1"),
        parse_query("a>1&lt=number:2"),
        Query(select=Select(names("*"), "value")),
        Query(select=Select((SelectItem(("a",), NESTED_B, Query(A)),))),
    ],
)
def test_what_a_mapping_cannot_say_is_a_value_error(query):
    with pytest.raises(ValueError, match="no form"):
        query_to_mapping(query)


def test_aggregates_and_flags_have_a_mapping():
    query = Query(A, explain=True, aggregate=Aggregate("group", (("a",),), (("count", None), ("sum", ("b.c",)))))
    mapping = query_to_mapping(query)
    assert mapping["aggregate"] == {"group": ["a"], "functions": ["count", {"sum": ["b.c"]}]}
    assert query_from_mapping(mapping) == query
