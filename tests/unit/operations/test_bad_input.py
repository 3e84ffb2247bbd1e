"""Every operation with fields that are missing, of the wrong type, or hostile: answered as the specification says, and nothing has changed.

Made from the rows, so that a new operation is tried the day it is added. The bodies begin as the example of the row.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from svc.errors import Problem
from svc.operations import s3
from svc.operations.fields import KINDS, Field, fault_of
from svc.operations.operation import Operation
from svc.operations.registry import all_operations
from tests.support.operations import OperationsNode
from tests.support.prepared import place_token_keys

pytestmark = pytest.mark.programs

ROWS = all_operations()

WRONG: dict[str, list[Any]] = {
    "string": [1, True, [], {}, "", 1.5],
    "any string": [1, False, [], {}],
    "name": [1.5, True, [], {}, "", "a/b", "a`b", "x" * 251, "\u00e9\u00e9", "a\0b", "a\nb"],
    "number": ["x", "1x", True, [], {}, "", float("nan"), float("inf")],
    "integer": ["x", "1.5", True, [], {}, 1.5, float("nan")],
    "bool": ["true", 1, 0, [], {}],
    "list": ["x", 1, True, {}],
    "non-empty list": ["x", 1, True, {}, []],
    "strings": ["x", 1, {}, [1], [["a"]], [{}]],
    "objects": ["x", 1, {}, [1], ["a"], [[]], [{}, 1]],
    "object": ["x", 1, True, []],
    "keys": ["x", 1, {}, [True], [{}], [[]], [[["a"]]], [float("nan")]],
    "choice": ["no such choice", 1, [], {}, ""],
    "any": [],
}
"""Values that a kind of field does not take."""

HOSTILE = (
    "../../../../etc/passwd", "\0", "\ud800", "a" * 10_000, "{{7*7}}", "'; DROP TABLE x; --", "__proto__", "\u202e", "%s%n", "-1", "NaN", "null",
    -1, 0, 1e308, -1e308, 2**63, 2**64, 10**40, 5e-324, [[[[[[]]]]]], {"a": {"b": {"c": {}}}}, [None], {"": None}, [{"operation": "restart"}],
)  # fmt: skip
"""Values that may pass the check of a field and then must not do harm."""


NEAR = {"csv_url": "http://127.0.0.1:9/plants.csv"}  # in place of addresses in examples: nothing here asks another machine


@pytest.fixture(autouse=True)
def no_s3(monkeypatch: pytest.MonkeyPatch) -> None:
    """As without the library, whether it is installed or not."""
    monkeypatch.setattr(s3, "find_spec", lambda name: None)


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OperationsNode]:
    root = tmp_path_factory.mktemp("node")
    place_token_keys(root)
    with OperationsNode(root) as made:
        yield made


def state(node: OperationsNode) -> Any:
    """What an operation that was refused must leave as it is."""
    config = node.root / "svc-config.yaml"
    return (
        {name: (sorted(database.tables), database.log.last_lsn) for name, database in node.store.databases.items()},
        config.read_bytes() if config.exists() else None,
        sorted(path.name for path in node.root.rglob("*") if path.is_file() and path.suffix not in (".lock", ".mdb")),
    )


def refused(node: OperationsNode, body: dict[str, Any]) -> Problem:
    """The Problem that answers this body; whatever else happens fails the test."""
    before = state(node)
    with pytest.raises(Problem) as caught:
        node.send(body, node.admin)
    assert state(node) == before, body
    return caught.value


def body_of(row: Operation, **changes: Any) -> dict[str, Any]:
    return {"operation": row.name, **example_of(row), **changes}


def example_of(row: Operation) -> dict[str, Any]:
    return {name: NEAR.get(name, value) for name, value in row.example.items()}


def without(body: dict[str, Any], field: Field) -> dict[str, Any]:
    return {name: value for name, value in body.items() if name not in field.names}


def faults() -> Iterator[Any]:
    """(row, body, labels of the fields at fault)."""
    for row in ROWS:
        for field in row.fields:
            if field.required:
                yield pytest.param(row, without(body_of(row), field), [field], id=f"{row.name}-without-{field.name}")
            for value in WRONG[field.kind]:
                if fault_of(value, field) is None:  # the row takes it all the same
                    continue
                body = {**without(body_of(row), field), field.name: value}
                yield pytest.param(row, body, [field], id=f"{row.name}-{field.name}-{repr(value)[:20]}")


def test_every_kind_is_tried() -> None:
    assert WRONG.keys() == KINDS.keys()


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_each_fault_is_named(node: OperationsNode, row: Operation) -> None:
    for param in faults():
        of, body, at_fault = param.values
        if of is not row:
            continue
        problem = refused(node, body)
        assert problem.status_code in (400, 413), (body, problem)
        for field in at_fault:
            assert (field.missing or field.label) in problem.message or any(name in problem.message for name in field.names), (
                body,
                problem,
            )


@pytest.mark.parametrize("row", [row for row in ROWS if len(row.fields) > 1], ids=lambda row: row.name)
def test_two_faults_are_both_named(node: OperationsNode, row: Operation) -> None:
    # Who impersonates has to be known before anything else is looked at, so that field is told alone.
    fields = [field for field in row.fields if WRONG[field.kind] and field.name != "impersonate"]
    for first, second in combinations(fields, 2):
        wrong = [next((value for value in WRONG[field.kind] if fault_of(value, field) is not None), None) for field in (first, second)]
        if None in wrong:
            continue
        body = {**without(without(body_of(row), first), second), first.name: wrong[0], second.name: wrong[1]}
        problem = refused(node, body)
        assert problem.status_code == 400
        assert first.name in problem.message and second.name in problem.message, (body, problem)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_hostile_values_never_end_in_a_defect(node: OperationsNode, row: Operation) -> None:
    for field in row.fields:
        for value in HOSTILE:
            try:
                node.send({**without(body_of(row), field), field.name: value}, node.admin)
            except Problem as problem:
                assert problem.status_code < 500 or problem.status_code in (501, 503), (field.name, value, problem)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**65), 2**65) | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)


@given(st.data())
def test_any_combination_of_values(node: OperationsNode, data: st.DataObject) -> None:
    row = data.draw(st.sampled_from(ROWS))
    body: dict[str, Any] = {"operation": row.name}
    for field in row.fields:
        value = data.draw(st.sampled_from(["as in the example", "absent", "drawn"]))
        if value == "drawn":
            body[field.name] = data.draw(JSON)
        elif value == "as in the example" and field.name in row.example:
            body[field.name] = example_of(row)[field.name]
    try:
        node.send(body, node.admin)
    except Problem as problem:
        assert problem.status_code < 500 or problem.status_code in (501, 503), (body, problem)


@pytest.mark.parametrize("body", [None, [], "x", 1, True, {}, {"table": "t"}, {"operation": 1}, {"operation": ""}, {"operation": []}])
def test_bodies_that_ask_for_nothing(node: OperationsNode, body: Any) -> None:
    with pytest.raises(Problem) as caught:
        node.send(body, node.admin)
    assert caught.value.status_code == 400
    expected = "Request body must include an 'operation' property." if isinstance(body, dict) and body else "Invalid JSON."
    assert caught.value.message == expected


def test_unknown_operations(node: OperationsNode) -> None:
    with pytest.raises(Problem, match="Operation 'xyz' not found") as caught:
        node.run("xyz")
    assert caught.value.status_code == 400
    with pytest.raises(Problem, match=r"^Operation 'describe_al' not found \(did you mean \"describe_all\"\?\)$"):
        node.run("describe_al")


@pytest.mark.parametrize("row", [row for row in ROWS if row.permission.kind != "none"], ids=lambda row: row.name)
def test_nobody_gets_in_without_login(node: OperationsNode, row: Operation) -> None:
    with pytest.raises(Problem) as caught:
        node.send(body_of(row), None)
    assert (caught.value.status_code, caught.value.message) == (401, "Must login")


def test_rows_are_complete() -> None:
    for row in ROWS:
        assert row.summary, row.name
        assert row.returns, row.name
        for field in row.fields:
            assert field.kind in KINDS and field.sentence, (row.name, field.name)
            if field.required:
                assert any(name in row.example for name in field.names), f"the example of {row.name} lacks {field.name}"
