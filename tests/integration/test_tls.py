"""HTTPS of the real program, spoken to by curl, OpenSSL, httpx and Python's ssl."""

from __future__ import annotations

import base64
import json
import os
import re
import shutil
import socket
import ssl
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from websockets.sync.client import connect

from svc.store import Store
from svc.store.values.records import decode
from tests.integration.conftest import APP, PASSWORD, Process, free_port
from tests.support.certificates import Authority, Pair, authority, client_context, localhost
from tests.support.revocation import Responder, make_answer, make_list
from tests.support.waiting import LIMIT, wait_until

pytestmark = pytest.mark.programs

OF_THE_MACHINE = ("storage.reclamation.threshold", " held the loop for ")  # warnings, where there is little room or much else to do
GET = b"GET /Product/none HTTP/1.1\r\nHost: localhost\r\n\r\n"


class Secure(Process):
    """A server whose certificate is of the tests' authority."""

    def __init__(self, root: Path, app: Path | None = APP, *, env: dict[str, str] | None = None) -> None:
        self.secure_port = free_port()
        self.secure_operations_port = free_port()
        keys = root / "keys"
        keys.mkdir(mode=0o700, parents=True)
        shutil.copy(localhost().file, keys / "certificate.pem")
        shutil.copy(localhost().key_file, keys / "privateKey.pem")
        shutil.copy(authority().file, keys / "ca.pem")
        ports = {"HTTP_SECUREPORT": str(self.secure_port), "OPERATIONSAPI_NETWORK_SECUREPORT": str(self.secure_operations_port)}
        super().__init__(root, app, env={**ports, **(env or {})})

    def start(self) -> Secure:
        """Returns when the log tells that all ports are open: the plain one is the first of them."""
        super().start()
        assert self.process is not None
        wait_until(lambda: "successfully started" in self.logged() or self.process.poll() is not None)  # type: ignore[union-attr]
        assert self.process.poll() is None, f"did not start: {self.output()}"
        return self

    @property
    def secure_url(self) -> str:
        return f"https://localhost:{self.secure_port}"

    def https(self, certificate: Pair | None = None, **options: object) -> httpx.Client:
        context = client_context(certificate=certificate)
        return httpx.Client(base_url=self.secure_url, verify=context, timeout=LIMIT, **options)  # type: ignore[arg-type]

    def connect(self, context: ssl.SSLContext, host: str = "localhost", session: ssl.SSLSession | None = None) -> ssl.SSLSocket:
        raw = socket.create_connection(("127.0.0.1", self.secure_port), LIMIT)
        return context.wrap_socket(raw, server_hostname=host, session=session)

    def shown(self, host: str) -> str:
        """The common name of the certificate for this host."""
        context = client_context()
        context.check_hostname = False
        with self.connect(context, host) as sock:
            return sock.getpeercert()["subject"][-1][-1][1]  # type: ignore[index, return-value]

    def check_log(self) -> None:
        lines = [line for line in self.logged().splitlines() if not any(text in line for text in OF_THE_MACHINE)]
        unexpected = [line for line in lines if re.search(r"\[(error|fatal|warn)\]|Traceback", line)]
        assert not unexpected, unexpected


@pytest.fixture(scope="module")
def secure(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secure]:
    process = Secure(tmp_path_factory.mktemp("tls") / "root").start()
    yield process
    assert process.stop() == 0, process.output()
    process.check_log()


def answer(sock: socket.socket) -> tuple[bytes, bytes]:
    """Head and body of one answer with a length."""
    data = b""
    while b"\r\n\r\n" not in data:
        piece = sock.recv(1 << 16)
        assert piece, data
        data += piece
    head, _, body = data.partition(b"\r\n\r\n")
    match = re.search(rb"(?i)content-length: (\d+)", head)
    assert match
    while len(body) < int(match[1]):
        piece = sock.recv(1 << 16)
        assert piece
        body += piece
    return head, body


