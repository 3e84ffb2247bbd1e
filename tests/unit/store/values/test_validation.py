"""What a table accepts: each row of schema-and-store §5, and the texts of http §2.3."""

from __future__ import annotations

import math
from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest

from svc.errors import ClientError, ValidationError
from svc.store.blobs import create_blob
from svc.store.schema import Attribute, Relationship, Structure, TableDefinition
from svc.store.values.validation import MAX_FAILURES, Add, Validator

INT = "must be an integer from -2147483648 to 2147483647"
LONG = "must be an integer from -9007199254740992 to 9007199254740992"
DATE = "must be a date: ISO 8601 string or milliseconds since the epoch, in the years 1 to 9999"
MOMENT = datetime(2024, 1, 5, 20, 7, 27, 955000, UTC)
MOMENT_MS = 1704485247955


class OwnText(str):
    __slots__ = ()


class OwnInt(int):
    pass


class OwnFloat(float):
    pass


def validator(*attributes: Attribute, **arguments: Any) -> Validator:
    return Validator(replace(TableDefinition("T", attributes=(Attribute("id", "ID", primary_key=True), *attributes)), **arguments))


def of(kind: str, **arguments: Any) -> Validator:
    return validator(Attribute("a", kind, **arguments))


def failures(check: Validator, data: dict[Any, Any], source: str = "json") -> tuple[str, ...]:
    with pytest.raises(ValidationError) as caught:
        check.record(data, source=source)
    assert (caught.value.status_code, caught.value.code) == (400, "VALIDATION")
    assert caught.value.message == ". ".join(caught.value.errors)
    caught.value.message.encode()
    return caught.value.errors


