"""A restart refuses no connection and loses no request, whatever protocol a client speaks (spec: configuration §6.5)."""

from __future__ import annotations

import json
import shutil
import signal
import socket
import ssl
import subprocess
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import ClientConnection
from websockets.sync.client import connect as connect_websocket

from tests.integration.conftest import LIMIT, PASSWORD, Process, authorization
from tests.support.callers import Callers
from tests.support.certificates import authority, localhost
from tests.support.forked import run_command
from tests.support.instances import ADMIN, answering, await_restart, pids, started
from tests.support.mqtt_clients import Client
from tests.support.ports import free_port
from tests.support.server_hooks import LONG_DRAIN
from tests.support.waiting import wait_until

pytestmark = pytest.mark.programs


@pytest.mark.parametrize("count", [1, 2])
def test_a_restart_loses_no_request(tmp_path: Path, count: int) -> None:
    with started(tmp_path, count) as process:
        idle = process.client()
        first = idle.get("/Who/").json()["pid"]
        callers = Callers(process.client)
        before = pids(process)
        try:
            for number in (1, 2):
                assert process.operate("restart").status_code == 200
                await_restart(process, before, number)
                assert set(answering(process)) == pids(process)
                before = pids(process)
        finally:
            callers.end()
        assert callers.failed == []
        assert len(callers.answered) > count
        second = idle.get("/Who/").json()["pid"]  # over the connection that it had
        assert first != second and second in pids(process)
        idle.close()
        assert process.stop() == 0


def test_a_restart_that_cannot_be_is_given_up(tmp_path: Path) -> None:
    with started(tmp_path, 1) as process:
        before = pids(process)
        config = process.root / "svc-config.yaml"
        good = config.read_text()
        config.write_text("http: [1")
        process.operate("restart")
        wait_until(lambda: "restartFailed" in process.operate("get_status").json())
        assert "svc-config.yaml" in process.operate("get_status").json()["restartFailed"]
        assert pids(process) == before and answering(process, 3)
        config.write_text(good)
        (process.root.parent / "broken").touch()  # the program can be started, but no instance
        process.operate("restart")
        wait_until(lambda: "has ended with status 9 before it served" in process.logged())
        assert pids(process) == before and answering(process, 3)
        (process.root.parent / "broken").unlink()
        process.operate("restart")
        wait_until(lambda: pids(process) != before and len(pids(process)) == 1)
        assert answering(process, 3)


def test_the_command_says_why_it_does_not_restart(tmp_path: Path) -> None:
    with started(tmp_path, 1) as process:
        (tmp_path / "broken").touch()
        done = run_command(["restart"], cwd=tmp_path, env=process.env, timeout=LIMIT)
        assert done.returncode == 1 and "svc is not restarted, and goes on as it is: instance 0 " in done.stderr


# --- protocols ------------------------------------------------------------------------------------------------------------------------


@contextmanager
def serving_all(path: Path, count: int = 2) -> Iterator[Process]:
    """HTTP, HTTPS and MQTT."""
    ports = {"HTTP_SECUREPORT": str(free_port()), "MQTT_NETWORK_PORT": str(free_port())}
    certificate = {"TLS_CERTIFICATE": str(localhost().file), "TLS_PRIVATEKEY": str(localhost().key_file)}
    with started(path, count, **ports, **certificate) as process:
        yield process


def restart(process: Process, number: int) -> None:
    """The `number`-th of this server, by an operation and by a signal in turn."""
    before = pids(process)
    if number % 2:
        assert process.operate("restart").status_code == 200
    else:
        assert process.process is not None
        process.process.send_signal(signal.SIGUSR2)
    await_restart(process, before, number)


@contextmanager
def client_of(process: Process, *, tls: bool = False, http2: bool = False) -> Iterator[Callable[[], httpx.Client]]:
    """What makes clients. With HTTP/2 they share a connection, three requests at a time."""
    trusted = ssl.create_default_context(cafile=str(authority().file)) if tls else True
    url = f"https://localhost:{process.env['HTTP_SECUREPORT']}" if tls else process.url

    def connect() -> httpx.Client:
        return httpx.Client(base_url=url, auth=ADMIN, timeout=LIMIT, verify=trusted, http1=tls or not http2, http2=http2)

    yield connect


