"""Listeners of an application in the real program: HTTP/1.1, HTTP/2, TLS, WebSockets, upgrades, sockets, ports of their own (spec: http §12)."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import connect

from tests.integration.conftest import PASSWORD, PROTOCOLS
from tests.integration.test_tls import Secure
from tests.support.certificates import client_context
from tests.support.http2 import ClientEnd
from tests.support.waiting import LIMIT

pytestmark = pytest.mark.programs

APP = Path(__file__).parent / "listening"


class Listening(Secure):
    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self._words = ["run", str(APP)]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Listening]:
    process = Listening(tmp_path_factory.mktemp("node") / "root")
    process.start()
    yield process
    assert process.stop() == 0, process.output()
    errors = [line for line in process.logged().splitlines() if "[error]" in line or "[fatal]" in line]
    assert all("private" in line or "GET /fail" in line or "a listener of connections" in line for line in errors), errors


@pytest.fixture(params=[*PROTOCOLS, "tls"])
def client(server: Listening, request: pytest.FixtureRequest) -> Iterator[httpx.Client]:
    if request.param == "tls":
        with server.https(auth=("admin", PASSWORD), http2=True) as http:
            yield http
    else:
        with server.client(**PROTOCOLS[request.param]) as http:
            yield http


@pytest.fixture
def ports(server: Listening) -> dict[str, int]:
    found: dict[str, int] = httpx.get(f"{server.url}/ports", timeout=LIMIT).json()
    return found


def test_listeners_stand_around_the_resources(client: httpx.Client) -> None:
    assert client.put("/Item/1", json={"name": "one"}).status_code == 204
    found = client.get("/Item/1")
    assert (found.status_code, found.json()["name"], found.headers["x-app"]) == (200, "one", "listening")
    assert client.get("/Item/1", headers={"If-None-Match": found.headers["etag"]}).status_code == 304
    missing = client.get("/nothing")
    assert (missing.status_code, missing.headers["x-app"]) == (404, "listening")
    assert client.get("/ping").json() == {"pong": True, "user": "admin"}
    assert client.get("/ping", auth=("admin", "wrong")).status_code == 401


def test_bodies_in_both_directions(client: httpx.Client) -> None:
    answer = client.get("/stream")
    assert (answer.text, answer.headers["x-app"]) == ("0\n1\n2\n", "listening")
    assert client.post("/echo", json={"a": [1]}).json() == {"data": {"a": [1]}, "size": len(b'{"a":[1]}')}
    large = [{"number": number} for number in range(50_000)]
    found = client.post("/echo", json=large).json()
    assert found["data"] == large
    assert client.post("/echo", content=b"{oops", headers={"Content-Type": "application/json"}).status_code == 400


def test_errors(client: httpx.Client) -> None:
    failed = client.get("/fail")
    assert failed.status_code == 500
    assert "private" not in failed.text
    refused = client.get("/refuse")
    assert (refused.status_code, refused.json()["detail"], refused.headers["x-app"]) == (409, "not today", "listening")


def test_what_a_listener_writes_is_a_transaction(client: httpx.Client) -> None:
    own = f"{client.base_url}"
    assert client.get("/counted/a", headers={"X-Visit": f"a {own}"}).json() == {"visited": "/a"}
    assert client.get("/counted/no", headers={"X-Visit": f"no {own}"}).status_code == 402
    visits = client.get("/counted/visits", headers={"X-Visit": "seen"}).json()
    assert f"a {own}" in visits
    assert f"no {own}" not in visits


def test_a_guard_of_a_path(client: httpx.Client) -> None:
    assert client.put("/Item/guarded/1", json={"name": "x"}).status_code == 403
    assert client.put("/Item/guarded/1", json={"name": "x"}, headers={"X-Key": "open"}).status_code == 204
    assert client.get("/Item/%67uarded/1").status_code == 403
    assert client.get("/Item/guarded/1", headers={"X-Key": "open"}).json()["name"] == "x"


def test_members_of_the_server(client: httpx.Client) -> None:
    found = client.get("/members").json()
    assert found == {
        "user": ["admin", True, "super_user", True, False],
        "nobody": None,
        "refused": 401,
        "table": "Item",
        "config": 120000,
        "hostname": found["hostname"],
        "numbers": [0, 1, 0, True],
        "cluster": [[], {}],
    }


def test_sessions(server: Listening) -> None:
    with httpx.Client(base_url=server.url, timeout=LIMIT) as http:
        assert http.get("/session").json() == {}
        assert not http.cookies
        assert http.post("/login", json={"username": "admin", "password": "wrong"}).status_code == 401
        assert http.post("/login", json={"username": "admin", "password": PASSWORD}).json() == {"as": "admin"}
        session = http.get("/session").json()
        assert (session["user"], session["seen"]) == ("admin", 1)
        assert http.get("/ping").json()["user"] == "admin"


def test_early_hints(server: Listening) -> None:
    with socket.create_connection(("127.0.0.1", server.port), LIMIT) as sock:
        sock.sendall(b"GET /ping HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        received = b""
        while piece := sock.recv(65536):
            received += piece
    hints, answer = received.split(b"\r\n\r\n", 1)
    assert hints == b"HTTP/1.1 103 Early Hints\r\nLink: </style.css>; rel=preload; as=style"
    assert answer.startswith(b"HTTP/1.1 200 OK\r\n")
    end = ClientEnd()
    stream = end.request("GET", "/ping")
    with socket.create_connection(("127.0.0.1", server.port), LIMIT) as sock:
        while not (stream in end.answers and end.answers[stream].is_complete):
            sock.sendall(end.data_to_send())
            end.receive(sock.recv(65536))
    assert end.answers[stream].early == [(103, [("link", "</style.css>; rel=preload; as=style")])]
    assert end.answers[stream].status == 200


def test_other_ports(server: Listening, ports: dict[str, int]) -> None:
    for http2 in (False, True):
        plain, secure = f"http://127.0.0.1:{ports['http']}", f"https://localhost:{ports['https']}"
        with httpx.Client(http1=not http2, http2=http2, timeout=LIMIT, verify=client_context()) as http:
            version = "2" if http2 else "1.1"
            assert http.get(f"{plain}/Item/1").json() == {"port": True, "protocol": "http", "version": version}
            assert http.get(f"{secure}/Item/1").json() == {"port": True, "protocol": "https", "version": version}
            assert http.get(f"{plain}/next").status_code == 404  # there are no resources
            assert http.get(f"{plain}/next", auth=("admin", "wrong")).status_code == 401


def test_websockets(server: Listening, ports: dict[str, int]) -> None:
    with connect(f"ws://127.0.0.1:{server.port}/echo/a", open_timeout=LIMIT) as client:
        assert client.response is not None
        assert client.response.headers["X-App"] == "listening"
        assert client.recv(LIMIT) == "hello /a"
        client.send(b"bytes")
        assert client.recv(LIMIT) == b"bytes"
    with connect(f"ws://127.0.0.1:{ports['ws']}/x", open_timeout=LIMIT) as client:
        assert client.recv(LIMIT) == "hello /x"
    with pytest.raises(InvalidStatus) as refused:
        connect(f"ws://127.0.0.1:{server.port}/ping", open_timeout=LIMIT)
    assert refused.value.response.status_code == 200
    with connect(f"ws://127.0.0.1:{server.port}/Item/guarded/1", open_timeout=LIMIT) as client, pytest.raises(ConnectionClosed) as closed:
        client.recv(LIMIT)
    assert closed.value.rcvd is not None
    assert closed.value.rcvd.code == 3003


def test_an_upgrade_to_another_protocol(server: Listening) -> None:
    with socket.create_connection(("127.0.0.1", server.port), LIMIT) as sock:
        sock.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: shout\r\n\r\nearly")
        received = b""
        while not received.endswith(b"EARLY"):
            received += sock.recv(1000)
        assert received.startswith(b"HTTP/1.1 101 Switching Protocols\r\n")
        sock.sendall(b"more")
        assert sock.recv(100) == b"MORE"


@pytest.mark.parametrize("secure", [False, True])
def test_sockets(server: Listening, ports: dict[str, int], secure: bool) -> None:
    raw = socket.create_connection(("127.0.0.1", ports["tls" if secure else "tcp"]), LIMIT)
    with client_context().wrap_socket(raw, server_hostname="localhost") if secure else raw as sock:
        sock.sendall(b"abc\n")
        assert sock.recv(100) == b"cba\n"
        sock.sendall(b"fail\n")
        assert sock.recv(100) == b""


def test_what_is_no_tls_is_not_served_by_a_tls_socket(server: Listening, ports: dict[str, int]) -> None:
    with socket.create_connection(("127.0.0.1", ports["tls"]), LIMIT) as sock:
        sock.sendall(b"abc\n" * 100)
        try:
            while sock.recv(1000):
                pass
        except ConnectionError:
            pass
    with pytest.raises(ssl.SSLError), socket.create_connection(("127.0.0.1", ports["tcp"]), LIMIT) as raw:
        client_context().wrap_socket(raw, server_hostname="localhost")
