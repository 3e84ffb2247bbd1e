"""Jobs, as operations report on them (spec: operations §4.1). How they run: `job_runs`."""

from __future__ import annotations

from collections.abc import Awaitable, Iterator, Mapping
from datetime import date, datetime
from typing import TYPE_CHECKING, Any

from svc.auth.users import User
from svc.errors import NotFound
from svc.operations.fields import Field, bad_request
from svc.operations.job import COMPLETE
from svc.operations.job_records import KEPT_JOBS, KEPT_SECONDS
from svc.operations.operation import ANYONE, SUPER_USER, Operation
from svc.store.values.records import to_ms

if TYPE_CHECKING:
    from svc.operations.call import Call

_ID = Field("id", "string", "Id of the job.", required=True)
_DAY_MS = 86_400_000


def iso_to_ms(text: str) -> tuple[int, bool] | None:
    """(ms since the epoch, whether only a day is given) of a date in ISO 8601; UTC if it has no time zone. None if it is invalid.

    >>> iso_to_ms("2026-01-01"), iso_to_ms("2021-01-25T22:05:27.464+0000"), iso_to_ms("yesterday")
    ((1767225600000, True), (1611612327464, False), None)
    """
    try:
        return to_ms(datetime.fromisoformat(text)), _is_day(text)
    except (ValueError, OverflowError):
        return None


def _is_day(text: str) -> bool:
    try:
        date.fromisoformat(text)
    except ValueError:
        return False
    return True


def get_job(call: Call) -> list[dict[str, Any]]:
    found = _find(call)
    return [] if found is None else [found]


def _find(call: Call) -> dict[str, Any] | None:
    """The job of this id; None if there is no such job, or if it is not the caller's: the job of another user has records and messages of that user."""
    found: dict[str, Any] | None = call.node.jobs.find(call["id"])
    if found is None or call.is_super_user or (call.user is not None and _is_owner(call.user, found)):
        return found
    return None


def _is_owner(user: User, job: Mapping[str, Any]) -> bool:
    """Whether the user started the job: the name is the user's, and the account is not newer than the job."""
    return bool(job.get("user") == user.username and user.created_ms <= job["created_datetime"])


def search_jobs_by_start_date(call: Call) -> Awaitable[list[dict[str, Any]]]:
    first, last = iso_to_ms(call["from_date"]), iso_to_ms(call["to_date"])
    faults = [
        f"Invalid '{name}' date, must be in ISO-8601 format (YYYY-MM-DD)." for name, time in (("from", first), ("to", last)) if time is None
    ]
    if first is None or last is None:
        raise bad_request(*faults)
    end_ms = last[0] + (_DAY_MS - 1 if last[1] else 0)
    return _collect(call, call.node.jobs.iter_between(first[0], end_ms))


async def _collect(call: Call, steps: Iterator[dict[str, Any] | None]) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []

    def collect() -> Iterator[None]:
        for record in steps:
            if record is not None:
                found.append(record)
            yield

    await call.node.store.slices.exhaust(collect())
    return found


async def cancel_job(call: Call) -> str:
    jobs, job_id = call.node.jobs, call["id"]
    if _find(call) is None:
        raise NotFound(f"Job '{job_id[:250]}' does not exist")
    if not await jobs.cancel(job_id, call.username or "super user"):
        raise bad_request(f"Job '{job_id}' has ended already")
    return f"Cancelling job with id {job_id}"


_EXAMPLE_ID = "2fe2a2c0-46e3-4a4e-93a0-9d6c2c9d9a57"
_EXAMPLE_JOB = {
    "id": _EXAMPLE_ID,
    "type": "csv_data_load",
    "status": COMPLETE,
    "user": "admin",
    "created_datetime": 1767225600000,
    "start_datetime": 1767225600004,
    "end_datetime": 1767225600152,
    "message": "successfully loaded 350 of 350 records",
    "start_datetime_converted": "2026-01-01T00:00:00.004Z",
    "end_datetime_converted": "2026-01-01T00:00:00.152Z",
}

OPERATIONS: tuple[Operation, ...] = (
    Operation(
        name="get_job",
        category="jobs",
        summary="Read the state of a job.",
        permission=ANYONE,
        handler=get_job,
        fields=(_ID,),
        returns="A list with the job, empty if no job has this id, or if another user started it: super users see all.",
        notes="`status` goes from `CREATED` over `IN_PROGRESS` to `COMPLETE` or `ERROR`; `message` says how it ended. A job that counts what it does "
        "has `progress` with `done` and, where that is known, `total`. Times are in ms since the epoch. The records of jobs that have ended are "
        f"kept for {KEPT_SECONDS / 86400:.0f} days, and at most {KEPT_JOBS} of them.",
        example={"id": _EXAMPLE_ID},
        example_answer=[_EXAMPLE_JOB],
        logged=False,
    ),
    Operation(
        name="search_jobs_by_start_date",
        category="jobs",
        summary="List the jobs that were started in a time range.",
        permission=SUPER_USER,
        handler=search_jobs_by_start_date,
        fields=(
            Field("from_date", "string", "Start of the range, ISO 8601; UTC if it has no time zone.", required=True),
            Field("to_date", "string", "End of the range, ISO 8601; a date without time is the whole day.", required=True),
        ),
        returns="A list of jobs as `get_job` shows them, in the order in which they were taken.",
        example={"from_date": "2026-01-01", "to_date": "2026-01-31"},
        example_answer=[_EXAMPLE_JOB],
    ),
    Operation(
        name="cancel_job",
        category="jobs",
        summary="Cancel a job that has not ended.",
        permission=ANYONE,
        handler=cancel_job,
        fields=(_ID,),
        returns="A message.",
        notes="The caller's own jobs, for super users any; else 404. The job ends as `ERROR` with the message `cancelled by <user>` as soon as it can; "
        "what it has written by then stays. If what it does can no longer be undone when it hears of it, it ends as it would have.",
        example={"id": _EXAMPLE_ID},
        example_answer={"message": f"Cancelling job with id {_EXAMPLE_ID}"},
    ),
)
