"""What another process on the same data directory has changed: prepared reads see it at their next turn, as the general path does."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from svc.store.system import ROLE_TABLE, SYSTEM, USER_TABLE
from svc.store.values.records import decode
from tests.support.hub import Sibling
from tests.support.prepared_reads import Beside, authorization

pytestmark = pytest.mark.programs

PATHS = {"record": "/Product/k1", "list": "/Product/?name==a"}


class Shared(Beside):
    """Its records are also written by a sibling."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.sibling = Sibling()
        self.sibling.open(self.node.store.path)
        self.put("Product", "k1", {"name": "a", "price": 1})

    def write_elsewhere(self, table: str, key: str, record: dict[str, Any] | None, database: str = "data") -> None:
        primary = self.node.store.databases[database].tables[table].primary_key
        kind, data = ("delete", None) if record is None else ("put", {primary: key, **record})
        self.sibling.write(self.node.clock.wall() + 1, [[database, table, kind, key, data]])
        self.node.users.refresh()  # as a server does at the begin of each turn, while there are others

    def prepare(self, path: str, user: str) -> None:
        """Ask until it is answered by what is prepared."""
        for _ in range(3):
            assert self.get(path, authorization(user)).startswith(b"HTTP/1.1 200 ")
        assert self.hits > 0

    def close(self) -> None:
        self.sibling.close()
        self.sibling.stop()
        super().close()


@pytest.fixture
def shared(tmp_path: Path) -> Iterator[Shared]:
    made = Shared(tmp_path)
    yield made
    made.close()


@pytest.mark.parametrize("path", PATHS.values(), ids=PATHS)
def test_a_record(shared: Shared, path: str) -> None:
    shared.prepare(path, "reader")
    for number in range(3):
        shared.write_elsewhere("Product", "k1", {"name": "a", "price": 100 + number})
        hits = shared.hits
        assert b'"price":%d' % (100 + number) in shared.get(path, authorization("reader"))
        assert shared.hits == hits + 1
    shared.write_elsewhere("Product", "k1", None)
    assert b'"price"' not in shared.get(path, authorization("reader"))


@pytest.mark.parametrize("path", PATHS.values(), ids=PATHS)
def test_rights(shared: Shared, path: str) -> None:
    shared.prepare(path, "reader")
    permission = {"data": {"tables": {"Product": Shared.reads("id", "name")}}}
    shared.write_elsewhere(ROLE_TABLE, "reader", {"role": "reader", "permission": permission}, SYSTEM)
    assert b'"price"' not in shared.get(path, authorization("reader"))
    shared.write_elsewhere(ROLE_TABLE, "reader", {"role": "reader", "permission": {}}, SYSTEM)
    assert shared.get(path, authorization("reader")).startswith(b"HTTP/1.1 403 ")


@pytest.mark.parametrize("path", PATHS.values(), ids=PATHS)
def test_a_user(shared: Shared, path: str) -> None:
    shared.prepare(path, "reader")
    raw = shared.node.store.databases[SYSTEM].tables[USER_TABLE].get_raw("reader")
    assert raw is not None
    shared.write_elsewhere(USER_TABLE, "reader", {**decode(raw), "active": False}, SYSTEM)
    assert not shared.get(path, authorization("reader")).startswith(b"HTTP/1.1 200 ")


@pytest.mark.parametrize("path", PATHS.values(), ids=PATHS)
def test_a_table(shared: Shared, path: str) -> None:
    shared.prepare(path, "reader")
    shared.sibling.drop("data", "Product")
    assert not shared.get(path, authorization("reader")).startswith(b"HTTP/1.1 200 ")
