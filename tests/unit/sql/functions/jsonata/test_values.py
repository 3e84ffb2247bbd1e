"""Sequences, truth, equality, and the units of an evaluation."""

from __future__ import annotations

from typing import Any

import pytest

from svc.clock import FakeClock
from svc.errors import QueryTooLarge
from svc.sql.functions import WorkMeter
from svc.sql.functions.jsonata.values import (
    BASE_UNITS,
    UNDEFINED,
    Callback,
    ConsArray,
    KeptSequence,
    Sequence,
    Work,
    appended,
    listed,
    plain,
    truth,
    type_name,
    unwrapped,
)


@pytest.fixture
def work(meter: WorkMeter) -> Work:
    return Work(meter, 0)


def test_sequences_stand_for_their_values() -> None:
    assert unwrapped(Sequence()) is UNDEFINED and unwrapped(KeptSequence()) is UNDEFINED
    assert unwrapped(Sequence([1])) == 1 and unwrapped(KeptSequence([1])) == [1] and unwrapped(Sequence([1, 2])) == [1, 2]
    assert unwrapped([1]) == [1] and unwrapped(ConsArray([1])) == [1] and unwrapped(None) is None
    assert listed(UNDEFINED) == [] and listed(None) == [None] and listed([1]) == [1]
    assert appended(UNDEFINED, 1) == 1 and appended(1, UNDEFINED) == 1 and appended(1, [2]) == [1, 2]


@pytest.mark.parametrize(
    ("value", "expected"),
    [(UNDEFINED, False), (None, False), (0, False), (0.0, False), ("", False), ([], False), ({}, False), ([0, ""], False), ([[0], [1]], True),
    ("0", True), ({"a": 0}, True),
     (Callback(len, 1), False), (-1, True), (b"", False)],
)  # fmt: skip
def test_truth(work: Work, value: Any, expected: bool) -> None:
    assert truth(value, work) is expected


def test_plain_values_share_nothing(work: Work) -> None:
    shared = Sequence([1, UNDEFINED, Callback(len, 1)])
    found = plain({"a": shared, "b": ConsArray([shared])}, work)
    assert found == {"a": [1, None, None], "b": [[1, None, None]]}
    assert type(found["a"]) is type(found["b"]) is list and found["a"] is not found["b"][0]


@pytest.mark.parametrize(
    ("value", "expected"),
    [(UNDEFINED, "undefined"), (None, "null"), (True, "boolean"), (1, "number"), (1.5, "number"), ("", "string"), ([], "array"), (Sequence(), "array"),
    ({}, "object"),
     (Callback(len, 1), "function")],
)  # fmt: skip
def test_names_of_types(value: Any, expected: str) -> None:
    assert type_name(value) == expected


def test_units(work: Work) -> None:
    work.spend(BASE_UNITS)
    with pytest.raises(QueryTooLarge, match="does too much with one value"):
        work.spend(1000)


def test_large_values_have_more(meter: WorkMeter) -> None:
    Work(meter, 1_000_000).spend(BASE_UNITS + 900_000)


def test_the_clock_is_asked_now_and_then(meter: WorkMeter, clock: FakeClock) -> None:
    work = Work(meter, 0)
    clock.advance(11)
    work.spend(1)
    with pytest.raises(QueryTooLarge, match="maxTime"):
        work.spend_text(1_000_000)
    with pytest.raises(QueryTooLarge, match="maxTime"):
        work.expect(0.1)
