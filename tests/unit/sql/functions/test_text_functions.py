"""Functions on text: those that replace SQLite's give what it gives, beyond ASCII and on long texts as well."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import apsw
import pytest
from hypothesis import given
from hypothesis import strategies as st

from svc.clock import FakeClock
from svc.errors import QueryTooLarge
from svc.sql.functions.meter import WorkMeter
from svc.sql.functions.text_functions import TEXT_FUNCTIONS
from tests.unit.sql.functions.conftest import Value

CALLS = {own.function.name: own.make(WorkMeter(FakeClock())) for own in TEXT_FUNCTIONS}
SQLITE = apsw.Connection(":memory:")
TEXT = st.text(st.characters(blacklist_categories=("Cs",), blacklist_characters="\0"), max_size=40) | st.text("abä ", max_size=40)
MEBIBYTE = 1 << 20


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("LOWER('ÄBC')", "äbc"),
        ("UPPER('äbc')", "ÄBC"),
        ("UPPER('ß')", "SS"),
        ("lower(1.5)", "1.5"),
        ("UPPER(x'c3a4')", "Ä"),
        ("UPPER(null)", None),
        ("LEN('äöü')", 3),
        ("LENGTH(null)", None),
        ("INSTR('abcb', 'b')", 2),
        ("INSTR('äöü', 'ü')", 3),
        ("INSTR('abc', 'x')", 0),
        ("INSTR('abc', '')", 1),
        ("INSTR(123, 2)", 2),
        ("INSTR(x'010203', x'03')", 3),
        ("INSTR(null, 'a')", None),
        ("INSTR('a', null)", None),
        ("REPLACE('abcabc', 'b', 'xx')", "axxcaxxc"),
        ("REPLACE('abc', '', 'x')", "abc"),
        ("REPLACE(121, 1, 3)", "323"),
        ("REPLACE('abc', 'b', null)", None),
        ("SUBSTRING('abcdef', 2, 3)", "bcd"),
        ("SUBSTRING('abcdef', 2)", "bcdef"),
        ("TRIM('  a b  ')", "a b"),
        ("TRIM('xxaxx', 'x')", "a"),
        ("TRIM('xyaxy', 'yx')", "a"),
        ("LTRIM('xxaxx', 'x')", "axx"),
        ("RTRIM('xxaxx', 'x')", "xxa"),
        ("TRIM('a', '')", "a"),
        ("TRIM(null)", None),
        ("TRIM('a', null)", None),
        ("CONCAT('a', null, 1)", "a1"),
        ("CONCAT_WS('-', 'a', null, 1)", "a-1"),
    ],
)
def test_results(value: Value, expression: str, expected: object) -> None:
    assert value(expression) == expected


@pytest.mark.parametrize("name", ["INSTR", "TRIM", "LTRIM", "RTRIM"])
@given(first=TEXT, second=TEXT)
def test_of_two_texts_they_are_those_of_sqlite(name: str, first: str, second: str) -> None:
    assert CALLS[name](first, second) == SQLITE.execute(f"select {name}(?, ?)", (first, second)).get


@given(TEXT, TEXT, TEXT)
def test_replace_is_that_of_sqlite(text: str, old: str, new: str) -> None:
    assert CALLS["REPLACE"](text, old, new) == SQLITE.execute("select replace(?, ?, ?)", (text, old, new)).get


@pytest.mark.parametrize("trim", ["TRIM", "LTRIM", "RTRIM"])
def test_many_characters_are_trimmed_as_few(trim: str) -> None:
    many = "".join(map(chr, range(0x100, 0x200)))
    assert CALLS[trim](f"{many}a{many}", many) == {"TRIM": "a", "LTRIM": f"a{many}", "RTRIM": f"{many}a"}[trim]


@pytest.mark.parametrize("method", [str.upper, str.lower])
def test_long_texts_are_changed_as_a_whole(method: Callable[[str], str]) -> None:
    text = "Ä-straße-" * 100_000
    assert CALLS[method.__name__.upper()](text) == method(text)


def test_what_takes_sqlite_quadratic_time(value: Value) -> None:
    """Each of these takes it seconds."""
    text, part = "a" * MEBIBYTE, "a" * (MEBIBYTE // 2) + "b"
    assert value("INSTR(?, ?)", text, part) == 0
    assert value("LEN(REPLACE(?, ?, 'x'))", text, part) == MEBIBYTE
    assert value("LEN(TRIM(?, ?))", text, "b" * 100_000 + "a") == 0


def test_what_would_be_too_long_is_not_made(value: Value) -> None:
    with pytest.raises(QueryTooLarge, match="makes a value of more than 8388608 bytes"):
        value("REPLACE(?, 'a', ?)", "a" * MEBIBYTE, "b" * MEBIBYTE)


@pytest.mark.parametrize("argument", ["\0a", "a" * 1_000_000, 2**63 - 1, -0.0, 1e308, b"", b"\xff" * 100, float("inf")])
@pytest.mark.parametrize("call", ["LOWER({})", "UPPER({})", "INSTR({0}, {0})", "REPLACE({0}, {0}, {0})", "TRIM({0}, {0})", "LEN({})"])
def test_odd_values(value: Value, call: str, argument: Any) -> None:
    assert value(call.format("?1"), argument) is not None


@pytest.mark.parametrize("call", ["LOWER(?1)", "UPPER(?1)", "INSTR(?1, 'b')", "REPLACE(?1, 'b', 'c')", "TRIM(?1, ?1)"])
def test_long_texts_need_time(value: Value, meter: WorkMeter, call: str) -> None:
    meter.begin(0, 0.002, 1000)
    value(call, "a" * 50_000)
    with pytest.raises(QueryTooLarge, match="maxTime"):
        value(call, "a" * MEBIBYTE)
