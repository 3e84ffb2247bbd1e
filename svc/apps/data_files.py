"""Files of records: `{database, table, records}` in JSON or YAML (spec: components §1.1)."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from svc.apps.reading import read_limited
from svc.apps.yaml_values import read_yaml
from svc.content.json_type import decode_json_object_slices
from svc.errors import Problem
from svc.store.blobs import Blob
from svc.store.schema import DEFAULT_DATABASE
from svc.store.system import SYSTEM
from svc.store.values.conversion import printable
from svc.store.values.validation import has_too_many_values

MAX_JSON = 256 << 20  # bytes of a file: all of its records are in memory while it is loaded
MAX_YAML = 32 << 20
LARGE = 4 << 20  # files above it are loaded one after the other
MAX_RECORDS = 1_000_000
JSON, YAML = (".json",), (".yaml", ".yml")


@dataclass(slots=True)
class DataFile:
    """What a file has. `warnings`: about keys beside these."""

    database: str
    table: str
    records: list[Any]
    warnings: list[str]
    path: Path


def size_of(path: Path) -> int:
    """In bytes; 0 of a file that cannot be read."""
    try:
        return path.stat().st_size
    except OSError:
        return 0


def read_data_file(path: Path) -> DataFile:
    """Raises OSError, or ValueError with what is wrong with the file. Blocks, and yields to other threads."""
    suffix = path.suffix.lower()
    if suffix not in JSON + YAML:
        raise ValueError(f"a file of records is .json, .yaml or .yml, not {suffix or 'without an extension'}")
    limit = MAX_JSON if suffix in JSON else MAX_YAML
    raw = read_limited(path, limit)
    if len(raw) > limit:
        raise ValueError(f"it is larger than {limit >> 20} MB: load it with an operation, such as csv_file_load or insert")
    found = _read_json(raw) if suffix in JSON else read_yaml(raw)
    if not isinstance(found, dict):
        raise ValueError("it must be an object with table and records")
    database, table, records = found.get("database", DEFAULT_DATABASE), found.get("table"), found.get("records")
    if not isinstance(database, str) or not database:
        raise ValueError("database must be the name of a database")
    if database == SYSTEM:
        raise ValueError(f"the database {SYSTEM} cannot be loaded from files")
    if not isinstance(table, str) or not table:
        raise ValueError("table must be the name of a table" if "table" in found else "it has no table")
    if not isinstance(records, list):
        raise ValueError("records must be a list" if "records" in found else "it has no records")
    if len(records) > MAX_RECORDS:
        raise ValueError(f"it has {len(records)} records, and a file can have {MAX_RECORDS}")
    unknown = [printable(str(key)) for key in found if key not in ("database", "table", "records")]
    return DataFile(database, table, records, [f"'{name}' is none of database, table, records" for name in unknown[:10]], path)


def _read_json(raw: bytes) -> Any:
    steps = decode_json_object_slices(raw, "records")
    try:
        while True:
            next(steps)
    except StopIteration as done:
        return done.value
    except Problem as problem:
        raise ValueError(problem.message) from None


@dataclass(slots=True)
class FileRecord:
    """`number`: its place in `records`, from 0. `hash`: of what the file has, see `hash_of`."""

    number: int
    data: dict[str, Any]
    hash: str


def hashed_records(records: list[Any], start: int, end: int) -> list[FileRecord | tuple[int, str]]:
    """Records from `start` on with their hashes, or (number, what is wrong with one)."""
    return [_hashed(number, records[number]) for number in range(start, min(end, len(records)))]


def _hashed(number: int, record: Any) -> FileRecord | tuple[int, str]:
    if type(record) is not dict:
        return number, f"it must be an object, not {_kind(record)}"
    containers = [value for value in record.values() if type(value) is dict or type(value) is list]
    if containers and has_too_many_values(containers):
        return number, "it has too many values in its lists and objects"
    try:
        return FileRecord(number, record, hash_of(record))
    except (ValueError, RecursionError, OverflowError):
        return number, "it cannot be written as JSON"


def hash_of(record: dict[str, Any]) -> str:
    """SHA-256 of the record as JSON with sorted names, without spaces, in hexadecimal.

    >>> hash_of({"b": 1, "a": "ä"}) == hash_of({"a": "ä", "b": 1})
    True
    """
    text = json.dumps(record, sort_keys=True, separators=(",", ":"), ensure_ascii=False, default=_plain)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def stored_hash(record: dict[str, Any], names: list[str]) -> str:
    """The same of these attributes of a record as it is stored; blobs count as one and the same."""
    return hash_of({name: record[name] for name in names if name in record})


def _plain(value: Any) -> Any:
    """Types of stored records that JSON does not have."""
    if isinstance(value, datetime):
        return {"date": value.isoformat()}
    if isinstance(value, bytes | bytearray | memoryview):
        return {"bytes": bytes(value).hex()}
    return {"blob": isinstance(value, Blob)}


def _kind(value: Any) -> str:
    names = {type(None): "null", bool: "a boolean", int: "a number", float: "a number", str: "a text", list: "a list"}
    return names.get(type(value), type(value).__name__)


def chunks(count: int, size: int) -> Iterator[tuple[int, int]]:
    return ((start, min(start + size, count)) for start in range(0, count, size))
