"""The entry `scheduler`: functions of the application that run at set times (spec: components §3)."""

from __future__ import annotations

import asyncio
import importlib
from collections.abc import Callable
from types import ModuleType
from typing import Any

from svc.apps.code import CodeVersion
from svc.apps.entry import EntryContext, LoadedEntry
from svc.apps.load_limit import load_limit
from svc.apps.modules import ModuleFault
from svc.loop import is_ours
from svc.scheduler import JobRun, JobSpec, Scheduler, bind_handler, read_jobs


class SchedulerEntry(LoadedEntry):
    """`jobs`: with their functions. In effect they are those of the application, in place of the ones that it had."""

    def __init__(self, context: EntryContext, scheduler: Scheduler) -> None:
        super().__init__(context)
        self.jobs: list[tuple[JobSpec, Callable[[JobRun], Any]]] = []
        self._scheduler = scheduler
        self._is_active = False

    def activate(self) -> None:
        self._is_active = True
        self._scheduler.set(self.context.app.name, self.jobs)

    def withdraw(self) -> None:
        if self._is_active:
            self._scheduler.remove(self.context.app.name)


async def load_scheduler(context: EntryContext) -> LoadedEntry | None:
    code, scheduler, status = context.code, context.runtime.scheduler, context.status
    if code is None or scheduler is None:
        return None
    entry = SchedulerEntry(context, scheduler)
    jobs, faults = await context.runtime.in_thread(read_jobs, context.options)
    for fault in faults:
        status.fail(fault)
    for spec in jobs:
        await asyncio.sleep(0)  # each module in a turn of its own
        try:
            entry.jobs.append((spec, bind_handler(_load_module(context, code, spec), spec)))
        except ModuleFault as module_fault:
            status.fail(f"job {spec.name}: {module_fault}", module_fault.details)
        except ValueError as error:
            status.fail(f"job {spec.name}: {error}")
    return entry


def _load_module(context: EntryContext, code: CodeVersion, spec: JobSpec) -> ModuleType:
    """The module of a job's function. Raises ModuleFault, ValueError."""
    directory = context.app.directory.resolve()
    if spec.file:
        path = directory / spec.file
        if not path.resolve().is_relative_to(directory):
            raise ValueError(f"handler: '{spec.file}' leads out of the application")
        if not path.is_file():
            raise ValueError(f"handler: there is no file {spec.file}")
        return code.load(path)
    own = code.modules.find(spec.module)
    return code.load(own) if own is not None else _import_installed(code, spec.module)


def _import_installed(code: CodeVersion, name: str) -> ModuleType:
    """A module of a package that is installed, for the application or for all."""
    try:
        with code.loading(), load_limit():
            return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is not None and (name == error.name or name.startswith(f"{error.name}.")):
            raise ValueError(f"handler: there is no module {name}, in the application or among the packages that are installed") from None
        raise ValueError(f"handler: {name}: {error}") from error
    except BaseException as error:
        if is_ours(error):
            raise
        raise ValueError(f"handler: {name}: {type(error).__name__}: {error}") from error
