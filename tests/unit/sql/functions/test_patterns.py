"""Regular expressions: what is found, what is refused, what may take long."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from svc.errors import QueryError, QueryTooLarge
from svc.sql.functions import WorkMeter
from svc.sql.functions.patterns import MAX_PATTERN, compile_pattern
from tests.unit.sql.functions.conftest import Value


@pytest.mark.parametrize(
    ("text", "pattern", "expected"),
    [
        ("hello", "l+", 1),
        ("hello", "^l", 0),
        ("hello", "^h.*o$", 1),
        ("hello", "", 1),
        ("", "^$", 1),
        ("HELLO", "hello", 0),
        ("HELLO", "(?i)hello", 1),
        ("straße", "ß", 1),
        ("ÄÖÜ", "(?i)äöü", 1),
        ("a\nb", "a.b", 0),
        ("a\nb", "(?s)a.b", 1),
        ("abc", r"\d", 0),
        ("日本", r"^\pL+$", 1),
        (123, "2", 1),
        (1.5, r"^1\.5$", 1),
        ("5", 5, 1),
        (b"abc", "b", 1),
        ("a\0b", "\0", 1),
        (None, "a", None),
        ("a", None, None),
    ],
)
def test_what_is_found(value: Value, text: object, pattern: object, expected: object) -> None:
    assert value("REGEXP_LIKE(?, ?)", text, pattern) == expected
    assert value("REGEXP(?2, ?1)", text, pattern) == expected


@pytest.mark.parametrize(
    ("pattern", "reason"),
    [
        ("b(", r"missing \)"),
        ("[a", r"missing \]"),
        (r"(a)\1", r"invalid escape sequence: \\1"),
        ("a(?=b)", r"invalid perl operator: \(\?="),
        ("(?<!a)b", r"invalid perl operator: \(\?<"),
        ("a**", "bad repetition operator"),
        ("(a{1000}){1000}", "invalid repetition size"),
        (r"\pL{1000}", "pattern too large"),
        ("x" * (MAX_PATTERN + 1), "at most 4000 characters"),
        ("\\", "trailing"),
    ],
)
def test_what_is_no_pattern(value: Value, pattern: str, reason: str) -> None:
    with pytest.raises(QueryError, match=reason) as caught:
        value("REGEXP_LIKE('a', ?)", pattern)
    assert (caught.value.status_code, caught.value.code) == (400, "BAD_VALUE")


def test_catastrophic_patterns_are_none(value: Value) -> None:
    assert value("REGEXP_LIKE(?, '(a+)+$')", "a" * 100_000 + "b") == 0
    assert value("REGEXP_LIKE(?, '(a|aa)*c')", "a" * 100_000) == 0


def test_what_may_take_longer_than_there_is_time(value: Value, meter: WorkMeter) -> None:
    pattern, text = "[01]*1[01]{500}x", "01" * 500_000  # 1.5 s where RE2 cannot remember its states
    with_time, without = 10.0, 0.002
    meter.begin(0, with_time, 1000)
    assert value("REGEXP_LIKE(?, ?)", text, pattern) == 0
    meter.begin(0, without, 1000)
    assert value("REGEXP_LIKE(?, ?)", text[:300], pattern) == 0
    with pytest.raises(QueryTooLarge, match="maxTime"):
        value("REGEXP_LIKE(?, ?)", text, pattern)


def test_patterns_are_compiled_once(rows: Callable[..., list[Any]]) -> None:
    compile_pattern.cache_clear()
    assert rows("select REGEXP_LIKE(column1, 'a') from (values ('a'), ('b'), ('ba'))") == [1, 0, 1]
    assert compile_pattern.cache_info().misses == 1
