"""The opening handshake: what is accepted, what is refused and how."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from svc.errors import ClientError
from svc.protocol.websocket import DeflateOptions
from svc.websocket import WebSocket
from tests.support.web_socket import KEY, World, handshake_request

ACCEPT = ("Sec-WebSocket-Accept", "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=")


@pytest.fixture
def world() -> Iterator[World]:
    made = World()
    yield made
    made.close()


def answer(world: World, fields: dict[str, str] | None = None, **options: Any) -> list[tuple[str, str]]:
    upgrade = world.sockets.accept(handshake_request(fields=fields), **options)
    assert upgrade.status == 101 and upgrade.protocol == "websocket"
    return upgrade.pairs


def test_a_plain_handshake(world: World) -> None:
    assert answer(world) == [ACCEPT]
    assert answer(world, {"connection": "UPGRADE", "upgrade": "h2c, WebSocket"}) == [ACCEPT]


@pytest.mark.parametrize(
    ("fields", "status"),
    [
        ({"sec-websocket-version": "8"}, 426),
        ({"sec-websocket-version": "13, 8"}, 426),
        ({"sec-websocket-version": ""}, 426),
        ({"sec-websocket-key": ""}, 400),
        ({"sec-websocket-key": "short"}, 400),
        ({"sec-websocket-key": KEY[:-1]}, 400),
        ({"sec-websocket-key": "dGhlIHNhbXBsZSBub25jZTE3"}, 400),
        ({"sec-websocket-key": f"{KEY}, {KEY}"}, 400),
        ({"sec-websocket-key": "dGhlIHNhbXBsZSBub25jZ\u00e4=="}, 400),
        ({"connection": "close"}, 400),
        ({"connection": ""}, 400),
        ({"upgrade": ""}, 400),
        ({"upgrade": "websocket2"}, 400),
    ],
)
def test_handshakes_that_are_refused(world: World, fields: dict[str, str], status: int) -> None:
    with pytest.raises(ClientError) as caught:
        answer(world, fields)
    assert caught.value.status_code == status
    assert caught.value.headers == ((("Sec-WebSocket-Version", "13"), ("Upgrade", "websocket")) if status == 426 else ())
    assert world.entries() == {}  # `UpgradeChain` counts


def test_only_get(world: World) -> None:
    with pytest.raises(ClientError, match="POST"):
        world.sockets.accept(handshake_request(method="POST"))
    other = handshake_request()
    other.offers = "h2c"
    with pytest.raises(ClientError):
        world.sockets.accept(other)


def test_over_http2_there_is_no_key(world: World) -> None:
    bare = {"connection": "", "upgrade": "", "sec-websocket-key": "", "sec-websocket-protocol": "chat"}
    upgrade = world.sockets.accept(handshake_request(fields=bare, http_version="2"))
    assert upgrade.pairs == [("Sec-WebSocket-Protocol", "chat")]
    for fields, method in ((bare | {"sec-websocket-version": "12"}, "GET"), (bare, "POST")):
        with pytest.raises(ClientError):
            world.sockets.accept(handshake_request(fields=fields, method=method, http_version="2"))


@pytest.mark.parametrize(
    ("offered", "chosen"),
    [("chat", "chat"), ("chat, super", "chat"), (" ,\tchat", "chat"), ("", None), ("not a token", None), ("no\u00e9, chat", "chat")],
)
def test_the_first_protocol_offered_is_taken(world: World, offered: str, chosen: str | None) -> None:
    upgrade = world.sockets.accept(handshake_request(fields={"sec-websocket-protocol": offered}))
    assert upgrade.pairs == [ACCEPT, *([("Sec-WebSocket-Protocol", chosen)] if chosen else [])]
    assert isinstance(upgrade.receiver, WebSocket) and upgrade.receiver.subprotocol == chosen


def test_a_protocol_that_the_server_likes_better(world: World) -> None:
    fields = {"sec-websocket-protocol": "chat, mqtt"}
    assert answer(world, fields, subprotocol="mqtt") == [ACCEPT, ("Sec-WebSocket-Protocol", "mqtt")]
    with pytest.raises(ValueError, match="does not offer"):
        answer(world, fields, subprotocol="other")


def test_compression_is_for_the_server_to_want(world: World) -> None:
    fields = {"sec-websocket-extensions": "permessage-deflate; client_max_window_bits"}
    assert answer(world, fields) == [ACCEPT]
    agreed = (
        "Sec-WebSocket-Extensions",
        "permessage-deflate; server_no_context_takeover; client_no_context_takeover; server_max_window_bits=12; client_max_window_bits=12",
    )
    assert answer(world, fields, deflate=DeflateOptions()) == [ACCEPT, agreed]
    assert answer(world, {"sec-websocket-extensions": "x-other"}, deflate=DeflateOptions()) == [ACCEPT]
    assert answer(world, deflate=DeflateOptions()) == [ACCEPT]
    with_deflate = World(DeflateOptions())
    assert answer(with_deflate, fields) == [ACCEPT, agreed]
    with_deflate.close()
