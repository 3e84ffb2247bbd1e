"""Prepared reads beside the general path: the same bytes, whatever has changed in between (spec: architecture §7).

One node, whose clock stands still while it answers, is asked each request twice: with what is prepared, and without. The answers are compared as a whole.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from svc.content.json_type import JsonType
from svc.messages import Response
from svc.resources import Resource
from svc.rest import RestOptions
from svc.store.schema import Attribute
from svc.store.system import ROLE_TABLE, SYSTEM, USER_TABLE
from tests.support.prepared_reads import TAG, Beside, authorization
from tests.support.prepared_streams import BesideStreams
from tests.support.profile import examples

KEYS = ["k1", "k-2", "K_3", "none", "k.4", "a%20b", "k1.csv", "", "k1/name", "k" * 401]
TABLES = ["Product", "Brand", "counters", "Strict", "Fleeting", "Doc"]
USERS = ["root", "reader", "few", "nobody"]
FIELDS: list[dict[str, str]] = [
    {},
    {"Accept": "application/cbor"},
    {"Accept": "application/x-msgpack"},
    {"Accept": "text/csv"},
    {"Accept": "text/html"},
    {"Accept": "image/png"},
    {"Accept-Encoding": "gzip, br"},
    {"If-None-Match": "*"},
    {"If-None-Match": TAG},
    {"if-none-match": TAG, "Accept-Encoding": "gzip"},
    {"If-None-Match": TAG, "If-Modified-Since": "Thu, 01 Jan 2026 00:00:00 GMT"},
    {"If-None-Match": f"W/{TAG}"},
    {"If-None-Match": '"Qnm3baqAAAA"'},
    {"If-None-Match": '"a", *, "bcd"'},
    {"If-None-Match": '"aaaaaa\x7faaaa"'},
    {"If-Match": '"other"'},
    {"Origin": "https://elsewhere.example"},
    {"Cookie": "a=b"},
    {"Connection": "close"},
    {"Content-Length": "0"},
    {"Prefer": "explain"},
]


class Special(Resource):
    name = "special"

    @classmethod
    def authorize(cls, verb: str, target: Any, data: Any, request: Any) -> None:
        pass

    @classmethod
    def on_get(cls, target: Any, data: Any, request: Any) -> Any:
        return {"special": target.id_text}


class Endpoint:
    methods = ("GET",)

    def handle(self, request: Any) -> Response:
        return Response(b"an endpoint", 200)


def add_attribute(beside: Beside, number: int) -> None:
    table = beside.node.store.databases["data"].tables["Product"]
    if f"new{number}" not in table.attributes:
        attributes = (*table.definition.attributes, Attribute(f"new{number}", "String", hidden=number % 2 == 0))
        table.database.define_table(replace(table.definition, attributes=attributes))


def change_role(beside: Beside, number: int) -> None:
    names = [("id", "name"), ("id", "name", "price"), ()][number % 3]
    permission = {"data": {"tables": {"Product": beside.reads(*names)}}} if number < 3 else {"super_user": number % 2 == 0}
    beside.put(ROLE_TABLE, "few", {"role": "few", "permission": permission}, SYSTEM)


def set_active(beside: Beside, number: int) -> None:
    found = beside.node.store.databases[SYSTEM].tables[USER_TABLE]
    raw = found.get_raw("reader")
    assert raw is not None
    from svc.store.values.records import decode

    beside.put(USER_TABLE, "reader", {**decode(raw), "active": number % 2 == 0}, SYSTEM)


def set_type(beside: Beside, number: int) -> None:
    class Other(JsonType):
        def encode_stored(self, raw: bytes) -> bytes:
            return b'"other"'

    beside.node.types["application/json"] = Other() if number % 2 else JsonType()


CHANGES: list[Callable[[Beside, int], object]] = [
    lambda beside, number: beside.put("Product", f"k{number}", {"name": "a" * (number * 300), "price": number / 2}),
    lambda beside, number: beside.put("Product", "k-2", {"name": "b", "tags": ["x"] * number, "undeclared": {"a": [number]}}),
    lambda beside, number: beside.put("Product", "K_3", {"contentType": "text/plain", "data": "text"} if number % 2 else {"name": "c"}),
    lambda beside, number: beside.put("Product", f"k{number}", None),
    lambda beside, number: beside.put("Product", "k1", {"name": "d"}, expires_at=beside.node.clock.wall() * 1000 + number * 10_000),
    lambda beside, number: beside.put("Brand", "k1", {"name": f"n{number}"}),
    lambda beside, number: beside.put("Doc", "k1", {"n": number}),
    add_attribute,
    change_role,
    set_active,
    set_type,
    lambda beside, number: beside.node.pass_time(number * 8),
    lambda beside, number: beside.node.rest.configure(RestOptions(last_modified=number % 2 == 0), login=number % 3 == 0),
    lambda beside, number: beside.node.rest.serve("/Product/k1", Endpoint() if number % 2 else None),
    lambda beside, number: beside.node.resources.set("Product/k-2", Special) if number % 2 else beside.node.resources.remove("Product/k-2"),
    lambda beside, number: setattr(beside.node.dispatcher, "on_sent", (lambda exchange, now: None) if number % 2 else None),
    lambda beside, number: beside.connect(),
]

STEPS = st.lists(
    st.one_of(
        st.tuples(st.sampled_from(CHANGES), st.integers(0, 6)),
        st.tuples(
            st.none(), st.tuples(st.sampled_from(TABLES), st.sampled_from(KEYS), st.sampled_from([None, *USERS]), st.sampled_from(FIELDS))
        ),
        st.tuples(
            st.none(), st.tuples(st.just("Product"), st.sampled_from(KEYS[:3]), st.sampled_from(USERS[:3]), st.sampled_from(FIELDS[:3]))
        ),
    ),
    min_size=5,
    max_size=30,
)


@pytest.fixture(params=[Beside, BesideStreams], ids=["HTTP/1.1", "HTTP/2"])
def beside(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Beside]:
    made: Beside = request.param(tmp_path)
    yield made
    made.close()


@pytest.mark.parametrize("kind", [Beside, BesideStreams], ids=["HTTP/1.1", "HTTP/2"])
@settings(max_examples=examples(40), suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(steps=STEPS)
def test_the_same_bytes(tmp_path_factory, kind, steps):
    beside = kind(tmp_path_factory.mktemp("node"))
    try:
        for change, what in steps:
            if change is not None:
                change(beside, what)
                beside.node.settle()
                continue
            table, key, user, fields = what
            for _ in range(4):  # the third time it is prepared
                beside.get(f"/{table}/{key}", {**authorization(user), **fields})
    finally:
        beside.close()


@pytest.mark.parametrize("user", ["root", "reader"])
@pytest.mark.parametrize("fields", FIELDS[:3])
def test_what_is_prepared(beside: Beside, user: str, fields: dict[str, str]) -> None:
    beside.put("Product", "k1", {"name": "a"})
    for _ in range(4):  # the first are answered by the general path
        assert beside.get("/Product/k1", {**authorization(user), **fields}).startswith(b"HTTP/1.1 200 ")
    assert beside.hits == 4 - beside.unprepared and beside.prepared_count == 1


@pytest.mark.parametrize("user", ["root", "reader"])
@pytest.mark.parametrize("fields", [{"If-None-Match": TAG}, {"if-none-match": TAG, "Accept-Encoding": "gzip"}])
def test_what_has_not_changed(beside: Beside, user: str, fields: dict[str, str]) -> None:
    for number in range(4):
        beside.put("Product", "k1", {"name": f"n{number}"})
        for key in ("k1", "k-2"):
            assert beside.get(f"/Product/{key}", {**authorization(user), **fields}).startswith(b"HTTP/1.1 304 ")
    assert beside.hits == 8 - beside.unprepared and beside.prepared_count == 1
    other = {name: value.replace(TAG, '"AAAAAAAAAAA"') for name, value in fields.items()}
    assert beside.get("/Product/k1", {**authorization(user), **other}).startswith(b"HTTP/1.1 200 ")


@pytest.mark.parametrize("fields", [{}, {"Accept": "application/cbor"}, {"If-None-Match": TAG}])
def test_what_is_not_there(beside: Beside, fields: dict[str, str]) -> None:
    for _ in range(2):
        beside.get("/Product/k1", {**authorization("root"), **fields})
    hits = beside.hits
    for number in range(3):
        assert beside.get(f"/Product/none{number}", {**authorization("root"), **fields}).startswith(b"HTTP/1.1 404 ")
        assert beside.hits == hits + number + 1
