"""Tokens of formats."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from svc.errors import QueryError
from svc.sql.functions.date_formats import MAX_FORMAT, formatter, iso_with_offset
from svc.sql.functions.dates import MAX_MS, moment_of, ms_of

AFTERNOON = 1_704_485_247_055  # Friday, 2024-01-05T20:07:27.055Z


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("YYYY-MM-DD HH:mm:ss.SSS", "2024-01-05 20:07:27.055"),
        ("YY M D H h m s", "24 1 5 20 8 7 27"),
        ("hh:mm A a", "08:07 PM pm"),
        ("MMMM MMM", "January Jan"),
        ("dddd ddd d", "Friday Fri 5"),
        ("DDDD DDD Q", "005 5 1"),
        ("SSS SS S", "055 05 0"),
        ("Z ZZ", "+00:00 +0000"),
        ("x X", "1704485247055 1704485247"),
        ("[YYYY] YYYY [it's] \\M", "YYYY 2024 it's M"),
        ("100% {0} %s", "100% {0} %27"),
        ("YYYYY", "2024Y"),
        ("[", "["),
        ("[]", ""),
        ("", ""),
        ("ö 年", "ö 年"),
    ],
)
def test_tokens(pattern: str, expected: str) -> None:
    assert formatter(pattern)(moment_of(AFTERNOON)) == expected


@pytest.mark.parametrize(("hour", "expected"), [(0, "12 AM"), (1, "1 AM"), (11, "11 AM"), (12, "12 PM"), (13, "1 PM"), (23, "11 PM")])
def test_hours_of_twelve(hour: int, expected: str) -> None:
    assert formatter("h A")(moment_of(hour * 3_600_000)) == expected


@pytest.mark.parametrize(
    ("year", "expected"),
    [("0000", "0000 00"), ("0099", "0099 99"), ("9999", "9999 99"), ("+010000", "+10000 00"), ("+275760", "+275760 60")],
)
def test_years(year: str, expected: str) -> None:
    ms = ms_of(year)
    assert ms is not None and formatter("YYYY YY")(moment_of(ms)) == expected


def test_year_before_year_0() -> None:
    assert iso_with_offset(-62_167_219_200_001) == "-0001-12-31T23:59:59.999+0000"


@pytest.mark.parametrize(
    ("offset", "expected"),
    [(0, "20:07:27.055+0000"), (330, "01:37:27.055+0530"), (-90, "18:37:27.055-0130"), (960, "12:07:27.055+1600")],
)
def test_offsets(offset: int, expected: str) -> None:
    assert iso_with_offset(AFTERNOON, offset).endswith(expected)
    assert formatter("HH:mm:ss.SSSZZ")(moment_of(AFTERNOON, offset)) == expected


def test_long_formats_are_refused() -> None:
    assert len(formatter("dddd" * (MAX_FORMAT // 4))(moment_of(0))) == MAX_FORMAT // 4 * len("Thursday")
    with pytest.raises(QueryError, match="at most 1000 characters"):
        formatter("Y" * (MAX_FORMAT + 1))


@given(st.text(max_size=50), st.integers(-MAX_MS, MAX_MS))
def test_any_format_of_any_time_is_text(pattern: str, ms: int) -> None:
    assert isinstance(formatter(pattern)(moment_of(ms)), str)


@given(st.integers(-62_167_219_200_000, 253_402_214_400_000))
def test_what_is_written_is_read(ms: int) -> None:
    assert ms_of(iso_with_offset(ms)) == ms_of(iso_with_offset(ms, 90)) == ms
