"""`scope`: what `handle_application` of a plugin is given (spec: plugins §3)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from svc.apps.files import FileSet
from svc.apps.plugins.calls import PluginCalls
from svc.apps.plugins.emitter import Callbacks
from svc.apps.plugins.entries import EntryHandler, read_files
from svc.apps.plugins.options import Options
from svc.apps.status import ERROR, HEALTHY, LOADING, UNKNOWN, WARNING

if TYPE_CHECKING:
    from svc.apps.plugins.entry import PluginEntry

READY, CLOSE = "ready", "close"
STATUSES = (HEALTHY, WARNING, LOADING, ERROR, UNKNOWN)


class Scope:
    """One plugin in one application."""

    def __init__(self, entry: PluginEntry, calls: PluginCalls) -> None:
        context = entry.context
        self._entry = entry
        self._calls = calls
        self._callbacks = Callbacks("scope", (READY, CLOSE, "error"))
        self._handlers: list[EntryHandler] = []
        self._deliveries: list[asyncio.Task[None]] = []
        self._is_closed = False
        self.name = context.key
        self.directory = str(context.app.directory.resolve())
        self.options = Options(context.options, context.app.config)
        self.resources = entry.resources
        self.server = entry.server
        interface = context.runtime.interface
        logger: Any = None if interface is None else interface.logger
        self.logger = logger.with_tag(context.key) if hasattr(logger, "with_tag") else logger
        calls.on_error = lambda: self._callbacks.of("error")

    @property
    def models(self) -> Any:
        """Raises RuntimeError."""
        raise RuntimeError("scope.models: models are not available in this version of svc")

    def handle_entry(self, files: Any = None, handler: Callable[..., Any] | None = None) -> EntryHandler:
        """Have `handler(event)` called for each file and directory: of `files`, or of the options `files` and `urlPath` of the entry.

        Raises ValueError for files that cannot be meant, and if there are none; TypeError.
        """
        if handler is None and callable(files):
            files, handler = None, files
        if self._is_closed:
            raise RuntimeError("the scope is closed")
        found = EntryHandler(self, self._calls, self._file_set(files), handler, is_default=files is None)
        self._handlers.append(found)
        self._deliver(found)
        return found

    def on(self, event: str, callback: Callable[..., Any]) -> Scope:
        """`callback()` for "ready" (the application is in effect) and "close" (the plugin ends); `callback(error)` for "error"."""
        self._callbacks.add(event, callback)
        if event == READY and self._entry.is_ready:
            self._calls.keep(self._call_ready(callback))
        return self

    def request_restart(self) -> None:
        """Have the application loaded once more; where that waits for a restart, the status says so."""
        self._entry.request_restart()

    def set_status(self, status: str, message: str = "") -> None:
        """Report how the plugin is: "healthy", "warning", "error", "loading" or "unknown". Raises ValueError."""
        if status not in STATUSES:
            raise ValueError(f"a status is one of {', '.join(STATUSES)}, not {status!r}")
        self._entry.set_status(status, str(message))

    @property
    def status(self) -> str:
        return self._entry.context.status.status

    def close(self) -> None:
        """End the plugin in this application: listeners, resources, handlers and tasks."""
        self._entry.end()

    # --- for the entry and its handlers --------------------------------------------------------------------------------------------------

    def _file_set(self, files: Any) -> FileSet:
        context = self._entry.context
        if files is None:
            patterns, url_path = self.options.get("files"), self.options.get("urlPath")
            if patterns is None:
                raise ValueError(f"the entry '{self.name}' has no option files, and handle_entry was given none")
        else:
            patterns, url_path = read_files(files)
        return FileSet(context.app.directory, patterns, url_path, app=context.app.name)

    def _deliver(self, handler: EntryHandler) -> None:
        self._deliveries.append(self._calls.keep(handler._refresh()))

    async def _delivered(self) -> None:
        """Until all that was there at the beginning is. Raises ModuleFault."""
        while self._deliveries:
            waiting, self._deliveries = self._deliveries, []
            outcomes = await asyncio.gather(*waiting, return_exceptions=True)
            for outcome in outcomes:
                if isinstance(outcome, BaseException) and not isinstance(outcome, asyncio.CancelledError):  # cancelled: the scope is closed
                    raise outcome

    async def _ready(self) -> None:
        for callback in self._callbacks.of(READY):
            await self._call_ready(callback)

    async def _call_ready(self, callback: Callable[..., Any]) -> None:
        await self._calls.call(callback, during="the handler of 'ready'")

    def _close(self) -> None:
        if not self._is_closed:
            self._is_closed = True
            for handler in self._handlers:
                handler.close()
            for callback in self._callbacks.of(CLOSE):
                self._calls.notify(callback, during="the handler of 'close'")

    def __repr__(self) -> str:
        return f"<scope of {self.name} in {self._entry.context.app.name}>"
