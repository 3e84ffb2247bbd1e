"""Clients, followers and faults against real servers with several instances, and the proof that no write was lost, doubled or seen too late.

    python -m fuzz.consistency --seconds 600 --instances 3 --seed 7
    python -m fuzz.consistency --seconds 600 --separate           two servers, each with a root of its own, over one storage.path
    python -m fuzz.consistency --seconds 600 --hang               instances hang, too, until they are replaced

Clients of REST, GraphQL, SQL, operations, MQTT and of code of an application write and read the same records, lists, unique values, parents with
children, and tables; others follow them over event streams, a live query, a WebSocket and a session of MQTT, and move from instance to instance. Meanwhile
instances are killed, stopped and restarted, the parent is killed, an index comes and goes, an application is deployed. Afterwards

- `svc check` finds nothing;
- the history of each record can be explained by calls that took effect one after the other (`tests/support/linearizability.py`), the
  searches that may have found it and what is stored in the end included. So can lists that are written as a whole, unique values, tables
  and the version of the application;
- each acknowledged write is in the log once, one without outcome at most once, a refused one not at all;
- each follower with a position was sent each event, in order, once; over MQTT some of the last may have come again with a new connection;
- a live query, and a WebSocket, which begin anew with each connection, have made what is stored of their events;
- searches find through the indexes what a scan finds.

The seed decides what clients and faults do, not how they meet: a failure prints the history that nothing explains, and the directory stays.
"""

from __future__ import annotations

import argparse
import secrets
import shutil
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from fuzz.consistency.run import FAULTS, Plan, Run


def main(arguments: Sequence[str] | None = None) -> int:
    """The exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m fuzz.consistency", description="Check several instances against histories of their clients."
    )
    parser.add_argument("--seconds", type=float, default=60.0, metavar="N", help="how long faults go on (default 60)")
    parser.add_argument("--instances", type=int, default=2, choices=(2, 3, 4), help="(default 2)")
    parser.add_argument("--separate", action="store_true", help="as servers of their own")
    parser.add_argument("--hang", action="store_true", help="instances hang, too")
    parser.add_argument("--seed", type=int, default=None, metavar="S", help="(default: another each time)")
    options = parser.parse_args(arguments)
    seed = secrets.randbelow(1 << 32) if options.seed is None else options.seed
    print(f"--seed {seed}", flush=True)
    faults = (*FAULTS, "hang_instance") if options.hang else FAULTS
    path = Path(tempfile.mkdtemp(prefix="svc-consistency-"))
    began = time.monotonic()
    try:
        result = Run(Plan(seed, options.instances, options.separate, options.seconds, faults), path).run()
    except BaseException:
        print(f"--seed {seed} did not come to its end; data: {path}", file=sys.stderr)
        raise
    print(
        f"{time.monotonic() - began:.0f} s: {result.writes} writes acknowledged of {result.calls} calls, {result.without_outcome} without outcome, "
        f"{result.registers} histories, {result.events} events to followers that moved {result.moves} times"
    )
    print("writes: " + ", ".join(f"{kind} {count}" for kind, count in sorted(result.acknowledged.items())))
    print("faults: " + ", ".join(f"{name} {count}" for name, count in sorted(result.done.items())))
    if result.problems:
        print(*result.problems, f"--seed {seed} fails; data: {path}", sep="\n", file=sys.stderr)
        return 1
    shutil.rmtree(path)
    return 0


if __name__ == "__main__":
    sys.exit(main())
