"""Requests to application code leave no reference cycles: what they refer to is freed at once, not by a garbage collection."""

from __future__ import annotations

import gc
from pathlib import Path

import pytest

from tests.support.application import application
from tests.unit.api.test_answers import CODE as ANSWERS
from tests.unit.api.test_styles import EXAMPLE, STYLES

REQUESTS = [
    ("GET", "/Seat/a", None),
    ("GET", "/Seat/?stock=gt=0&price=1", None),
    ("POST", "/Seat/a", {"action": "reserve"}),
    ("POST", "/Seat/a", {"action": "steal"}),
    ("GET", "/Clock/5?zone=CET", None),
    ("GET", "/Instance/a", None),
    ("PUT", "/Instance/a", {"stock": 4, "price": 1}),
    ("GET", "/Target/?price=1", None),
    ("PATCH", "/Target/a", {"stock": 5}),
    ("GET", "/Class/a?select(stock)", None),
    ("GET", "/Result/nested", None),
    ("GET", "/Result/generator", None),
    ("GET", "/Result/async-generator", None),
    ("GET", "/Result/records", None),
    ("GET", "/Fault/client", None),
    ("GET", "/Late/server", None),
]


@pytest.mark.parametrize(("method", "path", "data"), REQUESTS, ids=[f"{method} {path}" for method, path, _ in REQUESTS])
def test_nothing_is_left_to_the_collector(tmp_path: Path, method: str, path: str, data: object) -> None:
    with application(tmp_path, EXAMPLE + STYLES + ANSWERS) as app:
        app.ask("PUT", "/Seat/a", {"stock": 100, "price": 1})
        for _ in range(5):
            app.ask(method, path, data)
        gc.collect()
        gc.disable()
        try:
            for _ in range(20):
                app.ask(method, path, data)
            found = gc.collect()
        finally:
            gc.enable()
        assert found < 20, f"{found} objects in cycles after 20 requests"
