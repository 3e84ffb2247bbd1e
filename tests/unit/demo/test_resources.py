"""svc/demo/app/resources.py, on a few flights."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from svc.demo.data import APP
from tests.support.application import Application, user_named
from tests.support.node import Node

AIRLINES = {"UA": "United Air Lines Inc.", "HA": "Hawaiian Airlines Inc."}
FLIGHT = {"number": 1, "scheduled": "2013-02-09T12:00:00Z", "destinationCode": "HNL", "cancelled": False, "distance": 4983}
FLIGHTS: dict[str, dict[str, Any]] = {
    "2013-02-09/HA/51/JFK": {"airlineCode": "HA", "originCode": "JFK", "tailNumber": "N1", "airTime": 640, "departureDelay": 30},
    "2013-02-09/UA/15/JFK": {"airlineCode": "UA", "originCode": "JFK", "tailNumber": "N2", "airTime": 600, "departureDelay": -5},
    "2013-02-09/UA/16/JFK": {"airlineCode": "UA", "originCode": "JFK", "departureDelay": 8},
    "2013-02-09/UA/17/EWR": {"airlineCode": "UA", "originCode": "EWR", "tailNumber": "N4"},
}
ONE, OTHER, WITHOUT, ELSEWHERE = FLIGHTS


@pytest.fixture
def demo(tmp_path: Path) -> Iterator[Application]:
    node = Node(tmp_path, APP)
    assert node.app.status == "healthy", node.app.entries
    app = Application(node)
    for code, name in AIRLINES.items():
        assert app.ask("PUT", f"/Airline/{code}", {"name": name})[0] == 204
    assert app.ask("PUT", "/Airport/JFK", {"name": "John F Kennedy Intl"})[0] == 204
    for key, flight in FLIGHTS.items():
        assert app.ask("PUT", f"/Flight/{key}", {**FLIGHT, **flight})[0] == 204
    yield app
    assert not app.errors
    node.close()


def tail_numbers(demo: Application) -> list[Any]:
    return [demo.ask("GET", f"/Flight/{key}")[1].get("tailNumber") for key in FLIGHTS]


def test_a_value_is_added_to_the_answer_and_not_stored(demo: Application) -> None:
    assert demo.ask("GET", f"/Journey/{ONE}")[1]["milesPerHour"] == 467
    assert demo.ask("GET", f"/Journey/{ONE}?select(milesPerHour,airline{{name}})") == (
        200,
        {"milesPerHour": 467, "airline": {"name": "Hawaiian Airlines Inc."}},
    )
    assert "milesPerHour" not in demo.ask("GET", f"/Journey/{WITHOUT}")[1]
    assert "milesPerHour" not in demo.ask("GET", f"/Flight/{ONE}")[1]
    assert demo.ask("GET", "/Journey/nothing")[0] == 404


def test_two_flights_swap_their_aircraft(demo: Application) -> None:
    assert demo.ask("POST", f"/Journey/{ONE}", {"swapWith": OTHER}) == (200, {ONE: "N2", OTHER: "N1"})
    assert tail_numbers(demo) == ["N2", "N1", None, "N4"]
    assert demo.ask("POST", f"/Journey/{ONE}", {"swapWith": WITHOUT}) == (200, {ONE: None, WITHOUT: "N2"})
    assert tail_numbers(demo) == [None, "N1", "N2", "N4"]
    assert demo.ask("POST", f"/Journey/{OTHER}", {"swapWith": OTHER})[0] == 200
    assert tail_numbers(demo) == [None, "N1", "N2", "N4"]


@pytest.mark.parametrize(
    ("address", "data", "status"),
    [
        (ONE, {"swapWith": ELSEWHERE}, 409),
        (ONE, {"swapWith": "nothing"}, 404),
        ("nothing", {"swapWith": ONE}, 404),
        ("", {"swapWith": ONE}, 400),
        (ONE, {"swapWith": {"conditions": []}}, 400),
        (ONE, {}, 400),
        (ONE, [], 400),
        (ONE, "text", 400),
    ],
)
def test_a_swap_that_is_refused_changes_nothing(demo: Application, address: str, data: Any, status: int) -> None:
    assert demo.ask("POST", f"/Journey/{address}", data)[0] == status
    assert tail_numbers(demo) == ["N1", "N2", None, "N4"]


def test_a_swap_needs_the_right_to_change_flights(demo: Application) -> None:
    demo.node.as_user(user_named("guest"))
    assert demo.ask("POST", f"/Journey/{ONE}", {"swapWith": OTHER})[0] == 403


def test_punctuality_is_computed_from_three_tables(demo: Application) -> None:
    assert demo.ask("GET", "/Punctuality/JFK") == (
        200,
        {
            "airport": "John F Kennedy Intl",
            "airlines": [
                {"airline": "United Air Lines Inc.", "flights": 2, "medianDelay": 2},
                {"airline": "Hawaiian Airlines Inc.", "flights": 1, "medianDelay": 30},
            ],
        },
    )
    assert [demo.ask("GET", f"/Punctuality/{name}")[0] for name in ("XXX", "")] == [404, 404]


def test_punctuality_is_shown_to_every_user_and_to_nobody_else(demo: Application) -> None:
    demo.node.as_user(user_named("guest"))
    assert demo.ask("GET", "/Punctuality/JFK")[0] == 200
    demo.node.as_user(None)
    assert demo.ask("GET", "/Punctuality/JFK")[0] == 401
