import pytest

from svc.errors import QuerySyntaxError
from svc.query.lexer import Scanner


def test_pieces_are_consumed_in_order_and_nothing_is_skipped():
    scanner = Scanner("a.b=gt=5&c")
    assert (scanner.name(), scanner.take("."), scanner.name()) == ("a", True, "b")
    assert scanner.operator() == "=gt="
    assert scanner.value(in_parentheses=False) == "5"
    assert scanner.name() == "" and scanner.operator() == ""  # an & is neither, and stays
    assert scanner.take("&") and scanner.name() == "c" and scanner.peek() == ""


@pytest.mark.parametrize("operator", ["===", "!==", "==", "!=", "<=", ">=", "<", ">", "=", "=lt=", "=in=", "=XYZ="])
def test_the_longest_operator_wins(operator):
    scanner = Scanner(operator + "1")
    assert scanner.operator() == operator
    assert scanner.value(in_parentheses=False) == "1"


def test_a_value_ends_at_a_parenthesis_only_inside_parentheses():
    assert Scanner("f(x)<y>!,.&").value(in_parentheses=False) == "f(x)<y>!,."
    assert Scanner("f(x)").value(in_parentheses=True) == "f"


def test_decoding():
    scanner = Scanner("")
    assert scanner.decode("a%26%C3%A9+b", 0) == "a&é+b"
    assert scanner.decode("a+b%2Bc", 0, plus_is_space=True) == "a b+c"


@pytest.mark.parametrize(("raw", "at"), [("ab%zz", 2), ("%", 0), ("%4", 0), ("%FF", 0)])
def test_a_bad_escape_is_a_fault_with_its_position(raw, at):
    with pytest.raises(QuerySyntaxError) as caught:
        Scanner("x=" + raw).decode(raw, 2)
    assert caught.value.position == 2 + at


def test_an_error_names_what_was_expected_and_found():
    scanner = Scanner("a]")
    scanner.name()
    assert str(scanner.unexpected("an operator")) == "Unable to parse query, expected an operator but found ']' at position 1 in 'a]'"
    assert repr(scanner) == "<Scanner 'a' | ']'>"


def test_inside_calls_some_encoded_characters_are_themselves():
    assert Scanner("a%20b%2Cc").name() == "a%20b%2Cc"
    assert Scanner("a%20b%2cc").name_in_call() == "a%20b"
    assert Scanner("a%2Bb%7Bc").name_in_call() == "a%2Bb"
    assert Scanner("a;b%7Bc%3Bd").name_in_call() == "a;b"
    assert Scanner("a%7Bb;c").name_in_group() == "a%7Bb"
    assert Scanner("a%7Bb%3bc").name_in_group() == "a%7Bb"
    assert Scanner("100%").name_in_call() == "100%"
    scanner = Scanner(",%2c%2C%7D}%")
    assert [scanner.take_encodable(character) for character in ",,,}}"] == [True] * 5
    assert not scanner.take_encodable(",") and scanner.peek() == "%"


def test_names_are_read_in_linear_time():
    text = "a%2" * 10_000
    for read in (Scanner(text).name_in_call, Scanner(text).name_in_group):
        assert read() == text
