"""search_by_id, search_by_value, search_by_conditions (spec: operations §3.2)."""

from __future__ import annotations

import math
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from svc.errors import AccessViolation, Problem, QueryError
from svc.operations.call import Call
from svc.operations.searches import wildcard
from svc.query.nodes import Comparator
from svc.store.schema import Attribute, Relationship, TableDefinition
from tests.support.operations import OperationsNode

PLANTS = [
    {"id": 1, "species": "fern", "height": 12, "tags": ["green", "wet"], "pot": {"color": "red", "size": 3}},
    {"id": 2, "species": "fir", "height": 300, "tags": []},
    {"id": 3, "species": "oak", "height": 5.5, "potted": True},
    {"id": 4, "species": "Fern", "height": "5", "potted": False},
    {"id": 5, "height": None},
    {"id": 6, "species": "f*n", "height": 5},
]
KEEPERS = [{"id": "ann", "name": "Ann", "phone": "1"}, {"id": "bob", "name": "Bob"}]
BEDS = [
    {"id": 1, "name": "north", "keeper_id": "ann", "area": 3, "made": datetime.fromtimestamp(1, UTC), "open": True},
    {"id": 2, "name": "south", "keeper_id": "bob", "area": 10, "made": datetime.fromtimestamp(2, UTC)},
    {"id": 3, "name": "west", "keeper_id": "gone", "area": 1},
    {"id": 4, "extra": "kept"},
]


def fill(node: OperationsNode) -> None:
    plain = (
        Attribute("id", primary_key=True),
        Attribute("__createdtime__", "Float", created_time=True, indexed=True),
        Attribute("__updatedtime__", "Float", updated_time=True, indexed=True),
    )
    keeper = (Attribute("id", "ID", primary_key=True), Attribute("name", "String", indexed=True), Attribute("phone", "String"))
    bed = (
        Attribute("id", "Int", primary_key=True),
        Attribute("name", "String", indexed=True),
        Attribute("area", "Int"),
        Attribute("open", "Boolean"),
        Attribute("made", "Date"),
        Attribute("keeper_id", "ID", indexed=True),
        Attribute("keeper", "Keeper", relationship=Relationship("Keeper", "keeper_id", None)),
    )
    database = node.store.open_database("garden")
    database.define_table(TableDefinition("plant", "garden", attributes=plain, dynamic=True))
    database.define_table(TableDefinition("Keeper", "garden", type_name="Keeper", attributes=keeper))
    database.define_table(TableDefinition("bed", "garden", attributes=bed))
    transaction = node.store.begin()
    for name, records in (("plant", PLANTS), ("Keeper", KEEPERS), ("bed", BEDS)):
        for record in records:
            transaction.put(database.tables[name], record["id"], dict(record))
    transaction.apply()
    node.store.commit_turn()


@pytest.fixture(scope="module")
def node(tmp_path_factory):
    with OperationsNode(tmp_path_factory.mktemp("node")) as made:
        fill(made)
        yield made


def plants(node: OperationsNode, *conditions: Any, **fields: Any) -> list[Any]:
    """The ids that search_by_conditions finds; in order, if nobody asked for another one."""
    found = node.run(
        "search_by_conditions", database="garden", table="plant", conditions=list(conditions), **{"get_attributes": ["id"], **fields}
    )
    ids = [record["id"] for record in found]
    return ids if "sort" in fields or "reverse" in fields else sorted(ids)


def beds(node: OperationsNode, *conditions: Any, **fields: Any) -> list[Any]:
    found = node.run("search_by_conditions", database="garden", table="bed", conditions=list(conditions), **fields)
    return [record["id"] for record in found]


def leaf(attribute: Any, comparator: Any, value: Any) -> dict[str, Any]:
    return {"attribute": attribute, "comparator": comparator, "value": value}


def refused(node: OperationsNode, operation: str, table: str = "plant", /, **fields: Any) -> Problem:
    with pytest.raises(Problem) as caught:
        node.run(operation, **{"database": "garden", "table": table, **fields})
    assert caught.value.status_code == 400, caught.value.message
    return caught.value


# --- by id ---------------------------------------------------------------------------------------------------------------------------


def by_id(node, ids, table="plant", **fields):
    return node.run("search_by_id", database="garden", table=table, ids=ids, **fields)


def test_records_come_in_the_order_of_the_ids_and_unknown_ones_are_left_out(node):
    found = by_id(node, [3, 99, 1, "x", 1], get_attributes=["id"])
    assert found == [{"id": 3}, {"id": 1}, {"id": 1}]


def test_many_ids_are_read_in_slices(node):
    assert [record["id"] for record in by_id(node, [*range(5000, 5400), 2, *range(9000, 9400), 1])] == [2, 1]


@pytest.mark.parametrize(("ids", "expected"), [(["1", 1.0, 2], [1, 1, 2]), (["x", 1.5, 10**30, "2"], [2]), ([[1], [1, 2]], [])])
def test_an_id_is_converted_to_the_type_of_the_key(node, ids, expected):
    assert [record["id"] for record in by_id(node, ids, "bed")] == expected


def test_an_id_of_an_untyped_key_keeps_its_type(node):
    assert by_id(node, ["1"]) == []


