"""The variables of a supervisor, and what it is told."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from svc.parent.supervisor import Supervisor

MINE = str(os.getpid())


def test_variables_are_for_this_process_only() -> None:
    environ = {
        "PATH": "/bin", "LISTEN_PID": "1", "LISTEN_FDS": "2", "LISTEN_FDNAMES": "a:b", "NOTIFY_SOCKET": "@x", "WATCHDOG_USEC": "3000000",
    }  # fmt: skip
    supervisor = Supervisor(environ)
    assert environ == {"PATH": "/bin"} and supervisor.given == []
    assert supervisor.variables == {"NOTIFY_SOCKET": "@x", "WATCHDOG_USEC": "3000000"}


@pytest.mark.parametrize(
    ("variables", "period"),
    [
        ({}, None), ({"WATCHDOG_USEC": "3000000"}, 1.5), ({"WATCHDOG_USEC": "0"}, None), ({"WATCHDOG_USEC": "x"}, None), ({"WATCHDOG_USEC": "-1"}, None),
        ({"WATCHDOG_USEC": "1000000", "WATCHDOG_PID": MINE}, 0.5), ({"WATCHDOG_USEC": "1000000", "WATCHDOG_PID": "1"}, None),
    ],
)  # fmt: skip
def test_how_often_it_wants_signs_of_life(variables: dict[str, str], period: float | None) -> None:
    assert Supervisor(dict(variables)).period == period


@pytest.mark.parametrize("count", ["", "x", "-1", "0"])
def test_no_sockets(count: str) -> None:
    assert Supervisor({"LISTEN_PID": MINE, "LISTEN_FDS": count}).given == []


def test_it_is_told(tmp_path: Path) -> None:
    for address in (str(tmp_path / "notify"), f"@svc-test-{MINE}"):
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sock:
            sock.bind("\0" + address[1:] if address.startswith("@") else address)
            Supervisor({"NOTIFY_SOCKET": address}).notify("READY=1")
            assert sock.recv(100) == b"READY=1"
    for address in ("", "vsock:2:1", str(tmp_path / "nothing")):
        Supervisor({"NOTIFY_SOCKET": address}).notify("READY=1")
