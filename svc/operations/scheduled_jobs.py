"""The jobs that applications run at set times (spec: components §3.4)."""

from __future__ import annotations

from typing import Any

from svc.errors import NotFound, Problem
from svc.operations.call import Call
from svc.operations.fields import Field
from svc.operations.job import Job, JobFailed
from svc.operations.operation import SUPER_USER, Operation


def list_scheduled_jobs(call: Call) -> list[dict[str, Any]]:
    scheduler, application = call.node.scheduler, call["application"]
    return [] if scheduler is None else [job for job in scheduler.jobs() if application in (None, job["application"])]


def run_scheduled_job(call: Call) -> Any:
    scheduler, name = call.node.scheduler, str(call["job"])
    if scheduler is None:
        raise NotFound(f"There is no job '{name}'")
    scheduler.find(call["application"], name)  # what is wrong is said before there is a job

    async def work(job: Job) -> tuple[str, dict[str, Any]]:
        try:
            state = await scheduler.run_now(call["application"], name)
        except Problem as problem:
            raise JobFailed(problem.message) from None
        if state.error is not None:
            raise JobFailed(f"The job '{name}' has failed: {state.error}")
        return f"The job '{name}' has run", {"number": state.number, "status": state.status, "duration": state.duration}

    return call.node.jobs.start(call, work)


OPERATIONS: tuple[Operation, ...] = (
    Operation(
        name="list_scheduled_jobs",
        category="system",
        summary="List the jobs that applications run at set times, with how their last runs went.",
        permission=SUPER_USER,
        handler=list_scheduled_jobs,
        fields=(Field("application", "string", "Only jobs of this application."),),
        returns=(
            "For each job `application`, `job`, `schedule`, `handler`, `next` (ms; null: not known yet), `status` (`waiting`, `running`, `succeeded`, "
            "`failed`, `interrupted`), `scheduled_at`, `started`, `ended` (ms), `duration` (seconds), `error`, `number` and `by_hand` of the last run."
        ),
        notes="The last 1000 runs of each job are in `system.svc_scheduler_history`.",
        example={},
        example_answer=[
            {
                "application": "shop",
                "job": "nightly",
                "schedule": "30 2 * * * Europe/Berlin",
                "handler": "jobs.py#clean_up",
                "next": 1767663000000,
                "status": "succeeded",
                "scheduled_at": 1767576600000,
                "started": 1767576600004,
                "ended": 1767576601311,
                "duration": 1.307,
                "error": None,
                "number": 12,
                "by_hand": False,
            }
        ],
        logged=False,
    ),
    Operation(
        name="run_scheduled_job",
        category="system",
        summary="Run a job of an application now, whatever its schedule says.",
        permission=SUPER_USER,
        handler=run_scheduled_job,
        fields=(
            Field("job", "string", "Name of the job.", required=True),
            Field("application", "string", "Its application; needed where several have a job of that name."),
        ),
        returns=(
            "A message and the id of the job of this operation, which ends when the run has: as `ERROR` if it has failed, or was running already. "
            "404 for a name that no job has."
        ),
        notes="The function is called as at a time of its schedule, with `scheduled_at` now. The times of the schedule stay what they are. "
        "`svc job run NAME` is the same.",
        example={"job": "nightly"},
        example_answer={
            "message": "Starting job with id 2fe2a2c0-46e3-4a4e-93a0-9d6c2c9d9a57",
            "job_id": "2fe2a2c0-46e3-4a4e-93a0-9d6c2c9d9a57",
        },
        starts_job=True,
    ),
)
