"""A document, and what expressions find in it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from svc.sql.functions import WorkMeter
from svc.sql.functions.exact import exact_face
from svc.sql.functions.jsonata.search import search_json

Search = Callable[[str], Any]
DOCUMENT: dict[str, Any] = {
    "FirstName": "Fred",
    "Surname": "Smith",
    "Age": 28,
    "Address": {"Street": "Hursley Park", "City": "Winchester", "Postcode": "SO21 2JN"},
    "Phone": [
        {"type": "home", "number": "0203 544 1234"},
        {"type": "office", "number": "01962 001234"},
        {"type": "office", "number": "01962 001235"},
        {"type": "mobile", "number": "077 7700 1234"},
    ],
    "Email": [
        {"type": "work", "address": ["fred.smith@my-work.com", "fsmith@my-work.com"]},
        {"type": "home", "address": ["freddy@my-social.com", "frederic.smith@very-serious.com"]},
    ],
    "Other": {"Over 18 ?": True, "Misc": None, "Alternative.Address": {"Street": "Brick Lane"}},
    "Account": {
        "Order": [
            {
                "OrderID": "order103",
                "Product": [
                    {"Name": "Bowler Hat", "ID": 858383, "Price": 34.45, "Quantity": 2, "Description": {"Colour": "Purple", "W": 300}},
                    {"Name": "Trilby hat", "ID": 858236, "Price": 21.67, "Quantity": 1, "Description": {"Colour": "Orange", "W": 500}},
                ],
            },
            {
                "OrderID": "order104",
                "Product": [
                    {"Name": "Bowler Hat", "ID": 858383, "Price": 34.45, "Quantity": 4, "Description": {"Colour": "Purple"}},
                    {"Name": "Cloak", "ID": 345664, "Price": 107.99, "Quantity": 1, "Description": {"Colour": "Black"}},
                ],
            },
        ]
    },
    "nest": [[1, 2], [3, 4], 5, [[6]]],
    "nums": [1, 2, 3, 4],
    "empty": [],
    "one": [7],
    "n": None,
    "t": True,
    "f": False,
    "s": "x",
    "zero": 0,
    "es": "",
    "objs": [{"a": 1, "b": [1, 2]}, {"a": 2, "b": [3]}, {"b": []}, {"a": "x"}],
}


@pytest.fixture
def search(meter: WorkMeter) -> Search:
    face = exact_face(DOCUMENT)
    return lambda expression: search_json(expression, face, meter)
