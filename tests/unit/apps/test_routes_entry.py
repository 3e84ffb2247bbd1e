"""svc.apps.routes_entry: ASGI applications of an application beside its resources."""

from __future__ import annotations

import sys
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest

from svc.apps import routes_entry
from svc.auth.users import User
from tests.support.application import Application, application

PLAIN = """
async def app(scope, receive, send):
    if scope["type"] == "lifespan":
        while True:
            message = await receive()
            await send({"type": message["type"] + ".complete"})
            if message["type"] == "lifespan.shutdown":
                return
    path = scope["path"][len(scope["root_path"]):]
    status = 200 if path == "/NAME" else 404
    await send({"type": "http.response.start", "status": status, "headers": [(b"content-type", b"text/plain")]})
    await send({"type": "http.response.body", "body": b"NAME " + path.encode()})
"""
REGISTERING = """
def register(router, svc):
    @router.get("/things/{key}")
    async def thing(key: str):
        found = await svc.tables.Plain.get(key)
        return {"stock": found.stock if found else None}
"""
ROOT = {
    "config.yaml": "rest: true\ngraphqlSchema: {files: '*.graphql'}\nresources: {files: resources.py}\nframeworkRoutes: {files: 'routes/**', urlPath: /}\n"
}


def plain(name: str) -> str:
    return PLAIN.replace("NAME", name)


def reload(app: Application, name: str, text: str) -> None:
    (app.node.app.directory / name).write_text(dedent(text))
    app.node.run(app.node.applications.change("app", [name], reloads_code=True))


def text(app: Application, target: str, method: str = "GET") -> tuple[int, bytes]:
    status, _, body = app.wire.ask(method, target)
    return status, body


def messages(app: Application) -> list[str]:
    return app.node.app.entries["frameworkRoutes"].messages


def test_several_modules_are_asked_one_after_the_other(tmp_path: Path) -> None:
    files = {"routes/a.py": plain("a"), "routes/b.py": plain("b"), "routes/things.py": REGISTERING, "routes/_shared.py": "1 / 0"}
    with application(tmp_path, "class Own(Resource):\n    path = '/app/a'\n    def get(self, query=None): return 1\n", files=files) as app:
        assert app.ask("PUT", "/Plain/1", {"stock": 3})[0] == 204
        assert text(app, "/app/b") == (200, b"b /b")
        assert app.ask("GET", "/app/things/1") == (200, {"stock": 3})
        assert app.ask("GET", "/app/a") == (200, 1), "a resource comes first"
        assert text(app, "/app/nothing") == (404, b"a /nothing"), "the first says that nothing is there"
        assert app.ask("GET", "/elsewhere")[0] == 404
        assert app.ask("GET", "/app/docs")[0] == 404


def test_the_whole_address_space_gives_way_to_resources_and_goes_on_to_other_listeners(tmp_path: Path) -> None:
    files = {**ROOT, "routes/a.py": plain("a"), "routes/inner/b.py": plain("b"), "routes/readme.txt": "no module"}
    code = "server.http(lambda request, next: {'last': 1} if request.pathname == '/last' else next(request))\n"
    with application(tmp_path, code, files=files) as app:
        assert text(app, "/a") == (200, b"a /a")
        assert text(app, "/inner/b") == (200, b"b /b")
        assert app.ask("PUT", "/Plain/1", {"stock": 3})[0] == 204
        assert app.ask("GET", "/Plain/1")[1] == {"id": "1", "stock": 3}
        assert app.ask("GET", "/last") == (200, {"last": 1})
        assert text(app, "/nothing") == (404, b"a /nothing")
        assert app.ask("FROBNICATE", "/nothing")[0] in (404, 501)


