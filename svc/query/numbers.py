"""Sums, averages, smallest and largest values of a group, taken in a batch at a time.

Sums are exact however the values come: integers as integers, floats as a sum that is rounded once, at the end. So the result does not
depend on the order in which a plan finds the records.
"""

from __future__ import annotations

from datetime import datetime
from fractions import Fraction
from math import fsum
from typing import Any, Protocol

from svc.query.matching import sort_bytes
from svc.store.values.records import MISSING

_FLOATS = 512  # summands, after which they become a few
_EXACT = 1 << 53
_NUMBERS = frozenset((int, float))
_TEXTS = frozenset((str,))
_NO_PLACE = b"\xff"


class Accumulator(Protocol):
    def add(self, values: list[Any]) -> None:
        """Take in the values of some records, MISSING where they have none; of a list each element counts."""

    def result(self) -> Any: ...


class Sum:
    """The sum of the numbers among the values; other values are ignored. 0 without any number."""

    __slots__ = ("_exact", "_floats", "count")

    def __init__(self) -> None:
        self._exact: int | Fraction = 0
        self._floats: list[float] = []
        self.count = 0

    def add(self, values: list[Any]) -> None:
        kinds = set(map(type, values))
        if list in kinds or set in kinds:
            values = flat(values)
            kinds = set(map(type, values))
        if int in kinds:
            integers = values if len(kinds) == 1 else [value for value in values if type(value) is int]
            self._exact += sum(integers)
            self.count += len(integers)
        if float in kinds:
            floats = values if len(kinds) == 1 else [value for value in values if type(value) is float]
            self._floats += floats
            self.count += len(floats)
            if len(self._floats) > _FLOATS:
                self._compress()

    def result(self) -> int | float:
        if not self._floats and type(self._exact) is int:
            return self._exact
        if type(self._exact) is int and -_EXACT <= self._exact <= _EXACT:
            try:
                return plain_number(fsum([*self._floats, self._exact]))  # type: ignore[no-any-return]
            except OverflowError:
                pass
        return _rounded(self.total())

    def total(self) -> int | Fraction:
        """Exactly."""
        if len(self._floats) > 2:
            self._compress()
        return self._exact + sum(map(Fraction, self._floats)) if self._floats else self._exact

    def _compress(self) -> None:
        """The same sum as a few floats: the nearest one, the nearest to what is left, and so on."""
        found: list[float] = []
        try:
            while part := fsum([*self._floats, *[-value for value in found]]):
                found.append(part)
        except OverflowError:
            self._exact += sum(map(Fraction, self._floats))
            found = []
        self._floats = found


class Average(Sum):
    """None of no numbers."""

    __slots__ = ()

    def result(self) -> int | float | None:  # type: ignore[override]
        total = self.total()  # which leaves few floats, or none
        if not self.count:
            return None
        if not self._exact and len(self._floats) == 1:
            return plain_number(self._floats[0] / self.count)  # type: ignore[no-any-return]
        return _rounded(Fraction(total) / self.count)


class Extreme:
    """The first, or the last, of the values in the total order of schema-and-store §10. Null, and what has no place in the order, is ignored;
    None if nothing is left."""

    __slots__ = ("_best", "_code", "_largest")

    def __init__(self, *, largest: bool) -> None:
        self._largest = largest
        self._best: Any = None
        self._code = b""

    def add(self, values: list[Any]) -> None:
        choose = max if self._largest else min
        kinds = set(map(type, values))
        if kinds <= _NUMBERS or kinds == _TEXTS:  # one call for all; a bool is no number
            if values:
                self._offer(choose(values))
            return
        for value in flat(values):
            if value is not None and value is not MISSING:
                self._offer(value)

    def result(self) -> Any:
        return plain_number(self._best)

    def _offer(self, value: Any) -> None:
        code = sort_bytes(value)
        if code == _NO_PLACE:
            return
        if not self._code or (code > self._code if self._largest else code < self._code):
            self._best, self._code = value, code
        elif code == self._code and isinstance(self._best, datetime):
            self._best = value  # equal as a number: shown as one


def flat(values: list[Any]) -> list[Any]:
    """Lists and sets replaced by their elements."""
    return [element for value in values for element in (value if type(value) is list or type(value) is set else (value,))]


def plain_number(value: Any) -> Any:
    """Whole floats as integers, as the store keeps them; anything else as it is."""
    return int(value) if type(value) is float and value.is_integer() and -_EXACT <= value <= _EXACT else value


def _rounded(exact: int | Fraction) -> int | float:
    """The nearest float; beyond the range of floats the nearest integer."""
    if exact == int(exact) and -_EXACT <= exact <= _EXACT:
        return int(exact)
    try:
        return plain_number(float(exact))  # type: ignore[no-any-return]
    except OverflowError:
        return round(exact)
