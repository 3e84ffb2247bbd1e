"""A store in a temporary directory with a clock that stands still, and one table that has a bit of everything."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from svc.clock import FakeClock
from svc.store import Store, Table
from svc.store.schema import Attribute, TableDefinition
from tests.support.prepared import open_with

SEAT = TableDefinition(
    "Seat",
    attributes=(
        Attribute("code", "ID", primary_key=True),
        Attribute("price", "Float", indexed=True),
        Attribute("tags", "String", elements=True, indexed=True),
        Attribute("place", "String", indexed=True),
        Attribute("stock", "Int"),
    ),
    primary_key="code",
)


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def open_store(tmp_path: Path, clock: FakeClock) -> Iterator[Callable[..., Store]]:
    """Opens the store of this test; one that is open is closed before."""
    opened: list[Store] = []

    def open_(**settings: Any) -> Store:
        if opened:
            opened.pop().close()
        opened.append(open_with(tmp_path / "database", clock=clock, **settings))
        return opened[0]

    yield open_
    if opened:
        opened.pop().close()


@pytest.fixture
def store(open_store: Callable[..., Store]) -> Store:
    return open_store()


@pytest.fixture
def seats(store: Store) -> Table:
    return store.open_database("data").define_table(SEAT)
