"""Finds the code that holds the loop: a handler that does not return is a pause for everybody (spec: configuration §9.3).

One timer of the operating system (ITIMER_REAL) is set when a turn begins, and set anew by the first turn that begins REARM later. So it only fires in
a turn that has already taken a while, or once when the process sleeps: a busy server with short turns gets no signal. The first turns of one that was
idle for IDLE take the timer back when they end: it would else be woken once more each time.

    turn begins         20...30 ms      +10 ms     +10 ms            poll
        |--------------------|------------|----------|----------------|
    timer is set          a sample     a sample   a sample      what was found is reported

A sample is the stack of the thread, taken by the handler of the signal, which Python runs between two instructions: the *outermost* frame in a
directory of an application is what holds the loop, the *innermost* is where it is. A turn may consist of many short handlers, and then none of them is
to blame: what is reported was the same outermost frame in samples that are SPAN apart, in a turn that took longer than LIMIT.

A call into C delays the handler until it returns. So a sample counts from the time at which it was due.

Applications may use the signal themselves. Then they have it: this stands back, for good.
"""

from __future__ import annotations

import math
import os
import signal
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import CodeType, FrameType

from svc.clock import Clock
from svc.logs import Logger
from svc.logs.application_code import ApplicationCode, Place
from svc.loop import TurnSelector
from svc.operations.held_loop import HeldLoop

LIMIT = 0.050  # seconds (spec: configuration §9.3)
FIRST = 0.030  # until the first sample, at most
REARM = 0.010  # seconds after which the next turn sets the timer anew
AGAIN = 0.010  # between two samples, or
SPARSE = 1 / 16  # of the turn so far, if that is longer: each signal is a byte in the pipe that wakes asyncio, and it must not become full
SPAN = 0.015  # between the first and the last sample of one holder, at least
IDLE = (
    0.040  # seconds without work since the timer was last set at the beginning of a turn: all but REARM of them are those of the last poll
)
FIRST_TURNS = 4
WOKEN = 0.001  # a turn that begins so soon after a signal to a sleeping process was begun by the signal itself
STUCK = 5.0  # seconds, after which it is said while it lasts: it may never end
MAX_HOLDERS = 20  # reported of one turn

_OWN = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
_LOGS = os.path.join(_OWN, "logs", "")


class _Holder:
    """What runs in samples one after the other: a frame of an application, or None for our own work. `began`: not after this."""

    __slots__ = ("began", "entry", "first", "is_told", "last", "places")

    def __init__(self, entry: FrameType | None, began: float, first: float) -> None:
        self.entry = entry
        self.began = began
        self.first = first
        self.last = first
        self.is_told = False  # that it is stuck
        self.places: dict[Place | str, float] = {}  # -> seconds that were spent there

    @property
    def is_found(self) -> bool:
        return self.last - self.first >= SPAN

    def most(self) -> Place | str:
        return max(self.places, key=self.places.__getitem__)


