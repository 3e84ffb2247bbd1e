"""A connection that knows our functions, and calls of them by the names that statements use."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

import apsw
import pytest

from svc.clock import FakeClock
from svc.sql.functions import FUNCTIONS, WorkMeter, register

Value = Callable[..., Any]
NAME = re.compile(r"\b([A-Za-z_]\w*)(?=\()")


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def meter(clock: FakeClock) -> WorkMeter:
    meter = WorkMeter(clock)
    meter.begin(1_704_485_247_955, 10.0, 64 << 20)  # 2024-01-05T20:07:27.955Z
    return meter


@pytest.fixture
def connection(meter: WorkMeter) -> Iterator[apsw.Connection]:
    connection = apsw.Connection(":memory:")
    connection.limit(apsw.SQLITE_LIMIT_LENGTH, 8 << 20)
    register(connection, meter)
    yield connection
    connection.close()


@pytest.fixture
def rows(connection: apsw.Connection) -> Callable[..., list[Any]]:
    """The rows of a statement whose functions have the names of ours; of rows of one column these values."""

    def rows(text: str, *parameters: Any) -> list[Any]:
        found = list(connection.execute(NAME.sub(in_sqlite, text), parameters))
        return [row[0] if len(row) == 1 else row for row in found]

    return rows


def in_sqlite(found: re.Match[str]) -> str:
    function = FUNCTIONS.get(found[1].upper())
    return found[1] if function is None else function.sqlite


@pytest.fixture
def value(rows: Callable[..., list[Any]]) -> Value:
    """The value of an expression."""
    return lambda expression, *parameters: rows(f"select {expression}", *parameters)[0]
