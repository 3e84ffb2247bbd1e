"""HTTP/1.1 byte by byte, and behind a proxy that shares its connections among all clients."""

from __future__ import annotations

import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import httpx
import psutil
import pytest

from tests.integration.conftest import PASSWORD, Process
from tests.support.ports import free_port
from tests.support.proxies import NGINX, nginx_command

pytestmark = pytest.mark.programs

LIMIT = 120.0  # seconds until a test gives up


def converse(port: int, data: bytes) -> bytes:
    """Send these bytes at once; all that is answered until the server closes."""
    with closing(socket.create_connection(("127.0.0.1", port), timeout=LIMIT)) as sock:
        sock.sendall(data)
        received = b""
        while piece := sock.recv(65536):
            received += piece
        return received


@pytest.mark.parametrize(
    "body",
    [
        b"5\r\nhello\r\nnonsense\r\n",
        b"5;a=\rb\r\nhello\r\n0\r\n\r\n",
        b"5;a=\0\r\nhello\r\n0\r\n\r\n",
        b"10000000000000005\r\nhello\r\n",
        b"7fffffffffffffff\r\nhello\r\n",
        b"0\r\nA: \0\r\n\r\n",
    ],
)
@pytest.mark.parametrize("credentials", [b"", b"Authorization: Basic bm9ib2R5OndpdGg=\r\n"], ids=["anonymous", "wrong password"])
@pytest.mark.parametrize("where", ["application", "operations"])
def test_a_malformed_chunked_body_behind_a_head_that_decides(server: Process, body: bytes, credentials: bytes, where: str) -> None:
    port, target = (server.port, b"PUT /Product/1") if where == "application" else (server.operations_port, b"POST /")
    head = target + b" HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\n" + credentials + b"Transfer-Encoding: chunked\r\n\r\n"
    answered = converse(port, head + body)
    assert answered[:12] in (b"HTTP/1.1 400", b"HTTP/1.1 401", b"HTTP/1.1 411", b"HTTP/1.1 413"), answered
    assert answered.count(b"HTTP/1.1 ") == 1 and b"\r\nConnection: close\r\n" in answered
    assert "Traceback" not in server.logged()


# --- behind a proxy ------------------------------------------------------------------------------------------------------------------
SITE = """
upstream svc {{
    server 127.0.0.1:{upstream};
    keepalive 1;
    keepalive_requests 1000000;
}}
server {{
    listen 127.0.0.1:{port};
    location / {{
        proxy_pass http://svc;
        proxy_http_version 1.1;
        proxy_set_header Connection "";
        proxy_request_buffering off;
    }}
}}
"""


class Proxy:
    """nginx in front of a server, with one connection to it that all clients share."""

    def __init__(self, folder: Path, upstream: int) -> None:
        self.port = free_port()
        self._upstream = upstream
        self._process = subprocess.Popen(nginx_command(folder, SITE.format(upstream=upstream, port=self.port)))
        deadline = time.monotonic() + LIMIT
        while True:
            try:
                socket.create_connection(("127.0.0.1", self.port), timeout=1).close()
                return
            except OSError:
                assert self._process.poll() is None and time.monotonic() < deadline, (folder / "error.log").read_text()
                time.sleep(0.02)

    @property
    def upstream_connections(self) -> set[int]:
        """Its own ports on the connections it holds to the server."""
        processes = [psutil.Process(self._process.pid), *psutil.Process(self._process.pid).children()]
        found = [connection for process in processes for connection in process.net_connections("tcp")]
        return {each.laddr.port for each in found if each.raddr and each.raddr.port == self._upstream}

    def stop(self) -> None:
        self._process.terminate()
        self._process.wait(timeout=LIMIT)


@pytest.fixture
def proxy(server: Process, tmp_path: Path) -> Iterator[Proxy]:
    proxy = Proxy(tmp_path, server.port)
    yield proxy
    proxy.stop()


@pytest.mark.skipif(NGINX is None, reason="nginx is not installed")
def test_plain_and_odd_requests_share_a_connection_of_a_proxy(server: Process, proxy: Proxy) -> None:
    """Each is read as what it is, whatever came before it from other clients."""
    with httpx.Client(base_url=f"http://127.0.0.1:{proxy.port}", auth=("admin", PASSWORD), timeout=LIMIT) as client:
        assert client.put("/Product/pooled", json={"name": "one"}).status_code == 204
        connections = proxy.upstream_connections
        assert len(connections) == 1
        for number in range(20):
            name = f"number {number}"
            chunks = iter([b'{"name":', f'"{name}"}}'.encode()])
            headers = {"Content-Type": "application/json", "X-Name": "\u00e9".encode("latin-1")}
            assert client.put("/Product/pooled", content=chunks, headers=headers).status_code == 204
            assert client.get("/Product/pooled").json()["name"] == name
            assert client.get("/Product/pooled", headers={"X-Name": "\u00e9".encode("latin-1")}).json()["name"] == name
            assert client.request("BREW", "/Product/pooled").status_code in (405, 501)
            assert client.get("/Product/pooled").json()["name"] == name
        assert client.delete("/Product/pooled").status_code == 204
    assert proxy.upstream_connections == connections
