"""Code that holds the loop is found; code that does not is not, and the signal disturbs nobody."""

from __future__ import annotations

import asyncio
import math
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from svc.clock import FakeClock
from svc.config import Config
from svc.logs import Logs
from svc.logs.application_code import ApplicationCode, Place
from svc.loop import TurnSelector, new_loop
from svc.server import slow_turns
from svc.server.slow_turns import FIRST, REARM, WOKEN, SlowTurns
from tests.support.application_file import run_as_file

SOURCE = """\
def waits(ms):
    return wait(ms)

class Seat:
    def get(self):
        wait(20)
        wait(31)

def calls(functions):
    for function in functions:
        function()

def blocks(function):
    return function()
"""


class Noted:
    """In place of `HeldLoop`."""

    def __init__(self, selector: Any = None) -> None:
        self.selector = selector
        self.handlers: list[tuple[Place, int]] = []
        self.service: list[tuple[str, int]] = []
        self.stuck: list[tuple[Place, int]] = []

    def note_handler(self, place: Place, seconds: float) -> None:
        self.handlers.append((place, round(seconds * 1000)))

    def note_stuck(self, place: Place, seconds: float) -> None:
        self.stuck.append((place, round(seconds)))
        raise RuntimeError("reentrant call")  # as of a stream that was being written to

    def note_service(self, place: str, seconds: float) -> None:
        self.service.append((place, round(seconds * 1000)))


class Scene:
    """Turns by hand: `wait` is what handlers do, and the timer fires while they do it."""

    def __init__(self, tmp_path: Path, clock: Any = None) -> None:
        self.clock = FakeClock()
        self.selector = TurnSelector(self.clock)
        self.noted = Noted()
        self.logs = Logs.from_config(Config.from_document({"logging": {"level": "info"}}, tmp_path / "root"), clock=self.clock)
        self.fires_at = math.inf
        self.timers: list[float] = []
        self.watch = SlowTurns(
            self.selector,
            self.clock,
            ApplicationCode(),
            self.noted,  # type: ignore[arg-type]
            self.logs.logger,
            set_timer=self._set_timer,
        )
        self.application = run_as_file(tmp_path / "shop" / "resources.py", SOURCE, wait=self.wait)
        self.directory = tmp_path / "shop"

    def _set_timer(self, seconds: float) -> None:
        self.timers.append(round(seconds, 6))
        self.fires_at = self.clock.monotonic() + seconds if seconds else math.inf

    def fire(self, frame: FrameType) -> None:
        self.fires_at = math.inf
        self.watch.on_alarm(signal.SIGALRM, frame)

    def wait(self, ms: float, frame: FrameType | None = None) -> None:
        """Python code that takes this long."""
        frame = frame or sys._getframe()
        for _ in range(int(ms)):
            self.clock.advance(0.001)
            if self.clock.monotonic() >= self.fires_at - 1e-9:
                self.fire(frame)

    def block(self, ms: float) -> None:
        """A call into C that takes this long: the signal is handled when it is over."""
        self.clock.advance(ms / 1000)
        if self.clock.monotonic() >= self.fires_at:
            self.fire(sys._getframe())

    def turn(self, *parts: Callable[[], Any]) -> None:
        self.selector.select(0)
        for part in parts:
            part()

    def run(self, *parts: Callable[[], Any]) -> None:
        """One turn, to its end."""
        self.turn(*parts)
        self.turn()


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Scene]:
    assert signal.getsignal(signal.SIGALRM) is signal.SIG_DFL
    scene = Scene(tmp_path)
    scene.watch.add(scene.directory)
    scene.watch.start()
    yield scene
    scene.watch.stop()
    assert signal.getsignal(signal.SIGALRM) is signal.SIG_DFL
    scene.selector.close()
    scene.logs.close()


def test_a_handler_that_holds_the_loop_is_named_with_the_time_it_took(scene: Scene) -> None:
    scene.run(scene.application["Seat"]().get)
    assert scene.noted.handlers == [(Place("shop", "resources.py", 7, "Seat.get"), 51)]
    assert scene.noted.service == []


def test_one_that_takes_less_is_not(scene: Scene) -> None:
    scene.run(lambda: scene.application["waits"](49))
    assert scene.noted.handlers == []


def test_the_line_is_the_one_that_took_longest(scene: Scene) -> None:
    scene.run(lambda: scene.application["calls"]([lambda: scene.wait(400), lambda: scene.application["waits"](100)]))
    assert scene.noted.handlers == [(Place("shop", "resources.py", 11, "calls"), 500)]


def test_many_short_handlers_in_a_turn_are_nobodys_fault(scene: Scene) -> None:
    scene.run(*[lambda: scene.application["waits"](4)] * 40)
    assert scene.noted.handlers == [] and scene.noted.service == []


def test_the_slow_one_among_many_is_found(scene: Scene) -> None:
    short = [lambda: scene.application["waits"](4)] * 10
    scene.run(*short, scene.application["Seat"]().get, *short)
    assert [place.function for place, _ in scene.noted.handlers] == ["Seat.get"]


