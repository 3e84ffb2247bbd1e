"""Where an instance reports its defects, and how changed files took effect: in its log, `get_status`, and on the screen of `svc dev`."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import nullcontext

from svc.logs import Logs
from svc.logs.forgotten import ForgottenCalls
from svc.logs.redact import without_credentials
from svc.operations.status_board import StatusBoard
from svc.server.reloading import Reload
from svc.server.screen import Screen


class ReloadReports:
    """The `ReloadListener` of an instance."""

    def __init__(self, logs: Logs, status: StatusBoard, screen: Screen | None) -> None:
        self._logs = logs
        self._status = status
        self._screen = screen

    def warn(self, text: str) -> None:
        self._logs.logger.warn(text)

    def reloaded(self, reload: Reload) -> None:
        """Its faults have been logged."""
        name = reload.app.name
        with self._logs.to_files() if self._screen is not None else nullcontext():
            if not reload.faults:
                self._logs.get_logger(name, section=name).info(reload.text)
        if self._screen is not None:
            self._screen.reloaded(reload)

    def waits(self, application: str, names: Sequence[str], new: Sequence[str]) -> None:
        self._status.files_changed(application, names)
        text = f"{', '.join(new)}: changed, which takes effect at a restart (svc restart, or the operation restart_service)"
        self._logs.get_logger(application, section=application).warn(text)

    def current(self, application: str) -> None:
        self._status.component_loaded(application)


class Defects:
    """`report` is the `log_error` of `Reactor`. `forgotten`: what nobody has awaited is told to it."""

    def __init__(self, logs: Logs, forgotten: ForgottenCalls, screen: Screen | None) -> None:
        self._logs = logs
        self._screen = screen
        self.forgotten = forgotten

    def report(self, where: str, error: BaseException | None) -> None:
        """`where`: what was being done. `error`: None for a fault that no exception tells of."""
        where = without_credentials(where)  # it may have the address of a request
        logger = self._logs.logger
        with self._logs.to_files() if self._screen is not None and error is not None else nullcontext():
            logger.error(where, error) if error is not None else logger.error(where)
        if self._screen is not None and error is not None:
            self._screen.defect(where, error)

    def report_loop(self, loop: asyncio.AbstractEventLoop, context: dict[str, object]) -> None:
        """The exception handler of an event loop."""
        if self.forgotten.report_task(context):
            return
        error = context.get("exception")
        self.report(str(context.get("message", "event loop")), error if isinstance(error, BaseException) else None)