def test_metrics_have_the_template_of_the_route(tmp_path: Path) -> None:
    with application(tmp_path, "", files={"routes/a.py": plain("a"), "routes/things.py": REGISTERING}) as app:
        app.ask("GET", "/app/things/1")
        app.ask("GET", "/app/things/2")
        app.ask("GET", "/app/a")
        app.ask("GET", "/app/nothing")
        app.ask("GET", "/Plain/1")
        period = app.node.recorder.close()
        assert period is not None
        entries = [each for each in period.iter_entries() if each is not None]
        found = {(each["metric"], each.get("path"), each.get("method"), each.get("type")): each["count"] for each in entries}
        assert found["duration", "app/things/{key}", "GET", "framework-route"] == 2
        assert found["success", "app/things/{key}", "GET", "framework-route"] == 2
        assert found["bytes-sent", "app/things/{key}", "GET", "framework-route"] == 2
        assert found["transfer", "app/things/{key}", "GET", "framework-route"] == 2
        assert found["duration", "app", "GET", "framework-route"] == 2
        assert found["duration", "Plain", "GET", None] == 1


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("import nothing_of_this_name", "routes/bad.py: routes/bad.py:1: ModuleNotFoundError"),
        ("def x(:", "routes/bad.py:1: SyntaxError"),
        ("x = 1", "offers neither `app`, an ASGI application, nor `register(router, svc)`"),
        ("app = register = print", "offers both"),
        ("def app(environ, start_response): pass", "no ASGI 3 application, which is called with (scope, receive, send), but function"),
        ("app = 5", "no ASGI 3 application"),
        ("class app:\n    def __init__(self, scope): pass", "no ASGI 3 application"),
        ("register = 5", "`register` is no function, but int"),
        ("def register(router, svc):\n    svc.server.http(print)\n    1 / 0", "routes/bad.py:3: ZeroDivisionError"),
        ("async def register(router, svc):\n    raise SystemExit", "SystemExit"),
        ("def register(router): pass", "TypeError"),
        (
            "async def app(scope, receive, send):\n    await receive()\n    await send({'type': 'lifespan.startup.failed', 'message': 'no disk'})",
            "has not started: no disk",
        ),
    ],
)
def test_a_module_that_fails_is_reported_and_the_others_are_served(tmp_path: Path, code: str, said: str) -> None:
    files = {"routes/a.py": plain("a"), "routes/bad.py": code}
    with application(tmp_path, "", files=files, healthy=False) as app:
        assert any(said in message for message in messages(app)), messages(app)
        assert text(app, "/app/a") == (200, b"a /a")
        status, body = app.ask("GET", "/app/bad")
        assert status == 503 and said.split(":")[-1].strip() in body["detail"], body
        status, body = app.ask("GET", "/app/bad", X_Forwarded_For="10.0.0.1")
        assert (status, body["detail"]) == (503, "Not available: the application could not be loaded completely")
        assert app.ask("GET", "/elsewhere")[0] == 404
        app.errors.clear()
        reload(app, "routes/bad.py", plain("bad"))
        assert app.node.app.status == "healthy"
        assert text(app, "/app/bad") == (200, b"bad /bad")
        reload(app, "routes/bad.py", code)
        assert app.node.app.status == "error"
        assert text(app, "/app/bad") == (200, b"bad /bad"), "the version before goes on"


