"""How nodes come to know each other, what they say of each other, and what they do together (spec: replication-nodes)."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from svc.tls.certificates import renew_certificates
from tests.integration.conftest import LIMIT, PASSWORD
from tests.integration.replicating import LOGIN, Node, Start, starting_nodes
from tests.support.archives import tar_of
from tests.support.waiting import wait_until

pytestmark = pytest.mark.programs


HELLO = """
from svc import Resource

class Hello(Resource):
    def get(self, target=None):
        return "hello"
"""


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    with starting_nodes(tmp_path) as start:
        yield start


@pytest.fixture
def cluster(start: Start) -> dict[str, Node]:
    """All three, connected in both directions, though each was told of one."""
    found = {name: start(name) for name in ("a", "b", "c")}
    found["b"].join(found["a"])
    found["c"].join(found["b"])
    await_connections(found)
    return found


def await_connections(cluster: dict[str, Node]) -> None:
    """All are connected to all."""
    wait_until(lambda: all(connected(node) == sorted(cluster.keys() - {name}) for name, node in cluster.items()))


def status(node: Node) -> dict[str, Any]:
    return {each["name"]: each for each in node.operate(operation="cluster_status")["connections"]}


def connected(node: Node) -> list[str]:
    return sorted(name for name, each in status(node).items() if each.get("connected"))


def registry(node: Node) -> Any:
    return node.operate(
        operation="search_by_value", database="system", table="svc_nodes", attribute="name", value="*", get_attributes=["*"]
    )


def await_registry(*nodes: Node) -> None:
    """What one of them has written into the registry has come to all: it does not change by itself any more."""
    wait_until(lambda: all(registry(node) == registry(nodes[0]) for node in nodes), lambda: [registry(node) for node in nodes])


def refused(node: Node, **body: Any) -> tuple[int, str]:
    """Nothing of it is in the registry: nothing that others have written may be on its way there (`await_registry`)."""
    before = registry(node)
    answer = httpx.post(node.process.operations_url, json=body, auth=("admin", PASSWORD), timeout=LIMIT)
    assert registry(node) == before
    return answer.status_code, answer.json()["error"]


def see_status(cluster: dict[str, Node]) -> None:
    a = cluster["a"]
    a.put("x", n=1)
    wait_until(lambda: all(each["connected"] for name in "bc" for each in status(a)[name]["database_sockets"]))
    wait_until(lambda: all(each["lag"]["entries"] == 0 for name in "bc" for each in status(a)[name]["database_sockets"]))
    found = a.operate(operation="cluster_status")
    assert (found["type"], found["node_name"], found["is_enabled"]) == ("cluster-status", "a", True)
    wait_until(lambda: all(each["connected"] and each["latency"] is not None for each in status(a)["b"]["database_sockets"]))
    b = status(a)["b"]
    assert b["url"] == f"wss://127.0.0.1:{cluster['b'].exchange}" and b["replicates"] is True and b["subscriptions"] is None
    (data,) = [each for each in b["database_sockets"] if each["database"] == "data"]
    assert data["nodes"] == ["b"] and data["thread_id"] == 0 and data["lastSendTime"].endswith(" GMT")
    await_connections(cluster)

    def told() -> dict[str, Any]:
        found: dict[str, Any] = a.operate(operation="system_information", attributes=["replication"])["replication"]
        of_data: dict[str, Any] = found.get("data", {})
        return of_data

    def network() -> list[tuple[str, list[str]]]:
        found = a.operate(operation="cluster_network", timeout=30_000)["nodes"]
        return [(each["name"], sorted(each.get("connected_nodes", ()))) for each in found]

    # Under load a connection may be lost at any time, for a moment.
    wait_until(
        lambda: told().keys() == {"b", "c"} and all(each["connected"] and each["lag_ms"] is not None for each in told().values()), told
    )
    assert all(each["lag_ms"] is None or each["lag_ms"] >= 0 for each in told().values())
    wait_until(lambda: network() == [("a", ["b", "c"]), ("b", ["a", "c"]), ("c", ["a", "b"])], network)


def run_on_all(cluster: dict[str, Node]) -> None:
    a, b = cluster["a"], cluster["b"]
    await_connections(cluster)
    await_registry(*cluster.values())
    answer = a.operate(operation="add_user", username="ann", password="long enough", role="super_user", active=True, replicated=True)
    assert [(each["node"], each["status"]) for each in answer["replicated"]] == [("b", "success"), ("c", "success")]
    assert (
        httpx.post(b.process.operations_url, json={"operation": "user_info"}, auth=("ann", "long enough"), timeout=LIMIT).status_code == 200
    )
    b.operate(operation="drop_user", username="ann")
    answer = a.operate(operation="drop_user", username="ann", replicated=True)
    outcomes = {each["node"]: each for each in answer["replicated"]}
    assert outcomes["b"]["status"] == "failed" and "ann" in outcomes["b"]["error"] and outcomes["c"]["status"] == "success"
    assert refused(a, operation="drop_user", username="ann", replicated=True)[0] == 404  # it failed here: the others were not asked
    assert "does not run on other nodes" in refused(a, operation="list_users", replicated=True)[1]
    assert {entry["node"] for entry in a.operate(operation="read_log", limit=5, replicated=True)} == {"a", "b", "c"}


def restart_one_after_the_other(cluster: dict[str, Node]) -> None:
    a = cluster["a"]
    answer = a.operate(operation="restart_service", service="http_workers", replicated=True)
    assert [(each["node"], each["status"]) for each in answer["replicated"]] == [("b", "success"), ("c", "success")]

    def job() -> dict[str, Any]:
        (found,) = a.operate(operation="get_job", id=answer["job_id"])
        return found

    wait_until(lambda: job()["status"] in ("COMPLETE", "ERROR"))
    assert job()["status"] == "COMPLETE"
    for name in "bc":
        jobs = cluster[name].operate(operation="search_jobs_by_start_date", from_date="2020-01-01", to_date="2100-01-01")
        assert [(each["type"], each["status"], each["user"]) for each in jobs] == [("restart_service", "COMPLETE", "admin")]


def deploy_to_all(cluster: dict[str, Node]) -> None:
    """From an archive, loaded on one node after the other."""
    files = {"config.yaml": "rest: true\nresources: {files: resources.py}\n", "resources.py": HELLO}
    payload = b64encode(tar_of(files)).decode()
    a = cluster["a"]
    await_connections(cluster)  # again, after the restarts
    answer = a.operate(operation="deploy_component", project="hello", payload=payload, restart="rolling", replicated=True)
    assert [(each["node"], each["status"]) for each in answer["replicated"]] == [("b", "success"), ("c", "success")], answer
    wait_until(lambda: a.operate(operation="get_job", id=answer["restartJobId"])[0]["status"] in ("COMPLETE", "ERROR"))
    assert a.operate(operation="get_job", id=answer["restartJobId"])[0]["status"] == "COMPLETE"
    assert [node.http.get("/Hello/").json() for node in cluster.values()] == ["hello"] * 3


def configure(cluster: dict[str, Node]) -> None:
    a, b, c = cluster.values()
    await_connections(cluster)
    nodes = [
        {"hostname": "b", "url": f"https://127.0.0.1:{b.secure}", "authorization": LOGIN, "verify_tls": False},
        {"hostname": "c", "url": f"http://127.0.0.1:{c.process.operations_port}", "authorization": {**LOGIN, "password": "wrong"}},
    ]
    answer = a.operate(operation="configure_cluster", connections=nodes)
    assert answer["message"] == "Cluster successfully configured." and [each["node"] for each in answer["failed"]] == ["c"]
    assert sorted(status(a)) == ["b", "c"]
    wait_until(lambda: connected(a) == ["b", "c"])


def add_what_cannot_be(cluster: dict[str, Node]) -> None:
    a, b = cluster["a"], cluster["b"]
    await_registry(*cluster.values())  # those who were asked by `configure` have written too
    url = b.process.operations_url
    wrong = {"username": "admin", "password": "wrong"}
    assert "refuses the credentials" in refused(a, operation="add_node", url=url, authorization=wrong)[1]
    assert "is 'b', not 'd'" in refused(a, operation="add_node", hostname="d", url=url, authorization=LOGIN)[1]
    assert "is this node" in refused(a, operation="add_node", url=a.process.operations_url, authorization=LOGIN)[1]
    assert "operations port" in refused(a, operation="add_node", url=b.process.url, authorization=LOGIN)[1]
    exchange = f"http://127.0.0.1:{b.exchange}"
    assert "HTTP" in refused(a, operation="add_node", url=exchange, authorization=LOGIN)[1]
    secure = f"https://127.0.0.1:{b.secure}"
    assert "is not trusted" in refused(a, operation="add_node", url=secure, authorization=LOGIN)[1]
    assert "cannot be reached" in refused(a, operation="add_node", url="http://127.0.0.1:9", authorization=LOGIN)[1]
    assert "without TLS" in refused(a, operation="add_node", url="http://192.0.2.1:9925", authorization=LOGIN)[1]
    assert refused(a, operation="add_node", hostname="b", url="wss://127.0.0.1:9", certificate="nothing")[0] == 400


def test_what_nodes_say_and_do_together(cluster: dict[str, Node]) -> None:
    see_status(cluster)
    run_on_all(cluster)
    purged = cluster["a"].operate(operation="purge_stream", database="data", options={"keep": 1})
    assert purged == {"message": "Successfully purged the stream of database 'data'"}
    restart_one_after_the_other(cluster)
    deploy_to_all(cluster)
    configure(cluster)
    add_what_cannot_be(cluster)


def test_a_node_that_is_removed_is_cut_and_does_not_come_back(cluster: dict[str, Node]) -> None:
    a, b, c = cluster.values()
    assert a.operate(operation="remove_node", hostname="c") == {"message": "Successfully removed 'c' from cluster"}
    wait_until(lambda: "c" not in status(a) and "c" not in status(b) and connected(c) == [])
    c.put("alone", n=1)
    a.put("together", n=1)
    wait_until(lambda: "together" in b.items())
    assert "alone" not in a.items() and "together" not in c.items()
    c.stop()
    c.start()
    wait_until(lambda: "reason" in status(c).get("a", {}))
    assert "c" not in status(a) and "c" not in status(b)
    c.join(b)
    wait_until(lambda: connected(a) == ["b", "c"] and a.items() == b.items() == c.items())
    assert {"alone", "together"} <= set(a.items())
    revoke_and_renew(a, c)


def revoke_and_renew(a: Node, c: Node) -> None:
    """A certificate that is revoked cuts the node off; one that its own authority has signed lets it in again."""
    record = a.operate(operation="search_by_id", database="system", table="svc_certificate", ids=["c/replication"], get_attributes=["*"])[0]
    a.operate(operation="update_node", hostname="c", revoked_certificates=[record["details"]["serial_number"]])
    wait_until(lambda: connected(c) == [] and connected(a) == ["b"])
    wait_until(lambda: "is revoked" in a.process.logged(), a.process.logged)
    a.put("meanwhile", n=1)
    c.stop()
    renew_certificates(c.root, "c")
    c.start()
    wait_until(lambda: connected(a) == ["b", "c"] and "meanwhile" in c.items())


def test_routes_lead_to_nodes_that_nobody_was_told_of(start: Start) -> None:
    """What vouches for them is an authority that an operator has added; they count without a restart."""
    a, b = (start(name) for name in "ab")
    for node, other in ((a, b), (b, a)):
        authority = (other.root / "keys" / "ca.pem").read_text()
        node.operate(operation="add_certificate", name=f"{other.name}-authority", certificate=authority, is_authority=True)
        route = {"hostname": "127.0.0.1", "port": other.exchange, "name": other.name}
        assert node.operate(operation="cluster_set_routes", routes=[route])["set"] == [route]
    wait_until(lambda: connected(a) == ["b"] and connected(b) == ["a"])
    a.put("x", n=1)
    wait_until(lambda: "x" in b.items())
    await_registry(a, b)  # each has told the other of itself
    assert refused(a, operation="remove_node", hostname="b")[0] == 409
    wait_until(lambda: "url" in status(a)["b"] and status(a)["b"]["url"], "it is in the registry")
    a.operate(operation="cluster_delete_routes", routes=[{"hostname": "127.0.0.1", "port": b.exchange}])
    b.operate(operation="cluster_delete_routes", routes=[{"hostname": "127.0.0.1", "port": a.exchange}])
    assert a.operate(operation="cluster_network")["nodes"][0]["routes"] == []
    wait_until(lambda: connected(a) == ["b"], "it is in the registry by now")
    a.operate(operation="remove_node", hostname="b")
    wait_until(lambda: connected(b) == [] and status(a) == {})