# --- clients ---------------------------------------------------------------------------------------------------------------------------


def test_httpx(secure: Secure) -> None:
    with secure.https(auth=("admin", PASSWORD)) as client:
        assert client.put("/Product/1", json={"name": "über TLS"}).status_code == 204
        answered = client.get("/Product/1?select(name)")
        assert answered.json() == "über TLS"
        assert client.get("/openapi").json()["servers"][0]["url"] == secure.secure_url


@pytest.mark.parametrize(("offered", "spoken"), [((), "HTTP/1.1"), (("http/1.1",), "HTTP/1.1"), (("h2", "http/1.1"), "HTTP/2")])
def test_the_protocol_is_agreed_on(secure: Secure, offered: tuple[str, ...], spoken: str) -> None:
    with httpx.Client(
        base_url=secure.secure_url, verify=client_context(alpn=offered), http2=spoken == "HTTP/2", auth=("admin", PASSWORD)
    ) as client:
        for _ in range(3):
            answered = client.get("/Product")
            assert (answered.status_code, answered.http_version) == (200, spoken)


@pytest.mark.parametrize("http2", [False, True], ids=["HTTP/1.1", "HTTP/2"])
def test_requests_that_repeat(secure: Secure, http2: bool) -> None:
    """From the third time on they are prepared; the answers are those of the first."""
    context = client_context(alpn=("h2", "http/1.1") if http2 else ("http/1.1",))

    def told(answered: httpx.Response) -> tuple[Any, ...]:
        fields = {name: value for name, value in answered.headers.items() if name not in ("date", "server-timing")}
        return answered.http_version, answered.status_code, fields, answered.content

    with httpx.Client(base_url=secure.secure_url, verify=context, http2=http2, auth=("admin", PASSWORD)) as client:
        for index in range(5):
            assert client.put("/Product/again", json={"name": f"n{index}"}).status_code in (201, 204)
            assert client.get("/Product/again").json()["name"] == f"n{index}"
        tag = {"If-None-Match": client.get("/Product/again").headers["etag"]}
        for path, status, fields in (
            ("/Product/again", 200, {}),
            ("/Product/again", 304, tag),
            ("/Product/never", 404, {}),
            ("/Product/?name==n4", 200, {}),
        ):
            answers = [told(client.get(path, headers=fields)) for _ in range(5)]
            assert answers[0][:2] == ("HTTP/2" if http2 else "HTTP/1.1", status) and answers[1:] == answers[:-1]
        assert client.delete("/Product/again").status_code == 204


@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")
@pytest.mark.parametrize("version", ["--tlsv1.3", "--tls-max=1.2"])
def test_curl(secure: Secure, version: str) -> None:
    options = ["--tlsv1.2", "--tls-max", "1.2"] if version == "--tls-max=1.2" else [version]
    command = [
        "curl",
        "-sS",
        "--http1.1",
        *options,
        "--cacert",
        str(authority().file),
        "-u",
        f"admin:{PASSWORD}",
        f"{secure.secure_url}/Product",
    ]
    done = subprocess.run(command, capture_output=True, timeout=LIMIT)
    assert json.loads(done.stdout)["name"] == "Product", done.stderr
    assert not done.stderr


