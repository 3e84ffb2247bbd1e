"""What replication costs the CPU: microseconds for each entry of the log.

    python -m bench.replication [--rounds 7] [--rows pack]

In one process, without sockets and disk: a log of PUTs is in memory, each of which replaces a record of `records.py`, whose description is cut out of the
documentation of this repository. *pack* makes messages of it, *take* gives their transactions, *pass* reads entries that other nodes have written.
Bytes are those of the messages. *apply*: the same messages are given out as a reader gets them, and applied to an empty database with three indexes, in
--scratch; commits are included. Not included: reading the log, the engine and its client.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from bench import records
from bench.log_size import SHORT, of_prose
from svc.apps.schema_files import load_schema_files
from svc.cluster.assembly import Assembler, Delivery
from svc.cluster.packing import LogPacker, Row
from svc.cluster.wire import BATCH, Message
from svc.store import Database, Store
from svc.store.log.entries import PUT, LogEntry, encode_entry
from svc.store.values.keys import encode_key
from svc.store.values.records import encode
from svc.store.writing.remote_apply import apply_remote
from svc.store.writing.remote_transaction import Origin, RemoteTransaction

NODE, OTHER, INCARNATION = "node-a", "node-b", bytes(8)
ENTRIES = 20_000
READ_BYTES = 1_200_000  # of messages that a reader gets at a time
START = 1.7e12  # ms, of the first version


def made_log(size: int, node: str = NODE) -> list[Row]:
    """ENTRIES of a log, in transactions of so many entries."""
    chance = random.Random(1)
    rows = []
    for n in range(ENTRIES):
        lsn = n + 1
        record = records.item(n) | {"description": of_prose(chance, SHORT)}
        value = encode(record, START + n, lsn, None)
        image = encode(record | {"rank": n}, START, 1, None)
        entry = LogEntry(
            lsn, lsn - n % size, START + n, START + n, "Item", 3, encode_key(record["id"]), PUT, "anna", node, 0, value, ("rank",), image, 2
        )
        rows.append((lsn, encode_entry(entry)))
    return rows


def pack(rows: list[Row], together: int, batch: int = BATCH) -> list[Message]:
    """Messages, each made of what has been committed at a time: so many entries."""
    packer = LogPacker(NODE, INCARNATION, batch=batch)
    previous = 0
    made: list[Message] = []
    for at in range(0, len(rows), together):
        for message in packer.messages(rows[at : at + together], previous):
            if message is not None:
                made.append(message)
                previous = message.last_lsn
    return made


def take(messages: list[Message]) -> None:
    assembler = Assembler(INCARNATION, 0)
    for message in messages:
        assembler.take(message.headers(), message.body)


def apply(messages: list[Message], scratch: Path) -> float:
    """Seconds of CPU time."""
    schema = Path(__file__).parent / "app" / "schema.graphql"
    with tempfile.TemporaryDirectory(dir=scratch) as directory:
        store = Store(Path(directory))
        database = store.open_database("data")
        for definition in load_schema_files([(schema.name, schema.read_text())], {}).definitions:
            database.define_table(definition)
        database.enable_replication()
        seconds = asyncio.run(_apply(messages, database))
        assert database.tables["Item"].entry_count(database.snapshot()) == ENTRIES
        store.close()
    return seconds


async def _apply(messages: list[Message], database: Database) -> float:
    async def turns() -> None:
        while True:
            database.store.commit_turn()
            await asyncio.sleep(0)

    running = asyncio.get_running_loop().create_task(turns())
    began = time.process_time()
    assembler, waiting, size = Assembler(INCARNATION, 0), list[RemoteTransaction](), 0
    for message in messages:
        taken = assembler.take(message.headers(), message.body)
        if isinstance(taken, Delivery):
            waiting += taken.transactions
        size += len(message.body)
        if size > READ_BYTES or message is messages[-1]:
            await apply_remote(database, Origin(NODE, INCARNATION), waiting)
            waiting, size = [], 0
    running.cancel()
    return time.process_time() - began


def cpu(function: Callable[[], object], rounds: int) -> tuple[float, float]:
    """(median, spread) of microseconds for each entry."""
    times = []
    for _ in range(rounds):
        start = time.process_time()
        function()
        times.append((time.process_time() - start) / ENTRIES * 1e6)
    return statistics.median(times), max(times) - min(times)


ROWS = {
    "1 in a message": (1, 1, BATCH),
    "200 in a message": (1, 200, 1 << 20),
    "64 KiB in a message": (1, ENTRIES, BATCH),
    "200 in a transaction": (200, 200, 1 << 20),
    "all in a transaction": (ENTRIES, ENTRIES, BATCH),
}
"""Title -> entries of a transaction, entries that are committed at a time, bytes of a message."""


def main(words: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--rows", default="", help="only those with this in their name")
    parser.add_argument("--scratch", type=Path, default=Path(tempfile.gettempdir()))
    options = parser.parse_args(words)
    shown = [f"{kind} {title}" for title in ROWS for kind in ("pack", "take")] + ["pass"]
    for name in shown:
        if options.rows not in name:
            continue
        if name == "pass":
            rows = made_log(1, OTHER)
            found, spread = cpu(lambda rows=rows: pack(rows, ENTRIES), options.rounds)  # type: ignore[misc]
            print(f"{name:<30} {found:6.2f} us  +-{spread / 2:.2f}")
            continue
        kind, _, title = name.partition(" ")
        size, together, batch = ROWS[title]
        rows = made_log(size)
        messages = pack(rows, together, batch)
        work = (lambda: pack(rows, together, batch)) if kind == "pack" else (lambda: take(messages))  # noqa: B023 - called before the next turn
        found, spread = cpu(work, options.rounds)
        each = sum(len(message.body) for message in messages) / ENTRIES
        print(f"{name:<30} {found:6.2f} us  +-{spread / 2:.2f}  {len(messages):6} messages  {each:5.0f} bytes for each")
    for size in (1, 100, 500):
        name = f"apply {size} in a transaction"
        if options.rows in name:
            messages = pack(made_log(size), ENTRIES)
            times = sorted(apply(messages, options.scratch) / ENTRIES * 1e6 for _ in range(options.rounds))
            print(f"{name:<30} {statistics.median(times):6.2f} us  +-{(times[-1] - times[0]) / 2:.2f}, taking included")


if __name__ == "__main__":
    main()
