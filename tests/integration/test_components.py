"""Data, variables and jobs of an application in the real process (spec: components)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.integration.conftest import Process
from tests.support.waiting import wait_until

pytestmark = pytest.mark.programs

CONFIG = """
loadEnv: {files: .env}
rest: true
graphqlSchema: {files: schema.graphql}
dataLoader: {files: 'data/*'}
resources: {files: resources.py}
scheduler:
  jobs:
    - {name: tick, interval: 1, handler: 'jobs.py#tick'}
    - {name: broken, interval: 1s, handler: 'jobs.py#broken'}
    - {name: slow, interval: 2s, handler: 'jobs.py#slow'}
    - {name: yearly, cron: '@yearly', timezone: Europe/Berlin, handler: 'jobs.py#tick'}
"""
SCHEMA = """
type Run @table @export { id: ID @primaryKey  job: String  catchUp: Boolean }
type Town @table @export { id: ID @primaryKey  name: String  founded: Date }
"""
JOBS = """
import time

async def tick(run):
    await tables.Run.put({"id": run.scheduled_at.isoformat(), "job": run.job_name, "catchUp": run.catch_up})

def broken(run):
    raise ValueError("no more stock")

def slow(run):
    time.sleep(0.2)
"""
RESOURCES = """
import os
from svc import Resource

class Variable(Resource):
    def allow_read(self, user, target):
        return True
    def get(self, query=None):
        return {"HTTP_PORT": os.environ.get("HTTP_PORT"), "GREETING": os.environ.get("GREETING"), "HTTP_TIMEOUT": os.environ.get("HTTP_TIMEOUT")}
"""


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Process]:
    app = tmp_path / "shop"
    files = {
        "config.yaml": CONFIG,
        "schema.graphql": SCHEMA,
        "jobs.py": JOBS,
        "resources.py": RESOURCES,
        ".env": "HTTP_PORT=1\nGREETING='good day'\nHTTP_TIMEOUT=1\n",
        "data/towns.yaml": "table: Town\nrecords:\n  - {id: ber, name: Berlin, founded: 1237-10-28}\n  - {id: 5}\n",
    }
    for name, text in files.items():
        (app / name).parent.mkdir(parents=True, exist_ok=True)
        (app / name).write_text(text)
    process = Process(tmp_path / "root", app).start()
    yield process
    process.kill()


def history(server: Process, job: str) -> list[dict[str, Any]]:
    answer = server.operate(
        "search_by_value", database="system", table="svc_scheduler_history", attribute="job", value=job, get_attributes=["*"]
    )
    assert answer.status_code == 200, answer.text
    return sorted(answer.json(), key=lambda run: run["number"])


def test_components_work_in_a_server_and_survive_its_restart(server: Process) -> None:
    with server.client() as client:
        assert client.get("/Town/ber").json() == {"id": "ber", "name": "Berlin", "founded": "1237-10-28T00:00:00.000Z"}
        variables = {"HTTP_PORT": str(server.port), "GREETING": "good day", "HTTP_TIMEOUT": "1"}
        assert client.get("/Variable").json() == variables
        wait_until(lambda: len(history(server, "tick")) >= 2)
        first = history(server, "tick")[0]
        assert (first["status"], first["application"]) == ("succeeded", "shop")
        assert client.get("/Run/").json()[0]["job"] == "tick"

        assert "data/towns.yaml: record 1 (id 5, line 4): " in server.operate("get_status").text
        wait_until(lambda: history(server, "broken"))
        assert "ValueError: no more stock" in wait_until(lambda: history(server, "broken")[0]["error"])
        wait_until(lambda: "job broken has failed" in server.logged() and 'jobs.py", line 8, in broken' in server.logged(), server.logged)
        wait_until(lambda: "slow (jobs.py" in server.logged(), server.logged)  # what holds the loop is named

        runs = len(client.get("/Run/").json())
        pid = server.pid
        logged = server.logged().count("successfully started")
        assert server.operate("restart").status_code == 200
        wait_until(lambda: server.logged().count("successfully started") > logged)
        wait_until(lambda: [each.pid for each in server.instances] not in ([], [pid]) and len(server.instances) == 1)
        wait_until(lambda: len(client.get("/Run/").json()) > runs)
        assert client.get("/Variable").json() == variables, "the port of the service is what it was"
        number = max(run["number"] for run in history(server, "tick"))

    server.kill()
    server.start()
    with server.client() as client:
        wait_until(lambda: max(run["number"] for run in history(server, "tick")) > number)
        times = [run["scheduled_at"] for run in history(server, "tick")]
        assert times == sorted(set(times))
        state = server.operate("search_by_id", database="system", table="svc_scheduler_state", ids=["shop:yearly"]).json()[0]
        assert (state["status"], state["schedule"], state["number"]) == ("waiting", "0 0 1 1 * Europe/Berlin", 0)
    assert server.stop() == 0
    assert "good day" not in server.logged()
