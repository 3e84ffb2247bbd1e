"""A server instance for one test: without ports, on a loop and a clock of the test's, over a copy of the prepared root. It leaves nothing behind."""

from __future__ import annotations

import asyncio
import inspect
import os
import shutil
import threading
from collections.abc import Mapping
from contextlib import ExitStack, suppress
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any

from svc.api.running import position_of
from svc.apps import App
from svc.clock import SYSTEM_CLOCK, FakeClock
from svc.loop import contained
from svc.scheduler.scheduler import HEARTBEAT
from svc.server import Instance as ServedInstance
from svc.server import InstanceOptions
from svc.testing.loop import OWN_THREADS, RESTLESS, CountedThreads, Pool
from svc.testing.prepared import make_config, make_directory, place_root
from svc.testing.records import LogEntry, note_entry
from svc.testing.surroundings import HeldLoop, StandardLogging, Surroundings, end_what_holds, shown_stack
from svc.testing.tracebacks import is_hidden
from svc.testing.wire import MemorySocket, WireLoop

__tracebackhide__ = is_hidden

MAX_SWEEPS = 600  # of the server in one advance or a long wait: there its periodic work comes at longer intervals
PATIENCE = 10.0  # real seconds that something may take, where the environment does not say it
PATIENCE_VARIABLE = "SVC_TESTING_PATIENCE"
FAR = 3600.0  # seconds of the clock that something may take
ENDED = "the application of this test has ended"
FAREWELL = 1.0  # real seconds for threads to end
LOADING = 60.0  # real seconds for an application to load: a module may take 30


class LoadError(AssertionError):
    """The application, or an entry of it, could not be loaded."""


class NotEnded(AssertionError):
    """What the test waits for does not come."""


def default_patience() -> float:
    """For the machine on which tests run: one that is busy with others needs more than ours."""
    value = os.environ.get(PATIENCE_VARIABLE)
    try:
        return float(value) if value else PATIENCE
    except ValueError:
        raise ValueError(f"{PATIENCE_VARIABLE} is a number of seconds, not {value!r}") from None


