"""WebSocket (RFC 6455): handshake, WebSocket object for applications (spec: realtime §2)."""

from svc.protocol.websocket import MAX_PAYLOAD, DeflateOptions, encode_frame
from svc.websocket.close_codes import WebSocketClosed
from svc.websocket.handler import Service, Socket, SocketHandler
from svc.websocket.registry import SocketRecorder, WebSocketRegistry
from svc.websocket.web_socket import WebSocket

__all__ = [
    "MAX_PAYLOAD",
    "DeflateOptions",
    "Service",
    "Socket",
    "SocketHandler",
    "SocketRecorder",
    "WebSocket",
    "WebSocketClosed",
    "WebSocketRegistry",
    "encode_frame",
]
