"""An application that holds the loop, or forgets to await, is told so in the log of a real server (spec: configuration §9.3)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.integration.conftest import Process
from tests.support.waiting import wait_until

pytestmark = pytest.mark.programs

SOURCE = """\
import asyncio
import time

from svc import Resource, tables


def work(seconds):
    time.sleep(seconds)


async def forgotten():
    raise ValueError("unseen")


class Slow(Resource):
    load_as_instance = False

    def get(self, target):
        work(float(target.get("seconds")))
        return {"ok": True}


class Later(Resource):
    load_as_instance = False

    async def get(self, target):
        await asyncio.sleep(0)
        time.sleep(0.2)
        return {"ok": True}


class Careless(Resource):
    load_as_instance = False

    def get(self, target):
        forgotten()
        return {"ok": True}

    def put(self, target, data):
        tables.Seat.put("a", {})

    async def post(self, target, data):
        asyncio.create_task(forgotten())
        return {"ok": True}
"""


@pytest.fixture
def careless(tmp_path: Path) -> Iterator[Process]:
    shop = tmp_path / "shop"
    shop.mkdir()
    (shop / "resources.py").write_text(SOURCE)
    (shop / "schema.graphql").write_text("type Seat @table { id: ID @primaryKey }")
    process = Process(tmp_path / "root", shop).start()
    yield process
    process.kill()


def wait_for_line(process: Process, text: str) -> str:
    def lines() -> list[str]:
        return [line for line in process.logged().splitlines() if text in line]

    return wait_until(lines, lambda: f"{text!r} is not in the log: {process.logged()}")[0]


def named_in_status(process: Process) -> dict[str, Any]:
    """What the status says of handlers that have held the loop, by the names of their functions."""
    held = process.operate("get_status").json().get("heldLoop") or {}
    return {handler["function"]: handler for handler in held.get("handlers", ())}


def test_who_held_the_loop_is_in_the_log_and_in_the_status(careless: Process) -> None:
    with careless.client() as client:
        # Who holds the loop is sampled, and on a busy machine a sample may come late: so until each has been seen.
        for path, name in (("/Slow/?seconds=0.2", "work"), ("/Later/", "Later.get")):

            def is_seen(path: str = path, name: str = name) -> bool:
                assert client.get(path).status_code == 200
                return name in named_in_status(careless)

            wait_until(is_seen, careless.logged)
    line = wait_for_line(careless, "work (resources.py, line 8) held the loop")
    assert "[warn] [shop]" in line
    wait_for_line(careless, "Later.get (resources.py, line 28) held the loop")
    assert careless.logged().count("work (resources.py") == 1
    held = careless.operate("get_status").json()["heldLoop"]
    handlers = named_in_status(careless)
    assert handlers["work"]["count"] >= 1 and handlers["work"]["file"] == "resources.py"
    assert handlers["work"]["longestMs"] >= 200
    assert handlers["Later.get"]["count"] >= 1
    assert held["applications"] >= 2
    assert careless.stop() == 0


def test_what_was_never_awaited_is_an_error_with_its_line(careless: Process) -> None:
    with careless.client() as client:
        for _ in range(3):
            assert client.get("/Careless/").status_code == 200
        assert client.post("/Careless/", json={}).status_code == 200
    line = wait_for_line(careless, "coroutine 'forgotten' was never awaited")
    assert "[error] [shop]: resources.py, line 36: " in line
    assert careless.logged().count("was never awaited") == 1
    line = wait_for_line(careless, "nobody has awaited it")
    assert "[error] [shop]: resources.py, line 12: forgotten failed" in line
    with careless.client() as client:
        for _ in range(3):
            assert client.put("/Careless/1", json={}).status_code == 204
    line = wait_for_line(careless, "a call in Careless.put was never awaited")
    assert "[error] [shop]: resources.py, line 40: " in line
    assert careless.logged().count("a call in Careless.put") == 1
    assert careless.stop() == 0
    assert "never awaited" not in careless.output()
