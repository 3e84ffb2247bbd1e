"""Live queries: whatever is asked, written and taken, and whenever, what a client makes of its events is what the query gives.

An input is the seed of a case (`tests/support/live_cases.py`): two tables with relationships, some live queries of all kinds, transactions, expiries,
clients that take at random moments; and bounds that are drawn, so that queues overflow, slices end after a row or two, backlogs get too long. Invariant:

1. When everything is told and taken, the rows of each client are those of its query run again: the same values, in the same order. On the way
   each event fits what the client has: an index is one of its list, `ready` counts what it has, no `localTime` goes back.
2. When all clients are gone, nothing is left: no result, no snapshot.
3. Nothing is logged as an error.
"""

from __future__ import annotations

import atexit
import logging
import random
import shutil
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from fuzz.runner import mutate, run
from svc.realtime.live import (
    aggregate_result,
    commit_dispatcher,
    events,
    materialized_result,
    query_spec,
    recomputed_result,
    subscription,
)
from tests.support.live import LiveStore
from tests.support.live_cases import Cases

CORPUS = Path(__file__).parent / "corpus" / "live"
RENEW = 2000  # cases in one store: its log grows

BOUNDS = [
    (commit_dispatcher, "MAX_BACKLOG", [1, 3, 20_000, 20_000, 20_000]),
    (recomputed_result, "MAX_RUNNING", [1, 4]),
    (subscription, "MAX_QUEUED", [1, 2, 5, 20, 10_000, 10_000, 10_000]),
    (subscription, "MAX_QUEUED_BYTES", [2000, 1 << 24, 1 << 24]),
    (materialized_result, "RECORDS_PER_STEP", [1, 3, 64, 64]),
    (materialized_result, "ROWS_PER_STEP", [1, 3, 128]),
    (materialized_result, "SHARED_ROWS", [0, 2, 256, 256]),
    (events, "ROWS_PER_CHECK", [1, 2, 64]),
    (materialized_result, "MAX_COMPARED", [0, 2, 10_000, 10_000, 10_000]),
    (aggregate_result, "MAX_CHANGES", [0, 2, 512, 512]),
    (query_spec, "MAX_LEADING_RECORDS", [0, 1, 1024, 1024]),
]


class _Errors(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        raise AssertionError(record.getMessage())


class _Store:
    """The store of the cases; a new one when it has served RENEW of them, or one has failed."""

    def __init__(self) -> None:
        self.path = Path()
        self.cases: Cases | None = None
        self.served = 0
        atexit.register(self.end)

    def get(self) -> Cases:
        if self.cases is None or self.served == RENEW:
            self.end()
            self.path = Path(tempfile.mkdtemp(prefix="fuzz-live-"))
            self.cases = Cases(LiveStore(self.path))
            self.served = 0
        self.served += 1
        return self.cases

    def end(self) -> None:
        if self.cases is not None:
            self.cases.made.close()
            shutil.rmtree(self.path, ignore_errors=True)
            self.cases = None


STORE = _Store()


def generate(source: random.Random, corpus: Sequence[bytes]) -> bytes:
    if corpus and source.random() < 0.1:
        return mutate(source, source.choice(corpus))
    return source.randbytes(8)


def check(data: bytes) -> None:
    source = random.Random(data)
    cases = STORE.get()
    cases.made.clock.tick = source.choice([0.0, 0.0, 0.0005, 0.003])
    before = [(module, name, getattr(module, name)) for module, name, _ in BOUNDS]
    for module, name, choices in BOUNDS:
        setattr(module, name, source.choice(choices))
    try:
        cases.run(source, clients=source.randint(1, 6), rounds=source.randint(1, 10), slow=source.random() < 0.2)
    except BaseException:
        STORE.end()
        raise
    finally:
        for module, name, value in before:
            setattr(module, name, value)


def main() -> int:
    recomputed_result.MIN_RUN_INTERVAL = recomputed_result.RUN_INTERVAL_FACTOR = 0.0
    subscription.MAX_RESETS = 1 << 30
    handler = _Errors(logging.ERROR)
    logging.getLogger("svc").addHandler(handler)
    return run("live", generate, check, CORPUS)


if __name__ == "__main__":
    sys.exit(main())
