"""Computed attributes across restarts: an expression that changes builds its index anew, one that is refused stops its file only
(spec: schema-and-store §4.3, §7)."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.conftest import Process
from tests.support.waiting import wait_until

pytestmark = pytest.mark.programs

SCHEMA = """type Seat @table @export {{
  code: ID @primaryKey
  hall: String
  label: String @computed(from: "{expression}") @indexed
  shout: String @computed(from: "hall.upper()") @enumerable
}}
"""
RECORDS = 3000  # more than are indexed at once, on the spot


def test_the_index_follows_the_expression(tmp_path: Path) -> None:
    app = tmp_path / "app"
    app.mkdir()
    schema = app / "schema.graphql"
    schema.write_text(SCHEMA.format(expression="hall + '-' + code"))
    server = Process(tmp_path / "root", app).start()
    try:
        with server.client() as client:
            records = [{"code": f"{n:05}", "hall": f"h{n % 10}"} for n in range(RECORDS)]
            assert client.put("/Seat/", json=records).status_code == 204
            assert client.get("/Seat/?label=h3-00013&select(code)").json() == ["00013"]
            assert client.get("/Seat/00013").json() == {"code": "00013", "hall": "h3", "shout": "H3"}
            assert client.put("/Seat/new", json={"label": "x"}).status_code == 400
        assert server.stop() == 0

        schema.write_text(SCHEMA.format(expression="code[-1] + hall"))
        (app / "bad.graphql").write_text('type Bad @table @export {\n  id: ID\n  a: Int @computed(from: "1 + open(id)")\n}\n')
        server.start()
        wait_until(lambda: "bad.graphql:3:31: @computed of Bad.a: the function open is not known" in server.logged(), server.logged)
        with server.client() as client:
            answer = client.get("/Bad/")
            assert answer.status_code == 503
            assert "the function open is not known" in answer.json()["detail"]
            # Whether the build is still going on depends on the machine; what is answered never does.
            assert client.patch("/Seat/00013", json={"hall": "late"}).status_code == 204

            def found() -> list[str]:
                response = client.get("/Seat/?label=3h3&select(code)")
                if response.status_code == 503:
                    assert response.json()["code"] == "INDEX_REBUILDING"
                    return []
                codes: list[str] = response.json()
                return codes

            assert wait_until(found) == [f"{n:05}" for n in range(3, RECORDS, 10) if n != 13]
            assert client.get("/Seat/?label=3late&select(code)").json() == ["00013"]
            assert client.get("/Seat/?label=sw=h").json() == []
        assert server.stop() == 0
    finally:
        server.kill()
