"""Three nodes on one machine, each a real server with an engine of its own (spec: replication)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.integration.conftest import LIMIT, PASSWORD, Process
from tests.support.ports import free_port
from tests.support.waiting import wait_until

pytestmark = pytest.mark.programs

SCHEMA = """
type Item @table @export { id: ID @primaryKey  n: Int @indexed  text: String }
type Own @table(replicate: false) @export { id: ID @primaryKey }
"""


class Node:
    def __init__(self, path: Path, name: str, app: Path, **env: str) -> None:
        self.name = name
        self.root = path / name
        self.exchange = free_port()
        section = {"hostname": name, "securePort": self.exchange, "url": f"wss://127.0.0.1:{self.exchange}"}
        config = {"node": {"hostname": name}, "replication": section}
        self.process = Process(self.root, app, env={"SVC_SET_CONFIG": json.dumps(config), **env})
        self.start()

    def start(self) -> None:
        self.process.start()
        self.http = httpx.Client(base_url=self.process.url, auth=("admin", PASSWORD), timeout=LIMIT)

    def stop(self) -> None:
        self.http.close()
        self.process.stop()

    def kill(self) -> None:
        self.http.close()
        self.process.kill()

    def operate(self, **body: Any) -> Any:
        answer = httpx.post(self.process.operations_url, json=body, auth=("admin", PASSWORD), timeout=LIMIT)
        assert answer.status_code == 200, answer.text
        return answer.json()

    def join(self, other: Node) -> None:
        """Become known to another node, and to those it knows."""
        login = {"username": "admin", "password": PASSWORD}
        self.operate(operation="add_node", hostname=other.name, url=other.process.operations_url, authorization=login)

    def put(self, key: str, **values: Any) -> httpx.Response:
        answer = self.http.put(f"/Item/{key}", json=values)
        assert answer.status_code == 204, answer.text
        return answer

    def add(self, key: str, number: int) -> None:
        answer = self.http.patch(f"/Item/{key}", json={"n": {"__op__": "add", "value": number}})
        assert answer.status_code == 204, answer.text

    def items(self) -> dict[str, Any]:
        """All of them, with their versions."""
        found = self.http.get("/Item/?limit(10000)")
        assert found.status_code == 200, found.text
        return {record["id"]: record for record in found.json()}


@pytest.fixture
def app(tmp_path: Path) -> Path:
    directory = tmp_path / "shop"
    directory.mkdir()
    (directory / "schema.graphql").write_text(SCHEMA)
    (directory / "config.yaml").write_text("rest: true\ngraphqlSchema:\n  files: schema.graphql\n")
    return directory


@pytest.fixture
def nodes(tmp_path: Path, app: Path) -> Iterator[list[Node]]:
    found = [Node(tmp_path, name, app) for name in ("a", "b", "c")]
    for node in found[1:]:
        node.join(found[0])
    yield found
    for node in found:
        node.stop()


def are_equal(nodes: list[Node]) -> bool:
    first, *others = [node.items() for node in nodes]
    return all(other == first for other in others)


def test_what_is_put_at_one_is_got_at_all(nodes: list[Node]) -> None:
    a, b, c = nodes
    a.put("x", n=1, text="one")
    for node in (b, c):
        wait_until(lambda: node.http.get("/Item/x").status_code == 200)  # noqa: B023
        assert node.http.get("/Item/x").content == a.http.get("/Item/x").content
        assert node.http.get("/Item/x").headers["etag"] == a.http.get("/Item/x").headers["etag"]
        assert len(node.http.get("/Item/?n=1").json()) == 1, "the index has it"
    assert a.http.put("/Own/y", json={}).status_code == 204
    b.add("x", 2)
    c.http.delete("/Item/x").raise_for_status()
    a.put("z", n=3)
    wait_until(lambda: are_equal(nodes) and set(a.items()) == {"z"})
    assert [node.http.get("/Own/y").status_code for node in nodes] == [200, 404, 404]


def test_a_node_that_was_killed_catches_up_and_keeps_what_it_wrote(nodes: list[Node]) -> None:
    a, b, c = nodes
    a.put("counter", n=0)
    wait_until(lambda: are_equal(nodes))
    b.add("counter", 1)
    b.put("late", n=7)
    b.kill()
    for number in range(50):
        a.add("counter", 1)
        c.add("counter", 1)
        a.put(f"k{number}", n=number)
    b.start()
    b.add("counter", 1)
    wait_until(lambda: are_equal(nodes) and a.items()["counter"]["n"] == 102)
    assert a.items()["late"]["n"] == 7 and len(a.items()) == 52


def test_of_several_instances_one_replicates_and_another_takes_over(tmp_path: Path, app: Path) -> None:
    a, b = (Node(tmp_path, name, app, INSTANCES=count) for name, count in (("a", "2"), ("b", "1")))
    a.join(b)
    for number in range(40):
        a.put(f"before{number}", n=number)
    wait_until(lambda: len(b.items()) == 40)
    leader = next(process for process in a.process.instances if process.children())  # whose child the engine is
    leader.kill()
    a.http.close()
    a.http = httpx.Client(base_url=a.process.url, auth=("admin", PASSWORD), timeout=LIMIT)
    for number in range(40):
        a.put(f"after{number}", n=number)
        b.add("counter", 1)
    wait_until(lambda: are_equal([a, b]) and len(a.items()) == 81)
    for node in (a, b):
        node.stop()
