"""The handshake of a WebSocket of a host: a request like others, whose answer is a tunnel or a refusal (spec: asgi §2.4)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from svc.hosted.http_serving import ClientLeft, HttpServing, Port, start_of
from svc.hosted.message_tunnel import MessageTunnel
from svc.messages import Request, Response, Upgrade
from svc.websocket.opening_handshake import PROTOCOL

if TYPE_CHECKING:
    from svc.mounted.messages import Receive, Send

DENIAL = "websocket.http.response"
_OF_HANDSHAKE = "sec-websocket-"
_SUBPROTOCOL = "sec-websocket-protocol"


class WebSocketServing(HttpServing):
    def __init__(self, port: Port, scope: Mapping[str, Any], request: Request, receive: Receive, send: Send) -> None:
        super().__init__(port, scope, request, receive, send)
        self._may_deny = DENIAL in (scope.get("extensions") or ())

    async def serve(self) -> None:
        exchange = self.exchange
        tunnel: MessageTunnel | None = None
        try:
            if (await self._receive())["type"] != "websocket.connect":
                raise ClientLeft
            response = self.application.upgrade(exchange)
            if response is not None:
                self.answer(exchange, response)
            answer = await self.answered()
            if isinstance(answer, Upgrade):
                tunnel = await self._accept(answer)
            else:
                await self._deny(answer)
        except ClientLeft:
            self.lose()
        except BaseException:
            self.lose()
            raise
        finally:
            self.close()
        if tunnel is not None:
            await tunnel.run()

    async def _accept(self, upgrade: Upgrade) -> MessageTunnel | None:
        """None: it is for a protocol that the host does not speak."""
        if upgrade.protocol != PROTOCOL:
            upgrade.receiver.on_closed()
            await self._deny(Response(b"The protocol that was asked for is not available here", 501))
            return None
        if self._watching is not None:
            self._watching.cancel()
        subprotocol = None
        fields: list[tuple[bytes, bytes]] = []
        for name, value in upgrade.pairs:
            lower = name.lower()
            if lower == _SUBPROTOCOL:
                subprotocol = value
            elif not lower.startswith(_OF_HANDSHAKE):
                fields.append((lower.encode("latin-1"), value.encode("latin-1")))
        try:
            await self._send({"type": "websocket.accept", "subprotocol": subprotocol, "headers": fields})
        except BaseException:
            upgrade.receiver.on_closed()
            raise
        return MessageTunnel(self._port, upgrade.receiver, self.exchange.request, self._receive, self._send)

    async def _deny(self, response: Response) -> None:
        if not self._may_deny:
            await self._send({"type": "websocket.close"})  # the host answers 403
            return
        body = response.body.encode() if isinstance(response.body, str) else response.body
        if not isinstance(body, bytes):
            body = b""
        start = start_of(response, len(body))
        await self._send({**start, "type": f"{DENIAL}.start"})
        await self._send({"type": f"{DENIAL}.body", "body": body})
