from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast
from urllib.parse import urlencode

import pytest

from svc.errors import Problem
from svc.pages.filters import OPERATORS, filled_form, filtered, form_of, reference_to
from svc.query import QueryCache
from svc.query.url import parse_query
from svc.store.schema import Attribute, TableDefinition

NAMES = ("id", "name", "price", "a b", "x&y=(z)", "<b>")


def table(*names: str) -> Any:
    attributes = tuple(Attribute(name, "String") for name in names)
    return cast(
        Any, SimpleNamespace(attributes={each.name: each for each in attributes}, definition=TableDefinition("T", attributes=attributes))
    )


def sent(column: str, operator: str, value: str, query: str = "") -> str:
    return urlencode({"_column": column, "_operator": operator, "_value": value, "_query": query})


@pytest.mark.parametrize(
    ("form", "reference"),
    [
        (("name", "eq", "UA"), "?name==UA"),
        (("name", "eq", ""), "?name=="),
        (("name", "eq", "*"), "?name==%2A"),
        (("name", "eq", "null"), "?name==%6Eull"),
        (("name", "null", "ignored"), "?name==null"),
        (("price", "gt", "5"), "?price=gt=5"),
        (("price", "gt", ""), "?"),
        (("name", "sw", "a&b|c"), "?name=sw=a%26b%7Cc"),
        (("name", "eq", "x", "price=lt=5&sort(-price)&limit(7)"), "?price=lt=5&name==x&sort(-price)&limit(7)"),
        (("name", "ct", "x", "price=lt=5|price=gt=9"), "?(price=lt=5|price=gt=9)&name=ct=x"),
        (("x&y=(z)", "eq", "1"), "?x%26y%3D%28z%29==1"),
        (("<b>", "ge", "1"), "?%3Cb%3E=ge=1"),
    ],
)
def test_a_form_becomes_a_query(form: tuple[str, ...], reference: str) -> None:
    assert reference_to(filtered(sent(*form), table(*NAMES), QueryCache())) == reference
    parse_query(reference[1:])


@pytest.mark.parametrize("operator", OPERATORS)
@pytest.mark.parametrize("value", ["1", "Ünï", "a+b", "%41", "'\"<>", "()[]{}", "\u202e", "null", "date:x"])
def test_every_operator_and_value_is_one_condition(operator: str, value: str) -> None:
    reference = reference_to(filtered(sent("name", operator, value), table(*NAMES), QueryCache()))
    where: Any = parse_query(reference[1:]).where
    assert where.path == ("name",) and where.comparator is OPERATORS[operator].comparator
    assert where.value == (None if operator == "null" else value)


@pytest.mark.parametrize(
    ("text", "code"),
    [
        (sent("nothing", "eq", "1"), None),  # refused where it leads: here it would tell hidden attributes from those that are not there
        (sent("name", "like", "1"), "UNUSABLE_OPERATOR"),
        ("_column=name", "UNUSABLE_OPERATOR"),
        (sent("name", "eq", "1", "price="), None),
        (sent("name", "eq", "1", "sort("), "QUERY_SYNTAX"),
        ("_column=name&_operator=eq&_value=%ff", "QUERY_SYNTAX"),
        ("_column=name&" + "&".join(f"a{n}=1" for n in range(20)), "QUERY_SYNTAX"),
    ],
)
def test_what_is_no_form_of_ours_is_refused(text: str, code: str | None) -> None:
    if code is None:
        assert reference_to(filtered(text, table(*NAMES), QueryCache())).startswith("?")
        return
    with pytest.raises(Problem) as caught:
        reference_to(filtered(text, table(*NAMES), QueryCache()))
    assert (caught.value.status_code, caught.value.code) == (400, code)
    assert filled_form(text, list(NAMES)).fields == list(NAMES)  # it is shown again


def test_which_queries_are_forms() -> None:
    assert form_of("_column=name&_operator=eq", table("name"))
    assert not form_of("name==5", table("name")) and not form_of(None, table("name"))
    assert not form_of("_column=name", table("_column")), "it is a condition"
