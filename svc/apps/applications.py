"""All applications of an instance (spec: configuration §9.2)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, overload

from svc.apps.app import App, Decide
from svc.apps.code import CodeVersion
from svc.apps.entry import Runtime
from svc.apps.env_entry import load_first
from svc.apps.status import EntryStatus
from svc.store.schema import TableDefinition

END_SECONDS = 5.0
NO_APPLICATION = frozenset(("__pycache__", "node_modules"))


class Applications(Sequence[App]):
    """`on_loaded`: called after each load of an application. One is loaded at a time."""

    def __init__(self, runtime: Runtime, *, on_loaded: Callable[[App], None] = lambda app: None) -> None:
        self.runtime = runtime
        self.on_loaded = on_loaded
        self._apps: list[App] = []
        self._others: list[TableDefinition] = []
        self._lock = asyncio.Lock()
        self._directories: dict[str, Path] = {}  # of all applications, loaded or not yet
        self._reloading: set[asyncio.Task[None]] = set()
        self._is_starting = False
        self.reloads_code = False
        """Whether an application that asks for a restart is loaded once more. Set by `svc dev`."""
        runtime.directory_of = self._directory_of
        runtime.request_restart = self._request_restart
        runtime.hides_rules = self._hides_rules

    async def load_all(self, components_root: Path | None, extra: Sequence[Path] = ()) -> None:
        """Load the applications below `components_root`, by name, then those in `extra`, which come before one of the same name there."""
        self._is_starting = True
        try:
            await self._load_all(components_root, extra)
        finally:
            self._is_starting = False
        for app in self:
            app.known = self._definitions_beside(app)
            await app.all_loaded()

    async def _load_all(self, components_root: Path | None, extra: Sequence[Path]) -> None:
        given = {name_of(directory) for directory in extra}
        self._directories = {name_of(directory): directory for directory in (*component_directories(components_root), *extra)}
        for directory in (*component_directories(components_root), *extra):
            if directory in extra or directory.name not in given:
                await load_first(name_of(directory), directory, self.runtime)
        for directory in component_directories(components_root):
            if directory.name in given:
                self.runtime.report(directory.name, "warn", f"{directory} is not loaded: another application of this name was given")
            else:
                await self.add(directory)
        for directory in extra:
            await self.add(directory)

    def know(self, definitions: Sequence[TableDefinition], directories: Mapping[str, Path]) -> None:
        """Tables and directories of applications that are not loaded here; those that are may refer to them."""
        self._others = list(definitions)
        self._directories.update(directories)

    async def add(self, directory: Path, name: str = "", decide: Decide | None = None) -> App:
        """Load the application in a directory; if there is one of its name, to the version that is there now. `name`: default, that of the directory.

        `decide`: whether what is loaded is to serve. A new application of which nothing does is not kept.
        """
        name = name or name_of(directory)
        async with self._lock:
            app = self.get(name)
            is_new = app is None
            if app is None:
                app = App(name, directory, runtime=self.runtime)
                self._apps.append(app)
            mount = self.runtime.components.get(name)
            options = mount if isinstance(mount, Mapping) else {}
            app.url_path, app.host = options.get("urlPath"), options.get("host")
            app.directory = self._directories[name] = directory
            await self._load(app, decide=decide)
            if is_new and decide is not None and not app.is_serving:
                self._withdraw(app)
        return app

    def _directory_of(self, name: str) -> Path | None:
        app = self.get(name)
        return self._directories.get(name) if app is None else app.directory

    def _hides_rules(self, name: str) -> bool:
        """Whether applications beside this one may have rules about rows that are not known."""
        return self._is_starting or any(app.name != name and (not app.is_serving or app.has_failed_schema) for app in self._apps)

    def _request_restart(self, name: str, key: str) -> None:
        """An entry asks to be loaded once more."""
        app = self.get(name)
        if app is None:
            return
        if self.reloads_code:
            task = self.runtime.loop.create_task(self._load_again(name))
            self._reloading.add(task)
            task.add_done_callback(self._reloading.discard)
        else:
            app.ask_for_restart(key)

    async def _load_again(self, name: str) -> None:
        async with self._lock:
            app = self.get(name)
            if app is not None:  # it may have gone meanwhile
                await self._load(app)

    async def reload(self, name: str, keys: Sequence[str] | None = None) -> App:
        """Load an application, or some entries of it, once more, and switch. Raises KeyError for one that is not there."""
        async with self._lock:
            app = self.get(name)
            if app is None:
                raise KeyError(name)
            await self._load(app, keys)
        return app

    async def _load(self, app: App, keys: Sequence[str] | None = None, decide: Decide | None = None) -> None:
        """The caller has the lock."""
        code = app.code
        app.known = self._definitions_beside(app)
        await self._guarded(app, app.load(keys, decide))
        self.on_loaded(app)
        await self._reload_users(app, code)

    async def _reload_users(self, plugin: App, code: CodeVersion | None) -> None:
        """Load the code of the applications once more that have a plugin of this one, if its code is not that from before any more. When it comes: of those
        that have missed it."""
        if plugin.code is code:
            return
        for app in self:
            keys = [key for key in app.keys_of_plugin(plugin.name) if code is not None or app.has_failed(key)]
            if keys and app is not plugin:
                app.known = self._definitions_beside(app)
                await self._guarded(app, app.load(keys))
                self.on_loaded(app)

    async def _guarded(self, app: App, loading: Awaitable[Any]) -> Any:
        """The service never fails because of an application: what nothing else has caught is its status."""
        try:
            return await loading
        except Exception as error:
            app.fail(error)
            return None

    async def change(self, name: str, names: Sequence[str], *, reloads_code: bool) -> list[str]:
        """Files of an application have changed: paths below it. Returns those of Python code that are not loaded, unless it `reloads_code`."""
        async with self._lock:
            app = self.get(name)
            if app is None:
                return []
            code = app.code
            app.known = self._definitions_beside(app)
            waiting: list[str] | None = await self._guarded(app, app.change(names, reloads_code=reloads_code))
            self.on_loaded(app)
            await self._reload_users(app, code)
        return waiting or []

    async def settle(self) -> None:
        """Wait for the load that has begun, if one has."""
        async with self._lock:
            pass

    async def remove(self, name: str) -> None:
        """The application goes. Its tables and data stay."""
        async with self._lock:
            app = self.get(name)
            if app is not None:
                self._withdraw(app)

    def _withdraw(self, app: App) -> None:
        self._apps.remove(app)
        self._directories.pop(app.name, None)
        app.withdraw()
        self.on_loaded(app)

    def close(self) -> None:
        """The instance ends."""
        for app in self._apps:
            app.withdraw()
        self._apps.clear()

    async def ended(self) -> None:
        """Wait for what their plugins do at their end."""
        if self.runtime.ending:
            await asyncio.wait(self.runtime.ending, timeout=END_SECONDS)

    def get(self, name: str) -> App | None:
        return next((app for app in self._apps if app.name == name), None)

    def _definitions_beside(self, app: App) -> dict[str, dict[str, TableDefinition]]:
        """Database -> type name -> definition. Of several declarations of a table, the last one, with the rules about rows that any of them has."""
        known: dict[str, dict[str, TableDefinition]] = {}
        for definition in (*self._others, *[each for other in self._apps if other is not app for each in other.definitions]):
            types = known.setdefault(definition.database, {})
            before = types.get(definition.type_name)
            if before is not None and before.name == definition.name and before.allow and not definition.allow:
                definition = replace(definition, allow=before.allow)
            types[definition.type_name] = definition
        return known

    def statuses(self) -> dict[str, dict[str, EntryStatus]]:
        """Application -> key of its config.yaml -> how it went."""
        return {app.name: dict(app.entries) for app in self._apps}

    @overload
    def __getitem__(self, index: int) -> App: ...
    @overload
    def __getitem__(self, index: slice) -> list[App]: ...
    def __getitem__(self, index: int | slice) -> App | list[App]:
        return self._apps[index]

    def __iter__(self) -> Iterator[App]:
        return iter(list(self._apps))

    def __len__(self) -> int:
        return len(self._apps)


def name_of(directory: Path) -> str:
    """The name of the application in a directory: that of the directory, which may be a link."""
    return directory.name if directory.name not in ("", ".", "..") else directory.resolve().name


def component_directories(root: Path | None) -> list[Path]:
    """The directories of applications below `componentsRoot`, by name."""
    if root is None or not root.is_dir():
        return []
    return sorted(path for path in root.iterdir() if path.is_dir() and not path.name.startswith(".") and path.name not in NO_APPLICATION)