def test_curl_refuses_a_server_of_another_authority(secure: Secure, tmp_path: Path) -> None:
    stranger = Authority(tmp_path / "stranger", "Stranger")
    with pytest.raises(httpx.ConnectError):
        httpx.get(secure.secure_url, verify=ssl.create_default_context(cafile=stranger.file))


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_sessions_are_resumed(secure: Secure, version: ssl.TLSVersion) -> None:
    context = client_context(version)
    with secure.connect(context) as sock:
        sock.sendall(GET)
        assert answer(sock)[0].startswith(b"HTTP/1.1 401 ")
        assert not sock.session_reused
        session = sock.session
    with secure.connect(context, session=session) as sock:
        assert sock.session_reused
        sock.sendall(GET)
        assert answer(sock)[0].startswith(b"HTTP/1.1 401 ")


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_sessions_are_resumed_at_any_instance(tmp_path: Path, version: ssl.TLSVersion) -> None:
    """At one that takes the place of another, too."""
    process = Secure(tmp_path / "root", env={"INSTANCES": "2"}).start()
    try:
        context = client_context(version)
        with process.connect(context) as sock:
            sock.sendall(GET)
            answer(sock)
            session = sock.session
        for number in range(3):
            for _ in range(12):
                with process.connect(context, session=session) as sock:
                    assert sock.session_reused
                    sock.sendall(GET)
                    assert answer(sock)[0].startswith(b"HTTP/1.1 401 ")
            if number < 2:
                before = {each.pid for each in process.instances}
                process.instances[number].kill()
                wait_until(lambda: len({each.pid for each in process.instances} | before) > 2)  # noqa: B023
    finally:
        assert process.stop() == 0, process.output()


def test_the_operations_port(secure: Secure) -> None:
    url = f"https://localhost:{secure.secure_operations_port}"
    answered = httpx.post(url, verify=client_context(), auth=("admin", PASSWORD), json={"operation": "user_info"})
    assert answered.json()["username"] == "admin"
    assert httpx.post(url, verify=client_context(), json={"operation": "user_info"}).status_code == 401


def test_cookies_are_for_https_only(secure: Secure) -> None:
    url = f"https://localhost:{secure.secure_operations_port}"
    with httpx.Client(verify=client_context()) as client:
        answered = client.post(url, json={"operation": "login", "username": "admin", "password": PASSWORD})
        assert answered.status_code == 200
        cookie = answered.headers["set-cookie"]
        assert cookie.startswith("__Host-svc-session=") and "; Secure" in cookie and "; SameSite=Lax" in cookie and "Domain" not in cookie
        assert answered.headers["x-svc-session"] == "Secure"
        assert client.post(url, json={"operation": "user_info"}).json()["username"] == "admin"


def test_large_bodies_both_ways(secure: Secure) -> None:
    body = os.urandom(3_000_000)
    with secure.https(auth=("admin", PASSWORD)) as client:
        assert (
            client.put("/Product/large", content=json.dumps({"name": body.hex()}), headers={"Content-Type": "application/json"}).status_code
            == 204
        )
        assert client.get("/Product/large?select(name)").json() == body.hex()


def test_a_slow_reader_gets_everything(secure: Secure) -> None:
    with secure.https(auth=("admin", PASSWORD)) as client:
        assert client.put("/Product/slow", json={"name": "x" * 8_000_000}).status_code == 204
    credentials = base64.b64encode(f"admin:{PASSWORD}".encode())
    with secure.connect(client_context()) as sock:
        sock.sendall(
            b"GET /Product/slow.name HTTP/1.1\r\nHost: localhost\r\nAccept: application/json\r\nAuthorization: Basic %s\r\n\r\n"
            % credentials
        )
        with secure.https(auth=("admin", PASSWORD)) as other:
            assert other.get("/Product/1").status_code in (200, 404), "nobody waits for the slow one"
        _, body = answer(sock)
        assert json.loads(body) == "x" * 8_000_000


def test_events_and_messages(secure: Secure) -> None:
    """What is pushed, over both: server-sent events and WebSockets."""
    credentials = base64.b64encode(f"admin:{PASSWORD}".encode()).decode()
    url = f"wss://localhost:{secure.secure_port}/Product/watched"
    with (
        secure.https(auth=("admin", PASSWORD)) as client,
        connect(url, ssl=client_context(), additional_headers={"Authorization": f"Basic {credentials}"}, max_size=None) as messages,
        client.stream("GET", "/Product/watched", headers={"Accept": "text/event-stream"}) as events,
    ):
        with secure.https(auth=("admin", PASSWORD)) as writer:
            assert writer.put("/Product/watched", json={"name": "x" * 300_000}).status_code == 204
        assert json.loads(messages.recv(timeout=LIMIT))["value"]["name"] == "x" * 300_000
        data = next(line for line in events.iter_lines() if line.startswith("data:"))
        assert json.loads(data.removeprefix("data:"))["value"]["name"] == "x" * 300_000


