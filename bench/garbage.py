"""How long the interpreter's collector holds a turn, with many subscriptions and very many objects.

    python -m bench.garbage [--subscriptions 20000] [--objects 1000000] [--turns 20000]

Three processes, one after the other: with what Python does by itself, with what it does when all that was there at the start is frozen and its threshold is
higher, and with the rules of svc (`svc.server.garbage`). In each: subscriptions of the real hub come; objects come that stay; turns replace subscriptions and
objects by new ones and leave some garbage in cycles; others leave none; and one turn makes 500,000 objects that stay. Shown is the longest collection of each
generation, in milliseconds of CPU time, how many there were, and their part of the CPU time. At the end all objects are visited: how long that takes, how
much was found.

Not included: sockets, requests. The clock of the rules is the CPU time of the process, so other processes do not change what they do.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from bench.micro_hub import PRODUCT
from svc.auth.users import UserDirectory
from svc.clock import SYSTEM_CLOCK
from svc.realtime.commit_feed import CommitFeed
from svc.realtime.hub import Hub
from svc.realtime.subscription import Subscription
from svc.realtime.subscription_request import SubscriptionRequest
from svc.server.garbage import Garbage
from svc.store import Store, StoreSettings, Table
from svc.store.system import ensure_system

RULES = ("python", "frozen start, 20,000/10/10", "svc")
COMMITTED = 20  # things done in a turn
AT_ONCE = 500_000  # objects


class CpuTurns:
    """`active` is the CPU time of the process."""

    turn_started = idle = 0.0

    def __init__(self) -> None:
        self.begin_turn = None
        self.end_turn = lambda: False

    @property
    def active(self) -> float:
        return time.process_time()


class Figures:
    """The collections of one phase."""

    def __init__(self) -> None:
        self._longest = [0.0, 0.0, 0.0]
        self._count = [0, 0, 0]
        self._spent = self._began = 0.0
        self._since = time.process_time()

    def follow(self, phase: str, information: dict[str, Any]) -> None:
        if phase == "start":
            self._began = time.process_time()
            return
        took = time.process_time() - self._began
        generation = information["generation"]
        self._spent += took
        self._longest[generation] = max(self._longest[generation], took)
        self._count[generation] += 1

    def show(self, name: str) -> None:
        cells = [f"{1000 * longest:.1f} ({count})" if count else "–" for longest, count in zip(self._longest, self._count, strict=True)]
        total = time.process_time() - self._since
        print(f"| {name} | {' | '.join(cells)} | {self._spent:.2f} of {total:.2f} s |", flush=True)
        gc.callbacks.remove(self.follow)
        self.__init__()  # type: ignore[misc]
        gc.callbacks.append(self.follow)


class Load:
    """`end_turn`: called behind each turn."""

    def __init__(self, table: Table, hub: Hub, loop: asyncio.AbstractEventLoop, garbage: Garbage | None) -> None:
        self._table, self._hub, self._loop, self._garbage = table, hub, loop, garbage
        self._random = random.Random(1)
        self._subscriptions: list[Subscription] = []
        self._heap: dict[int, Any] = {}

    def end_turn(self) -> None:
        self._loop.run_until_complete(asyncio.sleep(0))
        if self._garbage is not None and time.process_time() >= self._garbage.due:
            self._garbage.collect()

    def subscribe(self, count: int) -> None:
        for number in range(count):
            self._subscriptions.append(self._subscription(number))
            if not number % COMMITTED:
                self.end_turn()

    def _subscription(self, number: int) -> Subscription:
        return self._hub.subscribe(SubscriptionRequest(self._table, key=f"p{number}", omit_current=True, check_rights=False))

    def fill(self, count: int) -> None:
        for number in range(count // 2):
            self._heap[number] = [str(number), [number]]
            if not number % (10 * COMMITTED):
                self.end_turn()

    def churn(self, turns: int, cycles: int) -> None:
        """Replace a subscription and an object in each turn, and leave cycles."""
        for _ in range(turns):
            for _ in range(cycles):
                one: list[Any] = []
                one.append({"one": one})
            number = self._random.randrange(len(self._subscriptions))
            self._subscriptions[number].close()
            self._subscriptions[number] = self._subscription(number)
            number = self._random.randrange(len(self._heap))
            self._heap[number] = [str(number), [number]]
            self.end_turn()

    def fill_at_once(self) -> None:
        self._heap[-1] = [[number] for number in range(AT_ONCE)]
        self.end_turn()


def run(rule: str, options: argparse.Namespace) -> None:
    figures = Figures()
    garbage = None
    with tempfile.TemporaryDirectory() as directory:
        store = Store(Path(directory), StoreSettings(write_async=True))
        ensure_system(store)
        table = store.open_database("data").define_table(PRODUCT)
        loop = asyncio.new_event_loop()
        hub = Hub(store, CommitFeed(store, loop, SYSTEM_CLOCK), loop, SYSTEM_CLOCK, UserDirectory(store))
        if rule == RULES[1]:
            gc.freeze()
            gc.set_threshold(20_000, 10, 10)
        elif rule == RULES[2]:
            garbage = Garbage(CpuTurns(), time.process_time, print)
            garbage.begin()
        gc.callbacks.append(figures.follow)
        load = Load(table, hub, loop, garbage)
        print(f"| **{rule}** | | | | |")
        load.subscribe(options.subscriptions)
        figures.show(f"{options.subscriptions:,} subscriptions come")
        load.fill(options.objects)
        figures.show(f"{options.objects:,} objects come")
        load.churn(options.turns, 5)
        figures.show(f"{options.turns:,} turns that replace, with 10 objects of garbage each")
        load.churn(options.turns, 0)
        figures.show(f"{options.turns:,} turns that replace")
        load.fill_at_once()
        figures.show(f"{AT_ONCE:,} objects in one turn")
        gc.unfreeze()
        found = gc.collect()
        figures.show(f"all objects: {found:,} were garbage")
        store.close()
        loop.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--subscriptions", type=int, default=20_000)
    parser.add_argument("--objects", type=int, default=1_000_000)
    parser.add_argument("--turns", type=int, default=20_000)
    parser.add_argument("--rule", choices=RULES, help="in this process, and no others")
    options = parser.parse_args()
    if options.rule is not None:
        run(options.rule, options)
        return
    print(f"Python {sys.version.split()[0]}", flush=True)
    print("| | young, ms | middle, ms | all, ms | of the CPU time |\n| --- | ---: | ---: | ---: | ---: |", flush=True)
    for rule in RULES:
        subprocess.run([sys.executable, "-m", "bench.garbage", *sys.argv[1:], "--rule", rule], check=True)


if __name__ == "__main__":
    main()
