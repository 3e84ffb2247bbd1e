"""svc.apps.plugins.entry: plugins in applications, from the entry of config.yaml to the end."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Any

import pytest

from svc.api.running import TIMEOUT
from tests.support.plugins import BADWORDS, BASE, change, config, messages, plugin


def test_the_plugin_of_bad_words(tmp_path: Path) -> None:
    with plugin(tmp_path, BADWORDS) as app:
        assert app.ask("PUT", "/Plain/1", {"stock": 1})[0] == 204
        assert app.ask("GET", "/Plain/darn")[0] == 422
        assert app.ask("GET", "/Plain/blast")[0] == 422
        assert app.ask("GET", "/Plain/1")[0] == 200
        assert app.ask("GET", "/Plain/gosh")[0] == 404
        change(app, "words/new.txt", "gosh")
        assert app.ask("GET", "/Plain/gosh")[0] == 422, "changed files are delivered, without loading the code once more"
        change(app, "plugin.py", BADWORDS.replace("422", "451"))
        assert app.ask("GET", "/Plain/gosh")[0] == 451
        change(app, "config.yaml", BASE)
        assert app.ask("GET", "/Plain/gosh")[0] == 404


@pytest.mark.parametrize(
    ("code", "entry", "said"),
    [
        ("x = 1", None, "has no handle_application(scope)"),
        ("handle_application = 5", None, "handle_application is no function, but int"),
        ("def handle_application(scope):\n    1 / 0", None, "handle_application: plugin.py:2: ZeroDivisionError"),
        ("async def handle_application(scope):\n    raise SystemExit(3)", None, "handle_application: plugin.py:2: RuntimeError"),
        (
            "import asyncio\nasync def handle_application(scope):\n    raise asyncio.CancelledError",
            None,
            "handle_application: RuntimeError",
        ),
        *(
            (f"class Panic(BaseException): pass\n{kind}def handle_application(scope):\n    {code}", None, f"it has raised {name}")
            for kind in ("", "async ")
            for code, name in (
                ("raise Panic('lost')", "Panic: lost"),
                ("raise GeneratorExit", "GeneratorExit"),
            )
        ),
        (
            "class Panic(BaseException): pass\ndef fail(event):\n    raise Panic('lost')\n"
            "def handle_application(scope):\n    scope.handle_entry('words/*', fail)",
            None,
            "it has raised Panic: lost",
        ),
        ("def handle_application():\n    pass", None, "TypeError"),
        ("def handle_application(scope):\n    scope.handle_entry(print)", "{package: ./plugin.py}", "has no option files"),
        ("def handle_application(scope):\n    scope.handle_entry('../x', print)", None, "leads out of the application"),
        ("def handle_application(scope):\n    scope.on('reddy', print)", None, "scope has no event 'reddy'"),
        ("def handle_application(scope):\n    scope.options.on('change', 5)", None, "cannot be called"),
        (
            "def handle_application(scope):\n    scope.handle_entry('words/*', lambda e: 1 / 0)",
            None,
            "handler of 'add' of /bad.txt: plugin.py:2: Zero",
        ),
        (
            "def handle_application(scope):\n    raise Exception",
            "{package: ./plugin.py, timeout: soon}",
            "timeout is a number of milliseconds",
        ),
        ("default_timeout = -1\ndef handle_application(scope):\n    pass", None, "default_timeout is a number"),
        ("while True: pass", "{package: nothing.py}", "there is no 'nothing.py' in the application"),
        ("", "{package: ../plugin.py}", "leads out of the application"),
        ("", "{package: /etc/passwd}", "leads out of the application"),
        ("", "{package: 5}", "package is the name of a package"),
        ("", "{package: ''}", "package is the name of a package"),
        ("", "{package: words}", "has neither a config.yaml with pluginModule nor an __init__.py"),
        ("", "{package: words/bad.txt}", "'bad.txt' is no Python file"),
        ("", "{package: no-such-package}", "there is no package 'no-such-package': install it"),
        ("", "{package: no.such.package}", "there is no package 'no.such.package'"),
        ("def f(:", None, "plugin.py:1: SyntaxError"),
        ("", "{package: antigravity.nothing}", "there is no package 'antigravity.nothing'"),
        ("def start(options): pass\ndef handleFile(): pass", None, "has start, handleFile, which svc does not call: a plugin defines"),
        ("def handle_application(scope): 1 / 0", None, "handle_application: plugin.py:1: ZeroDivisionError"),
    ],
)
def test_a_plugin_that_fails_is_reported_and_the_rest_is_served(tmp_path: Path, code: str, entry: str | None, said: str) -> None:
    files = {"empty/.keep": ""}
    with plugin(tmp_path, code, *([] if entry is None else [entry]), healthy=False, files=files) as app:
        assert app.node.app.status == "error"
        assert any(said in message for message in messages(app)), messages(app)
        assert app.ask("PUT", "/Plain/1", {"stock": 1})[0] == 204
        assert [key for key, status in app.node.app.entries.items() if status.status == "error"] == ["badwords"]
        (app.node.app.directory / "config.yaml").write_text(config())
        change(app, "plugin.py", BADWORDS)
        app.node.run(app.node.applications.reload("app"))
        assert app.node.app.status == "healthy", app.node.app.entries
        assert app.ask("GET", "/Plain/darn")[0] == 422
        (app.node.app.directory / "config.yaml").write_text(config(entry) if entry else config())
        change(app, "plugin.py", code or "x = 1")
        app.node.run(app.node.applications.reload("app"))
        assert app.ask("GET", "/Plain/darn")[0] == 422, "the version before goes on"


@pytest.mark.parametrize(
    "code",
    [
        "async def handle_application(scope):\n    await asyncio.Event().wait()",
        "async def handle_application(scope):\n    while True:\n        try: await asyncio.sleep(1e6)\n        except asyncio.CancelledError: pass",
        "async def handle_application(scope):\n    await asyncio.sleep(0)\n    while True: pass",
        "def handle_application(scope):\n    while True: pass",
        "def handle_application(scope):\n    async def on(event): await asyncio.Event().wait()\n    scope.handle_entry(on)",
        "def handle_application(scope):\n    def on(event):\n        while True: pass\n    scope.handle_entry(on)",
    ],
)
def test_what_never_ends_is_ended_and_leaves_nothing(tmp_path: Path, code: str) -> None:
    before = "import asyncio\n"
    registers = "    scope.server.http(lambda request, next: 1 / 0, before='rest')\n    asyncio.create_task(asyncio.sleep(1e9))\n"
    if "(scope):\n" in code:
        code = code.replace("(scope):\n", "(scope):\n" + registers, 1)
    with plugin(tmp_path, before + code, "{package: ./plugin.py, files: 'words/**', timeout: 50}", healthy=False) as app:
        assert any("has not ended" in message and "0.05 s" in message for message in messages(app)), messages(app)
        assert app.ask("PUT", "/Plain/1", {"stock": 1})[0] == 204, "its listener is gone"
        app.node.settle()


def test_a_plugin_that_fails_takes_everything_back(tmp_path: Path, seen: list[Any]) -> None:
    code = """
    import asyncio, seen
    async def late(scope):
        try:
            await asyncio.Event().wait()
        finally:
            seen.seen.append("cancelled")
    class Words(Resource):
        def get(self, query=None): return 1
    async def handle_application(scope):
        asyncio.create_task(late(scope))
        scope.server.http(lambda request, next: {"mine": 1}, before="rest")
        scope.resources.set("words", Words)
        scope.handle_entry(lambda e: seen.seen.append(e.url_path))
        scope.on("close", lambda: seen.seen.append("closed"))
        seen.scope = scope
        await asyncio.sleep(0)
        1 / 0
    """
    with plugin(tmp_path, code, healthy=False) as app:
        app.node.settle()
        assert "closed" in seen and "cancelled" in seen
        assert app.ask("GET", "/words/")[0] == 404
        assert app.node.dispatcher.chain is None
        scope = sys.modules["seen"].scope
        with pytest.raises(RuntimeError, match="cannot register anything"):
            scope.server.http(print)
        with pytest.raises(RuntimeError, match="cannot register anything"):
            scope.resources.set("x", scope.resources.__class__ and app.node.interface.Resource)
        with pytest.raises(RuntimeError, match="closed"):
            scope.handle_entry("words/*", print)
        seen.clear()
        change(app, "words/new.txt", "x")
        assert not seen


def test_what_is_registered_later_goes_with_the_plugin(tmp_path: Path, seen: list[Any]) -> None:
    code = """
    import asyncio, seen
    async def later(scope):
        await seen.gate.wait()
        scope.server.http(lambda request, next: {"later": 1} if request.pathname == "/later" else next(request), before="rest")
        class Words(Resource):
            def get(self, query=None): return 1
        scope.resources.set("words", Words)
    def handle_application(scope):
        asyncio.create_task(later(scope))
    """
    sys.modules["seen"].gate = asyncio.Event()  # type: ignore[attr-defined]
    with plugin(tmp_path, code) as app:
        assert app.ask("GET", "/later")[0] == 404
        sys.modules["seen"].gate.set()
        app.node.settle()
        assert app.ask("GET", "/later") == (200, {"later": 1})
        assert app.ask("GET", "/words/") == (200, 1)
        change(app, "config.yaml", BASE)
        assert app.ask("GET", "/later")[0] == 404 == app.ask("GET", "/words/")[0]


def test_a_plugin_that_deletes_its_own_files(tmp_path: Path) -> None:
    code = """
    import pathlib, shutil
    def handle_application(scope):
        pathlib.Path(__file__).unlink()
        shutil.rmtree(pathlib.Path(scope.directory) / "words")
        scope.handle_entry(print)
        scope.server.http(lambda request, next: {"mine": 1}, before="rest")
    """
    with plugin(tmp_path, code) as app:
        assert app.ask("GET", "/nothing") == (200, {"mine": 1})
        app.node.run(app.node.applications.reload("app"))
        assert app.node.app.status == "error" and "there is no './plugin.py'" in messages(app)[0]
        assert app.ask("GET", "/nothing") == (200, {"mine": 1})


def test_names_of_the_server_cannot_be_taken(tmp_path: Path) -> None:
    text = f"{BASE}static: {{package: ./plugin.py}}\nmqtt: {{package: ./plugin.py}}\nwords: {{files: x}}\nlogin: {{package: ./plugin.py}}\n"
    with plugin(tmp_path, BADWORDS, files={"config.yaml": text.replace("static", "roles")}, healthy=False) as app:
        entries = app.node.app.entries
        assert "'roles' is built in" in entries["roles"].messages[0]
        assert entries["mqtt"].messages == ["config.yaml:5: 'mqtt' is not available in this version of svc and was skipped"]
        assert "; one that a plugin handles has package: NAME" in entries["words"].messages[0]
        assert app.ask("GET", "/Plain/darn")[0] == 404


SOURCE = """
def handle_application(scope):
    class Source:
        def get(self, id, context):
            return {"id": id, "stock": VERSION}
    tables.Plain.source_from(Source())
    END