@pytest.mark.parametrize("name", ["ids", "hash_values"])
@pytest.mark.parametrize("operation", ["search_by_id", "search_by_hash"])
def test_both_names_are_the_same(node, operation, name):
    found = node.run(operation, schema="garden", table="plant", get_attributes=["id"], hash_attribute="whatever", **{name: [2]})
    assert found == [{"id": 2}]


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({}, "'hash_values' is required"),
        ({"ids": None}, "'hash_values' is required"),
        ({"ids": 5}, "'ids' must be an array"),
        ({"ids": "5"}, "'ids' must be an array"),
        ({"ids": {"a": 1}}, "'ids' must be an array"),
        ({"ids": [None]}, "'ids' must be strings or numbers"),
        ({"ids": [True]}, "'ids' must be strings or numbers"),
        ({"ids": [{}]}, "'ids' must be strings or numbers"),
        ({"ids": [math.nan]}, "'ids' must be strings or numbers"),
        ({"ids": [1], "get_attributes": "id"}, "'get_attributes' must be an array"),
        ({"ids": [1], "get_attributes": []}, "'get_attributes' must contain at least 1 item"),
        ({"ids": [1], "get_attributes": [5]}, "'get_attributes[0]' must be a string or an object"),
        ({"ids": [1], "get_attributes": ["id", ""]}, "'get_attributes[1]' is not allowed to be empty"),
        ({"ids": [1], "get_attributes": ["a..b"]}, "'get_attributes[0]' must not have empty names"),
        ({"ids": [1], "get_attributes": [{}]}, "'get_attributes[0].name' is required"),
        ({"ids": [1], "get_attributes": [{"name": 5}]}, "'get_attributes[0].name' must be a string or an array of strings"),
        ({"ids": [1], "get_attributes": [{"name": "pot", "select": 5}]}, "'get_attributes[0].select' must be an array"),
        ({"ids": [1], "get_attributes": [{"name": "pot", "select": []}]}, "'get_attributes[0].select' must contain at least 1 item"),
    ],
)
def test_faulty_ids_and_attributes(node, fields, text):
    assert refused(node, "search_by_id", **fields).message == text


def test_an_id_that_is_no_text_finds_nothing(node):
    assert by_id(node, ["\ud800"]) == []


# --- what is returned ----------------------------------------------------------------------------------------------------------------


def test_without_get_attributes_the_record_comes_as_stored(node):
    assert by_id(node, [4], "bed") == [BEDS[3]]
    assert set(by_id(node, [5])[0]) == {"id", "height", "__createdtime__", "__updatedtime__"}


def test_all_attributes_of_a_dynamic_table_are_filled(node):
    (record,) = by_id(node, [5], get_attributes=["*"])
    assert list(record)[:3] == ["id", "__createdtime__", "__updatedtime__"]
    assert record["species"] is record["pot"] is record["tags"] is record["potted"] is None


def test_all_attributes_of_a_schema_defined_table_are_the_stored_record(node):
    assert by_id(node, [4], "bed", get_attributes=["*"]) == [BEDS[3]]


def test_a_list_of_names_fills_what_is_absent(node):
    assert by_id(node, [5, 3], get_attributes=["potted", "id", "species"]) == [
        {"potted": None, "id": 5, "species": None},
        {"potted": True, "id": 3, "species": "oak"},
    ]
    assert list(by_id(node, [5], get_attributes=["potted", "id"])[0]) == ["potted", "id"]


def test_select_wins_over_get_attributes(node):
    assert by_id(node, [1], select=["id"], get_attributes=["species"]) == [{"id": 1}]


def test_a_name_is_listed_once(node):
    assert by_id(node, [1], get_attributes=["id", "id"]) == [{"id": 1}]


def test_metadata_can_be_selected(node):
    (record,) = by_id(node, [1], get_attributes=["$id", "$updatedtime", "$expiresAt", "$other"])
    assert record == {"$id": 1, "$updatedtime": record["$updatedtime"], "$expiresAt": None, "$other": None}
    assert record["$updatedtime"] > 1e12


def test_properties_of_nested_objects(node):
    nested = {"name": "pot", "select": ["color", "none"]}
    assert by_id(node, [1, 2], get_attributes=["pot.color", nested]) == [
        {"pot.color": "red", "pot": {"color": "red", "none": None}},
        {"pot.color": None, "pot": None},
    ]


def test_related_records(node):
    found = by_id(node, [1, 2, 3], "bed", get_attributes=["name", {"name": "keeper", "select": ["name", "phone"]}])
    assert found == [
        {"name": "north", "keeper": {"name": "Ann", "phone": "1"}},
        {"name": "south", "keeper": {"name": "Bob", "phone": None}},
        {"name": "west", "keeper": None},
    ]
    assert by_id(node, [1], "bed", get_attributes=["keeper.name", "keeper"]) == [{"keeper.name": "Ann", "keeper": KEEPERS[0]}]
    assert by_id(node, [1], "bed", get_attributes=[{"name": "keeper", "select": ["*"]}]) == [{"keeper": KEEPERS[0]}]
    assert by_id(node, [4], "bed", get_attributes=["*", "keeper"]) == [{**BEDS[3], "keeper": None}]


@pytest.mark.parametrize(
    ("table", "attributes", "text"),
    [
        ("plant", ["a"], "unknown attribute 'a'"),
        ("plant", ["a", "id", "b"], "unknown attribute 'a and b'"),
        ("plant", ["a", "b.x", {"name": "c"}, "a"], "unknown attribute 'a, b.x and c'"),
        ("bed", ["keeper.a", "extra"], "unknown attribute 'keeper.a and extra'"),
        ("bed", [{"name": "keeper", "select": ["name", "salary"]}], "unknown attribute 'salary'"),
    ],
)
def test_unknown_attributes_are_told_together(node, table, attributes, text):
    problem = refused(node, "search_by_id", table, ids=[1], get_attributes=attributes)
    assert (problem.code, problem.message) == ("UNKNOWN_ATTRIBUTE", text)


