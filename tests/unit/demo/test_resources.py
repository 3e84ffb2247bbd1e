"""svc/demo/app/resources.py, on a few flights."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from svc.demo.data import APP
from svc.testing import Application

AIRLINES = {"UA": "United Air Lines Inc.", "HA": "Hawaiian Airlines Inc."}
FLIGHT = {"number": 1, "scheduled": "2013-02-09T12:00:00Z", "destinationCode": "HNL", "cancelled": False, "distance": 4983}
FLIGHTS: dict[str, dict[str, Any]] = {
    "2013-02-09/HA/51/JFK": {"airlineCode": "HA", "originCode": "JFK", "tailNumber": "N1", "airTime": 640, "departureDelay": 30},
    "2013-02-09/UA/15/JFK": {"airlineCode": "UA", "originCode": "JFK", "tailNumber": "N2", "airTime": 600, "departureDelay": -5},
    "2013-02-09/UA/16/JFK": {"airlineCode": "UA", "originCode": "JFK", "departureDelay": 8},
    "2013-02-09/UA/17/EWR": {"airlineCode": "UA", "originCode": "EWR", "tailNumber": "N4"},
}
ONE, OTHER, WITHOUT, ELSEWHERE = FLIGHTS


GUEST: dict[str, Any] = {}
"""A user who may do nothing by the role."""


@pytest.fixture
def demo(svc_app_factory: Callable[..., Application]) -> Application:
    app = svc_app_factory(APP)
    for code, name in AIRLINES.items():
        assert app.put(f"/Airline/{code}", {"name": name}).status == 204
    assert app.put("/Airport/JFK", {"name": "John F Kennedy Intl"}).status == 204
    for key, flight in FLIGHTS.items():
        assert app.put(f"/Flight/{key}", {**FLIGHT, **flight}).status == 204
    return app


def tail_numbers(demo: Application) -> list[Any]:
    return [demo.get(f"/Flight/{key}").json.get("tailNumber") for key in FLIGHTS]


def test_a_value_is_added_to_the_answer_and_not_stored(demo: Application) -> None:
    assert demo.get(f"/Journey/{ONE}").json["milesPerHour"] == 467
    selected = demo.get(f"/Journey/{ONE}?select(milesPerHour,airline{{name}})")
    assert selected.json == {"milesPerHour": 467, "airline": {"name": "Hawaiian Airlines Inc."}}
    assert "milesPerHour" not in demo.get(f"/Journey/{WITHOUT}").json
    assert "milesPerHour" not in demo.get(f"/Flight/{ONE}").json
    assert demo.get("/Journey/nothing").status == 404


def test_two_flights_swap_their_aircraft(demo: Application) -> None:
    assert demo.post(f"/Journey/{ONE}", {"swapWith": OTHER}).json == {ONE: "N2", OTHER: "N1"}
    assert tail_numbers(demo) == ["N2", "N1", None, "N4"]
    assert demo.post(f"/Journey/{ONE}", {"swapWith": WITHOUT}).json == {ONE: None, WITHOUT: "N2"}
    assert tail_numbers(demo) == [None, "N1", "N2", "N4"]
    assert demo.post(f"/Journey/{OTHER}", {"swapWith": OTHER}).status == 200
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
    assert demo.post(f"/Journey/{address}", data).status == status
    assert tail_numbers(demo) == ["N1", "N2", None, "N4"]


def test_a_swap_needs_the_right_to_change_flights(demo: Application) -> None:
    assert demo.post(f"/Journey/{ONE}", {"swapWith": OTHER}, user=GUEST).status == 403


def test_punctuality_is_computed_from_three_tables(demo: Application) -> None:
    assert demo.get("/Punctuality/JFK").json == {
        "airport": "John F Kennedy Intl",
        "airlines": [
            {"airline": "United Air Lines Inc.", "flights": 2, "medianDelay": 2},
            {"airline": "Hawaiian Airlines Inc.", "flights": 1, "medianDelay": 30},
        ],
    }
    assert [demo.get(f"/Punctuality/{name}").status for name in ("XXX", "")] == [404, 404]


def test_punctuality_is_shown_to_every_user_and_to_nobody_else(demo: Application) -> None:
    assert demo.get("/Punctuality/JFK", user=GUEST).status == 200
    assert demo.get("/Punctuality/JFK", user=None).status == 401
