"""Handlers that are waiting for something: what lasts is reported, what does not end is ended (spec: applications §8)."""

from __future__ import annotations

import asyncio
import logging
from types import TracebackType
from typing import Any

from svc.api.verbs import Verb
from svc.clock import Clock
from svc.errors import ServerError

logger = logging.getLogger("svc.applications")

LONG = 30.0  # seconds, after which a handler is reported
TIMEOUT = 120.0  # by default
OF_APPLICATIONS = "svc_apps."  # what the names of their modules begin with


class RunningHandler:
    """One handler that runs in a task. A context manager around what it awaits: raises ServerError 504 if the time is over."""

    __slots__ = ("_handlers", "began", "is_over", "is_reported", "task", "verb", "what")

    def __init__(self, handlers: RunningHandlers, verb: Verb, what: str) -> None:
        self._handlers = handlers
        self.verb = verb
        self.what = what  # the request, for the log
        self.began = handlers.clock.monotonic()
        self.is_reported = self.is_over = False
        self.task: asyncio.Task[Any] | None = None

    def __enter__(self) -> RunningHandler:
        self.task = asyncio.current_task()
        self._handlers.open.add(self)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        self._handlers.open.discard(self)
        if self.is_over and isinstance(error, asyncio.CancelledError):
            if self.task is not None:
                self.task.uncancel()
            raise ServerError(f"The application did not answer within {self._handlers.timeout:g} seconds", 504) from None


class RunningHandlers:
    """All of one server instance. `timeout`: seconds."""

    def __init__(self, clock: Clock, timeout: float = TIMEOUT) -> None:
        self.clock = clock
        self.timeout = timeout
        self.open: set[RunningHandler] = set()

    def run(self, verb: Verb, what: str) -> RunningHandler:
        return RunningHandler(self, verb, what)

    def sweep(self, now: float) -> None:
        """To be called about once a second."""
        for running in list(self.open):
            lasted = now - running.began
            if lasted >= self.timeout and not running.is_over and running.task is not None:
                running.is_over = True
                logger.error(
                    "%s has not answered %s for %.0f s and is ended: %s",
                    running.verb.place,
                    running.what,
                    lasted,
                    position_of(running.task),
                )
                running.task.cancel()
            elif lasted >= LONG and not running.is_reported:
                running.is_reported = True
                logger.warning("%s has not answered %s for %.0f s: %s", running.verb.place, running.what, lasted, position_of(running.task))


def position_of(task: asyncio.Task[Any] | None) -> str:
    """Where it waits: the innermost place in the application's own code."""
    awaited: Any = None if task is None else task.get_coro()
    innermost = own = None
    while awaited is not None:
        frame = getattr(awaited, "cr_frame", None) or getattr(awaited, "ag_frame", None) or getattr(awaited, "gi_frame", None)
        if frame is not None:
            innermost = frame
            if frame.f_globals.get("__name__", "").startswith(OF_APPLICATIONS):
                own = frame
        awaited = getattr(awaited, "cr_await", None) or getattr(awaited, "ag_await", None) or getattr(awaited, "gi_yieldfrom", None)
    shown = own or innermost
    return "it waits" if shown is None else f"it waits at {shown.f_code.co_filename}:{shown.f_lineno}"