def test_a_selection_nested_too_deep(node):
    nested: Any = ["x"]
    for _ in range(100):
        nested = [{"name": "pot", "select": nested}]
    assert "nested deeper than 32 levels" in refused(node, "search_by_id", ids=[1], get_attributes=nested).message


def test_too_many_names(node):
    assert "10000" in refused(node, "search_by_id", ids=[1], get_attributes=["id"] * 20000).message


# --- by value ------------------------------------------------------------------------------------------------------------------------


def by_value(node, value, attribute="species", **fields):
    found = node.run("search_by_value", database="garden", table="plant", attribute=attribute, value=value, **fields)
    return [record["id"] for record in found]


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("fern", [1]),
        ("f*", [1, 2, 6]),
        ("*n", [1, 4, 6]),
        ("*er*", [1, 4]),
        ("f*n", [6]),
        ("*", [1, 2, 3, 4, 5, 6]),
        ("***", [6]),
        ("", []),
        (None, [5]),
    ],
)
def test_wildcards(node, value, expected):
    assert sorted(by_value(node, value)) == expected


def test_all_records_are_in_the_order_of_their_keys(node):
    assert by_value(node, "*") == [1, 2, 3, 4, 5, 6]


@pytest.mark.parametrize(("value", "expected"), [(5, [6]), ("5", [4]), (5.5, [3]), (300.0, [2]), (True, [])])
def test_a_value_is_strictly_equal(node, value, expected):
    assert by_value(node, value, "height") == expected


def test_null_finds_null_and_absent(node):
    assert by_value(node, None, "height") == [5]
    assert sorted(by_value(node, None, "potted")) == [1, 2, 5, 6]


def test_limit_offset_and_direction(node):
    assert by_value(node, "*", limit=2, offset=1) == [2, 3]
    assert by_value(node, "*", limit=2, desc=True) == [6, 5]
    assert by_value(node, "*", limit=2, reverse=True) == [6, 5]
    assert by_value(node, None, "potted", desc=True) == [6, 5, 2, 1]
    assert by_value(node, "f*", desc=True) == [2, 1, 6]
    assert by_value(node, "*", limit=2.0) == [1, 2]
    assert by_value(node, "*", limit=1e300, offset=1e17) == []


def test_sort(node):
    assert by_value(node, "*", sort={"attribute": "species"}) == [5, 4, 6, 1, 2, 3]
    assert by_value(node, "*", sort={"attribute": "species"}, desc=True) == [3, 2, 1, 6, 4, 5]


def test_older_names_of_attribute_and_value(node):
    found = node.run("search_by_value", schema="garden", table="plant", search_attribute="species", search_value="oak")
    assert [record["id"] for record in found] == [3]
    found = node.run(
        "search_by_value", schema="garden", table="plant", attribute="species", search_attribute="x", value="fir", search_value="oak"
    )
    assert [record["id"] for record in found] == [2]


def test_a_path_through_a_relationship(node):
    found = node.run("search_by_value", database="garden", table="bed", attribute=["keeper", "name"], value="B*")
    assert [record["id"] for record in found] == [2]


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({}, "'attribute' is required. 'value' is required"),
        ({"attribute": "species"}, "'value' is required"),
        ({"value": 5}, "'attribute' is required"),
        ({"attribute": 5, "value": 5}, "'attribute' must be a string or an array of strings"),
        ({"attribute": [], "value": 5}, "'attribute' must be a string or an array of strings"),
        ({"attribute": ["a", 5], "value": 5}, "'attribute' must be a string or an array of strings"),
        ({"attribute": "", "value": "*"}, "'attribute' is not allowed to be empty"),
        ({"attribute": ["x"] * 70, "value": "*"}, "'attribute' must not have more than 64 names"),
        ({"attribute": "no", "value": "*"}, "unknown attribute 'no'"),
        ({"attribute": "no", "value": 1, "get_attributes": ["nor"]}, "unknown attribute 'no and nor'"),
        ({"attribute": "species", "value": {"a": 1}}, "'value' must be a string, a number, a boolean, null or an array of these"),
        ({"attribute": "species", "value": math.nan}, "'value' must be a string, a number, a boolean, null or an array of these"),
        ({"attribute": "species", "value": 10**400}, "'value' must be a string, a number, a boolean, null or an array of these"),
        ({"attribute": "species", "value": "\ud800"}, "'value' must be a string, a number, a boolean, null or an array of these"),
        ({"attribute": "species", "value": 1, "limit": 0}, "'limit' must be greater than or equal to 1"),
        ({"attribute": "species", "value": 1, "limit": "5x"}, "'limit' must be a number"),
        ({"attribute": "species", "value": 1, "limit": 1.5}, "'limit' must be an integer"),
        ({"attribute": "species", "value": 1, "limit": "1.5"}, "'limit' must be an integer"),
        ({"attribute": "species", "value": 1, "limit": "0"}, "'limit' must be greater than or equal to 1"),
        ({"attribute": "species", "value": 1, "offset": ""}, "'offset' must be a number"),
        ({"attribute": "species", "value": 1, "offset": "\u0661"}, "'offset' must be a number"),
        ({"attribute": "species", "value": 1, "offset": -1}, "'offset' must be greater than or equal to 0"),
        ({"attribute": "species", "value": 1, "desc": "yes"}, "'desc' must be a boolean"),
        ({"attribute": "species", "value": 1, "sort": "species"}, "'sort' must be an object"),
    ],
)
def test_faulty_searches_by_value(node, fields, text):
    assert refused(node, "search_by_value", **fields).message == text


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("*", (None, None)),
        ("**", (Comparator.CONTAINS, "")),
        ("a", (Comparator.EQUALS, "a")),
        ("*a", (Comparator.ENDS_WITH, "a")),
        ("a*", (Comparator.STARTS_WITH, "a")),
        ("**a**", (Comparator.CONTAINS, "*a*")),
        (["*"], (Comparator.EQUALS, ["*"])),
    ],
)
def test_wildcard(value, expected):
    assert wildcard(value) == expected


