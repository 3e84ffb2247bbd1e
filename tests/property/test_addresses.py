"""Addresses of records: whatever the key, `Location` of its POST leads to the record, and to no other (spec: http §1.2, §1.3)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from svc.resources.target import id_path, parse_target
from tests.support.node import Node

SCHEMA = """
type Text @table @export { id: ID @primaryKey  price: Float  specs: Any  image: Blob  csv: String }
type Split @table @splitSegments @export { id: Any @primaryKey  price: Float  specs: Any }
type Free @table @export(name: "deep/Free") { id: Any @primaryKey  specs: Any }
type Number @table @export { id: Float @primaryKey  specs: Any }
type Whole @table @export { id: Long @primaryKey  specs: Any }
type Big @table @export { id: BigInt @primaryKey }
type Outer @table @export(name: "Outer") { id: ID @primaryKey }
type Inner @table @export(name: "Outer/Inner") { id: ID @primaryKey }
type Odd @table @export(name: "o dd/näme%41") { id: ID @primaryKey }
type Last @table @export(name: "") { id: ID @primaryKey }
"""
PIECES = st.sampled_from(
    ["a", "u2", "/", "/", ".", ".", "csv", "json", "price", "specs", "image", "%", "%2F", "%2E", "?", "#", "&", " ", "+", "\0", "é", "\u20ac", "\U0001f600",
     "..", "~", "-5", "7", "1.5", "null", "$z", ":", "openapi", "login", "Inner", "Text", "deep", ".csv", "\\", '"', "<"]
)  # fmt: skip
TEXTS = st.lists(PIECES, min_size=1, max_size=6).map("".join) | st.text(min_size=1, max_size=8)
NUMBERS = st.integers(-(2**53) + 1, 2**53 - 1) | st.floats(allow_nan=False, allow_infinity=False)
KEYS: dict[str, st.SearchStrategy[Any]] = {
    "Text": TEXTS,
    "Split": TEXTS | NUMBERS | st.lists(TEXTS.map(lambda text: text.replace("/", "")) | NUMBERS, min_size=1, max_size=3),
    "deep/Free": TEXTS | NUMBERS,
    "Number": NUMBERS,
    "Whole": st.integers(-(2**53) + 1, 2**53 - 1),
    "Big": st.integers(-(2**60), 2**60),
    "Outer": TEXTS,
    "Outer/Inner": TEXTS,
    "o dd/näme%41": TEXTS,
    "": TEXTS,
}


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    app = tmp_path_factory.mktemp("app")
    (app / "schema.graphql").write_text(SCHEMA)
    made = Node(tmp_path_factory.mktemp("database"), app)
    assert made.app.status == "healthy", made.app.entries
    yield made
    assert made.errors == []
    made.close()


def address(table: str, *, slash: bool) -> str:
    return f"/{quote(table)}/" if slash and table else f"/{quote(table)}"


@given(st.sampled_from(sorted(KEYS)).flatmap(lambda table: st.tuples(st.just(table), KEYS[table])), st.booleans())
@example(("Text", "x.csv"), False)
@example(("Text", "a.json"), True)
@example(("Text", "a/b"), False)
@example(("Text", "u2/specs"), True)
@example(("Text", "42.price"), True)
@example(("Text", "a//b"), True)
@example(("Text", "a/"), False)
@example(("Text", "/"), True)
@example(("Text", ".csv"), True)
@example(("Text", ".."), True)
@example(("Split", ["a", "5"]), True)
@example(("Split", ["a", 5]), True)
@example(("deep/Free", "5"), False)
@example(("deep/Free", 1e300), True)
@example(("deep/Free", "1.5"), True)
@example(("deep/Free", 1.5), True)
@example(("Outer", "Inner"), True)
@example(("Outer", "Inner/x"), False)
@example(("o dd/näme%41", "x.csv"), False)
@example(("Text", "é" * 659), False)
@example(("Text", "/" * 659), False)
@example(("", "openapi"), True)
@example(("", "Text"), True)
@example(("", "Text.csv"), True)
def test_location_leads_to_the_new_record(node: Node, made: tuple[str, Any], slash: bool) -> None:
    table, key = made
    assume(key != "")
    wire = node.connect()
    status, fields, body = wire.ask("POST", address(table, slash=slash), json.dumps({"id": key, "specs": [1]}).encode())
    if status != 201:  # a key that the table does not take
        assert status == 400, body
        return
    location = fields["location"]
    stored = json.loads(body)
    try:
        assert location.startswith("/") and not location.startswith("//") and location.isascii() and location.isprintable()
        assert location.startswith(address(table, slash=True))
        status, _, body = wire.ask("GET", location)
        assert (status, json.loads(body)["id"]) == (200, stored), location
        # The address writes and removes the same record.
        assert wire.ask("PUT", location, b'{"specs": 2}')[0] == 204
        record = json.loads(wire.ask("GET", location)[2])
        assert (record["id"], record["specs"]) == (stored, 2)
    finally:
        assert wire.ask("DELETE", location)[0] == 204
    assert wire.ask("GET", location)[0] == 404
    owner = next(registration.resource.table for path, registration in node.resources.items() if path == table)  # type: ignore[attr-defined]
    assert owner.record_count() == 0


@given(TEXTS)
def test_a_path_and_its_reading_are_inverse(key: str) -> None:
    properties: dict[str, Any] = {"price": 1, "specs": 1, "csv": 1}
    path = id_path(key, properties)
    for reads in (True, False):
        target = parse_target(f"/{path}", None, properties, reads)
        assert (target.id_text, target.property, target.extension, target.prefix) == (key, None, None, None)
