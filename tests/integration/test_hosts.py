"""Ports are opened at the addresses of the configuration and nowhere else (spec: configuration §2.2)."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.integration.conftest import PASSWORD, Process

pytestmark = pytest.mark.programs

LIMIT = 120.0  # seconds
APP = Path(__file__).parent / "listening"


def is_open(host: str, port: int) -> bool:
    try:
        socket.create_connection((host, port), LIMIT).close()
    except OSError:
        return False
    return True


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Process]:
    env = {"HTTP_HOST": "127.0.0.2, 127.0.0.3", "OPERATIONSAPI_NETWORK_HOST": "localhost"}
    process = Process(tmp_path_factory.mktemp("node") / "root", APP, env=env).start()
    yield process
    assert process.stop() == 0


def test_the_ports_are_open_at_the_addresses_that_were_given_and_at_no_others(server: Process) -> None:
    assert [is_open(f"127.0.0.{number}", server.port) for number in (1, 2, 3, 4)] == [False, True, True, False]
    assert [is_open(f"127.0.0.{number}", server.operations_port) for number in (1, 2)] == [True, False]


def test_ports_that_an_application_opens_are_opened_at_the_same_addresses(server: Process) -> None:
    ports = httpx.get(f"http://127.0.0.2:{server.port}/ports", auth=("admin", PASSWORD), timeout=LIMIT).json()
    for name in ("http", "ws", "tcp"):
        assert [is_open(f"127.0.0.{number}", ports[name]) for number in (1, 2, 3)] == [False, True, True], name
    for host in ("127.0.0.2", "127.0.0.3"):
        assert httpx.get(f"http://{host}:{ports['http']}/", timeout=LIMIT).json()["port"] is True


@pytest.mark.parametrize(
    ("host", "reason"),
    [
        (
            "127.0.0.1",
            "Error: cannot listen on http.port {port}, http.host 127.0.0.1: Address already in use\nAnother program has this port, perhaps another svc: ",
        ),
        ("127.0.0.2,198.51.100.7", "Error: cannot listen on http.port {port}, http.host 198.51.100.7: Cannot assign requested address"),
        ("db.example", "'http.host' has 'db.example', which is not an address to listen on"),
    ],
)
def test_an_address_that_cannot_be_used_is_named(tmp_path: Path, host: str, reason: str) -> None:
    process = Process(tmp_path / "root", None, env={"HTTP_HOST": host})
    with socket.create_server(("127.0.0.1", process.port)), pytest.raises(AssertionError, match="did not start"):
        process.start()
    assert reason.format(port=process.port) in process.output()