class TestTypes:
    @pytest.mark.parametrize(
        ("kind", "value", "stored"),
        [
            ("ID", "x", "x"),
            ("String", "", ""),
            ("String", "é\U0001f600", "é\U0001f600"),
            ("String", "2024-01-05", "2024-01-05"),
            ("Int", 2147483647, 2147483647),
            ("Int", -2147483648, -2147483648),
            ("Int", 5.0, 5),
            ("Long", 2**53, 2**53),
            ("Long", -(2**53), -(2**53)),
            ("Long", 5.0, 5),
            ("Float", 1.5, 1.5),
            ("Float", 5, 5),
            ("Float", 5.0, 5),
            ("Float", -0.0, 0),
            ("Float", 1e300, 1e300),
            ("Float", 10**300, 10**300),
            ("BigInt", 2**1000 - 1, 2**1000 - 1),
            ("BigInt", "-" + "9" * 301, -int("9" * 301)),
            ("BigInt", "0", 0),
            ("BigInt", 1e20, 10**20),
            ("Boolean", True, True),
            ("Boolean", False, False),
            ("Date", "2024-01-05T20:07:27.955Z", MOMENT),
            ("Date", "2024-01-05T20:07:27.955", MOMENT),
            ("Date", MOMENT_MS, MOMENT),
            ("Date", MOMENT_MS + 0.5, MOMENT),
            ("Date", MOMENT, MOMENT),
            ("Bytes", "YWI=", b"ab"),
            ("Bytes", "YWI", b"ab"),
            ("Bytes", "", b""),
            ("Bytes", b"ab", b"ab"),
            ("Blob", "text", create_blob("text", type="text/plain")),
            ("Blob", b"ab", create_blob(b"ab")),
            ("Any", "x", "x"),
            ("Any", "2024-01-05T20:07:27.955Z", "2024-01-05T20:07:27.955Z"),
            ("Any", {"a": [1, None, {"b": True}]}, {"a": [1, None, {"b": True}]}),
            ("Any", 2**1000 - 1, 2**1000 - 1),
        ],
    )
    def test_accepts(self, kind: str, value: object, stored: object) -> None:
        found = of(kind).record({"id": "k", "a": value})["a"]
        assert found == stored
        assert type(found) is type(stored)

    @pytest.mark.parametrize(
        "kind", ["ID", "String", "Int", "Long", "Float", "BigInt", "Boolean", "Date", "Bytes", "Blob", "Any", "Unknown"]
    )
    def test_null_is_a_value_of_every_type_and_missing_is_not_filled_in(self, kind: str) -> None:
        for elements in (False, True):
            check = of(kind, elements=elements)
            assert check.record({"a": None}) == {"a": None}
            assert check.record({}) == {}

    @pytest.mark.parametrize(
        ("kind", "value", "message"),
        [
            ("ID", 5, "Value 5 in property a must be a string"),
            ("ID", ["x"], 'Value ["x"] in property a must be a string'),
            ("String", 5, "Value 5 in property a must be a string"),
            ("String", True, "Value true in property a must be a string"),
            ("String", b"x", "Value of 1 bytes in property a must be a string"),
            ("String", "\udc00", 'Value "\\udc00" in property a must be a string without unpaired surrogates'),
            ("Int", 2147483648, f"Value 2147483648 in property a {INT}"),
            ("Int", -2147483649, f"Value -2147483649 in property a {INT}"),
            ("Int", 5.5, f"Value 5.5 in property a {INT}"),
            ("Int", True, f"Value true in property a {INT}"),
            ("Int", "5", f'Value "5" in property a {INT}'),
            ("Int", math.nan, f"Value NaN in property a {INT}"),
            ("Int", math.inf, f"Value Infinity in property a {INT}"),
            ("Long", 2**53 + 1, f"Value 9007199254740993 in property a {LONG}"),
            ("Long", 1e17, f"Value 1e+17 in property a {LONG}"),
            ("Long", False, f"Value false in property a {LONG}"),
            ("Float", "x", 'Value "x" in property a must be a number'),
            ("Float", True, "Value true in property a must be a number"),
            ("Float", math.nan, "Value NaN in property a must be a finite number"),
            ("Float", -math.inf, "Value -Infinity in property a must be a finite number"),
            ("Float", 2**1000, "Value of 1001 bits in property a must be a number of at most 1000 bits"),
            ("BigInt", 2**1000, "Value of 1001 bits in property a must be an integer of at most 1000 bits"),
            ("BigInt", True, "Value true in property a must be an integer of at most 1000 bits"),
            ("BigInt", 1.5, "Value 1.5 in property a must be an integer of at most 1000 bits"),
            ("BigInt", "1.0", 'Value "1.0" in property a must be an integer of at most 1000 bits'),
            ("BigInt", "--1", 'Value "--1" in property a must be an integer of at most 1000 bits'),
            ("BigInt", "", 'Value "" in property a must be an integer of at most 1000 bits'),
            ("BigInt", "٣", 'Value "٣" in property a must be an integer of at most 1000 bits'),
            ("BigInt", math.inf, "Value Infinity in property a must be an integer of at most 1000 bits"),
            ("Boolean", 1, "Value 1 in property a must be a boolean"),
            ("Boolean", 0.0, "Value 0.0 in property a must be a boolean"),
            ("Boolean", "true", 'Value "true" in property a must be a boolean'),
            ("Date", "soon", f'Value "soon" in property a {DATE}'),
            ("Date", "1704485247955", f'Value "1704485247955" in property a {DATE}'),
            ("Date", 1e20, f"Value 1e+20 in property a {DATE}"),
            ("Date", math.nan, f"Value NaN in property a {DATE}"),
            ("Date", True, f"Value true in property a {DATE}"),
            ("Bytes", "a", 'Value "a" in property a must be a base64 string'),
            ("Bytes", "YW I=", 'Value "YW I=" in property a must be a base64 string'),
            ("Bytes", "YWI=YWI=", 'Value "YWI=YWI=" in property a must be a base64 string'),
            ("Bytes", "YW=", 'Value "YW=" in property a must be a base64 string'),
            ("Bytes", "YWJj=", 'Value "YWJj=" in property a must be a base64 string'),
            ("Bytes", "é", 'Value "é" in property a must be a base64 string'),
            ("Bytes", 5, "Value 5 in property a must be a base64 string"),
            ("Blob", 5, "Value 5 in property a must be bytes or a string"),
            ("Any", math.nan, "Value NaN in property a must be a finite number"),
            ("Any", 2**1000, "Value of 1001 bits in property a must be an integer of at most 1000 bits"),
            ("Any", object(), "Value of type object in property a must be a value that can be stored"),
        ],
    )
    def test_refuses(self, kind: str, value: object, message: str) -> None:
        assert failures(of(kind), {"a": value}) == (message,)

    def test_the_example_of_the_specification(self) -> None:
        assert failures(validator(Attribute("price", "Float")), {"price": "x"}) == ('Value "x" in property price must be a number',)

    @pytest.mark.parametrize(
        ("kind", "value", "stored"),
        [
            ("String", OwnText("x"), "x"),
            ("Int", OwnInt(5), 5),
            ("Long", OwnFloat(5.0), 5),
            ("Float", OwnFloat(1.5), 1.5),
            ("Float", OwnInt(7), 7),
            ("BigInt", OwnInt(7), 7),
            ("Date", datetime(2024, 1, 5, 20, 7, 27, 955999), MOMENT),
            ("Date", datetime(2024, 1, 5, 21, 7, 27, 955000, timezone(timedelta(hours=1))), MOMENT),
            ("Date", datetime(2024, 1, 5).date(), datetime(2024, 1, 5, tzinfo=UTC)),
            ("Bytes", "YWI=", b"YWI="),
            ("Bytes", "é", b"\xc3\xa9"),
            ("Bytes", bytearray(b"ab"), b"ab"),
            ("Bytes", memoryview(b"ab"), b"ab"),
            ("Blob", bytearray(b"ab"), create_blob(b"ab")),
            ("Any", create_blob(b"ab", type="image/png"), create_blob(b"ab", type="image/png")),
            ("Any", OwnText("x"), "x"),
            ("Any", OwnFloat(2.0), 2),
            ("Any", (1, 2.0), [1, 2]),
            ("Any", {5}, {5}),
            ("Any", frozenset((5.0, (1.0, "x"))), {5, (1, "x")}),
            ("Any", b"ab", b"ab"),
            ("Any", {"a": {"b": [1.0, {2: MOMENT.replace(tzinfo=None)}]}}, {"a": {"b": [1, {2: MOMENT}]}}),
        ],
    )
    def test_native_values(self, kind: str, value: object, stored: object) -> None:
        found = of(kind).record({"a": value}, source="native")["a"]
        assert found == stored
        assert type(found) is type(stored)

    @pytest.mark.parametrize(
        ("kind", "value", "message"),
        [
            ("Bytes", "\ud800", 'Value "\\ud800" in property a must be bytes'),
            ("Date", datetime(1, 1, 1, tzinfo=timezone(timedelta(hours=1))), f"Value 0001-01-01T00:00:00+01:00 in property a {DATE}"),
            ("Any", {None: 1}, "Property name null in a must be a string"),
            ("Any", {True: 1}, "Property name true in a must be a string"),
            ("Any", {2**64: 1}, "Property name 18446744073709551616 in a must be a string"),
            ("Any", {"b": {"\ud800": 1}}, 'Property name "\\ud800" in a.b must be a string without unpaired surrogates'),
            ("Any", {OwnText("x"): 1}, 'Property name "x" in a must be a plain string'),
        ],
    )
    def test_native_values_refused(self, kind: str, value: object, message: str) -> None:
        assert failures(of(kind), {"a": value}, "native") == (message,)