def test_two_slow_ones_in_a_turn(scene: Scene) -> None:
    scene.run(lambda: scene.application["waits"](100), scene.application["Seat"]().get)
    (first, first_ms), (second, second_ms) = scene.noted.handlers
    assert (first.function, second.function) == ("waits", "Seat.get")
    assert abs(first_ms - 100) <= 10 and abs(second_ms - 51) <= 10


def test_a_call_into_c_counts_from_when_the_timer_was_due(scene: Scene) -> None:
    scene.run(lambda: scene.application["blocks"](lambda: scene.block(300)))
    assert scene.noted.handlers == [(Place("shop", "resources.py", 14, "blocks"), 300)]


def test_what_may_never_end_is_said_while_it_lasts(scene: Scene) -> None:
    scene.turn(lambda: scene.application["waits"](4900))
    assert scene.noted.stuck == []
    scene.run(lambda: scene.application["waits"](12_000))
    assert scene.noted.stuck == [(Place("shop", "resources.py", 2, "waits"), 5)]
    assert [ms for _, ms in scene.noted.handlers] == [4900, 12_000]


def test_what_never_ends_gets_few_signals(scene: Scene) -> None:
    """asyncio's pipe has room for 277 that it has not read; then each is a traceback on standard error, and SIGTERM would be lost."""
    scene.turn(lambda: scene.application["waits"](600_000))
    assert 50 < len(scene.timers) < 200
    assert [place.function for place, _ in scene.noted.stuck] == ["waits"]