@pytest.mark.parametrize(("tls", "http2"), [(True, False), (True, True), (False, True)])
def test_other_connections_lose_no_request(tmp_path: Path, tls: bool, http2: bool) -> None:
    with serving_all(tmp_path) as process, client_of(process, tls=tls, http2=http2) as connect, connect() as idle, connect() as waiting:
        first = idle.get("/Who/").json()["pid"]
        answers: list[httpx.Response] = []
        long = threading.Thread(target=lambda: answers.append(waiting.get("/Slow/")))
        long.start()
        wait_until((tmp_path / "waits").exists)
        callers = Callers(connect)
        try:
            before = pids(process)
            assert process.operate("restart").status_code == 200
            wait_until(lambda: process.operate("get_status").json().get("restarts") == 1)
            assert idle.get("/Who/").is_success  # an answer, whoever gives it
            assert idle.get("/Who/").json()["pid"] not in before
            (tmp_path / "go").touch()
            long.join(LIMIT)
            assert answers[0].is_success and answers[0].json()["pid"] in before
            await_restart(process, before)
            restart(process, 2)
        finally:
            (tmp_path / "go").touch()
            long.join(LIMIT)
            callers.end()
        assert callers.failed == []
        assert len(callers.answered) > 2 and first in before


@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")
def test_curl_loses_no_request(tmp_path: Path) -> None:
    """Several at a time over few connections of HTTP/2."""
    with serving_all(tmp_path) as process:
        url = f"https://localhost:{process.env['HTTP_SECUREPORT']}/Paced/?n=[1-1000]"
        options = ["--http2", "--parallel", "--parallel-max", "8", "--cacert", str(authority().file), "-u", f"admin:{PASSWORD}"]
        done = tmp_path / "done.txt"
        with done.open("wb") as output:
            wanted = ["-w", "%{http_code} %{http_version}\n", "-o", "/dev/null", url]
            curl = subprocess.Popen(["curl", *options, *wanted], stdout=output, stderr=subprocess.DEVNULL)
        try:
            wait_until(done.read_text)
            restart(process, 1)
            assert curl.wait(LIMIT) == 0
        finally:
            curl.kill()
            curl.wait()
        assert Counter(done.read_text().splitlines()) == {"200 2": 1000}


class EventReader:
    """Follows the table of items in an event stream, and goes on at its position whenever that ends."""

    def __init__(self, process: Process) -> None:
        self.values: list[int] = []
        self.streams = 0
        self.is_over = False
        self._process = process
        self._thread = threading.Thread(target=self._follow)
        self._thread.start()

    def _follow(self) -> None:
        position: dict[str, str] = {}
        with self._process.client() as client:
            while not self.is_over:
                with client.stream("GET", "/Item/", headers={"Accept": "text/event-stream", **position}) as answer:
                    self.streams += 1
                    for line in answer.iter_lines():
                        name, _, text = line.partition(": ")
                        if name == "id":
                            position = {"Last-Event-ID": text}
                        elif name == "data":
                            self.values.append(json.loads(text)["value"]["value"])
                        if self.is_over:
                            break

    def join(self) -> None:
        self._thread.join(LIMIT)


class Writer:
    """Writes one number after the other into one record."""

    def __init__(self, process: Process) -> None:
        self.values: list[int] = []
        self._client = process.client()
        self._ends = threading.Event()
        self.write()
        self._thread = threading.Thread(target=self._write_on)
        self._thread.start()

    def write(self) -> None:
        self.values.append(len(self.values))
        assert self._client.put("/Item/1", json={"value": self.values[-1]}).is_success

    def _write_on(self) -> None:
        while not self._ends.wait(0.02):
            self.write()

    def end(self) -> None:
        self._ends.set()
        self._thread.join()

    def close(self) -> None:
        self._client.close()


def close_code(socket: ClientConnection) -> int:
    """Read to the end."""
    with pytest.raises(ConnectionClosed) as closed:
        while True:
            socket.recv(LIMIT)
    assert closed.value.rcvd is not None
    return closed.value.rcvd.code


