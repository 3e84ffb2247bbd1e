"""`svc check-app`: what it prints of a trial load; the load itself is in tests/integration/test_trial.py."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from svc.apps.status import EntryStatus
from svc.cli import main
from svc.deploying import trying
from svc.deploying.trying import LoadFailed, TrialFindings, TrialRequest


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "shop").mkdir()
    (tmp_path / "shop" / "schema.graphql").touch()
    return tmp_path / "shop"


def finds(monkeypatch: pytest.MonkeyPatch, found: TrialFindings | LoadFailed) -> list[TrialRequest]:
    asked: list[TrialRequest] = []

    def examine(request: TrialRequest, place: Path, watch: Any, on_line: Any) -> TrialFindings:
        asked.append(request)
        assert place.parent.is_dir() and not place.exists()
        on_line("said\x1b[2J")
        if isinstance(found, LoadFailed):
            raise found
        return found

    monkeypatch.setattr(trying, "examine", examine)
    return asked


def faulty() -> TrialFindings:
    entries = {"graphqlSchema": EntryStatus(), "data": EntryStatus()}
    entries["graphqlSchema"].warn("schema.graphql:1:2: odd")
    entries["graphqlSchema"].fail("schema.graphql:3:4: wrong")
    entries["data"].fail("nothing there")
    return TrialFindings(entries, "it was late", [], [])


def test_errors_and_warnings_with_their_places(shop: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    (asked,) = [finds(monkeypatch, faulty())]
    assert main(["check-app", "shop"]) == 1
    captured = capsys.readouterr()
    assert captured.out.splitlines() == [
        "shop/schema.graphql:1:2: warning: odd",
        "shop/schema.graphql:3:4: error: wrong",
        "shop: error: data: nothing there",
        "shop: warning: config: it was late",
        "shop: 2 errors, 2 warnings",
    ]
    assert captured.err == "said\\x1b[2J\n"
    assert [(request.directory, request.project) for request in asked] == [(shop, "shop")]


def test_json(shop: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    finds(monkeypatch, faulty())
    monkeypatch.chdir(shop)
    assert main(["check-app", "--json"]) == 1
    found = json.loads(capsys.readouterr().out)
    assert (found["application"], found["directory"], found["errors"], found["warnings"]) == ("shop", str(shop), 2, 2)
    assert found["findings"][1] == {
        "level": "error", "entry": "graphqlSchema", "file": "schema.graphql", "line": 3, "column": 4, "message": "wrong"
    }  # fmt: skip
    assert found["findings"][2]["file"] is None


def test_several_are_loaded_one_after_the_other(shop: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("blog", "wiki"):
        shutil.copytree(shop, shop.parent / name)
    asked = finds(monkeypatch, faulty())
    assert main(["check-app", "shop", "blog", "wiki"]) == 1
    assert [(request.project, list(request.before)) for request in asked] == [("shop", []), ("blog", ["shop"]), ("wiki", ["shop", "blog"])]
    assert [line for line in capsys.readouterr().out.splitlines() if "errors" in line][1:] == [
        "blog: 2 errors, 2 warnings",
        "wiki: 2 errors, 2 warnings",
    ]
    assert main(["check-app", "--json", "shop", "blog"]) == 1
    assert [each["application"] for each in json.loads(capsys.readouterr().out)] == ["shop", "blog"]


def test_warnings_alone_are_no_failure(shop: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    entries = {"roles": EntryStatus()}
    finds(monkeypatch, TrialFindings(entries, "", [], []))
    assert main(["check-app", "shop"]) == 0
    entries["roles"].warn("no file matches 'x'")
    assert main(["check-app", "shop"]) == 0
    assert capsys.readouterr().out == "shop: fine\nshop: warning: roles: no file matches 'x'\nshop: 1 warning\n"


def test_with_strict_warnings_are_a_failure(shop: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    entries = {"roles": EntryStatus()}
    finds(monkeypatch, TrialFindings(entries, "", [], []))
    assert main(["check-app", "--strict", "shop"]) == 0
    entries["roles"].warn("no file matches 'x'")
    assert main(["check-app", "--strict", "shop"]) == 1
    assert capsys.readouterr().out.endswith("shop: 1 warning\n")


def test_a_name_that_is_not_known_is_an_error(shop: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    entries = {"graphqlSchema": EntryStatus()}
    entries["graphqlSchema"].warn("schema.graphql:1:2: odd", unknown=True)
    finds(monkeypatch, TrialFindings(entries, "", [], []))
    assert main(["check-app", "shop"]) == 1
    assert capsys.readouterr().out == "shop/schema.graphql:1:2: error: odd\nshop: 1 error\n"


def test_what_is_there_and_not_loaded(shop: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    finds(monkeypatch, TrialFindings({}, "", [], []))
    (shop / "config.yaml").write_text("graphql: true")
    assert main(["check-app", "shop"]) == 0
    assert capsys.readouterr().out.startswith(
        "shop/config.yaml: warning: schema.graphql is not loaded, because config.yaml replaces the defaults"
    )
    for file in shop.iterdir():
        file.unlink()
    assert main(["check-app", "shop"]) == 0
    assert capsys.readouterr().out.startswith("shop: warning: config: there is nothing to load in this directory")


def test_a_process_that_was_ended(shop: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    finds(monkeypatch, LoadFailed("its code has ended the process with status 3"))
    assert main(["check-app", "shop"]) == 1
    assert capsys.readouterr().out == "shop: error: config: its code has ended the process with status 3\nshop: 1 error\n"


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["nowhere"], "The folder nowhere does not exist"),
        (["shop", "other/shop"], "have the same name"),
        (["--HTTP_PORT", "1", "shop"], "--HTTP_PORT"),
        (["--https", "shop"], "takes no option --https"),
    ],
)
def test_what_is_not_understood(words: list[str], text: str, shop: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (shop.parent / "other" / "shop").mkdir(parents=True)
    assert main(["check-app", *words]) == 1
    assert text in capsys.readouterr().err
