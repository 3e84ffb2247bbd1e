"""Static files of a real process: clients that are not ours, slow readers, clients that leave, files that change while they are sent."""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest

from tests.integration.conftest import PASSWORD, PROTOCOLS
from tests.integration.test_tls import Secure
from tests.support.certificates import client_context
from tests.support.leaks import memory_of, open_files

pytestmark = pytest.mark.programs

LARGE = 12 << 20
SCHEMA = "type Product @table @export { id: ID @primaryKey name: String }"
LIMIT = 60.0  # seconds for what a test waits for


class Site(Secure):
    """With an application whose files a test may change."""

    @property
    def web(self) -> Path:
        return self.root.parent / "shop" / "web"

    def holds(self, name: str) -> int:
        """How often it has a file open."""
        return sum(target.startswith(str(self.web / name)) for target in open_files(self.pid))

    def wait_until_closed(self, name: str) -> None:
        deadline = time.monotonic() + LIMIT
        while self.holds(name):
            assert time.monotonic() < deadline, "the file is still open"
            time.sleep(0.01)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    directory = tmp_path_factory.mktemp("static")
    app = directory / "shop"
    (app / "web" / "css").mkdir(parents=True)
    (app / "schema.graphql").write_text(SCHEMA)
    (app / "web" / "small.txt").write_text("small " * 1000)
    (app / "web" / "css" / "site.css").write_text("a {}\n" * 1000)
    content = os.urandom(1 << 16)
    (app / "web" / "large.bin").write_bytes(b"".join(content[n:] + content[:n] for n in range(LARGE >> 16)))
    process = Site(directory / "root", app).start()
    yield process
    assert process.stop() == 0, process.output()
    unexpected = [line for line in process.logged().splitlines() if "[error]" in line and "has become shorter" not in line]
    assert not unexpected, unexpected
    assert "Traceback" not in process.logged()


@pytest.fixture(params=[*PROTOCOLS, "tls-http1", "tls-http2"])
def client(site: Site, request: pytest.FixtureRequest) -> Iterator[httpx.Client]:
    secure, _, protocol = request.param.rpartition("-")
    address = f"https://localhost:{site.secure_port}" if secure else site.url
    with httpx.Client(base_url=address, verify=client_context() if secure else False, timeout=LIMIT, **PROTOCOLS[protocol]) as made:
        yield made


def test_files_over_every_protocol(site: Site, client: httpx.Client) -> None:
    content = (site.web / "large.bin").read_bytes()
    for _ in range(2):
        answer = client.get("/large.bin")
        assert (answer.status_code, answer.headers["content-length"]) == (200, str(LARGE))
        assert answer.content == content
        small = client.get("/small.txt", headers={"Origin": "https://other.example"})
        assert small.text == "small " * 1000
        assert small.headers["content-encoding"] in ("br", "gzip", "zstd")
        assert small.headers["access-control-allow-origin"] == "*"
        assert client.get("/small.txt", headers={"If-None-Match": small.headers["etag"]}).status_code == 304
    assert client.head("/large.bin").headers["content-length"] == str(LARGE)
    part = client.get("/large.bin", headers={"Range": f"bytes=100-{LARGE - 100}"})
    assert (part.status_code, part.content) == (206, content[100 : LARGE - 99])
    parts = client.get("/large.bin", headers={"Range": "bytes=0-9,1000000-3000000"})
    assert parts.status_code == 206 and len(parts.content) == int(parts.headers["content-length"])
    assert content[1_000_000:3_000_001] in parts.content
    assert client.get("/large.bin", headers={"Range": f"bytes={LARGE}-"}).status_code == 416
    for refused in ("/../schema.graphql", "/%2e%2e/schema.graphql", "/css", "/css/", "/none"):
        assert client.get(refused).status_code == 404
    assert client.post("/small.txt").status_code == 404
    site.wait_until_closed("large")


def test_resources_are_behind_the_files(site: Site) -> None:
    with site.client() as client:
        assert client.put("/Product/1", json={"name": "one"}).status_code == 204
        assert client.get("/Product/1").json()["name"] == "one"
        (site.web / "Product").mkdir()
        (site.web / "Product" / "1").write_text("file")
        assert client.get("/Product/1").text == "file"
        (site.web / "Product" / "1").unlink()
        assert client.get("/Product/1").json()["name"] == "one"


def test_slow_readers_hold_neither_memory_nor_more_than_one_descriptor(site: Site) -> None:
    before = memory_of(site.pid)
    readers = []
    for _ in range(30):
        reader = socket.create_connection(("127.0.0.1", site.port))
        reader.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        reader.sendall(b"GET /large.bin HTTP/1.1\r\nHost: a\r\n\r\n")
        assert reader.recv(12) == b"HTTP/1.1 200"
        readers.append(reader)
    assert site.holds("large") == 1
    assert httpx.get(f"{site.url}/small.txt").status_code == 200
    assert memory_of(site.pid) - before < 30 << 20
    for reader in readers[:15]:
        reader.close()
    for reader in readers[15:]:
        reader.shutdown(socket.SHUT_RDWR)
        reader.close()
    site.wait_until_closed("large")


