"""svc.apps.plugins.scope: statuses, restarts, callbacks and the end of a plugin."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from tests.support.plugins import BASE, change, messages, plugin


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
        scope.request_restart()
        assert messages(app) == ["asks for a restart of the service"] and node.app.restart_wanted == ["badwords"]
        node.applications.reloads_code = True
        scope.request_restart()
        node.run(asyncio.wait(node.applications._reloading))
        assert len(seen) == 2 and not scope.server._registered and not node.app.restart_wanted


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


def test_closing_while_it_is_loaded(tmp_path: Path) -> None:
    code = """
    def handle_application(scope):
        scope.handle_entry(lambda event: scope.close())
        scope.server.http(lambda request, next: {"mine": 1}, before="rest")
    """
    with plugin(tmp_path, code) as app:
        assert app.ask("GET", "/nothing")[0] == 404
        assert app.ask("PUT", "/Plain/1", {"stock": 1})[0] == 204


def test_who_asks_late_for_ready_is_called_alone_and_once(tmp_path: Path, seen: list[Any]) -> None:
    code = """
    import seen
    def handle_application(scope):
        def first():
            seen.seen.append("first")
            scope.on("ready", lambda: seen.seen.append("late"))
        scope.on("ready", first)
        seen.seen.append(scope)
    """
    with plugin(tmp_path, code) as app:
        app.node.run(asyncio.sleep(0.01))
        scope, *calls = seen
        assert calls == ["first", "late"]
        scope.on("ready", lambda: seen.append("later"))
        app.node.run(asyncio.sleep(0.01))
        assert seen[1:] == ["first", "late", "later"]


def test_no_error_in_a_handler_of_an_event_leaves_the_plugin(tmp_path: Path) -> None:
    code = """
    class Panic(BaseException): pass
    def fail(*args):
        raise Panic("lost")
    async def fail_later(*args):
        raise Panic("lost later")
    def handle_application(scope):
        scope.on("ready", fail)
        scope.on("ready", fail_later)
        scope.on("close", fail)
        scope.on("close", fail_later)
        scope.on("error", fail)
        scope.options.on("change", fail)
        files = scope.handle_entry()
        for event in ("ready", "close", "error", "add"):
            files.on(event, fail)
    """
    with plugin(tmp_path, code, healthy=False) as app:
        assert "handler of 'ready': plugin.py:4: RuntimeError: it has raised Panic: lost" in str(messages(app))
        assert "handler of 'ready': plugin.py:6: RuntimeError: it has raised Panic: lost later" in str(messages(app))
        change(app, "config.yaml", BASE)
        app.node.run(asyncio.sleep(0.01))
