"""Applications with a plugin, written by a test."""

from __future__ import annotations

import asyncio
from pathlib import Path
from textwrap import dedent
from typing import Any

from tests.support.application import Application, application
from tests.support.node import Node

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


def in_existing(tmp_path: Path, code: str, files: dict[str, str] | None = None) -> Any:
    """An application in a directory that is there."""
    directory = tmp_path / "app"
    (directory / "config.yaml").write_text("badwords: {package: ./plugin.py}")
    (directory / "plugin.py").write_text(code)
    for name, text in (files or {}).items():
        (directory / name).write_text(text)

    class Made:
        def __enter__(self) -> Application:
            self.node = Node(tmp_path / "data", app=directory)
            return Application(self.node)

        def __exit__(self, *raised: object) -> None:
            asyncio.set_event_loop(None)
            self.node.close()

    return Made()
