"""The jobs that applications run at set times (spec: console §8)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from svc.console.page import ConsolePage
from svc.console.texts import iso_of, seconds_text, segment
from svc.errors import Problem
from svc.messages import Response
from svc.pages.cells import LONG, cell_of, shortened
from svc.store.system import SCHEDULER_HISTORY_TABLE, SYSTEM

MOST = 500  # jobs that are listed
RUNS = 50  # of one job, in its history


@dataclass(slots=True)
class Run:
    """`error`: "" if there was none; `error_line`: its beginning."""

    number: str
    status: str
    scheduled: str
    started: str
    took: str
    by_hand: bool
    error: str
    error_line: str


@dataclass(slots=True)
class Row:
    application: str
    job: str
    title: str
    schedule: str
    handler: str
    next: str
    run: Run
    history: str


async def show(page: ConsolePage) -> Response:
    return await _show(page)


async def send(page: ConsolePage) -> Response:
    """Run a job now."""
    assert page.form is not None
    try:
        started = await page.run("run_scheduled_job", application=page.form.text("application"), job=page.form.text("job"))
    except Problem as fault:
        return await _show(page, fault)
    return page.see_other(f"jobs/{segment(started['job_id'])}", note=f"The job {page.form.text('job')} runs")


async def _show(page: ConsolePage, fault: Problem | None = None) -> Response:
    jobs = await page.run("list_scheduled_jobs")
    may_history = page.may("search_by_conditions", database=SYSTEM, table=SCHEDULER_HISTORY_TABLE)
    application, name = page.fields.get("application", ""), page.fields.get("job", "")
    runs: list[Run] | None = None
    if name and may_history:
        runs = await _history(page, application, name)
    return await page.show(
        "scheduler.html",
        fault=fault,
        rows=[_row(page, job, may_history) for job in jobs[:MOST]],
        count=len(jobs),
        runs=runs,
        chosen=shortened(name, 200),
        may_run=page.may("run_scheduled_job"),
        all_jobs=page.at("scheduler"),
    )


async def _history(page: ConsolePage, application: str, name: str) -> list[Run]:
    """The last runs of one job, the newest first."""
    conditions = [
        {"attribute": "application", "comparator": "equals", "value": application},
        {"attribute": "job", "comparator": "equals", "value": name},
    ]
    found = await page.run(
        "search_by_conditions",
        database=SYSTEM,
        table=SCHEDULER_HISTORY_TABLE,
        conditions=conditions,
        get_attributes=["*"],
        sort={"attribute": "number", "descending": True},
        limit=RUNS,
    )
    return [_run(each) for each in found]


def _row(page: ConsolePage, job: dict[str, Any], may_history: bool) -> Row:
    return Row(
        job["application"],
        job["job"],
        shortened(job["job"], 200),
        shortened(str(job["schedule"]), 200),
        shortened(str(job["handler"]), 200),
        iso_of(job["next"]),
        _run(job),
        page.at("scheduler", application=job["application"], job=job["job"]) if may_history else "",
    )


def _run(job: dict[str, Any]) -> Run:
    error = job.get("error") or ""
    return Run(
        str(job.get("number") or ""),
        cell_of(job.get("status") or "").text,
        iso_of(job.get("scheduled_at")),
        iso_of(job.get("started")),
        seconds_text(job.get("duration")),
        bool(job.get("by_hand")),
        shortened(error, 2 * LONG),
        shortened(error.strip().rpartition("\n")[2], 120),
    )
