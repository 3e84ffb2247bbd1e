"""The jobs that applications run at set times (spec: components §3.4)."""

from __future__ import annotations

from typing import Any

from svc.operations.call import Call
from svc.operations.fields import Field
from svc.operations.operation import SUPER_USER, Operation


def list_scheduled_jobs(call: Call) -> list[dict[str, Any]]:
    scheduler, application = call.node.scheduler, call["application"]
    return [] if scheduler is None else [job for job in scheduler.jobs() if application in (None, job["application"])]


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
            "`failed`, `interrupted`), `scheduled_at`, `started`, `ended` (ms), `duration` (seconds), `error` and `number` of the last run."
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
            }
        ],
    ),
)
