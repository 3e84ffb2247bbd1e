"""Loads from addresses, with servers on this machine: who reaches which host (spec: security §10)."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterator
from contextlib import ExitStack
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from svc.auth.users import User
from svc.errors import Problem, Refusal
from svc.operations import outbound
from svc.store.schema import Attribute, TableDefinition
from tests.support.operations import OperationsNode

pytestmark = pytest.mark.programs

RIGHTS = {"read": True, "insert": True, "update": True, "delete": True, "attribute_permissions": []}


class Peer:
    """A web server on an address of this machine. `paths` -> where it redirects to; others are a CSV file. `seen`: (path, headers)."""

    def __init__(self, host: str) -> None:
        self.paths: dict[str, str] = {}
        self.seen: list[tuple[str, dict[str, str]]] = []
        peer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                peer.seen.append((self.path, {name.lower(): value for name, value in self.headers.items()}))
                location = peer.paths.get(self.path)
                body = b"id\n1\n"
                self.send_response(200 if location is None else 302)
                self.send_header("Content-Type", "text/csv")
                self.send_header("Content-Length", str(len(body)))
                if location is not None:
                    self.send_header("Location", location)
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: Any) -> None:
                pass

        self.server = ThreadingHTTPServer((host, 0), Handler)
        self.host, self.port = host, self.server.server_address[1]
        self.url = f"http://{host}:{self.port}"
        self.thread = Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.01})
        self.thread.start()

    def close(self) -> None:
        self.server.shutdown()
        self.thread.join()
        self.server.server_close()


@pytest.fixture(scope="module")
def peers() -> Iterator[tuple[Peer, Peer]]:
    with ExitStack() as stack:
        found = Peer("127.0.0.1"), Peer("127.0.0.2")
        for peer in found:
            stack.callback(peer.close)
        yield found


@pytest.fixture
def peer(peers: tuple[Peer, Peer]) -> Peer:
    for one in peers:
        one.seen.clear()
        one.paths.clear()
    return peers[0]


@pytest.fixture
def other(peers: tuple[Peer, Peer]) -> Peer:
    return peers[1]


class World:
    """Nodes whose `importHosts` are given, and what loading from a URL comes to."""

    def __init__(self, path: Path, stack: ExitStack) -> None:
        self._path = path
        self._stack = stack
        self._count = 0

    def node(self, *hosts: str) -> OperationsNode:
        self._count += 1
        settings = {"operationsApi": {"importHosts": list(hosts)}}
        node = self._stack.enter_context(OperationsNode(self._path / str(self._count), settings=settings))
        node.store.open_database("data").define_table(TableDefinition("plant", attributes=(Attribute("id", primary_key=True),)))
        return node


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    with ExitStack() as stack:
        yield World(tmp_path, stack)


def loader(node: OperationsNode) -> User:
    return node.user("ann", {"data": {"tables": {"plant": RIGHTS}}})


def load(node: OperationsNode, url: str, user: User | None = None, **fields: Any) -> str:
    """How a load ended: the status of its job, or status and text of the refusal."""
    try:
        started = node.run("csv_url_load", user, table="plant", csv_url=url, action="upsert", **fields)
    except Refusal as refusal:
        return f"{refusal.status_code} {refusal.body['unauthorized_access'][0]}"
    except Problem as problem:
        return f"{problem.status_code} {problem.message}"
    tasks = [task for task in asyncio.all_tasks(node.loop) if task.get_name() == f"job {started['job_id']}"]
    if tasks:
        node.wait(lambda: asyncio.wait(tasks))
    return str(node.run("get_job", id=started["job_id"])[0]["status"])


def test_this_machine_needs_the_list_for_everybody(world: World, peer: Peer) -> None:
    node = world.node()
    number = int.from_bytes(socket.inet_aton("127.0.0.1"))
    for host in ("127.0.0.1", "localhost", "127.1", str(number), "0x7f000001", "[::ffff:127.0.0.1]", "0.0.0.0"):
        url = f"http://{host}:{peer.port}/a"
        name = host.strip("[]")
        assert load(node, url) == f"403 The host '{name}' has no public address, and is not in 'operationsApi.importHosts'"
        assert load(node, url, loader(node)) == f"403 The host '{name}' is not in 'operationsApi.importHosts'"
    assert load(world.node("*"), peer.url, None).startswith("403 ")
    assert not peer.seen


@pytest.mark.parametrize("host", ["127.0.0.1", "127.0.0.0/8", "localhost", "*.localhost"])
def test_hosts_in_the_list_are_for_everybody(world: World, peer: Peer, host: str) -> None:
    name = {"localhost": "localhost", "*.localhost": "files.localhost"}.get(host, "127.0.0.1")
    node = world.node(host)
    for user in (None, loader(node)):
        result = load(node, f"http://{name}:{peer.port}/a", user)
        # Where the machine does not resolve names below `localhost`, the host is permitted and not found.
        assert result == "COMPLETE" or (name == "files.localhost" and result == "400 The host 'files.localhost' could not be found")
    assert load(world.node(f"{name}:{peer.port + 1}"), f"http://{name}:{peer.port}/a").startswith(("403 ", "400 The host"))


def test_others_than_super_users_do_not_ask_name_servers(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    def resolve(host: str, port: int) -> Any:
        raise AssertionError("resolved")

    monkeypatch.setattr(outbound, "resolve", resolve)
    node = world.node("files.example.com")
    assert load(node, "http://secret.attacker.example/", loader(node)).startswith("403 ")


def test_a_host_that_is_not_found(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    def getaddrinfo(*_: Any, **__: Any) -> Any:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)
    node = world.node("10.0.0.0/8")
    assert load(node, "http://nowhere.example/") == "400 The host 'nowhere.example' could not be found"
    assert load(node, "http://nowhere.example/", loader(node)) == "403 The host 'nowhere.example' is not in 'operationsApi.importHosts'"


def test_each_redirect_is_checked(world: World, peer: Peer, other: Peer) -> None:
    peer.paths["/a"] = f"{other.url}/b"
    node = world.node("127.0.0.1")
    for user in (None, loader(node)):
        assert load(node, f"{peer.url}/a", user).startswith("403 The host '127.0.0.2' ")
    assert not other.seen
    assert load(world.node("127.0.0.1", "127.0.0.2"), f"{peer.url}/a", None) == "COMPLETE"
    assert [path for path, _ in other.seen] == ["/b"]


def test_the_headers_of_the_caller_are_for_the_first_host(world: World, peer: Peer, other: Peer) -> None:
    peer.paths |= {"/a": "/b", "/b": f"{other.url}/c"}
    other.paths["/c"] = f"{peer.url}/d"
    headers = {"X-Key": "k", "Authorization": "Bearer t"}
    assert load(world.node("127.0.0.0/8"), f"{peer.url}/a", passthrough_headers=headers) == "COMPLETE"
    found = {path: {"x-key", "authorization"} & headers.keys() for path, headers in (*peer.seen, *other.seen)}
    assert found == {"/a": {"x-key", "authorization"}, "/b": {"x-key", "authorization"}, "/c": set(), "/d": set()}


def test_a_name_is_resolved_once(world: World, peer: Peer, other: Peer, monkeypatch: pytest.MonkeyPatch) -> None:
    """A name server that gives a permitted address first and another one afterwards: the connection goes to the first."""
    answers = iter(("127.0.0.1", "127.0.0.2", "127.0.0.2"))
    asked: list[str] = []

    def getaddrinfo(host: str, port: int, *_: Any, **__: Any) -> Any:
        asked.append(host)
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (next(answers), peer.port))]

    monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)
    node = world.node("127.0.0.1/32")
    assert load(node, f"http://rebinding.example:{peer.port}/a", loader(node)) == "COMPLETE"
    assert asked == ["rebinding.example"]
    assert [headers["host"] for _, headers in peer.seen] == [f"rebinding.example:{peer.port}"]
    assert load(node, f"http://rebinding.example:{peer.port}/a", loader(node)).startswith("403 ")
    assert not other.seen


def test_of_several_addresses_only_permitted_ones_are_used(world: World, peer: Peer, other: Peer, monkeypatch: pytest.MonkeyPatch) -> None:
    def getaddrinfo(host: str, port: int, *_: Any, **__: Any) -> Any:
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, peer.port)) for address in ("127.0.0.2", "127.0.0.1")]

    monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)
    assert load(world.node("127.0.0.1/32"), f"http://two.example:{peer.port}/a") == "COMPLETE"
    assert len(peer.seen) == 1 and not other.seen
