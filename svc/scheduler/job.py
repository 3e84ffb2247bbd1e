"""The entry `scheduler` of a config.yaml, and the functions that its jobs call (spec: components §3.2).

scheduler:
  jobs:
    - {name: nightly, cron: '30 2 * * *', timezone: Europe/Berlin, handler: 'jobs.py#clean_up'}
    - {name: poll, interval: 90s, handler: 'shop.feeds:poll'}
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from types import ModuleType
from typing import Any

from svc.scheduler.schedules import Schedule, read_cron, read_interval

MAX_JOBS = 1000  # of an application
_NAME = re.compile(r"[\w.\- ]{1,100}")
_IDENTIFIER = re.compile(r"[^\W\d]\w*(?:\.[^\W\d]\w*)*")
_KEYS = ("name", "cron", "interval", "timezone", "handler")


@dataclass(frozen=True, slots=True)
class JobRun:
    """What a handler is called with. `scheduled_at`: the moment of the schedule that it runs for, UTC. `catch_up`: that moment was missed, and is made up."""

    job_name: str
    scheduled_at: datetime
    catch_up: bool


@dataclass(frozen=True, slots=True)
class JobSpec:
    """One job. Its function is `function` of the file `file`, below the application with slashes, or of the module `module`; the other one is empty."""

    name: str
    schedule: Schedule
    file: str
    module: str
    function: str

    @property
    def handler(self) -> str:
        return f"{self.file}#{self.function}" if self.file else f"{self.module}:{self.function}"


def read_jobs(options: Mapping[str, Any]) -> tuple[list[JobSpec], list[str]]:
    """(the jobs of an entry, what is wrong with the others)."""
    unknown = [str(key) for key in options if key not in ("jobs", "package")]
    faults = [f"'{unknown[0]}' is not an option of scheduler; there is jobs"] if unknown else []
    given = options.get("jobs")
    if not isinstance(given, list):
        return [], [*faults, "jobs must be a list of jobs"]
    if len(given) > MAX_JOBS:
        return [], [*faults, f"there are {len(given)} jobs, and an application can have {MAX_JOBS}"]
    jobs: dict[str, JobSpec] = {}
    for number, entry in enumerate(given, 1):
        name = entry.get("name") if isinstance(entry, dict) else None
        place = f"job {name}" if isinstance(name, str) and _NAME.fullmatch(name) else f"job number {number}"
        try:
            job = _read_job(entry)
            if job.name in jobs:
                raise ValueError("an earlier job has the same name")
            jobs[job.name] = job
        except ValueError as error:
            faults.append(f"{place}: {error}")
    return list(jobs.values()), faults


def _read_job(entry: Any) -> JobSpec:
    if not isinstance(entry, dict):
        raise ValueError("it must be a mapping with name, cron or interval, and handler")
    unknown = [str(key) for key in entry if key not in _KEYS]
    if unknown:
        raise ValueError(f"'{unknown[0]}' is not one of {', '.join(_KEYS)}")
    name = entry.get("name")
    if not isinstance(name, str) or _NAME.fullmatch(name) is None:
        raise ValueError("name must be a string of at most 100 letters, digits, spaces and . _ -")
    if ("cron" in entry) == ("interval" in entry):
        raise ValueError("it needs cron or interval, one of the two")
    schedule: Schedule
    if "cron" in entry:
        schedule = read_cron(entry["cron"], entry.get("timezone"))
    elif entry.get("timezone") is not None:
        raise ValueError("timezone belongs to cron, not to interval")
    else:
        schedule = read_interval(entry["interval"])
    return JobSpec(name, schedule, *_read_handler(entry.get("handler")))


def _read_handler(given: Any) -> tuple[str, str, str]:
    """(file, module, function)."""
    if isinstance(given, str) and len(given) <= 1000:
        file, hash_, function = given.rpartition("#")
        if hash_ and file.endswith(".py") and _IDENTIFIER.fullmatch(function):
            file = file.removeprefix("./")
            if file.startswith("/") or ".." in file.split("/") or "\0" in file:
                raise ValueError(f"handler: '{file}' leads out of the application")
            return file, "", function
        module, colon, function = given.partition(":")
        if colon and _IDENTIFIER.fullmatch(module) and _IDENTIFIER.fullmatch(function):
            return "", module, function
    raise ValueError("handler must be 'jobs.py#function' or 'package.module:function'")


def bind_handler(module: ModuleType, spec: JobSpec) -> Callable[[JobRun], Any]:
    """The function of a job, to be called with a JobRun. One that takes no argument is called without. Raises ValueError."""
    found: Any = module
    for name in spec.function.split("."):
        found = getattr(found, name, None)
    if found is None:
        raise ValueError(f"handler: {spec.file or spec.module} has no {spec.function}")
    if not callable(found):
        raise ValueError(f"handler: {spec.function} of {spec.file or spec.module} is no function")
    if inspect.isgeneratorfunction(found) or inspect.isasyncgenfunction(found):
        raise ValueError(f"handler: {spec.function} of {spec.file or spec.module} is a generator, and is not iterated: remove its yield")
    try:
        signature = inspect.signature(found)
    except (TypeError, ValueError):  # of a function in C
        return found  # type: ignore[no-any-return]
    if _takes(signature, 1):
        return found  # type: ignore[no-any-return]
    if _takes(signature, 0):
        return lambda run: found()
    raise ValueError(f"handler: {spec.function} of {spec.file or spec.module} must take one argument, the run")


def _takes(signature: inspect.Signature, count: int) -> bool:
    try:
        signature.bind(*range(count))
    except TypeError:
        return False
    return True
