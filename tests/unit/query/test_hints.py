import pytest

from svc.query import hints

DECLARED = ["id", "name", "price", "inStock"]


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("prise", 'did you mean "price"?'),
        ("NAME", 'did you mean "name"?'),
        ("name ", 'did you mean "name"?'),
        ("in_stock", 'did you mean "inStock"?'),
        ("limit", "did you mean _limit=10?"),
        ("Order-By", "did you mean _sort=a,-b?"),
        ("fields", "did you mean _select=a,b?"),
        ("price>5 and x", "conditions are joined with & and |"),
        ("xyz", ""),
        ("$id", ""),
        ("p" * 65, ""),
        ("", ""),
    ],
)
def test_attributes(name, hint):
    assert hints.for_attribute(name, DECLARED) == hint


@pytest.mark.parametrize(
    ("text", "expected", "hint"),
    [
        ("5 and b<3", "Float", "conditions are joined with & and |"),
        ("gt=5", "Float", "is an operator percent-encoded?"),
        ("=lt=5", "Float", "is an operator percent-encoded?"),
        ("1%2E5", "Float", "is the value percent-encoded twice?"),
        ('"5"', "Float", "values are written without quotes"),
        ("'true'", "Boolean", "values are written without quotes"),
        ("5*", "Int", "wildcards are for text"),
        ("(1,2,3)", "Int", "alternatives are written [a=1|a=2]"),
        ("2024-01-05T20:07:00 01:00", "Date", "+ is a space"),
        ("5.1.2024", "Date", "dates are written as 2024-01-05"),
        ("2024-1-5", "Date", "dates are written as 2024-01-05"),
        ("tomorrow", "Date", ""),
        ("abc", "Float", ""),
        ("'", "Float", ""),
        ("a,b" * 100, "Float", ""),
    ],
)
def test_values(text, expected, hint):
    found = hints.for_value(text, expected)
    assert found.startswith(hint) and bool(found) == bool(hint)


def test_the_time_for_a_hint_is_bounded():
    # What is compared is short and few: ten thousand long names must not be.
    names = [f"{'x' * 200}{number}" for number in range(10_000)]
    assert hints.nearest("y" * 10_000, names) is None
    assert hints.nearest("price", [*names, "price"]) is None
    assert hints.nearest("price", ["price", *names]) == "price"
