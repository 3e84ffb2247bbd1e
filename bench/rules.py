"""What rules on rows cost: a caller with a role reads a table with a rule, and an equal one of another database, in which there is no rule.

    python -m bench.rules                                    instructions per request, and their ratios; needs valgrind
    python -m bench.rules --json FILE, --compare FILE        as `bench.instructions`
    python -m bench.rules --time [--rounds 5] [--seconds 2]  CPU time of a server process instead; needs wrk

40,000 records, of which the caller owns every other one, in categories of 20 that have one owner. So rules hold for all records that are asked for, and answers
are as long with a rule as without: what a rule saves by leaving records out is not included. Neither are the first requests of a caller, in which the rules
are parsed and compiled, and rules that name an attribute of the account's record, `$user.claims` or `$now`, for which nothing is prepared.

The join is a list of 20 records of 20 brands, and their owner is the caller: by a rule, or by a condition that the caller writes.
"""

from __future__ import annotations

import argparse
import base64
import json
import os
import statistics
import sys
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench import records
from bench.measure import Request, load, write_requests
from bench.report import table
from bench.servers import HERE, Maker, Svc, dump

if TYPE_CHECKING:
    from svc.store import Store

APPLICATION = "ruled"  # directory beside this module
COUNT = 40_000
CATEGORIES = COUNT // records.ROWS
BRANDS = records.BRANDS
MEMBER, OTHER = "member", "other"  # even and odd categories, and brands
PASSWORD = "as-long-as-others"
_BRANDS_APART = 74  # of two records of one category that are neighbours; even, so that their owner is the same

ROWS = {
    "member get": "GET one record of a role's table",
    "beside get": "… beside tables with rules",
    "ruled get": "… with a rule on its attributes",
    "joined get": "… with a rule through a relationship",
    "member equality": "20 rows by equality of a role's table",
    "beside equality": "… beside tables with rules",
    "ruled equality": "… with a rule that an index serves",
    "own join": "20 rows by equality and a condition through a relationship",
    "ruled join": "… with this condition as a rule",
    "member put": "PUT one record of a role's table",
    "ruled put": "… with rules on its attributes",
}
PAIRS = {  # what is compared with what, and the ratio that is asked for; None: none is
    "beside get": ("member get", None),
    "ruled get": ("member get", 1.15),
    "joined get": ("member get", None),
    "beside equality": ("member equality", None),
    "ruled equality": ("member equality", 1.2),
    "ruled join": ("own join", 1.0),
    "ruled put": ("member put", None),
}
RULED_TABLES = ("Owned", "Branded")
_TABLES = {"member": "Plain", "beside": "Beside", "ruled": "Owned", "joined": "Branded"}


def owner(n: int) -> str:
    return OTHER if n % 2 else MEMBER


