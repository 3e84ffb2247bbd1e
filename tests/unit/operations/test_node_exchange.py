"""Two nodes become known to each other; what may be at the other end is anything."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, cast

import pytest

from svc.clock import FakeClock
from svc.errors import Problem
from svc.operations import node_client
from svc.operations.node_client import OperationsAddress
from svc.operations.node_exchange import put_certificate
from svc.store.system import CERTIFICATE_TABLE, NODE_TABLE, SYSTEM, node_certificate_name
from svc.store.values.records import decode
from svc.tls.certificates import renew_certificates, with_authority
from tests.support.operations import OperationsNode

LOGIN = {"username": "admin", "password": "S3CRET"}
URL = "https://10.0.0.2:9925"
YEAR = 365 * 86_400


def certificate(path: Path, name: str, clock: FakeClock | None = None) -> str:
    directory = path / f"keys-{name}"
    renew_certificates(directory, name, clock=clock or FakeClock())
    return with_authority(directory / "keys")


class OtherSvc:
    """What answers at the other address. `calls`: (operation, fields). `answers`: by operation, instead of those of a node `b` that knows itself and `c`."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.calls: list[tuple[str, dict[str, Any]]] = []
        self.nodes: dict[str, str] = {"b": "wss://b:9933", "c": "wss://c:9933"}
        self.certificates = {name: certificate(path, name) for name in self.nodes}
        self.answers: dict[str, Any] = {
            "cluster_status": {"type": "cluster-status", "node_name": "b", "is_enabled": True, "connections": []}
        }
        self.raw: bytes | None = None
        self.status = "200 OK"
        self.head = b""

    async def fetch(self, address: OperationsAddress, context: object, request: bytes) -> bytes:
        self.head, _, content = request.partition(b"\r\n\r\n")
        fields = json.loads(content)
        operation = fields.pop("operation")
        self.calls.append((operation, fields))
        if self.raw is not None:
            return self.raw
        answer = self.answers.get(operation)
        if isinstance(answer, Exception):
            raise answer
        if answer is None and operation == "search_by_value":
            if fields["table"] == NODE_TABLE:
                answer = [{"name": name, "url": url} for name, url in self.nodes.items()]
            else:
                answer = [{"name": node_certificate_name(name), "certificate": text} for name, text in self.certificates.items()]
        body = json.dumps({"message": "done"} if answer is None else answer).encode()
        return f"HTTP/1.1 {self.status}\r\nContent-Length: {len(body)}\r\nContent-Type: application/json\r\n\r\n".encode() + body

    @property
    def written(self) -> list[str]:
        """The operations that change something."""
        return [operation for operation, _ in self.calls if operation not in ("cluster_status", "search_by_value")]


class ReplicatingNode(OperationsNode):
    def __init__(self, path: Path) -> None:
        super().__init__(path, settings={"replication": {"hostname": "a", "securePort": 9933}})
        self.node.replication = cast(Any, object())
        transaction = self.store.begin()
        transaction.put(self.store.databases[SYSTEM].tables[NODE_TABLE], "a", {"name": "a", "url": "wss://a:9933"})
        self.own = certificate(path, "a")
        put_certificate(self.store, transaction, "a", self.own)
        transaction.apply()
        self.store.commit_turn()

    def records(self, table: str) -> dict[str, dict[str, Any]]:
        found = self.store.databases[SYSTEM].tables[table]
        records = [decode(raw) for _, raw in found.scan(found.database.snapshot())]
        return {record["name"]: {name: value for name, value in record.items() if not name.startswith("__")} for record in records}

    def names(self) -> list[str]:
        return sorted(self.records(NODE_TABLE))

    def refuse(self, operation: str = "add_node", **fields: Any) -> tuple[int, str]:
        before = self.records(NODE_TABLE), self.records(CERTIFICATE_TABLE)
        with pytest.raises(Problem) as caught:
            self.run(operation, **fields)
        assert (self.records(NODE_TABLE), self.records(CERTIFICATE_TABLE)) == before
        return caught.value.status_code, caught.value.message


@pytest.fixture
def a(tmp_path: Path) -> Iterator[ReplicatingNode]:
    with ReplicatingNode(tmp_path) as node:
        yield node


