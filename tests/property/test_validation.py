"""Any value as a record: refused with a message that can be sent, or a record that can be stored and is valid as it is stored."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from svc.content.json_type import decode_json
from svc.errors import ClientError, ValidationError
from svc.store.schema import SCALAR_TYPES, Attribute, Relationship, Structure, TableDefinition
from svc.store.values.conversion import autoconvert, date_from_ms, key_from_text, ms_from_date, text_to_value
from svc.store.values.records import decode, encode
from svc.store.values.validation import Add, Validator, check_key
from tests.support.profile import half_by_day

INNER = Structure(
    "Inner",
    (Attribute("n", "Int", required=True), Attribute("d", "Date"), Attribute("inner", "Inner"), Attribute("many", "Inner", elements=True)),
)
OPEN = TableDefinition(
    "T",
    attributes=(
        Attribute("id", "Any", primary_key=True),
        *[Attribute(kind, kind) for kind in SCALAR_TYPES],
        *[Attribute(f"{kind}s", kind, elements=True, element_required=kind == "Int") for kind in SCALAR_TYPES],
        Attribute("inner", "Inner"),
        Attribute("show", "Show", relationship=Relationship("Show", "id")),
    ),
    structures=(INNER,),
)
TABLES = [
    OPEN,
    TableDefinition("D", dynamic=True),
    TableDefinition("S", attributes=OPEN.attributes, structures=(INNER,), sealed=True, split_segments=True),
]
VALIDATORS = [Validator(definition) for definition in TABLES]
NAMES = [attribute.name for attribute in OPEN.attributes] + ["n", "d", "many", "__op__", "value"]

text = st.text(alphabet=st.characters(exclude_categories=()), max_size=20) | st.sampled_from(
    ["add", "null", "2024-01-05T20:07:27.955Z", "YWI=", "12", "-1.5"]
)
numbers = (
    st.integers()
    | st.floats()
    | st.integers(min_value=-(2**1010), max_value=2**1010)
    | st.sampled_from([2.0**53, -(2.0**53), 2**31, 2**63, 2**64])
)
json_scalars = st.none() | st.booleans() | numbers | text
native_scalars = (
    json_scalars
    | st.binary(max_size=10)
    | st.datetimes()
    | st.datetimes(timezones=st.timezones())
    | st.frozensets(st.integers(), max_size=3)
)


def nested(scalars: st.SearchStrategy[Any], names: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.recursive(
        scalars,
        lambda children: st.lists(children, max_size=4) | st.dictionaries(names, children, max_size=4) | st.lists(st.floats(), max_size=4),
        max_leaves=12,
    )


names = text | st.sampled_from(NAMES)
json_records = st.dictionaries(names, nested(json_scalars, names), max_size=6)
native_records = st.dictionaries(names | st.integers(), nested(native_scalars, names | st.integers() | st.booleans()), max_size=6)


def check(validator: Validator, data: dict[Any, Any], source: str) -> None:
    before = repr(data)
    try:
        record = validator.record(data, source=source)
    except ClientError as error:
        assert error.status_code == 400
        msgspec.json.encode((error.message, error.errors))
    else:
        stored = decode(encode(record, 1.0, 1, None))
        # A list key is a tuple for code and a list in the record.
        again = validator.record(stored, source="native")
        assert again == stored
        assert list(again) == list(data)
        assert validator.record(record, source=source) is record
    assert repr(data) == before, "the caller's object was changed"


def test_nesting_that_python_could_not_follow() -> None:
    deep: Any = 1
    for _ in range(3000):
        deep = [deep]
    for source in ("json", "native"):
        with pytest.raises(ValidationError, match="nested more than 64 levels deep"):
            VALIDATORS[0].record({"deep": deep}, source=source)


@settings(max_examples=half_by_day(100))
@given(st.sampled_from(VALIDATORS), json_records)
@example(VALIDATORS[0], {"Floats": [1e308, 1e308, 2.0]})
def test_json(validator: Validator, data: dict[str, Any]) -> None:
    check(validator, data, "json")


plain_values: dict[str, st.SearchStrategy[Any]] = {
    "Int": st.integers(-(2**31) - 1, 2**31), "Long": st.integers(-(2**53) - 1, 2**53 + 1), "Float": numbers, "BigInt": numbers, "Boolean": st.booleans(),
}  # fmt: skip


@given(
    st.sampled_from(VALIDATORS[::2]),
    json_records,
    st.fixed_dictionaries(
        {"id": text},
        optional={kind: st.none() | plain_values.get(kind, text) for kind in SCALAR_TYPES if kind != "Blob"} | {"Strings": st.lists(text)},
    ),
)
def test_plain_records_are_valid(validator: Validator, wild: dict[str, Any], tame: dict[str, Any]) -> None:
    """What is taken for plain is stored as the validator would have it."""
    for given_record in (tame, wild, tame | wild):
        try:
            data = decode_json(msgspec.json.encode(given_record))
        except (ClientError, UnicodeEncodeError, OverflowError):
            continue
        found = validator.plain_records.maybe_record(data)
        if found is not None:
            expected = validator.record(data)
            assert found == expected and repr(found) == repr(expected)
            encode(found, 1.0, 1, None)


@settings(max_examples=half_by_day(100))
@given(st.sampled_from(VALIDATORS), native_records)
@example(VALIDATORS[0], {"Any": {1: {True: 2}}})
def test_native(validator: Validator, data: dict[Any, Any]) -> None:
    check(validator, data, "native")


@given(st.sampled_from(VALIDATORS), json_records, st.dictionaries(st.sampled_from(NAMES), numbers))
def test_changes(validator: Validator, data: dict[str, Any], base: dict[str, Any]) -> None:
    try:
        changes = validator.changes(data)
        merged = base | {name: value.applied_to(base.get(name)) if type(value) is Add else value for name, value in changes.items()}
        validator.merged(merged, [name for name, value in changes.items() if type(value) is Add])
    except ClientError as error:
        assert error.status_code == 400
        msgspec.json.encode((error.message, error.errors))
    else:
        assert list(changes) == list(data)
        assert {name for name, value in changes.items() if type(value) is Add} == {
            name for name, value in data.items() if type(value) is dict and "__op__" in value
        }


@given(st.sampled_from(OPEN.attributes), text | numbers.map(str))
def test_text_of_a_url(attribute: Attribute, value: str) -> None:
    converted: object
    try:
        converted = text_to_value(attribute, value)
    except ClientError as error:
        assert error.code == "BAD_VALUE"
        error.message.encode()
    else:
        assert attribute.type not in ("ID", "String", "Any") or converted == value
    converted = autoconvert(value)
    assert converted is None or isinstance(converted, bool | int | float) or converted == value


@given(st.sampled_from(SCALAR_TYPES[:6]), st.booleans(), text | numbers.map(str) | st.lists(text, min_size=2, max_size=3).map("/".join))
def test_a_key_from_text_is_a_key(kind: str, split: bool, value: str) -> None:
    definition = TableDefinition("T", attributes=(Attribute("id", kind, primary_key=True),), split_segments=split)
    try:
        key = key_from_text(definition, value)
        assert check_key(definition, list(key) if isinstance(key, tuple) else key) == key
    except ClientError as error:
        error.message.encode()


@given(st.integers(min_value=-62135596800000, max_value=253402300799999))
def test_dates(ms: int) -> None:
    moment = date_from_ms(ms)
    assert moment == datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=ms)
    assert ms_from_date(moment) == ms
    assert Validator(OPEN).record({"Date": moment.isoformat()}) == {"Date": moment}
