"""Statements whose names are resolved: SQLite's SQL, and what its rows mean (spec: sql §2, §4)."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING

from svc.sql.catalogue import TableView

if TYPE_CHECKING:
    from svc.sql.tables.module import SpecialTable


class Decoding(IntEnum):
    """What has to be done with a value of SQLite before it is part of a result row."""

    NONE = 0
    EXACT = 1  # bytes are what `values.exact_value` has made: other values are themselves
    BOOLEAN = 2  # 1 and 0
    JSON = 3  # JSON text
    DATE = 4  # ISO 8601 text
    BIG = 5  # an integer, or the digits of one beyond 64 bits


@dataclass(frozen=True, slots=True)
class ResultColumn:
    name: str
    decoding: Decoding = Decoding.NONE


@dataclass(frozen=True, slots=True)
class RecordColumn:
    """A value in a record that SQLite hands on as it is stored. `record`: SQLite's column; `attribute`: the name of the value."""

    record: int
    attribute: str


@dataclass(slots=True)
class BoundQuery:
    """`text`: in SQLite's SQL; its parameters are all numbered, `?1`, and stand for `parameters` in this order: numbers or names as the statement has them.
    `exact_parameters`: which of these, as indexes, have to be given as `Decoding.EXACT` has values: text, 64-bit integers, floats and null as they are, all
    else as `encode_payload` makes it. `tables`: those it reads. `constants`: values of further parameters, behind these, that binding has taken out of the
    text. `holes`: for each of these where in the text of the statement its literal is, if it is one in whose place other values of its class may stand:
    nothing else that is here depends on it; else None. `layout`: where the value of each of `columns` is found, a number is that of SQLite's column; none:
    they are SQLite's. `declared`: what SQLite has to know of: `tables`, and tables of counts that are read in place of some of them. `is_plain`: see
    `tables.comparing`.
    """

    text: str
    columns: tuple[ResultColumn, ...]
    parameters: tuple[int | str, ...] = ()
    tables: tuple[TableView, ...] = ()
    constants: tuple[object, ...] = ()
    exact_parameters: frozenset[int] = frozenset()
    layout: tuple[int | RecordColumn, ...] = ()
    declared: tuple[TableView | SpecialTable, ...] = ()
    is_plain: bool = False
    holes: tuple[int | None, ...] = ()

    def __post_init__(self) -> None:
        self.declared = self.declared or self.tables
