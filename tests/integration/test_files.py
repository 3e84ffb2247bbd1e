"""Large files up and down, with the real process: memory, ranges, disconnects, what is left on the disk."""

from __future__ import annotations

import hashlib
import os
import shutil
import socket
import subprocess
import sys
import threading
from base64 import b64encode
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.integration.conftest import PASSWORD, Process, authorization
from tests.support.waiting import wait_until

pytestmark = pytest.mark.programs

MIB = 1 << 20
SIZE = 64 * MIB
BLOCK = bytes(range(256)) * 4096  # 1 MiB
DIGEST = hashlib.sha256(BLOCK * (SIZE // MIB)).hexdigest()
WAIT_LIMIT = 120.0  # seconds
AUTHORIZATION = f"Authorization: {authorization()}"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Process]:
    root = tmp_path_factory.mktemp("files")
    app = root / "app"
    app.mkdir()
    (app / "schema.graphql").write_text("type Film @table @export { id: ID @primaryKey  video: Blob  title: String @indexed }\n")
    process = Process(root / "root", app).start()
    yield process
    assert process.stop() == 0, process.output()
    check = [sys.executable, "-m", "svc", "check", str(process.root)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    checked = subprocess.run(check, capture_output=True, text=True, env=environment, check=False)
    # A test below damages one file on purpose.
    assert "data: fine" in checked.stdout or checked.stdout.count("has 100000 bytes instead of") == checked.stdout.count("blob file"), (
        checked.stdout
    )


@pytest.fixture
def client(server: Process) -> Iterator[httpx.Client]:
    with server.client() as http:
        yield http


def blocks(count: int = SIZE // MIB) -> Iterator[bytes]:
    for _ in range(count):
        yield BLOCK


def peak_memory(server: Process) -> int:
    """The largest resident size that the process ever had, in bytes."""
    lines = Path(f"/proc/{server.pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM"))


def files_of(server: Process) -> set[Path]:
    return {path for path in (server.root / "blobs").rglob("*") if path.is_file()}


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="needs /proc")
def test_memory_stays_flat_while_64_mib_go_up_and_down(server: Process, client: httpx.Client) -> None:
    assert client.put("/Film/small/video", content=BLOCK * 2, headers={"Content-Type": "video/mp4"}).status_code == 204
    assert len(client.get("/Film/small/video").content) == 2 * MIB
    before = peak_memory(server)

    headers = {"Content-Type": "video/mp4", "Content-Length": str(SIZE)}
    assert client.put("/Film/one/video", content=blocks(), headers=headers).status_code == 204
    assert client.put("/Film/two/video", content=blocks(), headers={"Content-Type": "video/mp4"}).status_code == 204  # chunked
    for target in ("/Film/one/video", "/Film/two.video"):
        digest, size = hashlib.sha256(), 0
        with client.stream("GET", target) as response:
            assert response.status_code == 200
            assert response.headers["content-length"] == str(SIZE)
            assert response.headers["content-type"] == "video/mp4"
            for piece in response.iter_raw():
                digest.update(piece)
                size += len(piece)
        assert (size, digest.hexdigest()) == (SIZE, DIGEST)
    grown = peak_memory(server) - before
    assert grown < 16 * MIB, f"grew by {grown / MIB:.1f} MiB"
    assert client.get("/Film/?id=one&select(id,video)").json()[0]["video"]["size"] == SIZE


def test_ranges_with_httpx(client: httpx.Client) -> None:
    content = os.urandom(300_000)
    client.put("/Film/r/video", content=content, headers={"Content-Type": "video/mp4"})
    whole = client.get("/Film/r/video")
    assert whole.content == content
    assert whole.headers["accept-ranges"] == "bytes"
    part = client.get("/Film/r/video", headers={"Range": "bytes=100000-199999"})
    assert (part.status_code, part.content, part.headers["content-range"]) == (206, content[100000:200000], "bytes 100000-199999/300000")
    assert client.get("/Film/r/video", headers={"Range": "bytes=-5"}).content == content[-5:]
    beyond = client.get("/Film/r/video", headers={"Range": "bytes=300000-"})
    assert (beyond.status_code, beyond.headers["content-range"]) == (416, "bytes */300000")
    assert client.get("/Film/r/video", headers={"Range": "bytes=0-1,5-6"}).content == content
    tag = whole.headers["etag"]
    assert client.get("/Film/r/video", headers={"Range": "bytes=0-1", "If-Range": tag}).status_code == 206
    assert client.get("/Film/r/video", headers={"Range": "bytes=0-1", "If-Range": '"other"'}).content == content
    assert client.get("/Film/r/video", headers={"If-None-Match": tag}).status_code == 304
    head = client.head("/Film/r/video")
    assert (head.headers["content-length"], head.content) == ("300000", b"")


@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")
def test_curl_goes_on_with_what_it_has(server: Process, client: httpx.Client, tmp_path: Path) -> None:
    content = os.urandom(200_000)
    (tmp_path / "up").write_bytes(content)
    curl = ["curl", "-sS", "--fail", "-u", f"admin:{PASSWORD}"]
    address = f"{server.url}/Film/c/video"
    subprocess.run([*curl, "-T", str(tmp_path / "up"), "-H", "Content-Type: video/mp4", address], check=True, timeout=WAIT_LIMIT)
    down = tmp_path / "down"
    down.write_bytes(content[:50_000])
    subprocess.run([*curl, "-C", "-", "-o", str(down), address], check=True, timeout=WAIT_LIMIT)
    assert down.read_bytes() == content
    subprocess.run([*curl, "-r", "7-9", "-o", str(down), address], check=True, timeout=WAIT_LIMIT)
    assert down.read_bytes() == content[7:10]


def test_who_goes_away_in_the_middle_leaves_nothing(server: Process, client: httpx.Client) -> None:
    before = files_of(server)
    with socket.create_connection(("127.0.0.1", server.port), timeout=WAIT_LIMIT) as peer:
        head = f"PUT /Film/gone/video HTTP/1.1\r\nHost: a\r\n{AUTHORIZATION}\r\nContent-Length: {SIZE}\r\n\r\n"
        peer.sendall(head.encode())
        for piece in blocks(5):
            peer.sendall(piece)
        wait_until(lambda: len(files_of(server) - before) == 1, "a file")
    wait_until(lambda: not files_of(server) - before, "its removal")
    assert client.get("/Film/gone").status_code == 404
    assert client.put("/Film/left/video", content=BLOCK * 4, headers={"Content-Type": "video/mp4"}).status_code == 204
    with client.stream("GET", "/Film/left/video") as response:
        next(response.iter_raw())  # the rest is never read


@pytest.mark.parametrize("login", [None, "admin:wrong"], ids=["anonymous", "wrong password"])
def test_who_may_not_write_need_not_send_the_body(server: Process, login: str | None) -> None:
    with socket.create_connection(("127.0.0.1", server.port), timeout=WAIT_LIMIT) as peer:
        authorization = "" if login is None else f"Authorization: Basic {b64encode(login.encode()).decode()}\r\n"
        peer.sendall(f"PUT /Film/x/video HTTP/1.1\r\nHost: a\r\n{authorization}Content-Length: {SIZE}\r\n\r\n".encode())
        answer = b""
        while b"\r\n\r\n" not in answer:
            received = peer.recv(65536)
            assert received, answer
            answer += received
    assert answer.startswith(b"HTTP/1.1 401"), answer
    assert b"Connection: close" in answer


def test_others_are_served_while_many_files_go_up(server: Process, client: httpx.Client) -> None:
    statuses: list[int] = []
    under_way, go_on = threading.Barrier(7), threading.Event()

    def content() -> Iterator[bytes]:
        first, *rest = blocks(8)
        yield first
        under_way.wait(WAIT_LIMIT)
        assert go_on.wait(WAIT_LIMIT)
        yield from rest

    def send(number: int) -> None:
        with server.client() as own:
            headers = {"Content-Type": "video/mp4", "Content-Length": str(8 * MIB)}
            statuses.append(own.put(f"/Film/many{number}/video", content=content(), headers=headers).status_code)

    senders = [threading.Thread(target=send, args=(number,)) for number in range(6)]
    for sender in senders:
        sender.start()
    under_way.wait(WAIT_LIMIT)
    for _ in range(6):
        assert client.get("/Film/?title==none").status_code == 200
    go_on.set()
    while any(sender.is_alive() for sender in senders):
        assert client.get("/Film/?title==none").status_code == 200
    for sender in senders:
        sender.join()
    assert statuses == [204] * 6
    for number in range(6):
        assert client.head(f"/Film/many{number}/video").headers["content-length"] == str(8 * MIB)


def test_replaced_and_deleted_files_stay_in_history(server: Process, client: httpx.Client) -> None:
    before = files_of(server)
    for content in (BLOCK, BLOCK[::-1]):
        assert client.put("/Film/h/video", content=content, headers={"Content-Type": "video/mp4"}).status_code == 204
    assert client.get("/Film/h/video").content == BLOCK[::-1]
    assert client.delete("/Film/h").status_code == 204
    assert client.get("/Film/h/video").status_code == 404
    assert len(files_of(server) - before) == 2


def test_a_file_that_was_cut_is_no_short_answer(server: Process, client: httpx.Client) -> None:
    before = files_of(server)
    client.put("/Film/cut/video", content=BLOCK, headers={"Content-Type": "video/mp4"})
    (path,) = files_of(server) - before
    os.truncate(path, 100_000)
    response = client.get("/Film/cut/video")
    assert (response.status_code, response.json()["code"]) == (500, "BLOB_DAMAGED")
    said = "has 100000 bytes instead of 1048576"
    wait_until(lambda: any(path.name in line and said in line for line in server.logged().splitlines()), server.logged)
    assert client.get("/Film/cut").json()["video"]["size"] == MIB
