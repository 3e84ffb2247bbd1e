"""svc.apps.plugins.older: the functions of the older form."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.support.plugins import change, plugin


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
