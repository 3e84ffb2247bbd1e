"""svc.sql.tables.spans: what SQLite finds lies in the span, whatever the other side of the comparison is."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import apsw
import pytest

from svc.sql.catalogue import ColumnType
from svc.sql.tables.shape import affinity
from svc.sql.tables.spans import (
    ALL_KEYS,
    EQ,
    GE,
    GLOB,
    GT,
    IS,
    IS_NULL,
    JSON_STARTS,
    LE,
    LIKE,
    LT,
    NOT_NULL,
    Span,
    intersection,
    key_span_of,
    span_of,
    whole_key_span,
    whole_span,
)
from svc.sql.tables.values import column_value, sql_value
from svc.store.values.keys import after, encode_key, index_keys, storage_key

OPERATORS = {EQ: "=", GT: ">", LE: "<=", LT: "<", GE: ">=", IS: "IS", LIKE: "LIKE", GLOB: "GLOB"}

LONG = "z" * 300
TEXTS = [
    "",
    "a",
    "A",
    "ab",
    "Ab",
    "b",
    "5",
    " 5",
    "05",
    "5.0",
    "+5",
    "5e0",
    ".5e1",
    "4.99999999999999999999",
    "1e-400",
    "3e-324",
    "9e999",
    "-1",
    "0",
    "0x5",
]
TEXTS += [
    "2024",
    "2024-01",
    "2024-01-05",
    "2024-01-05T00:00:00.000Z",
    "2024-01-05 10",
    "2024-13-01",
    "~",
    "[",
    "[1]",
    '"',
    '"a"',
    "{",
    "{}",
    "|",
    "é",
    "\0",
    "a\0b",
    "\1",
]
TEXTS += [
    LONG + "a",
    LONG + "b",
    LONG[:256],
    LONG[:257],
    "18446744073709551616",
    "-18446744073709551616",
    "1e3",
    "1000",
    "Inf",
    "nan",
    "1_0",
    "\t5\n",
    "５",
]
INTEGERS = [0, 1, -1, 2, 5, 1000, 2**53, 2**53 + 1, 2**63 - 1, -(2**63)]
DOUBLES = [0.5, -0.5, 5.5, 2.0**53, 2.0**60, 2.0**63, 2.0**64, 1e300, -1e300, 1e-300, 5e-324, 9.3e18]
BIG = [2**63, 2**64, -(2**64), 2**64 + 1, 10**30]
DATES = [datetime(2024, 1, 5, hour, tzinfo=UTC) for hour in (0, 10)] + [
    datetime(1, 1, 1, tzinfo=UTC),
    datetime(9999, 12, 31, 23, 59, 59, 999_000, UTC),
    datetime(2024, 2, 1, tzinfo=UTC),
]
DATES += [datetime(1970, 1, 1, tzinfo=UTC), datetime(1970, 1, 1, 0, 0, 0, 5000, UTC)]
BYTES = [b"", b"a", b"ab", b"\0", b"\xff" * 600, b"5"]
LISTS: list[Any] = [[], ["a"], [5], [None], {"a": 5}, {}]

STORED: dict[ColumnType, list[Any]] = {
    ColumnType.TEXT: [None, *TEXTS],
    ColumnType.INTEGER: [None, *INTEGERS],
    ColumnType.REAL: [None, *INTEGERS, *DOUBLES, *BIG],
    ColumnType.BOOLEAN: [None, True, False],
    ColumnType.DATE: [None, *DATES],
    ColumnType.BYTES: [None, *BYTES],
    ColumnType.BIG: [None, *INTEGERS, *BIG],
    ColumnType.ANY: [None, True, False, *TEXTS, *INTEGERS, *DOUBLES, *BIG, *DATES, *BYTES, *LISTS],
}
OTHERS = [
    *TEXTS,
    *INTEGERS,
    *DOUBLES,
    *BYTES,
    float("inf"),
    float("-inf"),
    2.5,
    "2024-01-05T10:00:00.000Z",
    "9999-12-31T23:59:59.999Z",
    "1970-01-01",
    "zz",
    "C",
    "a%",
    "A_",
    "%",
    "[ab]*",
    "5%",
    "2024%",
    "z" * 290 + "%",
    "aBcDeFgH%",
    "-%",
    "I%",
]
SIDES = ("", "TEXT", "INTEGER", "REAL", "NUMERIC")  # what the other side is: a value, or a column of this type


@pytest.fixture(scope="module")
def sqlite() -> Iterator[apsw.Connection]:
    connection = apsw.Connection(":memory:")
    connection.execute(f"CREATE TABLE other (number INTEGER PRIMARY KEY, plain, {', '.join([f'c{side} {side}' for side in SIDES])})")
    for number, value in enumerate(OTHERS):
        connection.execute(f"INSERT INTO other VALUES (?, ?{', ?' * len(SIDES)})", (number, value, *[value] * len(SIDES)))
    yield connection
    connection.close()


def lies_in(span: Span, key: bytes) -> bool:
    return any(low <= key < high for low, high in span.bounds)


@pytest.mark.parametrize("kind", STORED)
@pytest.mark.parametrize("operator", OPERATORS)
def test_a_span_has_all_that_sqlite_finds(sqlite: apsw.Connection, kind: ColumnType, operator: int) -> None:
    values = STORED[kind]
    sqlite.execute("DROP TABLE IF EXISTS stored")
    sqlite.execute(f"CREATE TABLE stored (number INTEGER PRIMARY KEY, x {affinity(kind)})")
    for number, value in enumerate(values):
        sqlite.execute("INSERT INTO stored VALUES (?, ?)", (number, column_value(kind, value)))
    found = 0
    # A value without affinity: `+column` has none.
    for side in ("+o.plain", *[f"o.c{side}" for side in SIDES]):
        name = side.removeprefix("+")
        query = f"SELECT s.number, {name} FROM stored s, other o WHERE s.x {OPERATORS[operator]} {side}"
        for number, other in sqlite.execute(query):
            value, span = values[number], span_of(kind, operator, other)
            keys = index_keys(value)
            text = sql_value(value)
            if isinstance(value, (list, dict)):
                assert text[0] in span.unlisted, (value, OPERATORS[operator], side, other)
            else:
                assert any(lies_in(span, key) for key in keys), (value, OPERATORS[operator], side, other)
            found += 1
    assert found or kind is ColumnType.BYTES  # which LIKE and GLOB match in some builds of SQLite only


@pytest.mark.parametrize("kind", [ColumnType.TEXT, ColumnType.INTEGER, ColumnType.REAL, ColumnType.BIG, ColumnType.ANY])
def test_spans_of_keys_are_those_of_whole_values(kind: ColumnType) -> None:
    texts = ["a", "5", "y" * 505, "y" * 506, "y" * 480, "z" * 600]
    keys: list[Any] = {ColumnType.TEXT: texts, ColumnType.ANY: [*texts, 5, 2.5, 2**63, ("a", 1)]}.get(kind, [5, -5, 2**53 + 1, 2**60])
    for other in keys:
        value = sql_value(other)
        for key in keys:
            face = sql_value(key)
            stored = storage_key(encode_key(key))
            assert face != value or lies_in(key_span_of(kind, EQ, value), stored)
            assert lies_in(key_span_of(kind, NOT_NULL, None), stored) and not lies_in(key_span_of(kind, IS_NULL, None), stored)
            if type(face) is type(value):
                assert face <= value or lies_in(key_span_of(kind, GT, value), stored)  # type: ignore[operator]
                assert face > value or lies_in(key_span_of(kind, LE, value), stored)  # type: ignore[operator]


def test_a_key_is_a_point() -> None:
    key = encode_key("ab")
    assert span_of(ColumnType.TEXT, EQ, "ab") == key_span_of(ColumnType.TEXT, EQ, "ab") == Span(((key, after(key)),))
    assert span_of(ColumnType.TEXT, EQ, "ab").is_point and span_of(ColumnType.TEXT, EQ, "z" * 257).is_point
    assert span_of(ColumnType.INTEGER, EQ, 5).is_point and span_of(ColumnType.INTEGER, EQ, "abc").is_point
    assert not span_of(ColumnType.ANY, EQ, 5).is_point and not span_of(ColumnType.REAL, EQ, 2.0**60).is_point
    assert span_of(ColumnType.DATE, EQ, "2024-01-05T10:00:00.000Z").is_point
    assert span_of(ColumnType.DATE, EQ, "2024-01-05") == Span(())


def test_nulls() -> None:
    for kind in (ColumnType.TEXT, ColumnType.ANY, ColumnType.JSON):
        nulls = span_of(kind, IS_NULL, None)
        assert nulls == span_of(kind, IS, None) and lies_in(nulls, encode_key(None)) and not lies_in(nulls, encode_key(False))
        assert all(span_of(kind, each, None) == Span(()) for each in (EQ, GT, LE, LT, GE, LIKE))
        assert not lies_in(span_of(kind, NOT_NULL, None), encode_key(None))
    assert span_of(ColumnType.ANY, NOT_NULL, None).unlisted == JSON_STARTS
    assert not span_of(ColumnType.TEXT, NOT_NULL, None).unlisted


def test_ranges_with_two_ends_are_narrow() -> None:
    """Where one end alone would not be served by an index."""
    low, high = span_of(ColumnType.ANY, GE, 5), span_of(ColumnType.ANY, LT, 10)
    assert low.unlisted and not intersection(low, high).unlisted
    between = intersection(low, high)
    assert lies_in(between, encode_key(7)) and not lies_in(between, encode_key(4)) and not lies_in(between, encode_key("x"))
    days = intersection(span_of(ColumnType.ANY, GE, "2024-01-05"), span_of(ColumnType.ANY, LT, "2024-01-06"))
    assert (
        lies_in(days, encode_key(DATES[0]))
        and not lies_in(days, encode_key(5))
        and not lies_in(days, encode_key(DATES[4]))
        and not days.unlisted
    )


def test_dates_by_their_beginning() -> None:
    def bounds(operator: int, text: str) -> list[bool]:
        moments = [
            datetime(2024, 1, 4, 23, 59, tzinfo=UTC),
            datetime(2024, 1, 5, tzinfo=UTC),
            datetime(2024, 1, 5, 23, tzinfo=UTC),
            datetime(2024, 1, 6, tzinfo=UTC),
        ]
        return [lies_in(span_of(ColumnType.DATE, operator, text), encode_key(moment)) for moment in moments]

    assert bounds(GE, "2024-01-05") == [False, True, True, True]
    assert bounds(LT, "2024-01-05") == [True, False, False, False]
    assert bounds(LIKE, "2024-01-05%") == bounds(GLOB, "2024-01-05*") == [False, True, True, False]
    assert bounds(EQ, "2024-01-05") == [False] * 4
    assert bounds(GT, "garbage") == [True] * 4


def test_patterns_ignore_the_case_of_some_letters_one_by_one() -> None:
    span = span_of(ColumnType.TEXT, LIKE, "ab%")
    assert [lies_in(span, encode_key(text)) for text in ("ab", "aB", "AB", "Abc", "aa", "ac", "b")] == [
        True,
        True,
        True,
        True,
        False,
        False,
        False,
    ]
    assert len(span_of(ColumnType.TEXT, LIKE, "abcdefgh%").bounds) == 16
    assert span_of(ColumnType.TEXT, GLOB, "ab*").bounds == ((b"\x10ab", b"\x10ac"),)
    assert len(span_of(ColumnType.TEXT, LIKE, "12-%").bounds) == 1


def test_all_records() -> None:
    assert whole_span(ColumnType.TEXT) == ALL_KEYS == whole_key_span(ColumnType.TEXT)
    assert whole_span(ColumnType.ANY).unlisted == JSON_STARTS and not whole_key_span(ColumnType.ANY).unlisted
    assert whole_span(ColumnType.ANY).bounds == ALL_KEYS.bounds
    assert span_of(ColumnType.JSON, EQ, "a").unlisted == JSON_STARTS


def test_what_no_key_can_be_like_is_looked_for_everywhere() -> None:
    assert span_of(ColumnType.TEXT, EQ, "\ud800") == ALL_KEYS
    assert span_of(ColumnType.ANY, EQ, "\ud800").unlisted == JSON_STARTS
