"""Data of any kind: what an application returns, counts, values of properties."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from svc.pages.cells import Line, lines_of
from svc.pages.collection import MOST_ROWS, Rows, listed


@dataclass(slots=True)
class DataPage:
    """One of `table` and `lines`. `count`: elements of a list, None for anything else; `is_cut`: not all of them are shown."""

    table: Rows | None
    lines: Iterator[Line] | None
    count: int | None = None
    is_cut: bool = False


def data_page(value: Any, *, has_more: bool = False) -> DataPage:
    """`has_more`: the list goes on behind its end."""
    if isinstance(value, tuple | list):
        shown = list(value[:MOST_ROWS])
        is_cut = has_more or len(value) > len(shown)
        table = listed(shown)
        return DataPage(table, None if table is not None else lines_of(shown), len(value), is_cut)
    return DataPage(None, lines_of(value))