# --- by conditions -------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("comparators", "value", "expected"),
    [
        (["equals", "equal", "eq", "==", "===", "=", None], 5, [6]),
        (["not_equal", "ne", "!=", "!==", "notEqual"], 5, [1, 2, 3, 4, 5]),
        (["greater_than", "gt", ">", "greaterThan"], 5.5, [1, 2]),
        (["greater_than_equal", "ge", ">=", "greaterThanEqual"], 5.5, [1, 2, 3]),
        (["less_than", "lt", "<", "lessThan"], 5.5, [6]),
        (["less_than_equal", "le", "<=", "lessThanEqual"], 5.5, [3, 6]),
        (["between", "...", "gele"], [5, 12], [1, 3, 6]),
        (["gelt"], [5, 12], [3, 6]),
        (["gtle"], [5, 12], [1, 3]),
        (["gtlt"], [5, 12], [3]),
        (["contains", "ct"], "5", [3, 4, 6]),
        (["ends_with", "ew", "endsWith"], "5", [3, 4, 6]),
        (["starts_with", "sw", "startsWith"], "5", [4]),
        (["equals"], None, [5]),
        (["not_equal"], None, [1, 2, 3, 4, 6]),
        (["greater_than", "less_than"], None, []),
        (["greater_than"], "4", [4]),
    ],
)
def test_comparators(node, comparators, value, expected):
    for comparator in comparators:
        assert plants(node, leaf("height", comparator, value)) == expected


def test_text_is_compared_with_case(node):
    assert plants(node, leaf("species", "equals", "Fern")) == [4]


def test_a_list_matches_by_its_elements(node):
    assert plants(node, leaf("tags", "equals", "wet")) == [1]
    assert plants(node, leaf("tags", "equals", "green"), leaf("tags", "equals", "wet")) == [1]


def test_values_are_converted_to_a_declared_type(node):
    assert beds(node, leaf("area", "equals", "10")) == [2]
    assert beds(node, leaf("name", "equals", "north")) == [1]
    assert beds(node, leaf("made", "equals", "1970-01-01T00:00:01Z")) == [1]
    assert beds(node, leaf("made", "gt", 1500)) == [2]
    assert beds(node, leaf("open", "equals", "true")) == [1]
    assert refused(node, "search_by_conditions", "bed", conditions=[leaf("area", "equals", "x")]).code == "BAD_VALUE"


def test_older_names_in_conditions_and_the_newer_win(node):
    older = {"search_attribute": "height", "search_type": "less_than", "search_value": 5.5}
    assert plants(node, older) == [6]
    assert plants(node, {**older, "comparator": ">="}) == [1, 2, 3]
    assert plants(node, {**older, "value": 6}) == [3, 6]
    assert plants(node, {**older, "attribute": "id"}) == [1, 2, 3, 4, 5]


def test_groups_to_any_depth(node):
    inner = {"operator": "OR", "conditions": [leaf("species", "sw", "f"), {"conditions": [leaf("potted", None, True)]}]}
    assert plants(node, leaf("height", "between", [5, 50]), inner) == [1, 3, 6]
    assert plants(node, leaf("id", "lt", 2), leaf("id", "gt", 5), operator="Or") == [1, 6]
    assert plants(node, {"operator": "or", "conditions": [leaf("id", "lt", 2)]}) == [1]
    deep: Any = leaf("id", "eq", 2)
    for _ in range(20):
        deep = {"operator": "or", "conditions": [deep, leaf("id", "eq", 3)]}
    assert plants(node, deep) == [2, 3]


def test_paths_through_objects_and_relationships(node):
    assert plants(node, leaf("pot.size", "gt", 2)) == [1]
    assert plants(node, leaf(["pot", "color"], "eq", "red")) == [1]
    for path in ("keeper.name", ["keeper", "name"]):
        assert beds(node, leaf(path, "eq", "Ann")) == [1]
        assert beds(node, leaf("id", "gt", 0), sort={"attribute": path, "descending": True}) == [2, 1, 3, 4]


def test_metadata_in_conditions_and_sort(node):
    assert plants(node, leaf("$id", "gt", 4)) == [5, 6]
    assert len(plants(node, leaf("$updatedtime", "gt", 1))) == 6
    assert plants(node, leaf("$updatedtime", "lt", 1)) == []
    assert plants(node, leaf("id", "gt", 4), sort={"attribute": "$id", "descending": True}) == [6, 5]
    assert refused(node, "search_by_conditions", "bed", conditions=[leaf("$updatedtime", "gt", 1)]).code == "UNUSABLE_OPERATOR"


