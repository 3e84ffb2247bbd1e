"""A caching table in the real program, whose source is a program of its own; two servers on one set of databases."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from textwrap import dedent
from typing import Any

import httpx
import pytest

from tests.integration.conftest import Process
from tests.support.ports import free_port
from tests.support.waiting import wait_until

pytestmark = pytest.mark.programs

# What a Rate is expires in no time, and that of a Kept record not while a test runs, however slow the machine.
SCHEMA = """
type Rate @table(expiration: 2, eviction: 1, scanInterval: 1) @export { id: ID @primaryKey value: Int name: String @indexed }
type Kept @table(expiration: 3600) @export { id: ID @primaryKey value: Int name: String @indexed }
"""
CODE = """
import httpx
from svc import Resource, config, get_context, tables

client = httpx.AsyncClient(base_url="http://127.0.0.1:{port}", timeout=600, limits=httpx.Limits(max_keepalive_connections=0))


class Origin(Resource):
    async def get(self, query=None):
        context = get_context()
        fields = {{"If-None-Match": str(context.replacing_version)}} if context.replacing_version else {{}}
        return await client.get(f"/rates/{{self.get_id()}}", headers=fields)

    async def put(self, data, query=None):
        (await client.put(f"/rates/{{self.get_id()}}", json=data)).raise_for_status()

    async def delete(self, query=None):
        (await client.delete(f"/rates/{{self.get_id()}}")).raise_for_status()


tables.Rate.source_from(Origin)
tables.Kept.source_from(Origin)
"""


class Origin:
    """The service that the source asks."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.process: subprocess.Popen[str] | None = None
        self.start()

    def start(self) -> None:
        command = [sys.executable, "-m", "tests.support.origin_service", str(self.port)]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert self.process.stdout is not None and self.process.stdout.readline() == "ready\n"

    def stop(self) -> None:
        assert self.process is not None
        self.process.kill()
        self.process.communicate()

    def set(self, **settings: Any) -> None:
        httpx.post(f"http://127.0.0.1:{self.port}/control", json={"delay": 0.0, "status": 200, **settings})

    @property
    def calls(self) -> list[Any]:
        return httpx.get(f"http://127.0.0.1:{self.port}/calls").json()  # type: ignore[no-any-return]


@pytest.fixture(scope="module")
def origin() -> Iterator[Origin]:
    origin = Origin(free_port())
    yield origin
    origin.stop()


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory, origin: Origin) -> Iterator[list[Process]]:
    """Two, whose databases are the same."""
    directory = tmp_path_factory.mktemp("caching")
    app = directory / "app"
    app.mkdir()
    (app / "schema.graphql").write_text(SCHEMA)
    (app / "resources.py").write_text(dedent(CODE.format(port=origin.port)))
    env = {"STORAGE_PATH": str(directory / "shared"), "STORAGE_RECLAMATION_THRESHOLD": "0"}
    processes = [Process(directory / name, app, env=env).start() for name in ("first", "second")]
    yield processes
    for process in processes:
        assert process.stop() == 0, process.output()
        unexpected = [line for line in process.logged().splitlines() if "Traceback" in line or "[fatal]" in line]
        assert not unexpected, unexpected


@pytest.fixture
def clients(servers: list[Process]) -> Iterator[list[httpx.Client]]:
    with servers[0].client() as first, servers[1].client() as second:
        yield [first, second]


def test_one_call_on_all_servers(clients: list[httpx.Client], origin: Origin) -> None:
    """Whoever asks while a call is under way, on whichever server, waits for it."""
    origin.set(delay=1.0)

    def ask(number: int) -> httpx.Response:
        return clients[number % 2].get("/Kept/single")

    with ThreadPoolExecutor(20) as executor:
        answers = list(executor.map(ask, range(20)))
    assert {answer.status_code for answer in answers} == {200}
    assert {answer.json()["value"] for answer in answers} == {1} and len({answer.headers["etag"] for answer in answers}) == 1
    assert origin.calls == [["GET", "single", None]]
    hit = clients[1].get("/Kept/single")
    assert hit.json()["value"] == 1 and int(hit.headers["age"]) >= 0 and "miss" not in hit.headers["server-timing"]
    fetched = next(answer for answer in answers if "miss" in answer.headers["server-timing"])
    assert "cache-resolve;dur=" in fetched.headers["server-timing"]