class TestLists:
    def test_every_element_is_checked(self) -> None:
        check = of("Int", elements=True)
        assert check.record({"a": [1, 2.0, None]}) == {"a": [1, 2, None]}
        assert failures(check, {"a": [1, "x", 2.5]}) == (f'Value "x" in property a[1] {INT}', f"Value 2.5 in property a[2] {INT}")

    @pytest.mark.parametrize("value", ["x", 5, {}, True])
    def test_a_scalar_is_no_list(self, value: object) -> None:
        assert failures(of("String", elements=True), {"a": value})[0].endswith("in property a must be a list")

    def test_required_elements(self) -> None:
        check = of("String", elements=True, element_required=True)
        assert failures(check, {"a": ["x", None]}) == ("Property a[1] is required and cannot be null",)

    @pytest.mark.parametrize(
        ("kind", "value", "stored"),
        [
            ("Float", [0.1] * 500, [0.1] * 500),
            ("Float", [0.1] * 500 + [2.0], [0.1] * 500 + [2]),
            ("Float", [1, 2, 3], [1, 2, 3]),
            ("Float", [1e308, 1e308], [1e308, 1e308]),
            ("String", ["a", "é"], ["a", "é"]),
            ("Date", [0], [datetime(1970, 1, 1, tzinfo=UTC)]),
        ],
    )
    def test_long_and_plain(self, kind: str, value: list[object], stored: list[object]) -> None:
        assert of(kind, elements=True).record({"a": value}) == {"a": stored}

    @pytest.mark.parametrize("kind", ["Float", "Any"])
    @pytest.mark.parametrize("bad", [math.nan, math.inf, 2**1001])
    def test_one_bad_number_among_many(self, kind: str, bad: float) -> None:
        assert "in property a[300] must be" in failures(of(kind, elements=True), {"a": [0.5] * 300 + [bad]})[0]
        assert "in property a[300] must be" in failures(of(kind, elements=True), {"a": [5] * 300 + [bad]})[0]

    def test_one_bad_text_among_many(self) -> None:
        assert len(failures(of("String", elements=True), {"a": ["x"] * 300 + ["\ud800"]})) == 1
        assert len(failures(of("String", elements=True), {"a": ["x"] * 300 + [5]})) == 1

    def test_tuples_of_code_and_text_elements(self) -> None:
        assert of("String", elements=True).record({"a": ("x", "y")}, source="native") == {"a": ["x", "y"]}


