"""Listeners of plugins on ports of their own: a newer version takes the port over, without closing it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from svc.listeners.port_listeners import PortListeners
from tests.support.application import application
from tests.support.node import NodePort, NodePorts

CODE = """
def handle_application(scope):
    scope.server.http(lambda request, next: {"version": 1}, port=scope.options.get("port"))
"""
CONFIG = "own: {package: ./plugin.py, port: 7000}\n"


class Ports(NodePorts):
    """Other ports are opened, and `events` says when."""

    def __init__(self, first: NodePorts) -> None:
        self._port = first._port
        self.events: list[str] = []
        self.opened: dict[int, NodePort] = {}

    def open(self, port: int, secure: bool) -> Any:
        if port not in self.opened:
            self.events.append(f"open {port}")
            self.opened[port] = NodePort(PortListeners(Chains(), Chains(), serves_resources=False, scopes=None))  # type: ignore[arg-type]
            self.opened[port].port = port
        return self.opened[port]

    def release(self, port: Any) -> None:
        if port.port:
            self.events.append(f"release {port.port}")
            del self.opened[port.port]


class Chains:
    def use(self, *chains: object) -> None: ...


@pytest.mark.parametrize("fails", [False, True])
def test_a_port_stays_open_over_versions(tmp_path: Path, fails: bool) -> None:
    with application(tmp_path, "", files={"plugin.py": CODE}) as app:
        node = app.node
        parts = node.server._parts
        ports = parts.ports = Ports(parts.ports)  # type: ignore[arg-type]
        file = node.app.directory / "config.yaml"
        file.write_text(CONFIG)
        node.run(node.applications.reload("app"))
        assert node.app.status == "healthy", node.app.entries
        assert ports.events == ["open 7000"] and len(ports.opened[7000].listeners) == 1
        (node.app.directory / "plugin.py").write_text(CODE + ("    1 / 0\n" if fails else ""))
        node.run(node.applications.reload("app"))
        assert node.app.status == ("error" if fails else "healthy")
        assert ports.events == ["open 7000"] and len(ports.opened[7000].listeners) == 1
        (node.app.directory / "plugin.py").write_text(CODE)
        file.write_text(CONFIG.replace("7000", "7001"))
        node.run(node.applications.reload("app"))
        assert ports.events == ["open 7000", "open 7001", "release 7000"]
        file.write_text("rest: true\n")
        node.run(node.applications.reload("app"))
        assert not ports.opened
