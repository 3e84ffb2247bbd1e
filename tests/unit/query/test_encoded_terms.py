from urllib.parse import quote

import pytest

from svc.query.encoded_terms import chained_language_of, language_of


def nothing(name):
    return False


@pytest.mark.parametrize(
    ("term", "language"),
    [
        # calls: httpx and requests, axios, Python's quote
        ("select%28id%2Cname%29=", "select(id,name)"),
        ("select(id,brand%7Bname%7D)=", "select(id,brand{name})"),
        ("limit(10)=", "limit(10)"),
        ("limit%2810%29", "limit(10)"),
        ("sort%28-price%29=", "sort(-price)"),
        ("sort%28%2Bprice%29=", "sort(+price)"),
        ("sort%28-unit+price%29=", "sort(-unit price)"),
        ("group%28brandId%3Bcount%29=", "group(brandId;count)"),
        ("select%28a%255Bb%29=", "select(a%5Bb)"),
        # conditions
        ("price%3Dgt=5", "price=gt=5"),
        ("price%3dgt=5", "price=gt=5"),
        ("price%3D=5", "price==5"),
        ("price%3D%3D=5", "price===5"),
        ("price%21=5", "price!=5"),
        ("price%3C=5", "price<=5"),
        ("name%3Dct=a+b", "name=ct=a%20b"),
        ("name%3Dct=a%2Bb", "name=ct=a%2Bb"),
        ("tags%5B%5D=a+b", "tags[]=a+b"),
        ("%3Dlt=5", "=lt=5"),
        ("unit%20price%3Dgt=5", "unit%20price=gt=5"),
        ("brand.name%3Dsw=A%7C", "brand.name=sw=A%7C"),
        ("price%3Din=1", "price=in=1"),
        # browsers
        ("price%3E5", "price>5"),
        ("price%3E%3D5", "price>=5"),
        ("at%3E=2024-01-05T10:00:00+01:00", "at>=2024-01-05T10:00:00+01:00"),
        ("at%3E=2024-01-05T10%3A00%3A00+01%3A00", "at>=2024-01-05T10%3A00%3A00%2001%3A00"),
        # groups
        ("%5Ba%3D1%7Cb%3D2%5D=", "[a=1|b=2]"),
        ("%28a%3D1%29=", "(a=1)"),
        ("brand%5Bname%3Da%5D=", "brand[name=a]"),
    ],
)
def test_language(term, language):
    assert language_of(term, nothing) == language


@pytest.mark.parametrize(
    "term",
    [
        "a=1",
        "select(a)",
        "name=a%3Dgt",
        "a%3Dgt==5",
        "a%3Dgt=b=c",
        "select%28a%29%26id=",
        "select%28a%29%28b%29=",
        "select%28%FF%29=",
        "a%5Bb%5D=",
        "%3Deq=5",
        "%3D=5",
        "a%28b=5",
        "",
    ],
)
def test_anything_else(term):
    assert language_of(term, nothing) is None


def test_a_declared_name_is_a_name():
    for name in ("price=gt", "select(id)", "a>"):
        assert language_of(f"{quote(name, safe='')}=5", {name}.__contains__) is None
    assert language_of("select%28id%29=", {"select(id)"}.__contains__) is None


def test_a_space_in_a_name():
    assert language_of("first+name=a+b", {"first name"}.__contains__) == "first%20name=a+b"
    assert language_of("first+name%3Dsw=a+b", nothing) == "first%20name=sw=a%20b"
    assert language_of("a+b=1", {"a+b", "a b"}.__contains__) is None


def test_what_continues_a_range():
    assert chained_language_of("lt=a+b") == "lt=a%20b"
    assert chained_language_of("name=a+b") == "name=a+b"
