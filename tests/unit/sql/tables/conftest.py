"""Tables of a store in SQLite, each test with a store of its own."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from svc.store.schema import TableDefinition
from tests.support.sql_tables import SqlTables


@pytest.fixture
def open_tables(tmp_path: Path) -> Iterator[Callable[..., SqlTables]]:
    """Makes tables of these definitions."""
    opened: list[SqlTables] = []

    def open_(*definitions: TableDefinition) -> SqlTables:
        opened.append(SqlTables(tmp_path / str(len(opened)), definitions))
        return opened[-1]

    yield open_
    for each in opened:
        each.close()
