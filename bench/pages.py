"""What a page costs: 50 records as a page for a browser, beside the same records as JSON.

    python -m bench.pages                             instructions per request, and their ratios; needs valgrind
    python -m bench.pages --json FILE, --compare FILE as `bench.instructions`
    python -m bench.pages --parts                     what the time of one page goes to, by function; needs nothing

The records are those of `records.py`, the same 50 for both, of a range of an indexed attribute in its order: a page has conditions, sorting, and the next
page. Neither answer is compressed.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bench import records
from bench.measure import Request
from bench.report import table
from bench.servers import Maker

BROWSER = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"
COUNT = 50  # rows of a page

ROWS = {
    "data 50": "50 records as JSON",
    "page 50": "… as a page",
    "data record": "one record as JSON",
    "page record": "… as a page",
}
PAIRS = {"page 50": ("data 50", 6.0), "page record": ("data record", None)}  # what is compared with what, and the ratio that is asked for


def requests(fields: tuple[tuple[str, str], ...]) -> dict[str, Maker]:
    """Row -> the request about record n. `fields`: of a request for data."""
    page = tuple((name, BROWSER if name.lower() == "accept" else value) for name, value in fields)
    if page == fields:
        page = (*fields, ("Accept", BROWSER))

    def rows(fields: tuple[tuple[str, str], ...]) -> Maker:
        first = records.RECORDS - COUNT
        return lambda n: Request("GET", f"/Item/?price=ge={n % first}&sort(price)&limit({COUNT})", fields)

    def record(fields: tuple[tuple[str, str], ...]) -> Maker:
        return lambda n: Request("GET", f"/Item/{records.item_id(n)}", fields)

    return {"data 50": rows(fields), "page 50": rows(page), "data record": record(fields), "page record": record(page)}


def instruction_table(results: Mapping[str, Mapping[str, Any]]) -> str:
    """Of what `bench.instructions` has counted; "" if no row is one of these."""
    totals = {row: float(results[row]["total"]) for row in ROWS if row in results}
    rows = []
    for row, total in totals.items():
        base, most = PAIRS.get(row, ("", None))
        ratio = f"{total / totals[base]:.2f}" if base in totals else ""
        rows.append([ROWS[row], f"{total:,.0f}", ratio, "" if most is None else f"≤ {most:g}"])
    return table(["instructions per request", "", "page / data", "asked for"], rows) if rows else ""


def show_parts() -> None:
    """A profile of 200 pages after 50 that are not counted."""
    import cProfile
    import pstats

    from bench.instructions import prepare
    from bench.stepped import Http1Client, SteppedSvc

    with tempfile.TemporaryDirectory(prefix="bench-pages-") as directory:
        prepare(Path(directory), ["get"])
        server = SteppedSvc(Path(directory))
        try:
            maker = server.requests()["page 50"]
            clients = server.connect(1, Http1Client)
            server.step()
            for n in range(50):
                server.turn(clients, [maker(n * 100)])
            profile = cProfile.Profile()
            for n in range(50, 250):
                profile.enable()
                answers = server.turn(clients, [maker(n * 100)])
                profile.disable()
            print(f"{len(answers[0][2]):,} bytes")
            pstats.Stats(profile).sort_stats("tottime").print_stats(40)
        finally:
            server.close()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--parts", action="store_true", help="a profile of pages instead")
    options, rest = parser.parse_known_args()
    if options.parts:
        show_parts()
        return 0
    from bench import instructions

    return instructions.main(["--rows", ",".join(ROWS), *rest])


if __name__ == "__main__":
    sys.exit(main())
