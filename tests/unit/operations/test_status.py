"""Status texts, and what waits for a restart."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import svc
from svc.apps.app import App, EntryStatus
from svc.clock import FakeClock
from svc.errors import Problem
from svc.operations.status_board import CHANGES, RECORDS, StatusBoard
from tests.support.operations import OperationsNode
from tests.support.siblings import HANGS, FakeSiblings, answer


@pytest.fixture
def node(tmp_path: Path) -> Iterator[OperationsNode]:
    with OperationsNode(tmp_path) as node:
        yield node


def refused(node: OperationsNode, operation: str, **fields: Any) -> tuple[int, str]:
    with pytest.raises(Problem) as caught:
        node.run(operation, **fields)
    return caught.value.status_code, caught.value.message


def test_the_board_keeps_the_time_of_the_first_text() -> None:
    clock = FakeClock()
    board = StatusBoard(clock)
    first = board.set("primary", "a")
    assert first == {"id": "primary", "status": "a", "__createdtime__": 1767225600000, "__updatedtime__": 1767225600000}
    clock.advance(1)
    assert board.set("primary", "b")["__createdtime__"] == 1767225600000
    record = board.get("primary")
    assert record == {"id": "primary", "status": "b", "__createdtime__": 1767225600000, "__updatedtime__": 1767225601000}
    record["status"] = "changed"
    assert board.records()[0]["status"] == "b"
    assert board.clear("primary")
    assert not board.clear("primary")
    assert board.get("primary") is None


def test_the_reasons_for_a_restart_are_the_changed_settings() -> None:
    board = StatusBoard(FakeClock())
    assert not board.restart_required
    board.settings_changed(["http.port", "http.cors"])
    assert board.restart_required and board.restart_reasons == ["http.port", "http.cors"]
    board.settings_changed([])
    assert not board.restart_required


def test_files_of_applications_wait_for_a_restart_as_well() -> None:
    board = StatusBoard(FakeClock())
    board.settings_changed(["http.port"])
    board.component_changed("shop")
    board.files_changed("shop", ["resources.py", "helpers.py"])
    board.files_changed("blog", [f"m{number:02}.py" for number in range(12)])
    board.component_changed("news")
    board.component_changed("shop")
    assert board.restart_required
    blog = ", ".join(f"m{number:02}.py" for number in range(10))
    assert board.restart_reasons == [
        "http.port",
        f"component blog: {blog} and 2 more",
        "component news",
        "component shop: resources.py, helpers.py",
    ]
    for name in ("blog", "news", "shop"):
        board.component_loaded(name)
    assert board.restart_reasons == ["http.port"]


def test_a_text_is_set_read_and_cleared(node: OperationsNode) -> None:
    record = node.run("set_status", status="busy")
    assert record["id"] == "primary"
    assert node.run("get_status", id="primary") == record
    found = node.run("get_status")
    assert (found["systemStatus"], found["componentStatus"], found["restartRequired"]) == ([record], [], False)
    assert (found["version"], found["uptime"], found["addresses"], found["applications"]) == (svc.__version__, 0, {}, [])
    assert node.run("clear_status", id="primary") == {"message": "Status successfully cleared"}
    assert node.run("clear_status", id="primary") == {"message": "Status successfully cleared"}
    assert node.run("get_status")["systemStatus"] == []


@pytest.mark.parametrize("said", [None, "svc runs without cached bytecode"])
def test_a_start_that_takes_too_long_is_told(node: OperationsNode, monkeypatch: pytest.MonkeyPatch, said: str | None) -> None:
    monkeypatch.setattr("svc.operations.status.slow_start", lambda: said)
    assert node.run("get_status").get("slowStart") == said


def test_availability_takes_two_values(node: OperationsNode) -> None:
    assert node.run("set_status", id="availability", status="Available")["status"] == "Available"
    assert refused(node, "set_status", id="availability", status="down") == (
        400,
        'Status "availability" only accepts these values: Available, Unavailable',
    )
    assert node.run("get_status", id="availability")["status"] == "Available"


@pytest.mark.parametrize(
    ("operation", "fields", "status", "message"),
    [
        ("set_status", {}, 400, "'status' is required"),
        ("set_status", {"status": ""}, 400, "'status' is not allowed to be empty"),
        ("set_status", {"status": 5}, 400, "'status' must be a string"),
        ("set_status", {"status": "x" * 513}, 400, "'status' length must be less than or equal to 512 characters long"),
        ("set_status", {"id": "x", "status": "y"}, 400, "'id' must be one of [primary, maintenance, availability]"),
        ("set_status", {"id": ["primary"], "status": "y"}, 400, "'id' must be one of [primary, maintenance, availability]"),
        ("clear_status", {}, 400, "'id' is required"),
        ("clear_status", {"id": "x"}, 400, "'id' must be one of [primary, maintenance, availability]"),
        ("get_status", {"id": "maintenance"}, 404, "Status 'maintenance' is not set"),
        ("get_status", {"id": "x"}, 404, "Status 'x' is not set"),
        ("get_status", {"id": 5}, 400, "'id' must be a string"),
        ("get_status", {"id": {}}, 400, "'id' must be a string"),
    ],
)
def test_faults(node: OperationsNode, operation: str, fields: dict[str, Any], status: int, message: str) -> None:
    assert refused(node, operation, **fields) == (status, message)


def test_the_longest_text(node: OperationsNode) -> None:
    assert len(node.run("set_status", status="x" * 512)["status"]) == 512


def test_components_say_how_they_were_loaded(node: OperationsNode, tmp_path: Path) -> None:
    bad = EntryStatus()
    bad.warn("first")
    bad.fail("second")
    odd = EntryStatus()
    odd.warn("odd")
    app = App("shop", tmp_path, {}, {"config": EntryStatus(), "graphqlSchema": bad, "static": odd})
    node.node.apps = [app]
    checked = {"workers": {"0": 1767225600000}}
    assert node.run("get_status")["componentStatus"] == [
        {"name": "shop.config", "componentName": "shop", "status": "healthy", "lastChecked": checked},
        {
            "name": "shop.graphqlSchema",
            "componentName": "shop",
            "status": "error",
            "lastChecked": checked,
            "latestMessage": "second",
            "error": "first; second",
        },
        {"name": "shop.static", "componentName": "shop", "status": "warning", "lastChecked": checked, "latestMessage": "odd"},
    ]


def test_what_waits_for_a_restart_is_named(node: OperationsNode) -> None:
    node.node.status.settings_changed(["http.port"])
    found = node.run("get_status")
    assert found["restartRequired"] is True
    assert found["restartReasons"] == ["http.port"]


def test_status_is_for_super_users(node: OperationsNode) -> None:
    user = node.user("ann", {"super_user": False})
    for operation in ("set_status", "get_status", "clear_status"):
        with pytest.raises(Problem) as caught:
            node.run(operation, user, id="primary", status="x")
        assert caught.value.status_code == 403


# --- several instances ------------------------------------------------------------------------------------------------------------------


def entry_of(node: OperationsNode, status: str, instance: str, *messages: str) -> dict[str, Any]:
    found: dict[str, Any] = {"name": "shop.rest", "componentName": "shop", "status": status, "lastChecked": {"workers": {instance: 5}}}
    return {**found, "latestMessage": messages[-1], "error": "; ".join(messages)} if messages else found


def test_the_status_of_all_instances(node: OperationsNode) -> None:
    node.node.status.settings_changed(["http.port"])
    told = [
        {
            "componentStatus": [entry_of(node, "healthy", "1")],
            "restartRequired": True,
            "restartReasons": ["http.port", "component shop"],
            "uptime": 3.5,
        },
        {"componentStatus": [entry_of(node, "error", "2", "no")], "restartRequired": False, "restartReasons": [], "uptime": 4},
    ]
    answers = [answer(1, told[0]), answer(2, told[1]), answer(3, error=HANGS)]
    node.node.siblings = FakeSiblings(get_status=answers)  # type: ignore[assignment]
    found = node.run("get_status")
    assert found["componentStatus"] == [
        {**entry_of(node, "error", "2", "no"), "lastChecked": {"workers": {"1": 5, "2": 5}}},
    ]
    assert found["restartRequired"] is True and found["restartReasons"] == ["http.port", "component shop"]
    assert found["instances"] == [
        {"number": 0, "pid": os.getpid(), "uptime": found["uptime"]},
        {"number": 1, "pid": 1001, "uptime": 3.5},
        {"number": 2, "pid": 1002, "uptime": 4},
        {"number": 3, "pid": 1003, "error": HANGS},
    ]
    assert found["pid"] == os.getpid()  # it has no parent


def test_statuses_are_told_to_all_instances(node: OperationsNode, tmp_path: Path) -> None:
    siblings = FakeSiblings()
    node.node.siblings = siblings  # type: ignore[assignment]
    record = node.run("set_status", id="availability", status="Unavailable")
    node.run("set_status", status="a")
    node.run("clear_status", id="primary")
    with OperationsNode(tmp_path / "other") as other:
        board = other.node.status
        for topic, value in siblings.told:
            assert topic == CHANGES
            board.change(value)
        assert board.records() == [record] and board.is_unavailable
        node.run("restart")
        board.change(siblings.told[-1][1])
        assert board.records() == [] == node.node.status.records()


def test_an_instance_that_begins_has_the_statuses_of_the_others(node: OperationsNode) -> None:
    record = StatusBoard(FakeClock()).set("maintenance", "backup")
    siblings = FakeSiblings(status_records=[answer(1, [record]), answer(2, error=HANGS)])
    node.node.siblings = siblings  # type: ignore[assignment]
    node.wait(node.node.open_siblings)
    assert node.run("get_status", id="maintenance") == record
    assert siblings.functions[RECORDS](None) == [record]


def test_of_two_processes_with_one_number_the_newer_one_stands_for_it(node: OperationsNode) -> None:
    answers = [answer(1, "new", started=7), answer(1, "old", started=5), answer(0, "in place of this one", started=9)]
    node.node.siblings = FakeSiblings(any=answers)  # type: ignore[assignment]
    assert [each.value for each in node.wait(lambda: node.node.ask_others("operations.any", None))] == ["new"]


def test_the_first_instance_of_a_restart_clears_them(node: OperationsNode) -> None:
    """Those of the others, which still serve, too."""
    record = StatusBoard(FakeClock()).set("maintenance", "backup")
    siblings = FakeSiblings(status_records=[answer(1, [record])])
    node.node.siblings = siblings  # type: ignore[assignment]
    node.node.status.restarts = SimpleNamespace(begins_restart=True)  # type: ignore[assignment]
    node.wait(node.node.open_siblings)
    assert node.node.status.records() == [] and siblings.told == [(CHANGES, [{"id": "maintenance"}])]


def test_databases_that_were_lost(node: OperationsNode) -> None:
    node.run("create_database", database="garden")
    assert "stoppedDatabases" not in node.run("get_status")
    node.store.databases["garden"].env.has_stopped = True
    try:
        assert node.run("get_status")["stoppedDatabases"] == ["garden"]
    finally:
        node.store.databases["garden"].env.has_stopped = False
