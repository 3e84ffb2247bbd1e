"""The switch between two versions, and what is left of one that could not be made. Kills: tests/crash/test_deployment_kill.py."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from svc.deploying.layout import Layout
from svc.deploying.switching import KEEP, begin, clean, finish, go_back, names_in, recover


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    made = Layout(tmp_path / "components")
    made.make()
    return made


class Configuration:
    """Entries of projects. `fails`: how often the next writes fail."""

    def __init__(self) -> None:
        self.entries: dict[str, Any] = {}
        self.fails = 0

    def __call__(self, project: str, entry: Mapping[str, Any] | None) -> None:
        if self.fails:
            self.fails -= 1
            raise OSError(28, "No space left on device")
        if entry is None:
            self.entries.pop(project, None)
        else:
            self.entries[project] = entry


def version(layout: Layout, number: int) -> Path:
    path = layout.version("shop", str(number))
    path.mkdir(parents=True)
    (path / "v").write_text(str(number))
    return path


def served(layout: Layout) -> str | None:
    path = layout.project("shop") / "v"
    return path.read_text() if path.exists() else None


def test_one_version_after_the_other(layout: Layout) -> None:
    write = Configuration()
    for number in (1, 2):
        finish(layout, begin(layout, "shop", version(layout, number), entry={"package": str(number)}), write)
        assert served(layout) == str(number)
        assert write.entries == {"shop": {"package": str(number)}}
    assert os.readlink(layout.project("shop")) == ".deployments/shop-2", "the root can be moved"
    clean(layout)
    assert sorted(os.listdir(layout.area)) == ["payloads", "shop-2"]


def test_what_runs_is_not_removed(layout: Layout) -> None:
    write = Configuration()
    for number in (1, 2):
        finish(layout, begin(layout, "shop", version(layout, number)), write)
    clean(layout, [layout.version("shop", "1").resolve()])
    assert sorted(os.listdir(layout.area)) == ["payloads", "shop-1", "shop-2"]
    clean(layout)
    assert sorted(os.listdir(layout.area)) == ["payloads", "shop-2"]


def test_what_is_being_made_is_not_removed(layout: Layout) -> None:
    finish(layout, begin(layout, "shop", version(layout, 1)), Configuration())
    before = names_in(layout)
    late = version(layout, 2)
    clean(layout, names=before)
    assert late.exists(), "it has come since the names were read"
    (layout.area / ".shop.link").symlink_to("x")
    clean(layout, changing=["shop"])
    assert sorted(os.listdir(layout.area)) == [".shop.link", "payloads", "shop-1", "shop-2"]
    clean(layout, changing=["sho", "2"])
    assert sorted(os.listdir(layout.area)) == ["payloads", "shop-1"]


@pytest.mark.parametrize("former", ["link", "directory", "nothing"])
def test_back_to_what_was(layout: Layout, former: str) -> None:
    write = Configuration()
    write.entries["shop"] = {"package": "old"}
    if former == "link":
        finish(layout, begin(layout, "shop", version(layout, 1)), write)
    elif former == "directory":
        layout.project("shop").mkdir()
        (layout.project("shop") / "v").write_text("1")
    journal = begin(layout, "shop", version(layout, 2), entry={"package": "new"})
    finish(layout, journal, write)
    assert served(layout) == "2"
    go_back(layout, journal, write, {"package": "old"})
    assert served(layout) == (None if former == "nothing" else "1")
    assert layout.project("shop").is_symlink() == (former == "link")
    assert write.entries == {"shop": {"package": "old"}}
    clean(layout)
    assert sorted(os.listdir(layout.area)) == ["payloads", *(["shop-1"] if former == "link" else [])]


def test_a_switch_that_fails_halfway_is_finished_at_the_next_start(layout: Layout) -> None:
    write = Configuration()
    finish(layout, begin(layout, "shop", version(layout, 1)), write)
    journal = begin(layout, "shop", version(layout, 2), deployment_id="id", entry={"package": "new"})
    write.fails = 2
    with pytest.raises(OSError, match="No space"):
        finish(layout, journal, write)
    reports: list[str] = []
    assert recover(layout, write, reports.append) == []
    assert "cannot be finished" in reports[0]
    clean(layout)
    assert recover(layout, write, reports.append) == ["id"]
    assert (served(layout), write.entries, len(reports)) == ("2", {"shop": {"package": "new"}}, 1)
    assert recover(layout, write, reports.append) == []


@pytest.mark.parametrize("content", ["", "{", "[]", '{"project": "other"}', "\x00"])
def test_a_damaged_journal_is_told_and_changes_nothing(layout: Layout, content: str) -> None:
    write = Configuration()
    finish(layout, begin(layout, "shop", version(layout, 1)), write)
    layout.journal("shop").write_text(content)
    reports: list[str] = []
    assert recover(layout, write, reports.append) == []
    assert "shop.json" in reports[0]
    assert served(layout) == "1"


def test_a_directory_elsewhere_is_linked_and_never_removed(layout: Layout, tmp_path: Path) -> None:
    write = Configuration()
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "v").write_text("mine")
    finish(layout, begin(layout, "shop", elsewhere), write)
    assert served(layout) == "mine"
    finish(layout, begin(layout, "shop", None, entry=None), write)
    clean(layout)
    assert not layout.exists("shop")
    assert (elsewhere / "v").read_text() == "mine"


def test_a_link_that_leads_nowhere_is_replaced(layout: Layout) -> None:
    layout.project("shop").symlink_to("nowhere")
    assert layout.served("shop") is None
    assert layout.projects() == []
    finish(layout, begin(layout, "shop", version(layout, 1), entry=KEEP), Configuration())
    assert served(layout) == "1"
