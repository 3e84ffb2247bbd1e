"""Calls of another node's operations, to make it known (spec: replication-nodes §2).

One request and its answer over a connection of its own, everything within a time and a size: what answers there may be anything.
"""

from __future__ import annotations

import asyncio
import io
import json
import ssl
from base64 import b64encode
from collections.abc import Awaitable, Callable, Mapping, Sequence
from http.client import HTTPException, HTTPResponse
from ipaddress import ip_address
from typing import Any, cast
from urllib.parse import urlsplit

import msgspec

from svc.errors import ServerError
from svc.store.values.conversion import printable

SECONDS = 20.0  # for one call, from the connecting to the end of the answer
LARGEST = 8 << 20  # bytes of an answer
PORT = 9925  # of operations, where an address names the exchange port only
_SHOWN = 200  # characters of what the other end says


class OperationsAddress(msgspec.Struct, frozen=True):
    """`secure`: over TLS."""

    host: str
    port: int
    secure: bool

    def __str__(self) -> str:
        return f"{'https' if self.secure else 'http'}://{f'[{self.host}]' if ':' in self.host else self.host}:{self.port}"


class NotReached(ServerError):
    """The other node could not be asked, or has refused: 502."""

    status_code = 502
    code = "NODE_NOT_REACHED"


Fetch = Callable[[OperationsAddress, ssl.SSLContext | None, bytes], Awaitable[bytes]]
"""(address, its TLS, request) -> all bytes of the answer. Raises NotReached."""


def operations_address(url: str) -> OperationsAddress | None:
    """Where the operations of a node are. `https://` is their address; that of the exchange port has them on the same host, on 9925 over TLS.

    None for `http://` to another machine: credentials do not travel in the open.

    >>> str(operations_address("wss://b:9933")), str(operations_address("https://b")), str(operations_address("http://[::1]:80"))
    ('https://b:9925', 'https://b:9925', 'http://[::1]:80')
    >>> operations_address("http://b:9925") is None
    True
    """
    parts = urlsplit(url)
    host = parts.hostname or ""
    scheme = parts.scheme.lower()
    if scheme in ("wss", "ws"):
        return OperationsAddress(host, PORT, True)
    if scheme == "http" and not _is_this_machine(host):
        return None
    return OperationsAddress(host, parts.port or PORT, scheme == "https")


def _is_this_machine(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def header_of(authorization: Any) -> str:
    """The value of `Authorization` for the credentials of `add_node`."""
    if isinstance(authorization, str):
        return authorization
    return "Basic " + b64encode(f"{authorization['username']}:{authorization['password']}".encode()).decode()


def client_context(authorities: Sequence[str], *, verify: bool) -> ssl.SSLContext:
    """TLS for operations. `authorities`: PEM, beside those of this system. Blocks for some milliseconds."""
    context = ssl.create_default_context()
    if not verify:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    for text in authorities if verify else ():
        try:
            context.load_verify_locations(cadata=text)
        except (ssl.SSLError, ValueError):
            continue  # what `add_certificate` has taken and OpenSSL does not
    return context


class NodeClient:
    """Operations of one other node, as one of its users."""

    def __init__(self, address: OperationsAddress, context: ssl.SSLContext | None, authorization: str, fetch: Fetch | None = None) -> None:
        """`context`: None without TLS. `authorization`: the value of the header."""
        self.address = address
        self._context = context
        self._authorization = authorization
        self._fetch = fetch_bytes if fetch is None else fetch

    async def operate(self, operation: str, **fields: Any) -> Any:
        """The 200 body. Raises NotReached with a sentence that names the address."""
        where = str(self.address)
        content = json.dumps({"operation": operation, **fields}).encode()
        head = (
            f"POST / HTTP/1.1\r\nHost: {where.partition('://')[2]}\r\nAuthorization: {self._authorization}\r\n"
            f"Content-Type: application/json\r\nAccept: application/json\r\nContent-Length: {len(content)}\r\nConnection: close\r\n\r\n"
        )
        answer = await self._fetch(self.address, self._context, head.encode("latin-1", errors="replace") + content)
        status, body = _read_response(answer, where)
        if status == 200:
            return _json(body, where)
        if 300 <= status < 400:
            raise NotReached(f"{where} redirects to another address, which is not followed")
        reason = _reason(body)
        if status in (401, 403):
            raise NotReached(f"{where} refuses the credentials: {reason}")
        raise NotReached(f"{where} answers '{operation}' with status {status}: {reason}")


def _read_response(data: bytes, where: str) -> tuple[int, bytes]:
    try:
        response = HTTPResponse(cast(Any, _Received(data)), method="POST")
        response.begin()
        return response.status, response.read()
    except (HTTPException, ValueError, OSError):
        raise NotReached(f"What answers at {where} is no HTTP server, or its answer is cut off") from None


class _Received:
    """What `http.client` takes for a socket."""

    def __init__(self, data: bytes) -> None:
        self._data = data

    def makefile(self, mode: str) -> io.BytesIO:
        return io.BytesIO(self._data)


def _json(body: bytes, where: str) -> Any:
    try:
        return msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise NotReached(f"What answers at {where} is no svc: its answer is no JSON") from None


def _reason(body: bytes) -> str:
    """What an answer says is wrong, for a message."""
    try:
        found = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return "it is no svc"
    text = found.get("error") if isinstance(found, Mapping) else None
    return printable(text[:_SHOWN]) if isinstance(text, str) else "it is no svc"


async def fetch_bytes(address: OperationsAddress, context: ssl.SSLContext | None, request: bytes) -> bytes:
    """All that comes until the other end closes. Raises NotReached."""
    writer: asyncio.StreamWriter | None = None
    try:
        async with asyncio.timeout(SECONDS):
            reader, writer = await asyncio.open_connection(
                address.host, address.port, ssl=context, server_hostname=address.host if context is not None else None
            )
            writer.write(request)
            await writer.drain()
            found = bytearray()
            while data := await reader.read(1 << 16):
                found += data
                if len(found) > LARGEST:
                    raise NotReached(f"The answer of {address} has more than {LARGEST >> 20} MiB")
            return bytes(found)
    except TimeoutError:
        raise NotReached(f"{address} has not answered within {SECONDS:g} s") from None
    except ssl.SSLCertVerificationError as error:
        raise NotReached(
            f"The certificate of {address} is not trusted ({error.verify_message}): add its authority with 'add_certificate', or set 'verify_tls' to false"
        ) from None
    except (OSError, ssl.SSLError, UnicodeError) as error:
        raise NotReached(f"{address} cannot be reached: {getattr(error, 'strerror', None) or error}") from None
    finally:
        if writer is not None:
            writer.transport.abort()
