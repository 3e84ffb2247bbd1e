"""Prepared reads and lists of tables with rules on rows beside the general path: the same bytes, whatever has changed in between (spec: rows §1.3)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from svc.query.budget import query_limits, set_limits
from svc.store.schema import Allow
from tests.property.test_prepared_lists import (
    SERVED,
    USUAL,
    ask,
    change_brands,
    change_definition,
    change_role,
    fill,
    set_budget,
)
from tests.property.test_prepared_reads import set_active
from tests.support.plans import MOMENTS
from tests.support.prepared_reads import Beside, authorization
from tests.support.profile import examples

RULES: dict[str, list[str | None]] = {
    "Product": [
        None,
        "true",
        "false",
        "name==a",
        "name==reader|stock==1",
        "name!=a",
        "tags==a&price=lt=2",
        "brandId==b",
        "id=ge=p3",
        "stock=gt=0",
        "listDate=1970-01-01T00:00:00.001Z",
        "name==$user.username|brandId==a",
        "brand.name==n1",
        "brand.name!=n1&stock=lt=2",
        "brand.id==a|name==b",
        "(brand.name==n1|price==1)&(name==a|stock==0)",
        "listDate=lt=$now",
        "specs==$user.claims.x|name==a",
    ],
    "Brand": [None, "name!=n1", "id==a", "name==$user.role|id==b", "false", "name=lt=$now|id==a"],
}
TABLES = ("Product", "Brand")


def set_rule(beside: Beside, table: str, rule: str | None) -> None:
    found = beside.node.store.databases["data"].tables[table]
    allow = () if rule is None else (Allow(read=rule),)
    found.database.define_table(replace(found.definition, allow=allow))
    beside.node.settle()


def change_rule(table: str) -> Callable[[Beside, int], None]:
    return lambda beside, number: set_rule(beside, table, RULES[table][number % len(RULES[table])])


CHANGES: list[Callable[[Beside, int], object]] = [
    change_rule("Product"),
    change_rule("Product"),
    change_rule("Brand"),
    lambda beside, number: fill(beside, number % 7),
    lambda beside, number: change_definition(beside, number % 7),
    lambda beside, number: change_brands(beside, number % 7),
    lambda beside, number: change_role(beside, number % 7),
    lambda beside, number: set_budget(beside, number % 7),
    lambda beside, number: set_active(beside, number % 4),
    lambda beside, number: beside.node.pass_time(number),
]
FIELDS: list[dict[str, str]] = [{}, {}, {"Accept": "application/cbor"}, {"If-None-Match": '"AAAAAAAAAAA"'}]
PLACES = st.tuples(st.sampled_from(TABLES), st.sampled_from(["k1", "K_3", "a", "b", "p0", "p1", "p2", "p5"]))
LISTS = st.tuples(st.sampled_from(SERVED), st.lists(st.sampled_from(USUAL), min_size=8, max_size=8))
ASKED = st.tuples(st.one_of(PLACES, LISTS), st.sampled_from(["reader", "reader", "few", "root"]), st.sampled_from(FIELDS))
STEPS = st.lists(
    st.one_of(st.tuples(st.sampled_from(CHANGES), st.integers(0, 17)), st.tuples(st.none(), ASKED), st.tuples(st.none(), ASKED)),
    min_size=5,
    max_size=25,
)


@settings(max_examples=examples(60), suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(st.integers(0, 17), STEPS)
def test_the_same_bytes(tmp_path_factory: pytest.TempPathFactory, rule: int, steps: list[Any]) -> None:
    beside = Beside(tmp_path_factory.mktemp("node"))
    limits = query_limits()
    try:
        fill(beside, 0)
        change_rule("Product")(beside, rule)
        for change, what in steps:
            if change is not None:
                change(beside, what)
                beside.node.settle()
                continue
            (place, values), user, fields = what
            if type(values) is list:
                ask(beside, place, values, user, fields)
                continue
            for _ in range(4):  # the third time it is prepared
                beside.get(f"/{place}/{values}", {**authorization(user), **fields})
    finally:
        set_limits(limits)
        beside.close()


# --- what is prepared at all -------------------------------------------------------------------------------------------------------------


@pytest.fixture
def beside(tmp_path: Path) -> Iterator[Beside]:
    made = Beside(tmp_path)
    for number in range(12):
        digit = str(number % 4)
        record = {"name": digit, "price": number % 4, "stock": number % 2, "brandId": digit, "listDate": MOMENTS[0]}
        made.put("Product", f"p{number}", record)
        made.put("Brand", digit, {"name": f"n{int(digit) // 2}"})
    yield made
    made.close()


def statuses(beside: Beside, path: str, times: int = 4, user: str = "reader") -> list[int]:
    return [int(beside.get(path, authorization(user))[9:12]) for _ in range(times)]


OWN = ["stock==1", "stock==1|name==$user.username", "name!=0&(stock==1|price==7)"]
RELATED = ["brand.name==n0", "brand.name==n0|stock==7", "brand.id==1&brand.name==n0"]


@pytest.mark.parametrize("rule", [*OWN, *RELATED])
def test_records_with_rules_are_prepared(beside: Beside, rule: str) -> None:
    set_rule(beside, "Product", rule)
    before = beside.hits
    assert statuses(beside, "/Product/p1") == [200] * 4
    assert beside.hits == before + 2
    assert statuses(beside, "/Product/p2", 3) == [404] * 3  # neither of stock 1 nor of brand 1 or n0
    assert beside.hits == before + 5


@pytest.mark.parametrize("rule", ["listDate=gt=$now|stock==1", "specs==$user.claims.x|stock==1"])
def test_values_that_may_be_others_in_a_moment_are_not_prepared(beside: Beside, rule: str) -> None:
    set_rule(beside, "Product", rule)
    before = beside.hits
    assert statuses(beside, "/Product/p1") == [200] * 4 and statuses(beside, "/Product/p2") == [404] * 4
    assert statuses(beside, "/Product/?name==1") == [200] * 4
    assert beside.hits == before


@pytest.mark.parametrize("rule", [*OWN, *RELATED, "brandId==1"])
def test_lists_with_rules_are_prepared(beside: Beside, rule: str) -> None:
    set_rule(beside, "Product", rule)
    for pattern in ("name==?", "name==?&sort(-price)", "name==?&select(name,brand{name})"):
        before = beside.hits
        ask(beside, pattern, list("11201132"), "reader", {})
        assert beside.hits == before + 2, pattern


def test_a_related_record_that_may_not_be_seen_leads_nowhere(beside: Beside) -> None:
    set_rule(beside, "Product", "brand.name==n0")
    assert statuses(beside, "/Product/p1") == [200] * 4
    set_rule(beside, "Brand", "id!=1")  # which the premise of a prepared GET of another table has to notice
    assert statuses(beside, "/Product/p1") == [404] * 4
    set_rule(beside, "Brand", None)
    beside.put("Brand", "1", {"name": "n1"})
    assert statuses(beside, "/Product/p1") == [404] * 4


def test_a_rule_costs_other_tables_of_the_database_nothing(beside: Beside) -> None:
    """Doc is not related to Product, whose rule is of the moment."""
    set_rule(beside, "Product", "listDate=lt=$now")
    before = beside.hits
    assert statuses(beside, "/Doc/k1") == [200] * 4
    assert beside.hits == before + 2


def test_rows_come_in_the_order_in_which_the_planner_finds_them(beside: Beside) -> None:
    """By a rule that an index, or the key, serves as well it may find them in another order than by the caller's range."""
    set_rule(beside, "Product", "id=ge=p0")
    before = beside.hits
    assert statuses(beside, "/Product/?price=ge=0&lt=9") == [200] * 4
    assert beside.hits == before
    ask(beside, "price=ge=?&lt=?&sort(name)", list("09080909"), "reader", {})
    assert beside.hits == before + 2
