"""Two servers with roots of their own over the same databases: what one changes is so for the first request that comes to the other."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.integration.conftest import PASSWORD, Process
from tests.support.waiting import wait_until

pytestmark = pytest.mark.programs


class Servers:
    def __init__(self, path: Path) -> None:
        env = {"STORAGE_PATH": str(path / "databases"), "LOGGING_LEVEL": "info"}
        self.processes = [Process(path / name, None, env=env).start() for name in ("first", "second")]
        self.clients = [httpx.Client(base_url=process.operations_url, auth=("admin", PASSWORD)) for process in self.processes]

    def ask(self, number: int, **body: Any) -> httpx.Response:
        """An operation at one of them."""
        return self.clients[number].post("/", json=body)

    def done(self, number: int, **body: Any) -> Any:
        answer = self.ask(number, **body)
        assert answer.status_code == 200, answer.text
        return answer.json()

    def close(self) -> None:
        for client, process in zip(self.clients, self.processes, strict=True):
            client.close()
            process.stop()


@pytest.fixture
def servers(tmp_path: Path) -> Iterator[Servers]:
    made = Servers(tmp_path)
    yield made
    made.close()


ROUNDS = 10


def test_definitions(servers: Servers) -> None:
    for number in range(ROUNDS):
        here, there, table = number % 2, 1 - number % 2, f"Made{number}"
        servers.done(here, operation="create_table", table=table, primary_key="id")
        if number % 3 == 0:
            assert servers.done(there, operation="describe_table", table=table)["name"] == table
        elif number % 3 == 1:
            servers.done(there, operation="insert", table=table, records=[{"id": "a", "n": number}])
        else:
            assert table in servers.done(there, operation="describe_all")["data"]
        servers.done(here, operation="drop_table", table=table)
        assert servers.ask(there, operation="describe_table", table=table).status_code == 404


def test_users_and_roles(servers: Servers) -> None:
    for number in range(ROUNDS):
        here, there, name = number % 2, 1 - number % 2, f"user{number}"
        servers.done(here, operation="add_role", role=name, permission={"super_user": True})
        servers.done(here, operation="add_user", username=name, password="p" * 12, role=name, active=True)
        with httpx.Client(base_url=servers.processes[there].operations_url, auth=(name, "p" * 12)) as client:
            assert client.post("/", json={"operation": "list_users"}).status_code == 200
            servers.done(here, operation="alter_role", id=name, role=name, permission={"super_user": False})
            assert client.post("/", json={"operation": "list_users"}).status_code == 403
            servers.done(here, operation="drop_user", username=name)
            assert client.post("/", json={"operation": "list_users"}).status_code == 401


def test_databases(servers: Servers) -> None:
    for number in range(ROUNDS // 2):
        here, there, name = number % 2, 1 - number % 2, f"other{number}"
        servers.done(here, operation="create_database", database=name)
        servers.done(there, operation="create_table", database=name, table="T", primary_key="id")
        assert "T" in servers.done(here, operation="describe_database", database=name)
        servers.done(here, operation="drop_database", database=name)
        assert servers.ask(there, operation="describe_database", database=name).status_code == 404


def test_numbers_and_who_leads(servers: Servers) -> None:
    """The second aggregates, and removes what has expired, when the first has been killed."""

    def number(which: int) -> int:
        found: int = servers.done(which, operation="system_information", attributes=["threads"])["threads"][0]["threadId"]
        return found

    assert [number(0), number(1)] == [0, 1]
    other = servers.processes[1]
    assert "leads now" not in other.logged()
    servers.processes[0].kill()
    wait_until(lambda: "leads now: node" in other.logged(), other.logged)


def test_whichever_is_asked_shows_all(servers: Servers) -> None:
    """Also that one of them hangs."""

    def up(number: int) -> dict[str, float]:
        text = servers.clients[number].get("/metrics").text
        return {
            sample.labels["instance"]: sample.value
            for family in text_string_to_metric_families(text)
            for sample in family.samples
            if sample.name == "svc_instance_up"
        }

    def threads(number: int) -> list[tuple[int, str | None]]:
        rows = servers.done(number, operation="system_information", attributes=["threads"])["threads"]
        return [(row["threadId"], row.get("error")) for row in rows]

    wait_until(lambda: up(0) == up(1) == {"0": 1, "1": 1}, lambda: up(0))
    assert threads(0) == [(0, None), (1, None)] and threads(1) == [(1, None), (0, None)]
    processes = servers.done(0, operation="system_information", attributes=["svc_processes"])["svc_processes"]["core"]
    first, second = [[process.pid, process.process.pid] for process in servers.processes]  # type: ignore[union-attr]
    assert [row["pid"] for row in processes] == [*first, *second], "each with its parent"
    servers.done(1, operation="set_status", id="availability", status="Unavailable")
    wait_until(lambda: servers.clients[0].get("/ready").status_code == 503, lambda: "")
    servers.done(0, operation="clear_status", id="availability")
    wait_until(lambda: servers.clients[1].get("/ready").status_code == 200, lambda: "")
    os.kill(servers.processes[1].pid, signal.SIGSTOP)
    try:
        wait_until(lambda: up(0) == {"0": 1, "1": 0}, lambda: up(0))
        assert threads(0)[1][1] is not None
        assert [each["number"] for each in servers.done(0, operation="get_status")["instances"] if "error" in each] == [1]
    finally:
        os.kill(servers.processes[1].pid, signal.SIGCONT)
    wait_until(lambda: up(0) == {"0": 1, "1": 1}, lambda: up(0))
