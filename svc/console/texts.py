"""Figures, times and addresses as pages show them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from svc.store.values.records import iso_text

if TYPE_CHECKING:
    from svc.console.page import ConsolePage

_UNITS = ("kB", "MB", "GB", "TB", "PB")


def bytes_text(size: float | None) -> str:
    """
    >>> bytes_text(999), bytes_text(61440), bytes_text(2_500_000_000), bytes_text(None)
    ('999 bytes', '61.4 kB', '2.5 GB', '')
    """
    if size is None:
        return ""
    if size < 1000:
        return f"{int(size)} bytes"
    unit = ""
    for unit in _UNITS:  # noqa: B007
        size /= 1000
        if size < 999.95:
            break
    return f"{size:,.1f} {unit}"


def iso_of(ms: Any) -> str:
    """A time in ms as ISO 8601; "" for what is none.

    >>> iso_of(1767607200123.5), iso_of(None), iso_of("x"), iso_of(1e300)
    ('2026-01-05T10:00:00.123Z', '', '', '')
    """
    if isinstance(ms, bool) or not isinstance(ms, int | float):
        return ""
    try:
        return iso_text(int(ms))
    except (ValueError, OverflowError):
        return ""


def plural(number: int, noun: str) -> str:
    """
    >>> plural(1, "session"), plural(2000, "key")
    ('1 session', '2,000 keys')
    """
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def seconds_text(seconds: Any) -> str:
    """
    >>> seconds_text(0.01234), seconds_text(75), seconds_text(None)
    ('0.012 s', '75 s', '')
    """
    return f"{round(seconds, 3):g} s" if isinstance(seconds, int | float) else ""


def whole(fields: Mapping[str, str], name: str, default: int, most: int) -> int:
    """A number of the address, from 0 to `most`; the default for what is none."""
    text = fields.get(name, "")
    return min(int(text), most) if text.isascii() and text.isdecimal() and len(text) < 20 else default


def segment(name: str) -> str:
    """A name as a part of an address."""
    return quote(name, safe="", errors="replace")


def table_path(database: str, table: str = "") -> tuple[str, dict[str, str]]:
    """Where the page of a database is, or of a table of it: a path below the console, and fields. A table may be called like a step in a path: then a field
    names it.

    >>> table_path("a b", "c%"), table_path("data", "..")
    (('databases/a%20b/c%25', {}), ('databases/data', {'table': '..'}))
    """
    path = f"databases/{segment(database)}"
    if table in (".", ".."):
        return path, {"table": table}
    return f"{path}/{segment(table)}" if table else path, {}


def table_address(page: ConsolePage, database: str, table: str = "", **fields: str) -> str:
    """The same as a relative address, with more fields."""
    path, own = table_path(database, table)
    return page.at(path, **own, **fields)
