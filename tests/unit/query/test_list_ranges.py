"""Ranges of a shape beside those that `access_paths` makes of each query."""

from __future__ import annotations

import pytest

from svc.errors import Problem
from svc.query import plan_query
from svc.query.list_ranges import ends_of
from svc.query.plan import IndexRange, Nothing, iter_members
from svc.query.shape_cache import ShapeCache
from svc.query.shaped_plan import UNRESTRICTED
from svc.query.shapes import cut, decoded
from svc.query.url import parse_query
from svc.store.values.keys import after
from tests.support.shop import shop

VALUES = [
    "a",
    "",
    "0",
    "1",
    "2.5",
    "-1",
    "007",
    "true",
    "False",
    "1970-01-01",
    "2024-01-05T20:07:27.955Z",
    "x" * 256,
    "x" * 257,
    "1e3",
    "9007199254740993",
]
TEXTS = [
    "name==?",
    "name=?",
    "name==?*",
    "name=sw=?",
    "name=gt=?",
    "name=le=?",
    "name=ge=?&lt=?",
    "price==?",
    "price=?",
    "price=lt=?",
    "price=gt=?&le=?",
    "price=gt=number:1&le=?",
    "price=ge=?&price=lt=?",
    "price=lt=?&price=ge=?",
    "listDate==?",
    "listDate=ge=?&lt=?",
    "any==?",
    "any=?",
    "tags==?",
    "brandId=gt=?",
]


@pytest.mark.parametrize("text", TEXTS)
def test_the_same_range(text):
    products, _ = shop()
    usual = text.replace("?", "1")
    _, plan = ShapeCache().shaped_plan(usual, products, UNRESTRICTED, True)
    members = tuple(iter_members(plan.where))
    index = products.indexes[members[0].path[0]]
    ends = ends_of(members, index)
    same = 0
    for one in VALUES:
        for other in VALUES if text.count("?") > 1 else [""]:
            query = text.replace("?", one, 1).replace("?", other, 1)
            found = cut(query)
            if found is None or found[0] != cut(usual)[0]:
                continue
            try:
                span = ends(decoded(found[1]))
            except Problem:
                span = None
            if span is None:
                continue
            low, high = span[0], after(span[0]) if span[1] is None else span[1]
            access = plan_query(parse_query(query), products, allow_full_scan=True).access
            if low >= high:
                assert access == Nothing()
            else:
                same += 1
                assert (type(access), access.attribute, access.low, access.high, access.distinct) == (
                    IndexRange,
                    index.attribute,
                    low,
                    high,
                    False,
                )
    assert same


@pytest.mark.parametrize(
    "text",
    [
        "any=gt=1",
        "any==1*",
        "tags=ge=1&lt=2",
        "any=ge=1&any=lt=2",
        "price=gt=1&price=ge=2",
        "price=lt=1&price=lt=2",
        "name!=a",
        "name=ct=a",
    ],
)
def test_what_is_not_one_range(text):
    products, _ = shop()
    _, plan = ShapeCache().shaped_plan(text, products, UNRESTRICTED, True)
    members = tuple(iter_members(plan.where))
    assert ends_of(members, products.indexes[members[0].path[0]]) is None
