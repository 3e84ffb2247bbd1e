"""The Python code of one version of an application (spec: configuration §9.2).

Modules are loaded aside: listeners, resources and settings of tables that they make wait until `activate`, and are dropped if a module fails. The
version before it ends in the same turn. Its requests, subscriptions and tasks of handlers go on with its code; tasks that its modules have started
while they were loaded are cancelled.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from svc.api.registry import ResourceRegistry
from svc.api.server import Server
from svc.api.table_settings import LOADING, TableSettings
from svc.apps.modules import ApplicationModules
from svc.apps.packages import add_packages, remove_packages
from svc.resources import Registration

if TYPE_CHECKING:
    from svc.api.interface import Interface


class CodeVersion:
    """`modules`: loads. `server`, `resources`: what the modules see under these names. `settings`: what they set on tables."""

    def __init__(
        self,
        interface: Interface,
        name: str,
        directory: Path,
        config: Mapping[str, Any],
        *,
        url_path: str | None = None,
        host: str | None = None,
        replaces: CodeVersion | None = None,
    ) -> None:
        """`url_path`, `host`: where the application is mounted. `replaces`: the version that ends when this one takes effect."""
        self._interface = interface
        self._replaces = replaces
        former = None if replaces is None else replaces.server
        self.server: Server | None = None
        if interface.server is not None:
            self.server = interface.server.of_application(name, url_path=url_path, host=host, replaces=former, staged=True)
        self.resources = ResourceRegistry(interface, self, self._register)
        if self.server is not None:
            self.server.resources = self.resources
        self.settings = TableSettings()
        self._packages = add_packages(directory)
        self.modules = ApplicationModules(interface, name, directory, config, server=self.server, settings=self.settings)
        self._tasks: set[asyncio.Task[Any]] = set()  # that the modules have started while they were loaded
        self._registrations: list[Registration] = []  # that wait
        self._is_active = False
        self._is_withdrawn = False

    def load(self, path: Path) -> ModuleType:
        """Run a module of the application, once. Raises ModuleFault; then nothing is left of what the module has registered."""
        with self.together(), self.loading():
            return self.modules.load(path)

    @contextmanager
    def loading(self, tasks: set[asyncio.Task[Any]] | None = None, settings: TableSettings | None = None) -> Iterator[None]:
        """What the code of the block sets on tables waits for `activate`; tasks that it starts belong to this version. `tasks`, `settings`: get both in
        place of the version. The block must not wait."""
        token = LOADING.set(self.settings if settings is None else settings)
        loop = self._interface.loop
        factory = loop.get_task_factory()
        loop.set_task_factory(partial(_make_task, self._tasks if tasks is None else tasks, factory))
        try:
            yield
        finally:
            loop.set_task_factory(factory)
            LOADING.reset(token)

    @contextmanager
    def together(self) -> Iterator[None]:
        """What the code of the block registers, and sets on tables, is taken back if it raises. The block must not wait."""
        settings, resources = len(self.settings), len(self._registrations)
        try:
            if self.server is None:
                yield
            else:
                with self.server.together():
                    yield
        except BaseException:
            self.settings.cut(settings)
            del self._registrations[resources:]
            raise

    def _register(self, registration: Registration) -> None:
        if self._is_withdrawn:
            raise RuntimeError("this version of the application has been replaced: it cannot register anything any more")
        if self._is_active:
            self._interface.registry.change([registration])
        else:
            self._registrations.append(registration)

    def activate(self) -> tuple[list[Registration], list[Exception]]:
        """Take effect, in place of the version before. Returns the resources that the code has registered itself, and what could not be set on tables."""
        self._is_active = True
        replaced, self._replaces = self._replaces, None
        if replaced is not None:
            replaced.settings.give_way()
        faults = self.settings.activate()
        if self.server is not None:
            self.server.activate()
        if replaced is not None:
            replaced.withdraw()
        self._interface.drop_unused_caches()
        waiting, self._registrations = self._registrations, []
        return waiting, faults

    def withdraw(self) -> None:
        """End. The modules stay importable as long as requests may run that began before."""
        self._is_withdrawn = True
        if self.server is not None:
            self.server.withdraw()
        self.settings.withdraw()
        self._interface.drop_unused_caches()
        for task in list(self._tasks):
            task.cancel()
        remove_packages(self._packages)
        if self._is_active:
            self._interface.loop.call_later(self._interface.running.timeout, self.modules.forget)
        else:
            self.modules.forget()


def _plain_task(loop: asyncio.AbstractEventLoop, coroutine: Coroutine[Any, Any, Any], **options: Any) -> asyncio.Task[Any]:
    return asyncio.Task(coroutine, loop=loop, **options)


def _make_task(
    tasks: set[asyncio.Task[Any]], factory: Any, loop: asyncio.AbstractEventLoop, coroutine: Coroutine[Any, Any, Any], **options: Any
) -> asyncio.Task[Any]:
    task: asyncio.Task[Any] = (factory or _plain_task)(loop, coroutine, **options)
    tasks.add(task)
    task.add_done_callback(tasks.discard)
    return task