def test_subscribers_miss_nothing(tmp_path: Path) -> None:
    """Of an event stream that goes on at its position, and of MQTT with a session that lasts."""
    with serving_all(tmp_path) as process, ThreadPoolExecutor() as threads:
        lasting = Client(process, "lasting", clean=False, port=int(process.env["MQTT_NETWORK_PORT"]))
        assert lasting.subscribe("Item/#", 1) == [1]
        writer = Writer(process)
        reader = EventReader(process)
        wait_until(lambda: reader.values)
        login = {"Authorization": authorization()}
        with connect_websocket(f"ws://127.0.0.1:{process.port}/Item/", additional_headers=login) as socket:
            code = threads.submit(close_code, socket)
            try:
                restart(process, 1)
                assert process.operate("set_status", id="maintenance", status="backup").is_success
                restart(process, 2)
                assert process.operate("get_status").json()["systemStatus"] == []
            finally:
                writer.end()
            assert code.result(LIMIT) == 1012
        wait_until(lambda: reader.values[-1] == writer.values[-1])
        reader.is_over = True
        writer.write()
        reader.join()
        assert reader.values == writer.values[reader.values[0] : reader.values[-1] + 1] and reader.streams > 2
        lasting.until(lambda: lasting.messages and json.loads(lasting.messages[-1].payload)["value"] == writer.values[-1])
        heard = [json.loads(message.payload)["value"] for message in lasting.messages]
        assert sorted(set(heard)) == writer.values and heard == sorted(heard)
        assert set(lasting.ended) == {0x8B} and all(is_present for is_present, _ in lasting.connected[1:])
        lasting.close()
        writer.close()


PORTS = """
import os

from svc import Resource, server

ports = {}


def who(request, next):
    return {"pid": os.getpid()}


async def lines(reader, writer):
    while line := await reader.readline():
        writer.write(b"%d %s" % (os.getpid(), line))
        await writer.drain()


ports["http"] = server.http(who, port=0)[0].port
ports["tcp"] = server.socket(lines, port=0).port


class Ports(Resource):
    def get(self, query=None):
        return ports

    def post(self, data):
        return {"port": server.socket(lines, port=data["port"]).port, "pid": os.getpid()}
"""


def said_at(port: int) -> int:
    """Which process answers at a port of `server.socket`."""
    with socket.create_connection(("127.0.0.1", port), LIMIT) as sock:
        sock.sendall(b"hello\n")
        pid, word = sock.makefile().readline().split()
        assert word == "hello"
    return int(pid)


def test_ports_of_applications(tmp_path: Path) -> None:
    """All instances have those that are opened at the start, and no client is refused there."""
    app = tmp_path / "ports"
    app.mkdir()
    (app / "resources.py").write_text(PORTS)
    with started(tmp_path, 2, app=app, SVC_TEST_HOOK=LONG_DRAIN) as process, ThreadPoolExecutor() as threads:
        found = [httpx.get(f"{process.url}/Ports/", auth=ADMIN, timeout=LIMIT).json() for _ in range(32)]
        ports = found[0]
        assert all(each == ports for each in found)
        url = f"http://127.0.0.1:{ports['http']}/"
        before = pids(process)
        assert {httpx.get(url, timeout=LIMIT).json()["pid"] for _ in range(64)} == before
        assert {said_at(ports["tcp"]) for _ in range(64)} == before
        later = free_port()
        opened = httpx.post(f"{process.url}/Ports/", auth=ADMIN, timeout=LIMIT, json={"port": later}).json()
        assert {said_at(later) for _ in range(32)} == {opened["pid"]}, "whoever of them the kernel gives a client to"

        held = socket.create_connection(("127.0.0.1", ports["tcp"]), LIMIT)
        held.sendall(b"before\n")
        lines = held.makefile()
        first = int(lines.readline().split()[0])
        is_over = threading.Event()

        def call() -> set[int]:
            pids: set[int] = set()
            while not is_over.wait(0.01):
                pids |= {said_at(ports["tcp"]), httpx.get(url, timeout=LIMIT).json()["pid"]}
            return pids

        calling = [threads.submit(call) for _ in range(4)]
        try:
            assert process.operate("restart").status_code == 200
            wait_until(lambda: process.operate("get_status").json().get("restarts") == 1)
            held.sendall(b"after\n")
            assert lines.readline() == f"{first} after\n", "it may end what it has begun"
            lines.close()
            held.close()
            await_restart(process, before)
        finally:
            is_over.set()
        assert set().union(*(each.result(LIMIT) for each in calling)) <= before | pids(process)
        assert said_at(ports["tcp"]) in pids(process)
        with pytest.raises(ConnectionRefusedError):
            said_at(later)
