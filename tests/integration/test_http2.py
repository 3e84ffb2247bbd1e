"""HTTP/2 of the real program, spoken to by curl, nghttp, h2load and httpx, on the plain port and on TLS (spec: configuration §8, example 15)."""

from __future__ import annotations

import asyncio
import json
import shutil
import signal
import socket
import subprocess
from base64 import b64encode
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import hpack
import httpx
import pytest

from tests.integration.conftest import PASSWORD, PROTOCOLS, Process
from tests.support.http2 import Answer, Client
from tests.support.http2_cases import CASES, HEADERS, LAST_PING, PREFACE, Case, iter_frames, outcome, settings
from tests.support.node import Node
from tests.support.ports import free_port

pytestmark = pytest.mark.programs

LIMIT = 120.0  # seconds until a test gives up
HTTP2 = PROTOCOLS["http2"]
AUTHORIZATION = "Basic " + b64encode(f"admin:{PASSWORD}".encode()).decode()


def run(*command: str) -> str:
    """What the program prints; skips if it is not installed."""
    if shutil.which(command[0]) is None:
        pytest.skip(f"no {command[0]} here")
    done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def curl(*arguments: str) -> str:
    if shutil.which("curl") is None or "HTTP2" not in run("curl", "--version"):
        pytest.skip("no curl with HTTP/2 here")
    return run("curl", "--silent", "--show-error", "--max-time", str(LIMIT), "--user", f"admin:{PASSWORD}", *arguments)


def test_curl_with_prior_knowledge(server: Process) -> None:
    url = f"{server.url}/Product/curl"
    version = ("--write-out", "\n%{http_version} %{http_code}")
    put = curl("--http2-prior-knowledge", *version, "--request", "PUT", "--json", '{"name":"Keyboard"}', url)
    assert put.split("\n")[-1] == "2 204"
    body, line = curl("--http2-prior-knowledge", *version, url).rsplit("\n", 1)
    assert line == "2 200"
    assert json.loads(body) == {"name": "Keyboard", "id": "curl"}
    assert curl(*version, url) == body + "\n1.1 200"


def test_an_offer_to_upgrade_is_ignored(server: Process) -> None:
    assert curl("--http2", "--write-out", "%{http_version}", "--output", "/dev/null", f"{server.url}/Product/") == "1.1"


def test_nghttp_with_a_body_and_many_streams(server: Process, tmp_path: Path) -> None:
    body = tmp_path / "body.json"
    body.write_text(json.dumps({"name": "x" * 100_000}))
    head = ("-H", f"authorization: {AUTHORIZATION}", "-H", "content-type: application/json")
    run("nghttp", "--no-dep", "-H", ":method: PUT", *head, "-d", str(body), f"{server.url}/Product/nghttp")
    printed = run("nghttp", "--multiply=20", *head, f"{server.url}/Product/nghttp")
    assert printed.count("x" * 100_000) == 20


def test_h2load_gets_every_answer(server: Process) -> None:
    with server.client() as client:
        client.put("/Product/load", json={"name": "x"})
    printed = run(
        "h2load",
        "-n",
        "2000",
        "-c",
        "4",
        "-m",
        "50",
        "-H",
        f"authorization: {AUTHORIZATION}",
        f"{server.url}/Product/load",
    )
    assert "2000 succeeded, 0 failed, 0 errored" in printed
    assert "2000 2xx" in printed


def test_many_requests_at_a_time_on_one_connection(server: Process) -> None:
    async def ask() -> None:
        async with httpx.AsyncClient(base_url=server.url, auth=("admin", PASSWORD), timeout=LIMIT, **HTTP2) as client:
            names = [f"many-{number}" for number in range(60)]
            puts = await asyncio.gather(*(client.put(f"/Product/{name}", json={"name": name * 2000}) for name in names))
            assert [put.status_code for put in puts] == [204] * len(names)
            gets = await asyncio.gather(*(client.get(f"/Product/{name}") for name in names))
            assert [got.json()["name"] for got in gets] == [name * 2000 for name in names]
            assert {got.http_version for got in gets} == {"HTTP/2"}

    asyncio.run(ask())


def test_a_long_answer_that_is_given_up(server: Process) -> None:
    with server.client(**HTTP2) as client:
        client.put("/Doc/", json=[{"id": f"h2-{number:05}", "text": "x" * 500} for number in range(3000)])
        for _ in range(3):
            with client.stream("GET", "/Doc/") as response:
                assert response.status_code == 200
                next(response.iter_bytes())
        assert len(client.get("/Doc/?id=sw=h2-").json()) == 3000
        client.delete("/Doc/?id=sw=h2-")


@pytest.mark.parametrize("data", [PREFACE[:10], PREFACE + b"x" * 1000, PREFACE + b"\xff" * 20, PREFACE[:18] + b"GET / HTTP/1.1\r\n\r\n"])
def test_garbage_gets_an_end(server: Process, data: bytes) -> None:
    with socket.create_connection(("127.0.0.1", server.port), timeout=LIMIT) as sock:
        sock.sendall(data)
        sock.shutdown(socket.SHUT_WR)
        while sock.recv(65536):
            pass
    with server.client(**HTTP2) as client:
        assert client.get("/Product/").status_code == 200


