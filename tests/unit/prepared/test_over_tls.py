"""Prepared requests over TLS, with OpenSSL at both ends: what is prepared answers there, over HTTP/1.1 and HTTP/2."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from svc.connection.http1 import Http1Connection
from svc.connection.http2 import Http2Connection
from svc.connection.tls_handshake import TlsAcceptor, TlsPort
from tests.support.certificates import TlsClient, client_context, server_context
from tests.support.fakes import FakeSocket
from tests.support.http2 import ClientEnd
from tests.support.prepared_reads import Beside, authorization
from tests.support.prepared_writes import request

ROOT = authorization("root")
TIMED = ("server-timing", "date")


class Contexts:
    context = server_context()

    def __init__(self, certificate: Any = None) -> None:
        self._certificate = certificate

    def peer_certificate(self, session: Any) -> Any:
        return self._certificate


class Log:
    def debug(self, *messages: object) -> None:
        raise AssertionError(messages)

    info = debug


class Secure:
    """A client of a node."""

    def __init__(self, beside: Beside, protocol: str, certificate: Any = None) -> None:
        self._node = node = beside.node
        self._client = TlsClient(client_context(alpn=(protocol,)))
        self._raw = FakeSocket()
        acceptor = TlsAcceptor(node.connections, TlsPort(Contexts(certificate), lambda value, metric: None, Log()))
        self._handshake: Any = acceptor.accept(self._raw, "10.0.0.1")  # type: ignore[arg-type]
        self._end: ClientEnd | None = None
        self.exchange()
        if protocol == "h2":
            self._end = ClientEnd()
            self.exchange()

    @property
    def connection(self) -> Any:
        (found,) = [each for each in self._node.connections.open if each.sock is self._handshake.sock]
        return found

    def exchange(self) -> None:
        """To and fro until nobody has anything to say."""
        while True:
            if self._end is not None:
                self._client.write(self._end.data_to_send())
            data = self._client.take()
            if data:
                self._raw.incoming.append(data)
                self._node.connections.loop.readers[self._handshake.sock]()  # type: ignore[attr-defined]
            self._node.settle()
            sent, self._raw.sent = self._raw.sent, b""
            if not sent and not data:
                return
            self._client.receive(sent)
            if self._end is not None:
                self._end.receive(self._client.received)
                self._client.received = b""

    def ask(self, method: str, path: str, value: Any = None, fields: dict[str, str] | None = None) -> tuple[int, dict[str, str], bytes]:
        """Status, fields but for those of time, body."""
        if self._end is not None:
            body = None if value is None else json.dumps(value).encode()
            given = {**ROOT, **(fields or {}), **({} if body is None else {"Content-Type": "application/json"})}
            stream_id = self._end.request(method, path, given, body)
            self.exchange()
            answer = self._end.answers[stream_id]
            assert answer.is_complete
            status, found, content = answer.status, answer.fields, answer.body
        else:
            data = request(method, path, value, user="root")
            if fields:
                data = data.replace(b"\r\n", "".join(["\r\n", *[f"{name}: {text}\r\n" for name, text in fields.items()]]).encode(), 1)
            self._client.write(data)
            self.exchange()
            head, _, content = self._client.received.partition(b"\r\n\r\n")
            self._client.received = b""
            line, *lines = head.decode().split("\r\n")
            status = int(line.split(" ")[1])
            found = {name.lower(): text for name, text in (each.split(": ", 1) for each in lines)}
        return status, {name: text for name, text in found.items() if name not in TIMED}, content


@pytest.fixture
def beside(tmp_path: Path) -> Iterator[Beside]:
    made = Beside(tmp_path)
    for index in range(4):
        made.put("Product", f"p{index}", {"name": "a", "price": index / 2})
    yield made
    made.close()


def count_hits(beside: Beside, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of what has answered requests, as they are answered."""
    hits: list[str] = []
    prepared = beside.node.prepared

    def count(owner: Any, name: str) -> None:
        answer = getattr(owner, name)

        def counted(*args: Any) -> bool:
            found = answer(*args)
            if found:
                hits.append(name)
            return bool(found)

        monkeypatch.setattr(owner, name, counted)

    count(prepared, "answer")
    count(prepared, "answer_stream")
    return hits


@pytest.mark.parametrize(("protocol", "kind"), [("http/1.1", Http1Connection), ("h2", Http2Connection)])
def test_reads(beside: Beside, monkeypatch: pytest.MonkeyPatch, protocol: str, kind: type) -> None:
    """A record, one that has not changed, and one that is not there."""
    client, hits = Secure(beside, protocol), count_hits(beside, monkeypatch)
    assert type(client.connection) is kind
    whole = [client.ask("GET", "/Product/k1") for _ in range(4)]
    assert whole[1:] == whole[:-1] and whole[0][0] == 200 and len(hits) == 2
    tagged = {"If-None-Match": whole[0][1]["etag"]}
    unchanged = [client.ask("GET", "/Product/k1", fields=tagged) for _ in range(4)]
    assert unchanged[1:] == unchanged[:-1] and unchanged[0][0] == 304 and len(hits) == 4
    missing = [client.ask("GET", "/Product/none") for _ in range(2)]
    assert [status for status, _, _ in missing] == [404, 404] and len(hits) == 6
    beside.node.connections.prepared = None
    assert [client.ask("GET", "/Product/k1"), client.ask("GET", "/Product/k1", fields=tagged), client.ask("GET", "/Product/none")] == [
        whole[0],
        unchanged[0],
        missing[0],
    ]
    assert set(hits) == {"answer_stream" if protocol == "h2" else "answer"}


def test_lists_and_writes_over_http1(beside: Beside, monkeypatch: pytest.MonkeyPatch) -> None:
    client, hits = Secure(beside, "http/1.1"), count_hits(beside, monkeypatch)
    lists = [client.ask("GET", f"/Product/?name=={name}") for name in ("a", "b", "a", "c")]
    assert len(hits) == 2 and [len(json.loads(body)) for _, _, body in lists] == [4, 0, 4, 0] and lists[0] == lists[2]
    for index in range(4):
        queued = len(hits)
        status, _, _ = client.ask("PUT", "/Product/p9", {"name": f"n{index}"})
        assert status in (201, 204) and len(hits) == queued + (index > 1)
        assert json.loads(client.ask("GET", "/Product/p9")[2])["name"] == f"n{index}"


def test_lists_and_writes_over_http2(beside: Beside) -> None:
    """They go the general way."""
    client = Secure(beside, "h2")
    for index in range(4):
        assert len(json.loads(client.ask("GET", "/Product/?name==a&sort(price)")[2])) == 4
        assert client.ask("PUT", "/Product/p9", {"name": f"n{index}"})[0] in (201, 204)
        assert json.loads(client.ask("GET", "/Product/p9")[2])["name"] == f"n{index}"


@pytest.mark.parametrize("protocol", ["http/1.1", "h2"])
def test_a_client_with_a_certificate(beside: Beside, monkeypatch: pytest.MonkeyPatch, protocol: str) -> None:
    """It may be another user for it: nothing is answered by what is prepared."""
    first, hits = Secure(beside, protocol), count_hits(beside, monkeypatch)
    for _ in range(3):
        first.ask("GET", "/Product/k1")
    assert hits
    hits.clear()
    other = Secure(beside, protocol)
    assert other.ask("GET", "/Product/k1")[0] == 200 and len(hits) == 1
    other.connection.peer_certificate = _Certificate()
    assert other.ask("GET", "/Product/k1")[0] == 200 and len(hits) == 1


class _Certificate:
    """Says nothing about a user."""

    def __getattr__(self, name: str) -> Any:
        return None
