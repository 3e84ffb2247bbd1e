"""svc.apps.plugins.options: options that change while a plugin runs."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Any

from tests.support.plugins import change, config, messages, plugin


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
        moved = config("{package: ./plugin.py, files: 'words/more/*.txt', limit: 2, a: {b: 2}, urlPath: w}")
        change(app, "config.yaml", moved, reloads_code=False)
        assert seen == [("unlink", "/worse.txt"), ("add", "/w/worse.txt"), (["urlPath"], "w", 2)]
        seen.clear()
        assert change(app, "config.yaml", "# nothing else\n" + text.replace("rest: true", "rest: {lastModified: true}"), reloads_code=False)
        assert seen == []
        change(app, "config.yaml", text)
        assert "loaded" not in seen and (["files"], "words/*.txt", 2) in seen, "also where code is reloaded"


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
