from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta, timezone

import pytest

from svc.errors import BadValue, ValidationError
from svc.store.schema import SCALAR_TYPES, Attribute, TableDefinition
from svc.store.values.conversion import (
    MAX_DATE_MS,
    MIN_DATE_MS,
    autoconvert,
    check_key,
    date_from_ms,
    date_from_text,
    key_from_text,
    ms_from_date,
    printable,
    shown,
    text_to_value,
    to_date,
    utc,
    whole,
)


def keyed(kind: str, split: bool = False) -> TableDefinition:
    return TableDefinition("T", attributes=(Attribute("id", kind, primary_key=True),), split_segments=split)


class TestTextToValue:
    """The column "Text" of schema-and-store §5, and query §4."""

    @pytest.mark.parametrize(
        ("kind", "text", "value"),
        [
            ("ID", "12", "12"),
            ("ID", "null", "null"),
            ("ID", "", ""),
            ("String", "true", "true"),
            ("String", "null", "null"),
            ("String", "", ""),
            ("Any", "12", "12"),
            ("Any", "null", "null"),
            ("Int", "12", 12),
            ("Int", "-0", 0),
            ("Int", "007", 7),
            ("Int", "$zz", 1295),
            ("Int", "$-Z", -35),
            ("Int", "99999999999", 99999999999),
            ("Int", "null", None),
            ("Int", "", None),
            ("Long", "9007199254740993", 9007199254740993),
            ("Float", "1.50", 1.5),
            ("Float", "5.0", 5),
            ("Float", "-.5", -0.5),
            ("Float", "1e3", 1000),
            ("Float", "12345678901234567890", 12345678901234567890),
            ("Float", "null", None),
            ("Float", "", None),
            ("BigInt", "1" * 301, int("1" * 301)),
            ("BigInt", "null", None),
            ("Boolean", "true", True),
            ("Boolean", "FALSE", False),
            ("Boolean", "null", None),
            ("Boolean", "", None),
            ("Date", "0", datetime(1970, 1, 1, tzinfo=UTC)),
            ("Date", "-1", datetime(1969, 12, 31, 23, 59, 59, 999000, UTC)),
            ("Date", "2024-01-05", datetime(2024, 1, 5, tzinfo=UTC)),
            ("Date", "2024-01-05T20:07:27.955Z", datetime(2024, 1, 5, 20, 7, 27, 955000, UTC)),
            ("Date", "null", None),
            ("Date", "", None),
            ("Bytes", "aé", b"a\xc3\xa9"),
            ("Bytes", "null", b"null"),
            ("Bytes", "", b""),
        ],
    )
    def test_converts(self, kind: str, text: str, value: object) -> None:
        found = text_to_value(Attribute("a", kind), text)
        assert found == value
        assert type(found) is type(value)

    @pytest.mark.parametrize(
        ("kind", "text"),
        [
            ("Int", "1.0"),
            ("Int", "1e3"),
            ("Int", "+1"),
            ("Int", " 1"),
            ("Int", "1\n"),
            ("Int", "٣"),
            ("Int", "$"),
            ("Int", "$!"),
            ("Int", "x"),
            ("Int", "1" * 5000),
            ("Long", "1_000"),
            ("Float", "NaN"),
            ("Float", "inf"),
            ("Float", "1e999"),
            ("Float", "0x10"),
            ("Float", "1" * 400),
            ("Float", "0." + "1" * 5000),
            ("Float", "."),
            ("BigInt", "1.5"),
            ("BigInt", "9" * 302),
            ("Boolean", "1"),
            ("Boolean", "yes"),
            ("Date", "tomorrow"),
            ("Date", "2024-13-01"),
            ("Date", "9" * 20),
            ("Blob", "x"),
            ("Place", "x"),
        ],
    )
    def test_refuses(self, kind: str, text: str) -> None:
        with pytest.raises(BadValue, match=f"Invalid value for attribute a: .*, expecting {kind}"):
            text_to_value(Attribute("a", kind), text)

    def test_message_of_the_specification(self) -> None:
        with pytest.raises(BadValue) as caught:
            text_to_value(Attribute("price", "Float"), "abc")
        assert caught.value.message == 'Invalid value for attribute price: "abc", expecting Float'
        assert (caught.value.status_code, caught.value.code) == (400, "BAD_VALUE")

    def test_lists_by_their_elements_and_what_is_not_declared_as_text(self) -> None:
        assert text_to_value(Attribute("a", "Int", elements=True), "5") == 5
        assert text_to_value(None, "5") == "5"

    @pytest.mark.parametrize("kind", SCALAR_TYPES)
    @pytest.mark.parametrize("text", ["\ud800", "\0", "1\ud800", "-", "$", "\U0001f600" * 300])
    def test_any_text_gives_a_value_or_bad_value(self, kind: str, text: str) -> None:
        try:
            text_to_value(Attribute("a", kind), text)
        except BadValue as error:
            error.message.encode()


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("null", None), ("true", True), ("false", False), ("True", "True"), ("0", 0), ("-0", 0), ("12", 12), ("-1.5", -1.5), ("1.0", 1),
        ("0.5", 0.5), ("00", "00"), ("007", "007"), ("1e3", "1e3"), ("+1", "+1"), (".5", ".5"), ("1.", "1."), ("", ""), ("2024-01-05", "2024-01-05"),
        ("9007199254740993", 9007199254740993), ("9" * 400, "9" * 400), ("٣", "٣"), ("1\n", "1\n"), ("NaN", "NaN"),
    ],
)  # fmt: skip
def test_autoconvert(text: str, value: object) -> None:
    found = autoconvert(text)
    assert found == value
    assert type(found) is type(value)


