"""kill -9 of processes that write to one directory together: nothing acknowledged is lost, and none ever hangs.

Two to four child processes share one database, each a loop whose turns end as the server's do. In each, some tasks write single records, add to
a counter that all share, and write lists too long for a turn; background work runs in between. At random moments one of them is killed and
another takes its place, at the end all are. Then

- `svc check` finds nothing,
- each record is as its writer left it with the last acknowledged write, or with the one that was under way when it was killed,
- each list is there as a whole, and the counter has every acknowledged increment once,
- each acknowledged write has its entry in the log, and no refused one has.

A child that acknowledges nothing for PATIENCE seconds fails the test, with the stacks of its threads.

What is done is counted, not timed: CAMPAIGNS directories, each with at least WRITES acknowledged writes and with KILLS processes killed and
replaced before the last ones are killed. This is as much as a minute of writers brings that pause for 20 ms: some 50 processes killed, 14,000
writes acknowledged.

By hand, for as long as wanted: `SVC_CRASH_SECONDS=3600 pytest -n 0 -s tests/crash/test_processes_kill.py`; `SVC_CRASH_SEED` for other moments.
"""

from __future__ import annotations

import asyncio
import os
import random
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from svc.auth.writes import write
from svc.clock import SYSTEM_CLOCK
from svc.errors import Problem
from svc.loop import new_loop
from svc.store import Store, StoreSettings, Table
from svc.store.integrity.check import check_database
from svc.store.log.entries import DELETE
from svc.store.schema import Attribute, TableDefinition
from svc.store.values.keys import decode_key
from svc.store.values.records import decode
from svc.store.values.validation import Add
from tests.support.crash import SEED, Child, say

pytestmark = pytest.mark.programs

SECONDS = float(os.environ.get("SVC_CRASH_SECONDS", "0"))  # for which more campaigns follow
CAMPAIGNS = 6  # at least
WRITES = 2_000  # acknowledged in a campaign, at least
KILLS = 6  # of processes that are replaced, in a campaign
PATIENCE = 40.0  # seconds: longer than a writer may have to wait for others
MAP_BYTES = 1 << 34
SINGLE_WRITERS = 3  # tasks of a process
KEYS = 12  # of each of them
RECORDS = 120  # of a list
# Seconds at most between two single writes of a task, and between two lists of a process. Campaigns have them by turns: in the first the
# processes are always in each other's way, in the last they leave each other time.
PAUSES = ((0.0, 0.02), (0.005, 0.06), (0.02, 0.15))

NOTE = TableDefinition(
    "Note",
    attributes=(
        Attribute("id", primary_key=True),
        Attribute("n", indexed=True),
        Attribute("count", "Long"),
        Attribute("tags", elements=True, indexed=True),
    ),
)


# -- a child: `begin <what> <n>`, then `done` or `refused`, for each write


async def attempt(store: Store, table: Table, what: str, n: int) -> None:
    """`what`: a key, `counter`, or the beginning of the keys of a list."""
    transaction = store.begin()
    if what == "counter":
        transaction.patch(table, what, {"count": Add(1)})
    elif what.endswith("list"):
        for number in range(RECORDS):
            transaction.put(table, f"{what}{number}", {"n": n, "tags": [number % 5, n % 3]})
    elif n % 7:
        transaction.put(table, what, {"n": n, "tags": [n % 5, "x" * (n * 37 % 300)]})
    else:
        transaction.delete(table, what)
    say(f"begin {what} {n}")
    try:
        if transaction.is_long:
            await transaction.apply_long()
        else:
            await write(transaction)
    except Problem as problem:
        if problem.status_code != 503:
            raise
        say(f"refused {what} {n}")
    else:
        say(f"done {what} {n}")


async def write_single(store: Store, table: Table, name: str, source: random.Random, pause: float) -> None:
    for n in range(1, 1_000_000):
        what = "counter" if source.random() < 0.2 else f"{name}.{source.randrange(KEYS)}"
        await attempt(store, table, what, n)
        await asyncio.sleep(source.random() * pause)


async def write_lists(store: Store, table: Table, name: str, source: random.Random, pause: float) -> None:
    for n in range(1, 1_000_000):
        await asyncio.sleep(source.random() * pause)
        await attempt(store, table, f"{name}.list", n)


def write_all(path: Path, name: str, seed: int, pauses: tuple[float, float]) -> None:
    source = random.Random(seed)
    loop, selector = new_loop(SYSTEM_CLOCK)
    store = Store(path, StoreSettings(map_bytes=MAP_BYTES))
    table = store.open_database("data").define_table(NOTE)

    def end_turn() -> bool:
        if store.has_pending:
            store.commit_turn()
        store.end_turn()
        return False

    def maintain() -> None:
        store.maintenance(0.002)
        loop.call_later(0.1, maintain)

    async def run() -> None:
        writers = [write_single(store, table, f"{name}.{number}", source, pauses[0]) for number in range(SINGLE_WRITERS)]
        await asyncio.gather(write_lists(store, table, name, source, pauses[1]), *writers)

    selector.end_turn = end_turn
    loop.call_soon(maintain)
    say("ready")
    loop.run_until_complete(run())


# -- the parent


