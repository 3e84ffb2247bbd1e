"""The scope of a request, as ASGI 3 defines it (spec: asgi §1.2)."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote, unquote

from svc.messages import UNIX_PEER, HeaderBlock, Request
from svc.mounted.messages import VERSIONS, Scope

_MEMO = "mounted"
_DEFAULT_PORTS = {"http": 80, "https": 443, "ws": 80, "wss": 443}

HTTP_EXTENSIONS: dict[str, dict[str, Any]] = {"http.response.early_hint": {}}
WEBSOCKET_EXTENSIONS: dict[str, dict[str, Any]] = {"websocket.http.response": {}}

RawFields = list[tuple[bytes, bytes]]


def http_scope(request: Request, root_path: str, state: dict[str, Any]) -> Scope:
    """`root_path`: the path that the application is mounted at; the path of the request begins with it. In the scope both begin with `request.prefix`."""
    scope = _scope("http", request, request.scheme, root_path, state)
    scope["method"] = request.method
    scope["extensions"] = {name: {} for name in HTTP_EXTENSIONS}
    return scope


def websocket_scope(request: Request, root_path: str, state: dict[str, Any], subprotocols: list[str]) -> Scope:
    scope = _scope("websocket", request, "wss" if request.scheme == "https" else "ws", root_path, state)
    scope["subprotocols"] = subprotocols
    scope["extensions"] = {name: {} for name in WEBSOCKET_EXTENSIONS}
    return scope


def _scope(kind: str, request: Request, scheme: str, root_path: str, state: dict[str, Any]) -> Scope:
    path = request.prefix + _path(request, root_path)
    fields, host, port = _of_block(request.block)
    return {
        "type": kind,
        "asgi": VERSIONS.copy(),
        "http_version": "2" if request.http_version[:1] == "2" else request.http_version,
        "scheme": scheme,
        "path": unquote(path) if "%" in path else path,
        "raw_path": path.encode("latin-1", "replace"),
        "query_string": (request.query or "").encode("latin-1", "replace"),
        "root_path": unquote(request.prefix) + root_path,
        "headers": fields.copy(),
        "client": None if request.peer in ("", UNIX_PEER) else (request.peer, 0),
        "server": (host, _DEFAULT_PORTS[scheme] if port is None else port) if host else None,
        "state": state.copy(),
        "svc.user": request.user,
        "svc.request": request,
    }


def _path(request: Request, root_path: str) -> str:
    """As it was received, unless a listener has changed what follows `root_path`."""
    path, rest, root = request.target.partition("?")[0], request.pathname, quote(root_path)
    if path == rest or path == root + rest or (path == root and rest == "/"):
        return path
    return root + rest


def _of_block(block: HeaderBlock) -> tuple[RawFields, str, int | None]:
    """(the header fields, host and port of the authority), kept with the block."""
    found: tuple[RawFields, str, int | None] | None = block.memo.get(_MEMO)
    if found is None:
        found = block.memo[_MEMO] = (_raw_fields(block), *_authority(block.fields.get("host", "")))
    return found


def _raw_fields(block: HeaderBlock) -> RawFields:
    """One field `cookie`, as HTTP/1.1 has it: HTTP/2 may send it in pieces (RFC 9113 §8.2.3)."""
    pairs = block.pairs
    if sum(name == "cookie" for name, _ in pairs) > 1:
        pairs = [pair for pair in pairs if pair[0] != "cookie"]
        pairs.append(("cookie", block.fields["cookie"]))
    return [(name.encode("latin-1", "replace"), value.encode("latin-1", "replace")) for name, value in pairs]


def _authority(host: str) -> tuple[str, int | None]:
    """
    >>> _authority("shop.example:8080"), _authority("[::1]:80"), _authority("[::1]"), _authority("shop.example")
    (('shop.example', 8080), ('::1', 80), ('::1', None), ('shop.example', None))
    """
    name, colon, port = host.rpartition(":")
    if not colon or host.endswith("]"):
        name, port = host, ""
    return name.strip("[]"), int(port) if port.isascii() and port.isdecimal() and len(port) <= 5 else None
