"""Jobs: those of a time, and one of them while it runs (spec: console §8)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from svc.console.page import ConsolePage
from svc.console.texts import iso_of, seconds_text, segment, whole
from svc.errors import NotFound, Problem
from svc.messages import Response
from svc.operations.job import COMPLETE, CREATED, ERROR, IN_PROGRESS
from svc.pages.cells import CELL, LONG, cell_of, lines_of

ROWS = 100  # jobs of a page
DAYS = 7  # whose jobs are listed, if no time is asked for
MOST_START = 10_000
STATES = (CREATED, IN_PROGRESS, COMPLETE, ERROR)
_DAY_MS = 86_400_000


@dataclass(slots=True)
class Row:
    href: str
    kind: str
    status: str
    user: str
    taken: str
    took: str
    message: str


async def show(page: ConsolePage) -> Response:
    if page.rest:
        return await _show_one(page)
    if page.fields.get("id"):
        return page.see_other(f"jobs/{segment(page.fields['id'])}")
    return await _show_list(page)


async def send(page: ConsolePage) -> Response:
    """Cancel the job."""
    job_id = _id(page)
    try:
        await page.run("cancel_job", id=job_id)
    except Problem as fault:
        return await _show_one(page, fault)
    return page.see_other(f"jobs/{segment(job_id)}", note="The job is being cancelled")


def _id(page: ConsolePage) -> str:
    if len(page.rest) != 1:
        raise NotFound("There is no such page")
    return page.rest[0]


async def _show_list(page: ConsolePage) -> Response:
    may_list = page.may("search_jobs_by_start_date")
    today = page.node.clock.wall() * 1000 // _DAY_MS * _DAY_MS
    first = page.fields.get("from") or iso_of(today - (DAYS - 1) * _DAY_MS)[:10]
    last = page.fields.get("until") or iso_of(today)[:10]
    status, start = page.fields.get("status", ""), whole(page.fields, "start", 0, MOST_START)
    fault: Problem | None = None
    found: list[dict[str, Any]] = []
    if may_list:
        try:
            found = await page.run("search_jobs_by_start_date", from_date=first, to_date=last)
        except Problem as problem:
            fault = problem
    chosen = [job for job in reversed(found) if status in ("", job["status"])]
    given = {"from": first, "until": last, "status": status}
    return await page.show(
        "jobs.html",
        fault=fault,
        may_list=may_list,
        rows=[_row(page, job) for job in chosen[start : start + ROWS]],
        count=len(chosen),
        start=start,
        first=first,
        last=last,
        status_chosen=status,
        states=STATES,
        older=page.at("jobs", **given, start=str(start + ROWS)) if len(chosen) > start + ROWS else "",
        newer=page.at("jobs", **given, start=str(max(0, start - ROWS) or "")) if start else "",
    )


def _row(page: ConsolePage, job: dict[str, Any]) -> Row:
    return Row(
        page.at(f"jobs/{segment(job['id'])}"),
        cell_of(job["type"]).text,
        job["status"],
        cell_of(job.get("user") or "").text,
        iso_of(job["created_datetime"]),
        _took(job),
        "" if job.get("message") is None else cell_of(job["message"], CELL).text,
    )


def _took(job: dict[str, Any]) -> str:
    began, ended = job.get("start_datetime"), job.get("end_datetime")
    return "" if began is None or ended is None else seconds_text((ended - began) / 1000)


async def _show_one(page: ConsolePage, fault: Problem | None = None) -> Response:
    job_id = _id(page)
    found = await page.run("get_job", id=job_id)
    if not found:
        raise NotFound("There is no job with this id, or it is one of another user")
    [job] = found
    has_ended = job["status"] in (COMPLETE, ERROR)
    progress = job.get("progress") or {}
    trees = {name: job[name] for name in ("result", "faults") if job.get(name) is not None}
    if isinstance(job.get("message"), dict | list):
        trees["message"] = job["message"]
    budget = [1000]
    return await page.show(
        "job.html",
        title=f"Job {cell_of(job['type']).text}",
        fault=fault,
        job=_row(page, job),
        job_id=cell_of(job["id"]).text,
        message="" if "message" in trees or job.get("message") is None else cell_of(job["message"], LONG).text,
        began=iso_of(job.get("start_datetime")),
        ended=iso_of(job.get("end_datetime")),
        has_ended=has_ended,
        done=progress.get("done"),
        total=progress.get("total"),
        trees=[(name, lines_of(value, budget)) for name, value in trees.items()],
        may_cancel=not has_ended and page.may("cancel_job"),
        may_list=page.may("search_jobs_by_start_date"),
    )
