"""svc.run_in_thread in the real program: others are served meanwhile, and nothing of it outlives the process (spec: configuration §9.4)."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.integration.conftest import Process

pytestmark = pytest.mark.programs

SOURCE = """\
import asyncio
import threading
import time

from svc import Resource, get_user, run_in_thread, tables

go_on = threading.Event()


def block():
    assert go_on.wait(60)
    return get_user().username


class Blocks(Resource):
    load_as_instance = False

    async def get(self, target):
        rows = len(await tables.Seat.search().to_list())
        return {"user": await run_in_thread(block), "rows": rows}

    def post(self, target, data):
        go_on.set()
        return {"ok": True}


class Leaves(Resource):
    load_as_instance = False

    def post(self, target, data):
        self.kept.append(asyncio.create_task(run_in_thread(time.sleep, 3600)))
        return {"ok": True}

    kept = []
"""


@pytest.fixture
def process(tmp_path: Path) -> Iterator[Process]:
    shop = tmp_path / "shop"
    shop.mkdir()
    (shop / "resources.py").write_text(SOURCE)
    (shop / "schema.graphql").write_text("type Seat @table { id: ID @primaryKey }")
    process = Process(tmp_path / "root", shop).start()
    yield process
    process.kill()


def test_others_are_served_while_a_function_blocks(process: Process) -> None:
    with process.client() as client, process.client() as another, ThreadPoolExecutor(1) as threads:
        blocked = threads.submit(client.get, "/Blocks/")
        assert another.post("/Blocks/", json={}).status_code == 200
        answer = blocked.result(60)
        assert (answer.status_code, answer.json()) == (200, {"user": "admin", "rows": 0})
    held = process.operate("get_status").json().get("heldLoop", {"handlers": []})
    assert "block" not in [handler["function"] for handler in held["handlers"]]
    assert process.stop() == 0


def test_a_function_that_never_returns_does_not_keep_the_process(process: Process) -> None:
    with process.client() as client:
        for _ in range(20):
            assert client.post("/Leaves/", json={}).status_code == 200
    assert process.stop() == 0
    assert "[error]" not in process.logged()
