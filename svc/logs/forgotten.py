"""What an application has forgotten to await: coroutines that never ran, and tasks that failed unnoticed (spec: configuration §9.3).

Python warns of the first on standard error, where nobody looks, and once for each place of the source until it ends; asyncio logs the second without
the application. Both become an error line of the application, with its own file and line, once for each place and minute.
"""

from __future__ import annotations

import asyncio
import re
import sys
import warnings
from collections.abc import Callable, Mapping
from types import CodeType
from typing import Any, TextIO

from svc.logs.application_code import ApplicationCode, Place, line_of
from svc.logs.core import Logs
from svc.seldom import Seldom

_NEVER_AWAITED = r"coroutine .*was never awaited"
_CREATED_AT = re.compile(r'^  File "(.+)", line (\d+), in (.+)$', re.MULTILINE)


class ForgottenCalls:
    """Reports for applications. Everything else goes where it went."""

    def __init__(self, logs: Logs, code: ApplicationCode) -> None:
        self._logs = logs
        self._code = code
        self._seldom = Seldom(logs.clock.monotonic)

    # --- coroutines ------------------------------------------------------------------------------------------------------------------

    def watch(self) -> Callable[[], None]:
        """Take over the warnings about coroutines, on the thread of the loop. Returns the function that undoes it."""
        restored = warnings.catch_warnings()
        restored.__enter__()
        warnings.filterwarnings("always", message=_NEVER_AWAITED, category=RuntimeWarning)
        before = warnings.showwarning

        def show(
            message: Warning | str,
            category: type[Warning],
            filename: str,
            lineno: int,
            file: TextIO | None = None,
            line: str | None = None,
        ) -> None:
            if not self._report_coroutine(str(message), filename, lineno):
                before(message, category, filename, lineno, file, line)

        warnings.showwarning = show
        depth = sys.get_coroutine_origin_tracking_depth()
        if not depth:
            sys.set_coroutine_origin_tracking_depth(1)  # the warning then says where the coroutine was made; free compared with making it

        def undo() -> None:
            if not depth:
                sys.set_coroutine_origin_tracking_depth(0)
            if warnings.showwarning is show:
                restored.__exit__(None, None, None)

        return undo

    def _report_coroutine(self, message: str, filename: str, line: int) -> bool:
        if re.match(_NEVER_AWAITED, message) is None:
            return False
        text = message.partition("\n")[0]
        # Where it was made, else where it was dropped.
        made = _CREATED_AT.search(message)
        for file, number, function in ([(made[1], int(made[2]), made[3])] if made else []) + [(filename, line, "")]:
            found = self._code.find(file)
            if found is not None:
                place = Place(*found, number, function)
                self._error(place, f"{place.file}, line {number}: {text}: write 'await' in front of the call")
                return True
        return False

    def report_call(self, code: CodeType, instruction: int) -> bool:
        """Log a call of the interface that an application's code has asked for and never awaited. False: the code is no application's."""
        found = self._code.find(code.co_filename)
        if found is None:
            return False
        count = self._seldom.count((code.co_filename, code.co_qualname, instruction))
        if count is not None:
            place = Place(*found, line_of(code, instruction), code.co_qualname)
            text = f"{place.file}, line {place.line}: a call in {place.function} was never awaited, so it was not made: write 'await' in front of it"
            self._write(place, count, text)
        return True

    # --- tasks -----------------------------------------------------------------------------------------------------------------------

    def report_task(self, context: Mapping[str, Any]) -> bool:
        """Log what the loop says of a task or future that nobody awaits (see `loop.call_exception_handler`). False: it is no application's."""
        task = context.get("task") or context.get("future")
        if task is None:
            return False
        error = context.get("exception")
        place = self._code.place_of_error(error) if isinstance(error, BaseException) else None
        coroutine = task.get_coro() if isinstance(task, asyncio.Task) else None
        name = getattr(coroutine, "__qualname__", "a future")
        code = getattr(coroutine, "cr_code", None)
        if place is None and code is not None:
            found = self._code.find(code.co_filename)
            place = None if found is None else Place(*found, code.co_firstlineno, code.co_qualname)
        if place is None:
            return False
        where = f"{place.file}, line {place.line}: "
        if isinstance(error, BaseException):
            self._error(place, f"{where}{name} failed, and nobody has awaited it:", error)
        else:
            self._error(place, f"{where}{name} was dropped before it ended: keep a reference to the task")
        return True

    def _error(self, place: Place, *messages: object) -> None:
        count = self._seldom.count(place)
        if count is not None:
            self._write(place, count, *messages)

    def _write(self, place: Place, count: int, *messages: object) -> None:
        more = (f"({count} times since the last line)",) if count > 1 else ()
        self._logs.get_logger(place.application, section=place.application).error(*messages, *more)
