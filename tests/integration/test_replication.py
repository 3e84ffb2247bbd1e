"""Three nodes on one machine, each a real server with an engine of its own (spec: replication)."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.integration.conftest import LIMIT, PASSWORD
from tests.integration.replicating import Node, Start, starting_nodes
from tests.support.waiting import wait_until

pytestmark = pytest.mark.programs


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    with starting_nodes(tmp_path) as start:
        yield start


@pytest.fixture
def nodes(start: Start) -> list[Node]:
    found = [start(name) for name in ("a", "b", "c")]
    for node in found[1:]:
        node.join(found[0])
    return found


def metrics(node: Node) -> str:
    answer = httpx.get(f"{node.process.operations_url}/metrics", auth=("admin", PASSWORD), timeout=LIMIT)
    assert answer.status_code == 200, answer.text
    return answer.text


def aggregated(node: Node) -> set[str]:
    """The nodes of which it has rows."""
    return {row["node"] for row in node.operate(operation="get_analytics", metric="resource-usage")}


def missing_there(node: Node, other: str) -> int:
    """Entries of `data`."""
    found = sockets(node, other)["data"]["lagThere"]["entries"]
    return -1 if found is None else int(found)


def sockets(node: Node, other: str) -> dict[str, Any]:
    """What `cluster_status` of a node says of another, by database."""
    (found,) = [each for each in node.operate(operation="cluster_status")["connections"] if each["name"] == other]
    return {each["database"]: each for each in found["database_sockets"]}


def are_equal(nodes: list[Node]) -> bool:
    first, *others = [node.items() for node in nodes]
    return all(other == first for other in others)


def measured_lags(node: Node) -> set[str]:
    """The streams of which the analytics of the last seconds have the lag."""
    node.http.get("/Item/z")  # a second without a request has no row
    own = [{"attribute": "threadId", "value": 0}]
    rows = node.operate(operation="search_by_conditions", database="system", table="svc_raw_analytics", conditions=own)
    return {entry["path"] for row in rows for entry in row["metrics"] if entry["metric"] == "replication-lag" and entry["ms"] >= 0}


def test_what_is_put_at_one_is_got_at_all(nodes: list[Node]) -> None:
    a, b, c = nodes
    a.put("x", n=1, text="one")
    for node in (b, c):
        wait_until(lambda: node.http.get("/Item/x").status_code == 200)  # noqa: B023
        assert node.http.get("/Item/x").content == a.http.get("/Item/x").content
        assert node.http.get("/Item/x").headers["etag"] == a.http.get("/Item/x").headers["etag"]
        assert len(node.http.get("/Item/?n=1").json()) == 1, "the index has it"
    assert a.http.put("/Own/y", json={}).status_code == 204
    with b.http.stream("GET", "/Item/watched", headers={"Accept": "text/event-stream"}) as events:
        found = (json.loads(line[5:]) for line in events.iter_lines() if line.startswith("data:"))
        for node, number in ((a, 1), (c, 2)):
            node.put("watched", n=number)
            event = next(found)
            assert (event["node"], event["value"]["n"]) == (node.name, number)
    a.http.delete("/Item/watched").raise_for_status()
    b.add("x", 2)
    c.http.delete("/Item/x").raise_for_status()
    a.put("z", n=3)
    wait_until(lambda: are_equal(nodes) and set(a.items()) == {"z"})
    assert [node.http.get("/Own/y").status_code for node in nodes] == [200, 404, 404]
    wait_until(lambda: "svc_replication_lag_entries{" in metrics(a) and 'type="ingress"' in metrics(a))
    for line in (
        'svc_replication_connected{node="b"} 1',
        'svc_replication_reading{node="c",database="data"} 1',
        'svc_replication_publishing{database="data"} 1',
        'svc_replication_unique_conflicts_total{node="b",database="data"} 0',
    ):
        wait_until(lambda: line in metrics(a), lambda: metrics(a))  # noqa: B023
    wait_until(
        lambda: all(
            f'svc_replication_lag_entries{{node="{other}",database="data",direction="{way}"}} 0' in metrics(a)
            for other in "bc"
            for way in ("sent", "received")
        )
    )
    wait_until(lambda: {"b.data", "c.data"} <= measured_lags(a))


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
    wait_until(lambda: missing_there(a, "b") >= 100)
    b.start()
    b.add("counter", 1)
    wait_until(lambda: are_equal(nodes) and a.items()["counter"]["n"] == 102)
    assert a.items()["late"]["n"] == 7 and len(a.items()) == 52
    wait_until(lambda: missing_there(a, "b") == missing_there(c, "b") == 0)


def test_a_unique_value_that_two_nodes_have_accepted_is_counted(start: Start) -> None:
    a, b = start("a"), start("b")
    b.join(a)
    assert a.http.put("/Member/1", json={"mail": "one"}).status_code == 204
    wait_until(lambda: b.http.get("/Member/1").status_code == 200)
    b.kill()
    assert a.http.put("/Member/2", json={"mail": "both"}).status_code == 204
    a.kill()
    b.start()
    assert b.http.put("/Member/3", json={"mail": "both"}).status_code == 204
    a.start()
    for node, other in ((a, "b"), (b, "a")):
        wait_until(lambda: len(node.http.get("/Member/?mail=both").json()) == 2)  # noqa: B023
        wait_until(lambda: sockets(node, other)["data"]["uniqueConflicts"] == 1)  # noqa: B023
        assert node.http.put("/Member/4", json={"mail": "both"}).status_code == 409
        wait_until(lambda: "one value of the unique attribute Member.mail" in node.process.logged(), node.process.logged)  # noqa: B023


def test_of_several_instances_one_replicates_and_another_takes_over(start: Start) -> None:
    period = {"ANALYTICS_AGGREGATEPERIOD": "2"}
    a = start("a", INSTANCES="2", ANALYTICS_REPLICATE="true", **period)
    b = start("b", **period)
    a.join(b)
    for number in range(40):
        a.put(f"before{number}", n=number)
    wait_until(lambda: len(b.items()) == 40)
    for _ in range(8):  # of both instances
        with httpx.Client(base_url=a.process.url, auth=("admin", PASSWORD), timeout=LIMIT) as client:
            answer = client.put("/Item/confirmed", json={"n": 1}, headers={"X-Replicate-To": ";confirm=1"})
            assert answer.status_code == 204, answer.text
        assert b.http.get("/Item/confirmed").headers["etag"] == a.http.get("/Item/confirmed").headers["etag"]
    for _ in range(8):  # whichever instance is asked
        (other,) = a.operate(operation="cluster_status")["connections"]
        assert (other["name"], len(other["database_sockets"])) == ("b", 2)
        answer = a.operate(operation="read_log", limit=1, replicated=True)
        assert {entry["node"] for entry in answer} == {"a", "b"}
    leader = next(process for process in a.process.instances if process.children())  # whose child the engine is
    leader.kill()
    a.http.close()
    a.http = httpx.Client(base_url=a.process.url, auth=("admin", PASSWORD), timeout=LIMIT)
    for number in range(40):
        a.put(f"after{number}", n=number)
        b.add("counter", 1)
    wait_until(lambda: are_equal([a, b]) and len(a.items()) == 82)
    wait_until(lambda: aggregated(b) == {"a", "b"})
    assert aggregated(a) == {"a"}, "b does not send its own, and takes those of others"


def test_a_write_that_asks_for_it_is_answered_when_others_have_it(nodes: list[Node]) -> None:
    a, b, c = nodes
    both = {"X-Replicate-To": ";confirm=2"}
    for number in range(5):
        answer = a.http.put(f"/Item/k{number}", json={"n": number}, headers=both)
        assert answer.status_code == 204, answer.text
        assert [node.http.get(f"/Item/k{number}").status_code for node in (b, c)] == [200, 200]
    answer = a.http.put("/Own/x", json={}, headers=both)
    assert answer.status_code == 204, "nothing of it is sent"
    records = [{"id": f"o{number}", "n": number} for number in range(300)]
    a.operate(operation="insert", table="Item", records=records, replicatedConfirmation=2)
    assert b.http.get("/Item/o299").status_code == c.http.get("/Item/o299").status_code == 200
    for value, status in ((";confirm=3", 400), ("b", 501), ("1", 501), (";confirm=x", 400)):
        assert a.http.put("/Item/refused", json={}, headers={"X-Replicate-To": value}).status_code == status
    assert a.http.get("/Item/refused").status_code == 404
    c.kill()
    answer = a.http.put("/Item/alone", json={"n": 1}, headers={"X-Replicate-To": "*;confirm=1"})
    assert answer.status_code == 204, answer.text
    assert b.http.get("/Item/alone").status_code == 200
    c.start()
    wait_until(lambda: set(c.items()) == set(a.items()))


def test_what_is_not_confirmed_in_time_stands(start: Start) -> None:
    a, b = (start(name, confirm_timeout=2000) for name in ("a", "b"))
    a.join(b)
    b.kill()
    answer = a.http.put("/Item/short", json={"n": 1}, headers={"X-Replicate-To": ";confirm=1"})
    assert answer.status_code == 504 and answer.json()["code"] == "NOT_CONFIRMED", answer.text
    assert a.http.get("/Item/short").status_code == 200
    a.put("other", n=2)  # which does not ask


def test_the_content_of_blobs_follows_also_after_a_kill(nodes: list[Node]) -> None:
    a, b, c = nodes
    content = {f"f{number}": bytes([number]) * (number * 700_001 + 9000) for number in range(12)}
    for key, data in content.items():
        a.put(key, n=1)
        answer = a.http.put(f"/Item/{key}/file", content=data, headers={"Content-Type": "application/octet-stream"})
        assert answer.status_code == 204, answer.text
    wait_until(lambda: len(b.items()) == 12)
    b.kill()  # with some of them on their way
    b.start()
    for node in (b, c):
        for key, data in content.items():
            wait_until(lambda: node.http.get(f"/Item/{key}/file").status_code == 200)  # noqa: B023
            answer = node.http.get(f"/Item/{key}/file")
            assert answer.content == data and answer.headers["content-type"] == "application/octet-stream"
    wait_until(lambda: 'type="blob"' in metrics(a))
    end_while_a_blob_is_fetched(a, b)


def end_while_a_blob_is_fetched(a: Node, b: Node) -> None:
    """The end of a node waits for those who fetch blobs from it."""
    (reader,) = b.process.instances
    for number in range(8):
        content = os.urandom(1 << 20) * (16 << number)
        size, is_found = len(content), False
        a.put(f"large{number}", n=1)
        before = fetched_bytes(b)
        answer = a.http.put(f"/Item/large{number}/file", content=content, headers={"Content-Type": "application/octet-stream"})
        assert answer.status_code == 204, answer.text
        wait_until(lambda: fetched_bytes(b) > before)  # noqa: B023
        reader.suspend()
        try:
            is_found = fetched_bytes(b) - before < size - (4 << 20)  # some of its requests may be under way
            if is_found:
                assert a.process.process is not None
                a.process.process.send_signal(signal.SIGTERM)
                wait_until(lambda: "Stopping svc" in a.process.logged())
        finally:
            reader.resume()
        if is_found:
            break
    else:
        raise AssertionError("blobs are fetched before anybody can look")
    assert a.process.process.wait(LIMIT) == 0
    assert b.http.get(f"/Item/large{number}/file").content == content
    assert "does not wait any more" not in a.process.logged()


def fetched_bytes(node: Node) -> int:
    return sum(path.stat().st_size for path in node.root.rglob("blobs/**/*") if path.is_file())


def test_of_a_node_with_subscriptions_only_these_tables_are_taken(start: Start) -> None:
    a, b = (start(name) for name in ("a", "b"))
    b.join(a)
    a.put("first", n=1)
    wait_until(lambda: set(b.items()) == {"first"})
    subscription = {"database": "data", "table": "Item", "subscribe": True, "publish": True}
    b.operate(operation="set_node_replication", node_name="a", subscriptions=[subscription])
    wait_until(lambda: 'svc_replication_reading{node="a",database="system"}' not in metrics(b))
    a.operate(operation="create_table", table="Other", primary_key="id")
    a.operate(operation="insert", table="Other", records=[{"id": "o"}])
    a.put("second", n=2)
    wait_until(lambda: set(b.items()) == {"first", "second"})
    assert "Other" in a.operate(operation="describe_database", database="data")
    assert "Other" not in b.operate(operation="describe_database", database="data")
    b.put("third", n=3)
    wait_until(lambda: set(a.items()) == {"first", "second", "third"})
    exchange_one_way(a, b)


def exchange_one_way(a: Node, b: Node) -> None:
    """Nodes say each for itself what they exchange with another one."""

    def replicate(sends: bool, receives: bool) -> None:
        record = {"name": "b", "replicates": {"sends": sends, "receives": receives}}
        a.operate(operation="update", database="system", table="svc_nodes", records=[record])

    replicate(sends=True, receives=False)
    wait_until(lambda: 'svc_replication_reading{node="b"' not in metrics(a))
    b.put("held back", n=4)
    a.put("fourth", n=4)
    wait_until(lambda: "fourth" in b.items())
    assert "held back" not in a.items()
    replicate(sends=False, receives=True)
    wait_until(lambda: "held back" in a.items())
    wait_until(lambda: 'svc_replication_reading{node="a",database="data"} 0' in metrics(b), lambda: metrics(b))
    a.put("kept", n=5)
    b.put("fifth", n=5)
    wait_until(lambda: "fifth" in a.items())
    assert "kept" not in b.items()
    replicate(sends=True, receives=True)
    wait_until(lambda: a.items() == b.items() and len(a.items()) == 7)
