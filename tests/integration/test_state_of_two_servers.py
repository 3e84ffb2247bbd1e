"""Two servers over the same databases: jobs of each, and tickets that count at both."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.integration.conftest import PASSWORD, Process
from tests.support.waiting import wait_until

pytestmark = pytest.mark.programs

JOBS = """
import asyncio

async def forever(run):
    await asyncio.Event().wait()
"""


class Servers:
    """`path`: of the application that both have, and of their roots."""

    def __init__(self, path: Path) -> None:
        self._path = path
        app = path / "app"
        app.mkdir()
        jobs = "".join(f"    - {{name: wait{number}, cron: '0 0 1 1 *', handler: 'jobs.py#forever'}}\n" for number in range(3))
        (app / "config.yaml").write_text(f"rest: true\ngraphqlSchema: {{files: '*.graphql'}}\nscheduler:\n  jobs:\n{jobs}")
        (app / "schema.graphql").write_text("type Plant @table @export { id: ID @primaryKey }\n")
        (app / "jobs.py").write_text(JOBS)
        self.processes = [self.start("first"), self.start("second")]

    def start(self, name: str) -> Process:
        return Process(self._path / name, self._path / "app", env={"STORAGE_PATH": str(self._path / "databases")}).start()

    def ask(self, number: int, **body: Any) -> httpx.Response:
        """An operation at one of them."""
        return httpx.post(self.processes[number].operations_url, json=body, auth=("admin", PASSWORD), timeout=30)

    def begin(self, number: int, job: str) -> str:
        """Run a job that does not end; the id of the job of the operation."""
        answer = self.ask(number, operation="run_scheduled_job", job=job)
        assert answer.status_code == 200, answer.text
        job_id = str(answer.json()["job_id"])
        wait_until(lambda: self.job(number, job_id)["status"] == "IN_PROGRESS")
        return job_id

    def job(self, number: int, job_id: str) -> dict[str, Any]:
        [found] = self.ask(number, operation="get_job", id=job_id).json()
        return dict(found)

    def run_of(self, number: int, job: str) -> dict[str, Any]:
        """The last run of a job of the application."""
        jobs = self.ask(number, operation="list_scheduled_jobs").json()
        return next(each for each in jobs if each["job"] == job)


@pytest.fixture
def servers(tmp_path: Path) -> Iterator[Servers]:
    made = Servers(tmp_path)
    yield made
    for process in made.processes:
        process.stop()


def test_jobs(servers: Servers) -> None:
    job_id, cancelled = servers.begin(0, "wait0"), servers.begin(1, "wait1")
    servers.processes.append(servers.start("third"))
    assert [servers.job(2, each)["status"] for each in (job_id, cancelled)] == ["IN_PROGRESS"] * 2, "a start ends no job of others"
    assert servers.ask(2, operation="run_scheduled_job", job="wait0").status_code == 200, "it is a job, which fails"
    assert servers.run_of(2, "wait0")["status"] == "running"

    assert servers.ask(0, operation="cancel_job", id=cancelled).status_code == 200
    wait_until(lambda: servers.job(0, cancelled)["status"] == "ERROR")
    assert servers.job(2, cancelled)["message"] == "cancelled by admin"

    servers.processes.pop(0).kill()
    wait_until(lambda: servers.job(0, job_id)["status"] == "ERROR")
    assert servers.job(1, job_id)["message"] == "interrupted by restart"
    wait_until(lambda: servers.run_of(1, "wait0")["status"] == "interrupted")
    servers.begin(1, "wait0")


def test_tickets(servers: Servers) -> None:
    with httpx.Client(auth=("admin", PASSWORD)) as client:
        client.put(f"{servers.processes[0].url}/Plant/1", json={}).raise_for_status()
        tickets = [client.post(f"{process.url}/ticket").json()["ticket"] for process in servers.processes]
    for number, ticket in enumerate(tickets):
        statuses = []
        for server in (1 - number, number, 1 - number):
            address = f"{servers.processes[server].url}/Plant/1?ticket={ticket}"
            with httpx.stream("GET", address, headers={"Accept": "text/event-stream"}) as answer:
                statuses.append(answer.status_code)
        assert statuses == [200, 401, 401]


def test_a_restore(servers: Servers) -> None:
    """Of a database that no application has: the other server reads what it has now."""

    def job(**body: Any) -> dict[str, Any]:
        job_id = servers.ask(0, **body).json()["job_id"]
        wait_until(lambda: servers.job(0, job_id)["status"] in ("COMPLETE", "ERROR"))
        return servers.job(0, job_id)

    def color() -> Any:
        found = servers.ask(1, operation="search_by_id", database="spare", table="dog", ids=["1"], get_attributes=["*"])
        return found.json()[0]["color"] if found.status_code == 200 and found.json() else found.text

    servers.ask(0, operation="create_table", database="spare", table="dog", primary_key="id").raise_for_status()
    servers.ask(1, operation="upsert", database="spare", table="dog", records=[{"id": "1", "color": "red"}]).raise_for_status()
    number = job(operation="create_backup", database="spare")["result"]["backup_id"]
    servers.ask(1, operation="upsert", database="spare", table="dog", records=[{"id": "1", "color": "blue"}]).raise_for_status()
    assert color() == "blue"
    restored = job(operation="restore_backup", database="spare", backup_id=number)
    assert restored["status"] == "COMPLETE", restored
    wait_until(lambda: color() == "red")