def test_sorting(node):
    everything = leaf("id", "gt", 0)
    by_height = {"attribute": "height"}
    assert plants(node, everything, sort=by_height) == [5, 6, 3, 1, 2, 4]
    assert plants(node, everything, sort={**by_height, "descending": True}) == [4, 2, 1, 3, 6, 5]
    assert plants(node, everything, sort=by_height, reverse=True) == [4, 2, 1, 3, 6, 5]
    assert plants(node, everything, sort={"attribute": "potted"}) == [1, 2, 5, 6, 4, 3]
    assert plants(node, everything, sort={"attribute": "potted"}, reverse=True) == [3, 4, 6, 5, 2, 1]
    assert plants(node, everything, sort={"attribute": "potted", "next": {"attribute": "id", "descending": True}}) == [6, 5, 2, 1, 4, 3]
    assert plants(node, everything, sort=by_height, limit=2, offset=1) == [6, 3]
    assert plants(node, everything, reverse=True, limit=2) == [6, 5]


def test_unknown_members_are_ignored(node):
    assert plants(node, {**leaf("id", "eq", 1), "id": "uuid", "title": "x"}, whatever=5) == [1]


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({}, "'conditions' is required"),
        ({"conditions": None}, "'conditions' is required"),
        ({"conditions": {}}, "'conditions' must be an array"),
        ({"conditions": []}, "'conditions' must contain at least 1 item"),
        ({"conditions": [5]}, "'conditions[0]' must be an object"),
        ({"conditions": [{}]}, "'conditions[0].attribute' is required"),
        ({"conditions": [{"attribute": "id"}]}, "'conditions[0].value' is required"),
        ({"conditions": [leaf(None, None, 1)]}, "'conditions[0].attribute' is required"),
        ({"conditions": [leaf(5, None, 1)]}, "'conditions[0].attribute' must be a string or an array of strings"),
        ({"conditions": [leaf("id", "eq", 1), {"conditions": []}]}, "'conditions[1].conditions' must contain at least 1 item"),
        ({"conditions": [{"conditions": "x"}]}, "'conditions[0].conditions' must be an array"),
        ({"conditions": [{"conditions": [{"attribute": "id"}]}]}, "'conditions[0].conditions[0].value' is required"),
        ({"conditions": [{"conditions": [leaf("id", "eq", 1)], "operator": "xor"}]}, "'conditions[0].operator' must be one of [and, or]"),
        ({"conditions": [{"conditions": [leaf("id", "eq", 1)], "attribute": "id"}]}, "'conditions[0]' must be a condition or a group, not both"),
        ({"conditions": [leaf("id", "eq", 1)], "operator": "not"}, "'operator' must be one of [and, or]"),
        ({"conditions": [leaf("id", "eq", 1)], "operator": 5}, "'operator' must be a string"),
        ({"conditions": [leaf("id", "eq", {"a": 1})]}, "'conditions[0].value' must be a string, a number, a boolean, null or an array of these"),
        ({"conditions": [leaf("id", "eq", math.inf)]}, "'conditions[0].value' must be a string, a number, a boolean, null or an array of these"),
        ({"conditions": [leaf("id", "between", 5)]}, "'conditions[0].value' must be an array of exactly two strings or numbers"),
        ({"conditions": [leaf("id", "between", [5])]}, "'conditions[0].value' must be an array of exactly two strings or numbers"),
        ({"conditions": [leaf("id", "between", [5, 6, 7])]}, "'conditions[0].value' must be an array of exactly two strings or numbers"),
        ({"conditions": [leaf("id", "between", [5, None])]}, "'conditions[0].value' must be an array of exactly two strings or numbers"),
        ({"conditions": [leaf("id", "between", [5, [6]])]}, "'conditions[0].value' must be an array of exactly two strings or numbers"),
        ({"conditions": [leaf("id", "eq", 1)], "sort": []}, "'sort' must be an object"),
        ({"conditions": [leaf("id", "eq", 1)], "sort": {}}, "'sort.attribute' is required"),
        ({"conditions": [leaf("id", "eq", 1)], "sort": {"attribute": "id", "next": 5}}, "'sort.next' must be an object"),
        ({"conditions": [leaf("id", "eq", 1)], "sort": {"attribute": "id", "descending": 1}}, "'sort.descending' must be a boolean"),
        ({"conditions": [leaf("id", "eq", 1)], "sort": {"attribute": "id", "next": {"attribute": ""}}}, "'sort.next.attribute' is not allowed to be empty"),
        ({"conditions": [leaf("a", "eq", 1), leaf("b.c", "eq", 1)], "get_attributes": ["d"]}, "unknown attribute 'a, b.c and d'"),
        ({"conditions": [leaf("id", "eq", 1)], "sort": {"attribute": "z"}}, "unknown attribute 'z'"),
        ({"conditions": [leaf("id", "eq", 1)], "query": "id==1"}, "'query' cannot be used together with 'conditions'"),
        ({"query": "id==1", "limit": 1, "sort": {"attribute": "id"}}, "'query' cannot be used together with 'sort', 'limit'"),
        ({"query": 5}, "'query' must be a string"),
    ],
)  # fmt: skip
def test_faulty_searches_by_conditions(node, fields, text):
    assert refused(node, "search_by_conditions", **fields).message == text


