"""Writes that other nodes have to confirm, of requests and of code of applications (spec: replication §8)."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from svc.errors import ServerError
from tests.support.application import Application, application

CODE = """
from svc import Resource, get_context, tables, transaction

class Sure(Resource):
    async def post(self, data, query=None):
        get_context().replicated_confirmation = data["count"]
        await tables.Seat.put("a", {"stock": 1})
        if data.get("fails"):
            raise ValueError("no")
        return {"stock": 1}

async def alone(count):
    async with transaction() as txn:
        get_context().replicated_confirmation = count
        await tables.Seat.put("b", {"stock": 2})
"""


class FakeRemote:
    """Two other nodes; whoever waits for both waits in vain."""

    def __init__(self) -> None:
        self.waited: list[tuple[list[str] | None, int]] = []

    def count_nodes(self) -> int:
        return 2

    async def wait(self, databases: Iterable[str] | None, count: int) -> None:
        self.waited.append((None if databases is None else list(databases), count))
        await asyncio.sleep(0)
        if count > 1:
            raise ServerError("not in time", 504, "NOT_CONFIRMED")


@pytest.fixture
def app(tmp_path: Path) -> Iterator[Application]:
    with application(tmp_path, CODE) as found:
        yield found


@pytest.fixture
def remote(app: Application) -> FakeRemote:
    found = FakeRemote()
    app.node.store.remote_commits = found
    return found


def test_requests_of_rest(app: Application, remote: FakeRemote) -> None:
    assert app.ask("PUT", "/Show/x", {"title": "t"})[0] == 204 and not remote.waited
    assert app.ask("PUT", "/Show/x", {"title": "u"}, x_replicate_to=";confirm=1")[0] == 204
    assert remote.waited == [(["data"], 1)]
    status, body = app.ask("PATCH", "/Show/x", {"title": "v"}, x_replicate_to="*;confirm=2")
    assert (status, body["code"]) == (504, "NOT_CONFIRMED")
    assert app.ask("GET", "/Show/x", x_replicate_to=";confirm=2")[1]["title"] == "v", "it stands, and nothing is waited for to read it"
    status, body = app.ask("PUT", "/Show/y", {"title": "t"}, x_replicate_to=";confirm=3")
    assert (status, body["code"]) == (400, "VALIDATION") and app.ask("GET", "/Show/y")[0] == 404
    assert app.ask("PUT", "/Show/y", {"title": 5}, x_replicate_to=";confirm=1")[0] == 400
    assert app.ask("DELETE", "/Show/x", x_replicate_to=";confirm=1")[0] in (200, 204)
    assert [count for _, count in remote.waited] == [1, 2, 1]


def test_code_of_an_application(app: Application, remote: FakeRemote) -> None:
    assert app.ask("POST", "/Sure/", {"count": 1}) == (200, {"stock": 1})
    assert app.ask("POST", "/Sure/", {"count": 2})[0] == 504
    assert app.ask("POST", "/Sure/", {"count": 1, "fails": True})[0] == 500
    assert app.ask("POST", "/Sure/", {"count": "1"})[0] == 500
    assert [count for _, count in remote.waited] == [1, 2]
    app.run(app.module.alone(1))
    assert remote.waited[-1] == (["data"], 1)
    with pytest.raises(ServerError):
        app.run(app.module.alone(2))
    assert app.ask("GET", "/Seat/b")[0] in (200, 404)


def test_without_other_nodes_nothing_is_waited_for(app: Application) -> None:
    assert app.ask("PUT", "/Show/x", {"title": "u"}, x_replicate_to=";confirm=7")[0] == 204
    assert app.ask("POST", "/Sure/", {"count": 5}) == (200, {"stock": 1})
    app.run(app.module.alone(3))