PLACE = Structure(
    "Place",
    (
        Attribute("hall", "String", required=True),
        Attribute("row", "Int"),
        Attribute("inside", "Place"),
        Attribute("rows", "Place", elements=True),
    ),
)


class TestStructures:
    def test_recursively(self) -> None:
        check = validator(Attribute("a", "Place"), structures=(PLACE,))
        given = {"a": {"hall": "x", "row": 5.0, "inside": {"hall": "y"}, "rows": [{"hall": "z", "row": 1.0}], "other": 2.0}}
        assert check.record(given) == {"a": {"hall": "x", "row": 5, "inside": {"hall": "y"}, "rows": [{"hall": "z", "row": 1}], "other": 2}}
        assert given["a"]["row"] == 5.0
        assert type(given["a"]["row"]) is float

    def test_failures_name_the_path(self) -> None:
        check = validator(Attribute("a", "Place"), structures=(PLACE,))
        assert failures(check, {"a": {"row": "x", "inside": {"hall": None}, "rows": [{"hall": 5}]}}) == (
            f'Value "x" in property a.row {INT}',
            "Property a.inside.hall is required and cannot be null",
            "Value 5 in property a.rows[0].hall must be a string",
            "Property a.hall is required",
        )
        assert failures(check, {"a": [5]}) == ("Value [5] in property a must be an object",)

    def test_sealed(self) -> None:
        check = validator(Attribute("a", "Place"), structures=(replace(PLACE, sealed=True),))
        assert failures(check, {"a": {"hall": "x", "wing": 1}}) == ("Property a.wing is not allowed",)

    def test_open_ones_keep_what_they_do_not_know_but_not_what_nobody_can_store(self) -> None:
        check = validator(Attribute("a", "Place"), structures=(PLACE,))
        assert failures(check, {"a": {"hall": "x", "wing": {"b": math.nan}}}) == ("Value NaN in property a.wing.b must be a finite number",)


