"""svc.apps.plugins.entry: plugins in applications, from the entry of config.yaml to the end."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest

from tests.support.application import Application, application

BADWORDS = """
def handle_application(scope):
    words = set()
    def on_file(e):
        if e.entry_type == "file" and e.event_type != "unlink":
            words.update(e.contents.decode().split())
    scope.handle_entry(on_file)
    async def guard(request, next):
        return Response(status=422, body="no") if words & set(request.pathname.split("/")) else await next(request)
    scope.server.http(guard, before="rest")
"""
BASE = "rest: true\ngraphqlSchema: {files: '*.graphql'}\nresources: {files: resources.py}\n"


def config(entry: str = "{package: ./plugin.py, files: 'words/**'}", name: str = "badwords") -> str:
    return f"{BASE}{name}: {entry}\n"


def plugin(tmp_path: Path, code: str, entry: str = "{package: ./plugin.py, files: 'words/**'}", **options: Any) -> Any:
    files = {"config.yaml": config(entry), "plugin.py": code, "words/bad.txt": "darn heck", "words/more/worse.txt": "blast"}
    files |= options.pop("files", {})
    return application(tmp_path, options.pop("resources", ""), files=files, **options)


def messages(app: Application, key: str = "badwords") -> list[str]:
    return app.node.app.entries[key].messages


def change(app: Application, name: str, text: str | None, *, reloads_code: bool = True) -> list[str]:
    file = app.node.app.directory / name
    if text is None:
        file.unlink()
    else:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(dedent(text))
    waiting: list[str] = app.node.run(app.node.applications.change("app", [name], reloads_code=reloads_code))
    return waiting


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Any]]:
    """A list that the code of plugins reaches as `import seen; seen.seen`."""
    found: list[Any] = []
    module = type(sys)("seen")
    module.seen = found  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "seen", module)
    yield found


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


def test_events_of_files_and_directories(tmp_path: Path, seen: list[Any]) -> None:
    code = """
    import seen, os
    def handle_application(scope):
        def on(e):
            assert os.path.isabs(e.absolute_path) and (e.stats is None) is e.event_type.startswith("unlink")
            seen.seen.append((e.event_type, e.entry_type, e.url_path, e.contents))
        handler = scope.handle_entry(on)
        handler.on("add", lambda e: seen.seen.append(e.urlPath + "!")).on("ready", lambda: seen.seen.append("ready"))
    """
    with plugin(tmp_path, code, "{package: ./plugin.py, files: 'words/**', urlPath: w}") as app:
        assert seen == [
            ("add", "file", "/w/bad.txt", b"darn heck"),
            "/w/bad.txt!",
            ("addDir", "directory", "/w/more/", None),
            ("add", "file", "/w/more/worse.txt", b"blast"),
            "/w/more/worse.txt!",
            "ready",
        ]
        seen.clear()
        change(app, "words/bad.txt", "other")
        assert seen == [("change", "file", "/w/bad.txt", b"other")]
        seen.clear()
        (app.node.app.directory / "words/more/worse.txt").unlink()
        (app.node.app.directory / "words/more").rmdir()
        app.node.run(app.node.applications.change("app", ["words/more/worse.txt"], reloads_code=False))
        assert seen == [("unlink", "file", "/w/more/worse.txt", None), ("unlinkDir", "directory", "/w/more/", None)]


def test_an_async_plugin_may_wait_for_its_files(tmp_path: Path, seen: list[Any]) -> None:
    code = """
    import asyncio, seen
    default_timeout = 5000
    async def handleApplication(scope):
        async def on(event):
            await asyncio.sleep(0)
            seen.seen.append(event.urlPath)
        handler = scope.handleEntry({"source": "words/*.txt", "only": "files"}, on)
        other = scope.handle_entry({"files": ["*.graphql"], "urlPath": "schemas"}, on)
        await handler.ready()
        await other.ready()
        seen.seen.append("ready")
        scope.on("ready", lambda: seen.seen.append("in effect"))
        scope.on("close", lambda: seen.seen.append("closed"))
        class Words(Resource):
            def allow_read(self, user, target):
                return True
            def get(self, query=None):
                return sorted(seen.seen)
        scope.resources.set("words", Words)
        scope.server.resources.set("more/words", Words)
        assert scope.options.get("limits.words") == 3 == scope.options.get(["limits", "words"]) and scope.options.getAll()["files"] == "words/**"
        assert scope.options.get_root()["rest"] is True and scope.options.get("nothing") is None
        assert scope.name == "badwords" and scope.directory.endswith("/app")
        try:
            scope.models
        except RuntimeError as error:
            assert "not available" in str(error)
    """
    with plugin(tmp_path, code, "{package: ./plugin.py, files: 'words/**', limits: {words: 3}}") as app:
        assert sorted(seen[:2]) == ["/bad.txt", "/schemas/schema.graphql"] and seen[2:] == ["ready", "in effect"]
        assert app.ask("GET", "/words/")[0] == 200 == app.ask("GET", "/more/words/")[0]
        change(app, "plugin.py", "def handle_application(scope): pass")
        assert seen[-1] == "closed"
        assert app.ask("GET", "/words/")[0] == 404 == app.ask("GET", "/more/words/")[0]


@pytest.mark.parametrize(
    ("code", "entry", "said"),
    [
        ("def handle_application(scope): pass\ndef start(options): pass", None, "has both handle_application and start"),
        ("x = 1", None, "has neither handle_application(scope) nor one of start"),
        ("handle_application = 5", None, "handle_application is no function, but int"),
        ("def handle_application(scope):\n    1 / 0", None, "handle_application: plugin.py:2: ZeroDivisionError"),
        ("async def handle_application(scope):\n    raise SystemExit(3)", None, "handle_application: plugin.py:2: RuntimeError"),
        (
            "import asyncio\nasync def handle_application(scope):\n    raise asyncio.CancelledError",
            None,
            "handle_application: RuntimeError",
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
        ("def start(options): return {'handle_file': 5}", None, "handle_file is no function"),
        ("def start(options): 1 / 0", None, "start: plugin.py:1: ZeroDivisionError"),
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
        "def start(options):\n    while True: pass",
        "async def handle_file(contents, url_path, absolute_path, resources):\n    await asyncio.Event().wait()",
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
        assert app.node.dispatcher._chain is None
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


def test_a_plugin_may_close_itself(tmp_path: Path, seen: list[Any]) -> None:
    code = """
    import seen
    def handle_application(scope):
        scope.server.http(lambda request, next: {"mine": 1}, before="rest")
        scope.on("close", lambda: seen.seen.append("closed"))
        scope.handle_entry(lambda event: event.event_type == "change" and scope.close())
    """
    with plugin(tmp_path, code) as app:
        assert app.ask("GET", "/nothing") == (200, {"mine": 1})
        change(app, "words/bad.txt", "x")
        assert seen == ["closed"]
        assert app.ask("GET", "/nothing")[0] == 404
        change(app, "words/bad.txt", "y")
        change(app, "resources.py", "x = 1")
        assert app.ask("GET", "/nothing") == (200, {"mine": 1}), "loaded once more, it begins once more"
        change(app, "plugin.py", "def handle_application(scope): scope.close()")
        assert app.ask("GET", "/nothing")[0] == 404
        assert app.node.app.status == "healthy"


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


def test_changed_options(tmp_path: Path, seen: list[Any]) -> None:
    code = """
    import seen
    def handle_application(scope):
        seen.scope = scope
        seen.seen.append("loaded")
        scope.handle_entry(lambda e: seen.seen.append((e.event_type, e.url_path)))
        scope.options.on("change", lambda key, value, config: seen.seen.append((key, value, config["limit"])))
    """
    with plugin(tmp_path, code, "{package: ./plugin.py, files: 'words/*.txt', limit: 1, a: {b: 1}}") as app:
        from_svc = app.node.interface.app_config(app.node.app.modules.package)  # type: ignore[union-attr]
        assert from_svc["badwords"]["limit"] == 1
        seen.clear()
        text = config("{package: ./plugin.py, files: 'words/*.txt', limit: 2, a: {b: 2}}")
        assert change(app, "config.yaml", text, reloads_code=False) == []
        assert seen == [(["limit"], 2, 2), (["a", "b"], 2, 2)]
        assert app.node.interface.app_config(app.node.app.modules.package)["badwords"]["limit"] == 2  # type: ignore[union-attr]
        assert sys.modules["seen"].scope.options.get("limit") == 2
        seen.clear()
        change(app, "config.yaml", config("{package: ./plugin.py, files: 'words/more/*.txt', limit: 2, a: {b: 2}}"), reloads_code=False)
        assert seen == [("unlink", "/bad.txt"), ("add", "/worse.txt"), (["files"], "words/more/*.txt", 2)]
        seen.clear()
        assert change(app, "config.yaml", "# nothing else\n" + text.replace("rest: true", "rest: {lastModified: true}"), reloads_code=False)
        assert seen == []
        change(app, "config.yaml", text)
        assert seen[0] == "loaded" or seen[-1][0] == ["files"]


def test_without_a_handler_changed_options_wait_for_a_restart(tmp_path: Path, seen: list[Any]) -> None:
    code = "import seen\ndef handle_application(scope): seen.seen.append(scope.options.get('limit'))\n"
    with plugin(tmp_path, code, "{package: ./plugin.py, limit: 1}") as app:
        text = config("{package: ./plugin.py, limit: 2}")
        assert change(app, "config.yaml", text, reloads_code=False) == ["config.yaml"]
        assert seen == [1]
        change(app, "config.yaml", text)
        assert seen == [1, 2]


def test_a_handler_of_options_that_fails_sets_the_status(tmp_path: Path, seen: list[Any]) -> None:
    code = """
    import seen
    def handle_application(scope):
        scope.options.on("change", lambda *changed: 1 / 0)
        scope.on("error", lambda error: seen.seen.append(error))
    """
    with plugin(tmp_path, code, "{package: ./plugin.py, limit: 1}") as app:
        change(app, "config.yaml", config("{package: ./plugin.py, limit: 2}"))
        assert messages(app) == ["the handler of changed options: plugin.py:4: ZeroDivisionError: division by zero"]
        assert isinstance(seen[0], ZeroDivisionError)
        assert any("ZeroDivisionError" in text for _, text in app.node.reports)
        change(app, "config.yaml", config("{package: ./plugin.py, limit: 2, x: 1}").replace("1 / 0", "None"))


def test_faults_of_many_files_are_not_listed_without_end(tmp_path: Path) -> None:
    code = "def handle_application(scope):\n    scope.handle_entry(lambda event: 1 / 0)\n"
    files = {f"words/{number}.txt": "x" for number in range(100)}
    with plugin(tmp_path, code, files=files, healthy=False) as app:
        assert len(messages(app)) == 20 and "further faults" in messages(app)[-1]
        change(app, "words/5.txt", "y")
        assert len(messages(app)) == 1


def test_ten_thousand_files(tmp_path: Path, seen: list[Any]) -> None:
    directory = tmp_path / "app" / "words"
    directory.mkdir(parents=True)
    for number in range(10_000):
        (directory / f"{number}.txt").write_bytes(b"%d" % number)
    code = (
        "import seen\ndef handle_application(scope):\n    scope.handle_entry('words/*.txt', lambda e: seen.seen.append(int(e.contents)))\n"
    )
    with _in_existing(tmp_path, code) as app:
        assert sorted(seen) == list(range(10_000))
        assert app.node.app.status == "healthy"


def _in_existing(tmp_path: Path, code: str) -> Any:
    from tests.support.node import Node

    directory = tmp_path / "app"
    (directory / "config.yaml").write_text("badwords: {package: ./plugin.py}")
    (directory / "plugin.py").write_text(code)

    class Made:
        def __enter__(self) -> Application:
            self.node = Node(tmp_path / "data", app=directory)
            return Application(self.node)

        def __exit__(self, *raised: object) -> None:
            asyncio.set_event_loop(None)
            self.node.close()

    return Made()


def test_own_statuses_and_restarts(tmp_path: Path, seen: list[Any]) -> None:
    code = """
    import seen
    def handle_application(scope):
        seen.seen.append(scope)
        scope.request_restart()
    """
    with plugin(tmp_path, code, healthy=False) as app:
        node = app.node
        assert "asks for a restart while it is loaded" in messages(app)[0]
        (scope,) = seen
        scope.set_status("warning", "half of the words")
        assert node.app.status == "warning" and messages(app) == ["half of the words"] and scope.status == "warning"
        assert ("warn", "badwords: half of the words") in node.reports
        scope.set_status("healthy")
        assert node.app.status == "healthy" and messages(app) == []
        with pytest.raises(ValueError, match="one of healthy"):
            scope.set_status("fine")
        scope.request_restart()
        scope.requestRestart()
        assert messages(app) == ["asks for a restart of the service"] and node.app.restart_wanted == ["badwords"]
        node.applications.reloads_code = True
        scope.request_restart()
        node.run(asyncio.wait(node.applications._reloading))
        assert len(seen) == 2 and not scope.server._registered and not node.app.restart_wanted


def test_the_older_form(tmp_path: Path, seen: list[Any]) -> None:
    code = """
    import seen
    def start_on_main_thread(options):
        seen.seen.append("main")
    async def start(options):
        seen.seen.append((options["port"], options["limit"], sorted(set(options) - {"package", "files", "limit"})))
        Words = options["ensure_table"](table="Words", attributes=[{"name": "id", "isPrimaryKey": True}, {"name": "text", "indexed": True}])
        assert options["ensureTable"]({"table": "Words", "attributes": [{"name": "more"}]}) is not None
        def handle_directory(url_path, absolute_path, resources):
            seen.seen.append(("directory", url_path))
            return url_path == "/skipped/"
        return {"handleDirectory": handle_directory}
    def setup_file(contents, url_path, absolute_path, resources):
        seen.seen.append(("setup", url_path))
    class Words(Resource):
        def allow_read(self, user, target):
            return True
        def get(self, query=None):
            return 1
    def handle_file(contents, url_path, absolute_path, resources):
        seen.seen.append((contents, url_path))
        resources.set(f"words{url_path}".removesuffix(".txt"), Words)
    """
    files = {"words/skipped/a.txt": "a", "words/zz.txt": "zz"}
    with plugin(tmp_path, code, "{package: ./plugin.py, files: 'words/**', port: 1234, limit: 3}", files=files) as app:
        assert seen == [
            "main",
            (1234, 3, ["ensureTable", "ensure_table", "port", "resources", "securePort", "server"]),
            ("setup", "/bad.txt"),
            (b"darn heck", "/bad.txt"),
            ("directory", "/more/"),
            ("setup", "/more/worse.txt"),
            (b"blast", "/more/worse.txt"),
            ("directory", "/skipped/"),
            ("setup", "/zz.txt"),
            (b"zz", "/zz.txt"),
        ]
        assert app.ask("GET", "/words/bad/") == (200, 1)
        assert set(app.tables.Words._table.attributes) == {"id", "text", "more"}
        seen.clear()
        change(app, "words/new.txt", "new", reloads_code=False)
        assert seen == [("setup", "/new.txt"), (b"new", "/new.txt")]
        assert app.ask("GET", "/words/new/") == (200, 1)
        assert change(app, "words/new.txt", None, reloads_code=False) == ["words/new.txt"], (
            "the functions cannot be told: it waits for a restart"
        )
        seen.clear()
        change(app, "words/bad.txt", None)
        assert "main" in seen and (b"zz", "/zz.txt") in seen
        assert app.ask("GET", "/words/bad/")[0] == 404


def test_names_of_the_server_cannot_be_taken(tmp_path: Path) -> None:
    text = (
        f"{BASE}static: {{package: ./plugin.py}}\ngraphql: {{package: ./plugin.py}}\nwords: {{files: x}}\nlogin: {{package: ./plugin.py}}\n"
    )
    with plugin(tmp_path, BADWORDS, files={"config.yaml": text.replace("static", "roles")}, healthy=False) as app:
        entries = app.node.app.entries
        assert "'roles' is built in" in entries["roles"].messages[0]
        assert entries["graphql"].messages == ["'graphql' is not available in this version of svc and was skipped"]
        assert "an entry that a plugin handles has package: NAME" in entries["words"].messages[0]
        assert app.ask("GET", "/Plain/darn")[0] == 404


def test_packages_are_imported_once_and_have_a_scope_for_each_application(
    tmp_path: Path, seen: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    site = tmp_path / "site" / "svc_words"
    site.mkdir(parents=True)
    (site / "__init__.py").write_text("")
    (site / "config.yaml").write_text("pluginModule: plugin.py\n")
    (site / "plugin.py").write_text(
        "import seen\nseen.seen.append('imported')\ndef handle_application(scope):\n    seen.seen.append(scope)\n    if scope.options.get('bad'): 1 / 0\n"
    )
    monkeypatch.syspath_prepend(str(site.parent))
    other = tmp_path / "other"
    other.mkdir()
    (other / "config.yaml").write_text("words: {package: svc-words}\nmore: {package: svc_words}\nbad: {package: svc_words, bad: 1}")
    with plugin(tmp_path, "", "{package: svc-words}") as app:
        app.node.run(app.node.applications.add(other))
        entries = app.node.applications.get("other").entries  # type: ignore[union-attr]
        assert entries["bad"].messages == ["handle_application: plugin.py:5: ZeroDivisionError: division by zero"]
        assert seen[0] == "imported" and len({id(scope) for scope in seen[1:]}) == 4
        assert {(scope.name, scope.directory.rpartition("/")[2]) for scope in seen[1:]} == {
            ("badwords", "app"),
            ("words", "other"),
            ("more", "other"),
            ("bad", "other"),
        }
        app.node.run(app.node.applications.reload("app"))
        assert seen.count("imported") == 1
    for name in [name for name in sys.modules if name.startswith("svc_words")]:
        del sys.modules[name]


def test_another_application_may_be_the_plugin(tmp_path: Path) -> None:
    directory = tmp_path / "elsewhere" / "svc-badwords"
    directory.mkdir(parents=True)
    (directory / "config.yaml").write_text("pluginModule: plugin.py\n")
    (directory / "plugin.py").write_text(BADWORDS)
    with plugin(tmp_path, "", "{package: svc-badwords, files: 'words/**'}", healthy=False) as app:
        node = app.node
        assert "there is no package 'svc-badwords'" in messages(app)[0]
        node.run(node.applications.add(directory))
        assert node.applications.get("svc-badwords").status == "healthy"  # type: ignore[union-attr]
        assert node.app.status == "healthy", node.app.entries
        assert app.ask("GET", "/Plain/darn")[0] == 422
        (directory / "plugin.py").write_text(BADWORDS.replace("422", "451"))
        node.run(node.applications.change("svc-badwords", ["plugin.py"], reloads_code=True))
        assert app.ask("GET", "/Plain/darn")[0] == 451, "applications follow their plugin"
        (directory / "plugin.py").write_text("1 / 0")
        node.run(node.applications.change("svc-badwords", ["plugin.py"], reloads_code=True))
        assert node.applications.get("svc-badwords").status == "error"  # type: ignore[union-attr]
        assert app.ask("GET", "/Plain/darn")[0] == 451
        (directory / "config.yaml").write_text("pluginModule: ../plugin.py\n")
        node.run(node.applications.reload("app"))
        assert "is a path below the directory of the plugin" in messages(app)[0]


def test_the_same_plugin_in_two_entries(tmp_path: Path, seen: list[Any]) -> None:
    code = "import seen\ndef handle_application(scope): seen.seen.append(scope.name)\n"
    files = {"config.yaml": config("{package: ./plugin.py}") + "second: {package: plugin}\n"}
    with plugin(tmp_path, code, files=files):
        assert seen == ["badwords", "second"]


def test_fifos_links_and_large_files(tmp_path: Path, seen: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    import os

    from svc.apps.plugins import entries

    monkeypatch.setattr(entries, "MAX_CONTENTS", 1 << 20)
    words = tmp_path / "app" / "words"
    words.mkdir(parents=True)
    os.mkfifo(words / "fifo.txt")
    (words / "large.txt").write_bytes(b"x" * ((1 << 20) + 1))
    (words / "gone.txt").symlink_to("/nothing")
    code = "import seen\ndef handle_application(scope):\n    scope.handle_entry('words/*.txt', lambda e: seen.seen.append((e.url_path, e.contents)))\n"
    with _in_existing(tmp_path, code) as app:
        assert seen == [("/large.txt", None)]
        assert sorted(messages(app)) == [
            "words/fifo.txt: it is no regular file",
            "words/large.txt: it has more than 1 MiB: its event has no contents, read it from absolute_path",
        ]


def test_files_that_change_while_they_are_delivered(tmp_path: Path, seen: list[Any]) -> None:
    code = """
    import pathlib, seen
    def handle_application(scope):
        def on(event):
            seen.seen.append((event.event_type, event.url_path))
            (pathlib.Path(scope.directory) / "words/more/worse.txt").unlink(missing_ok=True)
            (pathlib.Path(scope.directory) / "words/later.txt").write_text("x")
        scope.handle_entry("words/**/*.txt", on)
    """
    with plugin(tmp_path, code) as app:
        assert ("add", "/bad.txt") in seen
        seen.clear()
        change(app, "words/later.txt", "y")
        assert ("add", "/later.txt") in seen
        assert app.node.app.status == "healthy"


def test_closing_while_it_is_loaded(tmp_path: Path) -> None:
    code = """
    def handle_application(scope):
        scope.handle_entry(lambda event: scope.close())
        scope.server.http(lambda request, next: {"mine": 1}, before="rest")
    """
    with plugin(tmp_path, code) as app:
        assert app.ask("GET", "/nothing")[0] == 404
        assert app.ask("PUT", "/Plain/1", {"stock": 1})[0] == 204


def test_own_statuses_stay_when_files_change(tmp_path: Path, seen: list[Any]) -> None:
    code = """
    import seen
    def handle_application(scope):
        scope.set_status("loading", "downloads words")
        scope.handle_entry(lambda event: event.contents == b"bad" and 1 / 0)
        seen.seen.append(scope)
    """
    with plugin(tmp_path, code, healthy=False) as app:
        assert app.node.app.status == "loading" and messages(app) == ["downloads words"]
        change(app, "words/new.txt", "fine")
        assert app.node.app.status == "loading" and messages(app) == ["downloads words"]
        change(app, "words/new.txt", "bad")
        assert app.node.app.status == "error"
        change(app, "words/new.txt", "fine")
        assert app.node.app.status == "loading"
        seen[0].set_status("healthy")
        change(app, "words/new.txt", "fine")
        assert app.node.app.status == "healthy" and messages(app) == []


@pytest.mark.parametrize("event", ["ready", "close"])
@pytest.mark.parametrize("code", ["lambda: 1 / 0", "fails", "ends", "never", "holds"])
def test_callbacks_that_fail_stop_nothing(tmp_path: Path, event: str, code: str) -> None:
    text = f"""
    import asyncio, sys
    async def fails():
        await asyncio.sleep(0)
        1 / 0
    async def ends():
        sys.exit(3)
    async def never():
        await asyncio.Event().wait()
    def holds():
        while True: pass
    def handle_application(scope):
        scope.on("{event}", {code})
        scope.on("error", lambda error: 1 / 0)
    """
    with plugin(tmp_path, text, "{package: ./plugin.py, timeout: 50}", healthy=False) as app:
        if event == "ready":
            assert app.node.app.status == "error" and "the handler of 'ready'" in messages(app)[0]
        change(app, "config.yaml", BASE)
        assert app.node.app.status == "healthy", app.node.app.entries
        app.node.run(asyncio.sleep(0.1))
        if event == "close":
            assert any("the handler of 'close'" in text for _, text in app.node.reports)
        assert app.ask("PUT", "/Plain/1", {"stock": 1})[0] == 204


def test_a_directory_of_data_is_no_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seen: list[Any]) -> None:
    site = tmp_path / "site"
    site.mkdir()
    (site / "words.py").write_text("import seen\nfrom svc import tables\ndef handle_application(scope): seen.seen.append(tables)\n")
    monkeypatch.syspath_prepend(str(site))
    with plugin(tmp_path, "", "{package: words, files: 'words/*'}") as app:
        assert seen == [app.tables]
    sys.modules.pop("words", None)


def test_a_restart_asked_for_again_and_again_is_done_once_for_each(tmp_path: Path, seen: list[Any]) -> None:
    code = """
    import seen
    def handle_application(scope):
        seen.seen.append(scope)
        scope.on("ready", lambda: len(seen.seen) < 4 and scope.request_restart())
    """
    with plugin(tmp_path, code) as app:
        app.node.applications.reloads_code = True
        seen[0].request_restart()
        while app.node.applications._reloading:
            app.node.run(asyncio.wait(app.node.applications._reloading))
        assert len(seen) == 4 and app.node.app.status == "healthy"
        seen[0].request_restart()
        assert not app.node.applications._reloading, "a plugin that has ended asks for nothing"


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


def test_a_handler_of_files_that_never_ends_gets_no_more_events(tmp_path: Path, seen: list[Any]) -> None:
    code = """
    import asyncio, seen
    async def handle_application(scope):
        async def on(event):
            seen.seen.append(event.url_path)
            if event.event_type == "change":
                await asyncio.Event().wait()
        scope.handle_entry(on)
    """
    with plugin(tmp_path, code, "{package: ./plugin.py, files: 'words/**', timeout: 50}") as app:
        change(app, "words/bad.txt", "x")
        assert "the handler of 'change' of /bad.txt: it has not ended within 0.05 s" in messages(app)[0]
        seen.clear()
        change(app, "words/bad.txt", "y")
        assert seen == [] and app.node.app.status == "error"


def test_two_plugins_at_one_address(tmp_path: Path) -> None:
    code = """
    def handle_application(scope):
        scope.resources.set("words", type(f"Words_{scope.name}", (Resource,), {"get": lambda self, query=None: 1}))
    """
    files = {"config.yaml": config("{package: ./plugin.py}") + "second: {package: ./plugin.py}\n"}
    with plugin(tmp_path, code, files=files, healthy=False) as app:
        assert app.ask("GET", "/words/")[0] == 500
        assert "the resource at /words: Conflicting paths" in messages(app)[0] and messages(app, "second")
        change(app, "config.yaml", config("{package: ./plugin.py}"))
        assert app.ask("GET", "/words/") == (200, 1)


def test_an_application_may_be_its_own_plugin(tmp_path: Path, seen: list[Any]) -> None:
    code = "import seen\ndef handle_application(scope): seen.seen.append(scope.name)\n"
    files = {"config.yaml": "pluginModule: plugin.py\nself: {package: .}\n"}
    with plugin(tmp_path, code, files=files):
        assert seen == ["self"]


def test_a_plugin_beside_the_only_application(tmp_path: Path) -> None:
    directory = tmp_path / "svc-badwords"
    directory.mkdir()
    (directory / "config.yaml").write_text("extensionModule: plugin.py\n")
    (directory / "plugin.py").write_text(BADWORDS)
    with plugin(tmp_path, "", "{package: svc-badwords, files: 'words/**'}") as app:
        assert app.ask("GET", "/Plain/darn")[0] == 422


def test_many_versions_keep_nothing(tmp_path: Path, seen: list[Any]) -> None:
    import gc
    import weakref

    directory = tmp_path / "svc-badwords"
    directory.mkdir()
    (directory / "config.yaml").write_text("pluginModule: plugin.py\n")
    (directory / "plugin.py").write_text(BADWORDS + "    import seen\n    seen.seen.append(scope)\n")
    with plugin(tmp_path, "", "{package: svc-badwords, files: 'words/**'}") as app:
        loop: Any = app.node._loop
        for _ in range(5):
            change(app, "resources.py", "x = 1")
        assert app.ask("GET", "/Plain/darn")[0] == 422
        for handle in [handle for handle in loop._scheduled if "forget" in repr(handle)]:
            handle._callback()
            handle.cancel()
        assert len(app.node.interface.app_configs) == 2 == len(app.node.interface.app_servers), "the application, and its plugin"
        kept = [weakref.ref(scope) for scope in seen]
        assert len(kept) == 6
        seen.clear()
        app.node.settle()
        gc.collect()
        assert [ref() is not None for ref in kept] == [False] * 5 + [True]


def test_changes_at_the_same_time_are_taken_one_after_the_other(tmp_path: Path, seen: list[Any]) -> None:
    code = """
    import asyncio, seen
    async def handle_application(scope):
        seen.seen.append(("begins", scope.options.get("limit")))
        for _ in range(20):
            await asyncio.sleep(0)
        seen.seen.append(("ends", scope.options.get("limit")))
    """
    with plugin(tmp_path, code, "{package: ./plugin.py, limit: 0}") as app:

        async def several() -> None:
            changes = []
            for number in range(1, 4):
                (app.node.app.directory / "config.yaml").write_text(config(f"{{package: ./plugin.py, limit: {number}}}"))
                changes.append(asyncio.ensure_future(app.node.applications.change("app", ["config.yaml"], reloads_code=True)))
                await asyncio.sleep(0)
            await asyncio.gather(*changes)

        app.node.run(several())
        assert [what for what, _ in seen] == ["begins", "ends"] * (len(seen) // 2)
        assert seen[-1] == ("ends", 3) and app.node.app.status == "healthy"


def test_a_plugin_that_is_mended_reaches_those_who_name_it(tmp_path: Path) -> None:
    directory = tmp_path / "svc-badwords"
    directory.mkdir()
    (directory / "config.yaml").write_text("pluginModule: plugin.py\n")
    for broken in ("def f(:", "def handle_application(scope): 1 / 0"):
        (directory / "plugin.py").write_text(broken)
        with plugin(tmp_path / str(len(broken)), "", "{package: svc-badwords, files: 'words/**'}", healthy=False) as app:
            node = app.node
            node.run(node.applications.add(directory))
            assert node.app.status == "error"
            (directory / "plugin.py").write_text(BADWORDS)
            node.run(node.applications.change("svc-badwords", ["plugin.py"], reloads_code=True))
            assert node.app.status == "healthy", node.app.entries
            assert app.ask("GET", "/Plain/darn")[0] == 422
