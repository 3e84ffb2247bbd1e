"""svc.apps.applications: `urlPath` and `host` of an application's entry in the configuration of the service."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.support.application import Application, application

CODE = """
server.http(lambda request, next: {"path": request.pathname}, url_path="/listener")
server.http(lambda request, next: next(request) if request.pathname != "/free" else {"free": 1})
class Greeting(Resource):
    def allow_read(self, user, target):
        return True
    def get(self, query=None):
        return "hello"
"""
ROUTES = """
def register(router, svc):
    @router.get("/things")
    async def things():
        return {"things": 1}
"""
PLUGIN = """
def handle_application(scope):
    scope.server.http(lambda request, next: {"plugin": request.pathname}, url_path="plugin")
    class Word(Resource):
        def allow_read(self, user, target):
            return True
        def get(self, query=None):
            return "word"
    scope.resources.set("Word", Word)
"""
FILES = {
    "config.yaml": "rest: true\ngraphqlSchema: {files: '*.graphql'}\nresources: {files: resources.py}\n"
    "frameworkRoutes: {files: 'routes/*.py', urlPath: .}\nplugin: {package: ./plugin.py}\n",
    "routes/a.py": ROUTES,
    "plugin.py": PLUGIN,
}


def mount(app: Application, options: Any) -> str:
    node = app.node
    node.applications.runtime.components = {"app": options}
    node.run(node.applications.add(node.app.directory))
    return node.app.status


def test_a_prefix_is_for_handlers_and_not_for_resources(tmp_path: Path) -> None:
    with application(tmp_path, CODE, files=FILES) as app:
        assert app.ask("GET", "/listener/x") == (200, {"path": "/x"})
        assert app.ask("GET", "/app/things") == (200, {"things": 1})
        assert app.ask("GET", "/free") == (200, {"free": 1})
        assert mount(app, {"urlPath": "/shop/"}) == "healthy"
        assert app.ask("GET", "/shop/listener/x") == (200, {"path": "/x"})
        assert app.ask("GET", "/shop/app/things") == (200, {"things": 1})
        assert app.ask("GET", "/shop/plugin/a") == (200, {"plugin": "/a"})
        assert app.ask("GET", "/shop/free") == (200, {"free": 1})
        for gone in ("/listener/x", "/app/things", "/plugin/a", "/free", "/shop/Greeting/"):
            assert app.ask("GET", gone)[0] == 404, gone
        assert app.ask("GET", "/Greeting/") == (200, "hello")
        assert app.ask("GET", "/Word/") == (200, "word")
        assert app.ask("PUT", "/Plain/1", {"stock": 1})[0] == 204
        assert mount(app, {"urlPath": "."}) == "healthy"
        assert app.ask("GET", "/app/listener/x") == (200, {"path": "/x"})


def test_a_host(tmp_path: Path) -> None:
    with application(tmp_path, CODE, files=FILES) as app:
        assert mount(app, {"host": "Shop.example"}) == "healthy"
        assert app.ask("GET", "/app/things")[0] == 404
        sent = app.node.connect().send(b"GET /app/things HTTP/1.1\r\nHost: shop.example:9926\r\n\r\n")
        assert sent.startswith(b"HTTP/1.1 200")
        assert app.ask("GET", "/Greeting/") == (200, "hello")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"urlPath": "/a/../b"}, "urlPath must have no empty segments"),
        ({"urlPath": 5}, "urlPath must be a string"),
        ({"urlPath": "/a?b"}, "urlPath is a path alone"),
        ({"host": ["x"]}, "host must be a string"),
    ],
)
def test_what_is_no_mount_is_a_fault(tmp_path: Path, options: Any, said: str) -> None:
    with application(tmp_path, CODE, files=FILES) as app:
        assert mount(app, options) == "error"
        assert said in app.node.app.entries["config"].messages[0]
        assert app.ask("GET", "/app/things") == (200, {"things": 1}), "the version before goes on"
        assert mount(app, {}) == "healthy"
        node = app.node
        node.run(node.applications.remove("app"))
        assert mount(app, options) == "error" or node.applications.get("app").status == "error"  # type: ignore[union-attr]
        status, body = app.ask("GET", "/Greeting/")
        assert status == 503 and said in body["detail"]


def test_other_entries_of_the_service_mean_nothing(tmp_path: Path) -> None:
    with application(tmp_path, CODE, files=FILES) as app:
        for options in (True, None, "x", {"package": "x"}):
            assert mount(app, options) == "healthy"


def test_the_lifespan_of_a_version_that_was_loaded_while_the_instance_serves_is_ended_by_a_message(tmp_path: Path) -> None:
    code = """
    said = []
    async def app(scope, receive, send):
        if scope["type"] == "lifespan":
            for _ in range(2):
                kind = (await receive())["type"]
                said.append(kind)
                await send({"type": f"{kind}.complete"})
    server.mount("/m", app)
    """
    with application(tmp_path, code) as app:
        app.node.mounts.begin()
        modules: list[Any] = [app.module]
        for _ in range(2):
            app.node.settle()
            app.node.run(app.node.applications.reload("app"))
            assert app.node.app.modules is not None
            modules += app.node.app.modules.loaded
        app.node.settle()
        assert [module.said for module in modules] == [["lifespan.startup", "lifespan.shutdown"]] * 2 + [["lifespan.startup"]]
