from __future__ import annotations

from typing import Any

import pytest

from svc.store.schema import Attribute, Structure, TableDefinition
from svc.store.values.type_checkers import MAX_DEPTH, Path, check_any, check_name, compile_checkers, path_text, required_text


@pytest.mark.parametrize(
    ("path", "text"),
    [("a", "a"), (("a", "b"), "a.b"), (("a", 0), "a[0]"), (((("a", "b"), 3), "c.d"), "a.b[3].c.d")],
)
def test_paths(path: Path, text: str) -> None:
    assert path_text(path) == text


def test_texts() -> None:
    assert required_text("a.b", False) == "Property a.b is required"
    assert required_text("a", True) == "Property a is required and cannot be null"
    failures: list[str] = []
    check_name(5, "a", failures)
    assert failures == []
    check_name(5, None, failures)
    assert failures == ["Property name 5 must be a string"]


def test_untyped_values_are_copied_only_where_they_change() -> None:
    kept = {"deep": [1, "x"]}
    value: dict[str, Any] = {"a": [0.5, 2.0], "b": kept}
    failures: list[str] = []
    found = check_any(value, "v", failures, 0)
    assert found == {"a": [0.5, 2], "b": kept}
    assert found["b"] is kept
    assert type(value["a"][1]) is float
    assert check_any(found, "v", failures, 0) is found
    assert not failures


def test_depth_counts_from_where_it_starts() -> None:
    failures: list[str] = []
    check_any([1], ("v", 0), failures, MAX_DEPTH)
    assert failures == ["Property v is nested more than 64 levels deep"]


def test_sources_differ_in_bytes_only() -> None:
    definition = TableDefinition(
        "T", attributes=(Attribute("a", "Bytes"), Attribute("s", "S")), structures=(Structure("S", (Attribute("b", "Bytes"),)),)
    )
    for source, expected in (("json", b"a"), ("native", b"YQ==")):
        checkers = compile_checkers(definition, source)
        assert checkers["a"]("YQ==", "a", [], 0) == expected
        assert checkers["s"]({"b": "YQ=="}, "s", [], 0) == {"b": expected}


def test_the_key_has_a_checker_even_if_it_is_not_declared() -> None:
    checkers = compile_checkers(TableDefinition("T"), "json")
    failures: list[str] = []
    assert checkers["id"](None, "id", failures, 0) is None
    assert checkers["id"](5.0, "id", failures, 0) == 5
    assert not failures
    checkers["id"]({}, "id", failures, 0)
    assert failures == ["Value {} in property id must be a string or a number"]