"""


def test_settings_of_tables_go_with_the_plugin(tmp_path: Path) -> None:
    def code(version: int, end: str = "pass") -> str:
        return SOURCE.replace("VERSION", str(version)).replace("END", end)

    with plugin(tmp_path, code(1)) as app:
        assert app.ask("GET", "/Plain/a") == (200, {"id": "a", "stock": 1})
        change(app, "plugin.py", code(2))
        assert app.node.app.status == "healthy", app.node.app.entries
        assert app.ask("GET", "/Plain/b") == (200, {"id": "b", "stock": 2})
        change(app, "plugin.py", code(3, "1 / 0"))
        assert app.ask("GET", "/Plain/c") == (200, {"id": "c", "stock": 2})
        change(app, "config.yaml", BASE)
        assert app.ask("GET", "/Plain/d")[0] == 404
    with plugin(tmp_path / "second", code(1, "1 / 0"), healthy=False) as app:
        assert app.ask("GET", "/Plain/a")[0] == 404, "what has failed sets nothing"


def test_two_plugins_at_one_address(tmp_path: Path) -> None:
    code = """
    def handle_application(scope):
        scope.resources.set("words", type(f"Words_{scope.name}", (Resource,), {"get": lambda self, query=None: 1}))
    """
    files = {"config.yaml": config("{package: ./plugin.py}") + "second: {package: ./plugin.py}\n"}
    with plugin(tmp_path, code, files=files, healthy=False) as app:
        assert app.ask("GET", "/words/")[0] == 500
        assert "Words_badwords at /words: Conflicting paths" in messages(app)[0] and messages(app, "second")
        change(app, "config.yaml", config("{package: ./plugin.py}"))
        assert app.ask("GET", "/words/") == (200, 1)


def test_many_versions_keep_nothing(tmp_path: Path, seen: list[Any]) -> None:
    import gc
    import weakref

    directory = tmp_path / "svc-badwords"
    directory.mkdir()
    (directory / "config.yaml").write_text("pluginModule: plugin.py\n")
    (directory / "plugin.py").write_text(BADWORDS + "    import seen\n    seen.seen.append(scope)\n")
    with plugin(tmp_path, "", "{package: svc-badwords, files: 'words/**'}") as app:
        for _ in range(5):
            change(app, "resources.py", "x = 1")
        assert app.ask("GET", "/Plain/darn")[0] == 422
        app.node.pass_loop_time(TIMEOUT)
        assert len(app.node.interface.app_configs) == 2 == len(app.node.interface.app_servers), "the application, and its plugin"
        kept = [weakref.ref(scope) for scope in seen]
        assert len(kept) == 6
        seen.clear()
        app.node.settle()
        gc.collect()
        assert [ref() is not None for ref in kept] == [False] * 5 + [True]


def test_the_address_of_a_plugin_that_fails_answers_with_the_reason(tmp_path: Path) -> None:
    entry = "{package: ./plugin.py, files: 'words/**', urlPath: WHERE}"
    code = "def handle_application(scope): 1 / 0"
    with plugin(tmp_path / "table", code, entry.replace("WHERE", "Plain/words"), healthy=False) as app:
        assert app.ask("GET", "/Plain/words/darn")[0] == 404, "a resource has the address"
    with plugin(tmp_path / "query", code, entry.replace("WHERE", "'a?b'"), healthy=False) as app:
        assert app.ask("GET", "/a")[0] == 404
    with plugin(tmp_path / "own", code, entry.replace("WHERE", "./words"), healthy=False) as app:
        status, body = app.ask("GET", "/app/words/darn")
        assert status == 503 and "plugin.py:1: ZeroDivisionError" in body["detail"]
        status, body = app.ask("GET", "/app/words/darn", X_Forwarded_For="10.0.0.1")
        assert status == 503 and "plugin.py" not in body["detail"]
        assert app.ask("GET", "/app/other")[0] == 404
        change(app, "plugin.py", "def handle_application(scope): pass")
        assert app.node.app.status == "healthy" and app.ask("GET", "/app/words/darn")[0] == 404
        assert app.node.dispatcher.chain is None
