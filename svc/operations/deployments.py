"""The deployments of a node: one at a time for each project, on a thread of its own, with a record in `system.svc_deployment` (spec: deployment §3).

A deployment runs to its end, whether or not the client still waits. The end of the instance cancels it as long as there is no journal, and nothing is left
of it; if the process ends after that, `recover` does the rest at the next start.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack, contextmanager, nullcontext, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from svc.apps import App, Applications
from svc.config.document import read_document
from svc.config.editing import edit_file
from svc.config.settings import SECTIONS
from svc.deploying.deployment import LOAD, RESTART, Deployment, DeploymentRequest, entry_of
from svc.deploying.fetching import Fetcher
from svc.deploying.layout import KEPT_PAYLOADS, Layout
from svc.deploying.loaded_packages import held_back
from svc.deploying.names import project_fault
from svc.deploying.references import shown
from svc.deploying.switching import KEEP, begin, clean, finish, go_back, names_in, recover
from svc.deploying.trying import LoadFailed, TrialRequest, TrialResult
from svc.deploying.unpacking import remove_tree, written_fault
from svc.errors import ClientError, ConfigError, Problem, Refusal, ServerError
from svc.operations.deployment_records import FAILED, MAX_EVENTS, PENDING, ROLLED_BACK, SUCCESS, DeploymentRecords
from svc.operations.node import RUNNING, Node
from svc.operations.shared_loads import NEEDED, NEEDED_SECONDS
from svc.operations.threads import in_thread
from svc.siblings import SubjectLock
from svc.store.backup.watch import CopyStopped, Watch
from svc.store.system import SYSTEM

if TYPE_CHECKING:
    from svc.config import Document

PREPARED = 2  # versions at one time: each installs and loads in processes of its own, which take memory
RUNNING_SECONDS = 2.0  # for other processes to say whether a deployment is theirs
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
        self.tried = TrialResult()

    def tell(self) -> None:
        """It has changed. `changed` is another one from now on, so that several may wait and none misses anything."""
        changed, self.changed = self.changed, asyncio.Event()
        changed.set()


class Deployments:
    """`running`: by the id of the deployment. `entries`: of projects in the configuration that are in effect though it was read before."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self.records = DeploymentRecords(node)
        self.running: dict[str, Run] = {}
        self.entries: dict[str, Any] = {}
        self.loads = node.loads
        self._locks: dict[str, SubjectLock] = {}  # of the projects that are being changed here
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
        await self._recover()
        payloads = await in_thread(layout.payloads)  # before the records, which those that come now have first
        kept = {
            record["deployment_id"]
            for record in await self.records.select(lambda record: record["payload_size"] is not None or record["status"] == PENDING)
        }
        await in_thread(lambda: _remove([path for path in payloads if path.name not in kept]))
        for project, entry in self._node.config.components.items():
            package = entry.get("package") if isinstance(entry, Mapping) else None
            if isinstance(package, str) and project_fault(project) is None and not await in_thread(partial(layout.exists, project)):
                logger.warn("the package", shown(package), "of", project, "is not deployed; svc deploy package=... fetches it")

    async def _recover(self) -> list[str]:
        """Finish what was decided and undo what was not, but nothing of what another process is doing. Returns the projects of which another version is
        there now that was to be loaded."""
        layout, logger = self.layout, self._node.logs.logger
        decided: list[str] = []
        if await in_thread(layout.area.is_dir):
            entries: dict[str, Any] = {}

            def set_entry(project: str, entry: Mapping[str, Any] | None) -> None:
                self._write_entry(project, entry)
                entries[project] = entry

            projects = [project for project in await in_thread(lambda: list(layout.journals())) if self.maybe_take(project)]
            try:
                decided = await in_thread(lambda: recover(layout, set_entry, logger.error, projects))
            finally:
                for project in projects:
                    self.release(project)
            for project, entry in entries.items():
                self.take_entry(project, entry)
            await self.clean()
        return await self.records.recover(frozenset(decided))

    async def recover_left(self) -> None:
        """Another process has ended: do the rest of what it was doing."""
        for project in await self._recover():
            logger = self._node.logs.logger
            try:
                faults = await self.reload(project)
            except Problem as problem:
                faults = [problem.message]
            if faults:
                logger.error(
                    "the version of", project, "that is there after an interrupted deployment could not be loaded:", "; ".join(faults)
                )
                self.loads.changed(self.layout.project(project))

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
        """Nothing else changes the project meanwhile, in no process. Raises 409."""
        self._take(project)
        try:
            yield
        finally:
            self.release(project)

    @contextmanager
    def changing_files(self, project: str) -> Iterator[None]:
        """Files of the project are changed, also by others at the same time; nothing else changes it meanwhile. Raises 409."""
        lock = self._node.siblings.maybe_lock(self._subject(project), shared=True)
        if lock is None:
            raise ClientError(f"{project} is being deployed", 409, "CONFLICT")
        try:
            yield
        finally:
            lock.release()

    def _take(self, project: str) -> None:
        if not self.maybe_take(project):
            with self.changing_files(project):
                raise ClientError(f"A file of {project} is being changed", 409, "CONFLICT")

    def maybe_take(self, project: str) -> bool:
        """Whether this process, and nobody else, changes the project until `release`."""
        lock = self._node.siblings.maybe_lock(self._subject(project))
        if lock is not None:
            self._locks[project] = lock
        return lock is not None

    def release(self, project: str) -> None:
        lock = self._locks.pop(project, None)
        if lock is not None:
            lock.release()

    def _subject(self, project: str) -> str:
        return f"project {self.layout.root.resolve() / project}"

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
        waits: bool = True,
    ) -> Run:
        """Deploy. `restart`: whether the new version is loaded; "rolling": `load` or `leave` is to be called with the run, whatever happens. `waits`:
        for its end; else until its record is written, and then nothing is to be called.

        Raises the Problem that has prevented it; then what was served is served. It goes on if the caller is cancelled.
        """
        self._take(wish.project)
        run = Run(wish.project, self.records.new(wish, package, user, loads=restart is not False))
        self.running[wish.deployment_id] = run
        work = self._deploy(run, wish, fetcher(run), package, options, restart)
        run.task = self._node.loop.create_task(work, name=f"deployment of {wish.project}")
        run.task.add_done_callback(lambda task: task.cancelled() or task.exception())  # if nothing waits for it any more
        try:
            if not waits:
                await self._begun(run, run.task)
            if waits or run.record["status"] != PENDING:
                await asyncio.shield(run.task)
            elif not isinstance(restart, bool):
                run.task = self._node.loop.create_task(self._go_on(run, run.task), name=f"deployment of {wish.project}")
        except asyncio.CancelledError:
            if not isinstance(restart, bool):
                run.task = self._node.loop.create_task(self._go_on(run, run.task), name=f"deployment of {wish.project}")
            raise
        return run

    async def _begun(self, run: Run, task: asyncio.Task[Any]) -> None:
        """Wait until its record is written, or it has ended."""
        changed = self._node.loop.create_task(run.changed.wait())
        try:
            await asyncio.wait([changed, task], return_when=asyncio.FIRST_COMPLETED)
        finally:
            changed.cancel()

    async def _go_on(self, run: Run, prepared: asyncio.Task[Any]) -> None:
        """Let the new version serve, though nothing waits for it any more."""
        await asyncio.wait([prepared])
        if not prepared.cancelled() and prepared.exception() is None:
            with suppress(Problem):  # it is in the record
                await self.load(run)

    async def _deploy(
        self, run: Run, wish: DeploymentRequest, fetcher: Fetcher, package: str | None, options: Mapping[str, Any], restart: Any
    ) -> None:
        async with AsyncExitStack() as gate:
            await self._deploy_through(gate, run, wish, fetcher, package, options, restart)

    async def _deploy_through(
        self,
        gate: AsyncExitStack,
        run: Run,
        wish: DeploymentRequest,
        fetcher: Fetcher,
        package: str | None,
        options: Mapping[str, Any],
        restart: Any,
    ) -> None:
        layout = self.layout
        deployment = Deployment(layout, wish, run.watch, partial(self.report, run))
        try:
            await self.records.write(run.record)
            run.tell()
            stored = await in_thread(deployment.store, run.watch)
            if stored is not None:
                run.record |= {"payload_hash": stored.hash, "payload_size": stored.size}
            async with self._places:
                run.watch.check()
                run.tried = await in_thread(lambda: deployment.prepare(fetcher), run.watch)
            for warning in run.tried.warnings:
                self._note(run, LOAD, f"warning: {warning}")
            if restart is True:  # before another version is there: a process that starts would load it
                await gate.enter_async_context(self.loads.gate())
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
            self.take_entry(wish.project, run.journal["entry"])
        if restart is True:
            await self._load_guarded(run)
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
        await self._load_guarded(run, self.loads.gate())

    async def _load_guarded(self, run: Run, gate: AbstractAsyncContextManager[None] | None = None) -> None:
        """`gate`: if it is not passed yet."""
        try:
            async with gate or nullcontext():
                await self._load(run)
        except LoadFailed:
            raise
        except Exception as error:  # also a full volume, when the former version is to be served again
            if run.record["status"] == PENDING:
                await self._end(run, FAILED, _message(error))
            self.loads.changed(self.layout.project(run.project))
            if isinstance(error, Problem):
                raise
            self._node.logs.logger.error("the deployment of", run.project, error)
            raise ServerError("The deployment has failed. Check logs and try again.") from error

    async def _load(self, run: Run) -> None:
        self._note(run, RESTART, "loads the new version")
        project = run.project
        before = self._served(project)
        entries = {} if before is None else dict(before[0].entries)
        entry = {"entry": run.journal["entry"] or {}} if "entry" in run.journal else {}
        faults = await self._reload(project, modules=run.tried.modules, files=run.tried.files, goes_back=True, **entry)
        if not faults:
            for message in await in_thread(lambda: held_back(self.layout.project(project))):
                self._note(run, RESTART, f"warning: {message}")
                self._node.status.component_changed(project)
            await self._end(run, SUCCESS, None)
            await self.clean()
            return
        await in_thread(lambda: go_back(self.layout, run.journal, self._write_entry, run.former_entry))
        if "entry" in run.journal:
            self.take_entry(project, run.former_entry)
            entry = {"entry": run.former_entry or {}}
        now = self._served(project)
        if now != before:
            await self._reload(project, **entry)
        elif before is not None:
            before[0].entries = entries  # the version before has not been replaced, and these are its statuses
            if await in_thread(lambda: self.layout.served(project)) != before[1]:  # one that has waited for a restart waits on
                self._node.status.component_changed(project)
        self.loads.follow(self.layout.project(project))
        text = f"The application {project} cannot be loaded: " + "\n".join(faults[:10])
        await self._end(run, ROLLED_BACK, text)
        await self.clean()
        raise LoadFailed(text)

    def _served(self, project: str) -> tuple[App, Path] | None:
        """The application, and the directory of the version of it that serves."""
        app = None if self.applications is None else self.applications.get(project)
        return None if app is None else (app, app.served_directory)

    async def leave(self, run: Run) -> None:
        """The new version waits for the next start."""
        self.loads.changed(self.layout.project(run.project), (run.journal["entry"] or {}) if "entry" in run.journal else None)
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
        self.release(run.project)
        run.tell()
        with suppress(Problem, OSError):
            await self._remove_old(run.project)

    async def _remove_old(self, project: str) -> None:
        removed, dropped = await self.records.remove_old(project, KEPT_PAYLOADS)
        layout = self.layout
        if removed or dropped:
            await in_thread(partial(_remove, [layout.payload(each) for each in (*removed, *dropped)]))

    async def drop(self, project: str, *, restarts: bool) -> None:
        """Remove a project and its entry of the configuration, while it is being `changing`. `restarts`: also what runs of it."""
        if not restarts:
            await self._drop(project)
            return
        async with self.loads.gate():
            await self._drop(project)
            await self._reload(project)

    async def _drop(self, project: str) -> None:
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

        had_entry = await in_thread(work)
        if had_entry:
            self.take_entry(project, None)
        self.loads.changed(layout.project(project), {} if had_entry else None)

    # --- applications --------------------------------------------------------------------------------------------------------------------

    async def reload(self, project: str) -> list[str]:
        """Load what is served under this name now, or end it if there is nothing any more, in all processes. Returns why the version before goes on."""
        async with self.loads.gate():
            return await self._reload(project)

    async def _reload(self, project: str, **options: Any) -> list[str]:
        """In the gate. `options`: of `SharedLoads.load`."""
        if self.applications is None:
            return []
        if os.environ.get("SVC_SAFE_MODE"):  # no application is loaded
            self._node.status.component_changed(project)
            return []
        self._node.status.component_loaded(project)
        return await self.loads.load(self.layout.project(project), **options)

    async def clean(self) -> None:
        """Remove versions that nothing needs any more."""
        layout = self.layout
        if not await in_thread(layout.area.is_dir):
            return
        names = await in_thread(lambda: names_in(layout))
        in_use, changing = self.loads.needed()
        for answer in await self._node.siblings.ask(NEEDED, None, NEEDED_SECONDS):
            if answer.error is not None:  # it may need any
                return
            in_use += answer.value[0]
            changing += answer.value[1]
        await in_thread(lambda: clean(layout, [Path(each) for each in in_use], changing, names))

    @property
    def changing_here(self) -> list[str]:
        """The projects that this process is changing."""
        return list(self._locks)

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
        self.take_entry(project, entry)

    def take_entry(self, project: str, entry: Mapping[str, Any] | None) -> None:
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
        """The record of a deployment, as it is now, or was written by another process that deploys."""
        run = self.running.get(deployment_id)
        return self.records.get(deployment_id) if run is None else self.records.shown(run.record)

    def running_here(self, deployment_id: str) -> tuple[int, dict[str, Any]] | None:
        """How many events a deployment of this process has noted, and its record as it is now; None: it is none."""
        run = self.running.get(deployment_id)
        return None if run is None else (run.noted, self.records.shown(run.record))

    async def running_elsewhere(self, deployment_id: str) -> tuple[int, dict[str, Any]] | None:
        """The same of the other processes."""
        for answer in await self._node.siblings.ask(RUNNING, deployment_id, RUNNING_SECONDS):
            if answer.value is not None:
                noted, record = answer.value
                return noted, record
        return None


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