class TestDepth:
    def test_64_levels_are_enough(self) -> None:
        value: Any = 1
        for level in range(64):
            value = [value] if level % 2 else {"b": value}
        check = of("Any")
        assert check.record({"a": value, "x": value}) == {"a": value, "x": value}
        assert failures(check, {"a": [value]}) == ("Property a is nested more than 64 levels deep",)
        assert failures(check, {"x": {"y": value}}) == ("Property x is nested more than 64 levels deep",)

    def test_structures_and_their_lists_too(self) -> None:
        value: Any = {"hall": "x"}
        for _ in range(100):
            value = {"hall": "x", "rows": [value]}
        check = validator(Attribute("a", "Place"), structures=(PLACE,))
        assert failures(check, {"a": value}) == ("Property a is nested more than 64 levels deep",)

    def test_a_value_that_holds_itself(self) -> None:
        value: list[Any] = []
        value.append(value)
        assert failures(of("Any"), {"a": value}, "native") == ("Property a is nested more than 64 levels deep",)


class TestRecords:
    def test_all_failures_in_one_answer(self) -> None:
        check = validator(Attribute("price", "Float"), Attribute("name", "String", required=True), Attribute("stock", "Int", required=True))
        assert failures(check, {"id": 5, "price": "x", "stock": None}) == (
            "Value 5 in property id must be a string",
            'Value "x" in property price must be a number',
            "Property name is required",
            "Property stock is required and cannot be null",
        )

    def test_but_no_more_than_somebody_reads(self) -> None:
        found = failures(of("Int", elements=True), {"a": ["x"] * 1000})
        assert len(found) == MAX_FAILURES + 1
        assert found[-1] == "900 more"

    def test_the_same_object_if_nothing_changes(self) -> None:
        record = {"id": "k", "a": 5, "b": {"c": [1, 2.5, "x"]}}
        assert of("Int").record(record) is record

    def test_else_a_copy_in_the_same_order(self) -> None:
        record = {"z": 1, "a": 5.0, "id": "k"}
        found = of("Int").record(record)
        assert list(found.items()) == [("z", 1), ("a", 5), ("id", "k")]
        assert type(record["a"]) is float

    def test_open_and_sealed(self) -> None:
        assert validator().record({"foo": 1}) == {"foo": 1}
        assert failures(validator(sealed=True), {"id": "k", "foo": 1}) == ("Property foo is not allowed",)

    def test_names_that_cannot_be_stored(self) -> None:
        assert failures(validator(), {"\ud800": 1}) == ('Property name "\\ud800" must be a string without unpaired surrogates',)
        assert failures(validator(), {5: 1}, "native") == ("Property name 5 must be a string",)
        assert validator().record({"a/b`": 1, "": 2, "é.ü": 3}) == {"a/b`": 1, "": 2, "é.ü": 3}

    def test_names_that_a_dynamic_table_would_make_attributes_of(self) -> None:
        check = validator(dynamic=True)
        assert check.record({"a.b": 1}) == {"a.b": 1}
        for name in ("a/b", "a`b"):
            assert failures(check, {name: 1}) == ("Attribute names cannot include backticks or forward slashes",)
        assert failures(check, {"": 1}) == ("Invalid attribute name: ''",)
        assert "Attribute names cannot be longer than 250 bytes" in failures(check, {"é" * 126: 1})[0]

    def test_what_is_not_stored_is_not_accepted(self) -> None:
        check = validator(
            Attribute("show", "Show", relationship=Relationship("Show", "showId")), Attribute("label", "String", computed_from="")
        )
        assert failures(check, {"show": None, "label": "x"}) == (
            "Property show is a relationship and cannot be given a value",
            "Property label is computed and cannot be given a value",
        )

    def test_what_svc_fills_in_is_not_required(self) -> None:
        definition = TableDefinition(
            "T",
            attributes=(
                Attribute("id", "ID", primary_key=True, required=True),
                Attribute("made", "Long", created_time=True, required=True),
                Attribute("show", "Show", required=True, relationship=Relationship("Show", "showId")),
            ),
        )
        assert Validator(definition).record({}) == {}

    def test_bool_is_no_key(self) -> None:
        check = Validator(TableDefinition("T", attributes=(Attribute("id", "Long", primary_key=True),)))
        assert check.record({"id": 5.0}) == {"id": 5}
        assert failures(check, {"id": True}) == (f"Value true in property id {LONG}",)

    def test_list_keys(self) -> None:
        assert failures(validator(), {"id": ["a", "b"]}) == ('Value ["a", "b"] in property id must be a string',)
        assert validator(split_segments=True).record({"id": ["a", "b"]}) == {"id": ("a", "b")}

    def test_a_table_without_attributes(self) -> None:
        assert Validator(TableDefinition("T")).record({"id": 5.0, "x": [1]}) == {"id": 5, "x": [1]}


