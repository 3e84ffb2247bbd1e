"""The deployments of a node: one at a time for each project, on a thread of its own, with a record in `system.svc_deployment` (spec: deployment §3).

A deployment runs to its end, whether or not the client still waits. The end of the instance cancels it as long as there is no journal, and nothing is left
of it; if the process ends after that, `recover` does the rest at the next start.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from svc.apps import App, Applications
from svc.apps.app import GOES_ON
from svc.apps.packages import import_ahead
from svc.config.document import read_document
from svc.config.editing import edit_file
from svc.config.settings import SECTIONS
from svc.deploying.deployment import LOAD, RESTART, Deployment, DeploymentRequest, entry_of
from svc.deploying.fetching import Fetcher
from svc.deploying.layout import KEPT_PAYLOADS, Layout
from svc.deploying.loaded_packages import held_back, imported_from
from svc.deploying.names import project_fault
from svc.deploying.references import shown
from svc.deploying.switching import KEEP, begin, clean, finish, go_back, names_in, recover
from svc.deploying.trying import LoadFailed, TrialRequest, TrialResult
from svc.deploying.unpacking import remove_tree, written_fault
from svc.errors import ClientError, ConfigError, Problem, Refusal, ServerError
from svc.operations.deployment_records import FAILED, MAX_EVENTS, PENDING, ROLLED_BACK, SUCCESS, DeploymentRecords
from svc.operations.threads import in_thread
from svc.store.backup.watch import CopyStopped, Watch
from svc.store.system import SYSTEM

if TYPE_CHECKING:
    from svc.config import Document
    from svc.operations.node import Node

PREPARED = 2  # versions at one time: each installs and loads in processes of its own, which take memory
CANCELLED = "svc is stopping: the deployment was cancelled"


class Run:
    """A deployment that is under way. `record`: as in the table, with the events that are not written yet."""

    def __init__(self, project: str, record: dict[str, Any]) -> None:
        self.project = project
        self.record = record
        self.watch = Watch()
        self.is_decided = False
        self.task: asyncio.Task[Any] | None = None
        self.changed = asyncio.Event()
        self.journal: dict[str, Any] = {}
        self.former_entry: dict[str, Any] | None = None
        self.noted = 0  # events, also those that are not kept
        self.lock = threading.Lock()
        self.said: list[tuple[str, str]] = []  # phase and text of events that are not noted yet

    def tell(self) -> None:
        """It has changed. `changed` is another one from now on, so that several may wait and none misses anything."""
        changed, self.changed = self.changed, asyncio.Event()
        changed.set()
        self.tried = TrialResult()


class Deployments:
    """`running`: by the id of the deployment. `entries`: of projects in the configuration that are in effect though it was read before."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self.records = DeploymentRecords(node)
        self.running: dict[str, Run] = {}
        self.entries: dict[str, Any] = {}
        self._busy: set[str] = set()
        self._editing: Counter[str] = Counter()  # project -> changes of its files that are under way
        self._places = asyncio.Semaphore(PREPARED)

    @property
    def layout(self) -> Layout:
        return Layout(self._node.config.components_root)

    @property
    def applications(self) -> Applications | None:
        apps = self._node.apps
        return apps if isinstance(apps, Applications) else None

    # --- at the start --------------------------------------------------------------------------------------------------------------------

    async def recover(self) -> None:
        """Finish what was decided, undo what was not. Before the applications are loaded."""
        layout, logger = self.layout, self._node.logs.logger
        decided: list[str] = []
        if layout.area.is_dir():
            entries: dict[str, Any] = {}

            def set_entry(project: str, entry: Mapping[str, Any] | None) -> None:
                self._write_entry(project, entry)
                entries[project] = entry

            decided = await in_thread(lambda: recover(layout, set_entry, logger.error))
            for project, entry in entries.items():
                self._take_entry(project, entry)
            await in_thread(lambda: clean(layout))
        await self.records.recover(frozenset(decided))
        kept = {record["deployment_id"] for record in await self.records.select(lambda record: record["payload_size"] is not None)}
        await in_thread(lambda: _remove([path for path in layout.payloads() if path.name not in kept]))
        for project, entry in self._node.config.components.items():
            package = entry.get("package") if isinstance(entry, Mapping) else None
            if isinstance(package, str) and project_fault(project) is None and not await in_thread(partial(layout.exists, project)):
                logger.warn("the package", shown(package), "of", project, "is not deployed; svc deploy package=... fetches it")

    async def stop(self) -> None:
        """The instance ends: what is not decided is cancelled, the rest is waited for."""
        for run in self.running.values():
            if not run.is_decided:
                run.watch.stop()
        tasks = [run.task for run in self.running.values() if run.task is not None]
        if tasks:
            await asyncio.wait(tasks)

    # --- one at a time -------------------------------------------------------------------------------------------------------------------

    @contextmanager
    def changing(self, project: str) -> Iterator[None]:
        """Nothing else changes the project meanwhile. Raises 409."""
        self._take(project)
        try:
            yield
        finally:
            self._busy.discard(project)

    @contextmanager
    def changing_files(self, project: str) -> Iterator[None]:
        """Files of the project are changed, also by others at the same time; nothing else changes it meanwhile. Raises 409."""
        self._check_free(project)
        self._editing[project] += 1
        try:
            yield
        finally:
            self._editing[project] -= 1
            if not self._editing[project]:
                del self._editing[project]

    def _check_free(self, project: str) -> None:
        if project in self._busy:
            raise ClientError(f"{project} is being deployed", 409, "CONFLICT")

    def _take(self, project: str) -> None:
        self._check_free(project)
        if project in self._editing:
            raise ClientError(f"A file of {project} is being changed", 409, "CONFLICT")
        self._busy.add(project)

    def check_served_here(self, project: str) -> None:
        """Raises 400 for a project whose name an application has that was given to the server at its start."""
        app = None if self.applications is None else self.applications.get(project)
        if app is not None and app.directory != self.layout.project(project):
            raise ClientError(
                f"The application {project} is served from {app.directory}, which was given when svc was started:"
                " start svc without it, or deploy it under another name (project=)"
            )

    # --- deploying -----------------------------------------------------------------------------------------------------------------------

    async def deploy(
        self,
        wish: DeploymentRequest,
        fetcher: Callable[[Run], Fetcher],
        *,
        package: str | None,
        options: Mapping[str, Any],
        user: str | None,
        restart: Any,
    ) -> Run:
        """Deploy. `restart`: whether the new version is loaded; "rolling": `load` or `leave` is to be called with the run, whatever happens.

        Raises the Problem that has prevented it; then what was served is served. It goes on if the caller is cancelled.
        """
        self._take(wish.project)
        run = Run(wish.project, self.records.new(wish, package, user))
        self.running[wish.deployment_id] = run
        work = self._deploy(run, wish, fetcher(run), package, options, restart)
        run.task = self._node.loop.create_task(work, name=f"deployment of {wish.project}")
        run.task.add_done_callback(lambda task: task.cancelled() or task.exception())  # if nothing waits for it any more
        try:
            await asyncio.shield(run.task)
        except asyncio.CancelledError:
            if not isinstance(restart, bool):
                run.task = self._node.loop.create_task(self._go_on(run, run.task), name=f"deployment of {wish.project}")
            raise
        return run

    async def _go_on(self, run: Run, prepared: asyncio.Task[Any]) -> None:
        """Let the new version serve, though nothing waits for it any more."""
        await asyncio.wait([prepared])
        if not prepared.cancelled() and prepared.exception() is None:
            with suppress(Problem):  # it is in the record
                await self.load(run)

    async def _deploy(
        self, run: Run, wish: DeploymentRequest, fetcher: Fetcher, package: str | None, options: Mapping[str, Any], restart: Any
    ) -> None:
        layout = self.layout
        deployment = Deployment(layout, wish, run.watch, partial(self.report, run))
        try:
            await self.records.write(run.record)
            stored = await in_thread(deployment.store, run.watch)
            if stored is not None:
                run.record |= {"payload_hash": stored.hash, "payload_size": stored.size}
            async with self._places:
                run.watch.check()
                run.tried = await in_thread(lambda: deployment.prepare(fetcher), run.watch)
            for warning in run.tried.warnings:
                self._note(run, LOAD, f"warning: {warning}")
            run.watch.check()
            run.is_decided = True
            run.journal, run.former_entry = await in_thread(lambda: self._switch(layout, wish, deployment.target, package, options))
        except BaseException as error:
            await self._fail(run, deployment, error)
            if isinstance(error, CopyStopped):
                raise ServerError(CANCELLED, 503) from None
            if isinstance(error, Problem | asyncio.CancelledError):
                raise
            self._node.logs.logger.error("the deployment of", wish.project, error)
            raise ServerError("The deployment has failed. Check logs and try again.") from error
        if "entry" in run.journal:
            self._take_entry(wish.project, run.journal["entry"])
        if restart is True:
            await self.load(run)
        elif restart is False:
            await self.leave(run)

    def _switch(
        self, layout: Layout, wish: DeploymentRequest, target: Path, package: str | None, options: Mapping[str, Any]
    ) -> tuple[dict[str, Any], dict[str, Any] | None]:
        """Returns the journal, which has been carried out, and the former entry of the configuration. Blocks."""
        former = self._read_entry(wish.project)
        after = entry_of(former, package, options)
        entry: Any = KEEP if after == former else after
        journal = begin(layout, wish.project, target, deployment_id=wish.deployment_id, entry=entry)
        try:
            finish(layout, journal, self._write_entry)
        except BaseException:
            go_back(layout, journal, self._write_entry, former)
            raise
        return journal, former

    async def _fail(self, run: Run, deployment: Deployment, error: BaseException) -> None:
        text = CANCELLED if isinstance(error, CopyStopped | asyncio.CancelledError) else _message(error)

        def discard() -> None:
            if self.layout.read_journal(run.project) is None:  # else the next start will finish it
                deployment.discard()
                deployment.discard_payload()

        await in_thread(discard)
        await self._end(run, FAILED, text)

    async def load(self, run: Run) -> None:
        """Let the new version serve. Raises LoadFailed if it cannot be loaded; then the former version is served again, after a start, too."""
        try:
            await self._load(run)
        except LoadFailed:
            raise
        except Exception as error:  # also a full volume, when the former version is to be served again
            if run.record["status"] == PENDING:
                await self._end(run, FAILED, _message(error))
            self._node.status.component_changed(run.project)
            if isinstance(error, Problem):
                raise
            self._node.logs.logger.error("the deployment of", run.project, error)
            raise ServerError("The deployment has failed. Check logs and try again.") from error

    async def _load(self, run: Run) -> None:
        self._note(run, RESTART, "loads the new version")
        project = run.project
        app = None if self.applications is None else self.applications.get(project)
        served = None if app is None else (app.served_directory, dict(app.entries))
        await in_thread(partial(import_ahead, self.layout.project(project), run.tried.modules, run.tried.files))
        app = await self.reload(project)
        faults = [] if app is None else _faults(app)
        if not faults:
            for message in await in_thread(lambda: held_back(self.layout.project(project))):
                self._note(run, RESTART, f"warning: {message}")
                self._node.status.component_changed(project)
            await self._end(run, SUCCESS, None)
            await self.clean()
            return
        assert app is not None
        await in_thread(lambda: go_back(self.layout, run.journal, self._write_entry, run.former_entry))
        if "entry" in run.journal:
            self._take_entry(project, run.former_entry)
        if served is None or app.served_directory != served[0]:
            await self.reload(project)
        else:
            app.entries = served[1]  # the version before has not been replaced, and these are its statuses
            if await in_thread(lambda: self.layout.served(project)) != app.served_directory:  # one that has waited for a restart waits on
                self._node.status.component_changed(project)
        text = f"The application {project} cannot be loaded: " + "\n".join(faults[:10])
        await self._end(run, ROLLED_BACK, text)
        await self.clean()
        raise LoadFailed(text)

    async def leave(self, run: Run) -> None:
        """The new version waits for the next start."""
        self._node.status.component_changed(run.project)
        await self._end(run, SUCCESS, None)
        await self.clean()

    async def _end(self, run: Run, status: str, error: str | None) -> None:
        record = run.record
        record |= {"status": status, "error": error, "completed_at": self.records.now_ms()}
        level = "info" if status == SUCCESS else "warn"
        self._node.logs.logger.log(level, "the deployment of", run.project, "has ended:", status, *([] if error is None else [error]))
        try:
            await self.records.write(record)
        except Problem as problem:  # a full volume: what has happened has happened
            self._node.logs.logger.error("the record of the deployment of", run.project, "could not be written:", problem.message)
        self.running.pop(record["deployment_id"], None)
        self._busy.discard(run.project)
        run.tell()
        with suppress(Problem, OSError):
            await self._remove_old(run.project)

    async def _remove_old(self, project: str) -> None:
        removed, dropped = await self.records.remove_old(project, KEPT_PAYLOADS)
        layout = self.layout
        if removed or dropped:
            await in_thread(partial(_remove, [layout.payload(each) for each in (*removed, *dropped)]))

    async def drop(self, project: str) -> None:
        """Remove a project and its entry of the configuration, while it is being `changing`."""
        layout = self.layout

        def work() -> bool:
            former = self._read_entry(project)
            if not layout.exists(project) and former is None:
                return False
            try:
                finish(layout, begin(layout, project, None, entry=KEEP if former is None else None), self._write_entry)
            except OSError as error:
                raise written_fault(error, layout.project(project)) from error
            return former is not None

        if await in_thread(work):
            self._take_entry(project, None)
        if self.applications is not None and self.applications.get(project) is not None:
            self._node.status.component_changed(project)
        else:
            self._node.status.component_loaded(project)

    # --- applications --------------------------------------------------------------------------------------------------------------------

    async def reload(self, project: str) -> App | None:
        """Load what is served under this name now, or end it if there is nothing any more."""
        applications, directory = self.applications, self.layout.project(project)
        if applications is None:
            return None
        if os.environ.get("SVC_SAFE_MODE"):  # no application is loaded
            self._node.status.component_changed(project)
            return None
        self._node.status.component_loaded(project)
        if not await in_thread(directory.is_dir):
            await applications.remove(project)
            return None
        return await applications.add(directory)

    async def clean(self) -> None:
        """Remove versions that nothing needs any more."""
        layout = self.layout
        names = await in_thread(lambda: names_in(layout))
        in_use: list[Path] = [*imported_from().values()]  # a package imports parts of itself later, too
        changing = frozenset(self._busy)
        served = [] if self.applications is None else [app.served_directory for app in self.applications]
        await in_thread(lambda: clean(layout, [*in_use, *served], changing, names))

    def trial_request(self, project: str, package: str | None, options: Mapping[str, Any]) -> TrialRequest:
        """What the trial load of a project has to know of this instance. `package`, `options`: as of `entry_of`."""
        node = self._node
        tables = [
            table.definition for name, database in node.store.databases.items() if name != SYSTEM for table in database.tables.values()
        ]
        others = [definition for app in node.apps if app.name != project for definition in app.definitions]
        document = {**node.config.document, **{name: entry for name, entry in self.entries.items() if entry is not None}}
        if project not in SECTIONS:
            former = document.pop(project, None)
            entry = entry_of(former if isinstance(former, Mapping) else None, package, options)
            if entry is not None:
                document[project] = entry
        directories = {app.name: app.directory for app in node.apps if app.name != project}
        return TrialRequest(Path(), project, document, tables, others, directories)

    # --- the configuration ---------------------------------------------------------------------------------------------------------------

    def _read_entry(self, project: str) -> dict[str, Any] | None:
        """Of the configuration file. Blocks."""
        file = self._node.config.file
        if file is None or project in SECTIONS:
            return None
        try:
            found = read_document(file).get(project)
        except ConfigError as error:
            raise ServerError(f"svc config file validation error: {error}") from error
        return found if isinstance(found, dict) else None

    def _write_entry(self, project: str, entry: Mapping[str, Any] | None) -> None:
        """Set or remove the entry of a project in the configuration file. Blocks. Raises Problem."""
        config = self._node.config
        if config.file is None or project in SECTIONS:  # a section of the service is no entry of an application
            return

        def change(document: Document) -> Document:
            if entry is None:
                document.pop(project, None)
            else:
                document[project] = dict(entry)
            return document

        try:
            edit_file(config, change, self._node.clock)
        except ConfigError as error:
            raise ClientError(f"svc config file validation error: {error}") from error
        except OSError as error:
            raise ServerError(f"The configuration could not be written to {config.file.name}: {error.strerror}") from error

    async def set_entry(self, project: str, entry: Mapping[str, Any] | None) -> None:
        await in_thread(lambda: self._write_entry(project, entry))
        self._take_entry(project, entry)

    def _take_entry(self, project: str, entry: Mapping[str, Any] | None) -> None:
        """Put an entry into effect for the next load of the project."""
        self.entries[project] = None if entry is None else dict(entry)
        if self.applications is not None:
            runtime = self.applications.runtime
            components = {name: found for name, found in runtime.components.items() if name != project}
            runtime.components = components if entry is None else {**components, project: dict(entry)}

    # --- events --------------------------------------------------------------------------------------------------------------------------

    def report(self, run: Run, phase: str, text: str) -> None:
        """On another thread. What a command says in one turn is noted at once, and its middle is left out."""
        with run.lock:
            run.said.append((phase, text))
            if len(run.said) > MAX_EVENTS:
                del run.said[MAX_EVENTS // 4]
            if len(run.said) > 1:
                return
        self._node.loop.call_soon_threadsafe(self._take_said, run)

    def _take_said(self, run: Run) -> None:
        with run.lock:
            said, run.said = run.said, []
        for phase, text in said:
            self._note(run, phase, text)

    def _note(self, run: Run, phase: str, text: str) -> None:
        self.records.note(run.record, phase, text)
        run.noted += 1
        run.tell()

    def shown(self, deployment_id: str) -> dict[str, Any] | None:
        """The record of a deployment, as it is now."""
        run = self.running.get(deployment_id)
        return self.records.get(deployment_id) if run is None else self.records.shown(run.record)


def _faults(app: App) -> list[str]:
    found = [(key, text) for key, entry in app.entries.items() if entry.status == "error" for text in entry.messages]
    return [f"{key}: {text}" for key, text in found if text != GOES_ON]


def _remove(paths: list[Path]) -> None:
    for path in paths:
        remove_tree(path)


def new_id() -> str:
    return str(uuid4())


def _message(error: BaseException) -> str:
    if isinstance(error, Refusal):
        texts = [text for value in error.body.values() if isinstance(value, list) for text in value if isinstance(text, str)]
        return ". ".join(texts) or error.message
    return error.message if isinstance(error, Problem) else f"{type(error).__name__}: {error}"