def test_half_close(secure: Secure) -> None:
    """A client that says goodbye behind its request still gets the answer, and ours."""
    context = client_context()
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = context.wrap_bio(incoming, outgoing, server_hostname="localhost")
    with socket.create_connection(("127.0.0.1", secure.secure_port), LIMIT) as raw:

        def until_done(step: Callable[[], Any]) -> Any:
            while True:
                try:
                    return step()
                except ssl.SSLWantReadError:
                    if outgoing.pending:
                        raw.sendall(outgoing.read())
                    data = raw.recv(1 << 16)
                    incoming.write(data) if data else incoming.write_eof()

        until_done(client.do_handshake)
        client.write(GET)
        with pytest.raises(ssl.SSLWantReadError):
            client.unwrap()
        raw.sendall(outgoing.read())
        raw.shutdown(socket.SHUT_WR)
        received = []
        with pytest.raises(ssl.SSLZeroReturnError):  # a goodbye, not just the end
            while True:
                received.append(until_done(lambda: client.read(1 << 16)))
        assert received[0].startswith(b"HTTP/1.1 401 ")


# --- OpenSSL's client ------------------------------------------------------------------------------------------------------------------


def s_client(secure: Secure, *options: str) -> subprocess.Popen[bytes]:
    command = [
        "openssl",
        "s_client",
        "-connect",
        f"127.0.0.1:{secure.secure_port}",
        "-servername",
        "localhost",
        "-CAfile",
        str(authority().file),
    ]
    return subprocess.Popen([*command, *options], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)


def read_until(client: subprocess.Popen[bytes], text: bytes) -> None:
    """What it prints, up to the line that has this."""
    assert client.stdout is not None
    said = b""
    for line in client.stdout:
        said += line
        if text in line:
            return
    raise AssertionError(said)


@pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl is not installed")
def test_new_keys_in_the_middle(secure: Secure) -> None:
    """`K` on a line of its own: change keys on both sides (RFC 8446 §4.6.3)."""
    with s_client(secure, "-tls1_3") as client:
        assert client.stdin is not None
        for _ in range(2):  # a command is only one at the beginning of what the client reads
            client.stdin.write(b"K\n")
            client.stdin.flush()
            read_until(client, b"KEYUPDATE")
        client.stdin.write(GET)
        client.stdin.flush()
        read_until(client, b"HTTP/1.1 401 ")
        client.communicate(timeout=LIMIT)


@pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl is not installed")
def test_small_records(secure: Secure) -> None:
    """A client with little memory asks for records of 512 bytes: the answer is longer than that (RFC 6066 §4)."""
    ask = b"GET /Product HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nAuthorization: Basic %s\r\n\r\n"
    with s_client(secure, "-tls1_2", "-quiet", "-maxfraglen", "512") as client:
        output, _ = client.communicate(ask % base64.b64encode(f"admin:{PASSWORD}".encode()), timeout=LIMIT)
    body = output[output.index(b"\r\n\r\n") + 4 :].decode()
    assert len(body) > 700
    assert json.JSONDecoder().raw_decode(body)[0]["name"] == "Product"


@pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl is not installed")
def test_no_renegotiation(secure: Secure) -> None:
    with s_client(secure, "-tls1_2") as client:
        assert client.stdin is not None
        client.stdin.write(b"R\n")
        client.stdin.flush()
        read_until(client, b"RENEGOTIATING")
        read_until(client, b"no renegotiation")
        client.communicate(timeout=LIMIT)


# --- what is wrong ---------------------------------------------------------------------------------------------------------------------


def test_plain_http_on_the_secure_port(secure: Secure) -> None:
    answered = httpx.get(f"http://127.0.0.1:{secure.secure_port}/Product/1")
    assert answered.status_code == 400
    assert answered.text.startswith("This port speaks HTTPS")


