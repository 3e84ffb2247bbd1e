from datetime import UTC, datetime

import pytest

from svc.errors import QueryError
from svc.query.convert import forced_value, text_form, text_reader, typed_pair, typed_value
from svc.query.nodes import Bound, Conversion
from svc.store.schema import Attribute, Enumeration

CONVERTING, STRICT, TEXT, TYPED, FORCED = (
    Conversion.CONVERTING,
    Conversion.STRICT,
    Conversion.TEXT,
    Conversion.TYPED,
    Conversion.FORCED,
)
MOMENT = datetime(2024, 1, 5, 20, 7, 27, 955000, UTC)


@pytest.mark.parametrize(
    ("kind", "text", "conversion", "value"),
    [
        ("Float", "5", CONVERTING, 5),
        ("Float", "2.5", STRICT, 2.5),
        ("Int", "$z", STRICT, 35),
        ("Boolean", "TRUE", STRICT, True),
        ("Date", "2024-01-05T20:07:27.955Z", STRICT, MOMENT),
        ("Date", "2024-01-05T20:07:27.955", CONVERTING, MOMENT),
        ("Date", "1704485247955", CONVERTING, MOMENT),
        ("Float", "null", STRICT, None),
        ("Float", "", STRICT, None),
        ("String", "null", STRICT, "null"),
        ("String", "", STRICT, ""),
        ("String", "5", CONVERTING, "5"),
        ("ID", "5", CONVERTING, "5"),
        ("Bytes", "ab", STRICT, b"ab"),
        ("Any", "5", CONVERTING, 5),
        ("Any", "5", STRICT, "5"),
        ("Any", "true", CONVERTING, True),
        ("Any", "007", CONVERTING, "007"),
        (None, "1e3", CONVERTING, "1e3"),
        (None, "-1.5", CONVERTING, -1.5),
        (None, "2024-01-05", CONVERTING, "2024-01-05"),
        ("Float", "5", TEXT, "5"),
        ("Float", "x", FORCED, "x"),
        ("Float", "5", TYPED, 5),
        ("String", 5, TYPED, "5"),
        ("Float", 5, TYPED, 5),
        ("Float", None, TYPED, None),
        ("Date", MOMENT, TYPED, MOMENT),
        ("Date", 1000, TYPED, 1000),
        (None, "5", TYPED, "5"),
        (None, 5, TYPED, 5),
    ],
)
def test_values(kind, text, conversion, value):
    for elements in (False, True):
        attribute = None if kind is None else Attribute("a", kind, elements=elements)
        found = typed_value(text, conversion, attribute, "a")
        assert found == value and type(found) is type(value)


@pytest.mark.parametrize(
    ("kind", "value", "conversion"),
    [
        ("Float", "abc", CONVERTING),
        ("Int", "2.5", STRICT),
        ("Boolean", "1", CONVERTING),
        ("Date", "tomorrow", CONVERTING),
        ("Float", True, TYPED),
        ("Boolean", 1, TYPED),
        ("Date", False, TYPED),
        ("Float", float("nan"), TYPED),
        (None, {"a": 1}, TYPED),
        ("String", b"x", TYPED),
        (None, [1], TEXT),
    ],
)
def test_values_that_do_not_fit(kind, value, conversion):
    with pytest.raises(QueryError, match="Invalid value for attribute a") as caught:
        typed_value(value, conversion, None if kind is None else Attribute("a", kind), "a")
    assert caught.value.code == "BAD_VALUE"


def test_the_message_of_the_specification():
    with pytest.raises(QueryError) as caught:
        typed_value("abc", CONVERTING, Attribute("price", "Float"), "price")
    assert caught.value.message == 'Invalid value for attribute price: "abc", expecting Float'


def test_pairs():
    price = Attribute("price", "Float")
    assert typed_pair(("1", "2"), CONVERTING, price, "price") == (1, 2)
    assert typed_pair((Bound("x", FORCED), Bound("2", CONVERTING)), CONVERTING, price, "price") == ("x", 2)
    for bad in ([1], [1, 2, 3], 5, "12"):
        with pytest.raises(QueryError, match="exactly two"):
            typed_pair(bad, TYPED, price, "price")


def test_forced_values():
    assert forced_value("number", "-1.5e3", ("a",)) == -1500
    assert forced_value("boolean", "FALSE", ("a",)) is False
    with pytest.raises(QueryError, match=r'Invalid value for attribute a\.b: "x", expecting Number'):
        forced_value("number", "x", ("a", "b"))


def test_text_forms():
    values = ["a", True, False, 5, 5.0, 2.5, MOMENT, None, b"a", {}, []]
    assert [text_form(value) for value in values] == [
        "a",
        "true",
        "false",
        "5",
        "5",
        "2.5",
        "2024-01-05T20:07:27.955Z",
        None,
        None,
        None,
        None,
    ]


@pytest.mark.parametrize(("kind", "text"), [("Float", "1,2"), ("Date", "5.1.2024"), ("Boolean", '"true"')])
def test_a_value_that_can_be_guessed_comes_with_a_hint(kind, text):
    with pytest.raises(QueryError, match=rf"expecting {kind} \(.+\)$"):
        typed_value(text, CONVERTING, Attribute("a", kind), "a")
    with pytest.raises(QueryError, match=rf"expecting {kind}$"):  # the hints speak of the URL language
        typed_value(text, TYPED, Attribute("a", kind), "a")


def test_what_is_shown_of_a_value_is_bounded_and_encodable():
    for value in ("x" * 10_000, "\ud800"):
        with pytest.raises(QueryError) as caught:
            forced_value("number", value, (value,))
        assert len(caught.value.message.encode()) < 600


TEXTS = ["", "a", "null", "true", "FALSE", "5", "-5", "0", "-0", "007", "2.50", "1e3", "1e999", "$z", "9" * 15, "9" * 16, "9" * 400]
TEXTS += ["2024-01-05", "é", "OPEN", "\ud800"]


@pytest.mark.parametrize("conversion", [CONVERTING, STRICT, TEXT, FORCED])
@pytest.mark.parametrize(
    "attribute",
    [
        None,
        *[Attribute("x", kind) for kind in ("ID", "String", "Int", "Long", "Float", "BigInt", "Boolean", "Date", "Bytes", "Any", "Blob")],
        Attribute("x", "Float", elements=True),
        Attribute("x", "String", enum=Enumeration("Status", ("OPEN", "CLOSED"))),
    ],
)
def test_a_reader_of_texts_gives_their_typed_values(attribute, conversion):
    read = text_reader(conversion, attribute, "x")
    for text in TEXTS:
        try:
            expected = typed_value(text, conversion, attribute, "x")
        except QueryError as error:
            with pytest.raises(QueryError) as raised:
                read(text)
            assert (raised.value.message, raised.value.code) == (error.message, error.code)
            continue
        found = read(text)
        assert found == expected and type(found) is type(expected)
