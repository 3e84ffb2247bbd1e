"""Loading an application in all processes that have it: the new version serves everywhere or nowhere (spec: deployment §8).

    one process                            each other that has the application
    loads it aside         -- LOAD -->     loads it aside
    collects the votes     <---------      says that it can switch, or why not; then it waits for what is decided
    decides, and switches  - DECIDED ->    switches, or goes on with the version before
    collects how it went   - SWITCHED ->

It is decided by `siblings.Decision`: each process that has said yes abides by it, also one that hangs meanwhile. If the one that collects ends, or does not
decide in time, those that wait decide themselves that nothing changes. One of all loads goes on at a time (GATE), and no process starts meanwhile: one
that does would load either version.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from concurrent.futures import Executor
from contextlib import asynccontextmanager, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar
from uuid import uuid4

from svc.apps import App, Applications
from svc.apps.app import faults_of
from svc.apps.load_limit import LOAD_SECONDS
from svc.apps.packages import import_ahead
from svc.errors import ServerError
from svc.siblings import Answer, Decision, Siblings

if TYPE_CHECKING:
    from svc.config import Config
    from svc.logs import Logs
    from svc.operations.status_board import StatusBoard

_Result = TypeVar("_Result")

LOAD = "load an application"
DECIDED = "whether an application that was loaded serves"
SWITCHED = "how an application serves"
FOLLOW = "load the version of an application that is there, if another one serves"
CHANGED = "an application has changed, which waits for a restart"
FILES = "files of an application have changed"
NEEDED = "directories of versions that are needed"

GATE = "loads of applications"
GATE_SECONDS = 2 * LOAD_SECONDS  # that a load waits for others, and for processes that start
GATE_PAUSE = 0.05
LOAD_LIMIT = LOAD_SECONDS + 10  # seconds that the others have to load a version
SWITCH_LIMIT = 10.0  # ... and to switch to it
PATIENCE = LOAD_LIMIT + 20  # seconds after which one that waits for the decision makes it
NEEDED_SECONDS = 5.0  # to say what is needed
LOOK_PAUSE = 1.0  # between two looks at whether the one that decides lives

SERVES, STAYS = "the new version serves", "nothing changes"
UNKNOWN = "it cannot be loaded"
LATE = "it took too long: the other processes did not wait any longer"


class LoadNode(Protocol):
    """The parts of `node.Node` that loads use."""

    loop: asyncio.AbstractEventLoop
    executor: Executor
    config: Config
    logs: Logs
    status: StatusBoard
    siblings: Siblings
    apps: Sequence[App]

    @property
    def projects_changing(self) -> list[str]: ...

    def take_entry(self, project: str, entry: Mapping[str, Any] | None) -> None: ...


class _Part:
    """What this process does of a load that another one has asked for."""

    def __init__(self, loop: asyncio.AbstractEventLoop, decision: Decision, asker: str) -> None:
        self.decision = decision
        self.asker = asker
        self.vote: asyncio.Future[list[str]] = loop.create_future()
        self.ended: asyncio.Future[list[str]] = loop.create_future()
        self.told = asyncio.Event()


class SharedLoads:
    """Of one process. `is_open`: it takes part in the loads of others."""

    def __init__(self, node: LoadNode) -> None:
        self._node = node
        self.is_open = False
        self._parts: dict[str, _Part] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def _applications(self) -> Applications | None:
        apps = self._node.apps
        return apps if isinstance(apps, Applications) else None

    async def _in_thread(self, function: Callable[[], _Result]) -> _Result:
        return await self._node.loop.run_in_executor(self._node.executor, function)

    # --- the one that loads --------------------------------------------------------------------------------------------------------------

    @asynccontextmanager
    async def gate(self, *, shared: bool = False) -> AsyncIterator[None]:
        """Nothing else is loaded in any process; `shared`: nothing is that others take part in. Raises 503 if that lasts."""
        now = self._node.loop.time
        end = now() + GATE_SECONDS
        while (lock := self._node.siblings.maybe_lock(GATE, shared=shared)) is None:
            if now() >= end:
                raise ServerError(
                    "Another process over the same databases loads applications, or starts, and does not end that. Try again.", 503
                )
            await asyncio.sleep(GATE_PAUSE)
        try:
            yield
        finally:
            lock.release()

    async def load(
        self,
        directory: Path,
        *,
        entry: Mapping[str, Any] | None = None,
        modules: Sequence[str] = (),
        files: Sequence[str] = (),
        goes_back: bool = False,
    ) -> list[str]:
        """Load what is in the directory of an application now, or withdraw that if it is not there any more; in the `gate`. Returns why the version before
        goes on; then it does everywhere.

        `entry`: of the configuration, for the others. `modules`, `files`: of a trial load. `goes_back`: what fails leaves no trace in the statuses.
        """
        applications = self._applications
        assert applications is not None
        name = directory.name
        decision = self._node.siblings.decision(load_id := str(uuid4()))
        message = {
            "id": load_id,
            "asker": self._node.siblings.identity,
            "directory": _place(directory),
            "entry": None if entry is None else dict(entry),
            "modules": list(modules),
            "files": list(files),
            "goes_back": goes_back,
        }
        asking = self._node.loop.create_task(self._node.siblings.ask(LOAD, message, LOAD_LIMIT))
        found: list[str] = []
        is_decided = takes_part = False

        async def decide(faults: list[str]) -> bool:
            nonlocal found, is_decided, takes_part
            answers = await asking
            is_decided = True
            takes_part = any(answer.error is not None or answer.value is not None for answer in answers)
            found = [*self._own(name, faults, goes_back), *_said(answers)]
            if not takes_part:
                return not found
            try:
                if not found:
                    decision.remove_others()
                outcome = decision.decide(STAYS if found else SERVES)
            except OSError as error:
                found.append(f"what is decided could not be written: {error.strerror}")
                return False
            self._node.siblings.tell(DECIDED, load_id)
            if not found and outcome != SERVES:
                found = [LATE]
            return not found

        try:
            if not await self._in_thread(directory.is_dir):
                await applications.remove(name)
                await asking
                return []
            if modules or files:
                await self._in_thread(partial(import_ahead, directory, modules, files))
            app = await applications.add(directory, name, decide)
            if not is_decided:
                await decide(faults_of(app.entries) or [UNKNOWN])
            if found:
                return found
            return [*faults_of(app.entries), *(await self._switched(load_id) if takes_part else ())]
        finally:
            asking.cancel()

    async def _switched(self, load_id: str) -> list[str]:
        """How it went at the others. One that does not answer switches when it goes on."""
        answers = await self._node.siblings.ask(SWITCHED, load_id, SWITCH_LIMIT)
        for answer in answers:
            if answer.error is not None:
                self._node.logs.logger.warn("process", answer.number, "has not said how a loaded application serves:", answer.error)
        return _said([answer for answer in answers if answer.error is None])

    def _own(self, name: str, faults: list[str], goes_back: bool) -> list[str]:
        """The faults that count: what does not serve yet is loaded once more as at the start, where all that can be serves."""
        app = None if self._applications is None else self._applications.get(name)
        return faults if goes_back or (app is not None and app.is_serving) else []

    # --- the others ----------------------------------------------------------------------------------------------------------------------

    def answer_siblings(self) -> None:
        siblings = self._node.siblings
        siblings.answer(LOAD, self._take_part)
        siblings.answer(DECIDED, self._decided)
        siblings.answer(SWITCHED, self._how_it_went)
        siblings.answer(FOLLOW, self._follow)
        siblings.answer(CHANGED, self._changed)
        siblings.answer(FILES, self._files_changed)
        siblings.answer(NEEDED, lambda _: self.needed())

    def has(self, directory: str) -> bool:
        """Whether an application in this directory would be one of this process."""
        name = os.path.basename(directory)
        app = None if self._applications is None else self._applications.get(name)
        return _place(self._node.config.components_root / name if app is None else app.directory) == directory

    async def _take_part(self, message: Mapping[str, Any]) -> list[str] | None:
        """Returns why this process cannot switch; None: it has nothing to do with the application."""
        applications = self._applications
        directory = message["directory"]
        if applications is None or not self.is_open or not self.has(directory):
            return None
        name = os.path.basename(directory)
        app = applications.get(name)
        place = self._node.config.components_root / name if app is None else app.directory
        if not await self._in_thread(place.is_dir):
            await applications.remove(name)
            return []
        if os.environ.get("SVC_SAFE_MODE"):  # no application is loaded
            self._node.status.component_changed(name)
            return None
        self._parts = {key: part for key, part in self._parts.items() if not part.ended.done()}
        part = self._parts[message["id"]] = _Part(self._node.loop, self._node.siblings.decision(message["id"]), message["asker"])
        task = self._node.loop.create_task(self._load_part(part, applications, place, message))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        task.add_done_callback(lambda task: _end(part))
        return await asyncio.shield(part.vote)

    async def _load_part(self, part: _Part, applications: Applications, place: Path, message: Mapping[str, Any]) -> None:
        name, goes_back = place.name, message["goes_back"]
        app: App | None = applications.get(name)
        before = None if app is None else dict(app.entries)
        former_entry = applications.runtime.components.get(name)
        if message["entry"] is not None:
            self._node.take_entry(name, message["entry"] or None)
        if message["modules"] or message["files"]:
            await self._in_thread(partial(import_ahead, place, message["modules"], message["files"]))
        serves = False

        async def decide(faults: list[str]) -> bool:
            nonlocal serves
            found = self._own(name, faults, goes_back)
            part.vote.set_result(found)
            serves = not found and await self._wait(part)
            return serves

        app = await applications.add(place, name, decide)
        if serves:
            self._node.status.component_loaded(name)
        else:
            if message["entry"] is not None:
                self._node.take_entry(name, former_entry if isinstance(former_entry, Mapping) else None)
            if goes_back and before is not None:
                app.entries = before
        if not part.vote.done():
            part.vote.set_result(faults_of(app.entries) or [UNKNOWN])
        part.ended.set_result(faults_of(app.entries) if serves else [])

    async def _wait(self, part: _Part) -> bool:
        """Whether the version serves, as soon as it is decided."""
        now = self._node.loop.time
        end = now() + PATIENCE
        while (outcome := part.decision.maybe_read()) is None:
            if now() >= end or not self._node.siblings.is_alive(part.asker):
                outcome = part.decision.decide(STAYS)
                break
            with suppress(TimeoutError):
                await asyncio.wait_for(part.told.wait(), LOOK_PAUSE)
        return outcome == SERVES

    def _decided(self, load_id: str) -> None:
        part = self._parts.get(load_id)
        if part is not None:
            part.told.set()

    async def _how_it_went(self, load_id: str) -> list[str]:
        part = self._parts.get(load_id)
        return [] if part is None else await asyncio.shield(part.ended)

    # --- less than a load ----------------------------------------------------------------------------------------------------------------

    def follow(self, directory: Path) -> None:
        """After a version has been withdrawn again: others may have been started with it."""
        self._node.siblings.tell(FOLLOW, _place(directory))

    def _follow(self, directory: str) -> None:
        task = self._node.loop.create_task(self._follow_version(directory))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _follow_version(self, directory: str) -> None:
        applications = self._applications
        app = None if applications is None else applications.get(os.path.basename(directory))
        if applications is None or app is None or not self.is_open or not self.has(directory):
            return
        if not await self._in_thread(app.directory.is_dir):
            await applications.remove(app.name)
        elif app.is_serving and await self._in_thread(app.directory.resolve) != app.served_directory:
            await applications.add(app.directory, app.name)

    def changed(self, directory: Path, entry: Mapping[str, Any] | None = None) -> None:
        """Another version is there, which waits for a restart, in all processes. `entry`: as of `load`."""
        self._note_changed(directory)
        self._node.siblings.tell(CHANGED, {"directory": _place(directory), "entry": None if entry is None else dict(entry)})

    def _changed(self, message: Mapping[str, Any]) -> None:
        if self.has(message["directory"]):
            directory = Path(message["directory"])
            if message["entry"] is not None:
                self._node.take_entry(directory.name, message["entry"] or None)
            self._note_changed(directory)

    def _note_changed(self, directory: Path) -> None:
        app = None if self._applications is None else self._applications.get(directory.name)
        if app is None and not directory.is_dir():
            self._node.status.component_loaded(directory.name)
        else:
            self._node.status.component_changed(directory.name)

    async def change_files(self, directory: Path, names: Sequence[str]) -> None:
        """Let all processes know of changed files of an application: paths below it. One that does not answer watches them."""
        await self._take_files(directory.name, names)
        await self._node.siblings.ask(FILES, {"directory": _place(directory), "names": list(names)}, SWITCH_LIMIT)

    async def _files_changed(self, message: Mapping[str, Any]) -> None:
        if self.is_open and self.has(message["directory"]):
            await self._take_files(os.path.basename(message["directory"]), message["names"])

    async def _take_files(self, name: str, names: Sequence[str]) -> None:
        applications = self._applications
        if applications is None or applications.get(name) is None or await applications.change(name, names, reloads_code=False):
            self._node.status.component_changed(name)

    def needed(self) -> tuple[list[str], list[str]]:
        """The directories that this process uses, and the projects that it changes."""
        from svc.deploying.loaded_packages import imported_from  # with what it needs: nothing of it is used before the first deployment

        served = [] if self._applications is None else [app.served_directory for app in self._applications]
        imported = [*imported_from().values()]  # a package imports parts of itself later, too
        return [str(each) for each in (*served, *imported)], self._node.projects_changing


def _end(part: _Part) -> None:
    """The process ends, or has a defect: nobody waits for it."""
    for future in (part.vote, part.ended):
        if not future.done():
            future.set_result([UNKNOWN])


def _place(directory: Path) -> str:
    """The path that all processes have for it. The last part may be a link, and to another version now."""
    return str(directory.parent.resolve() / directory.name)


def _said(answers: Sequence[Answer]) -> list[str]:
    return [
        f"process {each.number}: {text}" for each in answers for text in ((each.error,) if each.error is not None else each.value or ())
    ]
