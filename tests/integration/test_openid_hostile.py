"""Providers that are slow, silent, endless, or no providers at all: a clear answer, and a server that serves the others meanwhile (spec: rows §2.6)."""

from __future__ import annotations

import shutil
import socket
import ssl
import struct
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest

from tests.integration.conftest import LIMIT, Process
from tests.support.certificates import server_context
from tests.support.pages import BROWSER
from tests.support.waiting import wait_until

pytestmark = pytest.mark.programs

FILES = Path(__file__).parent / "openid"
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"


def silent(connection: socket.socket, stop: threading.Event) -> None:
    stop.wait()


def slow(connection: socket.socket, stop: threading.Event) -> None:
    """A byte a second, more or less, for ever."""
    connection.sendall(HEAD + b"Content-Length: 100000\r\n\r\n")
    while not stop.wait(0.5):
        connection.sendall(b" ")


def slow_head(connection: socket.socket, stop: threading.Event) -> None:
    connection.sendall(b"HTTP/1.1 200 OK\r\n")
    while not stop.wait(0.5):
        connection.sendall(b"X-More: x\r\n")


def endless(connection: socket.socket, stop: threading.Event) -> None:
    connection.sendall(HEAD + b"\r\n")
    while not stop.is_set():
        connection.sendall(b"[" * 65536)


def endless_head(connection: socket.socket, stop: threading.Event) -> None:
    connection.sendall(b"HTTP/1.1 200 OK\r\n")
    while not stop.is_set():
        connection.sendall(b"X-More: " + b"x" * 60000 + b"\r\n")


def redirect(connection: socket.socket, stop: threading.Event) -> None:
    connection.sendall(b"HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:9925/\r\nContent-Length: 0\r\n\r\n")


