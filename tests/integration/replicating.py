"""Nodes that replicate: real servers on one machine, each with an engine of its own."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import httpx

from tests.integration.conftest import LIMIT, PASSWORD, Process
from tests.support.ports import free_port

LOGIN = {"username": "admin", "password": PASSWORD}
SCHEMA = """
type Item @table @export { id: ID @primaryKey  n: Int @indexed  text: String  file: Blob }
type Own @table(replicate: false) @export { id: ID @primaryKey }
"""


class Node:
    def __init__(
        self, path: Path, name: str, app: Path, *, confirm_timeout: int = 60_000, section: dict[str, Any] | None = None, **env: str
    ) -> None:
        """`section`: more of `replication`."""
        self.name = name
        self.root = path / name
        self.exchange = free_port()
        settings = {
            "hostname": name,
            "securePort": self.exchange,
            "url": f"wss://127.0.0.1:{self.exchange}",
            "confirmTimeout": confirm_timeout,
            **(section or {}),
        }
        self.secure = free_port()  # of operations
        env = {"OPERATIONSAPI_NETWORK_SECUREPORT": str(self.secure), **env}
        config = {"node": {"hostname": name}, "replication": settings}
        self.process = Process(self.root, app, env={"SVC_SET_CONFIG": json.dumps(config), **env})
        self.start()

    def start(self) -> None:
        self.process.start()
        self.http = httpx.Client(base_url=self.process.url, auth=("admin", PASSWORD), timeout=LIMIT)

    def stop(self) -> None:
        self.http.close()
        self.process.stop()

    def kill(self) -> None:
        self.http.close()
        self.process.kill()

    def operate(self, **body: Any) -> Any:
        answer = httpx.post(self.process.operations_url, json=body, auth=("admin", PASSWORD), timeout=LIMIT)
        assert answer.status_code == 200, answer.text
        return answer.json()

    def join(self, other: Node) -> None:
        """Become known to another node, and to those it knows."""
        url = f"https://127.0.0.1:{other.secure}"
        self.operate(operation="add_node", hostname=other.name, url=url, authorization=LOGIN, verify_tls=False)

    def put(self, key: str, **values: Any) -> httpx.Response:
        answer = self.http.put(f"/Item/{key}", json=values)
        assert answer.status_code == 204, answer.text
        return answer

    def add(self, key: str, number: int) -> None:
        answer = self.http.patch(f"/Item/{key}", json={"n": {"__op__": "add", "value": number}})
        assert answer.status_code == 204, answer.text

    def items(self) -> dict[str, Any]:
        """All of them, with their versions."""
        found = self.http.get("/Item/?limit(10000)")
        assert found.status_code == 200, found.text
        return {record["id"]: record for record in found.json()}


def make_app(path: Path) -> Path:
    directory = path / "shop"
    directory.mkdir()
    (directory / "schema.graphql").write_text(SCHEMA)
    (directory / "config.yaml").write_text("rest: true\ngraphqlSchema:\n  files: schema.graphql\n")
    return directory
