"""A server that is killed while records of a caching table are fetched, confirmed, evicted, invalidated and written: its files are right, and it goes on."""

from __future__ import annotations

import random
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest

from svc.store.integrity.check import check_database
from tests.integration.conftest import Process

pytestmark = pytest.mark.programs

SCHEMA = """
type Rate @table(expiration: 1, scanInterval: 1) @export { id: ID @primaryKey value: Int name: String @indexed note: String }
type Bare @table(expiration: 1, scanInterval: 1) @export { id: ID @primaryKey value: Int }
"""
CODE = """
import asyncio
from svc import Response, tables

class Origin:
    count = 0
    async def get(self, id, context):
        await asyncio.sleep(0.001)
        type(self).count += 1
        if self.count % 3 == 0 and context.replacing_version:
            return Response(status=304)
        if self.count % 7 == 0:
            return None
        return {"value": self.count, "name": str(self.count % 5), "note": "x" * 200}
    def put(self, id, data, context):
        pass
    def delete(self, id, context):
        pass

class Short(Origin):
    async def get(self, id, context):
        found = await super().get(id, context)
        return {"value": found["value"]} if isinstance(found, dict) else found

class Forget(tables.Rate):
    @classmethod
    async def post(cls, target, data):
        await tables.Rate.invalidate(data["id"])

tables.Rate.source_from(Origin())
tables.Bare.source_from(Short())
"""
REQUESTS = 3000


def use(process: Process, seed: int) -> None:
    """Requests until the server is gone."""
    chance = random.Random(seed)
    try:
        with process.client() as client:
            for _ in range(REQUESTS):
                table, key = chance.choice(("Rate", "Rate", "Bare")), f"k{chance.randrange(60)}"
                act = chance.random()
                if act < 0.6:
                    client.get(f"/{table}/{key}")
                elif act < 0.7:
                    client.get(f"/{table}/{key}", headers={"Cache-Control": "no-cache"})
                elif act < 0.8:
                    client.put(f"/{table}/{key}", json={"value": 1})
                elif act < 0.85:
                    client.delete(f"/{table}/{key}")
                elif act < 0.9:
                    client.get(f"/Rate/?name=={chance.randrange(5)}")
                else:
                    client.post("/Forget/", json={"id": key})
    except httpx.HTTPError:
        pass


def test_the_files_are_right_whenever_it_is_killed(tmp_path: Path) -> None:
    app = tmp_path / "app"
    app.mkdir()
    (app / "schema.graphql").write_text(SCHEMA)
    (app / "resources.py").write_text(CODE)
    env = {"STORAGE_RECLAMATION_THRESHOLD": "0"}
    for attempt in range(3):
        process = Process(tmp_path / "root", app, env=env).start()
        with ThreadPoolExecutor(4) as executor:
            using = [executor.submit(use, process, attempt * 10 + number) for number in range(3)]
            with process.client() as client:
                done = 0
                while done < 400 * (attempt + 1):
                    client.get(f"/Rate/k{done % 60}")
                    done += 1
            process.kill()
            for each in using:
                each.result()
        report = check_database(tmp_path / "root" / "database" / "data", blob_paths=(tmp_path / "root" / "blobs",))
        assert report.ok, report.findings
        assert report.log_entries > 0
    process = Process(tmp_path / "root", app, env=env).start()
    with process.client() as client:
        assert client.get("/Rate/k1").status_code in (200, 404)
    assert process.stop() == 0, process.output()
    unexpected = [line for line in process.logged().splitlines() if "[error]" in line or "Traceback" in line]
    assert not unexpected, unexpected