def garbage(connection: socket.socket, stop: threading.Event) -> None:
    connection.sendall(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" * 10)


def reset(connection: socket.socket, stop: threading.Event) -> None:
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


def cut(connection: socket.socket, stop: threading.Event) -> None:
    connection.sendall(HEAD + b"Content-Length: 1000\r\n\r\n{")


def page(connection: socket.socket, stop: threading.Event) -> None:
    connection.sendall(HEAD + b"Content-Length: 6\r\n\r\n<html>")


def deep(connection: socket.socket, stop: threading.Event) -> None:
    body = b"[" * 200_000
    connection.sendall(HEAD + b"Content-Length: %d\r\n\r\n" % len(body) + body)


PROVIDERS: dict[str, tuple[Callable[[socket.socket, threading.Event], None] | None, int, str]] = {
    "silent": (silent, 503, "PROVIDER_UNAVAILABLE"),
    "slow": (slow, 503, "PROVIDER_UNAVAILABLE"),
    "slow-head": (slow_head, 503, "PROVIDER_UNAVAILABLE"),
    "endless": (endless, 502, "PROVIDER_FAULT"),
    "endless-head": (endless_head, 502, "PROVIDER_FAULT"),
    "redirect": (redirect, 502, "PROVIDER_FAULT"),
    "garbage": (garbage, 502, "PROVIDER_FAULT"),
    "reset": (reset, 503, "PROVIDER_UNAVAILABLE"),
    "cut": (cut, 502, "PROVIDER_FAULT"),
    "page": (page, 502, "PROVIDER_FAULT"),
    "deep": (deep, 502, "PROVIDER_FAULT"),
    "nobody": (None, 503, "PROVIDER_UNAVAILABLE"),
    "plain": (page, 503, "PROVIDER_UNAVAILABLE"),  # speaks no TLS
    "untrusted": (page, 503, "PROVIDER_UNAVAILABLE"),  # its certificate is of an authority that nobody knows
}
"""Name -> what it does with a connection, and the answer to whoever would log in there."""


class HostileServer:
    """Behaves in one way to all connections. `behaves` None: nobody listens."""

    def __init__(
        self, behave: Callable[[socket.socket, threading.Event], None] | None, stop: threading.Event, tls: ssl.SSLContext | None = None
    ) -> None:
        self._behave = behave
        self._tls = tls
        self.requests: list[bytes] = []
        self._stop = stop
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port = self._listening.getsockname()[1]
        self.connections = 0
        self._threads: list[threading.Thread] = []
        if behave is None:
            self._listening.close()
        else:
            self._start(self._accept)

    def _start(self, work: Callable[[], None]) -> None:
        thread = threading.Thread(target=work, daemon=True)
        thread.start()
        self._threads.append(thread)

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listening.accept()
            except OSError:
                return
            self.connections += 1
            self._start(lambda connection=connection: self._serve(connection))  # type: ignore[misc]

    def _serve(self, connection: socket.socket) -> None:
        assert self._behave is not None
        with connection:
            try:
                secure = connection if self._tls is None else self._tls.wrap_socket(connection, server_side=True)
                self.requests.append(secure.recv(65536))
                self._behave(secure, self._stop)
            except OSError:
                pass

    def close(self) -> None:
        try:
            self._listening.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass
        self._listening.close()
        for thread in list(self._threads):
            thread.join(LIMIT)


class Site:
    """`process`: the server. `hostile`: the providers, by name."""

    def __init__(self, directory: Path) -> None:
        self.stop = threading.Event()
        self.hostile = {
            name: HostileServer(behave, self.stop, server_context() if name == "untrusted" else None)
            for name, (behave, _, _) in PROVIDERS.items()
        }
        app = shutil.copytree(FILES, directory / "app", ignore=shutil.ignore_patterns("*.mjs"))
        entries = "".join(
            f"    - {{name: {name}, issuer: '{'https' if name in ('plain', 'untrusted') else 'http'}://127.0.0.1:{server.port}', clientId: shop}}\n"
            for name, server in self.hostile.items()
        )
        config = "rest: true\nlogin: true\ngraphqlSchema: {files: schema.graphql}\nroles: {files: roles.yaml}\naccounts:\n  role: member\n  providers:\n"
        (app / "config.yaml").write_text(config + entries)
        self.process = Process(directory / "root", app).start()

    def close(self) -> None:
        self.stop.set()
        for server in self.hostile.values():
            server.close()


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    found = Site(tmp_path)
    yield found
    found.close()
    assert found.process.stop() == 0, found.process.output()
    assert "[error]" not in found.process.logged(), found.process.logged()


def test_hostile_providers(site: Site) -> None:
    def log_in(name: str, accept: str) -> httpx.Response:
        return httpx.get(f"{site.process.url}/login/{name}", headers={"Accept": accept}, timeout=LIMIT, trust_env=False)

    with ThreadPoolExecutor(2 * len(PROVIDERS)) as pool:
        for_programs = {name: pool.submit(log_in, name, "application/json") for name in PROVIDERS}
        for_browsers = {name: pool.submit(log_in, name, BROWSER) for name in PROVIDERS}
        wait_until(lambda: site.hostile["silent"].connections and site.hostile["slow"].connections)
        for _ in range(20):  # it serves the others
            with site.process.client(trust_env=False) as client:
                assert client.get("/Note/").status_code == 200
        found = {name: (future.result().status_code, future.result().json()["code"]) for name, future in for_programs.items()}
        pages = {name: future.result() for name, future in for_browsers.items()}
    assert found == {name: (status, code) for name, (_, status, code) in PROVIDERS.items()}
    for name, response in pages.items():
        _, status, code = PROVIDERS[name]
        assert response.status_code == status and f"{status} {code}" in response.text and "Traceback" not in response.text
        assert f'href="../login/{name}"' in response.text  # to try again
    assert site.hostile["untrusted"].connections and site.hostile["untrusted"].requests == []
    assert site.hostile["silent"].connections == 1  # both have waited for one answer
