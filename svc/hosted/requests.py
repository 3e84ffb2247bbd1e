"""Requests out of ASGI scopes (spec: asgi §2.2)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from svc.messages import UNIX_PEER, HeaderBlock, Request

MAX_BLOCKS = 512  # header blocks that are remembered
MAX_BLOCK = 4096  # bytes of the names and values of one that is
_UNQUOTED = "/:@!$&'()*+,;=~"
_HANDSHAKE_KEY = "AAAAAAAAAAAAAAAAAAAAAA=="  # the host has checked the real one

RawFields = tuple[tuple[bytes, bytes], ...]


class RequestReader:
    """Makes requests. Clients repeat their header fields, so blocks are found again, with what has been derived from them, by client."""

    def __init__(self) -> None:
        self._blocks: dict[tuple[str, str, RawFields], HeaderBlock] = {}

    def http(self, scope: Mapping[str, Any]) -> Request:
        return self._request(scope, scope["method"].upper(), self._block(scope))

    def websocket(self, scope: Mapping[str, Any]) -> Request:
        """The handshake as one of HTTP/1.1, whatever it was: the host answers it. Messages are compressed by the host or not at all."""
        given = self._block(scope).pairs
        dropped = (
            "connection",
            "upgrade",
            "sec-websocket-key",
            "sec-websocket-version",
            "sec-websocket-extensions",
            "sec-websocket-protocol",
        )
        pairs = [pair for pair in given if pair[0] not in dropped]
        pairs += [
            ("connection", "Upgrade"),
            ("upgrade", "websocket"),
            ("sec-websocket-key", _HANDSHAKE_KEY),
            ("sec-websocket-version", "13"),
        ]
        if scope.get("subprotocols"):
            pairs.append(("sec-websocket-protocol", ", ".join(scope["subprotocols"])))
        request = self._request(scope, "GET", HeaderBlock(pairs))
        request.http_version = "1.1"
        request.offers = "websocket"
        return request

    def _request(self, scope: Mapping[str, Any], method: str, block: HeaderBlock) -> Request:
        version = scope.get("http_version", "1.1")
        root = _root(scope)
        request = Request(method, _target(scope, root), block, b"", "2" if version[:1] in ("2", "3") else version)
        request.scheme = "https" if scope.get("scheme") in ("https", "wss") else "http"
        request.peer = _peer(scope)
        request.prefix = f"/{root.lstrip('/')}" if root else ""  # never "//": that would begin the name of a host
        return request

    def _block(self, scope: Mapping[str, Any]) -> HeaderBlock:
        raw: RawFields = tuple([(bytes(name), bytes(value)) for name, value in scope["headers"]])
        key = (_peer(scope), scope.get("scheme", ""), raw)
        found = self._blocks.get(key)
        if found is None:
            found = HeaderBlock([(name.decode("latin-1").lower(), value.decode("latin-1")) for name, value in raw])
            if sum(len(name) + len(value) for name, value in raw) <= MAX_BLOCK:
                if len(self._blocks) >= MAX_BLOCKS:
                    self._blocks.clear()
                self._blocks[key] = found
        return found


def _peer(scope: Mapping[str, Any]) -> str:
    """The address of the client. What the host says of it must not pass for the Unix socket of the operations API, whose peers are trusted."""
    client = scope.get("client")
    peer = str(client[0]) if client else ""
    return "" if peer == UNIX_PEER else peer


def _root(scope: Mapping[str, Any]) -> str:
    """The path that the application is mounted at, percent-encoded; "" at the root."""
    return quote(scope.get("root_path", "").rstrip("/"), safe=_UNQUOTED)


def _target(scope: Mapping[str, Any], root: str) -> str:
    """Path and query as received; without the path that the application is mounted at inside another one."""
    raw = scope.get("raw_path")
    path = raw.decode("latin-1").partition("?")[0] if raw else quote(scope["path"], safe=_UNQUOTED)
    if root and (path == root or path.startswith(f"{root}/")):
        path = path[len(root) :] or "/"
    query = scope.get("query_string", b"")
    return f"{path}?{query.decode('latin-1')}" if query else path
