"""Clients, followers and faults against three nodes that replicate, and the proof that nothing was lost, doubled or merged otherwise than by the rules.

    python -m fuzz.replication --seconds 600 --seed 7

Two clients of each node put, patch, increment, delete and publish, with records that all of them write, pairs in one transaction, blobs, and texts that are
larger than a message of the engine. The clocks are 0.4 s apart to both sides. Meanwhile nodes and engines are killed, stopped and restarted, nodes are cut off,
so that connections end or so that nothing comes through, attributes and tables are made on one of them, and streams are shortened beyond what a node has read,
which then has to copy the database. Engines lose streams, or the end of them. The clock of one node is a year ahead for a while, the disk of another is full,
or only that of its engine; for the last two it has to be root, who can mount. Afterwards

- all nodes have the same records, versions, tables and attributes, and `svc check` finds nothing on any;
- these records are what everything that was committed anywhere makes, in order of versions and nodes (schema-and-store §9);
- each acknowledged write is in the log of its node once, one without outcome at most once, one that was refused never; counters have what was acknowledged;
- each write has a newer version than what its node knew of the record, and no node has taken over a clock that is far ahead;
- a follower at each node was sent each message once; none twice, if databases were copied: copies have no messages.

The seed decides what clients and faults do, not how they meet: the directory of a failure stays.
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

from fuzz.replication.run import FAULTS, Plan, Run


def main(arguments: Sequence[str] | None = None) -> int:
    """The exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m fuzz.replication", description="Check nodes that replicate against what their clients did."
    )
    parser.add_argument("--seconds", type=float, default=60.0, metavar="N", help="how long faults go on (default 60)")
    parser.add_argument("--faults", default=",".join(FAULTS), metavar="NAMES", help="those that are done (default: all)")
    parser.add_argument("--seed", type=int, default=None, metavar="S", help="(default: another each time)")
    options = parser.parse_args(arguments)
    seed = secrets.randbelow(1 << 32) if options.seed is None else options.seed
    print(f"--seed {seed}", flush=True)
    path = Path(tempfile.mkdtemp(prefix="svc-replication-"))
    began = time.monotonic()
    try:
        result = Run(Plan(seed, options.seconds, options.faults.split(",")), path).run()
    except BaseException:
        print(f"--seed {seed} did not come to its end; data: {path}", file=sys.stderr)
        raise
    print(
        f"{time.monotonic() - began:.0f} s: {result.writes} writes acknowledged, {result.without_outcome} without outcome, {result.refused} refused, "
        f"{result.messages} messages to followers; equal {result.converged:.1f} s after the last write"
    )
    print("faults: " + ", ".join(f"{name} {count}" for name, count in sorted(result.done.items())))
    if result.problems:
        print(*result.problems, f"--seed {seed} fails; data: {path}", sep="\n", file=sys.stderr)
        return 1
    shutil.rmtree(path)
    return 0


if __name__ == "__main__":
    sys.exit(main())
