"""Queued writes beside the general path: the same answers, records, indexes, logs and events, whatever has changed in between (spec: architecture §8).

Two nodes with clocks that stand still are asked the same; one of them has prepared what it can. What is asked in one turn has no order among each other, so
there it is about different records.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from svc.errors import Problem
from svc.rest import RestOptions
from svc.store import Table
from svc.store.schema import Attribute, Check, Enumeration, Relationship, Structure, TableDefinition
from tests.support.prepared_writes import RIGHTS, USERS, Twin, Twins, request
from tests.support.profile import examples

TABLES = ["First", "Second"]
KEYS = ["k1", "k-2", "K_3", "k~4", "5", "k.6", "a%20b", "k" * 401]
INNER = Structure("Inner", (Attribute("n", "Int", required=True), Attribute("s", "String")), sealed=True)
KEY = Attribute("id", "ID", primary_key=True)
POOL = [
    Attribute("name", "String"),
    Attribute("name", "String", indexed=True, required=True),
    Attribute("title", "String", default='"untitled"', required=True),
    Attribute("price", "Float", indexed=True),
    Attribute("size", "Int", indexed=True),
    Attribute("far", "Long"),
    Attribute("huge", "BigInt"),
    Attribute("is", "Boolean"),
    Attribute("day", "Date", indexed=True),
    Attribute("bytes", "Bytes"),
    Attribute("tags", "String", elements=True, indexed=True),
    Attribute("any", "Any", indexed=True),
    Attribute("inner", "Inner"),
    Attribute("colour", "String", enum=Enumeration("Colour", ("red", "green")), indexed=True),
    Attribute("made", "Date", created_time=True),
    Attribute("changed", "Long", updated_time=True),
    Attribute("until", "Float", expires_at=True),
    Attribute("code", "String", indexed=True, unique=True),
    Attribute("positive", "Int", check=Check("positive > 0")),
    Attribute("sum", "Int", indexed=True, computed_from="size + 1"),
    Attribute("firstId", "ID", indexed=True),
]
REFERENCE = Attribute("first", "First", relationship=Relationship("First", from_="firstId", on_delete="setNull"))
TAME: dict[str, list[Any]] = {
    "name": ["a", "ü", ""],
    "title": ["t"],
    "price": [1, 2.5, 3.0, -0.0],
    "size": [1, -5],
    "far": [2**53],
    "huge": [2**62, "123"],
    "is": [True, False],
    "day": ["2024-01-05", "2024-01-05T20:07:27.955Z", 5],
    "bytes": ["YWI="],
    "tags": [[], ["a"], ["a", "b", "a"], [None]],
    "any": ["x", 5, [1], {"a": 1}],
    "inner": [{"n": 1}, {"n": 1, "s": "x"}],
    "colour": ["red"],
    "until": [1.0, 1e15],
    "code": ["c1", "c2"],
    "positive": [1],
    "firstId": ["k1", "k-2"],
}
WILD: list[Any] = [None, 1, 1.5, "x", True, [], {}, [1, None], 2**31, 1e300, {"n": "x"}, {"__op__": "add", "value": 1}]
BODIES: list[Any] = [
    b"",
    b"{",
    b"[]",
    b"[{}]",
    b"5",
    b"null",
    b'{"id": "other"}',
    b'\xef\xbb\xbf{"name": "marked"}',
    b'{"name": "\\ud800"}',
    b'{"a": 1, "a": 2}',
]
FIELDS: list[dict[str, str]] = [
    {},
    {"Accept": "application/cbor"},
    {"Accept": "text/csv"},
    {"Accept": "image/png"},
    {"Accept-Encoding": "gzip"},
    {"If-Match": "*"},
    {"If-None-Match": "*"},
    {"Prefer": "return=representation"},
    {"Origin": "https://elsewhere.example"},
    {"Content-Type": "text/plain"},
    {"Content-Type": "application/json; charset=utf-8"},
    {"Content-Encoding": "gzip"},
    {"Connection": "close"},
    {"Expect": "100-continue"},
]


class Tame(dict[str, Any]):
    """A body of which a table gets what it declares."""

    def of(self, table: Table) -> dict[str, Any]:
        return {
            attribute.name: self.get(attribute.name, TAME[attribute.name][0])
            for attribute in table.attributes.values()
            if attribute.name in self or (attribute.required and attribute.name in TAME)
        }


names = st.sampled_from([*TAME, "undeclared", "id", "made", "sum", "first"])
tame = st.fixed_dictionaries({name: st.sampled_from(values) for name, values in TAME.items()}).flatmap(
    lambda values: st.lists(st.sampled_from(list(TAME)), unique=True, max_size=4).map(
        lambda left: Tame({name: value for name, value in values.items() if name not in left})
    )
)
bodies = st.one_of(tame, tame, tame, tame, tame, st.dictionaries(names, st.sampled_from(WILD), max_size=3), st.sampled_from(BODIES))
definitions = st.builds(
    lambda chosen, sealed, audit, expiration, references: TableDefinition(
        "",
        attributes=(KEY, *{attribute.name: attribute for attribute in chosen}.values(), *([REFERENCE] if references else [])),
        structures=(INNER,) if any(attribute.type == "Inner" for attribute in chosen) else (),
        sealed=sealed,
        audit=audit,
        expiration=expiration,
    ),
    st.lists(st.sampled_from(POOL), max_size=8),
    st.booleans(),
    st.sampled_from([None, False]),
    st.sampled_from([None, None, 30.0]),
    st.booleans(),
)
lanes = st.tuples(
    st.sampled_from(["PUT", "PUT", "PUT", "POST", "POST/", "DELETE", "DELETE", "PATCH", "GET"]),
    st.sampled_from(TABLES),
    st.sampled_from(["root"] * 12 + ["writer"] * 6 + [*USERS, None]),
    st.sampled_from([{}] * 40 + FIELDS),
)
Lane = tuple[str, str, str | None, dict[str, str]]
turns = st.tuples(st.lists(bodies, min_size=len(KEYS), max_size=len(KEYS)), st.permutations(KEYS))
runs = st.tuples(st.lists(lanes, min_size=1, max_size=len(KEYS)), st.lists(turns, min_size=1, max_size=5))
"""Some requests of a turn, and turns in which they are made: a client repeats itself."""


def define(twin: Twin, name: str, definition: TableDefinition) -> str:
    """The fault of what cannot be."""
    definition = replace(definition, name=name)
    if name == "First":
        definition = replace(definition, attributes=tuple(each for each in definition.attributes if each is not REFERENCE))
    elif REFERENCE in definition.attributes and definition.attribute("firstId") is None:
        definition = replace(definition, attributes=(*definition.attributes, POOL[-1]))
    try:
        twin.define(definition)
    except Problem as problem:
        return problem.message
    return ""


def listen(twin: Twin, number: int) -> None:
    asked = twin.node.server.http

    def listener(request: Any, next_: Callable[[Any], Any]) -> Any:
        return next_(request)

    if number % 3 == 0 and not twin.node.listeners:
        asked(listener, run_first=number % 2 == 0)


def leave_nothing(twin: Twin) -> None:
    for name in reversed(TABLES):
        twin.database.drop_table(name)
    twin.node.dispatcher.use(None)
    twin.node.dispatcher.on_sent = None
    twin.node.rest.configure(RestOptions(), login=False)
    twin.heard.clear()


CHANGES: list[Callable[[Twin, int], object]] = [
    lambda twin, number: twin.set_role("writer", RIGHTS[: number % 5]),
    lambda twin, number: twin.set_role("few", RIGHTS[number % 4 :]),
    lambda twin, number: twin.node.pass_time(number * 9),
    lambda twin, number: twin.node.rest.configure(RestOptions(last_modified=number % 2 == 0), login=False),
    lambda twin, number: setattr(twin.node.dispatcher, "on_sent", (lambda exchange, now: None) if number % 2 else None),
    lambda twin, number: [wire.send(b"GET / HT") for wire in twin.wires[:number]],
    lambda twin, number: [wire.connection.close_now() for wire in twin.wires[:number]],
    lambda twin, number: twin.database.tables["First"].indexes and twin.database.tables["First"].check(),
    listen,
]
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("run"), runs),
        st.tuples(st.just("run"), runs),
        st.tuples(st.just("define"), st.tuples(st.sampled_from(TABLES), definitions)),
        st.tuples(st.just("change"), st.tuples(st.sampled_from(CHANGES), st.integers(0, 6))),
    ),
    min_size=2,
    max_size=8,
)


def data_of(twins: Twins, lane: Lane, body: Any, key: str) -> bytes:
    method, table, user, fields = lane
    if type(body) is Tame:
        body = body.of(twins.general.database.tables[table])
    if method[:4] == "POST":
        if isinstance(body, dict) and "id" not in body and len(key) < 3:
            body = {**body, "id": key}
        return request("POST", f"/{table}{method[4:]}", body, user, fields)
    return request(method, f"/{table}/{key}", None if method in ("GET", "DELETE") else body, user, fields)


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Twins]:
    """For all examples, which leave no tables and no listeners: it takes long to make."""
    twins = Twins(tmp_path_factory.mktemp("twins"))
    yield twins
    twins.close()


@settings(max_examples=examples(25), suppress_health_check=[HealthCheck.too_slow])
@given(definitions, definitions, STEPS)
def test_the_same_of_both(shared: Twins, first: TableDefinition, second: TableDefinition, steps: list[Any]) -> None:
    try:
        for name, definition in zip(TABLES, (first, second), strict=True):
            assert [define(twin, name, definition) for twin in shared.both] == ["", ""]
        shared.change(lambda twin: [twin.set_role(user, USERS[user]) for user in USERS])
        shared.ask(
            *[request("GET", "/Product/none", None, user) for user in USERS]
        )  # passwords that have not been seen are verified beside the turn
        for kind, what in steps:
            if kind == "run":
                for given_bodies, keys in what[1]:
                    shared.ask(*[data_of(shared, *each) for each in zip(what[0], given_bodies, keys, strict=False)])
            elif kind == "define":
                faults = [define(twin, *what) for twin in shared.both]
                assert faults[0] == faults[1]
            else:
                shared.change(lambda twin, what=what: what[0](twin, what[1]))
        shared.compare()
    finally:
        shared.change(leave_nothing)


def test_what_is_prepared(tmp_path: Path) -> None:
    """A floor: of plain writes all but the first ones are queued."""
    twins = Twins(tmp_path)
    try:
        twins.change(lambda twin: define(twin, "First", TableDefinition("", attributes=(KEY, *POOL[3:14]))))
        twins.change(lambda twin: [twin.set_role(user, USERS[user]) for user in USERS])
        for number in range(12):
            body = {name: TAME[name][number % len(TAME[name])] for name in ("price", "size", "far", "is", "day", "bytes", "tags", "colour")}
            hits = twins.hits
            twins.ask(
                request("PUT", "/First/k1", body, "root"),
                request("PUT", f"/First/k{number}x", body, "writer"),
                request("POST", "/First/", body, "inserter"),
                request("POST", "/First", {**body, "id": f"n{number}"}, "writer"),
                request("DELETE", f"/First/k{number - 2}x", None, "eraser"),
            )
            if number > 3:
                assert twins.hits == hits + 5
        twins.compare()
    finally:
        twins.close()
