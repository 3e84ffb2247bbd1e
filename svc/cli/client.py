"""A client of the operations API: over the Unix socket of a server of this machine, or over HTTP(S) (spec: configuration §6.2).

The only module of the command line that opens sockets.
"""

from __future__ import annotations

import http.client
import json
import os
import socket
import ssl
from base64 import b64encode
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

CONNECT_SECONDS = 10.0
ANSWER_SECONDS = 600.0  # without a byte: long operations are jobs, which answer at once
CHUNK = 1 << 16
MAX_ERROR = 1 << 20  # bytes of an error's body that are read

_CONTENT_TYPE = "application/json"
_ACCEPT = "application/json, */*;q=0.5"


class Unreachable(Exception):
    """The server cannot be reached, or the connection was lost; the message is for the user."""


class AuthenticationRefused(Exception):
    """The server did not accept the credentials; the message is the server's, or the remedy."""


@dataclass(frozen=True)
class ServerAddress:
    """A server: the path of a Unix socket, or an address. `user`, `password`: from inside the URL."""

    url: str = ""
    socket: Path | None = None
    scheme: str = "https"
    host: str = ""
    port: int = 0
    path: str = "/"
    verified: bool = True
    user: str | None = None
    password: str | None = None

    def __repr__(self) -> str:
        return f"ServerAddress({self.socket or self.url!r})"  # no password


def basic(user: str, password: str) -> str:
    """The `Authorization` field for a user and a password."""
    return f"Basic {b64encode(f'{user}:{password}'.encode()).decode()}"


def bearer(token: str) -> str:
    return f"Bearer {token}"


class Answer:
    """A response. The body is read once, as a whole (`read`) or in pieces (`chunks`); both raise Unreachable if it breaks off."""

    def __init__(self, response: http.client.HTTPResponse, connection: http.client.HTTPConnection) -> None:
        self._response = response
        self._connection = connection
        self.status = response.status
        self.content_type = (response.headers.get("Content-Type") or "").partition(";")[0].strip().lower()
        length = response.headers.get("Content-Length")
        self.length = int(length) if length is not None and length.isdecimal() else None

    @property
    def is_json(self) -> bool:
        return self.content_type == "application/json"

    def chunks(self) -> Iterator[bytes]:
        try:
            while piece := self._response.read1(CHUNK):
                yield piece
            if self._response.length:  # read1 takes the end of the connection for the end of the body
                raise http.client.IncompleteRead(b"", self._response.length)
        except (OSError, http.client.HTTPException) as error:
            raise Unreachable(f"The connection broke before the answer was complete: {reason(error)}") from error
        finally:
            self.close()

    def read(self) -> bytes:
        return b"".join(self.chunks())

    def value(self) -> Any:
        """The JSON value of the body. Raises Unreachable for a body that is not JSON."""
        content = self.read()
        try:
            return json.loads(content)
        except (ValueError, RecursionError) as error:
            raise Unreachable(
                f"The answer is not JSON but {self.content_type or 'something unnamed'}: is this the operations port?"
            ) from error

    def error_text(self) -> str:
        """Why the server refused, in its words."""
        return self.error()[0]

    def error(self) -> tuple[str, int | None]:
        """Why the server refused, in its words, and where in the text of a query: characters from 0, None if it does not say."""
        content = b""
        for piece in self.chunks():
            content += piece
            if len(content) > MAX_ERROR:
                break
        self.close()
        try:
            body = json.loads(content)
        except (ValueError, RecursionError):
            body = None
        if isinstance(body, dict):
            position = body.get("position")
            return error_sentence(body) or f"status {self.status}", position if type(position) is int and position >= 0 else None
        return f"status {self.status} {http.client.responses.get(self.status, '')}".rstrip(), None

    def close(self) -> None:
        self._response.close()
        self._connection.close()


def error_sentence(body: Mapping[str, Any]) -> str:
    """The message of an error body, with the lists of a refusal (spec: security §6)."""
    error = body.get("error", body.get("message"))
    text = error if isinstance(error, str) else "" if error is None else json.dumps(error, ensure_ascii=False)
    details = {name: value for name, value in body.items() if name not in ("error", "code", "position", "message") and value}
    return "\n".join([text, *(f"  {name}: {json.dumps(value, ensure_ascii=False)}" for name, value in details.items())]).strip("\n")


