"""How changed files of applications took effect, for the log, `get_status` and the screen of `svc dev`."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext

from svc.logs import Logs
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
