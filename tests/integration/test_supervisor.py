"""Under a supervisor as systemd is one: sockets that it has opened, what it is told, and what it waits for (spec: configuration §6.5)."""

from __future__ import annotations

import shutil
import signal
import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from tests.integration.conftest import LIMIT, Process
from tests.support.instances import APP, answering, await_restart, pids
from tests.support.systemd import Systemd
from tests.support.waiting import wait_until

pytestmark = pytest.mark.programs


def listening(host: str = "127.0.0.1") -> socket.socket:
    sock = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
    sock.bind((host, 0))
    sock.listen()
    return sock


@contextmanager
def supervised(folder: Path, *sockets: socket.socket, count: int = 2, **env: str) -> Iterator[Systemd]:
    """A server of instances. It has not been started."""
    systemd = Systemd(folder, *sockets, app=APP, INSTANCES=str(count), HTTP_HOST="127.0.0.1", **env)
    try:
        yield systemd
    finally:
        systemd.close()


def test_sockets_that_it_has_opened(tmp_path: Path) -> None:
    with (
        listening() as other,
        listening() as http,
        socket.socket(socket.AF_UNIX) as path,
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as datagrams,
    ):
        path.bind(str(tmp_path / "operations"))
        path.listen()
        port = http.getsockname()[1]
        client = socket.create_connection(("127.0.0.1", port))  # before svc is there
        environment = {"HTTP_PORT": str(port), "OPERATIONSAPI_NETWORK_DOMAINSOCKET": str(tmp_path / "operations")}
        with supervised(tmp_path, other, datagrams, http, path, **environment) as systemd:
            process = systemd.process
            process.port = port
            process.start()
            systemd.await_notice("READY=1")
            client.sendall(b"GET /Who/ HTTP/1.0\r\n\r\n")
            assert client.recv(100).startswith(b"HTTP/1.1 401")
            client.close()
            said = f"127.0.0.1 port {other.getsockname()[1]} was opened by what has started svc"
            wait_until(lambda: said in process.logged(), process.logged)
            with httpx.Client(transport=httpx.HTTPTransport(uds=str(tmp_path / "operations"))) as local:
                assert local.post("http://x/", json={"operation": "get_status"}).status_code == 200
            for instance in process.instances:
                variables = instance.environ()
                assert not any(name.startswith("LISTEN_") for name in variables) or variables["LISTEN_PID"] != str(instance.pid)

            before = pids(process)
            process.process.send_signal(signal.SIGUSR2)  # type: ignore[union-attr]
            await_restart(process, before)
            assert set(answering(process)) <= pids(process)
            systemd.await_notice("READY=1", 2)
            said = [lines for lines in systemd.heard if lines[0] != "WATCHDOG=1"]
            assert [lines[0] for lines in said] == ["READY=1", "RELOADING=1", "READY=1"] and said[1][1].startswith("MONOTONIC_USEC=")
            assert process.stop() == 0
            assert systemd.listen()[-1] == ["STOPPING=1"]
        assert (tmp_path / "operations").exists(), "it is not the server's"
        socket.create_connection(("127.0.0.1", port)).close()


def test_sockets_for_another_process(tmp_path: Path) -> None:
    """Such as variables that a shell has passed on."""
    with listening() as http, supervised(tmp_path, http, count=1, HTTP_PORT=str(http.getsockname()[1]), LISTEN_PID="1") as systemd:
        with pytest.raises(AssertionError, match=f"cannot listen on http.port {http.getsockname()[1]}"):
            systemd.process.start()
        assert "READY=1" not in str(systemd.listen())


def test_a_restart_that_is_given_up(tmp_path: Path) -> None:
    with supervised(tmp_path, count=1) as systemd:
        process = systemd.process.start()
        systemd.await_notice("READY=1")
        (process.root / "svc-config.yaml").write_text("http: [1")
        process.process.send_signal(signal.SIGUSR2)  # type: ignore[union-attr]
        systemd.await_notice("READY=1", 2)
        assert systemd.heard[-1][1].startswith("STATUS=not restarted: ") and "svc-config.yaml" in systemd.heard[-1][1]


def test_signs_of_life(tmp_path: Path) -> None:
    with supervised(tmp_path, count=1, WATCHDOG_USEC="200000") as systemd:
        process = systemd.process.start()
        systemd.await_notice("WATCHDOG=1", 3)
        before = pids(process)
        process.process.send_signal(signal.SIGUSR2)  # type: ignore[union-attr]
        await_restart(process, before)
        systemd.heard.clear()
        systemd.await_notice("WATCHDOG=1", 3)


@pytest.mark.skipif(shutil.which("systemd-socket-activate") is None, reason="systemd is not installed")
def test_the_program_of_systemd(tmp_path: Path) -> None:
    """It starts the server when the first client comes, who is answered."""
    process = Process(tmp_path / "root", APP, env={"INSTANCES": "2", "HTTP_HOST": "127.0.0.1"}, forked=False)
    variables = [word for name, value in process.env.items() for word in ("-E", f"{name}={value}")]
    process.wrapper = ["systemd-socket-activate", "-l", f"127.0.0.1:{process.port}", *variables]

    def connect() -> socket.socket | None:
        try:
            return socket.create_connection(("127.0.0.1", process.port), LIMIT)
        except ConnectionRefusedError:
            return None

    def ask() -> bytes:
        with wait_until(connect) as client:
            client.sendall(b"GET /Who/ HTTP/1.0\r\n\r\n")
            return client.recv(100)

    with ThreadPoolExecutor() as threads:
        asked = threads.submit(ask)
        try:
            process.start()
            assert asked.result(LIMIT).startswith(b"HTTP/1.1 401")
            wait_until(lambda: len(pids(process)) == 2)
            assert set(answering(process)) <= pids(process)
            assert process.stop() == 0
        finally:
            process.kill()