@pytest.fixture
def b(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> OtherSvc:
    other = OtherSvc(tmp_path / "other")
    monkeypatch.setattr(node_client, "fetch_bytes", other.fetch)
    return other


def test_both_learn_of_each_other_and_of_those_the_other_knows(a: ReplicatingNode, b: OtherSvc) -> None:
    assert a.run("add_node", url=URL, authorization=LOGIN) == {"message": "Successfully added 'b' to cluster"}
    assert a.names() == ["a", "b", "c"]
    assert a.records(NODE_TABLE)["b"] == {"name": "b", "url": "wss://b:9933"}, "the credentials are forgotten"
    stored = a.records(CERTIFICATE_TABLE)
    assert {name: stored[node_certificate_name(name)]["certificate"] for name in "bc"} == b.certificates
    assert not stored["b/replication"]["is_authority"] and stored["b/replication"]["uses"] == ["replication"]
    assert b.calls[-1] == ("add_node", {"hostname": "a", "url": "wss://a:9933", "certificate": a.own})
    assert b"Authorization: Basic " in b.head and b"S3CRET" not in b.head
    a.run("add_node", url=URL, authorization=LOGIN)  # again
    assert a.names() == ["a", "b", "c"]


def test_it_is_told_nothing_that_it_knows(a: ReplicatingNode, b: OtherSvc) -> None:
    b.nodes["a"], b.certificates["a"] = "wss://a:9933", a.own
    a.run("add_node", url=URL, authorization=LOGIN)
    assert b.written == []
    b.nodes["a"] = "wss://elsewhere:9933"
    a.run("add_node", url=URL, authorization=LOGIN)
    assert b.written == ["update_node"]


def test_the_address_that_was_given_is_where_it_is_read(a: ReplicatingNode, b: OtherSvc) -> None:
    a.run("add_node", hostname="b", url="wss://10.0.0.2:9944", authorization=LOGIN, retain_authorization=True, shard=3)
    assert a.records(NODE_TABLE)["b"] == {"name": "b", "url": "wss://10.0.0.2:9944", "shard": 3, "authorization": LOGIN}


@pytest.mark.parametrize(
    ("change", "status", "text"),
    [
        (lambda b: b.answers.update(cluster_status={"is_enabled": True}), 502, "What answers at https://10.0.0.2:9925 is no svc"),
        (lambda b: b.answers.update(cluster_status=[1]), 502, "is no svc"),
        (lambda b: b.answers["cluster_status"].update(is_enabled=False), 502, "does not replicate"),  # an older version, too
        (lambda b: b.answers["cluster_status"].update(node_name=5), 502, "has no name"),
        (lambda b: b.answers["cluster_status"].update(node_name="a"), 409, "two nodes cannot have one name"),
        (lambda b: b.answers["cluster_status"].update(node_name="A"), 409, "two nodes cannot have one name"),
        (lambda b: b.answers["cluster_status"].update(node_name="d"), 502, "has not entered its address and certificate yet"),
        (lambda b: b.answers.update(search_by_value={"error": "x"}), 502, "is no svc"),
        (lambda b: b.answers.update(search_by_value=[5, {"name": 7}, {"name": "b"}]), 502, "has not entered"),
        (lambda b: b.nodes.update(b="not an address"), 502, "has not entered"),
        (lambda b: b.certificates.update(b=b.certificates["c"]), 400, "is of 'c', 'localhost', '127.0.0.1', not of the node 'b'"),
        (lambda b: b.certificates.update(b="-----BEGIN"), 400, "is not a valid certificate"),
        (lambda b: setattr(b, "status", "302 Found"), 502, "redirects to another address, which is not followed"),
        (lambda b: setattr(b, "status", "401 Unauthorized"), 502, "refuses the credentials"),
        (lambda b: setattr(b, "status", "404 Not Found"), 502, "answers 'cluster_status' with status 404"),
        (lambda b: setattr(b, "raw", b"220 mail.example ESMTP\r\n"), 502, "is no HTTP server"),
        (lambda b: setattr(b, "raw", b""), 502, "is no HTTP server"),
        (lambda b: setattr(b, "raw", b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{}"), 502, "cut off"),
        (lambda b: setattr(b, "raw", b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\n<html>"), 502, "no JSON"),
        (lambda b: setattr(b, "raw", b"HTTP/1.1 200 OK\r\nContent-Length: 40000\r\n\r\n" + b"[" * 40000), 502, "no JSON"),
    ],
)
def test_whatever_is_there_nothing_changes(
    a: ReplicatingNode, b: OtherSvc, change: Callable[[OtherSvc], None], status: int, text: str
) -> None:
    change(b)
    found = a.refuse(url=URL, authorization=LOGIN)
    assert found[0] == status and text in found[1]
    assert b.written == []


def test_it_must_be_the_node_that_was_meant(a: ReplicatingNode, b: OtherSvc) -> None:
    assert a.refuse(hostname="d", url=URL, authorization=LOGIN)[1] == (
        "The node at https://10.0.0.2:9925 is 'b', not 'd': give its name as 'hostname', its address as 'url'"
    )
    a.run("add_node", url="wss://somewhere:9933", hostname="b")
    status, text = a.refuse(url=URL, authorization=LOGIN)
    assert (status, text) == (409, "The name 'b' is that of the node at wss://somewhere:9933: use 'update_node' if it has moved there")
    assert b.written == []
    a.run("update_node", url=URL, authorization=LOGIN)
    assert a.records(NODE_TABLE)["b"]["url"] == "wss://b:9933"


@pytest.mark.parametrize(("years", "text"), [(-11, "is not valid before"), (11, "has expired")])
def test_certificates_of_another_time(a: ReplicatingNode, b: OtherSvc, tmp_path: Path, years: int, text: str) -> None:
    a.clock.advance(years * YEAR)
    assert text in a.refuse(url=URL, authorization=LOGIN)[1] and b.written == []


def test_credentials_do_not_travel_in_the_open(a: ReplicatingNode, b: OtherSvc) -> None:
    assert a.refuse(url="http://10.0.0.2:9925", authorization=LOGIN)[0] == 400
    assert a.refuse(url=URL, authorization="Basic x\r\nX-Other: 1")[0] == 400
    assert b.calls == []


def test_the_other_one_forgets_again_if_this_one_cannot_store_it(a: ReplicatingNode, b: OtherSvc, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("svc.operations.cluster.store_exchange", _fail)
    assert a.refuse(url=URL, authorization=LOGIN) == (507, "full")
    assert b.written == ["add_node", "remove_node"]


def _fail(*arguments: Any, **options: Any) -> None:
    raise Problem("full", 507)


def test_the_other_one_refuses(a: ReplicatingNode, b: OtherSvc) -> None:
    b.answers["add_node"] = node_client.NotReached("https://10.0.0.2:9925 answers 'add_node' with status 409: The name 'a' is that of")
    assert a.refuse(url=URL, authorization=LOGIN)[0] == 502


def test_what_the_other_one_knows_is_taken_as_far_as_it_can_be(a: ReplicatingNode, b: OtherSvc) -> None:
    b.nodes |= {"d": "wss://d:9933", "e": "nowhere at all", "A": "wss://x:9933"}
    b.certificates |= {"d": b.certificates["c"], "e": b.certificates["c"], "A": b.certificates["c"]}
    a.run("add_node", url=URL, authorization=LOGIN)
    assert a.names() == ["a", "b", "c"]


# --- what the other one does ------------------------------------------------------------------------------------------------------------


def test_a_certificate_that_is_brought(a: ReplicatingNode, tmp_path: Path) -> None:
    text = certificate(tmp_path, "b")
    a.run("add_node", hostname="b", url="wss://10.0.0.2:9933", certificate=text)
    assert a.records(CERTIFICATE_TABLE)["b/replication"]["certificate"] == text
    assert a.refuse(hostname="c", certificate=text)[0] == 400
    assert a.refuse(hostname="b", url="wss://10.0.0.9:9933", certificate=text)[0] == 409
    assert a.refuse(hostname="a", certificate=certificate(tmp_path, "a"))[0] == 409
    assert a.refuse(hostname="d", certificate="nothing")[0] == 400


def test_what_vouches_for_a_node_goes_with_it(a: ReplicatingNode, tmp_path: Path) -> None:
    a.node.config = a.config
    a.run("add_node", hostname="b", certificate=certificate(tmp_path, "b"))
    a.run("remove_node", hostname="B")
    assert a.names() == ["a"] and list(a.records(CERTIFICATE_TABLE)) == ["a/replication"]
    assert a.refuse("remove_node", hostname="a")[0] == 400
    assert a.refuse("remove_node", hostname="b")[0] == 404


def test_all_nodes_are_replaced(a: ReplicatingNode, b: OtherSvc) -> None:
    a.run("add_node", hostname="old")
    a.run("add_node", hostname="kept")
    wrong = {"url": "https://10.0.0.9", "hostname": "kept", "authorization": LOGIN}
    answer = a.run("configure_cluster", connections=[{"hostname": "plain"}, {"url": URL, "authorization": LOGIN}, wrong])
    assert answer["message"] == "Cluster successfully configured."
    assert [failed["node"] for failed in answer["failed"]] == ["kept"] and "is 'b', not 'kept'" in answer["failed"][0]["error"]
    assert a.names() == ["a", "b", "kept", "plain"]
    assert a.run("configure_cluster", connections=[]) == {"message": "Cluster successfully configured."}
    assert a.names() == ["a"] and list(a.records(CERTIFICATE_TABLE)) == ["a/replication"]