def test_a_start_that_never_ends_is_a_fault(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(routes_entry, "LOAD_SECONDS", 0.05)
    code = "import asyncio\nasync def app(scope, receive, send):\n    await asyncio.Event().wait()\n"
    with application(tmp_path, "", files={"routes/a.py": code}, healthy=False) as app:
        assert "has not started within 0.05 s" in messages(app)[0]
        assert app.ask("GET", "/app/x")[0] == 503


def test_without_a_library_register_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("fastapi", "starlette.applications"):
        monkeypatch.setitem(sys.modules, name, None)
    with application(tmp_path, "", files={"routes/a.py": REGISTERING}, healthy=False) as app:
        assert "pip install 'svc[routes]'" in messages(app)[0]


def test_lifespans_end_with_their_version(tmp_path: Path) -> None:
    code = """
    events = []
    async def app(scope, receive, send):
        if scope["type"] == "lifespan":
            for what in ("startup", "shutdown"):
                await receive()
                events.append(what)
                await send({"type": f"lifespan.{what}.complete"})
            return
        await send({"type": "http.response.start", "status": 200})
        await send({"type": "http.response.body"})
    """
    with application(tmp_path, "import routes.a\nevents = routes.a.events", files={"routes/a.py": code}) as app:
        former: Any = app.module.events
        assert former == ["startup"]
        reload(app, "routes/a.py", code + "\n    more = 1")
        app.node.settle()
        assert former == ["startup", "shutdown"]
        assert app.ask("GET", "/app/")[0] == 200


def test_users_are_identified_and_large_bodies_come_whole(tmp_path: Path) -> None:
    code = """
    def register(router, svc):
        from fastapi import Request
        @router.post("/length")
        async def length(request: Request):
            return {"length": len(await request.body()), "user": request.scope["svc.user"].username}
    """
    with application(tmp_path, "", files={"routes/a.py": code, "routes/b.py": plain("b")}) as app:
        app.node.as_user(User("jane"))
        status, _, body = app.wire.ask("POST", "/app/length", b"x" * 600_000)
        assert (status, body) == (200, b'{"length":600000,"user":"jane"}')


def test_a_configuration_that_is_wrong_is_said(tmp_path: Path) -> None:
    files = {"config.yaml": "frameworkRoutes: {files: '../x/*.py'}"}
    with application(tmp_path, "", files=files, healthy=False) as app:
        assert "leads out of the application" in messages(app)[0]


def test_two_applications_at_the_root_are_asked_one_after_the_other(tmp_path: Path) -> None:
    other = tmp_path / "other"
    (other / "routes").mkdir(parents=True)
    (other / "config.yaml").write_text("frameworkRoutes: {files: 'routes/*.py', urlPath: /}")
    (other / "routes" / "b.py").write_text(plain("b"))
    with application(tmp_path, "", files={**ROOT, "routes/a.py": plain("a")}) as app:
        app.node.run(app.node.applications.add(other))
        assert text(app, "/a") == (200, b"a /a")
        assert text(app, "/b") == (200, b"b /b")
        assert text(app, "/c") == (404, b"a /c")
        app.node.run(app.node.applications.remove("app"))
        app.node.settle()
        assert text(app, "/a") == (404, b"b /a")


def test_a_stream_that_says_404_passes_on(tmp_path: Path) -> None:
    code = """
    gone = []
    async def app(scope, receive, send):
        if scope["type"] == "lifespan":
            raise RuntimeError
        await send({"type": "http.response.start", "status": 404})
        try:
            for _ in range(100):
                await send({"type": "http.response.body", "body": b"x" * 100_000, "more_body": True})
        except OSError:
            gone.append(1)
    """
    files = {"routes/a.py": code, "routes/b.py": plain("b")}
    with application(tmp_path, "import routes.a\ngone = routes.a.gone", files=files) as app:
        assert text(app, "/app/b") == (200, b"b /b")
        app.node.settle()
        assert app.module.gone == [1]
        assert not app.errors


def test_a_body_can_be_taken_by_each_of_them(tmp_path: Path) -> None:
    code = """
    async def app(scope, receive, send):
        if scope["type"] == "lifespan":
            raise RuntimeError
        message = await receive()
        size = len(message["body"])
        await send({"type": "http.response.start", "status": STATUS})
        await send({"type": "http.response.body", "body": str(size).encode()})
    """
    files = {"routes/a.py": code.replace("STATUS", "404"), "routes/b.py": code.replace("STATUS", "201")}
    with application(tmp_path, "", files=files) as app:
        for size in (0, 10, 600_000):
            status, _, body = app.wire.ask("POST", "/app/x", b"x" * size)
            assert (status, body) == (201, str(size).encode())


def test_a_code_of_a_route_that_fails_is_500_without_details(tmp_path: Path) -> None:
    with application(tmp_path, "", files={"routes/a.py": "async def app(scope, receive, send):\n    raise KeyError('secret')\n"}) as app:
        status, body = app.ask("GET", "/app/x")
        assert status == 500 and "secret" not in str(body)
        app.errors.clear()


def test_a_start_that_holds_the_loop_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(routes_entry, "LOAD_SECONDS", 0.05)
    code = "async def app(scope, receive, send):\n    await receive()\n    while True: pass\n"
    with application(tmp_path, "", files={"routes/a.py": code}, healthy=False) as app:
        assert "the application has not started: it has not ended loading within 0.05 s" in messages(app)[0]
        assert app.ask("GET", "/app/x")[0] == 503


def test_starlette_alone_has_a_router(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "fastapi", None)
    code = """
    from starlette.responses import PlainTextResponse
    def register(router, svc):
        async def hello(request):
            return PlainTextResponse("hello " + request.path_params["name"])
        router.add_route("/hello/{name}", hello)
    """
    with application(tmp_path, "", files={"routes/a.py": code}) as app:
        assert text(app, "/app/hello/you") == (200, b"hello you")


def test_the_address_may_have_any_characters(tmp_path: Path) -> None:
    directory = tmp_path / "my größe"
    (directory / "routes").mkdir(parents=True)
    (directory / "routes" / "a.py").write_text(plain("a"))
    with application(tmp_path, "") as app:
        added = app.node.run(app.node.applications.add(directory))
        assert added.status == "healthy", added.entries
        assert text(app, "/my%20gr%C3%B6%C3%9Fe/a") == (200, b"a /a")


def test_a_fault_counts_as_one_of_the_route(tmp_path: Path) -> None:
    with application(tmp_path, "", files={"routes/a.py": "async def app(scope, receive, send):\n    raise KeyError('x')\n"}) as app:
        app.ask("GET", "/app/x")
        app.errors.clear()
        period = app.node.recorder.close()
        assert period is not None
        found = {(each["metric"], each.get("path"), each.get("type")) for each in period.iter_entries() if each is not None}
        assert ("success", "app", "framework-route") in found


@pytest.mark.parametrize("status", [201, 404])
def test_a_long_body_is_received_while_it_comes_by_one_application(tmp_path: Path, status: int) -> None:
    code = f"""
    async def app(scope, receive, send):
        if scope["type"] == "lifespan":
            raise RuntimeError
        size, messages, more = 0, 0, True
        while more:
            message = await receive()
            size, messages, more = size + len(message["body"]), messages + 1, message["more_body"]
        await send({{"type": "http.response.start", "status": {status}}})
        await send({{"type": "http.response.body", "body": str(size).encode()}})
    """
    with application(tmp_path, "", files={"routes/a.py": code}) as app:
        for size in (10, 600_000):
            found, _, body = app.wire.ask("POST", "/app/x", b"x" * size)
            assert (found, body) == (status, str(size).encode())


SIZES = """
    async def app(scope, receive, send):
        if scope["type"] == "lifespan":
            raise RuntimeError
        size, more = 0, True
        while more:
            message = await receive()
            size, more = size + len(message["body"]), message["more_body"]
        status = 201 if scope["path"].endswith("/NAME") else 404
        await send({"type": "http.response.start", "status": status})
        await send({"type": "http.response.body", "body": b"NAME %d" % size})
"""


def test_the_root_takes_nothing_from_applications_of_longer_paths_and_of_the_same(tmp_path: Path) -> None:
    """The one at `/` loads first. Bodies above 256 KiB, whose pieces can be taken once, and 404s are those of the application that has the address."""
    files = {**ROOT, "routes/a.py": SIZES.replace("NAME", "a")}
    with application(tmp_path, "", files=files) as app:
        for name, path in (("other", "."), ("third", "/")):
            directory = tmp_path / name
            (directory / "routes").mkdir(parents=True)
            (directory / "config.yaml").write_text(f"frameworkRoutes: {{files: 'routes/*.py', urlPath: {path}}}")
            (directory / "routes" / "b.py").write_text(dedent(SIZES.replace("NAME", name)))
            app.node.run(app.node.applications.add(directory))
        for size in (10, 600_000):
            for target, answer in [
                ("/a", (201, f"a {size}")),
                ("/other/other", (201, f"other {size}")),
                ("/third", (201, f"third {size}")),
                ("/other/unknown", (404, f"other {size}")),
                ("/unknown", (404, f"a {size}")),
            ]:
                status, _, body = app.wire.ask("POST", target, b"x" * size)
                assert (status, body.decode()) == answer, target
        assert not app.errors
