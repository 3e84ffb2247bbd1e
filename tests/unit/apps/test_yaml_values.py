"""YAML that means what JSON means (spec: components §1.1)."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from svc.apps import yaml_values
from svc.apps.yaml_values import read_yaml


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("", None),
        ("# a comment", None),
        ("---\na: 1\n...\n", {"a": 1}),
        ("a: [1, -2, +3, 0o17, 0xff, 010, 1.5, .5, -1e-3, 1.]", {"a": [1, -2, 3, 15, 255, 10, 1.5, 0.5, -0.001, 1.0]}),
        ("[true, True, false, FALSE, null, ~, Null, '', 'true', \"1\"]", [True, True, False, False, None, None, None, "", "true", "1"]),
        (
            "[yes, no, on, off, y, n, 12:30, 1_000, 0b1, 2024-01-05, '-']",
            ["yes", "no", "on", "off", "y", "n", "12:30", "1_000", "0b1", "2024-01-05", "-"],
        ),
        ("[.inf, -.Inf, +.INF]", [math.inf, -math.inf, math.inf]),
        ("1: a\ntrue: b\n~: c\n2.5: d\n", {"1": "a", "true": "b", "~": "c", "2.5": "d"}),
        ("a:\nb:\n  - \n", {"a": None, "b": [None]}),
        ("a: |\n  two\n  lines\nb: >-\n  one\n  line\n", {"a": "two\nlines\n", "b": "one line"}),
        ("a: &x {b: 1}\nc: *x\n", {"a": {"b": 1}, "c": {"b": 1}}),
        (
            "a: &x {b: 1, c: 2}\nd: {<<: *x, c: 3}\ne: {c: 4, <<: [*x, {f: 5}]}",
            {"a": {"b": 1, "c": 2}, "d": {"b": 1, "c": 3}, "e": {"b": 1, "c": 4, "f": 5}},
        ),
        (
            "[!!str 5, !!int '5', !!float 1, !!bool 'true', !!null '', !!timestamp 2024-01-05, ! 7]",
            ["5", 5, 1, True, None, "2024-01-05", "7"],
        ),
        ("!!map {a: !!seq [1]}", {"a": [1]}),
        ("'<<': 1", {"<<": 1}),
    ],
)
def test_values(text: str, value: Any) -> None:
    assert read_yaml(text.encode()) == value


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a: *x", "line 1, column 4: there is no anchor x"),
        ("&x [*x]", "line 1, column 5: there is no anchor x before it that is complete"),
        ("[1]: 2", "line 1, column 1: a key must be a string"),
        ("&x a: 1\n*x : 2", "a key must be a string"),
        ("<<: 5", "line 1, column 5: '<<' needs an object"),
        ("a: 1\n---\nb: 2", "line 2, column 1: there is more than one document"),
        ("a: 1\nb: {c: 1,\n c: 2}", "line 3, column 5: 'c' is there a second time in the same object"),
        ("a: 1\nb: 2\n'a': 3", "line 3, column 6: 'a' is there a second time"),
        ("!!set {a}", "the tag tag:yaml.org,2002:set is not known"),
        ("!x 5", "the tag !x is not known"),
        ("!!int five", "'five' is no int"),
        ("a: 'b", "line 1, column 6: found unexpected end of stream"),
        ("a: b: c", "line 1, column 5: mapping values are not allowed"),
        ("%YAML 9.9\n---\na", "line 1"),
        ("a: \0", "control characters are not allowed"),
    ],
)
def test_faults_have_their_place(text: str, words: str) -> None:
    with pytest.raises(ValueError, match=r".") as error:
        read_yaml(text.encode())
    assert words in str(error.value) and "\n" not in str(error.value)


TEXTS = st.text(st.characters(codec="utf-8", categories=("L", "N", "P", "S", "Zs")), max_size=20)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXTS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4),
    max_leaves=20,
)


@given(VALUES)
def test_json_is_yaml(value: Any) -> None:
    assert read_yaml(json.dumps(value, ensure_ascii=False).encode()) == value


@given(st.binary(max_size=60) | st.text(st.sampled_from("ab1:-?[]{}&*!|>'\"%@ \n\t,#~.<"), max_size=40).map(str.encode))
def test_anything_is_a_value_or_a_fault(text: bytes) -> None:
    try:
        value = read_yaml(text)
    except ValueError as error:
        assert str(error) and len(str(error)) < 500
    else:
        json.dumps(value)


def test_merge_keys_cannot_make_a_document_without_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(yaml_values, "MAX_MERGED", 100)
    members = ", ".join(f"k{number}: 1" for number in range(10))
    text = f"a: &a {{{members}}}\nb:\n" + "- {<<: *a}\n" * 10
    assert len(read_yaml(text.encode())["b"]) == 10
    with pytest.raises(ValueError, match="line 13, column 10: '<<' has brought more than 100 members"):
        read_yaml((text + "- {<<: *a}\n").encode())
    with pytest.raises(ValueError, match="more than 100"):
        read_yaml(f"a: &a {{{members}}}\nb: {{<<: [{', '.join(['*a'] * 11)}]}}".encode())


def test_a_merged_key_may_be_given_again() -> None:
    assert read_yaml(b"a: &a {x: 1, y: 2}\nb: {<<: *a, x: 3}\nc: {x: 4, <<: *a}") == {
        "a": {"x": 1, "y": 2},
        "b": {"x": 3, "y": 2},
        "c": {"x": 4, "y": 2},
    }
