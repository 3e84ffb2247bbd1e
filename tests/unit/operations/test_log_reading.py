"""read_log: fields, what is found, and answers of any length."""

from __future__ import annotations

import inspect
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from svc.config import Config
from svc.errors import Problem
from svc.logs import Logs
from svc.messages import Headers, Request
from svc.operations.service import Operations
from tests.support.operations import OperationsNode

SECOND = "2026-01-01T00:00:0{}.000Z"


class LogNode(OperationsNode):
    """A node whose log has a few entries, one a second from 2026-01-01T00:00:00Z."""

    def __init__(self, path: Path, **settings: Any) -> None:
        super().__init__(path, settings={"logging": {"level": "info", **settings}})
        self.node.logs = self.logs = Logs.from_config(self.config, clock=self.clock)
        self.logs.on_pending = lambda: None  # lines wait, as they do in a server
        self.logs.logger.notify("started")
        for number, level in enumerate(["info", "warn", "info", "error"]):
            self.clock.advance(1)
            self.logs.get_logger("shop").log(level, f"message {number}\nmore")

    def read(self, **fields: Any) -> list[str]:
        """The first words of the messages."""
        return [entry["message"].split("\n")[0] for entry in self.run("read_log", **fields)]

    def close(self) -> None:
        self.logs.close()
        super().close()


@pytest.fixture(params=["text", "json"])
def node(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[LogNode]:
    with LogNode(tmp_path, format=request.param) as node:
        yield node


def test_entries_in_the_order_of_the_file(node: LogNode) -> None:
    found = node.run("read_log")
    assert [entry["message"] for entry in found] == ["started", *(f"message {number}\nmore" for number in range(4))]
    assert found[1] == {
        "level": "info", "message": "message 0\nmore", "timestamp": SECOND.format(1), "thread": "main/0", "tags": ["shop"],
    }  # fmt: skip


def test_without_order_and_times_the_newest_entries(node: LogNode) -> None:
    def messages(**fields: Any) -> list[str]:
        return [entry["message"].partition("\n")[0] for entry in node.run("read_log", **fields)]

    assert messages(limit=2) == ["message 2", "message 3"]
    assert messages(limit=2, start=1) == ["message 1", "message 2"]
    assert messages(limit=2, start=4) == ["started"]
    assert messages(limit=2, order="asc") == ["started", "message 0"]
    assert messages(limit=2, order="desc") == ["message 3", "message 2"]
    assert messages(limit=2, **{"from": "2020-01-01"}) == ["started", "message 0"]


@pytest.mark.parametrize(
    ("fields", "messages"),
    [
        ({"order": "desc"}, ["message 3", "message 2", "message 1", "message 0", "started"]),
        ({"order": "asc", "limit": 2}, ["started", "message 0"]),
        ({"order": "desc", "limit": 2}, ["message 3", "message 2"]),
        ({"order": "desc", "start": 1, "limit": 2}, ["message 2", "message 1"]),
        ({"level": "info"}, ["message 0", "message 2"]),
        ({"level": "fatal"}, []),
        ({"level": "info", "order": "desc", "start": 1}, ["message 0"]),
        ({"filter": "message"}, ["message 0", "message 1", "message 2", "message 3"]),
        ({"filter": "shop", "level": "warn"}, ["message 1"]),
        ({"filter": ""}, ["started", "message 0", "message 1", "message 2", "message 3"]),
        ({"filter": "more", "from": SECOND.format(2), "until": SECOND.format(3), "order": "desc"}, ["message 2", "message 1"]),
        ({"from": "2026-01-01 00:00:03"}, ["message 2", "message 3"]),
        ({"from": "2026-01-01T01:00:03+01:00"}, ["message 2", "message 3"]),
        ({"from": "2026-01-01", "to": "2026-01-01"}, ["started"]),
        ({"from": "2026-01-02"}, []),
        ({"until": "2025-12-31"}, []),
        ({"until": 1767225601000}, ["started", "message 0"]),
        ({"until": "2026-01-01", "to": "2030-01-01"}, ["started"]),
        ({"start": 100}, []),
        ({"limit": 10**9}, ["started", "message 0", "message 1", "message 2", "message 3"]),
    ],
)
def test_filters_are_combined(node: LogNode, fields: dict[str, Any], messages: list[str]) -> None:
    assert node.read(**fields) == messages


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"start": -1}, "'start' must be greater than or equal to 0"),
        ({"limit": 0}, "'limit' must be greater than or equal to 1"),
        ({"limit": "ten"}, "'limit' must be a number"),
        ({"limit": 1.5}, "'limit' must be an integer"),
        ({"limit": 10**40}, "'limit' must be a safe number"),
        ({"level": "loud"}, "'level' must be one of [notify, fatal, error, warn, info, debug, trace]"),
        ({"level": ["info"]}, "'level' must be one of [notify, fatal, error, warn, info, debug, trace]"),
        ({"order": "up"}, "'order' must be one of [asc, desc]"),
        ({"filter": 5}, "'filter' must be a string"),
        ({"from": "yesterday"}, "'from' date 'yesterday' is invalid."),
        ({"from": ""}, "'from' date '' is invalid."),
        ({"from": "2026-13-01"}, "'from' date '2026-13-01' is invalid."),
        ({"from": []}, "'from' date '[]' is invalid."),
        ({"from": True}, "'from' date 'True' is invalid."),
        ({"from": 1e300}, "'from' date '1e+300' is invalid."),
        ({"to": "x" * 1000}, f"'until' date '{'x' * 100}' is invalid."),
        ({"log_name": "../../etc/passwd"}, "'log_name' '../../etc/passwd' is invalid."),
        ({"log_name": ""}, "'log_name' '' is invalid."),
        ({"log_name": "http.log"}, "'log_name' 'http.log' is invalid."),
        ({"log_name": 5}, "'log_name' must be a string"),
        ({"replicated": 1}, "'replicated' must be a boolean"),
    ],
)
def test_faults(node: LogNode, fields: dict[str, Any], message: str) -> None:
    with pytest.raises(Problem) as caught:
        node.run("read_log", **fields)
    assert (caught.value.status_code, caught.value.message) == (400, message)


