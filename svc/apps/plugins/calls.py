"""Calls of the code of one plugin: within its time, with its tasks, and what it raises goes to its status (spec: plugins §2.3, §2.4)."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from typing import Any

from svc.api.table_settings import TableSettings
from svc.apps.calls import call
from svc.apps.entry import EntryContext
from svc.apps.load_limit import LOAD_SECONDS, LoadTimeout, load_limit
from svc.apps.modules import ModuleFault
from svc.loop import contained

MAX_FAULTS = 20  # in the status
_SLICE = 0.005  # seconds of events that are delivered in one turn


class PluginCalls:
    """`seconds`: that one call may take. `fault_of`: an error with its place in the code of the plugin. `is_collected`: what goes to the status is logged
    by the application, which is loading the entry or changing it. `settings`: what the calls set on tables."""

    def __init__(self, context: EntryContext) -> None:
        self.context = context
        self.seconds = LOAD_SECONDS
        self.fault_of: Callable[[BaseException], ModuleFault] = lambda error: ModuleFault(f"{type(error).__name__}: {error}")
        self.on_error: Callable[[], list[Callable[..., Any]]] = list
        self.is_loading = self.is_collected = True
        self.settings = TableSettings()
        self._tasks: set[asyncio.Task[Any]] = set()
        self._has_ended = False
        self._faults = 0
        self._now = context.runtime.clock.monotonic
        self._since = self._now()

    @contextmanager
    def _guard(self) -> Iterator[None]:
        code = self.context.code
        assert code is not None
        if self._has_ended:
            raise RuntimeError("the plugin has ended")
        with code.loading(self._tasks, self.settings):
            yield

    async def run(self, function: Callable[..., Any], *arguments: Any, during: str) -> Any:
        """What a function of the plugin returns. Raises ModuleFault, which says `during` what."""
        try:
            return await call(self._guard, function, *arguments, seconds=self.seconds, tasks=self._tasks)
        except (Exception, LoadTimeout) as error:
            fault = self.fault_of(error)
            raise ModuleFault(f"{during}: {fault}", fault.details) from error

    async def call(
        self, function: Callable[..., Any], *arguments: Any, during: str, take: Callable[[Any], None] = lambda result: None
    ) -> BaseException | None:
        """The same for what must not stop anything: what it raises goes to the status, and is returned. While the entry is loaded, a call that never
        ends is a ModuleFault. `take` is given what it returns."""
        try:
            take(await call(self._guard, function, *arguments, seconds=self.seconds, tasks=self._tasks))
        except LoadTimeout as error:
            if self.is_loading:
                fault = self.fault_of(error)
                raise ModuleFault(f"{during}: {fault}", fault.details) from error
            self.report(error, during)
            return error
        except Exception as error:
            if not self._has_ended:
                self.report(error, during)
            return error
        return None

    def notify(self, function: Callable[..., Any], *arguments: Any, during: str) -> None:
        """The same at once, where nothing can be awaited: what an async function does then is not waited for."""
        try:
            with load_limit(self.seconds):
                result = function(*arguments)
            if inspect.isawaitable(result):
                task = self.context.runtime.loop.create_task(self._finish(result, during))
                ending = self.context.runtime.ending
                ending.add(task)
                task.add_done_callback(ending.discard)
        except LoadTimeout as error:
            self.report(error, during)
        except BaseException as error:
            self.report(contained(error), during)

    async def _finish(self, awaitable: Any, during: str) -> None:
        try:
            async with asyncio.timeout(self.seconds):
                await awaitable
        except BaseException as error:
            self.report(contained(error), during)

    def keep(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """A task that ends with the plugin."""
        task = self.context.runtime.loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    def report(self, error: BaseException, during: str) -> None:
        """To the status, and to the log, with the place."""
        fault = self.fault_of(error)
        text = f"{during}: {fault}"
        self._faults += 1
        if self._faults == MAX_FAULTS:
            text += " (further faults are not listed)"
        if self._faults <= MAX_FAULTS:
            self.context.status.fail(text, fault.details)
            if not self.is_collected:
                self.log("error", text)
                self.log("debug", fault.details)
        if during != _OF_ERROR:
            for callback in self.on_error():
                self.notify(callback, error, during=_OF_ERROR)

    def warn(self, text: str) -> None:
        self._faults += 1
        if self._faults <= MAX_FAULTS:
            self.context.status.warn(text)
            if not self.is_collected:
                self.log("warn", text)

    def log(self, level: str, text: str) -> None:
        self.context.runtime.tell(self.context.app.name, level, f"{self.context.key}: {text}")

    def begin_change(self) -> None:
        """The status begins once more."""
        self._faults = 0
        self.is_collected = True

    def end_change(self) -> None:
        self.is_collected = False

    async def in_thread(self, function: Callable[..., Any], *arguments: Any) -> Any:
        return await self.context.runtime.in_thread(function, *arguments)

    async def give_way(self) -> None:
        """To others, if this has held the loop for a while."""
        now = self._now()
        if now - self._since > _SLICE:
            await asyncio.sleep(0)
            now = self._now()
        self._since = now

    def end(self) -> None:
        """The plugin is gone: its tasks end."""
        self._has_ended = True
        for task in list(self._tasks):
            task.cancel()


_OF_ERROR = "the handler of 'error'"
