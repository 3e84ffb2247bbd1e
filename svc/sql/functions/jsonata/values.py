"""The values of expressions, and what one evaluation may do.

Values are those of JSON, and functions. Beside them there are

    UNDEFINED       what there is not: a member that an object does not have
    Sequence        the result of a path: one value alone stands for itself, none is UNDEFINED, and sequences within one are a part of it
    KeptSequence    the same, but one value stays a list: of a path with `[]`
    ConsArray       a list that a path makes for each of its values: it is no part of the sequence around it
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from svc.errors import QueryTooLarge
from svc.sql.functions.meter import WorkMeter

BASE_UNITS = 500_000  # of an evaluation, and one for each byte of what it is given: at most 50 MB, and 0.1 to 0.5 s
MAX_DEPTH = 200  # of a value
_PAUSE = 500  # units, after which the clock is asked
_CHARACTERS = 4  # a power of 2: characters for one unit


class Fault(Exception):
    """What is wrong with an expression, or with what it does with a value. `position`: characters from 0, -1 if it is not in its text."""

    def __init__(self, message: str, position: int = -1) -> None:
        super().__init__(message)
        self.position = position


class _Undefined:
    __slots__ = ()

    def __bool__(self) -> bool:
        return False


UNDEFINED: Final = _Undefined()


class Sequence(list[Any]):
    __slots__ = ()


class KeptSequence(Sequence):
    __slots__ = ()


class ConsArray(list[Any]):
    __slots__ = ()


class Callback:
    """A function as a value. `arity`: how many of the arguments it is offered it wants."""

    __slots__ = ("arity", "call")

    def __init__(self, call: Callable[..., Any], arity: int) -> None:
        self.call = call
        self.arity = arity


class Work:
    """What is left of the units of one evaluation: one is an operation, an element or 16 characters that come into being.

    Values may share parts, so that they are much larger when they are written or compared than they are: whoever looks through one counts as well.
    """

    __slots__ = ("_left", "_mark", "_meter", "_most", "now_ms")

    def __init__(self, meter: WorkMeter, size: int) -> None:
        self._meter = meter
        self._left = self._most = BASE_UNITS + size
        self._mark = self._left - _PAUSE
        self.now_ms = meter.now_ms

    def spend(self, units: int) -> None:
        self._left -= units
        if self._left < self._mark:
            self._mark = self._left - _PAUSE
            if self._left < 0:
                raise QueryTooLarge(
                    f"a search json expression does too much with one value: more than {self._most} operations or elements", budget="rows"
                )
            self._meter.check_time()

    def expect(self, seconds: float) -> None:
        """Before what takes this long, and cannot be interrupted."""
        self._meter.expect(seconds)

    def spend_text(self, length: int) -> None:
        """Before a text comes into being."""
        self.spend(length >> _CHARACTERS)


def unwrapped(result: Any) -> Any:
    """What a result stands for."""
    if isinstance(result, Sequence):
        if not result:
            return UNDEFINED
        if len(result) == 1 and type(result) is Sequence:
            return result[0]
    return result


def listed(value: Any) -> list[Any]:
    """A value as a list: UNDEFINED is none."""
    if isinstance(value, list):
        return value
    return [] if value is UNDEFINED else [value]


def appended(first: Any, second: Any) -> Any:
    if first is UNDEFINED:
        return second
    if second is UNDEFINED:
        return first
    return [*listed(first), *listed(second)]


def is_number(value: Any) -> bool:
    return type(value) is int or type(value) is float


def truth(value: Any, work: Work) -> bool:
    """Of a list: whether any element is true. Functions are not."""
    if isinstance(value, list):
        work.spend(len(value) + 1)
        return any(truth(element, work) for element in value)
    return bool(value) and type(value) is not Callback


def equal(a: Any, b: Any, work: Work, depth: int = 0) -> bool:
    """Numbers by value, a boolean equals no number, and objects whatever the order of their members is."""
    work.spend(1)
    if isinstance(a, list):
        if not isinstance(b, list) or len(a) != len(b):
            return False
        return all(equal(x, y, work, deeper(depth)) for x, y in zip(a, b, strict=True))
    if type(a) is dict:
        if type(b) is not dict or a.keys() != b.keys():
            return False
        return all(equal(value, b[name], work, deeper(depth)) for name, value in a.items())
    if type(a) is str and type(b) is str:
        work.spend_text(len(a))
    return (type(a) is type(b) or (is_number(a) and is_number(b))) and a == b


def deeper(depth: int) -> int:
    if depth >= MAX_DEPTH:
        raise Fault(f"a value is nested deeper than {MAX_DEPTH} levels")
    return depth + 1


def plain(value: Any, work: Work, depth: int = 0) -> Any:
    """A value of JSON: a copy, in which nothing is shared, without functions and what is undefined; None for these."""
    work.spend(1)
    if isinstance(value, list):
        return [plain(element, work, deeper(depth)) for element in value]
    if type(value) is dict:
        work.spend(3 + len(value))
        return {name: plain(member, work, deeper(depth)) for name, member in value.items()}
    if type(value) is str:
        work.spend_text(len(value))
        return value
    return value if type(value) in _SCALARS else None


_SCALARS = frozenset((int, float, bool, bytes))


def type_name(value: Any) -> str:
    """As messages and `$type` say it."""
    if value is UNDEFINED:
        return "undefined"
    if isinstance(value, list):
        return "array"
    return _TYPE_NAMES.get(type(value), "object")


_TYPE_NAMES = {
    type(None): "null",
    bool: "boolean",
    int: "number",
    float: "number",
    str: "string",
    bytes: "string",
    dict: "object",
    Callback: "function",
}
