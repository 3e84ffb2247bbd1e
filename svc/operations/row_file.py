"""The rows of the operations as the command line has them: out of `rows.json`, which is made of them, because the modules of the rows import the server.

python -m svc.operations.reference docs/operations        # writes that file, too
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from svc.operations.operation import Operation

FILE = Path(__file__).with_name("rows.json")


@dataclass(frozen=True, slots=True)
class FieldRow:
    """`fields.Field`, without its tests of values. `names`: the winning one first."""

    name: str
    kind: str
    sentence: str
    required: bool
    default: Any
    choices: list[str]
    secret: bool
    names: list[str]


@dataclass(frozen=True, slots=True)
class PermissionRow:
    kind: str
    rights: list[str]
    grantable: bool


@dataclass(frozen=True, slots=True)
class OperationRow:
    """`operation.Operation`, without its function."""

    name: str
    category: str
    summary: str
    permission: PermissionRow
    fields: list[FieldRow]
    aliases: list[str]
    returns: str
    notes: str
    example: Mapping[str, Any]
    example_answer: Any
    starts_job: bool
    names: list[str]


@dataclass(frozen=True, slots=True)
class RowFile:
    """`categories`: key -> title, in the order of the reference. `rows`: in that order."""

    categories: Mapping[str, str]
    rows: list[OperationRow]


@cache
def row_file() -> RowFile:
    found = json.loads(FILE.read_text("utf-8"))
    rows = [
        OperationRow(**{**row, "permission": PermissionRow(**row["permission"]), "fields": [FieldRow(**each) for each in row["fields"]]})
        for row in found["rows"]
    ]
    return RowFile(found["categories"], rows)


@cache
def rows_by_name() -> Mapping[str, OperationRow]:
    """Name or alias -> row."""
    return {name: row for row in row_file().rows for name in row.names}


def text_of(rows: list[Operation], categories: Mapping[str, str]) -> str:
    """What the file is to hold."""
    described = [
        {
            **_named(row, OperationRow),
            "permission": _named(row.permission, PermissionRow),
            "fields": [_named(each, FieldRow) for each in row.fields],
        }
        for row in rows
    ]
    return json.dumps({"categories": dict(categories), "rows": described}, ensure_ascii=False, indent=1) + "\n"


def _named(source: Any, kind: type) -> dict[str, Any]:
    return {each.name: getattr(source, each.name) for each in fields(kind)}
