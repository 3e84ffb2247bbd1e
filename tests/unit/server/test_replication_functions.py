"""What nodes ask each other, whatever they answer or ask."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec
import pytest

from svc.clock import FakeClock
from svc.cluster.blob_source import BLOB, encode_request
from svc.cluster.copy_offers import COPY, COPY_PIECE, request_copy, request_piece
from svc.cluster.definitions import DEFINITIONS, request_definitions
from svc.cluster.engine_config import EnginePort
from svc.cluster.pieces import RequestRefused
from svc.cluster.positions import NOTICE
from svc.cluster.replication import Replication, ReplicationOptions
from svc.errors import Problem
from svc.logs import Logs
from svc.server.replication_functions import OPERATION, STATE, ReplicationFunctions
from svc.store import Store
from svc.store.system import ensure_system

encode = msgspec.msgpack.encode
DEEP = b"\x91" * 100_000 + b"\xc0"
STRANGE = {
    "nothing": b"",
    "cut": encode({"result": {"message": "done"}})[:-3],
    "no text": b"\x81\xa6result\xa2\xff\xff",
    "deep": b"\x81\xa6result" + DEEP,
    "something else": encode([1, 2, 3]),
    "an extension": b"\x81\xa6result\xd4\x05\x00",
    "a status that is none": encode({"problem": [10**15, "no", ""]}),
    "deep lists of nodes": b"\x83\xafconnected_nodes\x90\xa6routes\x91" + DEEP,
}


class FakePeer:
    is_connected = True

    def __init__(self, name: str, answer: bytes) -> None:
        self.name = name
        self.answer = answer

    async def ask(self, kind: str, data: bytes, *, seconds: float) -> bytes:
        return self.answer


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    store = Store(tmp_path / "database", node="a", clock=FakeClock())
    ensure_system(store)
    store.open_database("data")
    yield store
    store.close()


def functions(store: Store, path: Path, peers: Mapping[str, FakePeer]) -> tuple[Replication, ReplicationFunctions]:
    async def run(body: Mapping[str, Any], node: str, user: str | None) -> Any:
        raise Problem("no such operation", 400, "UNKNOWN")

    async def read_routes() -> list[Any]:
        return []

    options = ReplicationOptions("a", EnginePort(0), path, 1.0, lambda name: True, False)
    replication = Replication(store, options, Logs(FakeClock()).get_logger("replication"), FakeClock(), lambda record: None)
    replication.peers.update(peers)  # type: ignore[arg-type]
    return replication, ReplicationFunctions(replication, run, read_routes)


@pytest.mark.parametrize("answer", STRANGE.values(), ids=STRANGE)
def test_a_node_that_answers_something_else_is_one_that_has_failed(store: Store, tmp_path: Path, answer: bytes) -> None:
    async def scene() -> None:
        good = FakePeer("c", encode({"result": {"message": "done"}}))
        _, made = functions(store, tmp_path, {"b": FakePeer("b", answer), "c": good})
        found = await made.by_name()["run_on_others"](({"operation": "restart_service"}, None))
        assert found[1] == {"node": "c", "result": {"message": "done"}}
        assert (found[0]["node"], found[0].keys()) == ("b", {"node", "error"})
        with pytest.raises(Problem):
            await made.by_name()["run_on"](("b", {"operation": "restart_service"}, None))
        good.answer = encode({"connected_nodes": ["a"], "routes": []})
        silent, told = await made.by_name()["network"](1.0)
        assert (silent.keys(), told["connected_nodes"]) == ({"name", "error"}, ["a"])
        assert await made.by_name()["has_caught_up"]("b") is False

    asyncio.run(scene())


REQUESTS = {
    OPERATION: encode({"body": {"operation": "x", "deep": [[["y"]]]}, "user": "ann"}),
    STATE: b"",
    COPY: request_copy("data"),
    COPY_PIECE: request_piece(b"12345678", 0),
    DEFINITIONS: request_definitions("data", ["Item"]),
    BLOB: encode_request("data", b"12345678", 1, 0),
}


@pytest.mark.parametrize("kind", REQUESTS)
def test_any_request_is_answered_or_refused(store: Store, tmp_path: Path, kind: str, caplog: pytest.LogCaptureFixture) -> None:
    """Those of another format and version among them."""
    good = REQUESTS[kind]
    dice = random.Random(3)
    bad = [good[:length] for length in range(len(good))] + [
        good + b"\x00",
        b"\xff" * 9,
        DEEP,
        b"\x82\xa4body" + DEEP,
        encode({"format": 2}),
    ]
    bad += [encode([9, "data", b"", 0, 0]), encode([2, "data"]), encode([None] * 5), encode({"body": 5, "user": 5}), b"\x92\x01\xa1\xff"]
    bad += [encode([1, "data", b"12345678", number, number]) for number in (-1, 2**63 - 1, 2**64 - 1)]
    for _ in range(300):
        changed = bytearray(good or b"\x90")
        changed[dice.randrange(len(changed))] = dice.randrange(256)
        bad.append(bytes(changed))

    async def scene() -> None:
        replication, _ = functions(store, tmp_path, {})
        for data in (good, *bad):
            try:
                answer = await replication.requests._answerers[kind]("b", data)
            except RequestRefused:
                continue
            assert isinstance(answer, bytes)
        await replication.end()

    asyncio.run(scene())
    assert "Traceback" not in caplog.text


def test_any_notice_is_heard(store: Store, tmp_path: Path) -> None:
    async def scene() -> None:
        replication, _ = functions(store, tmp_path, {})
        for data in (DEEP, b"", b"\x81\xa6format\x02", encode({"applied": {"data": [b"12345678", 1e300]}}), *STRANGE.values()):
            replication.requests._listeners[NOTICE]("b", data)

    asyncio.run(scene())
