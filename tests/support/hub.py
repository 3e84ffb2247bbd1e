"""What tests of subscriptions need: a loop that does nothing by itself, and a sibling process that writes to the same directory."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Any

MOST_CALLS = 100_000  # of one `run`: more of them never end
SHORT = 1.0  # seconds: timers of at most this length are looks at what others do


class Timer:
    def __init__(self, delay: float, callback: Callable[..., object], args: tuple[Any, ...]) -> None:
        self.delay, self.callback, self.args = delay, callback, args
        self.cancelled = False

    def cancel(self) -> None:
        self.cancelled = True


class StillLoop:
    """As much of an event loop as subscriptions need. Time stands still: `fire` lets timers run out."""

    def __init__(self) -> None:
        self._ready: deque[tuple[Callable[..., object], tuple[Any, ...]]] = deque()
        self.timers: list[Timer] = []

    def call_soon(self, callback: Callable[..., object], *args: Any) -> None:
        self._ready.append((callback, args))

    call_soon_threadsafe = call_soon

    def call_later(self, delay: float, callback: Callable[..., object], *args: Any) -> Timer:
        timer = Timer(delay, callback, args)
        self.timers.append(timer)
        return timer

    def run(self) -> None:
        """Call what is ready, until nothing is."""
        for _ in range(MOST_CALLS):
            if not self._ready:
                return
            callback, args = self._ready.popleft()
            callback(*args)
        raise AssertionError("it never ends")

    def run_once(self) -> None:
        """Call what is ready now, and nothing that becomes ready by it."""
        for _ in range(len(self._ready)):
            callback, args = self._ready.popleft()
            callback(*args)

    def fire(self, *, long: bool = False) -> None:
        """Let the short timers, or with `long` all, run out, and everything that follows."""
        timers, self.timers = self.timers, []
        for timer in timers:
            if timer.cancelled:
                continue
            if timer.delay <= SHORT or long:
                timer.callback(*timer.args)
            else:
                self.timers.append(timer)
        self.run()

    def as_loop(self) -> asyncio.AbstractEventLoop:
        return self  # type: ignore[return-value]


class Sibling:
    """Another process on the same directory. A write: [database, table, kind, key, data]; a key that is a list stands for a tuple."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.support.hub"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=Path(__file__).parents[2],
        )

    def open(self, path: Path) -> None:
        self._ask(["open", str(path)])

    def write(self, wall: float, writes: list[list[Any]]) -> None:
        """One transaction, by a clock that shows `wall`."""
        self._ask(["write", wall, writes])

    def drop(self, database: str, table: str) -> None:
        """Drop a table."""
        self._ask(["drop", database, table])

    def close(self) -> None:
        self._ask(["close"])

    def stop(self) -> None:
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait(10)
        self._process.stdout.close()

    def _ask(self, command: list[Any]) -> None:
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(json.dumps(command) + "\n")
        self._process.stdin.flush()
        answer = self._process.stdout.readline().strip()
        assert answer == "done", answer


def carry_out(transaction: Any, table: Any, kind: str, key: Any, data: Any) -> None:
    """One write as tests note it down."""
    from svc.store.values.validation import Add

    key = tuple(key) if isinstance(key, list) else key
    if kind == "put":
        expires_at = data.get("expires")
        transaction.put(table, key, {name: value for name, value in data.items() if name != "expires"}, expires_at=expires_at)
    elif kind == "patch":
        transaction.patch(table, key, {name: Add(value["add"]) if isinstance(value, dict) else value for name, value in data.items()})
    elif kind == "delete":
        transaction.delete(table, key)
    elif kind == "publish":
        transaction.publish(table, key, data)
    else:
        transaction.invalidate(table, key)


def _serve() -> None:
    from svc.clock import FakeClock
    from svc.store import Store

    store: Store | None = None
    clock = FakeClock()
    for line in sys.stdin:
        command, *args = json.loads(line)
        try:
            if command == "open":
                store = Store(Path(args[0]), clock=clock)
            elif command == "write":
                assert store is not None
                clock.advance(args[0] - clock.wall())
                transaction = store.begin("sibling")
                for database, table, kind, key, data in args[1]:
                    carry_out(transaction, store.databases[database].tables[table], kind, key, data)
                transaction.apply()
                store.commit_turn()
                store.end_turn()
                if transaction.outcome != (None,):
                    raise AssertionError(transaction.outcome)
            elif command == "drop":
                assert store is not None
                store.databases[args[0]].drop_table(args[1])
                store.commit_turn()
                store.end_turn()
            else:
                if store is not None:
                    store.close()
                store = None
            print("done", flush=True)
        except Exception as error:
            print(repr(error), flush=True)


if __name__ == "__main__":
    _serve()