class TestChanges:
    CHECK = validator(
        Attribute("name", "String", required=True),
        Attribute("price", "Float"),
        Attribute("stock", "Int"),
        Attribute("when", "Date"),
        Attribute("show", "Show", relationship=Relationship("Show", "showId")),
    )

    def test_only_what_is_given_is_checked(self) -> None:
        given = {"price": 1.5}
        assert self.CHECK.changes(given) is given
        assert self.CHECK.changes({}) == {}
        assert self.CHECK.changes({"price": 2.0, "other": None}) == {"price": 2, "other": None}

    @pytest.mark.parametrize(
        ("changes", "message"),
        [
            ({"name": None}, "Property name is required and cannot be null"),
            ({"price": "x"}, 'Value "x" in property price must be a number'),
            ({"show": {}}, "Property show is a relationship and cannot be given a value"),
            ({"name": {"__op__": "add", "value": 1}}, "Property name cannot be incremented"),
            ({"when": {"__op__": "add", "value": 1}}, "Property when cannot be incremented"),
            ({"show": {"__op__": "add", "value": 1}}, "Property show cannot be incremented"),
            ({"id": {"__op__": "add", "value": 1}}, "Property id cannot be incremented"),
            ({"stock": {"__op__": "add", "value": "1"}}, 'Value "1" in property stock must be a number'),
            ({"stock": {"__op__": "add", "value": True}}, "Value true in property stock must be a number"),
            ({"stock": {"__op__": "add"}}, "Value null in property stock must be a number"),
            ({"stock": {"__op__": "add", "value": 0.5}}, "Value 0.5 in property stock must be an integer"),
            ({"stock": {"__op__": "add", "value": math.nan}}, "Value NaN in property stock must be a finite number"),
        ],
    )
    def test_refuses(self, changes: dict[str, Any], message: str) -> None:
        with pytest.raises(ValidationError) as caught:
            self.CHECK.changes(changes)
        assert caught.value.errors == (message,)

    def test_increments(self) -> None:
        changes = self.CHECK.changes({"price": {"__op__": "add", "value": -2.0}, "name": "x", "free": {"__op__": "add", "value": 0.5}})
        assert changes == {"price": Add(-2), "name": "x", "free": Add(0.5)}
        assert list(changes) == ["price", "name", "free"]
        assert type(changes["price"].value) is int
        assert self.CHECK.changes({"stock": Add(3)}, source="native") == {"stock": Add(3)}

    @pytest.mark.parametrize(("operation", "text"), [("multiply", "multiply"), (None, "null"), ("\ud800", "\\ud800")])
    def test_unknown_operation(self, operation: object, text: str) -> None:
        with pytest.raises(ClientError) as caught:
            self.CHECK.changes({"stock": {"__op__": operation, "value": 1}})
        assert caught.value.message == f"Invalid CRDT operation {text}"
        assert caught.value.status_code == 400

    def test_sealed_tables_have_no_free_counters(self) -> None:
        with pytest.raises(ValidationError, match="Property free is not allowed"):
            validator(sealed=True).changes({"free": {"__op__": "add", "value": 1}})

    def test_a_full_write_has_no_increments(self) -> None:
        assert failures(self.CHECK, {"name": "x", "stock": {"__op__": "add", "value": 1}})[0].endswith(INT)
        assert len(failures(self.CHECK, {"name": "x", "free": Add(1)}, "native")) == 1