class TestDates:
    @pytest.mark.parametrize(
        ("text", "iso"),
        [
            ("2024-01-05", "2024-01-05T00:00:00+00:00"),
            ("2024-01-05T20:07", "2024-01-05T20:07:00+00:00"),
            ("2024-01-05 20:07:27", "2024-01-05T20:07:27+00:00"),
            ("2024-01-05t20:07:27z", "2024-01-05T20:07:27+00:00"),
            ("2024-01-05T20:07:27,9559Z", "2024-01-05T20:07:27.955000+00:00"),
            ("2024-01-05T20:07:27.123456789Z", "2024-01-05T20:07:27.123000+00:00"),
            ("2024-01-05T20:07:27+01", "2024-01-05T19:07:27+00:00"),
            ("2024-01-05T20:07:27+0130", "2024-01-05T18:37:27+00:00"),
            ("2024-01-05T00:07:27-01:30", "2024-01-05T01:37:27+00:00"),
            ("0001-01-01", "0001-01-01T00:00:00+00:00"),
            ("9999-12-31T23:59:59.999Z", "9999-12-31T23:59:59.999000+00:00"),
        ],
    )
    def test_iso_text(self, text: str, iso: str) -> None:
        found = date_from_text(text)
        assert found is not None
        assert found.isoformat() == iso

    @pytest.mark.parametrize(
        "text",
        [
            "", "2024", "2024-01", "20240105", "20240105T200727Z", "2024-W01-5", "2024-1-5", "2024-02-30", "2024-01-05T", "2024-01-05T20",
            "2024-01-05x20:07", "2024-01-05T24:00", "2024-01-05T20:07:60", "2024-01-05T20:07Q", "0000-01-01", "10000-01-01",
            "0001-01-01T00:00+01:00", "9999-12-31T23:59-01:00", "2024-01-05T20:07+25:00", "2024-01-05T20:07 Z", "2024-01-05\n", "٢٠٢٤-01-05",
            "2024-01-05T20:07:27.955Z ", "now", "Fri, 05 Jan 2024 20:07:27 GMT",
        ],
    )  # fmt: skip
    def test_nonsense(self, text: str) -> None:
        assert date_from_text(text) is None

    def test_numbers_are_ms_within_the_years_1_to_9999(self) -> None:
        assert date_from_ms(1.9) == datetime(1970, 1, 1, 0, 0, 0, 1000, UTC)
        assert date_from_ms(MIN_DATE_MS) == datetime(1, 1, 1, tzinfo=UTC)
        assert date_from_ms(MAX_DATE_MS) == datetime(9999, 12, 31, 23, 59, 59, 999000, UTC)
        assert date_from_ms(MAX_DATE_MS + 0.5) is not None
        for value in (MIN_DATE_MS - 1, MAX_DATE_MS + 1, math.inf, -math.inf, math.nan, 10**400):
            assert date_from_ms(value) is None
        for value in (MIN_DATE_MS, -1, 0, 1, 1704485247955, MAX_DATE_MS):
            moment = date_from_ms(value)
            assert moment is not None
            assert ms_from_date(moment) == value

    def test_utc_keeps_what_is_right_already(self) -> None:
        right = datetime(2024, 1, 5, 20, 7, 27, 955000, UTC)
        assert utc(right) is right
        assert utc(right.replace(tzinfo=None)) == right
        east = right.astimezone(timezone(timedelta(hours=2)))
        assert utc(east).tzinfo is UTC
        assert utc(right.replace(microsecond=955999)) == right

    @pytest.mark.parametrize("value", [True, None, [], {}, b"2024-01-05", "x", object()])
    def test_what_is_no_date(self, value: object) -> None:
        assert to_date(value) is None

    def test_a_zone_may_not_lead_out_of_the_calendar(self) -> None:
        assert to_date(datetime(1, 1, 1, tzinfo=timezone(timedelta(hours=2)))) is None
        assert to_date(datetime(2024, 1, 5).date()) == datetime(2024, 1, 5, tzinfo=UTC)