@pytest.mark.parametrize("comparator", ["like", "", 5, ["eq"], "EQUALS", "in"])
def test_an_unknown_comparator(node, comparator):
    problem = refused(node, "search_by_conditions", conditions=[leaf("id", "eq", 1), leaf("id", comparator, 1)])
    assert problem.code == "UNUSABLE_OPERATOR"
    assert problem.message.startswith("'conditions[1].comparator' must be one of [equals, contains, starts_with, ")


def test_codes_of_faults(node):
    assert refused(node, "search_by_conditions", conditions=[leaf("id", "between", [1])]).code == "BAD_VALUE"
    assert refused(node, "search_by_conditions", conditions=[leaf("no", "eq", 1)]).code == "UNKNOWN_ATTRIBUTE"
    assert refused(node, "search_by_conditions", conditions=[{}]).code == "VALIDATION"
    assert refused(node, "search_by_conditions", "bed", conditions=[leaf("keeper", "eq", "ann")]).code == "UNUSABLE_OPERATOR"


def test_what_is_nested_too_deep_or_too_long_is_refused(node):
    deep: Any = leaf("id", "eq", 2)
    for _ in range(500):
        deep = {"conditions": [deep]}
    assert "nested deeper than 32 levels" in refused(node, "search_by_conditions", conditions=[deep]).message
    value: Any = []
    for _ in range(200):
        value = [value]
    assert refused(node, "search_by_conditions", conditions=[leaf("id", "eq", value)]).code == "BAD_VALUE"
    assert "10000" in refused(node, "search_by_conditions", conditions=[leaf("id", "eq", 1)] * 20000).message
    assert "10000" in refused(node, "search_by_conditions", conditions=[leaf("id", "eq", [1] * 20000)]).message
    sort: Any = None
    for _ in range(100):
        sort = {"attribute": "id", "next": sort}
    assert "more than 32" in refused(node, "search_by_conditions", conditions=[leaf("id", "eq", 1)], sort=sort).message


@pytest.mark.parametrize("operation", ["search_by_id", "search_by_value", "search_by_conditions"])
def test_databases_and_tables_that_do_not_exist(node, operation):
    fields = {"ids": [1], "attribute": "id", "value": 1, "conditions": [leaf("no", "eq", 1)]}
    for names, text in (
        ({"database": "no", "table": "plant"}, "database 'no' does not exist"),
        ({"database": "garden", "table": "no"}, "Table 'garden.no' does not exist"),
        ({"table": "plant"}, "database 'data' does not exist"),
    ):
        with pytest.raises(Problem) as caught:
            node.run(operation, **names, **fields)
        assert (caught.value.status_code, caught.value.message) == (404, text)
    assert refused(node, operation, "no", get_attributes=[5], **fields).message == "'get_attributes[0]' must be a string or an object"
    with pytest.raises(Problem) as caught:
        node.run(operation, database="garden", **fields)
    assert caught.value.message == "'table' is required"


# --- the URL language ----------------------------------------------------------------------------------------------------------------


def query(node, text, table="plant"):
    return node.run("search_by_conditions", database="garden", table=table, query=text)


def test_a_query_text_means_what_it_does_in_a_url(node):
    assert query(node, "height=gt=5&sort(-height)&limit(0,2)&select(id,height)") == [{"id": 2, "height": 300}, {"id": 1, "height": 12}]
    assert query(node, "species==f*&select(id)&sort(id)") == [1, 2, 6]
    assert query(node, "keeper.name==Ann&select(id,area)", "bed") == [{"id": 1, "area": 3}]
    assert len(query(node, "")) == 6


def test_a_query_text_may_read_the_whole_table(node):
    assert query(node, "area=gt=5&select(id)", "bed") == [2]
    assert query(node, "name=ct=out&select(id)", "bed") == [2]
    assert query(node, "sort(area)&select(id)", "bed")[-1] == 2


@pytest.mark.parametrize(
    ("text", "code", "position"),
    [
        ("height=gt=5&(", "QUERY_SYNTAX", 13),
        ("no==5", "UNKNOWN_ATTRIBUTE", 0),
        ("height=in=5", "UNUSABLE_OPERATOR", 6),
    ],
)
def test_faults_of_a_query_text(node, text, code, position):
    with pytest.raises(QueryError) as caught:
        query(node, text)
    assert (caught.value.code, caught.value.position) == (code, position)


# --- rights --------------------------------------------------------------------------------------------------------------------------


def permission(**tables: Any) -> dict[str, Any]:
    return {"super_user": False, "garden": {"tables": tables}}


READ = {"read": True, "insert": False, "update": False, "delete": False, "attribute_permissions": []}
ALL = {"read": True, "insert": True, "update": True, "delete": True, "attribute_permissions": []}
ONLY_NAME = {**READ, "attribute_permissions": [{"attribute_name": "name", "read": True, "insert": False, "update": False}]}


def test_whole_records_are_narrowed_to_what_may_be_read(node):
    user = node.user("ann", permission(bed=ONLY_NAME))
    body = {"operation": "search_by_id", "database": "garden", "table": "bed", "ids": [1]}
    for attributes in (None, ["*"], ["id", "name"]):
        assert node.send({**body, "get_attributes": attributes}, user) == [{"id": 1, "name": "north"}]
    conditions = [leaf("name", "sw", "")]
    found = node.run("search_by_conditions", user, database="garden", table="bed", conditions=conditions, get_attributes=["*"])
    assert found == [{"id": n, "name": name} for n, name in ((1, "north"), (2, "south"), (3, "west"))]
    assert node.run("search_by_conditions", user, database="garden", table="bed", query="id==1") == [{"id": 1, "name": "north"}]


