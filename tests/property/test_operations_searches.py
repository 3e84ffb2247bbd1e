"""search_by_conditions beside a filter in Python, and beside the query language of URLs (spec: operations §3.2, query)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from svc.errors import Problem
from svc.store import Table
from svc.store.schema import Attribute, TableDefinition
from tests.support.operations import OperationsNode
from tests.support.profile import half_by_day

NAMES = ("a", "b", "c")
SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-3, 3),
    st.sampled_from([0.5, -0.5, 1.0, 2.0, 2.5, 1e300]),
    st.text("abB*é %&|", max_size=3),
)
RECORDS = st.lists(
    st.dictionaries(st.sampled_from(NAMES), st.one_of(SCALARS, st.lists(SCALARS, max_size=3)), max_size=3), min_size=1, max_size=12
)
COMPARATORS = {
    "equals": ("equals", "eq", "===", None),
    "not_equal": ("not_equal", "ne", "!=", "notEqual"),
    "less_than": ("less_than", "lt", "<"),
    "less_than_equal": ("less_than_equal", "le", "<="),
    "greater_than": ("greater_than", "gt", "greaterThan"),
    "greater_than_equal": ("greater_than_equal", "ge", ">="),
    "starts_with": ("starts_with", "sw"),
    "ends_with": ("ends_with", "ew"),
    "contains": ("contains", "ct"),
}
RANGES = ("between", "gelt", "gtle", "gtlt")
TEXT_TESTS = ("starts_with", "ends_with", "contains")
FIQL = {
    "equals": "==", "not_equal": "!=", "less_than": "=lt=", "less_than_equal": "=le=", "greater_than": "=gt=", "greater_than_equal": "=ge=",
    "starts_with": "=sw=", "ends_with": "=ew=", "contains": "=ct=",
}  # fmt: skip


@st.composite
def leaves(draw: Any) -> dict[str, Any]:
    name = draw(st.sampled_from((*NAMES, "id")))
    comparator = draw(st.sampled_from((*COMPARATORS, *RANGES)))
    if comparator in RANGES:
        ends = st.one_of(st.integers(-3, 3), st.sampled_from([0.5, 2.5]), st.text("abB", max_size=2))
        return {"attribute": name, "comparator": comparator, "value": [draw(ends), draw(ends)]}
    value = draw(st.text("abB2.é", max_size=2)) if comparator in TEXT_TESTS else draw(SCALARS)
    return {"attribute": name, "comparator": comparator, "value": value}


CONDITIONS = st.recursive(
    leaves(),
    lambda inner: st.fixed_dictionaries(
        {"operator": st.sampled_from(["and", "or"]), "conditions": st.lists(inner, min_size=1, max_size=3)}
    ),
    max_leaves=6,
)
SORTS = st.lists(st.tuples(st.sampled_from(("s", "t", "id")), st.booleans()), max_size=3, unique_by=lambda key: key[0])


@st.composite
def cases(draw: Any) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """Records, and the members of a search."""
    records = draw(RECORDS)
    for number, record in enumerate(records):
        record["id"] = number
        for name in ("s", "t"):
            if draw(st.booleans()):
                record[name] = draw(SCALARS)
    body: dict[str, Any] = {
        "conditions": draw(st.lists(CONDITIONS, min_size=1, max_size=3)),
        "operator": draw(st.sampled_from(["and", "or"])),
    }
    sort: Any = None
    for name, descending in reversed(draw(SORTS)):
        sort = {"attribute": name, "descending": descending, "next": sort}
    if sort is not None:
        body["sort"] = sort
        body |= draw(st.fixed_dictionaries({}, optional={"limit": st.integers(1, 5), "offset": st.integers(0, 5)}))
    return records, body


# --- the same in Python --------------------------------------------------------------------------------------------------------------

KINDS = {type(None): 0, bool: 1, int: 2, float: 2, str: 3}


def kind(value: Any) -> int:
    return KINDS.get(type(value), 4)


def place(value: Any) -> tuple[int, Any]:
    return kind(value), 0 if value is None else value


def text_of(value: Any) -> str | None:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return str(int(value)) if value.is_integer() else repr(value)
    return str(value) if isinstance(value, str | int) else None


def holds(comparator: str, value: Any, wanted: Any) -> bool:
    """One value, no list."""
    if comparator == "equals":
        return kind(value) == kind(wanted) and value == wanted
    if comparator in TEXT_TESTS:
        text = value if comparator == "starts_with" and isinstance(value, str) else None if comparator == "starts_with" else text_of(value)
        if text is None:
            return False
        return {"starts_with": text.startswith, "ends_with": text.endswith, "contains": text.__contains__}[comparator](wanted)
    if comparator in RANGES:
        low, high = wanted
        return (
            kind(low) == kind(high) == kind(value)
            and (value > low if comparator.startswith("gt") else value >= low)
            and (value < high if comparator.endswith("lt") else value <= high)
        )
    if wanted is None or kind(value) != kind(wanted):
        return False
    compared = {"less_than": value < wanted, "less_than_equal": value <= wanted, "greater_than": value > wanted}
    return compared.get(comparator, value >= wanted)


def matches(condition: dict[str, Any], record: dict[str, Any]) -> bool:
    if "conditions" in condition:
        every = all if condition["operator"] == "and" else any
        return every(matches(member, record) for member in condition["conditions"])
    value = record.get(condition["attribute"])
    values = value if isinstance(value, list) else [value]
    if condition["comparator"] == "not_equal":
        return not any(holds("equals", element, condition["value"]) for element in values)
    return any(holds(condition["comparator"], element, condition["value"]) for element in values)


def brute(records: list[dict[str, Any]], body: dict[str, Any]) -> list[int]:
    found = [record for record in records if matches({"operator": body["operator"], "conditions": body["conditions"]}, record)]
    keys, sort = [], body.get("sort")
    while sort is not None:
        keys.append((sort["attribute"], sort["descending"]))
        sort = sort["next"]
    for name, descending in reversed(keys):  # a sort is stable, also backwards
        found.sort(key=lambda record, name=name: place(record.get(name)), reverse=descending)  # type: ignore[misc]
    start = body.get("offset", 0)
    return [record["id"] for record in found][start : None if "limit" not in body else start + body["limit"]]


# --- the same as the text of a URL ---------------------------------------------------------------------------------------------------


def typed(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return f"boolean:{str(value).lower()}"
    if isinstance(value, str):
        return "string:" + quote(value, safe="")
    return f"number:{quote(repr(value), safe='')}"


def url_of(condition: dict[str, Any]) -> str | None:
    """None: URLs have no form for it."""
    if "conditions" in condition:
        members = [url_of(member) for member in condition["conditions"]]
        if None in members:
            return None
        joined = ("&" if condition["operator"] == "and" else "|").join(str(member) for member in members)
        return f"({joined})"
    name, comparator, value = condition["attribute"], condition["comparator"], condition["value"]
    if comparator in RANGES:
        if "" in value:
            return None
        low, high = typed(value[0]), typed(value[1])
        return f"{name}={comparator[:2] if comparator != 'between' else 'ge'}={low}&{comparator[2:] if comparator != 'between' else 'le'}={high}"
    if comparator in TEXT_TESTS:
        return f"{name}{FIQL[comparator]}{quote(value, safe='')}" if value else None
    if value in ("", None) and comparator not in ("equals", "not_equal"):
        return None
    return f"{name}{FIQL[comparator]}{typed(value)}"


def query_text(body: dict[str, Any]) -> str | None:
    where = url_of({"operator": body["operator"], "conditions": body["conditions"]})
    if where is None:
        return None
    parts, keys, sort = [where], [], body.get("sort")
    while sort is not None:
        keys.append(("-" if sort["descending"] else "+") + sort["attribute"])
        sort = sort["next"]
    if keys:
        parts.append(f"sort({','.join(keys)})")
    start = body.get("offset", 0)
    if "limit" in body:
        parts.append(f"limit({start},{start + body['limit']})")
    elif start:
        parts.append(f"limit({start},1000)")
    return "&".join(parts)


# --- the node ------------------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module", params=["dynamic", "plain"])
def node(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[OperationsNode]:
    """With a table that has learnt its attributes and indexes them all, or declares them without types and indexes."""
    with OperationsNode(tmp_path_factory.mktemp("node")) as made:
        database = made.store.open_database("data")
        attributes = [Attribute("id", "Any", primary_key=True)]
        if request.param == "plain":
            attributes += [Attribute(name) for name in (*NAMES, "s", "t")]
        database.define_table(TableDefinition("thing", attributes=tuple(attributes), dynamic=request.param == "dynamic"))
        replace(made, [{"id": 0, **dict.fromkeys((*NAMES, "s", "t"), 0)}])
        yield made


def replace(node: OperationsNode, records: list[dict[str, Any]]) -> None:
    table: Table = node.store.databases["data"].tables["thing"]
    transaction = node.store.begin()
    for number in range(12):
        transaction.delete(table, number)
    for record in records:
        transaction.put(table, record["id"], dict(record))
    transaction.apply()
    node.store.commit_turn()


def search(node: OperationsNode, **fields: Any) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = node.run("search_by_conditions", table="thing", **fields)
    return found


def spelt(condition: dict[str, Any], number: int) -> dict[str, Any]:
    """The same in other words."""
    if "conditions" in condition:
        return {
            "operator": condition["operator"].upper() if number % 2 else condition["operator"],
            "conditions": [spelt(member, number + at) for at, member in enumerate(condition["conditions"])],
        }
    names = COMPARATORS.get(condition["comparator"], (condition["comparator"],))
    prefix = "search_" if number % 3 == 0 else ""
    return {
        prefix + "attribute": condition["attribute"],
        "search_type" if prefix else "comparator": names[number % len(names)],
        prefix + "value": condition["value"],
    }


@settings(max_examples=half_by_day(100))
@given(case=cases(), number=st.integers(0, 11))
def test_a_search_finds_what_a_filter_in_python_finds(node: OperationsNode, case: Any, number: int) -> None:
    records, body = case
    replace(node, records)
    expected = brute(records, body)
    sent = {**body, "conditions": [spelt(condition, number) for condition in body["conditions"]]}
    for _ in range(3):  # read anew, then remembered, then with a plan that is remembered
        found = [record["id"] for record in search(node, **sent, get_attributes=["id"])]
        assert (found if "sort" in body else sorted(found)) == expected
    if "sort" in body:
        turned = [record["id"] for record in search(node, **{**sent, "reverse": True, "get_attributes": ["id"]})]
        if "limit" not in body and "offset" not in body:
            assert turned == expected[::-1]


@settings(max_examples=half_by_day(100))
@given(case=cases())
def test_a_search_finds_what_the_same_query_text_finds(node: OperationsNode, case: Any) -> None:
    records, body = case
    text = query_text(body)
    if text is None:
        return
    replace(node, records)
    found, of_text = search(node, **body), search(node, query=text)
    if "sort" not in body:
        found.sort(key=lambda record: record["id"])
        of_text.sort(key=lambda record: record["id"])
    assert found == of_text


@settings(max_examples=half_by_day(100))
@given(case=cases(), names=st.lists(st.sampled_from((*NAMES, "s", "t", "id")), min_size=1, max_size=4, unique=True))
def test_names_are_filled_with_null(node: OperationsNode, case: Any, names: list[str]) -> None:
    records, _ = case
    replace(node, records)
    found = search(node, conditions=[{"attribute": "id", "comparator": "ge", "value": 0}], get_attributes=names)
    assert found == [{name: record.get(name) for name in names} for record in records]
    assert [list(row) for row in found] == [names] * len(records)


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats()
    | st.text(max_size=5)
    | st.sampled_from(["id", "a", "equals", "or"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["attribute", "comparator", "value", "conditions", "operator", "name", "select", "descending", "next"])
            | st.text(max_size=3),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)
FIELDS = (
    "conditions",
    "operator",
    "get_attributes",
    "select",
    "sort",
    "limit",
    "offset",
    "reverse",
    "query",
    "ids",
    "attribute",
    "value",
    "desc",
)


@settings(max_examples=half_by_day(100))
@given(
    operation=st.sampled_from(["search_by_id", "search_by_value", "search_by_conditions"]),
    fields=st.dictionaries(st.sampled_from(FIELDS), JSON, max_size=5),
)
def test_whatever_is_sent_is_answered_or_refused(node: OperationsNode, operation: str, fields: dict[str, Any]) -> None:
    try:
        found = node.run(operation, table="thing", **fields)
    except Problem as problem:
        assert problem.status_code == 400, problem
        assert problem.message.isprintable()
    else:
        assert isinstance(found, list)
