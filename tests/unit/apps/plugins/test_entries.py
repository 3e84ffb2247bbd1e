"""svc.apps.plugins.entries: the files of an entry as events."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.support.plugins import change, in_existing, messages, plugin


def test_events_of_files_and_directories(tmp_path: Path, seen: list[Any]) -> None:
    code = """
    import seen, os
    def handle_application(scope):
        def on(e):
            assert os.path.isabs(e.absolute_path) and (e.stats is None) is e.event_type.startswith("unlink")
            seen.seen.append((e.event_type, e.entry_type, e.url_path, e.contents))
        handler = scope.handle_entry(on)
        handler.on("add", lambda e: seen.seen.append(e.url_path + "!")).on("ready", lambda: seen.seen.append("ready"))
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
    async def handle_application(scope):
        async def on(event):
            await asyncio.sleep(0)
            seen.seen.append(event.url_path)
        handler = scope.handle_entry({"source": "words/*.txt", "only": "files"}, on)
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
        assert scope.options.get("limits.words") == 3 == scope.options.get(["limits", "words"]) and scope.options.get_all()["files"] == "words/**"
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
    with in_existing(tmp_path, code) as app:
        assert sorted(seen) == list(range(10_000))
        assert app.node.app.status == "healthy"


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
    with in_existing(tmp_path, code) as app:
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