@pytest.mark.parametrize(
    "fields",
    [
        {"conditions": [leaf("area", "gt", 1)]},
        {"conditions": [leaf("name", "sw", "n")], "sort": {"attribute": "area"}},
        {"conditions": [{"conditions": [leaf("keeper.name", "eq", "Ann")]}]},
        {"query": "area=gt=1"},
        {"query": "sort(area)"},
    ],
)
def test_what_may_not_be_read_cannot_be_searched(node, fields):
    user = node.user("ann", permission(bed=ONLY_NAME))
    with pytest.raises(Problem) as caught:
        node.run("search_by_conditions", user, database="garden", table="bed", **fields)
    assert caught.value.status_code == 403


def test_rights_on_a_table_are_none_on_its_related_tables(node):
    user = node.user("ann", permission(bed=ALL))
    with pytest.raises(Problem) as caught:
        node.run("search_by_conditions", user, database="garden", table="bed", conditions=[leaf("keeper.name", "eq", "Ann")])
    assert caught.value.status_code == 403


def test_secrets_of_users_are_never_shown(node):
    everything = {"schema": "system", "table": "svc_user", "conditions": [leaf("username", "sw", "")]}
    for fields in ({}, {"get_attributes": ["*"]}):
        (record,) = node.run("search_by_conditions", **everything, **fields)
        assert "admin" in record.values()
        assert not {"password", "hash_function", "refresh_token"}.intersection(record)


def test_secrets_of_users_are_not_shown_to_code_either(node):
    body = {"operation": "search_by_id", "database": "system", "table": "svc_user", "ids": ["admin"]}
    call = node.operations.prepare(body, None, authorized=False)
    assert call.operation.handler(call).visible == {"username", "role", "active", "__createdtime__", "__updatedtime__"}


# --- analytics -----------------------------------------------------------------------------------------------------------------------

T = 1767225600000


@pytest.fixture
def raw(tmp_path):
    with OperationsNode(tmp_path) as made:
        table = made.store.databases["system"].tables["svc_raw_analytics"]
        transaction = made.store.begin()
        for second in range(-60, 1):
            moment = T + 1000 * second
            transaction.put(table, moment, {"id": moment, "time": moment, "period": 1000, "metrics": [], "threadId": 0})
        transaction.apply()
        made.store.commit_turn()
        yield made


