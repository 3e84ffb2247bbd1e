"""Conversions between numbers and texts as SQLite makes them, by SQLite itself: the last digit of a floating-point number may be another one elsewhere."""

from __future__ import annotations

import threading
from typing import Any

import apsw


class _Converter(threading.local):
    """A connection for each thread."""

    def __init__(self) -> None:
        self.execute = apsw.Connection(":memory:").execute


_converter = _Converter()


def text_of_number(value: int | float) -> str:
    """
    >>> text_of_number(5.0), text_of_number(0.5), text_of_number(7)
    ('5.0', '0.5', '7')
    """
    found: str = _converter.execute("SELECT CAST(? AS TEXT)", (value,)).get
    return found


def number_of_text(value: str) -> Any:
    """An integer or a floating-point number. `value`: one that SQLite takes for a number.

    >>> number_of_text("5"), number_of_text(" 2.5e0 ")
    (5, 2.5)
    """
    return _converter.execute("SELECT CAST(? AS NUMERIC)", (value,)).get
