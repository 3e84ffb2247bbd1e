"""One request to whatever is at an address, within a time and a size."""

from __future__ import annotations

import asyncio
import ssl
from typing import Any

import pytest

from svc.operations import node_client
from svc.operations.node_client import LARGEST, NodeClient, NotReached, OperationsAddress, client_context, fetch_bytes, header_of

ADDRESS = OperationsAddress("b", 9925, True)


class FakeTransport:
    aborted = False

    def abort(self) -> None:
        self.aborted = True


class FakeWriter:
    def __init__(self) -> None:
        self.transport = FakeTransport()
        self.written = b""

    def write(self, data: bytes) -> None:
        self.written += data

    async def drain(self) -> None:
        pass


def fetch(monkeypatch: pytest.MonkeyPatch, *pieces: bytes | BaseException, failure: BaseException | None = None) -> bytes:
    """What is read of an end that sends these pieces, then closes; an exception is raised by the connection instead. It is cut off whatever happens."""
    reader = iter(pieces)
    writer = FakeWriter()

    class Reader:
        async def read(self, size: int) -> bytes:
            piece = next(reader, b"")
            if isinstance(piece, BaseException):
                raise piece
            return piece

    async def connect(*arguments: Any, **options: Any) -> Any:
        if failure is not None:
            raise failure
        return Reader(), writer

    monkeypatch.setattr(asyncio, "open_connection", connect)
    try:
        return asyncio.run(fetch_bytes(ADDRESS, None, b"request"))
    finally:
        assert failure is not None or (writer.transport.aborted and writer.written == b"request")


def untrusted() -> ssl.SSLCertVerificationError:
    error = ssl.SSLCertVerificationError(1, "failed")
    error.verify_message = "self-signed certificate"
    return error


def test_all_that_comes_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    assert fetch(monkeypatch, b"a", b"b") == b"ab"


def test_an_answer_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(NotReached, match="has more than 8 MiB"):
        fetch(monkeypatch, *[b"x" * (1 << 20)] * (LARGEST // (1 << 20) + 1))


def test_an_end_that_says_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(NotReached, match="https://b:9925 has not answered within 20 s"):
        fetch(monkeypatch, TimeoutError())


@pytest.mark.parametrize(
    ("failure", "text"),
    [
        (ConnectionRefusedError(111, "Connection refused"), "https://b:9925 cannot be reached: Connection refused"),
        (ssl.SSLError("wrong version number"), "cannot be reached"),
        (untrusted(), "is not trusted (self-signed certificate): add its authority"),
        (UnicodeError("label too long"), "cannot be reached: label too long"),
    ],
)
def test_no_connection(monkeypatch: pytest.MonkeyPatch, failure: BaseException, text: str) -> None:
    with pytest.raises(NotReached) as caught:
        fetch(monkeypatch, failure=failure)
    assert text in caught.value.message


def test_answers_cut_at_every_byte() -> None:
    whole = b'HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 11\r\n\r\n{"a": "b c"}'[:-1] + b"}"
    body = b'{"a": "bc"}'
    whole = whole.partition(b"\r\n\r\n")[0] + b"\r\n\r\n" + body
    for end in range(len(whole)):

        async def give(*arguments: Any, end: int = end) -> bytes:
            return whole[:end]

        with pytest.raises(NotReached):
            asyncio.run(NodeClient(ADDRESS, None, "x", give).operate("cluster_status"))

    async def give_all(*arguments: Any) -> bytes:
        return whole

    assert asyncio.run(NodeClient(ADDRESS, None, "x", give_all).operate("cluster_status")) == {"a": "bc"}


def test_credentials() -> None:
    assert header_of("Bearer x") == "Bearer x"
    assert header_of({"username": "ä", "password": "b"}) == "Basic w6Q6Yg=="


def test_contexts() -> None:
    assert client_context((), verify=False).verify_mode is ssl.CERT_NONE
    checked = client_context(("no certificate",), verify=True)
    assert checked.verify_mode is ssl.CERT_REQUIRED and checked.check_hostname
    assert node_client.PORT == 9925