def window(node, *conditions, **fields):
    body = {"schema": "system", "table": "svc_raw_analytics", **({"conditions": list(conditions)} if conditions else {}), **fields}
    return [(row["id"] - T) // 1000 for row in node.run("search_by_conditions", **body)]


def test_the_example_of_raw_analytics(raw, caplog):
    """`between` on `id` with two times, in the older names."""
    condition = {"search_attribute": "id", "search_type": "between", "search_value": [T - 8000, T - 5000]}
    assert window(raw, condition) == [-8, -7, -6, -5]
    assert not caplog.records


@pytest.mark.parametrize(
    ("conditions", "expected"),
    [
        ([leaf("id", "between", [T - 50000, T])], list(range(-50, -39))),
        ([leaf("id", "ge", T - 50000)], list(range(-50, -39))),
        ([leaf("id", "gt", T - 50000), leaf("id", "lt", T)], list(range(-49, -39))),
        ([leaf("id", "gt", T - 60000), leaf("id", "ge", T - 20000)], list(range(-20, -9))),
        ([leaf("id", "le", T - 20000)], list(range(-30, -19))),
        ([leaf("time", "gt", 0)], list(range(-10, 1))),
        ([leaf("id", "eq", T - 55000), leaf("time", "gt", 0)], [-55]),
        ([{"operator": "or", "conditions": [leaf("id", "lt", 5), leaf("id", "gt", 5)]}], list(range(-10, 1))),
        ([leaf("$id", "ge", str(T - 50000))], list(range(-50, -39))),
    ],
)
def test_raw_analytics_are_cut_to_ten_seconds(raw, caplog, conditions, expected):
    assert window(raw, *conditions) == expected
    assert [record.levelname for record in caplog.records] == (["WARNING"] if len(expected) > 1 else [])


def test_the_latest_ten_seconds_need_no_cut(raw, caplog):
    assert window(raw, leaf("id", "ge", T - 3000)) == [-3, -2, -1, 0]
    assert not caplog.records


def test_every_search_of_raw_analytics_is_cut(raw):
    assert window(raw, query="") == list(range(-10, 1))
    assert window(raw, query=f"id=ge={T - 50000}&sort(-id)&limit(1)") == [-40]
    found = raw.run("search_by_value", schema="system", table="svc_raw_analytics", attribute="id", value="*")
    assert len(found) == 11


def test_raw_analytics_are_for_super_users(raw):
    user = raw.user("ann", {"super_user": False, "operations": ["search_by_conditions"]})
    with pytest.raises(Problem) as caught:
        raw.run("search_by_conditions", user, schema="system", table="svc_raw_analytics", query="")
    assert caught.value.status_code == 403
    body = {"operation": "search_by_conditions", "database": "system", "table": "svc_raw_analytics", "query": ""}
    call = raw.operations.prepare(body, raw.admin)
    call.user = user
    with pytest.raises(AccessViolation):
        call.operation.handler(call)


def test_aggregates_may_be_searched_by_the_fields_of_a_metric(raw):
    table = raw.store.databases["system"].tables["svc_analytics"]
    transaction = raw.store.begin()
    for n in range(4):
        transaction.put(table, T + n, {"id": T + n, "metric": "duration", "time": T, "mean": n})
    transaction.apply()
    raw.store.commit_turn()
    body = {"schema": "system", "table": "svc_analytics"}
    condition = {"search_attribute": "id", "search_type": "between", "search_value": [T + 1, T + 2]}
    assert [row["mean"] for row in raw.run("search_by_conditions", conditions=[condition], **body)] == [1, 2]
    found = raw.run(
        "search_by_conditions", conditions=[leaf("mean", "ge", 2)], get_attributes=["mean", "p95"], sort={"attribute": "mean"}, **body
    )
    assert found == [{"mean": 2, "p95": None}, {"mean": 3, "p95": None}]
    assert raw.run("search_by_conditions", query="mean=ge=3&select(id)", **body) == [T + 3]


# --- what is remembered --------------------------------------------------------------------------------------------------------------


def rows(node: OperationsNode, table: str = "bed", **fields: Any):
    body = {"operation": "search_by_conditions", "database": "garden", "table": table, **fields}
    call: Call = node.operations.prepare(body, node.admin)
    return call.operation.handler(call)


def test_the_same_body_is_read_and_planned_once(node):
    plans = [rows(node, conditions=[leaf("name", "eq", "north")]).plan for _ in range(5)]
    assert plans[1].query is plans[4].query and plans[3] is plans[4]
    assert rows(node, conditions=[leaf("name", "eq", "south")]).plan.query is not plans[4].query


def test_values_of_other_types_are_other_bodies(node):
    for value in (1, 1.0, "1", True, None, [1], b"1"):
        condition = rows(node, "plant", conditions=[leaf("id", "ne", value)]).plan.query.where
        expected = tuple(value) if isinstance(value, list) else value
        assert condition.value == expected and type(condition.value) is type(expected)


def test_a_changed_definition_is_another_key(tmp_path):
    with OperationsNode(tmp_path) as node:
        fill(node)
        conditions = [leaf("newer", "eq", 1)]
        with pytest.raises(QueryError):
            rows(node, conditions=conditions)
        table = node.store.databases["garden"].tables["bed"]
        node.store.databases["garden"].define_table(
            replace(table.definition, attributes=(*table.definition.attributes, Attribute("newer", "Int")))
        )
        assert rows(node, conditions=conditions).plan.query.where.value == 1


def test_what_is_remembered_is_bounded(node):
    searches = node.node.searches
    for n in range(1500):
        for _ in range(2):
            rows(node, conditions=[leaf("name", "eq", f"{n}" * 100)])
    assert 100 < len(searches) <= 1024
    for _ in range(2):
        rows(node, conditions=[leaf("name", "eq", "x" * 5000)])
    assert 100 < len(searches) <= 1024
    for n in range(3000):
        rows(node, conditions=[leaf("area", "eq", n)])
    assert 100 < len(searches) <= 1024


# --- in code -------------------------------------------------------------------------------------------------------------------------


def test_code_gets_python_values(node):
    body = {"operation": "search_by_id", "database": "garden", "table": "bed", "ids": [2, 1], "get_attributes": ["made"]}
    found = node.wait(lambda: node.operations.perform(body))
    assert [record["made"].timestamp() for record in found] == [2, 1]
    everything = {"operation": "search_by_value", "database": "garden", "table": "bed", "attribute": "id", "value": "*"}
    assert [record["id"] for record in node.wait(lambda: node.operations.perform(everything))] == [1, 2, 3, 4]


def test_code_does_not_get_the_secrets_of_users(node):
    body = {"operation": "search_by_id", "database": "system", "table": "svc_user", "ids": ["admin"]}
    (record,) = node.wait(lambda: node.operations.perform(body))
    assert record["username"] == "admin" and "password" not in record


def test_numbers_may_be_sent_as_strings(node: OperationsNode) -> None:
    for limit, offset in (("2", "1"), (" 2 ", "+1"), ("2.0", "1e0")):
        wanted = node.run("search_by_value", database="garden", table="plant", attribute="id", value="*", limit=2, offset=1)
        assert len(wanted) == 2
        assert (
            node.run("search_by_value", database="garden", table="plant", attribute="id", value="*", limit=limit, offset=offset) == wanted
        )


@pytest.mark.parametrize(
    ("condition", "name"),
    [
        ({"search_attribute": 5, "search_value": 1}, "search_attribute"),
        ({"attribute": "height", "search_type": "nearly", "value": 1}, "search_type"),
        ({"search_attribute": "height", "search_type": "between", "search_value": 1}, "search_value"),
        ({"attribute": "height", "comparator": "between", "value": 1}, "value"),
        ({"attribute": "height", "comparator": "nearly", "value": 1}, "comparator"),
    ],
)
def test_faults_name_what_was_sent(node: OperationsNode, condition: dict[str, Any], name: str) -> None:
    with pytest.raises(Problem) as raised:
        node.run("search_by_conditions", database="garden", table="plant", conditions=[condition])
    assert raised.value.status_code == 400 and f"'conditions[0].{name}' must be" in raised.value.message
