"""Jobs and the scheduler in the console (spec: console §8)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest

from svc.auth.users import User
from svc.operations.call import Call
from svc.operations.job import Job, JobFailed
from svc.operations.operation import SUPER_USER, Operation
from svc.scheduler import JobRun, Scheduler
from tests.support.console import ConsoleSite
from tests.support.scheduling import specs

HOSTILE = "\"'><img src=x onerror=alert(1)>"
ROW = Operation("work", "jobs", "", SUPER_USER, lambda call: None)


@pytest.fixture
def site(tmp_path: Path) -> Iterator[ConsoleSite]:
    made = ConsoleSite(tmp_path)
    yield made
    made.close()


def start(site: ConsoleSite, work: Callable[[Job], Awaitable[Any]], user: User | None = None, kind: str = "work") -> str:
    """The id of a job."""
    node = site.node
    call = Call(node.node, ROW, "work", {"operation": "work"}, {}, node.admin if user is None else user)
    started = node.wait(lambda: node.node.jobs.start(call, work, kind=kind))
    return started["job_id"]  # type: ignore[no-any-return]


def finish(site: ConsoleSite, job_id: str) -> dict[str, Any]:
    return site.node.finished({"job_id": job_id})


async def until_begun(site: ConsoleSite, job_id: str) -> None:
    """Let turns of the loop pass."""
    while "progress" not in site.node.node.jobs._jobs[job_id].record:  # noqa: ASYNC110 - what it waits for is no event
        await asyncio.sleep(0)


async def done(job: Job) -> Any:
    return "all is done", {"count": 3}


async def failed(job: Job) -> Any:
    job.note_faults([{"line": 2, "error": HOSTILE}])
    raise JobFailed(HOSTILE)


async def endless(job: Job) -> Any:
    await job.progress(3, 10)
    await asyncio.get_running_loop().create_future()


# --- the list -------------------------------------------------------------------------------------------------------------------------


def test_jobs_are_listed_the_newest_first(site: ConsoleSite) -> None:
    assert "No jobs in this time." in site.get("/console/jobs").page.text
    first = start(site, done)
    finish(site, first)
    site.node.clock.advance(1)
    second = start(site, failed, kind=HOSTILE)
    finish(site, second)
    page = site.get("/console/jobs").page
    assert [row[1:4] for row in page.rows] == [["Kind", "State", "User"], [HOSTILE, "ERROR", "admin"], ["work", "COMPLETE", "admin"]]
    assert page.links[HOSTILE] == f"./jobs/{second}" and page.rows[1][5] == HOSTILE
    failures = site.get("/console/jobs?status=ERROR").page
    assert len(failures.rows) == 2 and "selected" in failures.find("option", value="ERROR")
    assert len(site.get("/console/jobs?from=2020-01-01&until=2020-01-02").page.rows) == 0


def test_a_list_in_pages(site: ConsoleSite) -> None:
    for number in range(103):
        finish(site, start(site, done, kind=f"work {number}"))
        site.node.clock.advance(1)
    page = site.get("/console/jobs").page
    assert len(page.rows) == 101 and "103 jobs, 1 to 100 are shown" in page.text
    older = site.get("/console/jobs?" + page.links["Older"].partition("?")[2]).page
    assert [row[1] for row in older.rows[1:]] == ["work 2", "work 1", "work 0"] and "Older" not in older.links
    assert len(site.get("/console/jobs?" + older.links["Newer"].partition("?")[2]).page.rows) == 101


@pytest.mark.parametrize("fields", [{"from": "yesterday"}, {"until": HOSTILE}])
def test_times_that_are_none(site: ConsoleSite, fields: dict[str, str]) -> None:
    answer = site.get(f"/console/jobs?{urlencode(fields)}")
    assert answer.status == 400 and "must be in ISO-8601 format" in answer.page.text
    [(name, value)] = fields.items()
    assert answer.page.find("input", name=name)["value"] == value


# --- one job --------------------------------------------------------------------------------------------------------------------------


def test_a_job_that_is_done(site: ConsoleSite) -> None:
    job_id = start(site, done)
    finish(site, job_id)
    page = site.get(f"/console/jobs/{job_id}").page
    assert "COMPLETE" in page.text and "all is done" in page.text and "count" in page.text and "Result" in page.text
    assert "data-poll" not in page.find("section", id="job") and page.reload == "" and "Cancel the job" not in page.text
    assert site.get(f"/console/jobs?id={job_id}").location == f"./jobs/{job_id}"


def test_a_job_that_failed(site: ConsoleSite) -> None:
    job_id = start(site, failed)
    finish(site, job_id)
    page = site.get(f"/console/jobs/{job_id}").page
    assert "ERROR" in page.text and "Faults" in page.text and page.text.count(HOSTILE) == 2


def test_a_running_job_is_followed_and_cancelled(site: ConsoleSite) -> None:
    job_id = start(site, endless)
    site.node.wait(lambda: until_begun(site, job_id))
    page = site.get(f"/console/jobs/{job_id}").page
    assert (
        page.find("section", id="job")["data-poll"] == "1"
        and page.reload == "3"
        and page.find("progress", max="10", value="3")
        and "3 of 10" in page.text
    )
    assert site.post(f"/console/jobs/{job_id}", {"do": "cancel"}, token="x" * 32).status == 403
    answer = site.post(f"/console/jobs/{job_id}", {"do": "cancel"})
    assert answer.status == 303 and answer.location == f"../jobs/{job_id}?note=The+job+is+being+cancelled"
    assert finish(site, job_id)["message"] == "cancelled by admin"
    again = site.post(f"/console/jobs/{job_id}", {"do": "cancel"}, token=page.find("input", name="_token")["value"])
    assert again.status == 400 and "has ended already" in again.page.text


@pytest.mark.parametrize("path", ["nosuch", "a/b", "%00", "x" * 300, "%E2%80%AE"])
def test_a_job_that_is_not_there(site: ConsoleSite, path: str) -> None:
    assert site.get(f"/console/jobs/{path}").status == 404
    token = site.get("/console/jobs").page.find("input", name="_token")["value"]
    assert site.post(f"/console/jobs/{path}", {}, token=token).status == 404


def test_a_user_finds_its_own_jobs(site: ConsoleSite) -> None:
    ann, ben = site.node.user("ann", {}), site.node.user("ben", {})
    job_id = start(site, endless, ann)
    listed = site.get("/console/jobs", ann)
    assert listed.status == 200 and "for super users" in listed.page.text
    assert site.get(f"/console/jobs/{job_id}", ann).status == 200
    assert site.get(f"/console/jobs/{job_id}", ben).status == 404
    token = site.get("/console/jobs", ben).page.find("input", name="_token")["value"]
    assert site.post(f"/console/jobs/{job_id}", {}, ben, token=token).status == 404
    assert site.post(f"/console/jobs/{job_id}", {}, ann).status == 303
    assert finish(site, job_id)["message"] == "cancelled by ann"
    assert site.get(f"/console/jobs/{job_id}", None).status == 401
    assert site.get("/console/jobs", site.node.user("log", {"operations": ["read_log"]})).status == 403


# --- the scheduler --------------------------------------------------------------------------------------------------------------------


@pytest.fixture
def scheduler(site: ConsoleSite) -> Iterator[Scheduler]:
    node = site.node
    made = node.node.scheduler = Scheduler(node.store, node.clock, node.loop, "this", {"this"}.__contains__)
    yield made
    made._is_stopped = True


def test_no_scheduled_jobs(site: ConsoleSite, scheduler: Scheduler) -> None:
    assert "No application has scheduled jobs." in site.get("/console/scheduler").page.text


def test_scheduled_jobs_are_run_by_hand(site: ConsoleSite, scheduler: Scheduler) -> None:
    runs: list[JobRun] = []

    def handle(run: JobRun) -> None:
        runs.append(run)
        if len(runs) == 2:
            raise ValueError(HOSTILE)

    (job,) = specs({"name": "a", "interval": 60})
    scheduler.set("shop", [(job, handle)])
    page = site.get("/console/scheduler").page
    assert page.rows[1][0].startswith("shop: a") and page.rows[1][2] == "every 60000 ms" and page.find("section", id="scheduled")["data-poll"] == "5"
    form = {
        each["name"]: each["value"] for tag, each in page.elements if tag == "input" and each.get("name") in ("do", "application", "job")
    }
    for _ in range(2):
        answer = site.post("/console/scheduler", form)
        assert answer.status == 303 and answer.location.startswith("./jobs/")
        finish(site, answer.location.partition("jobs/")[2].partition("?")[0])
        site.node.clock.advance(1)
    page = site.get("/console/scheduler").page
    assert page.rows[1][5] == "failed by hand" and HOSTILE in page.rows[1][7] and "Traceback" in page.rows[1][7]
    history = site.get("/console/scheduler?" + page.links["a"].partition("?")[2]).page
    assert [row[:2] for row in history.rows[1:]] == [["2", "failed by hand"], ["1", "succeeded by hand"]]
    assert len(history.links["All scheduled jobs"]) > 2


def test_a_scheduled_job_that_is_not_there(site: ConsoleSite, scheduler: Scheduler) -> None:
    (job,) = specs({"name": "a", "interval": 60})
    scheduler.set("shop", [(job, lambda run: None)])
    answer = site.post("/console/scheduler", {"do": "run", "application": "shop", "job": HOSTILE})
    assert answer.status == 404 and "There is no job" in answer.page.text and len(answer.page.rows) == 2
    assert "It has not run yet." in site.get(f"/console/scheduler?{urlencode({'application': 'x', 'job': HOSTILE})}").page.text


def test_who_may_run_scheduled_jobs(site: ConsoleSite, scheduler: Scheduler) -> None:
    (job,) = specs({"name": "a", "interval": 60})
    scheduler.set("shop", [(job, lambda run: None)])
    watcher = site.node.user("watcher", {"operations": ["list_scheduled_jobs"]})
    page = site.get("/console/scheduler", watcher).page
    assert "shop: a" in page.text and "Run now" not in page.text and "a" not in page.links
    assert site.post("/console/scheduler", {"application": "shop", "job": "a"}, watcher).status == 403
    for permission in ({}, {"structure_user": True}, {"operations": ["read_log"]}):
        assert site.get("/console/scheduler", site.node.user("other", permission)).status == 403
