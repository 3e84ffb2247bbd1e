"""Prepared lists beside the general path: the same bytes, whatever has changed in between (spec: architecture §9).

One node, whose clock stands still while it answers, is asked each request twice: with what is prepared, and without. The answers are compared as a whole.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from svc.query.budget import QueryLimits, query_limits, set_limits
from svc.rest import RestOptions
from svc.store.schema import Attribute
from svc.store.system import ROLE_TABLE, SYSTEM
from tests.property.test_prepared_reads import CHANGES as OTHER_CHANGES
from tests.support.plans import MOMENTS
from tests.support.prepared_reads import Beside, authorization
from tests.support.profile import examples

SERVED = [
    "name==?",
    "name=?",
    "price=ge=?&lt=?",
    "price=ge=?&price=le=?",
    "price=gt=?",
    "name==?*",
    "listDate=ge=?",
    "brandId==?&stock=gt=?",
    "name==?&sort(price)",
    "name==?&sort(-stock,id)",
    "price=lt=?&sort(-name)",
    "brandId=?&sort(listDate)",
    "name==?&select(name,price)",
    "name==?&select(id,brand{name})",
    "price=le=?&select(brand,brandId)&sort(name)",
    "name==?&select([id,price])",
    "tags==?&select(id)",
    "name==?&count()",
    "price=ge=?&lt=?&count()",
    "name==?&limit(20)",
    "brandId==?&select(name)&sort(-id)&limit(1,50)",
]
"""Queries that are prepared, unless values, records or callers are unusual."""
OTHERS = [
    "name==?|price==?",
    "brand.name==?",
    "brand[name==?]",
    "id==?",
    "stock==?",
    "name==?&facet(stock)",
    "name==?&_count=exact",
    "name==?&select(id,brand{products{id}})",
    "name!=?",
    "nope==?",
    "name==?&limit(1)",
    "tags=gt=?",
    "specs==?",
    "_select=id&name==?",
    "name%3D=?",
    "name==?&sort(specs)",
    "name==?&sort(nope)",
    "name==?&sort(brand.name)",
    "name==string:?",
    "name==?&explain()",
    "sort(name)",
    "name==?#x",
    "name==?&after(x)",
]
VALUES = [
    "a",
    "b",
    "1",
    "2",
    "2.5",
    "0",
    "3",
    "null",
    "true",
    "a%20b",
    "%zz",
    "1970-01-01",
    "1970-01-01T00:00:00Z",
    "x" * 300,
    "k1",
    "a:b",
    "A+b",
    "",
    "(a",
    "%C3%A9",
]
USUAL = ["a", "b", "1", "2", "2.5", "0"]
USERS = ["root", "reader", "few", "nobody", None]
FIELDS: list[dict[str, str]] = [
    {},
    {"Accept": "application/cbor"},
    {"Accept": "application/x-msgpack"},
    {"Accept": "application/msgpack;sequence=true"},
    {"Accept": "text/csv"},
    {"Accept": "text/html"},
    {"Accept-Encoding": "gzip, br"},
    {"Accept-Encoding": "zstd, identity;q=0"},
    {"Prefer": "count=exact"},
    {"Prefer": "explain"},
    {"If-None-Match": "*"},
    {"Origin": "https://elsewhere.example"},
    {"Cookie": "a=b"},
    {"Connection": "close"},
]


def fill(beside: Beside, number: int) -> None:
    """Some products, of which some are unusual."""
    source = random.Random(number)
    for key in range(source.choice([3, 8, 8, 8, 140])):
        record: dict[str, Any] = {
            "name": source.choice(["a", "b", "1"]),
            "price": source.choice([0, 1, 2, 2.5]),
            "tags": source.sample(["a", "b", "1"], 2),
            "listDate": source.choice(MOMENTS),
            "stock": source.choice([0, 1, 2]),
            "brandId": source.choice(["a", "b", "k1", "none"]),
        }
        kind = source.randrange(12)
        if kind == 0:
            record = {}
        elif kind == 1:
            record["undeclared"] = {"a": [source.random()], "b": None}
        elif kind == 2:
            record["specs"] = source.choice([{"z": 1}, [1], MOMENTS[0], 10**30])
        elif kind == 3:
            record[source.choice([*record])] = source.choice([MOMENTS[0], "a", 5, None, ["a"], {"a": 1}, True])
        elif kind == 4:
            record["specs"] = "y" * source.choice([2000, 5000, 200_000])
        elif kind == 5:
            record = dict(reversed(record.items()))
        expires_at = None if source.randrange(20) else beside.node.clock.wall() * 1000 + source.choice([-5000, 5000])
        beside.put("Product", f"p{key}", record, expires_at=expires_at)


def change_definition(beside: Beside, number: int) -> None:
    table = beside.node.store.databases["data"].tables["Product"]
    attributes = list(table.definition.attributes)
    at = next((at for at, each in enumerate(attributes) if each.name == ["name", "price", "stock", "listDate"][number % 4]), None)
    if at is None:
        return
    kind = number // 2
    if kind == 0:
        attributes[at] = replace(attributes[at], indexed=not attributes[at].indexed)
    elif kind == 1:
        attributes[at] = replace(attributes[at], type="String" if attributes[at].type != "String" else "Any")
    elif kind == 2:
        attributes[at] = replace(attributes[at], hidden=not attributes[at].hidden)
    else:
        brand = next(at for at, each in enumerate(attributes) if each.name == "brand")
        attributes[brand] = replace(attributes[brand], enumerable=not attributes[brand].enumerable)
    table.database.define_table(replace(table.definition, attributes=tuple(attributes)))


def change_brands(beside: Beside, number: int) -> None:
    table = beside.node.store.databases["data"].tables["Brand"]
    if number % 3 == 0:
        beside.put("Brand", "a", {"name": f"n{number}", "undeclared": number} if number else None)
    elif number % 3 == 1:
        beside.put("Brand", "b", {"name": "z" * number * 1000}, expires_at=beside.node.clock.wall() * 1000 + 20_000)
    elif f"new{number}" not in table.attributes:
        attributes = (*table.definition.attributes, Attribute(f"new{number}", "String"))
        table.database.define_table(replace(table.definition, attributes=attributes))


def change_role(beside: Beside, number: int) -> None:
    names = [("id", "name"), ("id", "name", "price", "brand", "brandId"), ()][number % 3]
    tables = {"Product": beside.reads(*names)}
    if number % 2:
        tables["Brand"] = beside.reads(*[(), ("id",)][number // 3])
    beside.put(ROLE_TABLE, "few", {"role": "few", "permission": {"data": {"tables": tables}}}, SYSTEM)


def set_budget(beside: Beside, number: int) -> None:
    set_limits(QueryLimits(related_rows=[2, 5_000_000][number % 2], bytes=[500, 256 << 20, 256 << 20][number % 3]))


CHANGES: list[Callable[[Beside, int], object]] = [
    fill,
    fill,
    fill,
    change_definition,
    change_brands,
    change_role,
    set_budget,
    lambda beside, number: beside.node.rest.configure(RestOptions(pages=number % 2 == 0), login=False),
    *OTHER_CHANGES,
]


def filled_in(pattern: str, values: list[str]) -> str:
    for value in values:
        pattern = pattern.replace("?", value, 1)
    return pattern


ASKED = st.one_of(
    st.tuples(st.sampled_from(SERVED), st.lists(st.sampled_from(USUAL), min_size=12, max_size=12), st.sampled_from(["root", "reader"])),
    st.tuples(st.sampled_from(SERVED), st.lists(st.sampled_from(VALUES), min_size=12, max_size=12), st.sampled_from(USERS)),
    st.tuples(st.sampled_from([*SERVED, *OTHERS]), st.lists(st.sampled_from(VALUES), min_size=12, max_size=12), st.sampled_from(USERS)),
)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.sampled_from(CHANGES), st.integers(0, 6)),
        st.tuples(st.none(), st.tuples(ASKED, st.just({}))),
        st.tuples(st.none(), st.tuples(ASKED, st.sampled_from(FIELDS))),
    ),
    min_size=5,
    max_size=25,
)


def ask(beside: Beside, pattern: str, values: list[str], user: str | None, fields: dict[str, str]) -> None:
    """The third time it is prepared."""
    for at in range(0, len(values), 2):
        beside.get(f"/Product/?{filled_in(pattern, values[at : at + 2])}", {**authorization(user), **fields})


@pytest.fixture
def beside(tmp_path: Path) -> Iterator[Beside]:
    made = Beside(tmp_path)
    yield made
    made.close()


@settings(max_examples=examples(60), suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(STEPS)
def test_the_same_bytes(tmp_path_factory, steps):
    beside = Beside(tmp_path_factory.mktemp("node"))
    limits = query_limits()
    try:
        fill(beside, 0)
        for change, what in steps:
            if change is not None:
                change(beside, what)
                beside.node.settle()
            else:
                ask(beside, *what[0], what[1])
    finally:
        set_limits(limits)
        beside.close()


@pytest.mark.parametrize("user", ["root", "reader"])
@pytest.mark.parametrize("fields", [*FIELDS[:3], *FIELDS[6:8]])
def test_what_is_prepared(beside: Beside, user: str, fields: dict[str, str]) -> None:
    for number in range(30):
        digit = str(number % 4)
        record = {
            "name": digit,
            "price": number % 4,
            "stock": number % 5,
            "brandId": digit,
            "tags": [digit],
            "listDate": MOMENTS[number % 3],
        }
        beside.put("Product", f"p{number}", record)
        beside.put("Brand", digit, {"name": f"n{digit}"})
    for pattern in SERVED:
        if "application/" in fields.get("Accept", "") and "select" in pattern:
            continue
        hits = beside.hits
        ask(beside, pattern, ["1", "2", "0", "2", "2", "4", "1", "3"], user, fields)
        assert beside.hits == hits + 2, pattern
