"""The form that says which attribute each column of a file becomes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from svc.pages.cells import CELL, Cell, cell_of, shortened
from svc.pages.collection import type_text
from svc.store import Table
from svc.store.values.records import MISSING

MOST_COLUMNS = 100  # of a file; one with more is loaded by an operation
MOST_CHOICES = 200  # attributes that are offered for a column
FIELD = "column"  # and the number of the column
BY_LOOK = "by what it looks like"


@dataclass(slots=True)
class ImportColumn:
    """`field`: the name in the form. `chosen`: the attribute, "" left out. `choices`: (attribute, text). `fault`: what is wrong with the choice."""

    field: str
    name: str
    chosen: str
    choices: list[tuple[str, str]]
    type: str
    sample: Cell
    fault: str = ""


def import_columns(
    found: Mapping[str, Any], table: Table, writable: frozenset[str] | None, sent: Mapping[str, str] | None
) -> list[ImportColumn]:
    """`found`: what `read_upload` has answered. `writable`: attributes that the caller may write, None: all. `sent`: the form as it was filled in."""
    names = [
        each.name
        for each in table.definition.attributes
        if each.stored and each.relationship is None and each.name not in table.stamps and (writable is None or each.name in writable)
    ][:MOST_CHOICES]
    known = [(name, shortened(name, CELL)) for name in names]
    columns = []
    for number, each in enumerate(found["columns"]):
        name, field = each["name"], f"{FIELD}{number}"
        chosen = (each["attribute"] or "") if sent is None else sent.get(field, "")
        choices = known
        is_new = not table.definition.sealed and name and name not in table.attributes and writable is None
        if is_new:
            choices = [*known, (name, f"{shortened(name, CELL)} (new)")]
        if not any(chosen == value for value, _ in choices):
            chosen = ""
        sample = next((row[number] for row in found["rows"] if row[number] not in ("", None)), MISSING)
        columns.append(ImportColumn(field, shortened(name, CELL), chosen, choices, _type_of(chosen, table), cell_of(sample, 60)))
    if sent is not None:
        _mark_faults(columns)
    return columns


def _mark_faults(columns: Sequence[ImportColumn]) -> None:
    taken: dict[str, str] = {}
    for column in columns:
        if column.chosen and column.chosen in taken:
            column.fault = f"The column {taken[column.chosen]} becomes this attribute already"
        elif column.chosen:
            taken[column.chosen] = column.name


def mapping_of(found: Mapping[str, Any], columns: Sequence[ImportColumn]) -> dict[str, str | None]:
    """The field `columns` of the operation."""
    return {each["name"]: column.chosen or None for each, column in zip(found["columns"], columns, strict=True)}


def _type_of(name: str, table: Table) -> str:
    if not name:
        return ""
    attribute = table.attributes.get(name)
    return BY_LOOK if attribute is None or attribute.type == "Any" else type_text(attribute)