class TestKeyFromText:
    @pytest.mark.parametrize(
        ("kind", "text", "key"),
        [
            ("ID", "12", "12"),
            ("ID", "a/b/c", "a/b/c"),
            ("String", "null", "null"),
            ("Int", "12", 12),
            ("Int", "$zz", 1295),
            ("Long", "-9007199254740992", -9007199254740992),
            ("Float", "1.5", 1.5),
            ("Float", "1.0", 1),
            ("BigInt", "18446744073709551615", 18446744073709551615),
            ("Any", "12", 12),
            ("Any", "-1.5", -1.5),
            ("Any", "007", "007"),
            ("Any", "1e3", "1e3"),
            ("Any", "true", "true"),
            ("Any", "null", "null"),
            ("Any", "a/12", "a/12"),
            ("Any", "18446744073709551616", "18446744073709551616"),
        ],
    )
    def test_by_type(self, kind: str, text: str, key: object) -> None:
        found = key_from_text(keyed(kind), text)
        assert found == key
        assert type(found) is type(key)

    @pytest.mark.parametrize(
        ("kind", "text"),
        [("Long", "x"), ("Long", ""), ("Long", "null"), ("Long", "1/2"), ("Int", "2147483648"), ("Long", "9007199254740993"), ("Long", "1.0"),
         ("BigInt", "18446744073709551616"), ("BigInt", "1.5"), ("Float", "abc"), ("Float", "null")],
    )  # fmt: skip
    def test_refuses(self, kind: str, text: str) -> None:
        with pytest.raises(BadValue, match=f"Invalid value for attribute id: .*, expecting {kind}"):
            key_from_text(keyed(kind), text)

    def test_message_of_the_specification(self) -> None:
        with pytest.raises(BadValue) as caught:
            key_from_text(keyed("Long"), "x")
        assert caught.value.message == 'Invalid value for attribute id: "x", expecting Long'

    def test_split_segments(self) -> None:
        assert key_from_text(keyed("ID", True), "a/b/12") == ("a", "b", "12")
        assert key_from_text(keyed("Any", True), "a/12") == ("a", 12)
        assert key_from_text(keyed("Long", True), "1/2") == (1, 2)
        assert key_from_text(keyed("Any", True), "12") == 12
        with pytest.raises(BadValue):
            key_from_text(keyed("Long", True), "1/b")

    def test_a_table_that_declares_nothing(self) -> None:
        assert key_from_text(TableDefinition("T"), "12") == 12

    def test_a_numeral_with_escaped_digits_is_the_string_of_an_untyped_key(self) -> None:
        assert key_from_text(keyed("Any"), "5", "%35") == "5"
        assert key_from_text(keyed("Any"), "1.5", "1%2E5") == 1.5, "a dot is escaped only to be no property"
        assert key_from_text(keyed("Any"), "1.5", "%31%2e5") == "1.5"
        assert key_from_text(keyed("Any", True), "a/5/6", "a/%35%2f6") == ("a", "5", 6)
        assert key_from_text(keyed("Long"), "5", "%35") == 5, "what is declared is converted"


