"""Two checkouts of svc measured by turns, so that what disturbs the machine meets both.

    python -m bench.run --compare CHECKOUT [--rows get,put,...] [--rounds N] [--seconds N]

Each checkout runs with its own source, with the Python of its .venv if it has one, and with its own data, loaded through its own API. Of each row
the two take turns in the order A B, B A, A B, ...; the ratio is the median of the ratios of neighbours. What disturbs for long meets both; short
disturbances need more rounds.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
from pathlib import Path
from typing import Any

from bench.machine import describe_python, use_bytecode
from bench.measure import Sample
from bench.report import TITLES, figure, table
from bench.rows import Row, kind_of
from bench.servers import HERE, REPOSITORY, Svc

ROWS = ("get", "equality", "put")
ROUNDS = 10
SECONDS = 1


class Checkout(Svc):
    """svc as it stands in a directory."""

    def __init__(self, name: str, path: Path, scratch: Path, rows: list[str]) -> None:
        self.name = name
        super().__init__(scratch)
        self.path = path.resolve()
        if "delete" not in rows:
            self.spares = 0
        own = self.path / ".venv" / "bin" / "python"
        self.python = str(own) if own.exists() else sys.executable

    def command(self) -> list[str]:
        return [self.python, "-m", "svc", "run", str(HERE / "app")]

    def environment(self) -> dict[str, str]:
        return super().environment() | {"PYTHONPATH": str(self.path)}

    def describe(self) -> str:
        """Where it is, its commit, its Python. Fails for a directory that holds no svc."""
        if not (self.path / "svc" / "__main__.py").exists():
            sys.exit(f"there is no checkout of svc in {self.path}")
        git = subprocess.run(["git", "-C", str(self.path), "log", "-1", "--format=%h %s"], capture_output=True, text=True, check=False)
        return f"{self.name}: {self.path} ({git.stdout.strip()}), {describe_python(self.python)}"


def compare(other: Path, options: argparse.Namespace, scratch: Path) -> None:
    """Measure and print."""
    checkouts = [Checkout("other", other, scratch, options.rows), Checkout("this", REPOSITORY, scratch, options.rows)]
    print("\n".join(checkout.describe() for checkout in checkouts), flush=True)
    try:
        for checkout in checkouts:
            use_bytecode(checkout.path, checkout.python)
            print(f"loading {checkout.name}", flush=True)
            checkout.prepare()
            checkout.start()
        makers = [checkout.requests() for checkout in checkouts]
        pairs = {
            name: [
                Row(name, checkout, maker[kind_of(name)], scratch, options.rounds)
                for checkout, maker in zip(checkouts, makers, strict=True)
            ]
            for name in options.rows
        }
        samples = measure_by_turns(pairs, options)
    finally:
        for checkout in checkouts:
            checkout.stop()
    print(f"\n{options.rounds} rounds of {options.seconds} s, {options.connections} connections.\n")
    print(ratio_table(samples))


def measure_by_turns(pairs: dict[str, list[Row]], options: argparse.Namespace) -> dict[str, list[list[Sample]]]:
    """Row -> the samples of the first and of the second of its pair, one for each round."""
    samples: dict[str, list[list[Sample]]] = {name: [[], []] for name in pairs}
    for round_ in range(options.rounds):
        for name, pair in pairs.items():
            for side in (0, 1) if round_ % 2 == 0 else (1, 0):
                sample = pair[side].measure(options.seconds, options.connections, warm_up=round_ == 0)
                if sample is None:
                    sys.exit(1)
                samples[name][side].append(sample)
            other, this = (by[-1].cpu for by in samples[name])
            print(f"round {round_ + 1}  {name:<13} other {other:7.1f} us  this {this:7.1f} us  {this / other:.3f}", flush=True)
    return samples


def ratio_table(samples: dict[str, list[list[Sample]]]) -> str:
    header = ["CPU time of the server per request, µs: median (minimum)", "other", "this", "this / other", "of the minima"]
    rows: list[list[Any]] = []
    for name, sides in samples.items():
        other, this = ([sample.cpu for sample in side] for side in sides)
        ratio = statistics.median(b / a for a, b in zip(other, this, strict=True))
        cells = [f"{figure(statistics.median(cpu))} ({figure(min(cpu))})" for cpu in (other, this)]
        rows.append([TITLES[name], *cells, f"{ratio:.3f}", f"{min(this) / min(other):.3f}"])
    return table(header, rows)
