"""Blob files in a temporary directory, and a table that has blobs."""

import gc
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from svc.clock import FakeClock
from svc.store import Store, Table
from svc.store.blobs import BlobFiles
from svc.store.schema import Attribute, TableDefinition
from tests.support.prepared import open_with

PHOTO = TableDefinition(
    "Photo",
    attributes=(Attribute("id", "ID", primary_key=True), Attribute("image", "Blob"), Attribute("title", "String", indexed=True)),
)


@pytest.fixture(scope="module", autouse=True)
def little_to_collect() -> None:
    """Files go with the objects that hold them, so these tests collect garbage often: what is there before need not be visited each time."""
    gc.collect()
    gc.freeze()


@pytest.fixture
def files(tmp_path: Path) -> Iterator[BlobFiles]:
    opened = BlobFiles(b"identity", "data", (tmp_path / "blobs",))
    opened.open_references()
    yield opened
    opened.close()


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
def photos(store: Store) -> Table:
    return store.open_database("data").define_table(PHOTO)
