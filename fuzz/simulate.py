"""Deterministic simulation: clients of all interfaces, slow readers, followers, reloads and crashes of a whole server, against a plain model.

    python -m fuzz.simulate --seed 7                 one seed; the same run each time, to the byte
    python -m fuzz.simulate --seed 0 --seeds 5000    5,000 of them
    python -m fuzz.simulate --seed 7 --leave-out 3,5-9

The server is the one of `svc.testing`: no ports, no threads, a clock that moves when the simulation says so, connections in memory. One thread does
everything, and what it does next is drawn from the seed (`fuzz/simulation/run.py`). Seeds come in rounds of ten over one server
(`fuzz/simulation/forks.py`): one that is asked for is preceded by those of its round. A failure says what was wrong, what was done, and how to have it
again; with fewer steps, if it does without some.
"""

from __future__ import annotations

import argparse
import os
import resource
import sys
from collections import Counter
from collections.abc import Sequence

STEPS = 60
HASHES = "0"  # PYTHONHASHSEED


def main(arguments: Sequence[str] | None = None) -> int:
    """The exit status."""
    parser = argparse.ArgumentParser(prog="python -m fuzz.simulate", description="Simulate a server and its clients.")
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="the first seed (default 0)")
    parser.add_argument("--seeds", type=int, default=1, metavar="K", help="how many (default 1)")
    parser.add_argument("--steps", type=int, default=STEPS, metavar="M", help=f"of each (default {STEPS})")
    parser.add_argument("--leave-out", type=_numbers, default=frozenset(), metavar="A,B-C", help="steps of the last seed that are not done")
    options = parser.parse_args(arguments)
    if os.environ.get("PYTHONHASHSEED") != HASHES:
        os.execve(sys.executable, [sys.executable, "-m", "fuzz.simulate", *sys.argv[1:]], {**os.environ, "PYTHONHASHSEED": HASHES})

    from fuzz.simulation.forks import Failure, Template, rounds

    template = Template()
    began = _cpu_seconds()
    counts: Counter[str] = Counter()
    failures = 0
    try:
        for seeds in rounds(options.seed, options.seeds):
            try:
                results = template.run(seeds, options.steps, options.leave_out)
            except Failure as failure:
                failures += 1
                _show(template, failure, options.steps, options.leave_out if failure.seed == seeds[-1] else frozenset())
                continue
            for result in results:
                if result.seed >= options.seed:
                    counts += result.counts
                    counts["seeds"] += 1
            if options.seeds == 1:
                print(f"seed {options.seed}: digest {results[-1].digest}")
    finally:
        template.close()
    seconds = _cpu_seconds() - began
    shown = ", ".join(f"{count} {what}" for what, count in counts.items())
    print(f"{shown}; {failures} rounds failed; {seconds:.1f} CPU seconds, {counts['seeds'] / seconds * 60:.0f} interleavings a minute")
    return bool(failures)


def _show(template: object, failure: object, steps: int, left_out: frozenset[int]) -> None:
    from fuzz.simulation.forks import Failure, Template
    from fuzz.simulation.shrinking import shrunk

    assert isinstance(template, Template) and isinstance(failure, Failure)
    seed, failure, left_out = failure.seed, *shrunk(template, failure, steps, left_out)
    print("\n".join(failure.trace))
    print(failure.text)
    again = f"--seed {seed} --steps {steps}" + (f" --leave-out {_spans(left_out)}" if left_out else "")
    print(f"seed {seed} fails; again: python -m fuzz.simulate {again}", flush=True)


def _cpu_seconds() -> float:
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(each.ru_utime + each.ru_stime for each in used)


def _numbers(text: str) -> frozenset[int]:
    """
    >>> sorted(_numbers("1,4-6"))
    [1, 4, 5, 6]
    """
    found: set[int] = set()
    for part in text.split(","):
        first, _, last = part.partition("-")
        found.update(range(int(first), int(last or first) + 1))
    return frozenset(found)


def _spans(numbers: frozenset[int]) -> str:
    """
    >>> _spans(frozenset((1, 4, 5, 6)))
    '1,4-6'
    """
    spans: list[list[int]] = []
    for number in sorted(numbers):
        if spans and number == spans[-1][1] + 1:
            spans[-1][1] = number
        else:
            spans.append([number, number])
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in spans)


if __name__ == "__main__":
    sys.exit(main())