def test_tls_on_the_plain_port(secure: Secure) -> None:
    with socket.create_connection(("127.0.0.1", secure.port), LIMIT) as raw:
        context = client_context()
        incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        with pytest.raises(ssl.SSLWantReadError):
            context.wrap_bio(incoming, outgoing, server_hostname="localhost").do_handshake()
        raw.sendall(outgoing.read())
        received = b""
        while piece := raw.recv(1 << 16):
            received += piece
        assert received.startswith(b"HTTP/1.1 400 ")
    with pytest.raises(httpx.ConnectError):
        httpx.get(f"https://localhost:{secure.port}/", verify=client_context())


@pytest.mark.parametrize("garbage", [b"\x16\x03\x01\x02\x00" + b"?" * 600, b"\0" * 100, b"\x80\x2e\x01\x03\x01", b"hello\r\n"])
def test_garbage_is_closed(secure: Secure, garbage: bytes) -> None:
    with socket.create_connection(("127.0.0.1", secure.secure_port), LIMIT) as raw:
        raw.sendall(garbage)
        received = b""
        try:
            while piece := raw.recv(1 << 16):
                received += piece
        except ConnectionResetError:
            pass
        assert not received or received[:1] == b"\x15"
    with secure.https() as client:
        assert client.get("/Product/1").status_code == 401


def test_clients_that_break_off_leave_nothing_in_the_log(secure: Secure) -> None:
    for _ in range(20):
        socket.create_connection(("127.0.0.1", secure.secure_port), LIMIT).close()
        with pytest.raises(ssl.SSLCertVerificationError):
            secure.connect(ssl.create_default_context())
        secure.connect(client_context()).close()
    with secure.https() as client:
        assert client.get("/Product/1").status_code == 401
    secure.check_log()


# --- certificates come and go ----------------------------------------------------------------------------------------------------------


def test_a_certificate_that_is_added_is_shown_at_once(secure: Secure) -> None:
    pair = authority().make("shop.example", ("shop.example", "*.shop.example"))
    with secure.connect(client_context()) as old:
        added = secure.operate(
            "add_certificate", name="shop", certificate=pair.pem.decode(), private_key=pair.key_pem.decode(), is_authority=False
        )
        assert added.status_code == 200, added.text
        assert secure.shown("shop.example") == "shop.example"
        assert secure.shown("www.shop.example") == "shop.example"
        assert secure.shown("localhost") == "localhost"
        assert secure.operate("remove_certificate", name="shop").status_code == 200
        assert secure.shown("shop.example") == "localhost"
        old.sendall(GET)
        assert answer(old)[0].startswith(b"HTTP/1.1 401 ")


def test_files_that_are_replaced_are_taken_up(secure: Secure) -> None:
    keys = secure.root / "keys"
    pair = authority().make("renewed", ("localhost", "127.0.0.1"))
    with secure.connect(client_context()) as old:
        (keys / "certificate.pem").write_bytes(pair.pem)
        (keys / "privateKey.pem").write_bytes(pair.key_pem)
        wait_until(lambda: secure.shown("localhost") == "renewed")
        old.sendall(GET)
        assert answer(old)[0].startswith(b"HTTP/1.1 401 ")
    (keys / "certificate.pem").write_bytes(localhost().pem)
    (keys / "privateKey.pem").write_bytes(localhost().key_pem)
    wait_until(lambda: secure.shown("localhost") == "localhost")


# --- other servers ---------------------------------------------------------------------------------------------------------------------


