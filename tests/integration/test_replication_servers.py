"""Two nodes over an engine that runs elsewhere (spec: replication-engine §5)."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from svc.cluster.engine_process import find_program
from tests.integration.conftest import LIMIT
from tests.integration.replicating import Start, starting_nodes
from tests.support.ports import free_port
from tests.support.waiting import wait_until

pytestmark = pytest.mark.programs


class RunningEngine:
    def __init__(self, directory: Path) -> None:
        self.port = free_port()
        self.file = directory / "engine.conf"
        store = f'jetstream {{ store_dir: "{directory}/js", max_file_store: 1TB }}'
        self.file.write_text(f'host: "127.0.0.1"\nport: {self.port}\n{store}\nauthorization {{ user: u, password: "p w" }}\n')
        self.start()

    def start(self) -> None:
        program = find_program()
        assert program is not None
        self.process = subprocess.Popen([str(program), "-c", str(self.file)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def stop(self) -> None:
        self.process.kill()
        self.process.wait(LIMIT)


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    with starting_nodes(tmp_path) as start:
        yield start


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[RunningEngine]:
    found = RunningEngine(tmp_path)
    yield found
    found.stop()


def test_what_is_put_at_one_is_got_at_the_other(start: Start, engine: RunningEngine) -> None:
    section = {"servers": [f"nats://127.0.0.1:{engine.port}"], "credentials": {"username": "u", "password": "p w"}}
    a, b = (start(name, section=section) for name in "ab")
    for node, other in ((a, b), (b, a)):
        node.operate(operation="add_node", hostname=other.name)
    a.put("x", n=1)
    wait_until(lambda: "x" in b.items())
    assert not a.process.instances[0].children(), "it runs no engine"
    engine.stop()
    b.put("y", n=2)
    engine.start()
    wait_until(lambda: "y" in a.items(), lambda: "\n".join(node.process.logged()[-5000:] for node in (a, b)))
    wait_until(lambda: a.operate(operation="cluster_network")["nodes"][1].get("connected_nodes") == ["a"])
