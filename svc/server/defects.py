"""Where the defects of an instance are reported: in its log, and on the screen of `svc dev`."""

from __future__ import annotations

import asyncio
from contextlib import nullcontext

from svc.logs import Logs
from svc.logs.forgotten import ForgottenCalls
from svc.logs.redact import without_credentials
from svc.server.screen import Screen


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
