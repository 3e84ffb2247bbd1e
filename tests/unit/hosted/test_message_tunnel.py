"""WebSockets whose frames a host reads and writes."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from svc.hosted.message_tunnel import client_frame
from svc.protocol.websocket_frames import unmask
from svc.websocket import WebSocket, encode_frame
from svc.websocket.web_socket import HIGH_WATER, INCOMING_MESSAGES, PING_SECONDS, SILENCE_SECONDS
from tests.support.hosted import Exchanged, HostedNode
from tests.support.profile import half_by_day

GONE = {"type": "websocket.disconnect", "code": 1006}


def message(text: str) -> dict[str, Any]:
    return {"type": "websocket.receive", "text": text, "bytes": None}


@pytest.fixture
def hosted(tmp_path: Path) -> Iterator[HostedNode]:
    made = HostedNode(tmp_path)
    yield made
    made.close()


def serve_with(hosted: HostedNode, service: Any) -> None:
    """Every WebSocket gets this service."""

    class Handler:
        def find(self, request: Any) -> Any:
            return service

        def subprotocol(self, request: Any) -> None:
            return None

    hosted.node.dispatcher._upgrades._websockets.handler = Handler()  # type: ignore[union-attr]


async def echo(socket: WebSocket) -> None:
    async for item in socket:
        await socket.send(item)


def kinds(asked: Exchanged) -> list[str]:
    return [sent["type"].removeprefix("websocket.") for sent in asked.sent]


def test_events_of_a_record(hosted: HostedNode) -> None:
    socket = hosted.connect("/Product/1")
    assert socket.sent[0] == {"type": "websocket.accept", "subprotocol": None, "headers": []}
    hosted.ask(
        "PUT",
        "/Product/1",
        {"type": "http.request", "body": b'{"name":"new"}'},
        fields={"content-length": "14", "content-type": "application/json"},
    )
    assert json.loads(socket.sent[-1]["text"])["value"]["name"] == "new"
    socket.tell({"type": "websocket.disconnect", "code": 1001})
    assert socket.task.done() and "close" not in kinds(socket) and not hosted.shared.lasting


@pytest.mark.parametrize("size", [0, 1, 125, 126, 65535, 65536, 300_000])
def test_messages_of_all_sizes(hosted: HostedNode, size: int) -> None:
    serve_with(hosted, echo)
    socket = hosted.connect("/x")
    socket.tell(message("é" * size))
    socket.tell({"type": "websocket.receive", "bytes": b"\xff" * size})
    assert socket.sent[1:] == [{"type": "websocket.send", "text": "é" * size}, {"type": "websocket.send", "bytes": b"\xff" * size}]
    socket.tell(GONE)
    assert socket.task.done()


def test_the_end_of_a_service(hosted: HostedNode) -> None:
    async def service(socket: WebSocket) -> None:
        await socket.send("last")
        await socket.close(4000, "enough é")

    serve_with(hosted, service)
    socket = hosted.connect("/x")
    assert socket.sent[1:] == [
        {"type": "websocket.send", "text": "last"},
        {"type": "websocket.close", "code": 4000, "reason": "enough é"},
    ]
    assert socket.task.done() and not hosted.shared.lasting


@pytest.mark.parametrize(("code", "reported"), [(1000, 1000), (4001, 4001), (1005, 1005), (1015, 1005), (1006, 1006), (None, 1005)])
def test_the_clients_close_code_is_passed_on(hosted: HostedNode, code: int | None, reported: int) -> None:
    told: list[Any] = []

    async def service(socket: WebSocket) -> None:
        async for _ in socket:
            pass
        told.append(socket.close_code)

    serve_with(hosted, service)
    socket = hosted.connect("/x")
    socket.tell({"type": "websocket.disconnect", "code": code} if code is not None else {"type": "websocket.disconnect", "code": 1005})
    assert told == [reported] and socket.task.done()


def test_messages_before_a_close_are_still_taken(hosted: HostedNode) -> None:
    got: list[Any] = []

    async def service(socket: WebSocket) -> None:
        async for item in socket:
            got.append(item)  # noqa: PERF401

    serve_with(hosted, service)
    socket = hosted.connect("/x", *[message(str(n)) for n in range(10)], {"type": "websocket.disconnect", "code": 1000})
    assert got == [str(n) for n in range(10)] and socket.task.done()


def test_a_service_that_does_not_read_holds_the_host_back(hosted: HostedNode) -> None:
    sockets: list[WebSocket] = []
    serve_with(hosted, sockets.append)
    socket = hosted.connect("/x", *[message("m") for _ in range(3 * INCOMING_MESSAGES)])
    assert socket.received <= INCOMING_MESSAGES + 3
    sockets[0].ignore_messages()
    hosted.settle()
    assert socket.received == 3 * INCOMING_MESSAGES + 1
    socket.tell(GONE)
    assert socket.task.done()


def test_a_host_that_does_not_take_holds_the_service_back(hosted: HostedNode) -> None:
    sent = 0

    async def service(socket: WebSocket) -> None:
        nonlocal sent
        for _ in range(100):
            await socket.send(bytes(50_000))
            sent += 1

    serve_with(hosted, service)
    socket = hosted.connect("/x", is_stuck=True)
    assert not sent
    socket.is_stuck = False
    stuck: list[bool] = [True]
    take = socket.serving._send

    async def slow(item: Any) -> None:
        if item["type"] == "websocket.send" and stuck[0]:
            socket.is_stuck = True
        await take(item)

    socket.serving._send = slow
    socket.release()
    assert sent * 50_000 <= HIGH_WATER + 100_000
    stuck[0] = False
    socket.release()
    assert sent == 100 and kinds(socket).count("send") == 100 and socket.task.done()


def test_pings_of_ours_are_answered_and_a_quiet_client_stays(hosted: HostedNode) -> None:
    serve_with(hosted, echo)
    socket = hosted.connect("/x")
    for _ in range(3):
        hosted.node.pass_time(int(max(PING_SECONDS, SILENCE_SECONDS)))
    assert kinds(socket) == ["accept"] and not socket.task.done()
    socket.tell(message("still here"))
    assert socket.sent[-1]["text"] == "still here"
    socket.tell(GONE)


def test_a_stop_closes_with_1001(hosted: HostedNode) -> None:
    serve_with(hosted, echo)
    socket = hosted.connect("/x")
    hosted.shared.drain()
    hosted.settle()
    assert socket.sent[-1] == {"type": "websocket.close", "code": 1001, "reason": ""} and socket.task.done()


def test_refusals(hosted: HostedNode) -> None:
    missing = hosted.connect("/none")
    assert [item["type"] for item in missing.sent] == ["websocket.http.response.start", "websocket.http.response.body"]
    assert missing.status == 404 and missing.task.done()
    plain = hosted.connect("/none", extensions={})
    assert plain.sent == [{"type": "websocket.close"}]
    hosted.node.as_user(None)
    anonymous = hosted.connect("/Product/1")
    assert kinds(anonymous) == ["accept", "close"] and anonymous.sent[1]["code"] == 3000 and anonymous.task.done()


def test_a_subprotocol_is_chosen(hosted: HostedNode) -> None:
    serve_with(hosted, echo)
    socket = hosted.connect("/x", subprotocols=["a", "b"])
    assert socket.sent[0]["subprotocol"] == "a"
    socket.tell(GONE)


def test_a_client_that_leaves_before_the_answer(hosted: HostedNode) -> None:
    async def waits(request: Any, refusal: Any) -> None:
        await hosted.loop.create_future()

    hosted.node.dispatcher._upgrades.handle = waits  # type: ignore[union-attr, method-assign]
    socket = hosted.connect("/x")
    assert not socket.sent
    socket.serving.watch()
    socket.tell(GONE)
    assert socket.task.done() and not socket.sent


@given(st.binary(max_size=300), st.sampled_from([1, 2, 8, 10]))
def test_frames_of_clients_are_masked_with_zeros(payload: bytes, opcode: int) -> None:
    frame = client_frame(opcode, payload)
    plain = encode_frame(payload)
    assert frame[0] == 0x80 | opcode and frame[1] == plain[1] | 0x80
    assert frame[-len(payload) :] == payload if payload else True
    assert unmask(payload, bytes(4)) == payload


_SAID = st.lists(
    st.sampled_from([message("a"), message("x" * 70_000), {"type": "websocket.receive", "bytes": b"b"}, GONE, GONE | {"code": 4000}]),
    max_size=5,
)


@settings(max_examples=half_by_day(100))
@given(_SAID, st.sampled_from(["echo", "closes", "raises", "keeps"]), st.booleans())
def test_anything_a_client_does_ends(tmp_path_factory: pytest.TempPathFactory, said: Any, does: str, is_stuck: bool) -> None:
    hosted = HostedNode(tmp_path_factory.mktemp("node"))

    async def service(socket: WebSocket) -> None:
        async for item in socket:
            if does == "closes":
                return
            if does == "raises":
                raise ValueError("in the service")
            if does == "echo":
                await socket.send(item)

    serve_with(hosted, service)
    socket = hosted.connect("/x", *said, is_stuck=is_stuck)
    socket.tell(GONE)
    socket.release()
    assert socket.task.done() and socket.task.exception() is None and not hosted.shared.lasting
    assert {type(error) for _, error in hosted.node.errors} <= {ValueError}
    hosted.close()
