"""The rows of the tables: which requests each consists of, and what is a right answer to them."""

from __future__ import annotations

import gzip
import json
import random
import sys
from collections.abc import Callable
from itertools import accumulate
from pathlib import Path
from typing import Any

import brotli
import cbor2
import msgspec
import zstandard

from bench import records
from bench.measure import Request, Sample, load, write_requests
from bench.servers import Maker, Server

TYPES, CODINGS = ("cbor", "msgpack"), ("br", "zstd", "gzip")  # of the rows by equality
HOT = " hot"  # ends the name of a row whose requests are those of the row before, but some far more often than others
ROWS = (
    "get",
    "get hot",
    "not modified",
    "equality",
    "equality hot",
    "range",
    "sort",
    "join",
    "count",
    *TYPES,
    *CODINGS,
    "put",
    "post",
    "delete",
)
COUNTS = ("count", "totalItems", "filtered_table_rows_count")  # where svc, PocketBase and Datasette put a count
FIND_ROWS = ("equality", "range", "sort", "join", "count", *TYPES, *CODINGS)
VARIETY = records.CATEGORIES  # different requests of one row; more than any cache of answers should be able to profit from
SKEW = 0.99  # of the hot rows: the n-th most popular request comes in proportion to 1 / n**SKEW (Zipf; the default of YCSB)
DRAWS = 5 * VARIETY  # of a hot row: its requests are repeated only after so many
PASSES = 2  # over the records of `put`, each with other values, so that no PUT finds what it brings
WARM_UP = 1  # seconds; wrk knows no fractions


class Row:
    """The requests of one row to one server. Each measurement goes on where the one before stopped."""

    def __init__(self, name: str, server: Server, maker: Maker, scratch: Path, shares: int) -> None:
        """`shares`: the number of measurements, for a row that asks for each record only once."""
        self.name = name
        self.server = server
        self._maker = maker
        self._file = scratch / f"{server.name}-{name.replace(' ', '-')}"
        self._shares = shares
        self._measured = 0
        self._sent = 0  # since the file was written

    @property
    def _once(self) -> bool:
        return self.name == "delete"

    def measure(self, seconds: int, connections: int, warm_up: bool = True) -> Sample | None:
        """None, and a line on stderr: the first answer is not what it should be, so that the row has no figure."""
        if self._measured == 0 or self._once or self.name == "not modified":  # tags change with every write
            requests = make_requests(self.name, self._maker, self._measured, self._shares)
            if self._measured == 0 and not self._once and self.server.name != "floor":
                fault = find_fault(self.server, kind_of(self.name), requests[0])
                if fault is not None:
                    print(f"{self.server.name}, {self.name}: left out, {fault}", file=sys.stderr)
                    return None
            write_requests(self._file, requests, f"127.0.0.1:{self.server.port}")
            self._sent = 0
        self._measured += 1
        if warm_up and not self._once:
            self._load(WARM_UP, connections)
        sample = self._load(seconds, connections)
        if sample.errors:
            print(f"  {self.server.name}, {self.name}: {sample.errors} errors", file=sys.stderr)
        return sample

    def _load(self, seconds: int, connections: int) -> Sample:
        server = self.server
        sample = load(server.pid, server.port, self._file, seconds=seconds, connections=connections, once=self._once, skip=self._sent)
        self._sent += sample.requests
        return sample


def make_requests(row: str, maker: Maker, round_: int, rounds: int) -> list[Request]:
    if row == "delete":  # each record only once: every round has its share
        share = records.SPARES // rounds
        return [maker(n) for n in range(round_ * share, (round_ + 1) * share)]
    numbers = pick_numbers(kind_of(row), VARIETY)
    if row.endswith(HOT):
        numbers = draw_hot(numbers)
    if row == "put":
        return [maker(n + pass_ * records.RECORDS) for pass_ in range(PASSES) for n in numbers]
    return [maker(n) for n in numbers]


def pick_numbers(row: str, count: int) -> list[int]:
    """Of the records that a row asks for, the same at each run: one record of each category, so that queries for a category are all different too."""
    dice = random.Random(row)
    return [n + dice.randrange(records.ROWS) * records.CATEGORIES for n in dice.sample(range(records.CATEGORIES), count)]


def draw_hot(numbers: list[int]) -> list[int]:
    """DRAWS of these, the first the most often; the same at each run."""
    weights = accumulate(1 / rank**SKEW for rank in range(1, len(numbers) + 1))
    return random.Random(SKEW).choices(numbers, cum_weights=list(weights), k=DRAWS)


def kind_of(row: str) -> str:
    """The row whose requests a hot row repeats; any other row itself."""
    return row.removesuffix(HOT)


def find_fault(server: Server, row: str, request: Request) -> str | None:
    """Why this answer is not the right one: a fast wrong answer is worth nothing."""
    status, fields, body = server.ask(request)
    if status != request.expect:
        return f"{request.method} {request.target} answered {status}: {body[:300]!r}"
    wanted = dict(request.fields)
    for asked, told in (("Accept", "content-type"), ("Accept-Encoding", "content-encoding")):
        if body and wanted.get(asked, "") not in fields.get(told, ""):
            return f"{request.target} has {told} {fields.get(told)} instead of {wanted[asked]}"
    if row in FIND_ROWS:
        answer = read_answer(fields, body)
        if isinstance(answer, dict):  # a page of PocketBase, or a count
            answer = answer["items"] if row != "count" else next(answer[name] for name in COUNTS if name in answer)
        count = answer if isinstance(answer, int) else len(answer)
        if count != records.ROWS:
            return f"{request.target} has {count} rows instead of {records.ROWS}"
    return None


def read_answer(fields: dict[str, str], body: bytes) -> Any:
    decode_coding: dict[str | None, Callable[[bytes], bytes]] = {
        None: lambda body: body,
        "br": brotli.decompress,
        "gzip": gzip.decompress,
        "zstd": lambda body: zstandard.ZstdDecompressor().decompressobj().decompress(body),
    }
    read_type: dict[str, Callable[[bytes], Any]] = {
        "application/json": json.loads,
        "application/cbor": cbor2.loads,
        "application/x-msgpack": msgspec.msgpack.decode,
    }
    return read_type[fields["content-type"].partition(";")[0]](decode_coding[fields.get("content-encoding")](body))
