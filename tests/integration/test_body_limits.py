"""What a body may cost: decoded bytes, memory, turns; and that a caller without rights costs nothing."""

from __future__ import annotations

import functools
import gzip
import json
from collections.abc import Iterator
from typing import Any

import cbor2
import httpx
import pytest

from svc.auth.roles import Role
from svc.auth.users import User
from svc.http.decoding import RequestDecoder
from tests.integration.conftest import Process
from tests.support.node import Node, whole

pytestmark = pytest.mark.programs

MIB = 1 << 20
GZIP = {"Content-Type": "application/json", "Content-Encoding": "gzip"}


@functools.cache
def bomb() -> bytes:
    return gzip.compress(b" " * (150 * MIB), 1)


def peak_memory(pid: int) -> int:
    """The most memory, in bytes, that a process has held so far."""
    with open(f"/proc/{pid}/status") as status:
        return next(int(line.split()[1]) * 1024 for line in status if line.startswith("VmHWM:"))


def test_a_bomb_without_credentials_takes_no_memory(server: Process) -> None:
    httpx.post(server.operations_url, json={"operation": "describe_all"})
    before = peak_memory(server.pid)
    once = gzip.compress(b" " * (50 * MIB))
    for coding, content in (("gzip", bomb()), ("gzip", once), ("gzip", once[: len(once) // 2]), ("gzip, gzip", gzip.compress(bomb()))):
        answer = httpx.post(server.operations_url, content=content, headers={**GZIP, "Content-Encoding": coding})
        assert answer.status_code == 413, answer.text
    assert peak_memory(server.pid) - before < 20 * MIB


def test_a_bomb_with_credentials_is_refused_by_its_ratio(server: Process, client: httpx.Client) -> None:
    before = peak_memory(server.pid)
    for method, url in (("POST", server.operations_url), ("PUT", "/Product/1"), ("POST", "/Product/"), ("QUERY", "/Product/")):
        auth = ("admin", "correct horse")
        answer = client.request(method, url, content=bomb(), headers=GZIP, auth=auth)
        assert answer.status_code == 413, answer.text
        assert ("8388608 bytes" if method == "QUERY" else "100 times") in answer.json()["error"]
    assert peak_memory(server.pid) - before < 200 * MIB


def test_what_shrinks_well_is_read(client: httpx.Client) -> None:
    body = json.dumps({"id": "long", "name": "x" * (900 << 10)}).encode()
    assert client.put("/Product/long", content=gzip.compress(body), headers=GZIP).status_code == 204
    assert len(client.get("/Product/long").json()["name"]) == 900 << 10
    blanks = b" " * (2 * MIB) + b'{"id": "blank"}' + b"\n" * (2 * MIB)
    assert client.put("/Product/blank", content=blanks, headers={"Content-Type": "application/json"}).status_code == 204
    assert client.delete("/Product/blank").status_code == 204
    assert client.delete("/Product/long").status_code == 204


# --- one process, seen from inside -------------------------------------------------------------------------------------------------------


@pytest.fixture
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    node = Node(tmp_path_factory.mktemp("node"))
    yield node
    assert node.errors == []
    node.close()


@pytest.fixture
def decoded(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The lengths of the bodies whose coding was undone."""
    lengths: list[int] = []
    decode = RequestDecoder.decode

    def counted(self: RequestDecoder, header_value: str, body: bytes, max_bytes: int | None = None) -> Any:
        lengths.append(len(body))
        return decode(self, header_value, body, max_bytes)

    monkeypatch.setattr(RequestDecoder, "decode", counted)
    return lengths


@pytest.mark.parametrize(
    ("method", "target"),
    [("QUERY", "/Product/"), ("PUT", "/Product/1"), ("PATCH", "/Product/1"), ("POST", "/Product/"), ("PUT", "/Product/")],
)
@pytest.mark.parametrize("whole", [True, False], ids=["with its head", "behind its head"])
def test_a_caller_without_rights_is_refused_before_the_body_is_read(
    node: Node, decoded: list[int], method: str, target: str, whole: bool
) -> None:
    node.as_user(User("ann", True, Role("none", "none", {"super_user": False}, databases=node.store.databases)))
    body = gzip.compress(b" " * 1000 + b"{}")
    head = (
        f"{method} {target} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Encoding: gzip\r\n"
        f"Content-Length: {len(body) if whole else 900_000}\r\n\r\n"
    ).encode()
    wire = node.connect()
    answer = wire.send(head + body) if whole else wire.send(head)
    assert answer.startswith(b"HTTP/1.1 403 "), answer
    assert decoded == []


def test_a_query_with_rights_is_read(node: Node, decoded: list[int]) -> None:
    assert node.connect().ask("QUERY", "/Product/", gzip.compress(b" {}"), GZIP)[0] == 200
    assert len(decoded) == 1


def turns_of(node: Node, method: str, target: str, body: bytes, content_type: str) -> tuple[int, int]:
    """(status, turns that the request took)."""
    wire = node.connect()
    turns = 0
    take_turn = node.turn

    def counted() -> bool:
        nonlocal turns
        turns += 1
        return take_turn()

    node.turn = counted  # type: ignore[method-assign]
    try:
        status = wire.ask(method, target, body, {"Content-Type": content_type})[0]
    finally:
        node.turn = take_turn  # type: ignore[method-assign]
    return status, turns


@pytest.mark.parametrize(
    ("content_type", "encode"),
    [("application/json", lambda value: json.dumps(value).encode()), ("application/cbor", cbor2.dumps)],
    ids=["json", "cbor"],
)
def test_one_large_record_is_read_over_turns(node: Node, content_type: str, encode: Any) -> None:
    body = encode({"name": "n", "specs": {f"s{number}": [1, 2, 3] for number in range(30_000)}})
    status, turns = turns_of(node, "PUT", "/Product/1", body, content_type)
    assert status == 204
    assert turns > 3
    assert len(json.loads(whole(node.connect().ask("GET", "/Product/1")[2]))["specs"]) == 30_000


@pytest.mark.parametrize(
    "specs",
    [[[1, 2, 3]] * 60_000, {str(number): [0, 0, 0] for number in range(60_000)}, [0] * 200_001],
    ids=["lists", "objects", "numbers"],
)
@pytest.mark.parametrize("method", ["PUT", "PATCH", "POST"])
def test_a_record_of_too_many_values_is_refused(node: Node, method: str, specs: Any) -> None:
    wire = node.connect()
    body = json.dumps({"id": "many", "name": "n", "specs": specs}, separators=(",", ":")).encode()
    status, _, answer = wire.ask(method, "/Product/" if method == "POST" else "/Product/many", body)
    assert status == 400
    assert json.loads(answer)["detail"] == "The record has more than 200000 values in its lists and objects"
    assert wire.ask("GET", "/Product/many")[0] == 404
