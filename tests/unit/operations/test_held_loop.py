"""What has held the loop: log, metric, status."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from svc.clock import FakeClock
from svc.config import Config
from svc.logs import Logs
from svc.logs.application_code import Place
from svc.operations.held_loop import MAX_HANDLERS, HeldLoop
from tests.support.operations import OperationsNode

PLACE = Place("shop", "resources.py", 12, "Seat.get")


class Scene:
    def __init__(self, root: Path) -> None:
        self.root = root
        self.clock = FakeClock()
        self.logs = Logs.from_config(Config.from_document({"logging": {"level": "debug"}}, root), clock=self.clock)
        self.metrics: list[tuple[Any, ...]] = []
        self.held = HeldLoop(self.logs, self.clock, lambda *event: self.metrics.append(event))

    def lines(self) -> list[str]:
        self.logs.flush()
        file = self.root / "log" / "svc.log"
        return [line.partition("Z ")[2] for line in file.read_text().splitlines()] if file.exists() else []


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Scene]:
    scene = Scene(tmp_path)
    yield scene
    scene.logs.close()


def test_a_handler_is_logged_once_a_minute_and_counted_each_time(scene: Scene) -> None:
    scene.held.note_handler(PLACE, 0.125)
    scene.held.note_handler(PLACE._replace(line=14), 0.0625)
    advice = "give work that blocks or computes to svc.run_in_thread, or await between its parts"
    assert scene.lines() == [f"[main/0] [warn] [shop]: Seat.get (resources.py, line 12) held the loop for 125 ms: {advice}"]
    scene.clock.advance(60)
    scene.held.note_handler(PLACE, 0.075)
    assert f"held the loop for 75 ms, 2 times since this was last logged: {advice}" in scene.lines()[1]
    assert scene.metrics == [
        (125.0, "held-loop", "shop", "Seat.get", "application"),
        (62.5, "held-loop", "shop", "Seat.get", "application"),
        (75.0, "held-loop", "shop", "Seat.get", "application"),
    ]


def test_what_does_not_end_is_on_the_disk_at_once(scene: Scene) -> None:
    scene.logs.on_pending = lambda: None
    scene.held.note_stuck(PLACE, 5.0)
    text = (scene.root / "log" / "svc.log").read_text()
    assert "[error] [shop]: Seat.get (resources.py, line 12) has held the loop for 5 s and still does: nobody is served meanwhile" in text
    assert scene.held.status() is None


def test_the_status_has_the_worst_first(scene: Scene) -> None:
    assert scene.held.status() is None
    scene.held.note_handler(PLACE, 0.06)
    scene.held.note_handler(PLACE._replace(function="worse"), 0.2)
    scene.held.note_handler(PLACE, 0.051)
    status = scene.held.status()
    assert status is not None and (status["applications"], status["service"]) == (3, 0)
    assert [each["function"] for each in status["handlers"]] == ["worse", "Seat.get"]
    assert status["handlers"][1] == {
        "application": "shop",
        "function": "Seat.get",
        "file": "resources.py",
        "line": 12,
        "count": 2,
        "longestMs": 60.0,
        "lastMs": 51.0,
        "lastTime": 1767225600000,
    }


def test_our_own_work_is_counted_apart_and_a_matter_of_debugging(scene: Scene) -> None:
    scene.held.note_service("commit (store/env.py, line 3)", 0.08)
    scene.held.note_service("commit (store/env.py, line 3)", 0.08)
    assert scene.held.status() == {"applications": 0, "service": 2, "handlers": []}
    assert scene.lines() == ["[main/0] [debug]: commit (store/env.py, line 3) held the loop for 80 ms"]
    assert scene.metrics[0] == (80.0, "held-loop", None, None, "service")


def test_the_number_of_handlers_is_bounded(scene: Scene) -> None:
    scene.held.note_handler(PLACE._replace(function="first"), 0.1)
    for number in range(MAX_HANDLERS):
        scene.held.note_handler(PLACE._replace(function=f"f{number}"), 0.1)
    status = scene.held.status()
    assert status is not None and status["applications"] == MAX_HANDLERS + 1
    assert len(status["handlers"]) == MAX_HANDLERS
    assert "first" not in {each["function"] for each in status["handlers"]}


def test_get_status_shows_it(tmp_path: Path, scene: Scene) -> None:
    with OperationsNode(tmp_path / "node") as node:
        assert "heldLoop" not in node.run("get_status")
        node.node.status.held_loop = scene.held
        assert "heldLoop" not in node.run("get_status")
        scene.held.note_handler(PLACE, 0.06)
        assert node.run("get_status")["heldLoop"]["handlers"][0]["function"] == "Seat.get"