class Writer:
    """A child and what it has said. `state`: what -> n of its last acknowledged write; `under_way`: what -> n of the one not yet answered."""

    def __init__(self, path: Path, name: str, seed: int, pauses: tuple[float, float]) -> None:
        self.state: dict[str, int] = {}
        self.under_way: dict[str, list[int]] = {}
        self.acknowledged: list[tuple[str, int]] = []
        self.refused: list[tuple[str, int]] = []
        self.child = Child(write_all, path, name, seed, pauses, on_line=self.read)

    def read(self, line: str) -> None:
        kind, *rest = line.split()
        if kind == "ready":
            return
        what, n = rest[0], int(rest[1])
        if kind == "begin":
            self.under_way.setdefault(what, []).append(n)
            return
        self.under_way[what].remove(n)
        if kind == "done":
            self.state[what] = n
            self.acknowledged.append((what, n))
        else:
            self.refused.append((what, n))


class Campaign:
    """Processes on one new directory, until all are killed."""

    def __init__(self, path: Path, source: random.Random, pauses: tuple[float, float]) -> None:
        self.path = path
        self.source = source
        self.pauses = pauses
        self.children: list[Writer] = []
        self.running: list[Writer] = []

    def start(self) -> None:
        started = Writer(self.path, f"p{len(self.children)}", self.source.randrange(1 << 30), self.pauses)
        self.children.append(started)
        self.running.append(started)

    @property
    def writes(self) -> int:
        """How many were acknowledged."""
        return sum(len(one.acknowledged) for one in self.children)

    def run(self) -> None:
        try:
            for _ in range(self.source.randint(2, 4)):
                self.start()
            for _ in range(KILLS):
                self.go_on(self.writes + self.source.randrange(2 * WRITES // KILLS))
                time.sleep(0.02 * self.source.random())  # so that it is killed anywhere in a turn
                self.running.pop(self.source.randrange(len(self.running))).child.kill()
                self.start()
            self.go_on(WRITES)
            self.wait_while(lambda: not all(one.acknowledged for one in self.running))
        finally:
            running, self.running = self.running, []
            for one in running:
                one.child.kill()

    def go_on(self, writes: int) -> None:
        """Let them write until so many writes are acknowledged."""
        self.wait_while(lambda: self.writes < writes)

    def wait_while(self, condition: Callable[[], bool]) -> None:
        while condition():
            time.sleep(0.005)
            for one in self.running:
                one.child.check_alive(PATIENCE)

    def verify(self) -> None:
        report = check_database(self.path / "data")
        assert report.findings == [], report.findings[:5]
        store = Store(self.path, StoreSettings(map_bytes=MAP_BYTES))
        try:
            store.check()
            database = store.databases["data"]
            snapshot = database.snapshot()
            table = database.tables["Note"]
            records = {table.key_of(raw): decode(raw) for _, raw in table.scan(snapshot)}
            logged: Counter[tuple[str, int | None]] = Counter()  # (key, n), of a delete (key, None)
            for entry in database.log.read(snapshot):
                value = None if entry.value is None else decode(entry.value)
                logged[str(decode_key(entry.key)), None if entry.kind == DELETE or value is None else value.get("n")] += 1
        finally:
            store.close()
        increments = pending = 0
        for one in self.children:
            for what, n in one.acknowledged:
                if what == "counter":
                    increments += 1
                elif what.endswith("list"):
                    assert all(logged[f"{what}{number}", n] == 1 for number in range(RECORDS)), f"{what} {n} is not in the log"
                elif n % 7:
                    assert logged[what, n] == 1, f"{what} {n} is not in the log"
            for what, n in one.refused:
                assert what == "counter" or not logged[f"{what}0" if what.endswith("list") else what, n], (
                    f"{what} {n} was refused, and is there"
                )
            pending += len(one.under_way.get("counter", ()))
            for what in {*one.state, *one.under_way} - {"counter"}:
                possible = {one.state.get(what, 0), *one.under_way.get(what, ())}
                if what.endswith("list"):
                    found = {records.get(f"{what}{number}", {}).get("n", 0) for number in range(RECORDS)}
                    assert len(found) == 1, f"{what} is there in parts of {found}"
                    assert found <= possible, f"{what} is {found} instead of {possible}"
                else:
                    n = records[what]["n"] if what in records else 0
                    assert n in {each if each % 7 else 0 for each in possible}, f"{what} is {n} instead of {possible}"
        count = records.get("counter", {}).get("count", 0)
        assert increments <= count <= increments + pending, f"the counter is {count} after {increments} increments and {pending} unanswered"


def test_nothing_acknowledged_is_lost_by_any_process() -> None:
    source = random.Random(SEED)
    end = time.monotonic() + SECONDS
    campaigns = writes = kills = 0
    while campaigns < CAMPAIGNS or time.monotonic() < end:
        with tempfile.TemporaryDirectory(prefix="svc-crash-") as directory:
            campaign = Campaign(Path(directory) / "database", source, PAUSES[campaigns % len(PAUSES)])
            campaign.run()
            campaign.verify()
        campaigns += 1
        writes += campaign.writes
        kills += len(campaign.children)
    print(f"{campaigns} directories, {kills} processes killed, {writes} writes acknowledged")
