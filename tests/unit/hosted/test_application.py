"""`svc.asgi`: what it takes, and what it answers when it does not run."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import Any

import pytest

import svc
from svc.hosted.application import HostedApplication, NotStarted, options_of
from tests.support.node import APP
from tests.support.prepared import place_token_keys


def run(work: Any) -> Any:
    return asyncio.run(asyncio.wait_for(work, 30))


async def call(app: Any, scope: dict[str, Any], *messages: Any) -> list[Any]:
    """What a host is sent."""
    sent: list[Any] = []
    queue = list(messages)

    async def receive() -> Any:
        if not queue:
            await asyncio.Event().wait()
        return queue.pop(0)

    async def send(message: Any) -> None:
        sent.append(message)

    await app(scope, receive, send)
    return sent


def http(path: str = "/Product/", method: str = "GET") -> dict[str, Any]:
    return {
        "type": "http",
        "http_version": "1.1",
        "method": method,
        "scheme": "http",
        "path": path,
        "raw_path": path.encode(),
        "query_string": b"",
        "root_path": "",
        "headers": [(b"host", b"localhost")],
        "client": ("127.0.0.1", 1),
    }


@pytest.fixture
def app(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> HostedApplication:
    monkeypatch.setenv("HOME", str(tmp_path))
    place_token_keys(tmp_path / "root")
    settings = {"authentication_authorizeLocal": True, "operationsApi_metrics_access": "open"}
    return svc.asgi(APP, root=tmp_path / "root", svc_admin_password="a good password", **settings)


def test_arguments(tmp_path: Path) -> None:
    assert isinstance(svc.asgi(str(APP)), HostedApplication)
    with pytest.raises(ValueError, match="not a directory of an application"):
        svc.asgi(tmp_path / "none")
    with pytest.raises(TypeError, match="'loging_level' is not a setting"):
        svc.asgi(APP, loging_level="debug")
    with pytest.raises(TypeError, match="not a setting"):
        svc.asgi(APP, workers=4)
    assert options_of({"http_corsAccessList": ["a"], "logging_level": "info", "http_port": None}) == {
        "HTTP_CORSACCESSLIST": '["a"]',
        "LOGGING_LEVEL": "info",
        "HTTP_PORT": "null",
    }


@pytest.mark.parametrize("kind", ["http", "websocket"])
def test_without_lifespan_it_says_so(app: HostedApplication, kind: str, caplog: pytest.LogCaptureFixture) -> None:
    async def case() -> list[Any]:
        return [await call(app, http() | {"type": kind}), await call(app, http() | {"type": kind})]

    first, second = run(case())
    assert first == second and len([record for record in caplog.records if "lifespan" in record.message]) == 1
    if kind == "http":
        assert first[0]["status"] == 500 and b"has to run the lifespan" in first[1]["body"]
    else:
        assert first[0]["type"] == "websocket.close"


def test_other_scopes(app: HostedApplication) -> None:
    with pytest.raises(ValueError, match="not mqtt"):
        run(call(app, {"type": "mqtt"}))
    with pytest.raises(ValueError, match="by http alone"):
        run(call(app.operations, {"type": "websocket"}))


def test_running(app: HostedApplication) -> None:
    async def case() -> None:
        before = asyncio.all_tasks()
        for _ in range(2):  # it can be started again
            assert app.instance is None
            async with app.running():
                assert app.instance is not None and app.instance.is_ready
                sent = await call(app, http())
                assert sent[0]["status"] == 200 and sent[1]["body"] == b"[]"
                assert (await call(app.operations, http("/health")))[0]["status"] in (200, 204)
                sent = await call(app.operations, http("/metrics"))
                assert sent[0]["status"] == 200 and b"\nsvc_ready 1\n" in b"".join(message["body"] for message in sent[1:])
                with pytest.raises(NotStarted, match="by another lifespan"):
                    async with app.running():
                        pass
                other = svc.asgi(APP, root=app.options["ROOTPATH"])
                with pytest.raises(NotStarted, match="one worker"):
                    async with other.running():
                        pass
                assert (await call(app, http()))[0]["status"] == 200
        assert asyncio.all_tasks() == before

    run(case())


def test_an_instance_on_another_loop_is_not_used(app: HostedApplication) -> None:
    async def case() -> None:
        async with app.running():
            sent = await asyncio.to_thread(lambda: asyncio.run(call(app, http())))
            assert sent[0]["status"] == 500

    run(case())


def test_the_lifespan_of_a_host(app: HostedApplication) -> None:
    async def case() -> list[Any]:
        return await call(app, {"type": "lifespan"}, {"type": "lifespan.startup"}, {"type": "lifespan.shutdown"})

    assert [message["type"] for message in run(case())] == ["lifespan.startup.complete", "lifespan.shutdown.complete"]


def test_a_start_that_fails(app: HostedApplication) -> None:
    app.options["LOGGING_LEVEL"] = "loud"

    async def case() -> list[Any]:
        return await call(app, {"type": "lifespan"}, {"type": "lifespan.startup"})

    (sent,) = run(case())
    assert sent["type"] == "lifespan.startup.failed" and "svc cannot be started" in sent["message"] and "logging.level" in sent["message"]


def test_ports_of_listeners_are_refused(app: HostedApplication, tmp_path: Path) -> None:
    directory = tmp_path / "listening"
    directory.mkdir()
    (directory / "resources.py").write_text(
        "from svc import server\n"
        "server.http(lambda request, next: {'listener': request.pathname}, url_path='/here')\n"
        "try:\n    server.http(lambda request, next: None, port=19999)\n"
        "except ValueError as error:\n    said = str(error)\n    server.http(lambda request, next: {'said': said}, url_path='/said')\n"
    )
    app.directory = directory
    app.options["HTTP_PORT"] = "null"

    async def case() -> None:
        async with app.running():
            assert (await call(app, http("/here/x")))[1]["body"] == b'{"listener":"/x"}'
            assert b"the ports are that server's" in (await call(app, http("/said")))[1]["body"]

    run(case())


def test_changed_files_take_effect_or_wait_as_under_svc_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    place_token_keys(tmp_path / "root")
    directory = tmp_path / "shop"
    directory.mkdir()
    (directory / "schema.graphql").write_text("type Thing @table @export { id: ID @primaryKey }\n")
    (directory / "resources.py").write_text("class Version(Resource):\n    def get(self, query=None): return 1\n")
    app = svc.asgi(directory, root=tmp_path / "root", authentication_authorizeLocal=True, svc_admin_password="a good password")

    async def status_of(path: str) -> int:
        return int((await call(app, http(path), {"type": "http.request", "body": b""}))[0]["status"])

    async def work() -> None:
        async with app.running():
            node = app.instance.node  # type: ignore[union-attr]
            (directory / "resources.py").write_text("class Newer(Resource):\n    def get(self, query=None): return 2\n")
            (directory / "schema.graphql").write_text("type Other @table @export { id: ID @primaryKey }\n")
            for _ in range(6000):
                if node.status.restart_required and await status_of("/Other/") == 200:
                    break
                await asyncio.sleep(0.01)
            assert node.status.restart_reasons == ["component shop: resources.py"]
            assert (await status_of("/Version/"), await status_of("/Newer/")) == (200, 404)
            assert await node.reload() == []
            assert (await status_of("/Version/"), await status_of("/Newer/")) == (404, 200)
            assert not node.status.restart_required

    run(work())
    assert not any(thread.name == "watch" for thread in threading.enumerate())
