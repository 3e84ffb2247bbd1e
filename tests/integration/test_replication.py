"""Three nodes on one machine, each a real server with an engine of its own (spec: replication)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.integration.conftest import LIMIT, PASSWORD
from tests.integration.replicating import Node, make_app
from tests.support.waiting import wait_until

pytestmark = pytest.mark.programs


@pytest.fixture
def app(tmp_path: Path) -> Path:
    return make_app(tmp_path)


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
