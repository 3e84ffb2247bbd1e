"""What the expressions of computed attributes do with values (spec: schema-and-store §4.3). `expression.py` compiles calls of these.

Everything here takes and gives data: None, booleans, numbers, text, bytes, dates, lists, objects. What is no data raises, and so does work
beyond BUDGET: an expression runs for every record that is read or written, with values that clients chose, so the work of one evaluation is
counted before or while it is done. One unit is about 10 ns: a loop costs 10 for each element, a list 1 for each element, text 1 for each
16 characters. Results do not depend on the process: there are no sets, whose order would.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from typing import Any

from svc.store.values.records import encode_payload

BUDGET = 1_000_000  # units, about 10 ms
MAX_INTEGER_BITS = 4096  # of what is calculated with; what a record holds is limited further
MAX_WIDTH = 1000  # characters to which text is filled up, digits after the point
SPLIT_COST = 25  # for each character that is split by a regular expression, of the forms that take linear time
LOOP_COST = 10
FREE_PARTS = 3  # of what a loop does for each element: `x.a` has two
ELEMENT_COST = 5  # of a list or an object that is looked through
SHOWN_COST = 4  # times that, if it becomes text

_BIG = 1 << MAX_INTEGER_BITS
_SHOWN = frozenset((str, int, float, bool, type(None), datetime, bytes, list, tuple, dict))
_CONTAINERS = frozenset((list, tuple, dict, set, frozenset))
_DIGITS = 13  # a power of 2: bits times bits for one unit
_WORD = 6  # the same of the bits of a long number that is looked through
_SHORT_BITS = 64  # of a number that takes no longer than any other operation
LONG_COST = 50
_CHARACTERS = 4  # a power of 2: characters for one unit
_NARROW, _LONG_PART, _SHORT_TEXT, _LONG_TEXT = 4, 100, 2500, 30_000  # characters at which CPython looks for a text in another way


class _Meter:
    """What is left of the budget of the evaluation that is running; there is one at a time. `spent`: by those before it: `spent - left` grows by what
    evaluations take."""

    __slots__ = ("left", "spent")

    def __init__(self) -> None:
        self.left = BUDGET
        self.spent = 0


meter = _Meter()


def charge(units: int) -> None:
    """Raises ValueError when the budget is used up."""
    meter.left -= units
    if meter.left < 0:
        raise ValueError("the expression does too much")


def charge_for(value: Any) -> Any:
    """Charge for text or a list that came into being; returns it."""
    kind = type(value)
    if kind is str or kind is bytes:
        charge(len(value) >> _CHARACTERS)
    elif kind is list or kind is tuple or kind is dict:
        charge(len(value))
    return value


def charge_whole(value: Any, charge_number: Callable[[Any], None] | None = None) -> Any:
    """Charge for all that lies in a value, before it is compared or shown; returns it. `charge_number`: also for each whole number."""
    kind = type(value)
    if kind is str or kind is bytes:
        charge(len(value) >> _CHARACTERS)
    elif kind is int and charge_number is not None:
        charge_number(value)
    elif kind in _CONTAINERS:
        waiting: list[Any] = [value]
        while waiting:
            found = waiting.pop()
            charge(ELEMENT_COST * len(found))
            for element in found.items() if type(found) is dict else found:
                kind = type(element)
                if kind in _CONTAINERS:
                    waiting.append(element)
                elif kind is str or kind is bytes:
                    charge(len(element) >> _CHARACTERS)
                elif kind is int and charge_number is not None:
                    charge_number(element)
    return value


def _bounded(value: Any) -> Any:
    """A number that is calculated with from here on."""
    if type(value) is int and not -_BIG < value < _BIG:
        raise OverflowError("a number becomes too large")
    return value


def _charge_digits(a: Any, b: Any) -> None:
    """For whole numbers that are multiplied or divided: each digit of one with each of the other, and what the interpreter does for any long number."""
    if type(a) is int and type(b) is int:
        long, short = a.bit_length(), b.bit_length()
        charge((long * short >> _DIGITS) + (LONG_COST + (long + short >> _WORD) if long > _SHORT_BITS or short > _SHORT_BITS else 0))


def _charge_text_of(value: Any) -> None:
    """For a number that becomes text, in decimal: each digit with each other."""
    if type(value) is int:
        _charge_digits(value, value)


# --- operators ---------------------------------------------------------------------------------------------------------------------------


def get(value: Any, name: str) -> Any:
    """`value.name`: None for what is missing, and of nothing.

    >>> get({"a": 1}, "a"), get({}, "a"), get(None, "a")
    (1, None, None)
    """
    if value is None:
        return None
    if type(value) is dict:
        return value.get(name)
    raise TypeError("only objects have attributes")


def add(a: Any, b: Any) -> Any:
    result = a + b
    kind = type(result)
    if kind is str or kind is list or kind is tuple or kind is bytes:
        charge_for(result)
    return result


def multiply(a: Any, b: Any) -> Any:
    if isinstance(a, (str, bytes, list, tuple)):
        a, b = b, a
    if isinstance(b, (str, bytes, list, tuple)):
        count = max(a, 0)
        charge(count * len(b) >> _CHARACTERS if isinstance(b, (str, bytes)) else count * len(b))
    _charge_digits(a, b)
    return _bounded(a * b)


def power(a: Any, b: Any) -> Any:
    """
    >>> meter.left = BUDGET
    >>> power(2, 10), power(4, 0.5), power(2, -1)
    (1024, 2.0, 0.5)
    """
    if isinstance(a, int) and isinstance(b, int) and b > 0 and abs(a) > 1 and a.bit_length() * b > 2 * MAX_INTEGER_BITS:
        raise OverflowError("a number becomes too large")
    result = a**b
    if type(result) is complex:
        raise ValueError("a power has no real value")
    _charge_digits(result, result)
    return _bounded(result)


def modulo(a: Any, b: Any) -> Any:
    """Of numbers: on text it would be formatting."""
    if isinstance(a, (str, bytes)):
        raise TypeError("% needs numbers")
    _charge_digits(a, b)
    return a % b


def floor_divide(a: Any, b: Any) -> Any:
    _charge_digits(a, b)
    return a // b


def divide(a: Any, b: Any) -> Any:
    _charge_digits(a, b)
    return a / b


def contains(item: Any, container: Any) -> bool:
    charge_whole(container)
    if type(item) is str and type(container) is str:
        _charge_search(container, item)
    return item in container


def _charge_search(text: str, part: str) -> None:
    """For looking for a text in another: the interpreter compares at each place, and with long ones does what takes linear time."""
    length, width = len(text), len(part)
    if width > _NARROW and (length >= _LONG_TEXT or (width >= _LONG_PART and length >= _SHORT_TEXT)):
        width = _NARROW
    charge(length * width >> _CHARACTERS)


def loop(values: Any, cost: int = LOOP_COST) -> Sequence[Any]:
    """What `for` and the functions on many values go through. `cost`: of what is done for each."""
    kind = type(values)
    if kind is dict:
        values = list(values)
    elif kind is set or kind is frozenset:
        values = sorted(values, key=encode_payload)
    elif kind is not list and kind is not str and kind is not tuple:
        raise TypeError("only lists, objects and strings have elements")
    charge(cost * len(values) + LOOP_COST)
    return values  # type: ignore[no-any-return]


def distinct(values: Iterable[Any]) -> list[Any]:
    """What Python makes a set of: the different values, in the order of their first occurrence.

    >>> meter.left = BUDGET
    >>> distinct([2, 1, 2])
    [2, 1]
    """
    return list(dict.fromkeys(charge_whole(values)))


def cut(value: Any, start: Any, stop: Any, step: Any) -> Any:
    return charge_for(value[start:stop:step])


def shown(value: Any) -> Any:
    """A value that becomes part of a text: not a set, which has no order, nor a blob, which is no text."""
    if type(value) not in _SHOWN:
        raise TypeError("it cannot be shown")
    before = meter.left
    charge_whole(value, _charge_text_of)
    if type(value) in _CONTAINERS:
        charge((before - meter.left) * SHOWN_COST)
    return value


def formatted(value: Any, specification: str, conversion: int) -> str:
    """What `{value!r:specification}` gives. Done here because the formatting of dates imports, which the expression itself cannot.

    >>> meter.left = BUDGET
    >>> formatted(3.14159, ".2f", -1), formatted("a", ">5", ord("r"))
    ('3.14', "  'a'")
    """
    if conversion != -1:
        value = ascii(value) if conversion == ord("a") else repr(value) if conversion == ord("r") else str(value)
    _charge_text_of(value)
    text = format(value, specification)
    charge(len(text))
    return text


# --- functions ---------------------------------------------------------------------------------------------------------------------------


def _text(value: Any) -> str:
    return charge_for(str(shown(value)))  # type: ignore[no-any-return]


def _integer(value: Any, base: int | None = None) -> Any:
    if type(value) is str:
        charge(len(value))
    if base is None:
        return _bounded(int(value))
    return _bounded(int(value, base))


def _round(value: Any, ndigits: int | None = None) -> Any:
    if ndigits is not None and abs(ndigits) > MAX_WIDTH:
        raise ValueError("too many digits")
    _charge_digits(value, value)
    return round(value, ndigits)


def _values(values: tuple[Any, ...]) -> Sequence[Any]:
    return charge_whole(loop(values[0]) if len(values) == 1 else values)  # type: ignore[no-any-return]


def _ordered(values: Any) -> Any:
    """What is to be compared with one another: each about log2 of their number times."""
    elements = loop(values)
    before = meter.left
    charge_whole(elements)
    charge((before - meter.left) * len(elements).bit_length())
    return elements


def _smallest(*values: Any, **options: Any) -> Any:
    return min(_values(values), **options) if len(values) == 1 else min(_values(values))


def _largest(*values: Any, **options: Any) -> Any:
    return max(_values(values), **options) if len(values) == 1 else max(_values(values))


def _sum(values: Any, start: Any = 0) -> Any:
    """Of numbers: adding up lists or texts takes quadratic time."""
    if not isinstance(start, (int, float)):
        raise TypeError("sum adds numbers")
    return _bounded(sum(loop(values), start))


def _sorted(values: Any, reverse: Any = False) -> list[Any]:
    return sorted(_ordered(values), reverse=bool(reverse))


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "len": len,
    "str": _text,
    "int": _integer,
    "float": float,
    "round": _round,
    "min": _smallest,
    "max": _largest,
    "sum": _sum,
    "abs": abs,
    "sorted": _sorted,
    "any": lambda values: any(loop(values)),
    "all": lambda values: all(loop(values)),
}

KEYWORDS = frozenset(("base", "default", "maxsplit", "ndigits", "reverse", "sep", "start"))  # arguments that may be given by name


# --- methods -----------------------------------------------------------------------------------------------------------------------------


def _replace(text: str, old: str, new: str, count: int = -1) -> str:
    _charge_search(text, old)
    found = text.count(old)
    charge(len(text) + (found if count < 0 else min(found, count)) * len(new) >> _CHARACTERS)
    return text.replace(old, new, count)


def _join(separator: str, parts: Any) -> str:
    parts = loop(parts)
    charge(len(separator) * len(parts) + sum(map(len, parts)) >> _CHARACTERS)
    return separator.join(parts)


def _filled(method: Callable[..., str]) -> Callable[..., str]:
    def fill(text: str, width: int, *fill_character: str) -> str:
        if width > MAX_WIDTH:
            raise ValueError("too wide")
        return method(text, width, *fill_character)

    return fill


def _by_character(method: Callable[..., Any]) -> Callable[..., Any]:
    """Beyond ASCII these look each character up."""

    def call(text: str) -> Any:
        if not text.isascii():
            charge(len(text))
        return method(text)

    return call


def _by_place(method: Callable[..., Any]) -> Callable[..., Any]:
    """These may compare what they are given with the text at each of its places, others take linear time."""

    def call(text: str, *arguments: Any, **options: Any) -> Any:
        for argument in (*arguments, *options.values()):
            if type(argument) is str:
                charge(len(text) * len(argument) >> _CHARACTERS)
        return method(text, *arguments, **options)

    return call


def _searching(method: Callable[..., Any]) -> Callable[..., Any]:
    def call(text: str, *arguments: Any, **options: Any) -> Any:
        for argument in (*arguments, *options.values()):
            if type(argument) is str:
                _charge_search(text, argument)
        return method(text, *arguments, **options)

    return call


def _comparing(method: Callable[..., Any]) -> Callable[..., Any]:
    """Of a list: what it is given is compared with the elements."""

    def call(values: Sequence[Any], *arguments: Any) -> Any:
        return method(charge_whole(values), *arguments)

    return call


_BY_CHARACTER = (
    "capitalize", "casefold", "isalnum", "isalpha", "isdecimal", "isdigit", "islower", "isnumeric", "isspace", "istitle", "isupper", "lower",
    "swapcase", "title", "upper",
)  # fmt: skip
_BY_PLACE = ("lstrip", "rfind", "rindex", "rpartition", "rsplit", "rstrip", "strip")


def _pairs(value: dict[str, Any]) -> list[tuple[str, Any]]:
    charge(ELEMENT_COST * len(value))
    return list(value.items())


_SEARCHING = ("count", "find", "index", "partition", "split")
_TEXT_METHODS = ("endswith", "isascii", "removeprefix", "removesuffix", "splitlines", "startswith")

# Method -> type -> what is called. Methods that change their object are not there.
METHODS: dict[str, dict[type, Callable[..., Any]]] = {
    **{name: {str: getattr(str, name)} for name in _TEXT_METHODS},
    **{name: {str: _by_character(getattr(str, name))} for name in _BY_CHARACTER},
    **{name: {str: _searching(getattr(str, name))} for name in _SEARCHING},
    **{name: {str: _by_place(getattr(str, name))} for name in _BY_PLACE},
    **{name: {str: _filled(getattr(str, name))} for name in ("center", "ljust", "rjust", "zfill")},
    "replace": {str: _replace},
    "join": {str: _join},
    "get": {dict: dict.get},
    "keys": {dict: list},
    "values": {dict: lambda value: list(value.values())},
    "items": {dict: _pairs},
    "copy": {dict: dict.copy, list: list.copy},
}
for _name in ("count", "index"):
    METHODS[_name] |= {kind: _comparing(getattr(kind, _name)) for kind in (list, tuple)}


def method(name: str) -> Callable[..., Any]:
    """The function that calls this method of a value."""
    by_type = METHODS[name]

    def call(value: Any, *arguments: Any, **options: Any) -> Any:
        function = by_type.get(type(value))
        if function is None:
            raise TypeError(f"a {type(value).__name__} has no method {name}")
        charge_for(value)
        for argument in arguments:
            charge_for(argument)
        return charge_for(function(value, *arguments, **options))

    return call


def splitter(split: Callable[[str, int], list[str]]) -> Callable[..., Any]:
    """`re.split` with a pattern; `split`: what `compile_split` makes of it."""

    def call(text: str, maxsplit: int = 0) -> Any:
        charge(SPLIT_COST * len(text))
        return charge_for(split(text, maxsplit))

    return call
