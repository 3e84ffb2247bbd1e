"""Deterministic simulation: clients, slow readers, followers, reloads and crashes of a whole server, against a plain model.

    python -m fuzz.simulate --seed 7               one seed; the same run each time, to the byte
    python -m fuzz.simulate --seed 1 --seeds 500   500 of them from 1 on
    python -m fuzz.simulate --seed 7 --steps 40    the beginning of a run

The server is the one of `svc.testing`: no ports, no threads, a clock that moves when the simulation says so, connections in memory. One thread does
everything, and what it does next is drawn from the seed (`fuzz/simulation/run.py`). A failure says what was wrong and how to have it again.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
import traceback
from collections.abc import Sequence

STEPS = 300
HASHES = "0"  # PYTHONHASHSEED


def main(arguments: Sequence[str] | None = None) -> int:
    """The exit status."""
    parser = argparse.ArgumentParser(prog="python -m fuzz.simulate", description="Simulate a server and its clients.")
    parser.add_argument("--seed", type=int, default=1, metavar="N", help="the first seed (default 1)")
    parser.add_argument("--seeds", type=int, default=1, metavar="K", help="how many (default 1)")
    parser.add_argument("--steps", type=int, default=STEPS, metavar="M", help=f"of each (default {STEPS})")
    options = parser.parse_args(arguments)
    if os.environ.get("PYTHONHASHSEED") != HASHES:
        os.execve(sys.executable, [sys.executable, "-m", "fuzz.simulate", *sys.argv[1:]], {**os.environ, "PYTHONHASHSEED": HASHES})

    from fuzz.simulation.run import simulate

    began = time.process_time()
    requests = crashes = 0
    for seed in range(options.seed, options.seed + options.seeds):
        try:
            result = simulate(seed, options.steps)
        except Exception:
            traceback.print_exc(limit=-8)
            print(f"seed {seed} fails\nagain: python -m fuzz.simulate --seed {seed} --steps {options.steps}", file=sys.stderr)
            return 1
        requests += result.requests
        crashes += result.crashes
        if options.seeds == 1:
            print(f"seed {seed}: {result.requests} requests, {result.crashes} crashes, digest {result.digest}")
    seconds = time.process_time() - began
    rate = options.seeds / seconds * 60
    print(
        f"{options.seeds} seeds pass: {requests} requests, {crashes} crashes, {seconds:.1f} CPU seconds, {rate:.0f} interleavings a minute"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