def test_the_log_is_not_written_while_it_is_being_written(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    write = run_as_file(scene.directory.parent / "logs" / "files.py", "def write(function):\n    return function()\n")["write"]
    monkeypatch.setattr(slow_turns, "_LOGS", f"{scene.directory.parent / 'logs'}/")
    scene.run(lambda: scene.application["blocks"](lambda: write(lambda: scene.wait(6000))))
    assert scene.noted.stuck == []
    assert [place.function for place, _ in scene.noted.handlers] == ["blocks"]


def test_our_own_work_is_told_apart(scene: Scene) -> None:
    scene.run(lambda: scene.wait(80))
    assert scene.noted.handlers == []
    ((place, ms),) = scene.noted.service
    assert place.startswith("Scene.wait (") and ms == 80


def test_what_ran_before_the_end_of_the_turn_is_not_held_against_the_next(scene: Scene) -> None:
    scene.run(lambda: scene.application["waits"](30))
    scene.run(lambda: scene.application["waits"](30))
    assert scene.noted.handlers == []
    assert scene.watch._holder is None and not scene.selector.is_sampled


def test_a_busy_loop_with_short_turns_gets_no_signal(scene: Scene) -> None:
    fired: list[FrameType] = []
    scene.fire = fired.append  # type: ignore[method-assign]
    scene.timers.clear()
    for _ in range(1000):
        scene.turn(lambda: scene.wait(1))
    assert not fired
    assert len(scene.timers) == pytest.approx(1000 / (REARM * 1000), rel=0.2)
    assert set(scene.timers) == {FIRST}


def test_an_idle_loop_is_not_woken_by_the_timer(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    armed: list[float] = []

    def poll(timeout: float | None) -> list[tuple[int, int]]:
        armed.append(scene.fires_at)
        scene.clock.advance(1 if len(armed) % 2 else 0)  # two turns each time
        return []

    monkeypatch.setattr(scene.selector, "_poll", poll)
    scene.timers.clear()
    for _ in range(4):
        scene.turn(lambda: scene.wait(1))
    assert scene.timers == [FIRST, 0, FIRST, 0, FIRST, 0, FIRST] and armed == [math.inf] * 4
    scene.run(scene.application["Seat"]().get)  # a turn that is slow is found all the same
    assert [place.function for place, _ in scene.noted.handlers] == ["Seat.get"]
    assert armed[-1] == math.inf


def test_a_signal_to_a_sleeping_loop_is_the_last_one(scene: Scene) -> None:
    scene.turn()
    scene.timers.clear()
    frame = frame_of_poll(scene.selector)
    scene.clock.advance(FIRST)
    scene.fire(frame)
    assert scene.timers == []  # the signal wakes the loop: that turn does not set the timer either
    scene.turn()
    assert scene.timers == []
    scene.clock.advance(WOKEN)
    scene.turn()
    assert scene.timers == [FIRST]


def frame_of_poll(selector: TurnSelector) -> FrameType:
    """A frame such as the one in which a signal arrives while the loop waits."""
    (code, *_) = selector.polling_code

    class Frame:
        f_code = code

    return Frame()  # type: ignore[return-value]


def test_without_code_of_applications_there_is_no_signal_handler(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    scene.watch.start()
    assert signal.getsignal(signal.SIGALRM) is signal.SIG_DFL
    assert scene.selector.watch_from == math.inf
    scene.watch.add(scene.directory)  # an application comes while the server runs
    assert signal.getsignal(signal.SIGALRM) == scene.watch.on_alarm
    scene.run(scene.application["Seat"]().get)
    assert len(scene.noted.handlers) == 1
    scene.watch.stop()
    scene.selector.close()
    scene.logs.close()


def test_elsewhere_than_on_the_main_thread_nothing_is_installed(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    scene.watch.add(scene.directory)
    thread = threading.Thread(target=scene.watch.start)
    thread.start()
    thread.join()
    assert signal.getsignal(signal.SIGALRM) is signal.SIG_DFL
    scene.selector.close()
    scene.logs.close()


def lines(scene: Scene) -> str:
    scene.logs.flush()
    file = scene.logs._config.root / "log" / "svc.log"  # type: ignore[union-attr]
    return file.read_text() if file.exists() else ""


def test_an_application_that_has_set_a_handler_keeps_it(tmp_path: Path) -> None:
    def own(number: int, frame: FrameType | None) -> None:
        pass

    scene = Scene(tmp_path)
    signal.signal(signal.SIGALRM, own)
    try:
        scene.watch.add(scene.directory)
        scene.watch.start()
        scene.run(scene.application["Seat"]().get)
        scene.watch.stop()
        assert signal.getsignal(signal.SIGALRM) is own
    finally:
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
    assert "an application uses SIGALRM itself" in lines(scene)
    assert scene.noted.handlers == []
    scene.selector.close()
    scene.logs.close()


def test_an_application_that_sets_a_handler_later_gets_the_signal(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    scene.watch.add(scene.directory)
    scene.watch.start()
    scene.turn()
    scene.watch.add(scene.directory)  # its modules are loaded again: the timer is off meanwhile
    assert scene.fires_at == math.inf
    signal.signal(signal.SIGALRM, lambda number, frame: None)
    try:
        scene.clock.advance(1)
        scene.run(scene.application["Seat"]().get)
        assert scene.selector.watch is None
        scene.clock.advance(1)
        scene.run(scene.application["Seat"]().get)
        scene.watch.stop()
        assert callable(signal.getsignal(signal.SIGALRM))
    finally:
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
    assert lines(scene).count("an application uses SIGALRM itself") == 1
    assert scene.noted.handlers == []
    scene.selector.close()
    scene.logs.close()


# --- with the signal itself --------------------------------------------------------------------------------------------------------------


@pytest.fixture
def real(tmp_path: Path) -> Iterator[tuple[asyncio.AbstractEventLoop, Noted, dict[str, Any]]]:
    loop, selector = new_loop()
    noted = Noted(selector)
    logs = Logs.from_config(Config.from_document({}, tmp_path / "root"))
    watch = SlowTurns(selector, FakeOrReal(), ApplicationCode(), noted, logs.logger)  # type: ignore[arg-type]
    source = "def blocks(function):\n    return function()\n\nasync def steps(function):\n    await nothing()\n    return function()\n"
    application = run_as_file(tmp_path / "shop" / "resources.py", source, nothing=lambda: asyncio.sleep(0))
    watch.add(tmp_path / "shop")
    loop.add_signal_handler(signal.SIGUSR1, lambda: None)  # the loop is woken by signals from now on
    watch.start()
    yield loop, noted, application
    watch.stop()
    assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)
    loop.close()
    logs.close()


class FakeOrReal:
    monotonic = staticmethod(time.perf_counter)


def test_a_blocking_call_goes_on_after_the_signal(real: Any) -> None:
    loop, noted, application = real
    reader, writer = os.pipe()

    def read() -> bytes:
        threading.Timer(0.3, os.write, (writer, b"x")).start()
        return os.read(reader, 10)

    async def main() -> Any:
        loop.call_soon(lambda: results.append(application["blocks"](read)))
        await asyncio.sleep(0.01)
        return await application["steps"](lambda: time.sleep(0.15))

    results: list[bytes] = []
    loop.run_until_complete(main())
    loop.run_until_complete(asyncio.sleep(0))
    os.close(reader)
    os.close(writer)
    assert results == [b"x"]
    assert [(place.function, place.line) for place, _ in noted.handlers] == [("blocks", 2), ("steps", 6)]
    assert all(ms >= 50 for _, ms in noted.handlers)


def test_the_loop_still_hears_other_threads_and_signals(real: Any) -> None:
    loop, _, application = real
    heard = asyncio.Event()

    async def main() -> None:
        loop.add_signal_handler(signal.SIGUSR1, heard.set)
        application["blocks"](lambda: time.sleep(0.1))
        threading.Timer(0.05, os.kill, (os.getpid(), signal.SIGUSR1)).start()
        await asyncio.wait_for(heard.wait(), 30)
        future = loop.create_future()
        threading.Timer(0.05, loop.call_soon_threadsafe, (future.set_result, 7)).start()
        assert await asyncio.wait_for(future, 30) == 7

    loop.run_until_complete(main())


def test_a_sleeping_loop_is_not_woken_again_and_again(real: Any) -> None:
    loop, noted, _ = real
    turns = 0
    select = noted.selector.select

    def counted(timeout: float | None = None) -> Any:
        nonlocal turns
        turns += 1
        return select(timeout)

    noted.selector.select = counted
    loop.run_until_complete(asyncio.sleep(1))
    assert turns < 10  # 30 ms after the beginning a signal, and nothing else until the time is over
