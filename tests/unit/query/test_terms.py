import pytest

from svc.query.terms import is_one_bracket, iter_terms, operands


@pytest.mark.parametrize(
    ("text", "terms"),
    [
        ("", [""]),
        ("a=1&&b=2&", ["a=1", "", "b=2", ""]),
        ("[a=1&b=2]&c=3", ["[a=1&b=2]", "c=3"]),
        ("(a=1&b=2)|c=3&d=4", ["(a=1&b=2)|c=3", "d=4"]),
        ("a==x(&b==y)&c=1", ["a==x(", "b==y)", "c=1"]),
        ("[a==x(]&b=1", ["[a==x(]", "b=1"]),
        ("(a=1&[b=2&c=3])&d=1", ["(a=1&[b=2&c=3])", "d=1"]),
        ("select(a{b},c[d=1&limit(2)])&tags[]=a", ["select(a{b},c[d=1&limit(2)])", "tags[]=a"]),
        ("_select=a[b=1&c]=2&d=1", ["_select=a[b=1", "c]=2&d=1"]),
        ("a=1&(b=2&c=3", ["a=1", "(b=2&c=3"]),
        ("(a=1]&b=2", ["(a=1]&b=2"]),
    ],
)
def test_terms(text, terms):
    assert [text[start:end] for start, end in iter_terms(text)] == terms


def test_operands():
    assert operands("a=1") == ["a=1"]
    assert operands("a==x(|[b=1|c=2]|limit(3)") == ["a==x(", "[b=1|c=2]", "limit(3)"]


@pytest.mark.parametrize("text", ["limit(3)", "select(a{b},c[d=(1)])", "[a==x(]", "(a=1|(b=2))"])
def test_one_bracket(text):
    assert is_one_bracket(text)


@pytest.mark.parametrize(
    "text", ["", "a=1", "limit(3)&a", "limit(3)&limit(4)", "[a=1]]", "[a=1", "(a=1]", "a)b(", "[a=1]|[b=2]", "select(a)b)"]
)
def test_not_one_bracket(text):
    assert not is_one_bracket(text)
