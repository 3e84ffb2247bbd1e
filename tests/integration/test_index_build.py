"""An index added to a table full of records is built while the server answers (spec: schema-and-store §7)."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.conftest import Process
from tests.support.waiting import wait_until

pytestmark = pytest.mark.programs

SCHEMA = "type Thing @table @export {{ id: ID @primaryKey\n colour: String {indexed}\n size: Int @indexed }}"
RECORDS = 6000  # more than are indexed at once, on the spot


def test_queries_wait_for_the_index_and_writes_do_not(tmp_path: Path) -> None:
    app = tmp_path / "app"
    app.mkdir()
    (app / "schema.graphql").write_text(SCHEMA.format(indexed=""))
    server = Process(tmp_path / "root", app).start()
    try:
        with server.client() as client:
            for start in range(0, RECORDS, 1000):
                batch = [{"id": f"t{n:05}", "colour": f"c{n % 10}", "size": n} for n in range(start, start + 1000)]
                assert client.put("/Thing/", json=batch).status_code == 204
            refused = client.get("/Thing/?colour=c3")
            assert refused.json()["code"] == "NOT_INDEXED"
        assert server.stop() == 0

        (app / "schema.graphql").write_text(SCHEMA.format(indexed="@indexed"))
        server.start()
        with server.client() as client:
            # Whether the build is still going on depends on the machine; what is answered never does.
            assert client.put("/Thing/late", json={"colour": "c3", "size": -1}).status_code == 204
            assert client.delete("/Thing/t00003").status_code == 204

            def found() -> set[str]:
                response = client.get("/Thing/?colour=c3&select(id)")
                if response.status_code == 503:
                    body = response.json()
                    assert (body["code"], body["retryable"]) == ("INDEX_REBUILDING", True)
                    assert client.get("/Thing/?size=13").json()[0]["id"] == "t00013"
                    return set()
                return set(response.json())

            expected = {f"t{n:05}" for n in range(RECORDS) if n % 10 == 3} - {"t00003"} | {"late"}
            assert wait_until(found) == expected
        assert server.stop() == 0
    finally:
        server.kill()