def test_clients_that_leave_in_the_middle(site: Site, client: httpx.Client) -> None:
    for _ in range(3):
        with client.stream("GET", "/large.bin") as answer:
            for piece in answer.iter_raw():
                assert piece
                break
    client.close()
    site.wait_until_closed("large")


def test_many_clients_at_once(site: Site) -> None:
    content = (site.web / "large.bin").read_bytes()

    def load(number: int) -> bool:
        with httpx.Client(base_url=site.url, timeout=LIMIT, **PROTOCOLS["http2" if number % 2 else "http1"]) as client:
            start = number * 1000
            return client.get("/large.bin", headers={"Range": f"bytes={start}-"}).content == content[start:]

    with ThreadPoolExecutor(8) as threads:
        assert all(threads.map(load, range(16)))
    site.wait_until_closed("large")


def test_a_file_that_becomes_shorter_ends_the_connection_and_not_the_server(site: Site) -> None:
    victim = site.web / "victim.bin"
    for secure in (False, True):
        victim.write_bytes(b"x" * LARGE)
        address = f"https://localhost:{site.secure_port}" if secure else site.url
        with httpx.Client(base_url=address, verify=client_context() if secure else False, timeout=LIMIT) as client:
            found = 0
            with pytest.raises(httpx.HTTPError), client.stream("GET", "/victim.bin") as answer:
                for piece in answer.iter_raw():
                    if not found:
                        os.truncate(victim, 0)
                    found += len(piece)
            assert 0 < found < LARGE
        assert httpx.get(f"{site.url}/victim.bin").content == b""
    victim.unlink()


def test_a_file_that_is_replaced_is_sent_to_its_end_as_it_was(site: Site) -> None:
    path = site.web / "replaced.bin"
    path.write_bytes(b"a" * LARGE)
    with httpx.Client(base_url=site.url, timeout=LIMIT) as client, client.stream("GET", "/replaced.bin") as answer:
        pieces = answer.iter_raw()
        found = next(pieces)
        (site.web / "new").write_bytes(b"b" * LARGE)
        (site.web / "new").rename(path)
        assert client.get("/replaced.bin").content == b"b" * LARGE
        found += b"".join(pieces)
    assert found == b"a" * LARGE
    path.unlink()
    assert httpx.get(f"{site.url}/replaced.bin").status_code == 404


def test_a_file_that_is_replaced_all_the_time_is_always_one_of_its_versions(site: Site) -> None:
    sizes = [10, 3000, 3000, 70_000, 300_000]
    path, draft = site.web / "moving.txt", site.web / ".draft"
    path.write_bytes(b"0" * 10)
    is_over = threading.Event()

    def read(number: int) -> dict[str, bytes]:
        tags: dict[str, bytes] = {}
        with httpx.Client(base_url=site.url, timeout=LIMIT, **PROTOCOLS["http2" if number % 2 else "http1"]) as client:
            while not is_over.is_set():
                answer = client.get("/moving.txt", headers={"Accept-Encoding": ("identity", "gzip", "br")[number % 3]})
                body = answer.content
                assert answer.status_code == 200 and body and body == body[:1] * len(body)
                assert tags.setdefault(answer.headers["etag"], body) == body
                assert client.get("/moving.txt", headers={"If-None-Match": answer.headers["etag"]}).status_code in (200, 304)
        return tags

    with ThreadPoolExecutor(4) as threads:
        readers = [threads.submit(read, number) for number in range(4)]
        for version in range(150):
            draft.write_bytes(str(version % 10).encode() * sizes[version % len(sizes)])
            os.utime(draft, (version, version))  # the clock of a file system may stand still between two of them
            draft.rename(path)
            if all(reader.running() for reader in readers):
                httpx.head(f"{site.url}/moving.txt")
        is_over.set()
        assert all(reader.result() for reader in readers)
    path.unlink()
    site.wait_until_closed("moving")


def test_pipelined_requests(site: Site) -> None:
    with socket.create_connection(("127.0.0.1", site.port)) as sock:
        head = b"GET /large.bin HTTP/1.1\r\nHost: a\r\nRange: bytes=0-999999\r\n\r\nGET /small.txt HTTP/1.1\r\nHost: a\r\n\r\n"
        sock.sendall(head * 3 + b"HEAD /large.bin HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
        found = b""
        while piece := sock.recv(1 << 20):
            found += piece
    assert found.count(b"HTTP/1.1 206 ") == 3 and found.count(b"small " * 1000) == 3
    assert found.endswith(b"\r\n\r\n") and f"Content-Length: {LARGE}".encode() in found
    assert found.count((site.web / "large.bin").read_bytes()[:1_000_000]) == 3


def test_the_directory_may_come_later(tmp_path: Path) -> None:
    app = tmp_path / "shop"
    app.mkdir()
    (app / "schema.graphql").write_text(SCHEMA)
    process = Site(tmp_path / "root", app).start()
    try:
        with httpx.Client(base_url=process.url, auth=("admin", PASSWORD)) as client:
            assert client.get("/a.txt").status_code == 404
            (app / "web").mkdir()
            (app / "web" / "a.txt").write_text("here")
            while (answer := client.get("/a.txt")).status_code == 404:  # until the server is told of it
                pass
            assert answer.text == "here"
    finally:
        assert process.stop() == 0