class Client:
    """Sends operations to one target, each over a connection of its own."""

    def __init__(self, target: ServerAddress, authorization: str | None = None) -> None:
        self.target = target
        self.authorization = authorization
        self.accept = _ACCEPT
        self.answer_seconds = ANSWER_SECONDS

    def send(self, body: Mapping[str, Any], authorization: str | None = None) -> Answer:
        """POST an operation. `authorization`: instead of the client's; empty for none. Raises Unreachable."""
        content = json.dumps(body, ensure_ascii=False).encode("utf-8", "surrogateescape")
        return self._request("POST", self.target.path, content, self._headers(_CONTENT_TYPE, authorization))

    def send_upload(self, pieces: Iterable[bytes], size: int, content_type: str, authorization: str | None = None) -> Answer:
        """POST an operation whose body is long. `size`: bytes of all pieces. Raises Unreachable."""
        headers = {**self._headers(content_type, authorization), "Content-Length": str(size)}
        return self._request("POST", self.target.path, pieces, headers)

    def _headers(self, content_type: str, authorization: str | None) -> dict[str, str]:
        headers = {"Content-Type": content_type, "Accept": self.accept, "Connection": "close", "User-Agent": "svc-cli"}
        chosen = self.authorization if authorization is None else authorization
        if chosen:
            headers["Authorization"] = chosen
        return headers

    def is_listening(self) -> bool:
        """Whether the server accepts connections."""
        connection = self._connection()
        try:
            connection.connect()
        except (OSError, http.client.HTTPException):
            return False
        finally:
            connection.close()
        return True

    def is_healthy(self) -> bool:
        """Whether the server answers `GET /health`."""
        try:
            answer = self._request("GET", "/health", None, {"Connection": "close"})
            answer.read()
        except Unreachable:
            return False
        return answer.status == 200

    def _request(self, method: str, path: str, content: bytes | Iterable[bytes] | None, headers: dict[str, str]) -> Answer:
        connection = self._connection()
        try:
            connection.connect()
            connection.sock.settimeout(self.answer_seconds)
            try:
                connection.request(method, path, content, headers)
            except (BrokenPipeError, ConnectionResetError):
                if isinstance(content, bytes | None):
                    raise  # else it may have answered before it has taken all of it
            return Answer(connection.getresponse(), connection)
        except (OSError, http.client.HTTPException) as error:
            connection.close()
            raise self._unreachable(error) from error
        except BaseException:
            connection.close()
            raise

    def _connection(self) -> http.client.HTTPConnection:
        target = self.target
        if target.socket is not None:
            return _UnixConnection(target.socket)
        if target.scheme == "http":
            return http.client.HTTPConnection(target.host, target.port, timeout=CONNECT_SECONDS)
        return http.client.HTTPSConnection(target.host, target.port, timeout=CONNECT_SECONDS, context=_tls_context(target.verified))

    def _unreachable(self, error: OSError | http.client.HTTPException) -> Unreachable:
        target = self.target
        if target.socket is not None:
            return Unreachable(f"The server at {target.socket} does not answer: {reason(error)}")
        address = f"{target.host}:{target.port}"
        if isinstance(error, ssl.SSLCertVerificationError):
            return Unreachable(
                f"The certificate of {address} cannot be verified: {error.verify_message}. Name its authority with SSL_CERT_FILE=ca.pem,"
                " or switch the verification off with rejectUnauthorized=false"
            )
        if isinstance(error, ssl.SSLError):
            return Unreachable(f"{address} does not speak TLS as expected ({reason(error)}); target=http://{address} asks without TLS")
        if isinstance(error, ConnectionResetError | http.client.RemoteDisconnected | http.client.BadStatusLine):
            hint = f"; target=https://{address} asks with TLS" if target.scheme == "http" else ""
            return Unreachable(f"{address} closed the connection without an answer{hint}")
        hint = ""
        if isinstance(error, ConnectionRefusedError) and target.host not in ("localhost", "127.0.0.1", "::1"):
            hint = "; by default an operations port is open to its own machine only: operationsApi.network.host of that server"
        return Unreachable(f"{address} cannot be reached: {reason(error)}{hint}")


class _UnixConnection(http.client.HTTPConnection):
    def __init__(self, path: Path) -> None:
        super().__init__("localhost", timeout=CONNECT_SECONDS)
        self._path = path

    def connect(self) -> None:
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            sock.settimeout(CONNECT_SECONDS)
            sock.connect(os.fspath(self._path))
        except BaseException:
            sock.close()
            raise
        self.sock = sock


def _tls_context(verified: bool) -> ssl.SSLContext:
    context = ssl.create_default_context()
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    if not verified:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context


def reason(error: BaseException) -> str:
    """An exception of the network in a few words."""
    if isinstance(error, TimeoutError):
        return "no answer in time"
    if isinstance(error, http.client.IncompleteRead):
        return "it ended early"
    text = getattr(error, "strerror", None) or str(error) or type(error).__name__
    return str(text)
