"""Instructions per request, counted by callgrind: a figure that is the same at every run, on a busy machine too.

    apt-get install valgrind
    python -m bench.instructions [--rows get,put] [--json FILE]      about seven minutes for all rows
    python -m bench.instructions --compare FILE [--tolerance 3]      beside a result that was kept; ends with 1 if a row has become worse
    python -m bench.instructions --read FILE --compare FILE          two results that were kept

The real server, as `svc run` wires it, with the 400,000 records of `records.py`, is stepped in a process of its own (`stepped.py`): 32 connections, socket
pairs, send one request each, and the turns in which the server reads, works, commits, answers are counted, with what its helper threads do for them; the
client is not. Each request is for another record. 12 turns are not counted, for what is made at the first requests; the figure is the median of 8 turns.

Counted are instructions in user space. What they do not tell: the kernel (system calls, the disk), caches and branches that miss, what is done once a second
(the time stands still while a turn is counted). An instruction that repeats itself, as some clear memory, counts once for each repetition.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

from bench import pages, records, rules
from bench.applications import ROWS as APPLICATION_ROWS
from bench.machine import use_bytecode
from bench.measure import require
from bench.report import NOTHING, TITLES, table
from bench.servers import REPOSITORY, Svc, fill_svc
from bench.stepped import APPLICATIONS, BEGIN, CONNECTIONS, COUNTED, END, PASSWORD, READY, ROWS, WARM_UP, application_of
from svc.interpreter import running_interpreter

PARTS = ("interpreter", "msgspec", "lmdb", "libc", "other")
SPARES = 2 * (WARM_UP + READY + COUNTED) * CONNECTIONS  # more than the row deletes
ROW_TITLES = (
    TITLES
    | {
        "http2": "GET one record, HTTP/2",
        "http2 literal": "GET one record, HTTP/2, paths not in the client's table",
        "sql": "`POST /sql`, one record by its key",
    }
    | {row: f"GET one record, {title}" for row, (title, _) in APPLICATION_ROWS.items()}
    | pages.ROWS
    | rules.ROWS
)
TOLERANCE = 3.0  # percent

Parts = dict[str, int]
Results = dict[str, dict[str, Any]]  # row -> "total" and "parts", instructions per request; "spread" of the total over the turns

_NAME = re.compile(r"c?ob=(\(\d+\))(?: (.*))?")


# --- what callgrind has written ----------------------------------------------------------------------------------------------------------


def read_costs(lines: Iterable[str]) -> Counter[str]:
    """Instructions by the file of the program or library, of one dump of callgrind. What a function has called is in the lines of that."""
    names: dict[str, str] = {}
    costs: Counter[str] = Counter()
    current = ""
    is_call = False  # the line is what a call has cost
    for line in lines:
        if is_call:
            is_call = False
        elif line.startswith("calls="):
            is_call = True
        elif found := _NAME.match(line):
            if found[2]:
                names[found[1]] = found[2]
            if line[0] == "o":
                current = names[found[1]]
        elif line[:1] in "0123456789+-*" and line.strip():
            costs[current] += int(line.split()[1])
    return costs


def part_of(path: str) -> str:
    """Which of PARTS a file belongs to. The modules in C of Python itself are of the interpreter.

    >>> part_of("/usr/lib/python3/dist-packages/msgspec/_core.cpython-311-x86_64-linux-gnu.so")
    'msgspec'
    """
    for package in ("msgspec", "lmdb"):
        if f"/{package}/" in path:
            return package
    name = path.rpartition("/")[2]
    if name.startswith(("python", "libpython")) or "/lib-dynload/" in path:
        return "interpreter"
    return "libc" if name.startswith(("libc.", "libc-", "libm.", "libm-", "ld-", "libpthread")) else "other"


def by_part(costs: Counter[str]) -> Parts:
    parts = dict.fromkeys(PARTS, 0)
    for path, cost in costs.items():
        parts[part_of(path)] += cost
    return parts


def summarise(turns: Sequence[Parts], requests: int) -> dict[str, Any]:
    """The medians of some turns with so many requests each."""
    totals = [sum(parts.values()) for parts in turns]
    middle = statistics.median(totals)
    return {
        "total": round(middle / requests),
        "spread": (max(totals) - min(totals)) / 2 / middle,
        "parts": {part: round(statistics.median(parts[part] for parts in turns) / requests) for part in PARTS},
    }


# --- counting ----------------------------------------------------------------------------------------------------------------------------


def prepare(data: Path, rows: Sequence[str]) -> None:
    """A root in which the server has been once: users, keys and system tables are not made under callgrind."""
    server = Svc(data)
    server.set_password(PASSWORD)
    applications = set(map(application_of, rows))
    if applications != {rules.APPLICATION}:
        fill_svc(server.data / "root" / "database", records.RECORDS, SPARES)
    if rules.APPLICATION in applications:
        rules.fill(server.data / "root" / "database")
    server.start()
    server.stop()


def count(data: Path, rows: Sequence[str]) -> Results:
    """Those of each application in one process."""
    results: Results = {}
    for application in APPLICATIONS:
        found = [row for row in rows if application_of(row) == application]
        if found:
            results |= _count(data, found)
    return results


def _count(data: Path, rows: Sequence[str]) -> Results:
    dumps = data / "dumps"
    dumps.mkdir()
    command = [require("valgrind", "valgrind"), "--tool=callgrind", f"--callgrind-out-file={dumps / 'dump'}", "--dump-line=no"]
    command += [f"--dump-before={BEGIN}", f"--dump-before={END}", sys.executable, "-m", "bench.stepped", str(data), ",".join(rows)]
    environment = os.environ | {"PYTHONPATH": str(REPOSITORY), "PYTHONHASHSEED": "0"}
    results: Results = {}
    with (
        (data / "stepped.log").open("wb") as log,
        subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=log) as process,
    ):
        assert process.stdout is not None
        for line in process.stdout:
            told = json.loads(line)
            results[told["row"]] = _read_row(dumps, told["marks"])
            print(f"{told['row']:<13} {results[told['row']]['total']:>9,}", file=sys.stderr, flush=True)
    if process.returncode:
        sys.exit(f"the server under callgrind has ended with {process.returncode}:\n{(data / 'stepped.log').read_text()[-3000:]}")
    shutil.rmtree(dumps)
    return results


def _read_row(dumps: Path, marks: int) -> dict[str, Any]:
    """The last COUNTED of so many turns. There are two dumps of a turn: what was before it, and the turn."""
    turns = []
    for number in range(marks - COUNTED + 1, marks + 1):
        with (dumps / f"dump.{2 * number}").open() as lines:
            turns.append(by_part(read_costs(lines)))
    if len(list(dumps.glob("dump.*"))) != 2 * COUNTED:
        raise RuntimeError(f"{BEGIN} or {END} was called by something else")
    for path in dumps.iterdir():
        path.unlink()
    return summarise(turns, CONNECTIONS)


def describe() -> dict[str, str]:
    """What the figures depend on."""
    packages = {name: metadata.version(name) for name in ("msgspec", "lmdb")}
    valgrind = subprocess.run([require("valgrind", "valgrind"), "--version"], capture_output=True, text=True, check=True).stdout.strip()
    return {"python": str(running_interpreter()), "machine": platform.machine(), "valgrind": valgrind.removeprefix("valgrind-"), **packages}


# --- tables ------------------------------------------------------------------------------------------------------------------------------


def count_table(results: Results) -> str:
    rows = []
    for row, found in results.items():
        rows.append([ROW_TITLES[row], f"{found['total']:,}", *(f"{found['parts'][part]:,}" for part in PARTS), f"±{found['spread']:.1%}"])
    return table(["instructions per request", "all", *PARTS, "turns"], rows)


def compare(before: Results, after: Results, tolerance: float) -> tuple[str, list[str]]:
    """A table, and the rows that have become more than `tolerance` percent worse. Rows that only one of them has are not compared."""
    rows, worse = [], []
    for row in after:
        if row not in before:
            rows.append([ROW_TITLES[row], NOTHING, f"{after[row]['total']:,}", NOTHING, ""])
            continue
        old, new = before[row]["total"], after[row]["total"]
        ratio = new / old
        if ratio > 1 + tolerance / 100:
            worse.append(row)
        parts = {part: after[row]["parts"][part] - before[row]["parts"][part] for part in PARTS}
        moved = max(parts, key=lambda part: abs(parts[part]))
        rows.append(
            [ROW_TITLES[row], f"{old:,}", f"{new:,}", f"{ratio:.3f}" + (" worse" if row in worse else ""), f"{parts[moved]:+,} {moved}"]
        )
    return table(["instructions per request", "before", "after", "after / before", "most of it"], rows), worse


def parse(arguments: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", default=",".join(ROWS), help="comma-separated: %(default)s")
    parser.add_argument("--json", type=Path, metavar="FILE", help="keep the result")
    parser.add_argument("--read", type=Path, metavar="FILE", help="take a result that was kept, and count nothing")
    parser.add_argument("--compare", type=Path, metavar="FILE", help="a result that was kept, of an earlier version")
    parser.add_argument(
        "--tolerance", type=float, default=TOLERANCE, metavar="PERCENT", help="by which a row may become worse; default %(default)g"
    )
    options = parser.parse_args(arguments)
    options.rows = options.rows.split(",")
    for name in set(options.rows) - set(ROWS):
        parser.error(f"there is no row '{name}'")
    return options


def main(arguments: list[str] | None = None) -> int:
    """The exit status: 1 if a row has become worse."""
    options = parse(arguments)
    before = None if options.compare is None else json.loads(options.compare.read_text())
    if options.read is not None:
        record = json.loads(options.read.read_text())
    else:
        use_bytecode()
        with tempfile.TemporaryDirectory(prefix="bench-instructions-") as directory:
            prepare(Path(directory), options.rows)
            record = {"facts": describe(), "rows": count(Path(directory), options.rows)}
    if options.json is not None:
        options.json.write_text(json.dumps(record, indent=1) + "\n")
    print("; ".join(f"{name}: {value}" for name, value in record["facts"].items()) + "\n")
    print(count_table(record["rows"]))
    for found in (pages.instruction_table(record["rows"]), rules.instruction_table(record["rows"])):
        if found:
            print("\n" + found)
    if before is None:
        return 0
    for name, value in record["facts"].items():
        if before["facts"].get(name) != value:
            print(f"Warning: {name} was {before['facts'].get(name)} before.", file=sys.stderr)
    text, worse = compare(before["rows"], record["rows"], options.tolerance)
    print("\n" + text)
    if worse:
        print(f"More than {options.tolerance:g} % worse: {', '.join(worse)}", file=sys.stderr)
    return 1 if worse else 0


if __name__ == "__main__":
    sys.exit(main())
