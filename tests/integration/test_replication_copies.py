"""Databases that are copied from other nodes, by real servers with engines of their own (spec: replication §11)."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.integration.conftest import LIMIT, PASSWORD
from tests.integration.replicating import Node, starting_nodes
from tests.support.waiting import wait_until

pytestmark = pytest.mark.programs


@pytest.fixture
def nodes(tmp_path: Path) -> Iterator[list[Node]]:
    with starting_nodes(tmp_path) as start:
        yield [start(name, LOGGING_LEVEL="info", INSTANCES="2" if name == "b" else "1") for name in ("a", "b", "c")]


def are_equal(nodes: list[Node]) -> bool:
    first, *others = [node.items() for node in nodes]
    return all(other == first for other in others)


def lose_the_past(node: Node) -> None:
    """Neither its log nor its stream begins with the first entry any more."""

    def is_gone() -> bool:  # what is published is noted after some seconds
        started = node.operate(operation="delete_transaction_logs_before", timestamp=4_000_000_000_000, schema="data", table="Item")
        wait_until(lambda: node.operate(operation="get_job", id=started["job_id"])[0]["status"] == "COMPLETE")
        return not node.operate(operation="read_transaction_log", schema="data", table="Item")

    wait_until(is_gone, pause=0.5)
    node.stop()
    shutil.rmtree(node.root / "replication" / "streams")
    node.start()


def load(node: Node, count: int, **values: Any) -> None:
    node.operate(operation="upsert", schema="data", table="Item", records=[{"id": f"k{n:05}", "n": n, **values} for n in range(count)])


def has_logged(node: Node, text: str) -> bool:
    return any(text in path.read_text() for path in (node.root / "log").glob("*.log"))


def test_a_new_node_joins_beside_writes(nodes: list[Node]) -> None:
    a, b, c = nodes
    load(a, 2000, text="x" * 300)
    a.put("last", n=0)
    lose_the_past(a)
    b.put("own", n=5)
    b.add("k00007", 1)
    b.join(a)
    number = 0

    def is_there() -> bool:
        nonlocal number
        number += 1
        a.add("last", 1)
        b.add("last", 1)
        return len(b.items()) == 2002

    wait_until(is_there)
    wait_until(lambda: are_equal([a, b]))
    for _ in range(8):  # whichever instance answers, with its index of it
        found = b.http.get("/Item/?n=1234").json()
        assert [record["id"] for record in found] == ["k01234"]
        b.http.close()
        b.http = httpx.Client(base_url=b.process.url, auth=("admin", PASSWORD), timeout=LIMIT)
    wait_until(lambda: has_logged(b, "database data: the copy from a is in place"))
    assert a.items()["last"]["n"] == 2 * number and a.items()["k00007"]["n"] == 8 and a.items()["own"]["n"] == 5
    c.join(a)
    wait_until(lambda: are_equal(nodes))
    assert a.http.get("/Item/k00009").headers["etag"] == c.http.get("/Item/k00009").headers["etag"]


def test_both_sides_are_killed_while_it_is_copied(nodes: list[Node]) -> None:
    a, b, _ = nodes
    for part in range(10):
        a.operate(
            operation="upsert",
            schema="data",
            table="Item",
            records=[{"id": f"k{part}{n:04}", "n": 1, "text": "x" * 2000} for n in range(1000)],
        )
    a.put("last", n=0)
    lose_the_past(a)
    b.put("late", n=7)
    b.join(a)
    wait_until(lambda: has_logged(b, "database data: it is copied from a"))
    a.kill()
    a.start()
    wait_until(lambda: len(b.items()) > 1)
    b.add("late", 1)
    b.kill()
    b.start()
    wait_until(lambda: b.http.get("/Item/last").status_code == 200)
    a.add("last", 1)
    b.add("last", 1)

    def keys_of(node: Node) -> bytes:
        return node.http.get("/Item/?select(id)&sort(id)&limit(20000)").content

    wait_until(lambda: keys_of(a) == keys_of(b))
    wait_until(lambda: all(node.http.get("/Item/last").json()["n"] == 2 for node in (a, b)))
    assert all(node.http.get("/Item/late").json()["n"] == 8 for node in (a, b))


def test_a_stream_is_purged_while_a_node_is_away(nodes: list[Node]) -> None:
    a, b, c = nodes
    b.join(a)
    c.join(a)
    a.put("gone", n=1)
    a.put("counter", n=0)
    wait_until(lambda: are_equal(nodes))
    b.stop()
    a.http.delete("/Item/gone").raise_for_status()
    for number in range(20):
        a.put(f"k{number}", n=number)
        c.add("counter", 1)
    wait_until(lambda: a.items() == c.items())
    a.operate(operation="purge_stream", database="data", options={"keep": 0})
    a.stop()
    c.stop()  # b writes while it is alone
    b.start()
    b.put("late", n=7)
    b.add("counter", 100)
    a.start()
    c.start()
    wait_until(lambda: are_equal(nodes) and "k19" in b.items())
    assert set(a.items()) == {"late", "counter", *(f"k{number}" for number in range(20))}
    assert a.items()["counter"]["n"] == 120
    wait_until(lambda: has_logged(b, "database data: the copy from a is in place"))


def run_job(node: Node, **body: Any) -> None:
    started = node.operate(**body)
    wait_until(lambda: node.operate(operation="get_job", id=started["job_id"])[0]["status"] == "COMPLETE")


def test_a_backup_is_restored_on_one_node(nodes: list[Node]) -> None:
    a, b, _ = nodes
    b.join(a)
    a.put("counter", n=0)
    a.put("gone", n=1)
    b.add("counter", 1)
    wait_until(lambda: are_equal([a, b]) and a.items()["counter"]["n"] == 1)
    run_job(a, operation="create_backup", database="data")
    number = a.operate(operation="list_backups", database="data")[0]["backup_id"]
    for _ in range(10):
        a.add("counter", 10)
        b.add("counter", 100)
    a.put("later", n=3)
    a.http.delete("/Item/gone").raise_for_status()
    wait_until(lambda: are_equal([a, b]) and a.items()["counter"]["n"] == 1101)
    a.stop()
    command = [sys.executable, "-m", "svc", "restore_backup", "database=data", f"backup_id={number}"]
    subprocess.run(command, env=a.process.env, check=True, timeout=LIMIT, capture_output=True)
    a.start()
    wait_until(lambda: are_equal([a, b]) and "later" in a.items())
    a.add("counter", 1000)
    b.add("counter", 10000)
    a.put("last", n=4)
    wait_until(lambda: are_equal([a, b]) and "last" in b.items())
    wait_until(lambda: has_logged(a, "what this node had written after the backup is there again"))
    assert not any(has_logged(node, "database data: it is copied") for node in (a, b))
    assert a.items()["counter"]["n"] == 12101 and "gone" not in a.items()
    a.kill()
    a.start()
    a.add("counter", 1)
    wait_until(lambda: are_equal([a, b]) and b.items()["counter"]["n"] == 12102)
