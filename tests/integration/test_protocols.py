"""One record, followed over every protocol at a time, in the clear and over TLS, by clients that are not ours."""

from __future__ import annotations

import asyncio
import base64
import json
import ssl
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack
from typing import Any

import httpx
import pytest
import websockets
from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.events import DataReceived, ResponseReceived
from h2.settings import SettingCodes
from wsproto.connection import Connection as WsConnection
from wsproto.connection import ConnectionType
from wsproto.events import TextMessage

from tests.integration.conftest import PASSWORD
from tests.integration.test_tls import Secure
from tests.support.certificates import client_context
from tests.support.waiting import LIMIT

pytestmark = pytest.mark.programs

AUTH = ("admin", PASSWORD)
BASIC = "Basic " + base64.b64encode(f"admin:{PASSWORD}".encode()).decode()

Feed = AsyncIterator[dict[str, Any]]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secure]:
    process = Secure(tmp_path_factory.mktemp("protocols") / "root").start()
    yield process
    assert process.stop() == 0, process.output()
    process.check_log()


def url(server: Secure, secure: bool) -> str:
    return server.secure_url if secure else server.url


def http(server: Secure, secure: bool, version: int) -> httpx.AsyncClient:
    return httpx.AsyncClient(
        base_url=url(server, secure),
        auth=AUTH,
        timeout=LIMIT,
        http1=version == 1,
        http2=version == 2,
        verify=client_context() if secure else False,
    )


async def event_stream(server: Secure, secure: bool, version: int, target: str, stack: AsyncExitStack) -> Feed:
    client = await stack.enter_async_context(http(server, secure, version))
    response = await stack.enter_async_context(client.stream("GET", target, headers={"Accept": "text/event-stream"}))
    assert response.status_code == 200
    assert response.http_version == ("HTTP/2" if version == 2 else "HTTP/1.1")

    async def events() -> Feed:
        async for line in response.aiter_lines():
            if line.startswith("data: "):
                yield json.loads(line[6:])

    return events()


async def web_socket(server: Secure, secure: bool, target: str, stack: AsyncExitStack) -> Feed:
    address = url(server, secure).replace("http", "ws", 1) + target
    options: dict[str, Any] = {"ssl": client_context()} if secure else {}
    socket = await stack.enter_async_context(websockets.connect(address, additional_headers={"Authorization": BASIC}, **options))

    async def events() -> Feed:
        async for message in socket:
            yield json.loads(message)

    return events()


async def web_socket_on_a_stream(server: Secure, secure: bool, target: str, stack: AsyncExitStack) -> Feed:
    """RFC 8441: h2 and wsproto on asyncio's streams."""
    context: ssl.SSLContext | None = None
    if secure:
        context = client_context()
        context.set_alpn_protocols(["h2"])
    port = server.secure_port if secure else server.port
    reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context, server_hostname="localhost" if secure else None)
    stack.callback(writer.close)
    h2 = H2Connection(H2Configuration(client_side=True, header_encoding="utf-8"))
    h2.initiate_connection()
    writer.write(h2.data_to_send())
    while not h2.remote_settings.get(SettingCodes.ENABLE_CONNECT_PROTOCOL):
        h2.receive_data(await reader.read(65536))
    head = [(":method", "CONNECT"), (":protocol", "websocket"), (":scheme", "https" if secure else "http"), (":authority", "localhost")]
    h2.send_headers(1, [*head, (":path", target), ("sec-websocket-version", "13"), ("authorization", BASIC)])
    writer.write(h2.data_to_send())
    ws = WsConnection(ConnectionType.CLIENT)

    async def events() -> Feed:
        while data := await reader.read(65536):
            for event in h2.receive_data(data):
                if isinstance(event, ResponseReceived):
                    assert dict(event.headers)[":status"] == "200"  # type: ignore[arg-type, comparison-overlap]
                elif isinstance(event, DataReceived):
                    h2.acknowledge_received_data(event.flow_controlled_length, 1)
                    ws.receive_data(event.data)
                    for message in ws.events():
                        assert isinstance(message, TextMessage)
                        yield json.loads(message.data)
            writer.write(h2.data_to_send())

    return events()


FEEDS: dict[str, Callable[[Secure, str, AsyncExitStack], Any]] = {
    "SSE, HTTP/1.1": lambda server, target, stack: event_stream(server, False, 1, target, stack),
    "SSE, HTTP/2": lambda server, target, stack: event_stream(server, False, 2, target, stack),
    "SSE, HTTP/1.1, TLS": lambda server, target, stack: event_stream(server, True, 1, target, stack),
    "SSE, HTTP/2, TLS": lambda server, target, stack: event_stream(server, True, 2, target, stack),
    "WebSocket": lambda server, target, stack: web_socket(server, False, target, stack),
    "WebSocket, TLS": lambda server, target, stack: web_socket(server, True, target, stack),
    "WebSocket on HTTP/2": lambda server, target, stack: web_socket_on_a_stream(server, False, target, stack),
    "WebSocket on HTTP/2, TLS": lambda server, target, stack: web_socket_on_a_stream(server, True, target, stack),
}


def test_every_feed_says_the_same(server: Secure) -> None:
    async def main() -> None:
        async with AsyncExitStack() as stack, http(server, True, 2) as writer:
            await writer.put("/Product/shared", json={"name": "first"})
            feeds = {name: await begin(server, "/Product/shared", stack) for name, begin in FEEDS.items()}
            first = {name: await anext(feed) for name, feed in feeds.items()}  # the record as it was: all are listening now
            assert {name: (event["type"], event["value"]["name"]) for name, event in first.items()} == dict.fromkeys(
                FEEDS, ("put", "first")
            )
            await writer.put("/Product/shared", json={"name": "second"})
            await writer.delete("/Product/shared")
            second = {name: await anext(feed) for name, feed in feeds.items()}
            third = {name: await anext(feed) for name, feed in feeds.items()}
            one = second["WebSocket"]
            assert (one["type"], one["value"]) == ("put", {"id": "shared", "name": "second"})
            assert second == dict.fromkeys(FEEDS, one)
            assert third["WebSocket"]["type"] == "delete"
            assert third == dict.fromkeys(FEEDS, third["WebSocket"])

    asyncio.run(asyncio.wait_for(main(), 2 * LIMIT))


def test_a_live_query_over_every_protocol(server: Secure) -> None:
    target = "/Product/?price=ge=1000&sort(-price)&limit(2)&live()"

    async def main() -> None:
        async with AsyncExitStack() as stack, http(server, False, 1) as writer:
            for number in range(3):
                await writer.put(f"/Product/live-{number}", json={"price": 1000 + number})
            feeds = {name: await begin(server, target, stack) for name, begin in FEEDS.items()}
            for name, feed in feeds.items():
                begun = [await anext(feed) for _ in range(3)]
                assert [event["type"] for event in begun] == ["snapshot", "snapshot", "ready"], name
                assert [event["id"] for event in begun[:2]] == ["live-2", "live-1"], name
            await writer.put("/Product/live-0", json={"price": 5000})
            changes = {name: [await anext(feed), await anext(feed)] for name, feed in feeds.items()}
            assert changes == dict.fromkeys(FEEDS, changes["WebSocket"])
            assert sorted((event["type"], event["id"]) for event in changes["WebSocket"]) == [("enter", "live-0"), ("leave", "live-1")]

    asyncio.run(asyncio.wait_for(main(), 2 * LIMIT))
