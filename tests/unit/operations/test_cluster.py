"""The registry of nodes and the routes, on a node of its own."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from svc.config import load_config
from svc.config.document import read_document, write_document
from svc.errors import Problem
from svc.operations.cluster import known_nodes
from svc.operations.cluster_nodes import NAME_NEEDED, identity_of, merged_subscriptions, split_address
from tests.support.operations import OperationsNode


class ClusterNode(OperationsNode):
    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.file = path / "svc-config.yaml"
        write_document(self.file, {"rootPath": str(path), "node": {"hostname": "server-one"}})
        self.node.config = load_config(path)
        self.store.open_database("garden")

    def registry(self) -> dict[str, dict[str, Any]]:
        return {
            record["name"]: {name: value for name, value in record.items() if not name.startswith("__")}
            for record in known_nodes(self.node)
        }

    def refuse(self, operation: str, **fields: Any) -> tuple[int, str]:
        """The 400 or 404; nothing has changed."""
        before = (self.registry(), self.file.read_bytes())
        with pytest.raises(Problem) as caught:
            self.run(operation, **fields)
        assert (self.registry(), self.file.read_bytes()) == before
        return caught.value.status_code, caught.value.message


@pytest.fixture
def node(tmp_path: Path) -> Iterator[ClusterNode]:
    with ClusterNode(tmp_path) as node:
        yield node


# --- the registry -------------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fields", "name", "url", "where"),
    [
        ({"hostname": "server-two"}, "server-two", "wss://server-two:9933", "cluster"),
        ({"hostname": "Server-Two:9944"}, "server-two", "wss://server-two:9944", "cluster"),
        ({"url": "wss://server-two:9944"}, "server-two", "wss://server-two:9944", "cluster"),
        ({"hostname": "two", "url": "ws://10.0.0.2:9933"}, "two", "ws://10.0.0.2:9933", "cluster"),
        ({"node_name": "server-two"}, "server-two", "wss://server-two:9933", "manifest"),
        ({"hostname": "::1"}, "::1", "wss://[::1]:9933", "cluster"),
        ({"url": "https://[fd00::2]:9925/"}, "fd00::2", "https://[fd00::2]:9925/", "cluster"),
    ],
)
@pytest.mark.parametrize("operation", ["add_node", "set_node"])
def test_a_node_is_added(node: ClusterNode, operation: str, fields: dict[str, Any], name: str, url: str, where: str) -> None:
    assert node.run(operation, **fields) == {"message": f"Successfully added '{name}' to {where}"}
    assert node.registry() == {name: {"name": name, "url": url}}


def test_what_a_record_holds(node: ClusterNode) -> None:
    node.run(
        "add_node",
        hostname="two",
        shard=5,
        revoked_certificates=["1A"],
        start_time="2026-01-05",
        verify_tls=False,
        authorization={"username": "ann", "password": "S3CRET"},
        subscriptions=[{"schema": "garden", "table": "plant", "subscribe": True}, {"database": "garden", "publish": True, "start_time": 5}],
    )
    assert node.registry()["two"] == {
        "name": "two",
        "url": "wss://two:9933",
        "shard": 5,
        "revoked_certificates": ["1A"],
        "start_time": 1767571200000,
        "subscriptions": [
            {"database": "garden", "table": "plant", "subscribe": True, "publish": False},
            {"database": "garden", "subscribe": False, "publish": True, "start_time": 5},
        ],
    }


def test_credentials_are_kept_only_if_that_is_asked_for(node: ClusterNode) -> None:
    node.run("add_node", hostname="two", authorization="Basic x", retain_authorization=True)
    assert node.registry()["two"]["authorization"] == "Basic x"
    assert "Basic" not in str(node.run("cluster_status"))


def test_adding_again_replaces_and_updating_merges(node: ClusterNode) -> None:
    node.run("add_node", url="wss://two:9944", shard=1)
    assert node.run("update_node", hostname="two", revoked_certificates=["1A"]) == {"message": "Successfully updated 'two'"}
    assert node.registry()["two"] == {"name": "two", "url": "wss://two:9944", "shard": 1, "revoked_certificates": ["1A"]}
    node.run("update_node", hostname="two", url="wss://two:9955", shard=2)
    assert node.registry()["two"] == {"name": "two", "url": "wss://two:9955", "shard": 2, "revoked_certificates": ["1A"]}
    node.run("add_node", hostname="two")
    assert node.registry()["two"] == {"name": "two", "url": "wss://two:9933"}


def test_updating_adds_what_is_unknown(node: ClusterNode) -> None:
    assert node.run("update_node", node_name="two", shard=0) == {"message": "Successfully updated 'two'"}
    assert node.registry()["two"]["shard"] == 0


def test_subscriptions_are_merged(node: ClusterNode) -> None:
    node.run("add_node", url="wss://two:9944", subscriptions=[{"table": "a", "publish": True}, {"table": "b", "publish": True}])
    answer = node.run("set_node_replication", node_name="two", subscriptions=[{"table": "b", "subscribe": True}, {"table": "c"}])
    assert answer == {"message": "Successfully updated 'two'"}
    record = node.registry()["two"]
    assert record["url"] == "wss://two:9944"
    assert [(item["table"], item["publish"], item["subscribe"]) for item in record["subscriptions"]] == [
        ("a", True, False),
        ("b", False, True),
        ("c", False, False),
    ]
    assert merged_subscriptions([], []) == []


@pytest.mark.parametrize(
    ("fields", "where"),
    [
        ({"hostname": "two"}, "cluster"),
        ({"url": "wss://two:1"}, "cluster"),
        ({"node_name": "two"}, "manifest"),
        ({"name": "TWO"}, "cluster"),
    ],
)
def test_a_node_is_removed(node: ClusterNode, fields: dict[str, Any], where: str) -> None:
    node.run("add_node", hostname="two")
    assert node.run("remove_node", **fields) == {"message": f"Successfully removed 'two' from {where}"}
    assert node.registry() == {}
    assert node.refuse("remove_node", **fields) == (404, "Node 'two' was not found")


def test_the_whole_registry_is_replaced(node: ClusterNode) -> None:
    node.run("add_node", hostname="old")
    connections = [{"hostname": "two", "shard": 1}, {"node_name": "three"}]
    assert node.run("configure_cluster", connections=connections) == {"message": "Cluster successfully configured."}
    assert node.registry().keys() == {"two", "three"}
    node.run("configure_cluster", connections=[{"hostname": f"n{number}"} for number in range(200)])
    assert len(node.registry()) == 200
    node.run("configure_cluster", connections=[])
    assert node.registry() == {}


@pytest.mark.parametrize("operation", ["add_node", "set_node", "update_node", "remove_node"])
def test_a_name_is_needed(node: ClusterNode, operation: str) -> None:
    assert node.refuse(operation) == (400, NAME_NEEDED)


@pytest.mark.parametrize(
    ("operation", "fields", "message"),
    [
        ("add_node", {"hostname": "a b"}, "'hostname' must be a host name"),
        ("add_node", {"hostname": "-x"}, "'hostname' must be a host name"),
        ("add_node", {"hostname": "x" * 400}, "'hostname' must be a host name"),
        ("add_node", {"node_name": "a/../b"}, "'node_name' must be a host name"),
        ("add_node", {"hostname": "two:99999"}, "'hostname' must be a host name"),
        ("add_node", {"hostname": ""}, "'hostname' is not allowed to be empty"),
        ("add_node", {"hostname": 5}, "'hostname' must be a string"),
        ("add_node", {"url": "two"}, "'url' must be an address such as wss://server-two:9933"),
        ("add_node", {"url": "javascript://x"}, "'url' must be an address such as wss://server-two:9933"),
        ("add_node", {"url": "wss://ann:S3CRET@two"}, "'url' must be an address such as wss://server-two:9933"),
        ("add_node", {"url": "wss://[::1"}, "'url' must be an address such as wss://server-two:9933"),
        ("add_node", {"hostname": "server-one"}, "'server-one' is this node"),
        ("add_node", {"hostname": "two", "shard": 65536}, "'shard' must be less than or equal to 65535"),
        ("add_node", {"hostname": "two", "shard": -1}, "'shard' must be greater than or equal to 0"),
        ("add_node", {"hostname": "two", "verify_tls": "yes"}, "'verify_tls' must be a boolean"),
        ("add_node", {"hostname": "two", "start_time": "soon"}, "'start_time' must be a date"),
        ("add_node", {"hostname": "two", "start_time": {}}, "'start_time' must be a date"),
        (
            "add_node",
            {"hostname": "two", "authorization": 5},
            "'authorization' must be a string, or an object with 'username' and 'password'",
        ),
        (
            "add_node",
            {"hostname": "two", "authorization": {"username": "x"}},
            "'authorization' must be a string, or an object with 'username' and 'password'",
        ),
        ("add_node", {"hostname": "two", "revoked_certificates": [5]}, "'revoked_certificates' must be an array of strings"),
        (
            "add_node",
            {"hostname": "two", "revoked_certificates": ["1A", "xyz"]},
            "'revoked_certificates[1]' must be a serial number: hexadecimal digits",
        ),
        ("add_node", {"hostname": "two", "subscriptions": ["x"]}, "'subscriptions' must be an array of objects"),
        (
            "add_node",
            {"hostname": "two", "subscriptions": [{"table": 5, "publish": 1}, {"database": []}, {"database": ["x"]}]},
            "'subscriptions[0].table' must be a string. 'subscriptions[0].publish' must be a boolean."
            " 'subscriptions[2].database' must be a string",
        ),
        ("add_node", {"hostname": "two", "subscriptions": [{"start_time": "x"}]}, "'subscriptions[0].start_time' must be a date"),
        ("set_node_replication", {"node_name": "two"}, "'subscriptions' is required"),
        ("set_node_replication", {"subscriptions": []}, NAME_NEEDED),
        ("configure_cluster", {}, "'connections' is required"),
        ("configure_cluster", {"connections": {}}, "'connections' must be an array"),
        ("configure_cluster", {"connections": ["two"]}, "'connections' must be an array of objects"),
        ("configure_cluster", {"connections": [{"hostname": "two"}, {}]}, f"'connections[1]': {NAME_NEEDED}"),
        (
            "configure_cluster",
            {"connections": [{"hostname": "two", "shard": "x"}]},
            "'connections[0]': 'shard' must be a number",
        ),
        ("configure_cluster", {"connections": [{"hostname": "two"}, {"url": "ws://two:1"}]}, "'connections[1]': 'two' is named twice"),
        ("configure_cluster", {"connections": [{"hostname": "server-one"}]}, "'server-one' is this node"),
        ("configure_cluster", {"connections": [{"hostname": "x"}] * 1001}, "A cluster has at most 1000 nodes"),
    ],
)
def test_faults_of_the_registry(node: ClusterNode, operation: str, fields: dict[str, Any], message: str) -> None:
    node.run("add_node", hostname="known")
    assert node.refuse(operation, **fields) == (400, message)


def test_a_registry_is_bounded(node: ClusterNode, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("svc.operations.cluster.MAX_NODES", 2)
    node.run("add_node", hostname="a")
    node.run("add_node", hostname="b")
    assert node.refuse("add_node", hostname="c") == (400, "A cluster has at most 2 nodes")


def test_the_status_is_that_nothing_is_copied(node: ClusterNode) -> None:
    assert node.run("cluster_status") == {"type": "cluster-status", "node_name": "server-one", "is_enabled": False, "connections": []}
    node.run("add_node", hostname="server-two")
    node.run("add_node", hostname="server-three", shard=3, subscriptions=[])
    found = node.run("cluster_status")["connections"]
    assert found[1] == {
        "replicateByDefault": True,
        "replicates": False,
        "url": "wss://server-two:9933",
        "name": "server-two",
        "subscriptions": None,
        "database_sockets": [{"database": "garden", "connected": False}],
    }
    assert found[0]["shard"] == 3
    assert found[0]["subscriptions"] == []


# --- routes -------------------------------------------------------------------------------------------------------------------------------


def test_routes_are_set_read_and_deleted(node: ClusterNode) -> None:
    given = ["server-two", {"hostname": "server-three", "port": 9944}, {"host": "server-four", "port": 1}]
    kept = ["server-two", {"hostname": "server-three", "port": 9944}, {"hostname": "server-four", "port": 1}]
    assert node.run("cluster_get_routes") == []
    assert node.run("cluster_set_routes", routes=given) == {"message": "cluster routes successfully set", "set": kept, "skipped": []}
    assert node.run("cluster_get_routes") == kept
    assert node.run("cluster_set_routes", server="hub", routes=["Server-Three:9944", "five", "five"]) == {
        "message": "cluster routes successfully set",
        "set": ["five"],
        "skipped": ["Server-Three:9944", "five"],
    }
    assert node.run("cluster_network", routes=True, timeout=100) == {
        "nodes": [{"name": "server-one", "response_time": 0, "connected_nodes": [], "routes": [*kept, "five"]}]
    }
    assert node.run("cluster_delete_routes", routes=["server-two", "server-three", {"hostname": "server-four", "port": 1}]) == {
        "message": "cluster routes successfully deleted",
        "deleted": ["server-two", {"hostname": "server-four", "port": 1}],
        "skipped": ["server-three"],
    }
    assert node.run("cluster_get_routes") == [{"hostname": "server-three", "port": 9944}, "five"]


def test_routes_alone_switch_nothing_on(node: ClusterNode) -> None:
    node.run("cluster_set_routes", routes=["server-two"])
    again = load_config(node.root)
    assert again.replication is None
    assert again.values["replication.routes"] == ("server-two",)
    assert again.http.port == 9926
    assert again.notes == (
        (
            "info",
            "'replication.routes' alone does not switch replication on; 'replication.hostname' beside it does (svc-config.yaml line 5)",
        ),
    )
    assert node.run("get_status")["restartRequired"] is False
    write_document(node.file, {"replication": {"routes": ["server-two"], "hostname": "one"}})
    assert load_config(node.root).replication is not None


def test_what_stands_beside_the_routes_is_kept(node: ClusterNode) -> None:
    write_document(node.file, {"replication": {"hostname": "one", "routes": ["a", {"hostname": "b", "startTime": "x", "port": 5}]}})
    node.run("cluster_delete_routes", routes=["a"])
    assert read_document(node.file) == {"replication": {"hostname": "one", "routes": [{"hostname": "b", "startTime": "x", "port": 5}]}}
    node.run("cluster_set_routes", routes=[{"hostname": "c", "shard": 5, "nonsense": 1}])
    assert node.run("cluster_get_routes")[1] == {"hostname": "c", "shard": 5}


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({}, "'routes' is required"),
        ({"routes": "a"}, "'routes' must be an array"),
        ({"routes": []}, "'routes' must contain at least 1 item"),
        ({"routes": ["a b"]}, "'routes[0]' must be a host name, or an object with 'hostname' and 'port'"),
        ({"routes": ["a", 5]}, "'routes[1]' must be a host name, or an object with 'hostname' and 'port'"),
        ({"routes": [{"port": 5}]}, "'routes[0]' must be a host name, or an object with 'hostname' and 'port'"),
        ({"routes": [{"hostname": "a", "port": 70000}]}, "'routes[0]' must be a host name, or an object with 'hostname' and 'port'"),
        ({"routes": [{"hostname": "a", "port": "80"}]}, "'routes[0]' must be a host name, or an object with 'hostname' and 'port'"),
        ({"routes": [{"hostname": ["a"]}]}, "'routes[0]' must be a host name, or an object with 'hostname' and 'port'"),
        ({"routes": [{"hostname": "a", "shard": "\ud800"}]}, "'routes' contains characters that cannot be stored"),
        ({"routes": ["a"] * 1001}, "There may be at most 1000 routes"),
        ({"routes": ["a"], "server": "x"}, "'server' must be one of [hub, leaf]"),
    ],
)
@pytest.mark.parametrize("operation", ["cluster_set_routes", "cluster_delete_routes"])
def test_faults_of_routes(node: ClusterNode, operation: str, fields: dict[str, Any], message: str) -> None:
    assert node.refuse(operation, **fields) == (400, message)


def test_odd_routes_in_the_file_do_no_harm(node: ClusterNode) -> None:
    write_document(node.file, {"replication": {"routes": [5, None, {"x": 1}, "a b", {"hostname": "a", "port": "x"}, "b"]}})
    assert node.run("cluster_set_routes", routes=["b", "c"])["skipped"] == ["b"]
    assert len(node.run("cluster_get_routes")) == 7
    assert identity_of({"host": "A", "port": 5}) == ("a", 5)


def test_streams_do_not_exist(node: ClusterNode) -> None:
    with pytest.raises(Problem) as caught:
        node.run("purge_stream", database="d", table="t", options={"keep": 1})
    assert (caught.value.status_code, caught.value.message) == (501, "Streams are not available")


@pytest.mark.parametrize(
    "text",
    ["", " ", "a b", "a/b", "http:/x", "ftp://x", "x:0", "x:65536", "x:-1", "wss://", "wss://x/path", "wss://x?a", "\0", "ü", "[", 5, None],
)
def test_what_is_no_address(text: Any) -> None:
    assert split_address(text) is None


def test_only_super_users(node: ClusterNode) -> None:
    user = node.user("ann", {"super_user": False})
    for operation in (
        "add_node", "update_node", "set_node_replication", "remove_node", "configure_cluster", "cluster_status", "cluster_set_routes",
        "cluster_get_routes", "cluster_delete_routes", "cluster_network", "purge_stream",
    ):  # fmt: skip
        with pytest.raises(Problem) as caught:
            node.run(operation, user, hostname="x", routes=["x"], connections=[], subscriptions=[])
        assert caught.value.status_code == 403


def test_two_changes_at_once_are_both_kept(node: ClusterNode) -> None:
    """Both begin with the same state: the second is made of what the first has left."""
    node.run("add_node", hostname="server-two")

    def subscribe(table: str) -> Any:
        subscription = {"database": "garden", "table": table, "subscribe": True, "publish": True}
        body = {"operation": "set_node_replication", "hostname": "server-two", "subscriptions": [subscription]}
        return node._send(body, node.admin)

    async def both() -> None:
        await asyncio.gather(subscribe("bed"), subscribe("plant"))

    node.wait(both)
    assert [item["table"] for item in node.registry()["server-two"]["subscriptions"]] == ["bed", "plant"]