def test_times_that_no_entry_can_have(node: LogNode) -> None:
    for time in ("0001-01-01", "9999-12-31T23:59:59.999999", "0001-01-01T00:00:00+14:00", -8.64e15, 8.64e15):
        assert len(node.read(**{"from": time})) in (0, 5)
        assert len(node.read(until=time, order="desc")) in (0, 5)


def test_the_log_of_the_installation(node: LogNode) -> None:
    assert node.read(log_name="install.log") == []
    (node.root / "log" / "install.log").write_text("2026-01-01T00:00:00.000Z [main/0] [notify]: svc installed\n")
    assert node.read(log_name="install.log") == ["svc installed"]


def test_a_missing_file_has_no_entries(tmp_path: Path) -> None:
    with OperationsNode(tmp_path) as node:
        assert node.run("read_log") == []


def test_the_file_is_the_one_of_the_configuration_in_effect(node: LogNode) -> None:
    node.logs.configure(Config.from_document({"logging": {"path": "log/other.log"}}, node.root))
    node.logs.logger.warn("elsewhere")
    assert node.read() == ["elsewhere"]


def test_with_replicated_the_node_is_named(node: LogNode) -> None:
    assert {entry["node"] for entry in node.run("read_log", replicated=True)} == {"localhost"}


def test_a_log_that_cannot_be_read_is_said(node: LogNode) -> None:
    node.logs.flush()
    file = node.root / "log" / "svc.log"
    file.unlink()
    file.mkdir()
    node.logs.on_pending = lambda: None
    with pytest.raises(Problem) as caught:
        node.run("read_log")
    assert caught.value.status_code == 500
    assert caught.value.message == "The log could not be read: Is a directory"


def test_only_super_users(node: LogNode) -> None:
    with pytest.raises(Problem) as caught:
        node.run("read_log", node.user("ann", {"super_user": False}))
    assert caught.value.status_code == 403


# --- long answers ---------------------------------------------------------------------------------------------------------------------------


@pytest.fixture
def long_node(tmp_path: Path) -> Iterator[LogNode]:
    with LogNode(tmp_path) as node:
        for number in range(3000):
            node.logs.logger.info("entry", number)
        yield node


def request(accept: str) -> Request:
    return Request("POST", "/", Headers([("Accept", accept)]))


def answer(node: LogNode, accept: str, **fields: Any) -> Any:
    async def ask() -> Any:
        call = Operations(node.node).prepare({"operation": "read_log", **fields}, node.admin, request(accept))
        result = node.operations.run(call)
        return await result if inspect.isawaitable(result) else result

    return node.wait(ask)


def body(node: LogNode, response: Any) -> bytes:
    async def collect() -> bytes:
        return b"".join([part async for part in response.body])

    return node.wait(collect)  # type: ignore[no-any-return]


def test_long_answers_are_streamed(long_node: LogNode) -> None:
    response = answer(long_node, "application/json", limit=10**9)
    found = json.loads(body(long_node, response))
    assert len(found) == 3005
    assert found[-1]["message"] == "entry 2999"
    assert ("Content-Type", "application/json") in response.pairs
    csv = body(long_node, answer(long_node, "text/csv", limit=10**9, replicated=True)).decode()
    assert csv.splitlines()[0].replace('"', "") == "level,message,timestamp,thread,tags,node"


def test_code_gets_all_of_a_long_answer(long_node: LogNode) -> None:
    assert len(long_node.read(limit=10**9, order="desc")) == 3005
    assert len(long_node.read()) == 1000


def test_types_that_count_first_get_what_fits(long_node: LogNode, monkeypatch: pytest.MonkeyPatch) -> None:
    assert len(answer(long_node, "application/x-msgpack", limit=10**9)) == 3005
    monkeypatch.setattr("svc.operations.log_reading.MOST_COUNTED", 1000)
    with pytest.raises(Problem, match="The answer has more than 1000 entries"):
        answer(long_node, "application/x-msgpack", limit=10**9)


def test_a_stream_nobody_reads_to_its_end_gives_the_file_back(long_node: LogNode) -> None:
    response = answer(long_node, "application/json", limit=10**9)

    async def some() -> bytes:
        first: bytes = await anext(response.body)
        await response.body.aclose()
        return first

    assert long_node.wait(some) == b"["


def test_entries_with_a_tag(node: LogNode) -> None:
    assert node.read(tag="shop", level="info") == ["message 0", "message 2"]
    assert node.read(tag="sho") == node.read(tag="message") == []
    assert node.read(tag="shop", filter="3", order="desc") == ["message 3"]
    assert len(node.read(tag=None)) == 5
