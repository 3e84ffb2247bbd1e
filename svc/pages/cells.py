"""Values as text for people, and trees of them: nothing of a value is markup, and nothing is longer than a page can show.

What would change how the text around it is shown (control characters, marks of direction, halves of surrogate pairs) is written as an escape.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Set
from dataclasses import dataclass, field
from datetime import date, datetime
from typing import Any, NamedTuple

from svc.content.values import as_datetime, in_order, is_blob, text_key, to_plain
from svc.store.values.records import MISSING, iso_text, to_ms

CELL = 160  # characters of a value in a table
LONG = 2000  # ... as a member of another value, on a page of its own
WHOLE = 20_000  # ... on the page of its record
MOST_VALUES = 1000  # of a tree
MOST_MEMBERS = 200  # of one list or object in a tree
DEEPEST = 8  # levels of a tree; what is below is one line

UNSEEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u00ad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufe00-\ufe0f\ufeff\ufff9-\ufffb\ud800-\udfff\U000e0000-\U000e007f]"
)
_CUT = "…"


@dataclass(slots=True)
class Cell:
    """`kind`: its class in the style sheet. `href`: where the value leads, "" nowhere. `is_cut`: there is more. `items`: of a list whose elements
    lead somewhere each. `note`: what stands beside it."""

    text: str
    kind: str = "text"
    href: str = ""
    is_cut: bool = False
    items: list[Cell] = field(default_factory=list)
    note: str = ""


class Link(NamedTuple):
    """A text in a cell that leads somewhere, which is what most cells with a link are. `note`: what stands beside it."""

    text: str
    href: str
    note: str = ""


@dataclass(slots=True)
class Line:
    """One step through a value with its members. `kind`: "value", "open" (a list or an object begins), "more" (this many members are left out) or "close".
    `name`: of the member, None outside of lists and objects."""

    kind: str
    name: str | None = None
    cell: Cell | None = None
    more: int = 0


def shown(text: str) -> str:
    """
    >>> shown("a\\u202eb\\x00")
    'a\\\\u202eb\\\\u0000'
    """
    if text.isascii() and text.isprintable():
        return text
    return UNSEEN.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def shortened(text: str, most: int) -> str:
    """
    >>> shortened("abcdef", 3)
    'abc…'
    """
    return shown(text[:most]) + _CUT if len(text) > most else shown(text)


def cell_of(value: Any, most: int = CELL) -> Cell:
    """A value in at most about `most` characters. Raises TypeError for one that cannot be encoded in any type."""
    if type(value) is str:  # most values are
        return Cell(shortened(value, most), "text", "", len(value) > most)
    value = _plain(value)
    if value is MISSING:
        return Cell("", "missing")
    if value is None:
        return Cell("null", "null")
    if isinstance(value, bool):
        return Cell("true" if value else "false", "literal")
    if isinstance(value, str):
        return Cell(shortened(value, most), "text", is_cut=len(value) > most)
    if isinstance(value, int | float):
        text = _number(value)
        return Cell(shortened(text, most), "number", is_cut=len(text) > most)
    if isinstance(value, datetime):
        return Cell(iso_text(to_ms(value)), "date")
    if isinstance(value, bytes):
        return Cell(size_text(len(value)), "bytes")
    if is_blob(value):
        return Cell(f"{shortened(value.type, 100)}, {size_text(value.size)}", "bytes")
    pieces: list[str] = []
    room = _preview(value, pieces, most)
    return Cell(shown("".join(pieces)) + (_CUT if room < 0 else ""), "nested", is_cut=room < 0)


def lines_of(value: Any, budget: list[int] | None = None) -> Iterator[Line]:
    """A value with all its members, as far as a page can show them; made while it is shown. `budget`: the number of values that are left, in a list of one:
    several trees may share it."""
    return _lines(value, None, [MOST_VALUES] if budget is None else budget, 0)


def _lines(value: Any, name: str | None, budget: list[int], depth: int) -> Iterator[Line]:
    budget[0] -= 1
    value = _plain(value)
    if not isinstance(value, dict | list) or not value or depth >= DEEPEST or budget[0] <= 0:
        yield Line("value", name, cell_of(value, WHOLE if depth == 0 else LONG if depth < DEEPEST else CELL))
        return
    yield Line("open", name)
    pairs = value.items() if isinstance(value, dict) else enumerate(value)
    for done, (key, member) in enumerate(pairs):
        if budget[0] <= 0 or done >= MOST_MEMBERS:
            yield Line("more", more=len(value) - done)
            break
        yield from _lines(member, shortened(text_key(key), CELL), budget, depth + 1)
    yield Line("close")


def size_text(size: int | None) -> str:
    """
    >>> size_text(1), size_text(2048), size_text(None)
    ('1 byte', '2,048 bytes', 'still arriving')
    """
    if size is None:
        return "still arriving"
    return "1 byte" if size == 1 else f"{size:,} bytes"


def _plain(value: Any) -> Any:
    """A value of one of the types that `cell_of` knows."""
    while True:
        if value is None or value is MISSING or type(value) in (str, int, float, bool, bytes, dict, list, datetime) or is_blob(value):
            return as_datetime(value) if type(value) is datetime else value
        if isinstance(value, date):
            value = as_datetime(value)
        elif isinstance(value, tuple):
            value = list(value)
        elif isinstance(value, Set):
            value = in_order(value)
        elif isinstance(value, Mapping) and not isinstance(value, dict):
            value = dict(value.items())
        elif isinstance(value, dict):
            return dict(value)
        elif isinstance(value, list):
            return list(value)
        else:
            value = to_plain(value)


def _number(value: float) -> str:
    try:
        return repr(value) if isinstance(value, float) else str(value)
    except ValueError:  # more digits than Python converts
        return f"an integer of {value.bit_length() if isinstance(value, int) else 0} bits"


def _preview(value: Any, pieces: list[str], room: int) -> int:
    """Add a value in one line to `pieces`; returns how many characters are left, negative: it did not fit."""
    value = _plain(value)
    if not isinstance(value, dict | list):
        cell = cell_of(value, max(room, 0))
        pieces.append(f'"{cell.text}"' if cell.kind == "text" else cell.text)
        return -1 if cell.is_cut else room - len(cell.text) - 2
    is_object = isinstance(value, dict)
    pieces.append("{" if is_object else "[")
    room -= 2
    between = ""
    for key, member in value.items() if isinstance(value, dict) else enumerate(value):
        if room < 0:
            return room
        name = f"{shortened(text_key(key), CELL)}: " if is_object else ""
        pieces.append(between + name)
        room = _preview(member, pieces, room - len(between) - len(name))
        between = ", "
    if room >= 0:
        pieces.append("}" if is_object else "]")
    return room
