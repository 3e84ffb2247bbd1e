"""The functions of expressions: `$count(x)`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cmp_to_key
from math import ceil, floor, sqrt
from typing import Any

from msgspec.json import format as json_format

from svc.content.json_type import encode_json
from svc.sql.functions.date_formats import iso_utc
from svc.sql.functions.dates import MAX_MS, ms_of
from svc.sql.functions.function import number_of
from svc.sql.functions.jsonata.operators import as_number, order
from svc.sql.functions.jsonata.values import (
    UNDEFINED,
    Callback,
    Fault,
    Sequence,
    Work,
    appended,
    is_number,
    listed,
    plain,
    truth,
    type_name,
    unwrapped,
)
from svc.sql.functions.jsonata.writing import text_of
from svc.sql.functions.patterns import Pattern

_MATCH = 9  # a power of 2: bytes that are searched again for each match, for one unit
_INDENT = 20  # times the length of JSON text that it has with indents, in general


class Builtin:
    """`low`, `high`: how many arguments it takes, high None: any. `takes_context`: the value that the expression is applied to is its first, if one is missing.
    `gets_undefined`: it is called for what is undefined, others give that back."""

    __slots__ = ("_call", "_gets_undefined", "_high", "_low", "_name", "_takes_context")

    def __init__(self, name: str, call: Callable[..., Any], low: int, high: int | None, takes_context: bool, gets_undefined: bool) -> None:
        self._name = name
        self._call = call
        self._low = low
        self._high = high
        self._takes_context = takes_context
        self._gets_undefined = gets_undefined

    def invoke(self, work: Work, context: Any, args: list[Any]) -> Any:
        if len(args) < self._low and self._takes_context:
            args = [context, *args]
        if len(args) < self._low or (self._high is not None and len(args) > self._high):
            raise Fault(f"${self._name} takes {_count(self._low, self._high)}, not {len(args)}")
        work.spend(1)
        if args and args[0] is UNDEFINED and not self._gets_undefined:
            return UNDEFINED
        try:
            result = self._call(work, *args)
        except _WrongType as error:
            raise Fault(f"${self._name} needs {error.args[0]}") from None
        return unwrapped(result)

    def callback(self, work: Work) -> Callback:
        return Callback(lambda *args: self.invoke(work, UNDEFINED, list(args)), max(1, self._low))


class _WrongType(Exception):
    pass


def _count(low: int, high: int | None) -> str:
    if high is None:
        return f"at least {low} arguments"
    return f"{low} argument{'s' if low != 1 else ''}" if low == high else f"{low} to {high} arguments"


LIBRARY: dict[str, Builtin] = {}


def _builtin(
    low: int, high: int | None = 0, *, context: bool = False, undefined: bool = False
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """A function of its name, which takes `low` arguments, or up to `high`."""

    def add(call: Callable[..., Any]) -> Callable[..., Any]:
        words = call.__name__.strip("_").split("_")
        name = words[0] + "".join([word.title() for word in words[1:]])
        LIBRARY[name] = Builtin(name, call, low, low if high == 0 else high, context, undefined)
        return call

    return add


def _text(value: Any) -> str:
    if type(value) is not str:
        raise _WrongType(f"a string, not a value of type {type_name(value)}")
    return value


def _number(value: Any) -> int | float:
    if not is_number(value):
        raise _WrongType(f"a number, not a value of type {type_name(value)}")
    return value  # type: ignore[no-any-return]


def _integer(value: Any) -> int:
    return floor(_number(value))


def _function(value: Any) -> Callback:
    if type(value) is not Callback:
        raise _WrongType(f"a function, not a value of type {type_name(value)}")
    return value


def _numbers(value: Any, work: Work) -> list[Any]:
    elements = listed(value)
    work.spend(len(elements))
    for element in elements:
        _number(element)
    return elements


# --- text ----------------------------------------------------------------------------------------------------------------------------------


@_builtin(1, 2, context=True)
def _string(work: Work, value: Any, is_pretty: Any = False) -> str:
    text = text_of(value, work)
    if is_pretty is True and (isinstance(value, list) or type(value) is dict):
        work.spend(len(text) * _INDENT >> 4)
        pretty: str = json_format(text, indent=2)
        return pretty
    return text


@_builtin(1, context=True)
def _length(work: Work, value: Any) -> int:
    return len(_text(value))


@_builtin(2, 3, context=True)
def _substring(work: Work, value: Any, start: Any, length: Any = UNDEFINED) -> str:
    text, first = _text(value), _integer(start)
    if first < 0:
        first = max(0, first + len(text))
    end = len(text) if length is UNDEFINED else first + max(0, _integer(length))
    work.spend_text(max(0, min(end, len(text)) - first))
    return text[first:end]


@_builtin(2, context=True)
def _substring_before(work: Work, value: Any, mark: Any) -> str:
    text = _text(value)
    work.spend_text(len(text))
    return text[: text.index(mark)] if _text(mark) and mark in text else text if mark else ""


@_builtin(2, context=True)
def _substring_after(work: Work, value: Any, mark: Any) -> str:
    text = _text(value)
    work.spend_text(len(text))
    if not _text(mark):
        return text
    _, found, after = text.partition(mark)
    return after if found else text


@_builtin(1, context=True)
def _uppercase(work: Work, value: Any) -> str:
    work.spend(len(_text(value)) >> 1)
    return _text(value).upper()


@_builtin(1, context=True)
def _lowercase(work: Work, value: Any) -> str:
    work.spend(len(_text(value)) >> 1)
    return _text(value).lower()


@_builtin(1, context=True)
def _trim(work: Work, value: Any) -> str:
    """Without blanks at both ends, and with one for several within."""
    work.spend(len(_text(value)) >> 1)
    return " ".join(_text(value).split())


@_builtin(2, 3, context=True)
def _pad(work: Work, value: Any, width: Any, fill: Any = " ") -> str:
    text, size = _text(value), _integer(width)
    missing = abs(size) - len(text)
    if missing <= 0:
        return text
    work.spend_text(missing)
    filling = _text(fill) or " "
    padding = (filling * (missing // len(filling) + 1))[:missing]
    return text + padding if size > 0 else padding + text


@_builtin(2, context=True)
def _contains(work: Work, value: Any, part: Any) -> bool:
    text = _text(value)
    if type(part) is Pattern:
        return next(_matches(text, part, work), None) is not None
    work.spend(len(text) >> 2)
    return _text(part) in text


@_builtin(2, 3, context=True)
def _split(work: Work, value: Any, separator: Any, limit: Any = UNDEFINED) -> list[str]:
    text = _text(value)
    if type(separator) is Pattern:
        parts, start = [], 0
        for found in _matches(text, separator, work):
            if found.end() > found.start():
                parts.append(text[start : found.start()])
                start = found.end()
        parts.append(text[start:])
    elif _text(separator):
        work.spend(len(text) >> 2)
        work.spend(text.count(separator))
        parts = text.split(separator)
    else:
        work.spend(len(text))
        parts = list(text)
    if limit is UNDEFINED:
        return parts
    if _number(limit) < 0:
        raise _WrongType("a limit that is not negative")
    return parts[: _integer(limit)]


@_builtin(1, 2)
def _join(work: Work, values: Any, separator: Any = "") -> str:
    texts = [_text(value) for value in listed(values)]
    work.spend_text(sum(map(len, texts)) + len(_text(separator)) * len(texts))
    work.spend(len(texts))
    return _text(separator).join(texts)


@_builtin(2, 3, context=True)
def _match(work: Work, value: Any, pattern: Any, limit: Any = UNDEFINED) -> Any:
    if type(pattern) is not Pattern:
        raise _WrongType("a regular expression")
    text = _text(value)
    most = len(text) + 1 if limit is UNDEFINED else _integer(limit)
    found = Sequence()
    for match in _matches(text, pattern, work):
        if len(found) >= most:
            break
        found.append({"match": match.group(), "index": match.start(), "groups": [group or "" for group in match.groups()]})
    return found


@_builtin(3, 4, context=True)
def _replace(work: Work, value: Any, old: Any, new: Any, limit: Any = UNDEFINED) -> str:
    text = _text(value)
    most = -1 if limit is UNDEFINED else _integer(limit)
    if type(old) is Pattern:
        return _replaced(work, text, old, new, len(text) + 1 if most < 0 else most)
    if not _text(old):
        raise _WrongType("a string that is not empty to be replaced")
    count = text.count(old)
    count = count if most < 0 else min(count, most)
    work.spend(len(text) >> 2)
    work.spend_text(max(0, count * (len(_text(new)) - len(old))))
    return text.replace(old, new, count)


def _replaced(work: Work, text: str, pattern: Pattern, new: Any, most: int) -> str:
    parts: list[str] = []
    start = 0
    for count, match in enumerate(_matches(text, pattern, work)):
        if count >= most:
            break
        if type(new) is Callback:
            groups = [group or "" for group in match.groups()]
            by = _text(new.call({"match": match.group(), "start": match.start(), "end": match.end(), "groups": groups}))
        else:
            by = _with_groups(_text(new), match)
        work.spend_text(len(by))
        parts += (text[start : match.start()], by)
        start = match.end()
    return "".join([*parts, text[start:]])


def _with_groups(template: str, match: Any) -> str:
    """`$1` is a group, `$0` the match, `$$` a dollar sign."""
    if "$" not in template:
        return template
    parts, rest = [], template
    while True:
        before, found, rest = rest.partition("$")
        parts.append(before)
        if not found:
            return "".join(parts)
        if rest[:1] == "$":
            parts.append("$")
            rest = rest[1:]
        elif rest[:1].isdecimal() and rest[:1].isascii():
            group = int(rest[0])
            parts.append((match.group(group) or "") if group <= len(match.groups()) else "")
            rest = rest[1:]
        else:
            parts.append("$")


def _matches(text: str, pattern: Pattern, work: Work) -> Iterator[Any]:
    size = len(text)
    work.spend(size >> 2)
    work.expect(pattern.step * 4 * size)
    for match in pattern.compiled.finditer(text):
        work.spend(5 + len(match.groups()) + (size - match.end() >> _MATCH))
        yield match


# --- numbers -------------------------------------------------------------------------------------------------------------------------------


@_builtin(1, context=True)
def _number_(work: Work, value: Any) -> int | float:
    if type(value) is bool:
        return int(value)
    found = number_of(value)
    if found is None:
        raise _WrongType("a number, a boolean or the text of a number")
    return as_number(lambda: found)


@_builtin(1, context=True)
def _abs(work: Work, value: Any) -> int | float:
    return abs(_number(value))


@_builtin(1, context=True)
def _floor(work: Work, value: Any) -> int:
    return floor(_number(value))


@_builtin(1, context=True)
def _ceil(work: Work, value: Any) -> int:
    return ceil(_number(value))


@_builtin(1, 2, context=True)
def _round(work: Work, value: Any, places: Any = 0) -> int | float:
    """Halves to the even neighbour."""
    found = _number(value)
    digits = max(-400, min(400, _integer(places)))
    return as_number(lambda: round(found, digits))


@_builtin(2, context=True)
def _power(work: Work, base: Any, exponent: Any) -> int | float:
    a, b = _number(base), _number(exponent)
    if type(a) is int and type(b) is int and (b < 0 or a.bit_length() * b > 1000):
        a = float(a)
    return as_number(lambda: a**b)


@_builtin(1, context=True)
def _sqrt(work: Work, value: Any) -> int | float:
    found = _number(value)
    return as_number(lambda: sqrt(found))


@_builtin(1)
def _sum(work: Work, values: Any) -> int | float:
    numbers = _numbers(values, work)
    return as_number(lambda: sum(numbers))


@_builtin(1)
def _max(work: Work, values: Any) -> Any:
    return max(_numbers(values, work), default=UNDEFINED)


@_builtin(1)
def _min(work: Work, values: Any) -> Any:
    return min(_numbers(values, work), default=UNDEFINED)


@_builtin(1)
def _average(work: Work, values: Any) -> Any:
    numbers = _numbers(values, work)
    return as_number(lambda: sum(numbers) / len(numbers)) if numbers else UNDEFINED


# --- booleans and types --------------------------------------------------------------------------------------------------------------------


@_builtin(1, context=True)
def _boolean(work: Work, value: Any) -> bool:
    return truth(value, work)


@_builtin(1, context=True)
def _not(work: Work, value: Any) -> bool:
    return not truth(value, work)


@_builtin(1, undefined=True)
def _exists(work: Work, value: Any) -> bool:
    return value is not UNDEFINED


@_builtin(1)
def _type(work: Work, value: Any) -> str:
    return type_name(value)


# --- lists ---------------------------------------------------------------------------------------------------------------------------------


@_builtin(1, undefined=True)
def _count_(work: Work, values: Any) -> int:
    return len(listed(values))


@_builtin(2, undefined=True)
def _append(work: Work, first: Any, second: Any) -> Any:
    work.spend(len(listed(first)) + len(listed(second)))
    return appended(first, second)


@_builtin(1)
def _reverse(work: Work, values: Any) -> list[Any]:
    work.spend(len(listed(values)))
    return listed(values)[::-1]


@_builtin(1, 2)
def _sort(work: Work, values: Any, comes_after: Any = UNDEFINED) -> list[Any]:
    elements = listed(values)
    work.spend(len(elements) * len(elements).bit_length() >> 2)
    if comes_after is UNDEFINED:
        return sorted(elements, key=cmp_to_key(order))
    call = _function(comes_after).call
    return sorted(elements, key=cmp_to_key(lambda a, b: 1 if truth(call(a, b), work) else -1 if truth(call(b, a), work) else 0))


@_builtin(1)
def _distinct(work: Work, values: Any) -> Any:
    if not isinstance(values, list):
        return values
    found: dict[Any, Any] = {}
    for element in values:
        found.setdefault(_key(element, work), element)
    return Sequence(found.values()) if isinstance(values, Sequence) else list(found.values())


def _key(value: Any, work: Work) -> Any:
    """Equal for values that are."""
    work.spend(1)
    if isinstance(value, list) or type(value) is dict:
        return encode_json(_in_order(plain(value, work)))
    return type(value) is bool, value


def _in_order(value: Any) -> Any:
    if type(value) is dict:
        return {name: _in_order(value[name]) for name in sorted(value)}
    return [_in_order(element) for element in value] if type(value) is list else value


@_builtin(1, None)
def _zip(work: Work, *lists: Any) -> list[Any]:
    rows = [list(row) for row in zip(*[listed(each) for each in lists], strict=False)]
    work.spend(len(rows) * (len(lists) + 1))
    return rows


# --- objects -------------------------------------------------------------------------------------------------------------------------------


@_builtin(1, context=True)
def _keys(work: Work, value: Any) -> Any:
    names: dict[str, None] = {}
    for each in listed(value):
        if type(each) is dict:
            work.spend(len(each))
            names.update(dict.fromkeys(each))
    return Sequence(names)


@_builtin(2, context=True)
def _lookup(work: Work, value: Any, name: Any) -> Any:
    found = Sequence()
    for each in listed(value):
        work.spend(1)
        member = (
            each.get(_text(name), UNDEFINED) if type(each) is dict else _lookup(work, each, name) if isinstance(each, list) else UNDEFINED
        )
        if not isinstance(value, list):
            return member
        if member is not UNDEFINED:
            found += listed(member)
    return found


@_builtin(1, context=True)
def _spread(work: Work, value: Any) -> Any:
    objects = listed(value)
    if not all(type(each) is dict for each in objects):
        return value
    work.spend(sum(map(len, objects)) * 4)
    return Sequence({name: member} for each in objects for name, member in each.items())


@_builtin(1)
def _merge(work: Work, values: Any) -> dict[str, Any]:
    merged: dict[str, Any] = {}
    for each in listed(values):
        if type(each) is not dict:
            raise _WrongType(f"objects, not a value of type {type_name(each)}")
        work.spend(len(each) + 1)
        merged.update(each)
    return merged


@_builtin(1, 2)
def _each(work: Work, value: Any, function: Any = UNDEFINED) -> Any:
    if type(value) is not dict:
        raise _WrongType(f"an object, not a value of type {type_name(value)}")
    return _defined([_offered(_function(function), member, name, value) for name, member in value.items()])


@_builtin(2, context=True)
def _sift(work: Work, value: Any, function: Any) -> Any:
    if type(value) is not dict:
        raise _WrongType(f"an object, not a value of type {type_name(value)}")
    work.spend(len(value))
    return {name: member for name, member in value.items() if truth(_offered(_function(function), member, name, value), work)} or UNDEFINED


# --- functions of functions ----------------------------------------------------------------------------------------------------------------


def _offered(function: Callback, *args: Any) -> Any:
    return function.call(*args[: function.arity])


def _defined(values: list[Any]) -> Sequence:
    return Sequence([value for value in values if value is not UNDEFINED])


@_builtin(2)
def _map(work: Work, values: Any, function: Any) -> Any:
    elements = listed(values)
    work.spend(len(elements))
    call = _function(function)
    return _defined([_offered(call, element, number, elements) for number, element in enumerate(elements)])


@_builtin(2)
def _filter(work: Work, values: Any, function: Any) -> Any:
    elements = listed(values)
    work.spend(len(elements))
    call = _function(function)
    return Sequence([element for number, element in enumerate(elements) if truth(_offered(call, element, number, elements), work)])


@_builtin(1, 2)
def _single(work: Work, values: Any, function: Any = UNDEFINED) -> Any:
    found = listed(values if function is UNDEFINED else _filter(work, values, function))
    if len(found) != 1:
        raise _WrongType(f"exactly one match, not {len(found)}")
    return found[0]


@_builtin(2, 3)
def _reduce(work: Work, values: Any, function: Any, start: Any = UNDEFINED) -> Any:
    elements = listed(values)
    call = _function(function)
    if call.arity < 2:
        raise _WrongType("a function of two arguments")
    result = start
    for number, element in enumerate(elements):
        work.spend(1)
        result = element if number == 0 and start is UNDEFINED else _offered(call, result, element, number, elements)
    return result


# --- time ----------------------------------------------------------------------------------------------------------------------------------


@_builtin(0, undefined=True)
def _now(work: Work) -> str:
    """The time of the statement."""
    return iso_utc(work.now_ms)


@_builtin(0, undefined=True)
def _millis(work: Work) -> int:
    return work.now_ms


@_builtin(1, context=True)
def _from_millis(work: Work, value: Any) -> str:
    if not -MAX_MS <= _number(value) <= MAX_MS:
        raise _WrongType("a time")
    return iso_utc(int(value))


@_builtin(1, context=True)
def _to_millis(work: Work, value: Any) -> Any:
    found = ms_of(_text(value))
    return UNDEFINED if found is None else found