class TestAdd:
    @pytest.mark.parametrize(
        ("base", "amount", "total"),
        [(1, 2, 3), (0.5, 0.5, 1), (2**60, 1, 2**60 + 1), (None, 5, 5), ("x", 5, 5), (True, 5, 5), (1, -3, -2), (10**400, 0.5, math.inf)],
    )
    def test_applied(self, base: object, amount: float, total: float) -> None:
        found = Add(amount).applied_to(base)
        assert found == total
        assert type(found) is type(total)

    def test_equality(self) -> None:
        assert Add(1) == Add(1) != Add(2)
        assert Add(1) != 1
        assert len({Add(1), Add(1)}) == 1
        assert repr(Add(1)) == "Add(1)"


class TestMerged:
    def test_results_are_held_to_their_type_and_normalised(self) -> None:
        check = validator(Attribute("stock", "Int"), Attribute("price", "Float"))
        record = {"id": "k", "stock": 5.0, "price": 2.0, "other": "x"}
        check.merged(record, ["stock", "price"])
        assert [type(record[name]) for name in ("stock", "price")] == [int, int]
        for bad in ({"stock": 2**31}, {"stock": 1.5}, {"price": math.inf}):
            with pytest.raises(ValidationError):
                check.merged({"id": "k", **bad})

    def test_others_may_be_older_than_their_declaration(self) -> None:
        validator(Attribute("stock", "Int"), Attribute("price", "Float")).merged({"stock": 1, "price": "old"}, ["stock"])


class TestStamp:
    CHECK = validator(
        Attribute("made", "Date", created_time=True),
        Attribute("seen", "String", updated_time=True),
    )

    def test_new(self) -> None:
        record: dict[str, Any] = {"id": "k", "made": "whatever"}
        self.CHECK.stamp(record, MOMENT_MS + 0.25, None)
        assert record == {"id": "k", "made": MOMENT, "seen": "2024-01-05T20:07:27.955Z"}

    def test_replaced(self) -> None:
        record: dict[str, Any] = {"made": MOMENT}
        self.CHECK.stamp(record, 1000.0, {"made": 5})
        assert record == {"made": 5, "seen": "1970-01-01T00:00:01.000Z"}

    def test_older_than_the_attribute(self) -> None:
        record: dict[str, Any] = {"made": MOMENT}
        self.CHECK.stamp(record, 1000.0, {})
        assert record == {"seen": "1970-01-01T00:00:01.000Z"}

    @pytest.mark.parametrize("kind", ["Long", "Float", "Any"])
    def test_numbers(self, kind: str) -> None:
        record: dict[str, Any] = {}
        of(kind, updated_time=True).stamp(record, MOMENT_MS + 0.75, None)
        assert record == {"a": MOMENT_MS}
        assert type(record["a"]) is int

    def test_a_table_without_times(self) -> None:
        record = {"id": "k"}
        validator().stamp(record, 1.0, None)
        assert record == {"id": "k"}


@pytest.mark.parametrize(
    ("value", "expiry"),
    [
        (5, 5.0),
        (0, 0.0),
        (1.5, 1.5),
        (-1, None),
        (None, None),
        ("5", None),
        (True, None),
        (MOMENT, float(MOMENT_MS)),
        (2**999, float(2**999)),
    ],
)
def test_expiry(value: object, expiry: float | None) -> None:
    assert of("Any", expires_at=True).expiry({"a": value}) == expiry
    assert of("Any", expires_at=True).expiry({}) is None
    assert of("Any").expiry({"a": 5}) is None
