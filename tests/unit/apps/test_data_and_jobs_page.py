"""docs/data-and-jobs.md: its application does what the page says."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

import pytest

from svc.cli.commands import BY_NAME
from svc.clock import FakeClock
from svc.operations.registry import by_name
from tests.support.application import Application
from tests.support.node import Node

PAGE = (Path(__file__).parents[3] / "docs" / "data-and-jobs.md").read_text("utf-8")
FILES = dict(re.findall(r"^`([\w./]+)`:\n\n```\w*\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL))


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    for name, text in {**FILES, "config.yaml": FILES["config.yaml"].replace("data/*.yaml", "data/*")}.items():
        (tmp_path / "app" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "app" / name).write_text(text)
    node = Node(tmp_path / "data", app=tmp_path / "app", clock=FakeClock(datetime.fromisoformat("2026-02-01T00:00Z").timestamp()))
    yield node
    node.close()


def test_the_application_of_the_page_works(node: Node) -> None:
    assert node.app.status == "healthy", node.app.entries
    app = Application(node)
    assert os.environ["GREETING"] == "good day" and os.environ["CURRENCY"] == "EUR"
    assert app.ask("GET", "/Count/all") == (200, {"id": "all", "shows": 0})
    assert app.ask("GET", "/Show/hamlet")[1]["open"] is True
    node.scheduler.start()
    for seconds in (0, 300):
        node.clock.advance(seconds)
        node.scheduler.tick()
        app.run(node.scheduler.settle())
    assert app.ask("GET", "/Count/all") == (200, {"id": "all", "shows": 2})
    node.clock.advance(7200)
    node.scheduler.tick()
    app.run(node.scheduler.settle())
    assert [app.ask("GET", f"/Show/{name}")[1]["open"] for name in ("hamlet", "faust")] == [False, True]
    assert {job["status"] for job in node.scheduler.jobs()} == {"succeeded"}, node.scheduler.jobs()


def test_the_operations_of_the_page_exist() -> None:
    for name in re.findall(r"(?:^|`)svc ([a-z_]+)", PAGE, re.MULTILINE):
        assert name in by_name() or name in BY_NAME
    assert len(FILES) == 6