class Instance:
    """`server`: of svc. `logs`: what has been logged since. A directory that is no application raises LoadError, as do faults in it with `check`."""

    def __init__(
        self,
        directory: Path,
        settings: Mapping[str, Any],
        *,
        check: bool = True,
        clock: FakeClock | None = None,
        patience: float | None = None,
        root: Path | None = None,
    ) -> None:
        """`clock`: None: one that shows the time of now. `root`: one that is there, and stays; None: one of its own."""
        self.directory = directory
        self.patience = patience = default_patience() if patience is None else patience
        self.logs: list[LogEntry] = []
        self.is_closed = False
        self.sockets: set[MemorySocket] = set()
        """Connections that the test has open."""
        self.mqtt_known: dict[str, set[int]] = {}
        """What clients of MQTT whose sessions last have received at QoS 2, by client id."""
        self._held: str | None = None
        with ExitStack() as undo:
            undo.callback(Surroundings().restore)
            undo.callback(_join_threads, set(threading.enumerate()))
            self._logging = StandardLogging()
            undo.callback(self._logging.end)
            if root is None:
                base = make_directory("svc-test-")
                undo.callback(shutil.rmtree, base, ignore_errors=True)
                root = base / "root"
                place_root(root)
            config = make_config(root, settings)
            self.clock = FakeClock(wall=SYSTEM_CLOCK.wall()) if clock is None else clock
            self.loop = WireLoop(self.clock)
            undo.callback(self._close_loop)
            options = InstanceOptions(
                make_executor=lambda name, threads: Pool(),
                watches=False,
                on_log=lambda level, tags, text: note_entry(self.logs, directory.name, level, tags, text),
                opens_ports=False,
            )
            self.server = ServedInstance(config, (directory,), self.loop, self.loop.turns, clock=self.clock, options=options)
            self._logging.keep()
            self.loop.set_exception_handler(self.server.defects.report_loop)
            self.loop.periodic = self.server.periodic
            self.server.scheduler.look = HEARTBEAT  # nothing but its own timers moves the clock
            self.server.applications.runtime.patience = None  # a test begins with all records
            self.interface = self.server.interface
            self.interface.threads = CountedThreads(self.loop)
            undo.callback(self._end)
            self._run(self.server.load(), "the end of loading", patience=max(patience, LOADING))
            self.server.begin()
            if check:
                self.check()
            self._undo = undo.pop_all()

    @property
    def app(self) -> App:
        return self.server.applications[0]

    # --- time passes -----------------------------------------------------------------------------------------------------------------

    @property
    def is_running(self) -> bool:
        """Whether this is called by code that runs on the loop of the instance."""
        return self.loop.is_running()

    def run(self, awaitable: Any, *, seconds: float = FAR) -> Any:
        """The result of `awaitable`; what is none is returned as it is. Raises NotEnded."""
        self.require_open()
        if not inspect.isawaitable(awaitable):
            return awaitable
        if self.is_running:
            raise RuntimeError("run() is for tests: code that runs on the event loop of the application awaits")
        result = self._run(awaitable, "what run() was given", seconds=seconds, patience=self.patience)
        self.rest()
        return result

    def _run(self, awaitable: Any, what: str, *, seconds: float = FAR, patience: float) -> Any:
        task = self.loop.create_task(_awaited(awaitable))
        self.wait_for(task, what, seconds=seconds, patience=patience)
        return task.result()

    def wait_for(self, future: asyncio.Future[Any], what: str, *, seconds: float = FAR, patience: float | None = None) -> None:
        """Until it is done. Raises NotEnded; a task is cancelled then."""
        if seconds > FAR:
            self.loop.pace = seconds / MAX_SWEEPS
        try:
            self._turn(future, seconds, waits_outside=True, patience=patience)
        finally:
            self.loop.pace = 1.0
        if not future.done():
            reason = self._why(what, seconds, self.patience if patience is None else patience)
            future.cancel()
            self.rest()
            raise NotEnded(reason)

    def settle(self) -> None:
        """Until nothing more happens by itself while the time stands still, and functions on threads have ended. Raises NotEnded."""
        self._turn(None, 0.0)
        if self.loop.turns.is_late:
            raise NotEnded(self._why("the end of all that the application does", 0.0, self.patience))

    def rest(self) -> None:
        """The same at the end of a call of a test: threads are not waited for, nor is what never comes to rest."""
        if not self.is_closed and not self.is_running:
            self._turn(None, 0.0, waits_for_calls=False, max_polls=RESTLESS)

    def advance(self, seconds: float) -> None:
        """Let so many seconds pass, timer by timer."""
        if seconds < 0:
            raise ValueError(f"the time cannot go back by {-seconds:g} s")
        if self.is_running:
            raise RuntimeError("advance() is for tests: code that runs on the event loop of the application waits with asyncio.sleep()")
        self.loop.pace = max(1.0, seconds / MAX_SWEEPS)
        try:
            self._turn(None, seconds)
        finally:
            self.loop.pace = 1.0
        if not self.loop.turns.is_idle:
            raise NotEnded(self._why(f"the end of the {seconds:g} s", seconds, self.patience))

    def _turn(self, future: asyncio.Future[Any] | None, seconds: float, *, patience: float | None = None, **options: Any) -> None:
        """Options: of `ManualLoop.expect`."""
        self.require_open()
        if self.is_running:
            raise RuntimeError("requests of tests cannot be made by code that runs on the event loop of the application")
        patience = self.patience if patience is None else patience
        self.interface.make_current()
        self._logging.use()
        self._held = None
        turns = self.loop.turns
        self.loop.expect(seconds, patience=patience, **options)
        has_ended = False
        while not has_ended and self._held is None:
            try:
                with end_what_holds(patience, lambda: turns.polls, partial(self._note_held, patience)):
                    has_ended = self.loop.turn_until(future)
            except (SystemExit, KeyboardInterrupt) as error:  # which asyncio lets through
                self.server.defects.report_loop(
                    self.loop,
                    {
                        "message": "a task of an application has called sys.exit() or raised KeyboardInterrupt",
                        "exception": contained(error),
                    },
                )
            except HeldLoop:
                pass
        if self._held is not None:
            raise NotEnded(self._held)

    def _note_held(self, seconds: float, frame: FrameType | None) -> None:
        self._held = f"code has held the event loop for {seconds:g} s, and was ended:\n{shown_stack(frame, self.directory)}"
        self.loop.stop()

    def _why(self, what: str, seconds: float, patience: float) -> str:
        turns = self.loop.turns
        if not turns.is_late:
            text = f"{what} did not come within {seconds:g} s of the test's clock"
        else:
            text = f"{what} did not come within {patience:g} s"
            if turns.calls:
                text += f"; functions that run on threads (run_in_thread, to_thread): {turns.calls}"
            if turns.has_connections():
                text += "; the application waits for a connection"
            if names := turns.foreign_threads():
                text += f"; threads that have begun since it was started: {', '.join(names)}"
        waiting = [f"{running.verb.place}: {position_of(running.task)}" for running in self.interface.running.open]
        return "\n".join([text, *waiting])

    # --- what is wrong ---------------------------------------------------------------------------------------------------------------

    def check(self) -> None:
        """Raise LoadError for entries that could not be loaded."""
        apps = self.server.applications
        faults: list[str] = []
        for app in apps:
            for key, status in app.entries.items():
                if status.status == "error":
                    faults += [f"{key}: {message}" for message in status.messages]
                    faults += [f"\n{details.rstrip()}" for details in status.details]
        if faults:
            raise LoadError(f"the application in {self.directory} could not be loaded:\n" + "\n".join(faults))

    # --- the end ---------------------------------------------------------------------------------------------------------------------

    def require_open(self) -> None:
        """Raises RuntimeError."""
        if self.is_closed:
            raise RuntimeError(ENDED)

    def close(self) -> None:
        """Idempotent."""
        if not self.is_closed:
            self._undo.close()

    def _end(self) -> None:
        for sock in list(self.sockets):
            self.loop.hang_up(sock)
        with suppress(NotEnded):  # what disturbs the rest ends now
            self.rest()
        ending = self.loop.create_task(self.server.end(lambda: asyncio.all_tasks(self.loop) - {ending}))
        try:
            self.wait_for(ending, "the end of the application")
            ending.result()
        finally:
            self.is_closed = True

    def _close_loop(self) -> None:
        loop = self.loop
        self.is_closed = True
        if not loop.is_closed():
            loop.turns.end_turn = lambda: False
            loop.turns.begin_call()  # so the time stands still: no timer of the server finds the store closed
            for work in (loop.shutdown_asyncgens(), loop.shutdown_default_executor()):
                task = loop.create_task(work)
                loop.expect(0.0, patience=FAREWELL)
                loop.turn_until(task)
            loop.close()


async def _awaited(awaitable: Any) -> Any:
    return await awaitable


def _join_threads(before: set[threading.Thread]) -> None:
    """Those of the instance that have nothing more to do end now. One that never ends is left: it keeps no process from ending."""
    for thread in threading.enumerate():
        if thread not in before and thread.name.startswith(OWN_THREADS):
            thread.join(FAREWELL)