class SlowTurns:
    """The `loop.TurnWatch` of an instance. Everything runs on the main thread; elsewhere it does nothing."""

    def __init__(
        self,
        selector: TurnSelector,
        clock: Clock,
        code: ApplicationCode,
        held: HeldLoop,
        logger: Logger,
        *,
        set_timer: Callable[[float], object] = lambda seconds: signal.setitimer(signal.ITIMER_REAL, seconds),
    ) -> None:
        self._selector = selector
        self._now = clock.monotonic
        self._code = code
        self._held = held
        self._logger = logger
        self._set_timer = set_timer
        self._polling: frozenset[CodeType] = selector.polling_code
        self._is_wanted = False  # between `start` and `stop`
        self._is_installed = False
        self._due = math.inf  # when the timer fires
        self._idle = 0.0  # of the loop, seconds, when it was last set at the beginning of a turn
        self._first_turns = 0  # how many are to come
        self._is_first = False  # this is one
        self._turn = 0.0  # the turn that the samples are of
        self._holder: _Holder | None = None
        self._found: list[tuple[_Holder, float]] = []  # of this turn, with the seconds

    # --- installing ------------------------------------------------------------------------------------------------------------------

    def add(self, directory: Path, name: str = "") -> None:
        """Watch the code in an application's directory; to be called before any of it runs."""
        self._code.add(directory, name)
        if self._is_installed:
            # A module may set a handler of its own while it is imported, and is not to be sent our signal.
            self._set_timer(0)
            self._due = math.inf
            self._selector.watch_from = self._now()
        elif self._is_wanted:
            self._install()

    def start(self) -> None:
        """The loop begins to run; watches if there is code of applications, or as soon as there is."""
        self._is_wanted = True
        if self._code:
            self._install()

    def stop(self) -> None:
        """The loop ends."""
        self._is_wanted = False
        if self._is_installed:
            if self._is_ours:
                self._set_timer(0)  # first: without a handler the signal would end the process
                signal.signal(signal.SIGALRM, signal.SIG_DFL)
            self._withdraw()

    def _install(self) -> None:
        if threading.current_thread() is not threading.main_thread():
            return
        if signal.getsignal(signal.SIGALRM) is not signal.SIG_DFL:
            self._stand_back()
            return
        signal.signal(signal.SIGALRM, self.on_alarm)
        signal.siginterrupt(signal.SIGALRM, False)  # calls of libraries, also on helper threads, go on by themselves
        self._is_installed = True
        self._selector.watch = self
        self._selector.watch_from = self._now()

    @property
    def _is_ours(self) -> bool:
        return signal.getsignal(signal.SIGALRM) == self.on_alarm

    def _stand_back(self) -> None:
        self._is_wanted = False
        self._withdraw()
        self._logger.warn("an application uses SIGALRM itself: handlers that hold the loop are not looked for")

    def _withdraw(self) -> None:
        self._is_installed = False
        self._selector.watch = None
        self._selector.watch_from = math.inf
        self._selector.is_sampled = False
        self._holder = None
        self._found.clear()

    # --- the turn --------------------------------------------------------------------------------------------------------------------

    def begin_turn(self, now: float) -> None:
        if not self._is_ours:
            self._stand_back()
            return
        selector = self._selector
        self._arm(now, FIRST)
        selector.watch_from = now + REARM
        idle, self._idle = self._idle, selector.idle
        if selector.idle - idle >= IDLE:
            self._first_turns = FIRST_TURNS
        if self._first_turns:
            self._first_turns -= 1
            self._is_first = selector.is_sampled = True

    def end_turn(self, now: float) -> None:
        """Report what held the loop in the turn that ends."""
        self._selector.is_sampled = False
        if self._is_first:
            self._is_first = False
            if self._is_ours:
                self._set_timer(0)
                self._due = math.inf
                self._selector.watch_from = now
        self._end_holder(now)
        found, self._found = self._found, []
        for holder, seconds in found:
            place = holder.most()
            if isinstance(place, Place):
                self._held.note_handler(place, seconds)
            else:
                self._held.note_service(place, seconds)

    def _arm(self, now: float, delay: float) -> None:
        self._due = now + delay
        self._set_timer(delay)

    def on_alarm(self, number: int, frame: FrameType | None) -> None:
        """The signal. It runs in the middle of anything: it looks, and calls nothing that might be at work."""
        selector, now = self._selector, self._now()
        if not self._is_installed or frame is None:
            return
        if frame.f_code in self._polling:
            selector.watch_from = now + WOKEN
            return
        age = now - selector.turn_started
        if age < FIRST - REARM:
            self._arm(now, FIRST - age)
            return
        holder = self._sample(frame, max(min(self._due, now), selector.turn_started), now)
        if now - holder.began >= STUCK and not holder.is_told:
            self._tell(holder, frame, now)
        self._arm(now, max(AGAIN, age * SPARSE))

    def _tell(self, holder: _Holder, frame: FrameType, now: float) -> None:
        """Log at once what may never end, unless the log itself has been interrupted."""
        step: FrameType | None = frame
        while step is not None:
            if step.f_code.co_filename.startswith(_LOGS):
                return
            step = step.f_back
        holder.is_told = True
        place = holder.most()
        if isinstance(place, Place):
            with suppress(Exception):  # of a stream that was just being written to; it would be raised in the application
                self._held.note_stuck(place, now - holder.began)

    def _sample(self, frame: FrameType, due: float, now: float) -> _Holder:
        """Look who runs, and has run since `due`."""
        selector, holder = self._selector, self._holder
        if self._turn != selector.turn_started:
            self._turn, holder = selector.turn_started, None
            self._found.clear()
        frames = self._code.frames(frame)
        entry = None if frames is None else frames[0]
        if holder is None or holder.entry is not entry:
            began = selector.turn_started if holder is None else holder.last
            if holder is not None:
                self._end_holder(due)
            holder = self._holder = _Holder(entry, began, due)
        place = (self._code.place_of(frames[1]) if frames is not None else None) or _own_place(frame)
        holder.places[place] = holder.places.get(place, 0.0) + now - holder.last
        holder.last = now
        selector.is_sampled = True
        return holder

    def _end_holder(self, end: float) -> None:
        holder, self._holder = self._holder, None
        if holder is not None and holder.is_found and end - holder.began >= LIMIT and len(self._found) < MAX_HOLDERS:
            holder.entry = None  # it keeps what the function has made
            self._found.append((holder, end - holder.began))


def _own_place(frame: FrameType) -> str:
    """The innermost function of ours, else of a library."""
    step: FrameType | None = frame
    while step is not None and not step.f_code.co_filename.startswith(_OWN):
        step = step.f_back
    shown = step or frame
    return f"{shown.f_code.co_qualname} ({shown.f_code.co_filename.removeprefix(_OWN)}, line {shown.f_lineno})"
