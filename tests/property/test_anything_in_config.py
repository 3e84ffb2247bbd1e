"""Whatever stands in config.yaml about routes and plugins: the rest of the application is served, and what is wrong is a status."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from svc.apps.status import WORST_FIRST
from tests.support.application import Application, application
from tests.support.profile import half_by_day

BASE = {"rest": True, "graphqlSchema": {"files": "*.graphql"}}
GOOD = "def handle_application(scope):\n    if scope.options.get('files') is not None:\n        scope.handle_entry(lambda event: None)\n"
FILES = {
    "plugin.py": GOOD,
    "routes/a.py": "async def app(scope, receive, send):\n    raise RuntimeError\n",
    "plugins/words/__init__.py": GOOD,
    "plugins/named/config.yaml": "pluginModule: plugin.py",
    "plugins/named/plugin.py": "def start(options):\n    return None\n",
    "words/a.txt": "a",
}

words = st.sampled_from(
    ("./plugin.py", "plugin", "plugins/words", "plugins/named", ".", "..", "/", "words", "words/**", "**", "json", "sys", "svc", "a b", "a\0b", "", "x" * 300,
     "routes/*.py", "[", "*", "plugins.words", "__main__", "a..b", ".a", "-", "static", "./x", "../x", "all", "ü")
)  # fmt: skip
scalars = st.one_of(words, st.none(), st.booleans(), st.integers(-1, 50_000), st.floats(allow_nan=True))
values = st.recursive(
    scalars, lambda inner: st.one_of(st.lists(inner, max_size=2), st.dictionaries(words, inner, max_size=2)), max_leaves=4
)
options = st.fixed_dictionaries({}, optional=dict.fromkeys(("package", "files", "urlPath", "timeout", "port", "limit"), values))
entries = st.dictionaries(
    st.sampled_from(
        ("frameworkRoutes", "pluginModule", "extensionModule", "one", "two", "static", "resources", "graphql", "jsResource", "login")
    ),
    st.one_of(values, options),
    max_size=4,
)


@pytest.fixture(scope="module")
def app(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Application]:
    with application(tmp_path_factory.mktemp("config"), "", files=FILES) as made:
        yield made


@settings(max_examples=half_by_day(100), deadline=None)
@given(entries=entries)
def test_anything(app: Application, entries: dict[str, Any]) -> None:
    node = app.node
    node.run(node.applications.remove("app"))
    directory: Path = node.app.directory
    (directory / "config.yaml").write_text(yaml.safe_dump({**BASE, **entries}, allow_unicode=True))
    added = node.run(node.applications.add(directory))
    assert added.is_serving and added.entries["graphqlSchema"].status == "healthy", added.entries
    for key, status in added.entries.items():
        assert status.status in WORST_FIRST and (status.status in ("healthy", "loading") or status.messages), (key, status)
        for text in status.details:
            assert "svc/apps/app.py" not in text.rpartition("File ")[2], text
    assert app.ask("PUT", "/Plain/1", {"stock": 1})[0] == 204
    assert app.ask("GET", "/Plain/1")[0] == 200
    app.errors.clear()