def test_a_server_that_is_killed_leaves_no_lock(tmp_path: Path, origin: Origin) -> None:
    app = tmp_path / "app"
    app.mkdir()
    (app / "schema.graphql").write_text(SCHEMA)
    (app / "resources.py").write_text(dedent(CODE.format(port=origin.port)))
    env = {"STORAGE_PATH": str(tmp_path / "shared"), "STORAGE_RECLAMATION_THRESHOLD": "0"}
    first, second = (Process(tmp_path / name, app, env=env).start() for name in ("a", "b"))
    origin.set(delay=600.0)
    with ThreadPoolExecutor(2) as executor:
        lost = executor.submit(_get, first, "/Kept/k")
        wait_until(lambda: len(origin.calls) == 1)
        origin.set(delay=0.0)
        waiting = executor.submit(_get, second, "/Kept/k")
        first.kill()
        assert waiting.result().status_code == 200
        with pytest.raises(httpx.HTTPError):
            lost.result()
    assert len(origin.calls) == 1
    assert second.stop() == 0


def test_a_source_that_is_wrong_or_away(clients: list[httpx.Client], origin: Origin) -> None:
    client = clients[0]
    origin.set()
    first = client.get("/Kept/w")
    assert first.json()["value"] == 1
    origin.set(status=503)
    no_cache = {"Cache-Control": "no-cache"}
    assert client.get("/Kept/w", headers=no_cache).status_code == 503
    assert client.get("/Kept/w", headers={"Cache-Control": "no-cache, stale-if-error"}).json()["value"] == 1
    assert client.get("/Kept/other").status_code == 503 and "Kept 'other'" in client.get("/Kept/other").json()["detail"]
    origin.stop()
    stale = client.get("/Kept/w", headers=no_cache)
    assert stale.json()["value"] == 1 and "age" in stale.headers
    assert client.get("/Kept/w", headers={"Cache-Control": "no-cache, must-revalidate"}).status_code == 502
    assert client.get("/Kept/other").status_code == 502
    assert client.put("/Kept/w", json={"value": 5}).status_code == 502
    assert client.get("/Kept/w", headers={"Cache-Control": "only-if-cached"}).json()["value"] == 1
    origin.start()
    assert client.put("/Kept/w", json={"value": 5}).status_code == 204 and client.get("/Kept/w").json()["value"] == 5
    assert client.delete("/Kept/w").status_code == 204
    assert [call[:2] for call in origin.calls] == [["PUT", "w"], ["DELETE", "w"]]


def test_confirmed_expired_and_evicted(clients: list[httpx.Client], origin: Origin) -> None:
    client = clients[1]
    origin.set()
    first = client.get("/Kept/c")
    origin.set(status=304)
    confirmed = client.get("/Kept/c", headers={"Cache-Control": "no-cache"})
    assert confirmed.headers["etag"] == first.headers["etag"] and confirmed.json() == first.json()
    assert origin.calls[0][2] is not None, "the source was told what there is"
    first = client.get("/Rate/e")
    origin.set()
    wait_until(lambda: client.get("/Rate/e", headers={"Cache-Control": "only-if-cached"}).status_code == 504)  # evicted
    found = client.get("/Rate/", params={"name": first.json()["name"]}).json()
    assert any(each["id"] == "e" and "value" in each for each in found)
    assert ["GET", "e", None] in origin.calls


def test_metrics(servers: list[Process], clients: list[httpx.Client], origin: Origin) -> None:
    origin.set()
    client = clients[0]
    begin = time.time() * 1000 - 2000
    for _ in range(3):
        client.get("/Kept/metrics")
    found: set[tuple[str, Any, Any]] = set()

    def has_all() -> bool:
        rows = (
            servers[0]
            .operate(
                "search_by_conditions",
                database="system",
                table="svc_raw_analytics",
                conditions=[{"attribute": "id", "comparator": "between", "value": [begin, time.time() * 1000 + 1000]}],
                get_attributes=["metrics"],
            )
            .json()
        )
        for row in rows:
            found.update((entry["metric"], entry.get("path"), entry.get("type")) for entry in row["metrics"])
        return {
            ("cache-hit", "Kept", None),
            ("cache-resolution", "Kept", None),
            ("duration", "Kept", "cache-hit"),
            ("duration", "Kept", "cache-miss"),
        } <= found

    wait_until(has_all)


def _get(process: Process, path: str) -> httpx.Response:
    with process.client() as client:
        return client.get(path)