def test_handshakes_are_counted(tmp_path: Path) -> None:
    process = Secure(tmp_path / "root")
    process.start()
    try:
        context = client_context(ssl.TLSVersion.TLSv1_2)
        with process.connect(context) as sock:
            session = sock.session
        with process.connect(context, session=session) as sock:
            assert sock.session_reused
    finally:
        assert process.stop() == 0
    store = Store(process.root / "database")
    table = store.databases["system"].tables["svc_raw_analytics"]
    rows = [decode(raw) for _, raw in table.scan(table.database.snapshot())]
    store.close()
    shaken = [each for row in rows for each in row["metrics"] if each["metric"] == "tls-handshake"]
    reused = [each for row in rows for each in row["metrics"] if each["metric"] == "tls-reused"]
    assert sum(each["count"] for each in shaken) == sum(each["count"] for each in reused) == 2
    assert sum(each["total"] for each in reused) == 1
    assert all(each["mean"] > 0 for each in shaken)


def test_without_a_certificate_there_is_one_line_and_everything_else(tmp_path: Path) -> None:
    process = Secure(tmp_path / "root", env={"TLS_PRIVATEKEY": "keys/missing.pem", "OPERATIONSAPI_NETWORK_SECUREPORT": "null"})
    process.start()
    try:
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", process.secure_port), LIMIT)
        with process.client() as client:
            assert client.get("/Product").status_code == 200
    finally:
        assert process.stop() == 0
    [line] = [line for line in process.logged().splitlines() if "[warn]" in line and not any(text in line for text in OF_THE_MACHINE)]
    assert f"[tls]: http.securePort {process.secure_port} is not opened: certificate " in line and "missing.pem cannot be read" in line


def test_a_taken_port_is_named(tmp_path: Path) -> None:
    with socket.create_server(("", 0)) as taken:
        process = Secure(tmp_path / "root", env={"HTTP_SECUREPORT": str(taken.getsockname()[1])})
        with pytest.raises(AssertionError, match=r"cannot listen on http.securePort \d+, http.host \*: Address already in use"):
            process.start()


def test_https_for_development(tmp_path: Path) -> None:
    """`svc dev --https`: a certificate for this machine, and the address to go to."""
    process = Secure(tmp_path / "root")
    for file in (process.root / "keys").iterdir():
        file.unlink()
    process._words[:1] = ["dev", "--https"]
    process.start()
    try:
        authority_file = process.root / "keys" / "ca.pem"
        wait_until(lambda: f"{process.secure_url}/  Clients have to trust {authority_file}" in process.output())
        answered = httpx.get(f"{process.secure_url}/Product", verify=ssl.create_default_context(cafile=authority_file))
        assert answered.json()["name"] == "Product", "a request of this machine"
    finally:
        assert process.stop() == 0


@pytest.fixture(scope="module")
def mutual(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secure]:
    """Certificates are users on the application port; on the operations port they admit, and other credentials tell the user."""
    env = {
        "HTTP_MTLS": "true",
        "OPERATIONSAPI_NETWORK_MTLS": '{"required": true, "user": null}',
        "LOGGING_AUDITAUTHEVENTS_LOGSUCCESSFUL": "true",
        "LOGGING_AUDITAUTHEVENTS_LOGFAILED": "true",
    }
    process = Secure(tmp_path_factory.mktemp("mtls") / "root", env=env).start()
    permission = {
        "data": {"tables": {"Product": {"read": True, "insert": False, "update": False, "delete": False, "attribute_permissions": []}}}
    }
    assert process.operate("add_role", role="reader", permission=permission).status_code == 200
    assert process.operate("add_user", username="ann", password="secret-word", role="reader", active=True).status_code == 200
    yield process
    assert process.stop() == 0, process.output()
    assert "Traceback" not in process.logged()


