"""Nodes that replicate: real servers on one machine, each with an engine of its own."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import psutil

from tests.integration.conftest import LIMIT, PASSWORD, START_LIMIT, Process
from tests.support.ports import free_port

LOGIN = {"username": "admin", "password": PASSWORD}
SCHEMA = """
type Item @table @export { id: ID @primaryKey  n: Int @indexed  text: String  file: Blob }
type Own @table(replicate: false) @export { id: ID @primaryKey }
type Member @table @export { id: ID @primaryKey  mail: String @unique }
"""


SAID = 4000  # characters of a log that are shown of each node when a test fails


class Node:
    """Made by `starting_nodes`, which ends it."""

    def __init__(
        self, path: Path, name: str, app: Path, *, confirm_timeout: int = 60_000, section: dict[str, Any] | None = None, **env: str
    ) -> None:
        """`section`: more of `replication`. It is to be started."""
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
        self.http = httpx.Client()

    def start(self) -> None:
        self.process.start()
        self.http = httpx.Client(base_url=self.process.url, auth=("admin", PASSWORD), timeout=LIMIT)

    def stop(self) -> None:
        self.http.close()
        self.process.stop()

    def kill(self) -> None:
        self.http.close()
        self.process.kill()

    def end(self) -> None:
        """In whatever state it is: neither its server nor its engine is there any more."""
        self.http.close()
        engines = [child for instance in self.process.instances for child in instance.children()] if self.process.is_running else []
        try:
            if self.process.is_running:
                self.process.stop()
        except subprocess.TimeoutExpired:
            self.process.kill()
        _, left = psutil.wait_procs(engines, START_LIMIT)
        for engine in left:
            engine.kill()
        assert not left, f"the engine of {self.name} has not ended with it"

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


Start = Callable[..., Node]
"""(name, more as of `Node`): a node that runs."""


@contextmanager
def starting_nodes(path: Path) -> Iterator[Start]:
    """For a fixture: nodes with the same application, below this path. All of them are ended with it; pytest shows what is printed if the test has failed."""
    app = make_app(path)
    nodes: list[Node] = []

    def start(name: str, **options: Any) -> Node:
        node = Node(path, name, app, **options)
        nodes.append(node)
        node.start()
        return node

    try:
        yield start
    finally:
        faults = []
        for node in nodes:
            print(f"--- {node.name}: {node.process.output()[-SAID:]}\n{node.process.logged()[-SAID:]}")
            try:
                node.end()
            except Exception as error:  # the others have to end as well
                faults.append(error)
        if faults:
            raise ExceptionGroup("nodes have not ended as they should", faults)


def make_app(path: Path) -> Path:
    directory = path / "shop"
    directory.mkdir()
    (directory / "schema.graphql").write_text(SCHEMA)
    (directory / "config.yaml").write_text("rest: true\ngraphqlSchema:\n  files: schema.graphql\n")
    return directory