def item(n: int, revision: int = 0) -> records.Record:
    """That of `records`, in another category and of another brand."""
    brand = records.brand_id((n + n // CATEGORIES * _BRANDS_APART) % BRANDS)
    return records.item(n, revision) | {"owner": owner(n), "category": category(n), "brandId": brand}


def category(n: int) -> str:
    return f"c{n % CATEGORIES:05}"


def brand(n: int) -> records.Record:
    return records.brand(n) | {"owner": owner(n)}


def change(n: int) -> records.Record:
    return item(n % COUNT, 1 + n // COUNT)


def numbers_of(count: int) -> list[int]:
    """Of the caller's records, the same at each run, all different, of different categories as far as there are so many."""
    step = 2 * 7_919
    return [n * step % COUNT for n in range(count)]


def fields_of(user: str) -> tuple[tuple[str, str], ...]:
    credentials = base64.b64encode(f"{user}:{PASSWORD}".encode()).decode()
    return (("Accept", "application/json"), ("Authorization", f"Basic {credentials}"))


def requests(fields: tuple[tuple[str, str], ...] = fields_of(MEMBER)) -> dict[str, Maker]:
    """Row -> the request about record n, which is one of the caller's."""

    def get(name: str) -> Maker:
        return lambda n: Request("GET", f"/{name}/{records.item_id(n)}", fields)

    def equality(name: str, more: str = "") -> Maker:
        return lambda n: Request("GET", f"/{name}/?category=={category(n)}{more}", fields)

    def put(name: str) -> Maker:
        return lambda n: Request("PUT", f"/{name}/{records.item_id(n)}", fields, dump(change(n)), 204)

    found: dict[str, Maker] = {}
    for who, name in _TABLES.items():
        found[f"{who} get"] = get(name)
        if who != "joined":
            found[f"{who} equality"] = equality(name)
    found["own join"] = equality("Plain", f"&brand.owner=={MEMBER}")
    found["ruled join"] = equality("Branded")
    found["member put"], found["ruled put"] = put("Plain"), put("Owned")
    return {row: found[row] for row in ROWS}


def check(ask: Callable[[Request], tuple[int, Mapping[str, str], bytes]], row: str, request: Request, n: int) -> None:
    """Raise RuntimeError unless the answer is the right one, and the record of another is not there if a rule says so."""
    status, _, body = ask(request)
    if status != request.expect:
        raise RuntimeError(f"{row}: {status} {body[:300]!r}")
    if row.endswith("put"):
        return
    found = json.loads(body)
    if found["id"] != records.item_id(n) if row.endswith("get") else len(found) != records.ROWS:
        raise RuntimeError(f"{row}: not what was asked for: {body[:300]!r}")
    name = request.target.split("/")[1]
    expected = 404 if name in RULED_TABLES else 200
    status, _, _ = ask(Request("GET", f"/{name}/{records.item_id(n + 1)}", request.fields, expect=expected))
    if status != expected:
        raise RuntimeError(f"{row}: the record of another is answered by {status}")


# --- the server --------------------------------------------------------------------------------------------------------------------------


def fill(path: Path) -> None:
    """Load the records, and a user with a role, into the store in `path`, with the tables that the application declares."""
    from svc.apps.schema_files import load_schema_files
    from svc.store import Store
    from svc.store.writing.bulk_write import load_records

    schema = (HERE / APPLICATION / "schema.graphql").read_text()
    definitions = load_schema_files([("schema.graphql", schema)], {}).definitions
    store = Store(path)
    try:
        for definition in definitions:
            made = store.open_database(definition.database).define_table(definition)
            source = map(brand, range(BRANDS)) if definition.name.endswith("Brand") else map(item, range(COUNT))
            for _ in load_records(made, source):
                pass
        _add_user(store, {(definition.database, definition.name) for definition in definitions})
    finally:
        store.close()


def _add_user(store: Store, tables: set[tuple[str, str]]) -> None:
    """MEMBER, who may do everything with all records of these tables that no rule narrows."""
    from svc.auth.users import new_user_record
    from svc.store.system import ROLE_TABLE, SYSTEM, USER_TABLE, ensure_system

    everything = dict.fromkeys(("read", "insert", "update", "delete"), True) | {"attribute_permissions": []}
    permission: dict[str, Any] = {}
    for database, name in sorted(tables):
        permission.setdefault(database, {"tables": {}})["tables"][name] = everything
    ensure_system(store)
    system = store.databases[SYSTEM]
    roles, users = system.tables[ROLE_TABLE], system.tables[USER_TABLE]
    transaction = store.begin()
    transaction.put(roles, MEMBER, roles.validator.record({"id": MEMBER, "role": MEMBER, "permission": permission}))
    transaction.put(users, MEMBER, users.validator.record(new_user_record(MEMBER, PASSWORD, MEMBER)))
    store.commit_now(transaction)


class RuledApplication(Svc):
    """svc with the application in `ruled/`."""

    name = "svc-rules"

    def command(self) -> list[str]:
        return [sys.executable, "-m", "svc", "run", str(HERE / APPLICATION)]

    def prepare(self) -> None:
        fill(self.data / "root" / "database")
        self.start()


# --- CPU time ----------------------------------------------------------------------------------------------------------------------------


def measure(directory: Path, rounds: int, seconds: int) -> dict[str, list[float]]:
    """µs per request, of each round."""
    server = RuledApplication(directory)
    samples: dict[str, list[float]] = {row: [] for row in ROWS if not row.endswith("put")}  # which would change nothing the second time
    try:
        server.prepare()
        numbers = numbers_of(COUNT // 2)
        paths = {row: directory / f"{row.replace(' ', '-')}.requests" for row in samples}
        for row, path in paths.items():
            make = requests()[row]
            check(server.ask, row, make(numbers[0]), numbers[0])
            write_requests(path, map(make, numbers), f"127.0.0.1:{server.port}")
        for _ in range(rounds):
            for row, path in paths.items():
                sample = load(server.pid, server.port, path, seconds=seconds, connections=32)
                if sample.errors:
                    print(f"  {row}: {sample.errors} errors", file=sys.stderr)  # refused by a server that others kept waiting
                samples[row].append(sample.cpu)
    finally:
        server.stop()
    return samples


def time_table(samples: Mapping[str, list[float]]) -> str:
    return _table(
        "CPU time of the server per request, µs", {row: [f"{statistics.median(found):.1f}"] for row, found in samples.items()}, samples
    )


def instruction_table(results: Mapping[str, Mapping[str, Any]]) -> str:
    """Of what `bench.instructions` has counted; "" if no row is one of these."""
    totals = {row: [float(results[row]["total"])] for row in ROWS if row in results}
    return _table("instructions per request", {row: [f"{total:,.0f}"] for row, (total,) in totals.items()}, totals) if totals else ""


def _table(title: str, cells: Mapping[str, list[str]], figures: Mapping[str, list[float]]) -> str:
    """`figures`: of each round; the ratio is the median of those within the rounds."""
    rows = []
    for row, shown in cells.items():
        base, most = PAIRS.get(row, ("", None))
        ratio = "" if base not in figures else f"{_ratio(figures[row], figures[base]):.2f}"
        rows.append([ROWS[row], *shown, ratio, "" if most is None else f"≤ {most:g}"])
    return table([title, "", "with a rule / without", "asked for"], rows)


def _ratio(ours: list[float], theirs: list[float]) -> float:
    return statistics.median(one / other for one, other in zip(ours, theirs, strict=True))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--time", action="store_true", help="CPU time instead of instructions")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=int, default=2)
    options, rest = parser.parse_known_args()
    if not options.time:
        from bench import instructions

        return instructions.main(["--rows", ",".join(ROWS), *rest])
    if rest:
        parser.error(f"unknown: {' '.join(rest)}")
    before = os.getloadavg()[0]
    with tempfile.TemporaryDirectory(prefix="bench-rules-") as directory:
        print(time_table(measure(Path(directory), options.rounds, options.seconds)))
    if before > 0.5:
        print(f"\nThe machine was busy: load {before:.1f} at the start.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
