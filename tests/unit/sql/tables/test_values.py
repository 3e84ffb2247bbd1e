"""svc.sql.tables.values"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import apsw
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from svc.errors import StoreFailure
from svc.sql.catalogue import ColumnType
from svc.sql.tables.shape import affinity
from svc.sql.tables.values import (
    NUMERIC,
    column_value,
    exact_value,
    from_exact,
    numeric_value,
    sql_value,
    stored_column_value,
    stored_exact_value,
    stored_sql_value,
)
from svc.store.blobs import create_blob
from svc.store.values.records import decode_payload, encode_payload

DATE = datetime(2024, 1, 5, 20, 7, 27, 955_000, UTC)
CASES: list[tuple[Any, Any, bool]] = [  # value, what SQLite has, whether that is exact
    (None, None, True),
    ("a", "a", True),
    ("a\0b", "a\0b", True),
    (5, 5, True),
    (-(2**63), -(2**63), True),
    (2**63 - 1, 2**63 - 1, True),
    (2**63, "9223372036854775808", False),
    (2**64 - 1, "18446744073709551615", False),
    (-(2**63) - 1, "-9223372036854775809", False),
    (10**200, "1" + "0" * 200, False),
    (0.5, 0.5, True),
    (1e300, 1e300, True),
    (float("inf"), float("inf"), True),
    (True, 1, False),
    (False, 0, False),
    (DATE, "2024-01-05T20:07:27.955Z", False),
    (datetime(1, 1, 1, tzinfo=UTC), "0001-01-01T00:00:00.000Z", False),
    (b"", b"", False),
    (b"\xd7\x01abcdefgh", b"\xd7\x01abcdefgh", False),
    ([], "[]", False),
    (["a", 1, None, True], '["a",1,null,true]', False),
    ({"a": {"b": DATE}}, '{"a":{"b":"2024-01-05T20:07:27.955Z"}}', False),
    ({1: "a"}, '{"1":"a"}', False),
    ({"a"}, '["a"]', False),
    ([2**70, b"ab"], '[1180591620717411303424,"YWI="]', False),
]


@pytest.mark.parametrize(("value", "expected", "is_exact"), CASES)
def test_what_sqlite_has(value: Any, expected: Any, is_exact: bool) -> None:
    stored = msgspec.Raw(encode_payload(value))
    for found in (sql_value(value), stored_sql_value(stored)):
        assert found == expected and type(found) is type(expected)
    for exact in (exact_value(value), stored_exact_value(stored)):
        assert from_exact(exact, native=True) == value and type(from_exact(exact, native=True)) is type(value)
        assert (type(exact) is bytes) is not is_exact
        assert is_exact is (exact == value)


def test_what_is_missing_is_null() -> None:
    assert stored_sql_value(None) is stored_exact_value(None) is stored_column_value(ColumnType.REAL, None) is None
    assert sql_value(float("nan")) != sql_value(float("nan"))  # SQLite has null for it


def test_exact_values_for_json() -> None:
    assert from_exact(exact_value(DATE), native=False) == "2024-01-05T20:07:27.955Z"
    assert from_exact(exact_value({1, 2}), native=False) == [1, 2]
    assert from_exact(exact_value(b"a"), native=False) == b"a"
    assert from_exact("a", native=False) == "a"


def test_blobs_are_the_json_of_what_they_are_in_json() -> None:
    text, binary = create_blob("a text"), create_blob(b"\0\1", type="image/png")
    assert sql_value(text) == '"a text"'
    assert sql_value(binary) == msgspec.json.encode(binary.json_form()).decode()
    for blob in (text, binary):
        stored = msgspec.Raw(encode_payload(blob))
        assert stored_sql_value(stored) == sql_value(blob)
        assert stored_exact_value(stored) == encode_payload(blob)


def test_a_large_blob_is_known_by_its_extension() -> None:
    for size in (1, 13, 300, 3000):
        blob = create_blob("x" * size)
        assert stored_sql_value(msgspec.Raw(encode_payload(blob))) == '"' + "x" * size + '"'


@pytest.mark.parametrize("kind", list(ColumnType))
@pytest.mark.parametrize("value", [None, 5, 5.5, 2**53 + 1, 10**300, "a", " 5 ", "5.0", "1e3", "9e999", True, DATE, [5], b"5", {"a": 1}])
def test_values_in_columns_are_what_sqlite_makes_of_them(kind: ColumnType, value: Any) -> None:
    found = column_value(kind, value)
    assert stored_column_value(kind, msgspec.Raw(encode_payload(value))) == found
    connection = apsw.Connection(":memory:")
    connection.execute(f"CREATE TABLE t (x {affinity(kind)})")
    connection.execute("INSERT INTO t VALUES (?)", (sql_value(value),))
    ((kept,),) = list(connection.execute("SELECT x FROM t"))
    connection.close()
    assert found == (kept if kind in NUMERIC else sql_value(value))
    assert kind is not ColumnType.REAL or type(found) is not int


@pytest.mark.parametrize(
    "text",
    [
        "5.",
        ".5",
        "+.5e-3",
        "1e5",
        "\v5\f",
        "-0",
        "9" * 19,
        "9" * 20,
        str(2**63 - 1),
        str(2**63),
        str(-(2**63)),
        "0" * 30 + "5",
        "0" * 50,
        "1" * 5000,
    ],
)
def test_texts_that_are_numbers(text: str) -> None:
    number, is_exact = numeric_value(text)
    assert number is not None and float(number) == float(text) and is_exact is (type(number) is int)
    connection = apsw.Connection(":memory:")
    ((kind,),) = list(connection.execute("SELECT TYPEOF(CAST(? AS NUMERIC))", (text,)))
    connection.close()
    assert kind == "integer" or type(number) is float


@pytest.mark.parametrize(
    "text",
    ["", " ", ".", "e5", "5e", "5e+", "1 2", "0x5", "5_0", "5\0", "inf", "nan", "５", "--5", "1" * 300_000 + "x", " " * 300_000 + "x"],
)
def test_texts_that_are_none(text: str) -> None:
    assert numeric_value(text)[0] is None


def test_integers_that_are_no_doubles() -> None:
    assert column_value(ColumnType.REAL, 10**400) == "1" + "0" * 400


def test_more_dates_than_are_remembered() -> None:
    for ms in range(3000):
        moment = datetime(2024, 1, 1, 0, 0, ms // 1000, ms % 1000 * 1000, UTC)
        assert (
            stored_sql_value(msgspec.Raw(encode_payload(moment))) == sql_value(moment) == f"2024-01-01T00:00:0{ms // 1000}.{ms % 1000:03}Z"
        )


def test_what_is_damaged_is_a_failure() -> None:
    with pytest.raises(StoreFailure):
        stored_sql_value(msgspec.Raw(b"\xd7\x01abc"))
    with pytest.raises(StoreFailure):
        stored_exact_value(msgspec.Raw(b"\xd9\x05a"))


SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-(2**80), 2**80)
    | st.floats(allow_nan=False)
    | st.text()
    | st.binary()
    | st.datetimes(timezones=st.just(UTC))
)
ALL = st.recursive(SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3), max_leaves=8)


@given(ALL)
def test_both_ways_to_a_value_agree(value: Any) -> None:
    payload = encode_payload(value)
    stored, kept = msgspec.Raw(payload), decode_payload(payload)
    assert sql_value(kept) == stored_sql_value(stored)
    assert from_exact(exact_value(kept), native=True) == from_exact(stored_exact_value(stored), native=True) == kept
    assert (stored_exact_value(stored) is None) is (value is None)
