"""A results file of `bench.run` -> the tables and the plot of bench/README.md.

    pip install '.[bench]'
    python -m bench.plot [RESULTS.json]        # the newest in bench/results/ when none is given

The plot shows the CPU time per request of each row and server, on a logarithmic axis: equal distances are equal ratios.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

import matplotlib

from bench import report

matplotlib.use("Agg")
from matplotlib import pyplot

HERE = Path(__file__).parent
PLOT = HERE / "cost.png"
ROWS = ("get", "equality", "range", "sort", "join", "count", "put", "post", "delete")  # which several servers have
COLOURS = {"floor": "#999999", "svc": "#0072b2", "pocketbase": "#e69f00", "fastapi": "#009e73", "datasette": "#cc79a7"}
BAR = 0.8  # of the height of a row, for all its bars


def draw(record: dict[str, Any], path: Path) -> None:
    """Write the plot as PNG."""
    samples = record["samples"]
    rows = [row for row in ROWS if row in samples]
    names = [name for name in report.NAMES if any(name in samples[row] for row in rows)]
    height = BAR / len(names)
    figure, axes = pyplot.subplots(figsize=(9, 0.4 + 0.75 * len(rows)), layout="constrained")
    for at, name in enumerate(names):
        found = [(place, report.median(samples[row][name], "cpu")) for place, row in enumerate(rows) if name in samples[row]]
        places = [place + (at - (len(names) - 1) / 2) * height for place, _ in found]
        bars = axes.barh(places, [cpu for _, cpu in found], height, label=report.NAMES[name], color=COLOURS[name])
        axes.bar_label(bars, [report.figure(cpu) for _, cpu in found], padding=2, fontsize=7)
    axes.set_yticks(range(len(rows)), [report.TITLES[row] for row in rows])
    axes.invert_yaxis()
    axes.set_xscale("log")
    axes.margins(x=0.12)
    axes.set_xlabel("CPU time of the server per request, µs (logarithmic; less is better)")
    figure.legend(loc="outside upper center", ncols=len(names))
    figure.savefig(path, dpi=120)
    pyplot.close(figure)


def newest() -> Path:
    """The results file that was written last."""
    files = sorted((HERE / "results").glob("*.json"))
    if not files:
        sys.exit("there are no results: python -m bench.run")
    return files[-1]


def main() -> None:
    parser = argparse.ArgumentParser(prog="bench.plot", description="Write the tables and the plot of bench/README.md.")
    parser.add_argument("results", type=Path, nargs="?", help="default: the newest in bench/results/")
    path = parser.parse_args().results or newest()
    record = json.loads(path.read_text())
    report.insert(HERE / "README.md", record)
    if record["samples"]:
        draw(record, PLOT)
    print(f"{path} -> {HERE / 'README.md'}, {PLOT}")


if __name__ == "__main__":
    main()
