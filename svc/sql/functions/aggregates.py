"""Aggregates that SQLite does not have (spec: sql §11.4). Each is a window function as well: it can give up the value that it took first.

What they hold is counted by the meter. Null is no value, except for ARRAY; the result of no values is null.
"""

from __future__ import annotations

from array import array
from collections import deque
from collections.abc import Callable, Sequence
from itertools import islice
from struct import Struct
from sys import getsizeof
from typing import Any

from svc.content.json_type import decode_json, encode_json, encode_plain
from svc.errors import BadBody, QueryTooLarge
from svc.sql.functions.exact import plain_value
from svc.sql.functions.function import Function, OwnFunction, Scalar, refused
from svc.sql.functions.meter import WorkMeter
from svc.store.values.records import decode_payload_json, encode_payload

_PLACE = 8  # bytes of a reference
_ENTRY = 100  # of a dict
_EXACT = 2**53
_BATCH = 5000  # values that are encoded at a time: about a millisecond
_SORTED = 20_000  # numbers that are sorted as a whole: no other thread runs meanwhile
_SAMPLE = 1000
_array_header = Struct(">BI").pack  # MessagePack, 32 bits


class ArrayAggregate:
    """The values of a group, exact faces, in the order in which they come."""

    __slots__ = ("_encode", "_meter", "_values")

    def __init__(self, meter: WorkMeter, encode: Callable[[deque[Any], WorkMeter], Any]) -> None:
        self._meter = meter
        self._encode = encode
        self._values: deque[Any] = deque()

    def step(self, face: Any) -> None:
        self._values.append(face)
        try:
            self._meter.hold(getsizeof(face) + _PLACE)
        except QueryTooLarge:
            self._values.clear()  # or `final`, which is called even so, would encode them
            raise

    def inverse(self, face: Any) -> None:
        self._values.popleft()
        self._meter.hold(-getsizeof(face) - _PLACE)

    def value(self) -> Any:
        return self._encode(self._values, self._meter) if self._values else None

    def final(self) -> Any:
        result = self.value()
        self._meter.hold(-sum(map(getsizeof, self._values)) - _PLACE * len(self._values))
        return result


def json_array(faces: deque[Any], meter: WorkMeter) -> str:
    def encode(batch: tuple[Any, ...]) -> bytes:
        return encode_plain([decode_payload_json(face) if type(face) is bytes else face for face in batch])[1:-1]

    return f"[{b','.join(_encoded(faces, meter, encode)).decode()}]"


def exact_array(faces: deque[Any], meter: WorkMeter) -> bytes:
    def encode(batch: tuple[Any, ...]) -> bytes:
        return b"".join([face if type(face) is bytes else encode_payload(face) for face in batch])

    return b"".join([_array_header(0xDD, len(faces)), *_encoded(faces, meter, encode)])


def _encoded(faces: deque[Any], meter: WorkMeter, encode: Callable[[tuple[Any, ...]], bytes]) -> list[bytes]:
    """In batches, between which other threads may run. Raises QueryTooLarge for what is longer than a value of SQLite."""
    rest = iter(faces)
    size = 0
    pieces = []
    while batch := tuple(islice(rest, _BATCH)):
        meter.check_time()
        pieces.append(encode(batch))
        size += len(pieces[-1])
        meter.check_length(size)
    return pieces


def _distinct(face: Any, meter: WorkMeter) -> list[Any] | None:
    """The different elements of a list, in the order of their first occurrence; of a value that is no list, that one."""
    meter.admit(len(face) if type(face) is bytes or type(face) is str else 0)
    value = plain_value(face)
    if type(value) is str:
        try:
            value = decode_json(value.encode())
        except BadBody:
            pass
    if value is None:
        return None
    elements = value if type(value) is list else sorted(value, key=encode_payload) if type(value) is set else [value]
    found: dict[bytes, Any] = {}
    for element in elements:
        found.setdefault(encode_payload(element), element)
    return list(found.values())


def _distinct_json(meter: WorkMeter) -> Scalar:
    def distinct_json(face: Any) -> str | None:
        elements = _distinct(face, meter)
        return None if elements is None else encode_json(elements).decode()

    return distinct_json


def _distinct_exact(meter: WorkMeter) -> Scalar:
    def distinct_exact(face: Any) -> bytes | None:
        elements = _distinct(face, meter)
        return None if elements is None else encode_payload(elements)

    return distinct_exact


class ModeAggregate:
    """The value that is most frequent; of several the first in SQLite's order: numbers, text, BLOBs."""

    __slots__ = ("_counts", "_meter")

    def __init__(self, meter: WorkMeter) -> None:
        self._meter = meter
        self._counts: dict[Any, int] = {}

    def step(self, value: Any) -> None:
        if value is None:
            return
        count = self._counts.get(value)
        if count is None:
            self._meter.hold(getsizeof(value) + _ENTRY)
            count = 0
        self._counts[value] = count + 1

    def inverse(self, value: Any) -> None:
        if value is None:
            return
        count = self._counts[value]
        if count > 1:
            self._counts[value] = count - 1
        else:
            del self._counts[value]
            self._meter.hold(-getsizeof(value) - _ENTRY)

    def value(self) -> Any:
        self._meter.check_time()
        if not self._counts:
            return None
        most = max(self._counts.values())
        return min((value for value, count in self._counts.items() if count == most), key=_sort_key)

    def final(self) -> Any:
        result = self.value()
        self._meter.hold(-sum(map(getsizeof, self._counts)) - _ENTRY * len(self._counts))
        return result


