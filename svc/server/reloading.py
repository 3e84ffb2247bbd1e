"""Changed files of applications take effect (spec: configuration §9.2).

    the watching thread -> paths -> (quiet) -> which files have changed -> Applications.change, one application after the other

Files are saved in many ways: written at once, cut to nothing and written, written beside and moved over; a version control system changes hundreds. So it
is waited until nothing has happened for a moment, and a little longer while a changed file is empty or not there. What changes while an application is
loaded leads to one more load. The files of a load that failed count as changed until one succeeds, for nothing of it is in effect.

Under `svc dev` everything is reloaded. Else Python code, settings of applications, and which applications there are, wait for a restart.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from svc.apps import App, Applications
from svc.apps.app import faults_of
from svc.apps.applications import component_directories, name_of
from svc.apps.compiled import compile_ahead
from svc.apps.config_file import CONFIG_FILE
from svc.apps.status import ERROR, EntryStatus
from svc.reactor import Reactor
from svc.server.file_tree import FileTree
from svc.server.remote_drives import remote_drive
from svc.server.watching import FileWatcher

SLICE = 100  # names that are looked at in one turn
MOST_NAMES = 1000  # that are kept of one application
SHOWN_NAMES = 5
WATCH_AFTER = 0.1  # seconds, from when the server serves


@dataclass(frozen=True)
class Patience:
    """Seconds. `quiet`: without a further change until a change is acted on, `quiet_many`: until more than FEW files are; `most`: as long as changes go on at
    most; `unfinished`: for a file that is being saved."""

    quiet: float = 0.02
    quiet_many: float = 0.1
    most: float = 3.0
    unfinished: float = 0.25


DEVELOPMENT = Patience()
SERVICE = Patience(quiet=0.2, quiet_many=1.0, most=10.0, unfinished=1.0)
FEW = 5  # files: more are copied, or changed by a version control system, and there may be pauses in between
DEVELOPMENT_PAUSE = 0.01
SERVICE_PAUSE = 0.05


@dataclass(frozen=True)
class Reload:
    """One application that has been loaded, or not. `names`: of the files that changed. `seconds`: it took. `faults`: entry -> how it went, of those that
    failed. `warnings`: of the others. `kind`: "reloaded", "added" or "removed"."""

    app: App
    names: Sequence[str]
    seconds: float
    faults: Mapping[str, EntryStatus] = field(default_factory=dict)
    warnings: Sequence[str] = ()
    kind: str = "reloaded"

    @property
    def text(self) -> str:
        """`reloaded in 84 ms: resources.py`"""
        names = f": {', '.join(self.names[:SHOWN_NAMES])}" if self.names else ""
        more = len(self.names) - SHOWN_NAMES
        return f"{self.kind} in {self.seconds * 1000:.0f} ms{names}" + (f" and {more} more files" if more > 0 else "")


@dataclass
class _WaitingFiles:
    """What of an application waits for a restart: as long as this version of it is the one that serves."""

    version: int
    names: dict[str, None] = field(default_factory=dict)


class ReloadListener(Protocol):
    """What becomes of changed files: `reload_reports.ReloadReports`."""

    def warn(self, text: str) -> None: ...

    def reloaded(self, reload: Reload) -> None:
        """After each load."""

    def waits(self, application: str, names: Sequence[str], new: Sequence[str]) -> None:
        """These files wait for a restart, some of them from now on."""

    def current(self, application: str) -> None:
        """What there is of it is loaded."""


class Reloader:
    """Watches the applications of an instance. `open` comes before they are loaded."""

    def __init__(
        self,
        applications: Applications,
        reactor: Reactor,
        listener: ReloadListener,
        *,
        components_root: Path | None,
        excluded: Sequence[Path] = (),
        reloads_code: bool,
        patience: Patience | None = None,
        make_watcher: Callable[..., FileWatcher] = FileWatcher,
    ) -> None:
        """`excluded`: directories that are not looked at."""
        self._applications = applications
        self._components_root = components_root
        self._components_path = "" if components_root is None else str(components_root.absolute())
        self._excluded = [path.resolve() for path in excluded]
        self._reloads_code = reloads_code
        self._clock = reactor.clock
        self._loop = reactor.loop
        self._executor = reactor.executor
        self._listener = listener
        self.load: Callable[[Path], Awaitable[list[str]]] = self._load_here
        """Loads an application in all processes, or withdraws it, for `reload_all`. Returns why the version before goes on."""
        self._patience = patience or (DEVELOPMENT if reloads_code else SERVICE)
        self._watcher = make_watcher(
            self._hear,
            lambda text: self._call(self._listener.warn, text),
            pause=DEVELOPMENT_PAUSE if reloads_code else SERVICE_PAUSE,
        )
        self._trees: dict[str, FileTree] = {}  # application -> its files
        self._components: dict[str, Path] = {}  # name -> real directory, of all that are below the root of components
        self._unapplied: dict[str, set[str]] = {}  # application -> files whose change is in no version that has been loaded
        self._waiting: dict[str, _WaitingFiles] = {}
        self._loads: dict[str, int] = {}  # application -> which of its loads was the last
        self._paths: set[str] = set()
        self._looks_at_all = False
        self._watched: list[tuple[str, int]] = []
        self._told: set[object] = set()
        self._components_changed = False
        self._roots_changed = False  # an application is loaded from another directory
        self._arrived = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._is_closed = False

    # --- beginning and end ---------------------------------------------------------------------------------------------------------------

    async def open(self, directories: Sequence[Path]) -> None:
        """Note what there is now. `directories`: of the applications beside those below the root of components."""
        await self._in_thread(self._look_first, directories)
        self._task = self._loop.create_task(self._run())

    def begin(self) -> None:
        """Watch, from soon on: what changes until then is found by the first look at everything. The library for it takes 30 ms to import, which the
        first requests need not wait for."""
        if self._task is not None:
            self._loop.call_later(WATCH_AFTER, self._begin_watching)

    def _begin_watching(self) -> None:
        if not self._is_closed:
            self._roots_changed = self._looks_at_all = True
            self._arrived.set()

    def _look_first(self, directories: Sequence[Path]) -> None:
        self._components = self._find_components()
        places = self._components | {name_of(directory): directory.resolve() for directory in directories}
        for name, place in places.items():
            self._trees[name] = tree = FileTree(place, self._excluded)
            tree.look()

    async def close(self) -> None:
        """End, the thread included."""
        self._is_closed = True
        self._watcher.stop()
        if self._task is not None:
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task
        await self._in_thread(self._watcher.join)

    def _call(self, function: Callable[..., object], *arguments: object) -> None:
        """On the loop, from the thread."""
        with suppress(RuntimeError):  # the loop has ended
            self._loop.call_soon_threadsafe(function, *arguments)

    async def _in_thread(self, function: Callable[..., Any], *arguments: Any) -> Any:
        return await self._loop.run_in_executor(self._executor, function, *arguments)

    # --- changes -------------------------------------------------------------------------------------------------------------------------

    def _hear(self, paths: set[str] | None) -> None:
        """On the watching thread: something has changed. What concerns no application does not wake the loop, for a log beside one may be written all the
        time."""
        if paths is not None:
            trees = list(self._trees.values())
            paths = {
                path for path in paths if os.path.dirname(path) == self._components_path or any(tree.names_of((path,)) for tree in trees)
            }
            if not paths:
                return
        self._call(self._add, paths)

    def _add(self, paths: set[str] | None) -> None:
        if paths is None:
            self._looks_at_all = True
        else:
            self._paths |= paths
        self._arrived.set()

    async def _run(self) -> None:
        while True:
            await self._arrived.wait()
            try:
                await self._take_over()
            except Exception as error:  # a defect of ours: the next change may do
                self._listener.warn(f"changed files could not be taken over: {type(error).__name__}: {error}")

    async def _take_over(self) -> None:
        directories = [(tree.root, dict(tree.directories), dict(tree.links)) for tree in self._trees.values()]
        self._components_changed = False
        changed = await self._settled()
        if self._components_changed and self._components_root is not None:
            await self._take_components()
        for name, names in changed.items():
            app = self._applications.get(name)
            tree = self._trees.get(name)
            if app is not None and tree is not None and tree.is_there:
                names |= self._unapplied.get(name, set())
                self._unapplied[name] = names  # until they are loaded
                await self._change(app, sorted(names))
        if self._roots_changed or directories != [(tree.root, tree.directories, tree.links) for tree in self._trees.values()]:
            await self._watch()

    async def _settled(self) -> dict[str, set[str]]:
        """Wait until nothing changes. Application -> files that have changed and are of interest to it."""
        changed: dict[str, set[str]] = {}
        now, patience = self._clock.monotonic, self._patience
        began = last = now()
        is_last = False
        while True:
            self._arrived.clear()
            paths, self._paths = self._paths, set()
            looks_at_all, self._looks_at_all = self._looks_at_all, False
            if looks_at_all or any(os.path.dirname(path) == self._components_path for path in paths):
                self._components_changed = True
            found: dict[str, list[str]] = await self._in_thread(self._look, None if looks_at_all else paths)
            if any(found.values()):
                await self._applications.settle()  # what is being loaded does not know its files yet
            for name, names in found.items():
                concerning = await self._concerning(name, names)
                if concerning:
                    changed.setdefault(name, set()).update(concerning)
                    last = now()
            if not changed and not self._components_changed:
                return changed
            end = last + (patience.quiet if sum(map(len, changed.values())) <= FEW else patience.quiet_many)
            if any(self._is_unfinished(name, names) for name, names in changed.items()):
                end = max(end, began + patience.unfinished)
            left = min(end, began + patience.most) - now()
            if left > 0.0:
                is_last = False
                await self._arrives(left)
            elif is_last or not self._arrived.is_set():
                return changed
            else:  # one more look at what has come meanwhile
                is_last = True

    def _is_unfinished(self, name: str, names: Iterable[str]) -> bool:
        tree = self._trees.get(name)
        return tree is not None and any(tree.is_unfinished(each) for each in names)

    async def _arrives(self, seconds: float) -> None:
        """Wait until something changes, at most so long."""
        with suppress(TimeoutError):
            await asyncio.wait_for(self._arrived.wait(), seconds)

    def _look(self, paths: set[str] | None) -> dict[str, list[str]]:
        """Application -> changed files. On a helper thread."""
        return {name: tree.look() if paths is None else tree.look_at(tree.names_of(paths)) for name, tree in list(self._trees.items())}

    async def _concerning(self, name: str, names: Sequence[str]) -> list[str]:
        """Those files of an application that any of its entries has, or its code."""
        app, tree = self._applications.get(name), self._trees.get(name)
        if app is None or tree is None:
            return []
        found: list[str] = []
        loaded = _loaded_files(app)
        for number, each in enumerate(names):
            if number % SLICE == SLICE - 1:
                await asyncio.sleep(0)
            if each == CONFIG_FILE or app.contains(each) or (each.endswith(".py") and (loaded is None or str(tree.root / each) in loaded)):
                found.append(each)
        return found

    # --- one application -----------------------------------------------------------------------------------------------------------------

    async def _change(self, app: App, names: Sequence[str]) -> None:
        if not (self._reloads_code or await self._in_thread(_is_where_it_was, app)):
            return
        for name in names if self._reloads_code else ():
            if name.endswith(".py"):
                await self._in_thread(compile_ahead, app.directory.resolve() / name)
        began_ms = int(self._clock.wall() * 1000)
        began = self._clock.monotonic()
        waiting: list[str] = []
        settings = [name for name in names if name == CONFIG_FILE]
        parts = [names] if self._reloads_code or not settings else [settings, [name for name in names if name not in settings]]
        for part in parts:
            if part:
                waiting += await self._applications.change(app.name, part, reloads_code=self._reloads_code)
        self._report(app, names, began_ms, self._clock.monotonic() - began)
        if waiting:
            self._wait_for_restart(app.name, waiting)

    def _report(self, app: App, names: Sequence[str], began_ms: int, seconds: float, kind: str = "reloaded") -> bool:
        """Say how a load went, if there was one. Returns whether it is in effect."""
        loaded = {key: status for key, status in app.entries.items() if status.checked_ms >= began_ms}
        if not loaded:
            self._unapplied.pop(app.name, None)
            return True
        faults = {key: status for key, status in loaded.items() if status.status == ERROR}
        if not faults:
            self._unapplied.pop(app.name, None)
            if self._reloads_code:
                self._listener.current(app.name)
        warnings = [message for key, status in loaded.items() if key not in faults for message in status.messages]
        self._listener.reloaded(Reload(app, names[:MOST_NAMES], seconds, faults, warnings, kind))
        return not faults

    # --- restart required ----------------------------------------------------------------------------------------------------------------

    def _wait_for_restart(self, name: str, names: Iterable[str]) -> None:
        version = self._version(name)
        waiting = self._waiting.get(name)
        if waiting is None or waiting.version != version:
            waiting = self._waiting[name] = _WaitingFiles(version)
        new = [each for each in names if each not in waiting.names and len(waiting.names) < MOST_NAMES]
        waiting.names.update(dict.fromkeys(new))
        if new:
            self._listener.waits(name, list(waiting.names), new)

    def _version(self, name: str) -> int:
        app = self._applications.get(name)
        return 0 if app is None else app.loads

    def on_loaded(self, app: App) -> None:
        """An application has been loaded, or has gone."""
        version = self._version(app.name)
        if self._loads.get(app.name) != version:
            self._loads[app.name] = version
            self._waiting.pop(app.name, None)
            self._listener.current(app.name)
        tree = self._trees.get(app.name)
        if not self._is_closed and self._task is not None and app.is_serving and (tree is None or tree.root != app.served_directory):
            self._roots_changed = True
            self._arrived.set()

    # --- applications that come and go ---------------------------------------------------------------------------------------------------

    def _find_components(self) -> dict[str, Path]:
        try:
            return {directory.name: directory.resolve() for directory in component_directories(self._components_root)}
        except OSError:
            return {}

    async def _take_components(self) -> None:
        """Load what has come to the root of components and withdraw what has gone, or note that this waits."""
        found: dict[str, Path] = await self._in_thread(self._find_components)
        before, self._components = self._components, found
        if before != found:
            await self._applications.settle()  # what is being loaded may be the reason
        for name in sorted(before.keys() | found.keys()):
            if before.get(name) == found.get(name):
                continue
            app = self._applications.get(name)
            directory = self._root / name
            if app is not None and app.directory.absolute() != directory:  # given on the command line, which comes first
                continue
            if name in found and app is not None and app.is_serving and app.served_directory == found[name]:
                self._nothing_waits(name)  # it has been loaded from there already, or another version was there for a moment
                continue
            if name not in found and app is None:  # it has been withdrawn already
                self._nothing_waits(name)
                continue
            if not self._reloads_code:
                self._wait_for_restart(name, ["removed" if name not in found else "added" if app is None else "deployed"])
            elif name in found:
                await self._add_application(directory, self._load_here)
            else:
                await self._remove_application(name, self._load_here)

    def _nothing_waits(self, name: str) -> None:
        self._waiting.pop(name, None)
        self._listener.current(name)

    @property
    def _root(self) -> Path:
        assert self._components_root is not None
        return self._components_root.absolute()

    async def _load_here(self, directory: Path) -> list[str]:
        if not await self._in_thread(directory.is_dir):
            await self._applications.remove(directory.name)
            return []
        return faults_of((await self._applications.add(directory)).entries)

    async def _add_application(self, directory: Path, load: Callable[[Path], Awaitable[list[str]]]) -> list[str]:
        """Returns why the version before goes on."""
        tree = FileTree(await self._in_thread(directory.resolve), self._excluded)
        await self._in_thread(tree.look)
        self._trees[name_of(directory)] = tree
        began_ms, began = int(self._clock.wall() * 1000), self._clock.monotonic()
        kind = "reloaded" if self._applications.get(name_of(directory)) is not None else "added"
        faults = await load(directory)
        app = self._applications.get(name_of(directory))
        if app is not None:
            self._report(app, (), began_ms, self._clock.monotonic() - began, kind)
        return faults

    async def _remove_application(self, name: str, load: Callable[[Path], Awaitable[list[str]]]) -> None:
        app = self._applications.get(name)
        self._trees.pop(name, None)
        self._unapplied.pop(name, None)
        await load(self._root / name)
        if app is not None:
            self._listener.reloaded(Reload(app, (), 0.0, kind="removed"))

    async def reload_all(self) -> list[str]:
        """Load all applications once more, in place and in all processes, and those that have come; withdraw those that have gone. Returns what failed,
        one sentence each."""
        self._components = await self._in_thread(self._find_components)
        failed: list[str] = []
        directories = {app.name: app.directory for app in self._applications}
        for name in self._components:
            directories.setdefault(name, self._root / name)
        for name, directory in sorted(directories.items()):
            if self._components_root is not None and directory.absolute() == self._root / name and name not in self._components:
                await self._remove_application(name, self.load)
                continue
            if not await self._in_thread(directory.is_dir):
                failed.append(f"{name}: {directory} is not there")
                continue
            failed += [f"{name}: {fault}" for fault in await self._add_application(directory, self.load)]
        for name in [name for name in self._waiting if name not in directories]:
            del self._waiting[name]
            self._listener.current(name)
        if self._task is not None:
            await self._watch()
        return failed

    # --- what is watched -----------------------------------------------------------------------------------------------------------------

    async def _watch(self) -> None:
        """Watch the directories that there are now."""
        self._roots_changed = False
        directories, drives = await self._in_thread(self._find_watched)
        for name, tree in self._trees.items():
            if tree.is_cut:
                self._tell(f"{name} has more files than are watched: changes of the others are not noticed")
            elif not tree.is_there and self._applications.get(name) is not None:
                self._tell(f"{tree.root} is not there any more: {name} goes on as it was")
            else:
                self._told.discard(f"{tree.root} is not there any more: {name} goes on as it was")
        for drive in drives:
            self._tell(
                f"the files are on a drive ({drive}) of another machine, which does not tell about changes: they are looked for all the time"
            )
        if directories != self._watched:
            self._watched = directories
            self._watcher.watch([path for path, _ in directories], polls=bool(drives))

    def _tell(self, text: str) -> None:
        if text not in self._told:
            self._told.add(text)
            self._listener.warn(text)

    def _find_watched(self) -> tuple[list[tuple[str, int]], set[str]]:
        """The directories with their numbers, for one may be another of the same name. On a helper thread."""
        for app in self._applications:
            place = app.served_directory if app.is_serving else app.directory.resolve()
            tree = self._trees.get(app.name)
            if tree is None or tree.root != place:
                self._trees[app.name] = tree = FileTree(place, self._excluded)
                tree.look()
        found: dict[str, int] = {}
        for tree in list(self._trees.values()):
            found |= tree.watched()
            if tree.root.parent != tree.root:
                _add_number(found, tree.root.parent)  # it may be moved away, and come back
        if self._components_root is not None:
            _add_number(found, self._root)
        drives = {drive for tree in list(self._trees.values()) if (drive := remote_drive(tree.root)) is not None}
        return sorted(found.items()), drives


def _add_number(found: dict[str, int], directory: Path) -> None:
    with suppress(OSError):
        found.setdefault(str(directory), directory.stat().st_ino)


def _is_where_it_was(app: App) -> bool:
    """Whether the directory of an application is that of the version that serves: a link to another one waits for a restart."""
    return not app.is_serving or app.directory.resolve() == app.served_directory


def _loaded_files(app: App) -> set[str] | None:
    """The files of the modules that an application has imported: tests beside them are none. None: any may be, for it has no code or that has a fault."""
    if app.status == ERROR or app.code is None:
        return None
    package = app.code.modules.package + "."
    return {str(getattr(module, "__file__", "")) for name, module in list(sys.modules.items()) if name.startswith(package)}
