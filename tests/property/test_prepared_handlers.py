"""Prepared handlers beside the general path: the same bytes, calls and log, whatever they do, and whatever has changed in between."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from svc.prepared.kept import Candidate
from svc.rest import RestOptions
from tests.property.test_prepared_reads import add_attribute, change_role, set_active, set_type
from tests.support.prepared_handlers import OUTCOMES, STYLES, HandlersBeside
from tests.support.prepared_reads import TAG, authorization
from tests.support.profile import examples

KEYS = ["k1", "k-2", "K_3", "1", "none", "k.4", "k1.csv", "", "k1/name", "k" * 401]
USERS = ["root", "reader", "few", "nobody"]
FIELDS: list[dict[str, str]] = [
    {},
    {"Accept": "application/cbor"},
    {"Accept": "application/x-msgpack"},
    {"Accept": "text/csv"},
    {"Accept": "text/html"},
    {"Accept": "image/png"},
    {"Accept-Encoding": "gzip, br"},
    {"If-None-Match": TAG},
    {"If-None-Match": '""'},
    {"Origin": "https://elsewhere.example"},
    {"Cookie": "a=b"},
    {"Connection": "close"},
]

CHANGES: list[Callable[[HandlersBeside, int], object]] = [
    lambda beside, number: beside.put("Product", f"k{number}", {"name": "a" * (number * 300), "price": number / 2}),
    lambda beside, number: beside.put("Product", "k-2", {"name": "b", "tags": ["x"] * number, "undeclared": {"a": [number]}}),
    lambda beside, number: beside.put("Product", "K_3", {"contentType": "text/plain", "data": "text"} if number % 2 else {"name": "c"}),
    lambda beside, number: beside.put("Product", f"k{number}", None),
    lambda beside, number: beside.put("Product", "k1", {"name": "d"}, expires_at=beside.node.clock.wall() * 1000 + number * 10_000),
    add_attribute,
    change_role,
    set_active,
    set_type,
    lambda beside, number: beside.node.pass_time(number * 8),
    lambda beside, number: beside.node.rest.configure(RestOptions(last_modified=number % 2 == 0), login=number % 3 == 0),
    lambda beside, number: beside.reload(),
    lambda beside, number: beside.connect(),
]

STEPS = st.lists(
    st.one_of(
        st.tuples(st.sampled_from(CHANGES), st.integers(0, 6)),
        st.tuples(
            st.none(),
            st.tuples(
                st.lists(st.sampled_from(OUTCOMES), min_size=1, max_size=4),
                st.sampled_from(STYLES),
                st.sampled_from(KEYS),
                st.sampled_from([None, *USERS]),
                st.sampled_from(FIELDS),
            ),
        ),
        st.tuples(
            st.none(),
            st.tuples(
                st.lists(st.sampled_from(OUTCOMES), min_size=3, max_size=4),
                st.sampled_from(STYLES),
                st.sampled_from(KEYS[:3]),
                st.sampled_from(USERS[:3]),
                st.sampled_from(FIELDS[:3]),
            ),
        ),
    ),
    min_size=5,
    max_size=30,
)


@pytest.fixture
def beside(tmp_path: Path) -> Iterator[HandlersBeside]:
    made = HandlersBeside(tmp_path)
    yield made
    made.close()


@settings(max_examples=examples(40), suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(STEPS)
def test_the_same_bytes(tmp_path_factory, steps):
    beside = HandlersBeside(tmp_path_factory.mktemp("node"))
    before, Candidate.prepares_at_once = Candidate.prepares_at_once, True
    try:
        for change, what in steps:
            if change is not None:
                change(beside, what)
                beside.node.settle()
                continue
            outcomes, style, key, user, fields = what
            for outcome in ("plain", *outcomes):
                beside.do(outcome)
                beside.ask(style, key, {**authorization(user), **fields})
    finally:
        Candidate.prepares_at_once = before
        beside.close()


@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize("user", ["root", "reader", "few"])
def test_each_outcome(beside: HandlersBeside, style: str, user: str) -> None:
    key = "1" if style == "Numbered" else "k1"
    for _ in range(2):
        beside.ask(style, key, authorization(user))
    hits = beside.hits
    for outcome in OUTCOMES:
        beside.do(outcome)
        beside.ask(style, key, authorization(user))
    refused = (style, user) == ("Numbered", "few")
    assert beside.hits - hits == (0 if refused else len(OUTCOMES))
