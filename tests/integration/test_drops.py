"""Tables and databases that end while the server runs and applications have exported them."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.integration.conftest import Process

pytestmark = pytest.mark.programs

SCHEMA = """
type Seat @table(database: "one") @export { id: Long @primaryKey  showId: Long @indexed  show: Show @relationship(from: "showId") }
type Show @table(database: "one") @export { id: Long @primaryKey  seats: [Seat] @relationship(to: "showId") }
type Other @table(database: "two") @export { id: Long @primaryKey }
"""

DROP = """
import asyncio, sys
from pathlib import Path
from svc.store import Store
store = Store(Path(sys.argv[1]))
asyncio.run(store.drop_database("two"))
store.close()
"""

MAKE = """
import sys
from pathlib import Path
from svc.store import Store
from svc.store.schema import TableDefinition, Attribute
store = Store(Path(sys.argv[1]))
table = store.open_database("two").define_table(TableDefinition("Made", attributes=(Attribute("id", primary_key=True),)))
transaction = store.begin()
transaction.put(table, 1, {})
transaction.apply()
store.commit_turn()
store.close()
"""


@pytest.fixture
def process(tmp_path: Path) -> Iterator[Process]:
    app = tmp_path / "app"
    app.mkdir()
    (app / "schema.graphql").write_text(SCHEMA)
    process = Process(tmp_path / "root", app).start()
    yield process
    assert process.stop() == 0, process.output()
    assert "Traceback" not in process.logged() and "[error]" not in process.logged()


def run(process: Process, operation: str, **fields: Any) -> Any:
    response = process.operate(operation, **fields)
    assert response.status_code == 200, response.text
    return response.json()


def elsewhere(process: Process, program: str) -> None:
    """Run a program in a process of its own on the same databases."""
    done = subprocess.run(
        [sys.executable, "-c", program, str(process.root / "database")], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr


def test_addresses_of_a_dropped_table(process: Process) -> None:
    with process.client() as http:
        assert http.put("/Show/1", json={}).status_code == 204
        assert http.put("/Seat/1", json={"showId": 1}).status_code == 204
        assert run(process, "describe_table", database="one", table="Show")["paths"] == ["/Show"]
        run(process, "drop_table", database="one", table="Show")
        for method, path, body in (
            ("GET", "/Show/1", None),
            ("GET", "/Show/", None),
            ("GET", "/Show", None),
            ("PUT", "/Show/1", {}),
            ("PATCH", "/Show/1", {}),
            ("POST", "/Show/", {}),
            ("DELETE", "/Show/1", None),
            ("QUERY", "/Show/", {}),
        ):
            response = http.request(method, path, json=body) if body is not None else http.request(method, path)
            assert response.status_code == 404, (method, path, response.text)
        assert "Show" not in str(http.get("/openapi").json()["paths"])
        for query in ("select(id,show)", "select(id,show{id})", "show.id=1", "sort(show.id)"):
            response = http.get(f"/Seat/?{query}")
            assert response.status_code < 500, (query, response.text)
        assert http.get("/Seat/1").json()["showId"] == 1
        run(process, "create_table", database="one", table="Show")
        assert http.get("/Show/").status_code == 404, "a table made by operation has no address"


def test_addresses_of_a_dropped_database(process: Process) -> None:
    with process.client() as http:
        assert http.put("/Other/1", json={}).status_code == 204
        run(process, "drop_database", database="two")
        assert http.get("/Other/1").status_code == 404 and http.put("/Other/1", json={}).status_code == 404
        run(process, "create_database", database="two")
        assert run(process, "describe_all")["two"] == {}
    assert process.stop() == 0
    process.start()
    with process.client() as http:
        assert http.get("/Other/").json() == [], "the application makes its tables again when it is loaded"


def test_a_database_that_another_process_drops_and_makes(process: Process) -> None:
    with process.client() as http:
        assert http.put("/Other/1", json={}).status_code == 204
        elsewhere(process, DROP)
        assert http.put("/Other/2", json={}).status_code == 404
        assert http.get("/Other/1").status_code == 404
        assert process.operate("describe_table", database="two", table="Other").status_code == 404
        elsewhere(process, MAKE)
        assert run(process, "describe_table", database="two", table="Made")["record_count"] == 1
        assert run(process, "search_by_id", database="two", table="Made", ids=[1]) == [{"id": 1}]
