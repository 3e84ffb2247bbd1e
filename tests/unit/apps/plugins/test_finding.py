"""svc.apps.plugins.finding: which module an entry means."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from tests.support.plugins import BADWORDS, config, in_existing, messages, plugin


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
    monkeypatch.setattr(sys, "path", [str(site.parent), *sys.path])
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


def test_a_directory_of_data_is_no_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seen: list[Any]) -> None:
    site = tmp_path / "site"
    site.mkdir()
    (site / "words.py").write_text("import seen\nfrom svc import tables\ndef handle_application(scope): seen.seen.append(tables)\n")
    monkeypatch.setattr(sys, "path", [str(site), *sys.path])
    with plugin(tmp_path, "", "{package: words, files: 'words/*'}") as app:
        assert seen == [app.tables]
    sys.modules.pop("words", None)


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


def test_links_do_not_lead_out_of_a_plugin(tmp_path: Path) -> None:
    outside = tmp_path / "outside.py"
    outside.write_text("1 / 0")
    directory = tmp_path / "app"
    (directory / "linked").mkdir(parents=True)
    (directory / "link.py").symlink_to(outside)
    (directory / "linked" / "plugin.py").symlink_to(outside)
    entries = "one: {package: ./link.py}\ntwo: {package: ./linked}\npluginModule: link.py\n"
    files = {"config.yaml": entries, "linked/config.yaml": "pluginModule: plugin.py\n"}
    with in_existing(tmp_path, "", files=files) as app:
        assert messages(app, "one") == ["package './link.py': package: './link.py' leads out of the application"]
        assert "plugin.py leads out of the directory of the plugin" in messages(app, "two")[0]
        assert messages(app, "pluginModule") == ["pluginModule: link.py leads out of the directory of the plugin"]


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("def f(:", "package 'svc_words_bad': __init__.py:1: SyntaxError"),
        ("import nothing_of_this_name", "package 'svc_words_bad': __init__.py:1: ModuleNotFoundError"),
        ("raise SystemExit", "package 'svc_words_bad': __init__.py:1: RuntimeError: it has raised SystemExit"),
        ("", "package 'svc_words_bad': has no handle_application(scope)"),
    ],
)
def test_installed_packages_that_cannot_be_imported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: str, said: str) -> None:
    site = tmp_path / "site" / "svc_words_bad"
    site.mkdir(parents=True)
    (site / "__init__.py").write_text(code)
    monkeypatch.setattr(sys, "path", [str(site.parent), *sys.path])
    with plugin(tmp_path, "", "{package: svc_words_bad}", healthy=False) as app:
        assert messages(app)[0].startswith(said), messages(app)
    sys.modules.pop("svc_words_bad", None)
