"""Enum types over REST: what is taken, compared and described."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.node import Node, Wire

SCHEMA = """
enum Status { OPEN CLOSED }
enum Unit { PIECE KG }
type Order @table @export { id: ID @primaryKey  status: Status! @indexed  past: [Status] @indexed  item: Item }
type Item { unit: Unit! }
type Rate @table @export { unit: Unit @primaryKey  price: Float }
"""


@pytest.fixture(scope="module")
def wire(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Wire]:
    path: Path = tmp_path_factory.mktemp("enums")
    app = path / "app"
    app.mkdir()
    (app / "schema.graphql").write_text(SCHEMA)
    node = Node(path / "database", app)
    wire = node.connect()
    for key, record in {"1": {"status": "OPEN"}, "2": {"status": "CLOSED", "past": ["OPEN", None]}}.items():
        assert wire.ask("PUT", f"/Order/{key}", json.dumps(record).encode())[0] == 204
    yield wire
    assert node.errors == []
    node.store.check()
    node.close()


def found(wire: Wire, query: str) -> list[str]:
    status, _, body = wire.ask("GET", f"/Order/?{query}&select(id)")
    assert status == 200, body
    return list(json.loads(body))


def problem(wire: Wire, method: str, target: str, body: Any = None, media_type: str = "application/json") -> tuple[int, str, str]:
    content = body if isinstance(body, bytes) else b"" if body is None else json.dumps(body).encode()
    status, _, answer = wire.ask(method, target, content, {"Content-Type": media_type})
    shown = json.loads(answer)
    return status, shown["code"], shown["error"]


@pytest.mark.parametrize(
    ("record", "message"),
    [
        ({"status": "open"}, 'Value "open" in property status must be one of OPEN, CLOSED'),
        ({"status": ""}, 'Value "" in property status must be one of OPEN, CLOSED'),
        ({"status": 1}, "Value 1 in property status must be one of OPEN, CLOSED"),
        ({"status": ["OPEN"]}, 'Value ["OPEN"] in property status must be one of OPEN, CLOSED'),
        ({"status": None}, "Property status is required and cannot be null"),
        ({"status": "OPEN", "past": ["OPEN", "x"]}, 'Value "x" in property past[1] must be one of OPEN, CLOSED'),
        ({"status": "OPEN", "item": {"unit": "M"}}, 'Value "M" in property item.unit must be one of PIECE, KG'),
    ],
)
def test_what_is_no_value_is_refused_with_the_values(wire: Wire, record: Any, message: str) -> None:
    assert problem(wire, "PUT", "/Order/3", record) == (400, "VALIDATION", message)
    assert problem(wire, "POST", "/Order/", [record]) == (400, "VALIDATION", f"Element 0: {message}")
    assert wire.ask("GET", "/Order/3")[0] == 404


def test_a_patch_and_one_property(wire: Wire) -> None:
    message = 'Value "x" in property status must be one of OPEN, CLOSED'
    assert problem(wire, "PATCH", "/Order/1", {"status": "x"}) == (400, "VALIDATION", message)
    assert problem(wire, "PUT", "/Order/1/status", "x") == (400, "VALIDATION", message)


def test_a_form(wire: Wire) -> None:
    form = "application/x-www-form-urlencoded"
    assert wire.ask("PUT", "/Order/4", b"status=OPEN&past=OPEN&past=", {"Content-Type": form})[0] == 204
    assert json.loads(wire.ask("GET", "/Order/4")[2]) == {"status": "OPEN", "past": ["OPEN", None], "id": "4"}
    message = 'Value "x" in property status must be one of OPEN, CLOSED'
    assert problem(wire, "PUT", "/Order/4", b"status=x", form) == (400, "VALIDATION", message)
    assert wire.ask("DELETE", "/Order/4")[0] == 204


def test_conditions(wire: Wire) -> None:
    assert found(wire, "status=OPEN") == ["1"]
    assert found(wire, "status=gt=CLOSED") == ["1"]
    assert found(wire, "past=OPEN") == ["2"]
    assert found(wire, "past=null") == ["1", "2"]
    assert found(wire, "status=sw=CL") == ["2"]  # the beginning of a value is none itself
    for condition in ("status=open", "status=gt=X", "past=Open", "status=OPEN|status=nothing"):
        status, code, message = problem(wire, "GET", f"/Order/?{condition}")
        assert (status, code) == (400, "BAD_VALUE")
        assert message.endswith("expecting one of OPEN, CLOSED"), message


def test_keys(wire: Wire) -> None:
    assert wire.ask("PUT", "/Rate/KG", b'{"price": 2}')[0] == 204
    assert json.loads(wire.ask("GET", "/Rate/KG")[2]) == {"price": 2, "unit": "KG"}
    bad = (400, "BAD_VALUE", 'Invalid value for attribute unit: "M", expecting one of PIECE, KG')
    for method in ("GET", "PUT", "PATCH", "DELETE"):
        assert problem(wire, method, "/Rate/M", {"price": 1}) == bad
    refused = (400, "VALIDATION", 'Value "M" in property unit must be one of PIECE, KG')
    assert problem(wire, "POST", "/Rate/", {"unit": "M"}) == refused
    assert problem(wire, "PUT", "/Rate/", [{"unit": "M"}]) == (400, "VALIDATION", f'Element 0 ("M"): {refused[2]}')
    assert problem(wire, "POST", "/Rate/", {"price": 1}) == (400, "BAD_REQUEST", "A record of Rate needs a value for its primary key unit")


def test_the_description_names_the_values(wire: Wire) -> None:
    attributes = {each["name"]: each for each in json.loads(wire.ask("GET", "/Order")[2])["attributes"]}
    assert attributes["status"] == {
        "name": "status", "attribute": "status", "type": "String", "nullable": False, "indexed": True, "enum": ["OPEN", "CLOSED"],
    }  # fmt: skip
    assert (attributes["past"]["type"], attributes["past"]["elements"], attributes["past"]["enum"]) == (
        "array",
        "String",
        ["OPEN", "CLOSED"],
    )