def test_a_websocket_on_a_stream(tmp_path: Path) -> None:
    """RFC 8441, which no client here speaks: frames by hand, through a whole node."""
    node = Node(tmp_path / "node")
    client = Client(node)
    stream_id = client.h2.get_next_available_stream_id()
    head = [(":method", "CONNECT"), (":protocol", "websocket"), (":scheme", "http"), (":authority", "localhost"), (":path", "/Product/1")]
    client.h2.send_headers(stream_id, [*head, ("sec-websocket-version", "13")])
    answer = client.answers[stream_id] = Answer()
    client.exchange_bytes()
    assert (answer.status, answer.is_complete) == (200, False)
    assert client.ask("PUT", "/Product/1", b'{"name":"from another stream"}')[0] == 204
    assert b"from another stream" in answer.body
    client.h2.send_data(stream_id, b"\x89\x82\0\0\0\0hi")  # a ping
    client.exchange_bytes()
    assert answer.body.endswith(b"\x8a\x02hi")
    client.h2.send_data(stream_id, b"\x88\x82\0\0\0\0\x03\xe8")  # close 1000
    client.exchange_bytes()
    assert answer.body.endswith(b"\x88\x02\x03\xe8")
    assert (answer.is_complete, answer.reset) == (True, None)
    assert not node.connections.lasting and not node.errors
    node.close()


@pytest.mark.parametrize("protocol", ["connect-udp", "webtransport", "x", "websocket2"])
def test_an_unknown_protocol_is_not_implemented(tmp_path: Path, protocol: str) -> None:
    """Whatever were answered with 200 would be a tunnel to the peer, also the record that stands at the path (RFC 8441 §4)."""
    node = Node(tmp_path / "node")
    client = Client(node)
    assert client.ask("PUT", "/Product/1", b'{"name":"secret"}')[0] == 204
    for path in ("/Product/1", "/Product/", "/nothing", "/openapi"):
        stream_id = client.h2.get_next_available_stream_id()
        head = [(":method", "CONNECT"), (":protocol", protocol), (":scheme", "http"), (":authority", "localhost"), (":path", path)]
        client.h2.send_headers(stream_id, head)
        answer = client.answers[stream_id] = Answer()
        client.exchange_bytes()
        assert (answer.status, answer.is_complete) == (501, True)
        assert protocol.encode() in answer.body and b"secret" not in answer.body
    assert client.ask("GET", "/Product/1")[0] == 200, "the connection goes on"
    assert not node.connections.lasting and not node.errors
    node.close()


class Secure(Process):
    """A server of a test's own, with a certificate that it makes itself."""

    def __init__(self, root: Path, **env: str) -> None:
        self.secure_port = free_port()
        super().__init__(root, env={"HTTP_SECUREPORT": str(self.secure_port), **env})

    def version(self, option: str) -> str:
        """What curl and the TLS port agree on. That port opens a little later than the other."""
        wait = ("--retry", "20", "--retry-connrefused", "--retry-delay", "1")
        url = f"https://127.0.0.1:{self.secure_port}/Product/"
        return curl(option, "--insecure", *wait, "--output", "/dev/null", "--write-out", "%{http_version}", url)


@pytest.fixture
def secure(tmp_path: Path) -> Iterator[Secure]:
    server = Secure(tmp_path / "root")
    yield server
    server.kill()


def test_alpn_chooses(secure: Secure) -> None:
    secure.start()
    assert secure.version("--http2") == "2"
    assert secure.version("--http1.1") == "1.1"
    assert secure.stop() == 0, secure.output()


def test_http2_can_be_switched_off(tmp_path: Path) -> None:
    server = Secure(tmp_path / "root", HTTP_HTTP2="false")
    try:
        server.start()
        assert server.version("--http2") == "1.1"
        with socket.create_connection(("127.0.0.1", server.port), timeout=LIMIT) as sock:
            sock.sendall(PREFACE)
            answer = b""
            while piece := sock.recv(65536):
                answer += piece
        assert answer.startswith(b"HTTP/1.1 505 ")
        with pytest.raises(httpx.RemoteProtocolError), server.client(**HTTP2) as client:
            client.get("/Product/")
    finally:
        server.kill()


def test_a_stop_ends_idle_connections(secure: Secure) -> None:
    secure.start()
    with secure.client(**HTTP2) as client:
        assert client.get("/Product/").status_code == 200
        assert secure.stop(signal.SIGTERM) == 0, secure.output()
    assert "Traceback" not in secure.logged()


# --- the rules -----------------------------------------------------------------------------------------------------------------------


def behaves(port: int, case: Case) -> str:
    """What comes of a case, as soon as that is one of what should; else what came of it within the time limit."""
    decoder = hpack.Decoder()
    found, status, output, read = "nothing", "", b"", 0
    with closing(socket.create_connection(("127.0.0.1", port), timeout=LIMIT)) as sock:
        sock.sendall(PREFACE + settings() + case.data + LAST_PING)
        while True:
            try:
                piece = sock.recv(65536)
            except TimeoutError:
                return found
            output += piece
            frames = list(iter_frames(output))
            for kind, _, on, content in frames[read:]:
                if kind == HEADERS:
                    fields = dict(decoder.decode(content))
                    status = "200" if on == case.stream_id and int(fields[":status"]) >= 200 else status
            read = len(frames)
            try:
                found = outcome(output, case.stream_id, status)
            except AssertionError:
                found = "nothing"
            if found in case.expected or found.startswith("goaway") or not piece:
                return found


def test_rules(server: Process) -> None:
    """Of the whole server, whatever it answers where the rules say that it shall: an answer is an answer."""
    wrong = {name: found for name, case in CASES.items() if (found := behaves(server.port, case)) not in case.expected}
    assert not wrong
