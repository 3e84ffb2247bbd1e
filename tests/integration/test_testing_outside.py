"""Applications in tests that use what is outside: another service, a web framework with threads of its own."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

import svc.testing
from svc.testing import Application, NotEnded
from tests.unit.testing.conftest import write_application

pytestmark = pytest.mark.programs

CODE = """
    import asyncio
    import httpx
    from fastapi import FastAPI
    from svc import Resource, run_in_thread, server, tables

    SERVICE = "http://127.0.0.1:PORT/"


    class Outside(Resource):
        async def get(self, target=None):
            async with httpx.AsyncClient() as client:
                return (await client.get(SERVICE)).json()


    class OnThread(Resource):
        async def get(self, target=None):
            return (await run_in_thread(httpx.get, SERVICE)).json()


    class Patient(Resource):
        async def get(self, target=None):
            reader, writer = await asyncio.open_connection("127.0.0.1", PORT)
            try:
                async with asyncio.timeout(target.get("seconds") and float(target.get("seconds"))):
                    await reader.read()
            except TimeoutError:
                return "too slow"
            finally:
                writer.close()


    class Source(Resource):
        async def get(self, target=None):
            async with httpx.AsyncClient() as client:
                return (await client.get(SERVICE)).json()


    tables.Cached.source_from(Source)

    api = FastAPI()


    @api.get("/plain")
    def plain():
        return "on a thread of the framework"


    @api.get("/table")
    async def table():
        return [record.id async for record in tables.Cached.search({})]


    server.mount("/api", api)
"""
SCHEMA = "type Cached @table(expiration: 60) @export { id: ID @primaryKey name: String }"


class Service(BaseHTTPRequestHandler):
    asked = 0

    def do_GET(self) -> None:
        Service.asked += 1
        content = b'{"name": "from outside"}'
        self.send_response(200)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *arguments: object) -> None:
        """Nothing."""


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    service = ThreadingHTTPServer(("127.0.0.1", 0), Service)
    thread = threading.Thread(target=service.serve_forever)
    thread.start()
    code = CODE.replace("PORT", str(service.server_port))
    yield write_application(tmp_path_factory.mktemp("outside") / "shop", {"schema.graphql": SCHEMA, "resources.py": code})
    service.shutdown()
    thread.join()
    service.server_close()


@pytest.fixture
def shop(directory: Path) -> Iterator[Application]:
    with svc.testing.app(directory) as shop:
        yield shop


def test_another_service_is_asked(shop: Application) -> None:
    assert shop.get("/Outside").json == shop.get("/OnThread").json == {"name": "from outside"}


def test_a_table_with_a_source_asks_it_again_when_the_record_has_expired(shop: Application) -> None:
    before = Service.asked
    assert [shop.get("/Cached/1").json["name"] for _ in range(3)] == ["from outside"] * 3
    assert Service.asked == before + 1
    shop.clock.advance(61)
    assert shop.get("/Cached/1").status == 200 and Service.asked == before + 2


def test_frameworks_have_their_threads(shop: Application) -> None:
    assert shop.get("/api/plain").json == "on a thread of the framework"
    shop.get("/Cached/1")
    assert shop.get("/api/table").json == ["1"]


def test_the_time_passes_as_outside_while_something_is_outside(shop: Application) -> None:
    assert shop.get("/Patient?seconds=0.05").json == "too slow"


def test_what_never_comes_from_outside_fails_the_test(directory: Path) -> None:
    with svc.testing.app(directory, patience=1.0) as shop:
        with pytest.raises(NotEnded, match=r"the application waits for a connection(.|\n)*Patient\.get"):
            shop.get("/Patient")
        shop.clock.advance(600)  # which does not wait for what is outside