def _sort_key(value: Any) -> tuple[int, Any]:
    return (1 if type(value) is str else 2 if type(value) is bytes else 0, value)


class NumbersAggregate:
    """Numbers, of which `compute` makes the result."""

    __slots__ = ("_compute", "_fractions", "_meter", "_name", "_numbers", "_start")

    def __init__(self, meter: WorkMeter, name: str, compute: Callable[[Sequence[float], WorkMeter], float]) -> None:
        self._meter = meter
        self._name = name
        self._compute = compute
        self._numbers = array("d")
        self._start = 0  # before it are those that have been given up
        self._fractions = 0  # numbers that are not of the type of integers

    def step(self, value: Any) -> None:
        if value is None:
            return
        if type(value) is not int:
            if type(value) is not float:
                raise refused(f"{self._name} needs numbers", value)
            self._fractions += 1
        self._meter.hold(_PLACE)
        self._numbers.append(value)

    def inverse(self, value: Any) -> None:
        if value is None:
            return
        if type(value) is not int:
            self._fractions -= 1
        self._meter.hold(-_PLACE)
        self._start += 1
        if self._start > len(self._numbers) // 2:
            del self._numbers[: self._start]
            self._start = 0

    def value(self) -> int | float | None:
        self._meter.check_time()
        numbers = self._numbers[self._start :] if self._start else self._numbers
        if not numbers:
            return None
        result = self._compute(numbers, self._meter)
        if result - result != 0.0:  # beyond the range of numbers
            return None
        return int(result) if not self._fractions and result.is_integer() and abs(result) <= _EXACT else result

    def final(self) -> int | float | None:
        result = self.value()
        self._meter.hold(-_PLACE * (len(self._numbers) - self._start))
        return result


def product(numbers: Sequence[float], meter: WorkMeter) -> float:
    result = 1.0
    for number in numbers:
        result *= number
    return result


def median_deviation(numbers: Sequence[float], meter: WorkMeter) -> float:
    """The median of the distances from the median."""
    middle = median(numbers, meter)
    return median([abs(number - middle) for number in numbers], meter)


def median(numbers: Sequence[float], meter: WorkMeter) -> float:
    half, rest = divmod(len(numbers), 2)
    upper = _selected(numbers, half, meter)
    return upper if rest else _selected(numbers, half - 1, meter) / 2 + upper / 2


def _selected(numbers: Sequence[float], place: int, meter: WorkMeter) -> float:
    """The number that would be at this place if they were sorted."""
    while len(numbers) > _SORTED:
        meter.check_time()
        sample = sorted(numbers[:: len(numbers) // _SAMPLE])
        pivot = sample[len(sample) * place // len(numbers)]
        below = [number for number in numbers if number < pivot]
        if place < len(below):
            numbers = below
            continue
        place -= len(below)
        above = [number for number in numbers if number > pivot]
        equal = len(numbers) - len(below) - len(above)
        if place < equal:
            return pivot
        place -= equal
        numbers = above
    return sorted(numbers)[place]


def _array(encode: Callable[[deque[Any], WorkMeter], Any]) -> Callable[[WorkMeter], Scalar]:
    return lambda meter: lambda: ArrayAggregate(meter, encode)


def _numbers(name: str, compute: Callable[[Sequence[float], WorkMeter], float]) -> Callable[[WorkMeter], Scalar]:
    return lambda meter: lambda: NumbersAggregate(meter, name, compute)


AGGREGATE_FUNCTIONS = (
    OwnFunction(
        Function("ARRAY", 1, 1, "aggregate", "json", takes_exact=(0,), summary="a list of the values, nulls among them"),
        _array(json_array),
        _array(exact_array),
    ),
    OwnFunction(
        Function("DISTINCT_ARRAY", 1, 1, result="json", takes_exact=(0,), summary="the different elements of a list: `DISTINCT_ARRAY(ARRAY(x))`"),
        _distinct_json,
        _distinct_exact,
    ),
    OwnFunction(
        Function("MODE", 1, 1, "aggregate", "first", summary="the most frequent value, the smallest of several", has_bytes=True),
        lambda meter: lambda: ModeAggregate(meter),
    ),
    OwnFunction(Function("PROD", 1, 1, "aggregate", summary="the product of numbers"), _numbers("PROD", product)),
    OwnFunction(Function("MAD", 1, 1, "aggregate", summary="the median absolute deviation"), _numbers("MAD", median_deviation)),
)  # fmt: skip