class TestCheckKey:
    @pytest.mark.parametrize(
        ("kind", "value", "key"),
        [
            ("ID", "12", "12"),
            ("Int", 5.0, 5),
            ("Long", 2**53, 2**53),
            ("Float", 5.0, 5),
            ("Float", 0.5, 0.5),
            ("Float", 5, 5),
            ("BigInt", 2**64 - 1, 2**64 - 1),
            ("BigInt", "12", 12),
            ("BigInt", 1e17, 10**17),
            ("Any", "12", "12"),
            ("Any", 12.0, 12),
            ("Any", -0.0, 0),
        ],
    )
    def test_takes(self, kind: str, value: object, key: object) -> None:
        found = check_key(keyed(kind), value)
        assert found == key
        assert type(found) is type(key)

    @pytest.mark.parametrize("kind", ["ID", "String", "Int", "Long", "Float", "BigInt", "Any"])
    @pytest.mark.parametrize("value", [None, True, False, {}, [], ["a", "b"], ("a",), b"x", math.nan, math.inf, "\ud800", 2**64, -(2**64)])
    def test_refuses_everywhere(self, kind: str, value: object) -> None:
        with pytest.raises(ValidationError, match="in property id must be") as caught:
            check_key(keyed(kind), value)
        caught.value.message.encode()

    @pytest.mark.parametrize(
        ("kind", "value"),
        [("ID", 5), ("String", 1.5), ("Int", 2**31), ("Int", "5"), ("Long", 2**53 + 1), ("Long", 1.5), ("Float", "1"), ("BigInt", "x")],
    )
    def test_refuses(self, kind: str, value: object) -> None:
        with pytest.raises(ValidationError):
            check_key(keyed(kind), value)

    def test_text_of_the_failure(self) -> None:
        with pytest.raises(ValidationError) as caught:
            check_key(keyed("ID"), 5)
        assert caught.value.message == "Value 5 in property id must be a string"

    def test_split_segments(self) -> None:
        split = keyed("Any", True)
        assert check_key(split, ["a", 1.0]) == ("a", 1)
        assert check_key(split, "a/12") == ("a", 12) == key_from_text(split, "a/12")
        assert check_key(split, ["a"]) == "a"
        for value in ([], ["a/b", "c"], ["a", None], ["a", True], ["a", ["b"]], ["a", "\ud800"], "a/\ud800"):
            with pytest.raises(ValidationError):
                check_key(split, value)
        with pytest.raises(ValidationError):
            check_key(keyed("ID", True), ["a", 5])


def test_whole_stops_where_floats_are_no_longer_exact() -> None:
    assert [type(whole(value)) for value in (1.0, -(2.0**53), 2.0**53, 2.0**53 + 2, 0.5, math.nan, math.inf)] == [int, int, int] + [
        float
    ] * 4


class TestShown:
    @pytest.mark.parametrize(
        ("value", "text"),
        [
            ("x", '"x"'), ('a"b', '"a\\"b"'), ("é", '"é"'), ("\ud800", '"\\ud800"'), (True, "true"), (None, "null"), (1.5, "1.5"),
            (math.nan, "NaN"), (2**2000, "of 2001 bits"), ([], "[]"), ({}, "{}"), ([1, [2]], "[1, [...]]"), ({"a": {"b": 1}}, '{"a": {...}}'),
            (list(range(9)), "[0, 1, 2, 3, 4, ...]"), (b"abc", "of 3 bytes"), (datetime(2024, 1, 5, tzinfo=UTC), "2024-01-05T00:00:00+00:00"),
            (object(), "of type object"), ("x" * 1000, '"' + "x" * 100 + '..."'),
        ],
    )  # fmt: skip
    def test_values(self, value: object, text: str) -> None:
        assert shown(value) == text

    def test_names(self) -> None:
        assert printable("a.b") == "a.b"
        assert printable("\ud800") == "\\ud800"
        assert len(printable("x" * 10**6)) < 300
