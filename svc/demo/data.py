"""The demo's records: one file per table, a JSON object a line, packed with xz. `make_data.py` says where they come from."""

from __future__ import annotations

import lzma
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

DATA = Path(__file__).parent / "data"
APP = Path(__file__).parent / "app"

# Table -> number of its records, in the order of loading: referenced tables come first.
TABLES = {"Airline": 16, "Airport": 1458, "Plane": 3322, "Weather": 4236, "Flight": 51955}


def data_file(table: str) -> Path:
    return DATA / f"{table.lower()}.ndjson.xz"


def iter_records(table: str) -> Iterator[dict[str, Any]]:
    """The records of `table` as decoded JSON: dates are still ISO text. Memory: one line at a time."""
    decode = msgspec.json.Decoder(dict[str, Any]).decode
    with lzma.open(data_file(table)) as lines:
        for line in lines:
            yield decode(line)