def test_a_certificate_is_a_user(mutual: Secure) -> None:
    with mutual.https(authority().make("admin")) as client:
        assert client.put("/Product/1", json={"name": "x"}).status_code == 204
    with mutual.https(authority().make("ann")) as client:
        assert client.get("/Product/1").status_code == 200
        assert client.put("/Product/1", json={}).status_code == 403
        assert client.get("/Product/1", auth=("admin", "wrong")).status_code == 200, "the certificate comes first"
    with mutual.https(authority().make("nobody")) as client:
        refused = client.get("/Product/1")
        assert refused.status_code == 401
        assert refused.json()["error"] == "Login failed"
    with mutual.https() as client:
        assert client.get("/Product/1").status_code == 401
        assert client.get("/Product/1", auth=("ann", "secret-word")).status_code == 200

    def found() -> set[tuple[str, str]]:
        events = [
            json.loads(line.partition("]: ")[2]) for line in mutual.logged().splitlines(True) if "[auth-event]" in line and line[-1] == "\n"
        ]
        return {(event["username"], event["status"]) for event in events if event["auth_strategy"] == "mTLS"}

    wait_until(lambda: found() == {("admin", "success"), ("ann", "success"), ("nobody", "failure")}, found)


def test_equal_requests_of_different_certificates(mutual: Secure) -> None:
    """The header fields are the same, byte by byte."""
    with mutual.https(authority().make("admin")) as one, mutual.https(authority().make("ann")) as other, mutual.https() as third:
        for _ in range(3):
            assert one.post("/Product/", json={"name": "y"}).status_code == 201
            assert other.post("/Product/", json={"name": "y"}).status_code == 403
            assert third.post("/Product/", json={"name": "y"}).status_code == 401


def test_a_stranger_is_not_let_in(mutual: Secure, tmp_path: Path) -> None:
    stranger = Authority(tmp_path / "stranger", "Test Authority").make("admin")
    with pytest.raises((httpx.ConnectError, httpx.ReadError)), mutual.https(stranger) as client:
        client.get("/Product/1")


def test_a_certificate_may_only_admit(mutual: Secure) -> None:
    url = f"https://localhost:{mutual.secure_operations_port}"
    ask = {"operation": "user_info"}
    with httpx.Client(verify=client_context(certificate=authority().make("whoever"))) as client:
        assert client.post(url, json=ask).status_code == 401
        assert client.post(url, json=ask, auth=("ann", "secret-word")).json()["username"] == "ann"
    with pytest.raises((httpx.ConnectError, httpx.ReadError)), httpx.Client(verify=client_context()) as client:
        client.post(url, json=ask, auth=("ann", "secret-word"))


def test_revoked_certificates(tmp_path: Path) -> None:
    responder = Responder()
    process = Secure(tmp_path / "root", env={"HTTP_MTLS": '{"certificateVerification": true}'})
    process.start()
    try:
        good = authority().make("admin", crl=(f"{responder.url}/list",))
        revoked = authority().make("admin", crl=(f"{responder.url}/list",))
        answered = authority().make("admin", ocsp=(f"{responder.url}/ask",))
        unanswered = authority().make("admin", ocsp=(f"{responder.url}/nobody",))
        silent = authority().make("admin")
        responder.list = make_list(authority(), (revoked,))
        responder.answer = lambda question: make_answer(authority(), answered)
        for pair, status in ((good, 200), (revoked, 401), (answered, 200), (unanswered, 401), (silent, 200)):
            for _ in range(2):  # the second time from memory
                with process.https(pair) as client:
                    for _ in range(2):
                        found = client.get("/Product")
                        assert found.status_code == status, found.text
                        assert status == 200 or found.json()["error"] == "Certificate revoked or verification failed"
                    assert status == 200 or client.get("/Product", auth=("admin", PASSWORD)).status_code == 401, "nothing helps it"
        assert sorted(responder.asked) == ["/ask", "/list", "/nobody"]
        context = client_context(ssl.TLSVersion.TLSv1_2, certificate=good)
        with process.connect(context) as sock:
            session = sock.session
        with process.connect(context, session=session) as sock:
            assert sock.session_reused
            sock.sendall(b"GET /Product HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert answer(sock)[0].startswith(b"HTTP/1.1 200 ")
    finally:
        assert process.stop() == 0
        responder.close()
    assert "Traceback" not in process.logged()
    assert "[warn] [tls]: the certificate " in process.logged()
