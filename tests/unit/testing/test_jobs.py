"""Jobs of the application run when the clock of the test is moved."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest

CONFIG = """
rest: true
graphqlSchema: {files: schema.graphql}
scheduler:
  jobs:
    - {name: hourly, cron: '@hourly', handler: 'jobs.py#note'}
    - {name: slow, interval: 6h, handler: 'jobs.py#slow'}
"""
JOBS = """
import asyncio

async def note(run):
    await tables.Run.put({"id": run.scheduled_at.isoformat(), "job": run.job_name, "late": run.catch_up})

async def slow(run):
    await asyncio.sleep(7 * 3600)
    await tables.Run.put({"id": "slow " + run.scheduled_at.isoformat(), "job": run.job_name, "late": run.catch_up})
"""


@pytest.fixture
def shop(svc_app_factory: Any, tmp_path: Path) -> Any:
    directory = tmp_path / "shop"
    directory.mkdir()
    (directory / "config.yaml").write_text(CONFIG)
    (directory / "schema.graphql").write_text("type Run @table @export { id: ID @primaryKey  job: String @indexed  late: Boolean }")
    (directory / "jobs.py").write_text(dedent(JOBS))
    return svc_app_factory(directory, now=datetime(2030, 1, 1, 0, 30, tzinfo=UTC))


def test_a_day_has_all_its_runs(shop: Any) -> None:
    shop.clock.advance(86400)
    runs = shop.get("/Run/?job=hourly").json
    assert sorted(run["id"] for run in runs) == [
        *(f"2030-01-01T{hour:02}:00:00+00:00" for hour in range(1, 24)),
        "2030-01-02T00:00:00+00:00",
    ]
    assert not any(run["late"] for run in runs)
    slow = {run["id"]: run["late"] for run in shop.get("/Run/?job=slow").json}
    assert slow == {"slow 2030-01-01T06:30:00+00:00": False, "slow 2030-01-01T12:30:00+00:00": True}


def test_a_job_is_run_by_hand(shop: Any) -> None:
    assert shop.run_job("hourly") == {"status": "succeeded", "error": None, "duration": 0.0, "number": 1}
    assert [run["id"] for run in shop.get("/Run/").json] == ["2030-01-01T00:30:00+00:00"]
    assert shop.run_job("slow", "shop", seconds=8 * 3600)["duration"] == 7 * 3600.0, "time passes while it is waited for"
