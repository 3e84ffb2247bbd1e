"""WebSocket (RFC 6455): the handshake, the object that applications see, and the listeners that are asked (contract: realtime §2)."""

from svc.websocket.handler import Service, Socket, SocketHandler

__all__ = ["Service", "Socket", "SocketHandler"]
