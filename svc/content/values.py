"""Values that handlers return -> values that the encoders know (spec: http §7.2).

Queries find plain values; handlers of applications may return anything a Python programmer would expect to work. What each becomes:

    datetime                    JSON form: ISO 8601 string in UTC with ms; native form: datetime, aware
    date                        JSON form: its ISO string; native form: midnight UTC
    bytes, bytearray, memoryview   bytes
    set, frozenset              JSON form: list; native form: set. In an order that does not depend on the process
    Mapping                     dict
    tuple, iterator, generator, views, any other iterable   list
    dataclass, msgspec.Struct   dict of its fields
    Enum                        its value
    UUID, time, timedelta       string; a timedelta as ISO 8601 duration
    Decimal, Fraction, numbers of other libraries   int if whole, else float
    Blob                        JSON form: http §7.2; native form: its bytes

Anything else is a TypeError: a defect of the handler.
"""

from __future__ import annotations

import dataclasses
import inspect
import numbers
from collections.abc import Callable, Iterable, Mapping, Set
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from itertools import islice
from typing import Any
from uuid import UUID

import msgspec

from svc.errors import BadValue, NotAcceptable
from svc.store.blobs import Blob
from svc.store.values.records import encode_payload, iso_text, to_ms

Form = Callable[[Any], Any]

_encode_json = msgspec.json.Encoder().encode
_JSON_PLAIN: frozenset[type] = frozenset((str, int, float, bool, type(None), bytes))  # msgspec writes bytes as base64 and NaN as null


def make_form(
    plain: frozenset[type],
    leaf: Callable[[Any, Form], Any],
    mapping: Callable[[Mapping[Any, Any], Form], Any],
    key_types: frozenset[type] = frozenset((str,)),
) -> Form:
    """A function that replaces values of types that an encoder does not know, and returns the same object if it has none.

    `plain`: types the encoder knows. `leaf` gives the form of a value that is neither plain nor a dict, list or tuple; `mapping` that of a dict
    with keys of other types than `key_types`. Both are given the function itself. It raises TypeError, and RecursionError.
    """

    # Loops rather than comprehensions, which would take a second frame for each level (until Python 3.12).
    def form(value: Any) -> Any:
        kind = type(value)
        if kind in plain:
            return value
        if kind is dict:
            if not key_types.issuperset(map(type, value)):
                return mapping(value, form)
            if plain.issuperset(map(type, value.values())):
                return value
            members = {}
            for key, member in value.items():
                members[key] = form(member)
            return members
        if kind is list or kind is tuple:
            if plain.issuperset(map(type, value)):
                return value
            elements = []
            for element in value:
                elements.append(form(element))  # noqa: PERF401 - see above
            return elements
        return leaf(value, form)

    return form


def _json_leaf(value: Any, form: Form) -> Any:
    if isinstance(value, datetime):
        return iso_text(to_ms(value))
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, set | frozenset):
        return [form(element) for element in in_order(value)]
    return value.json_form() if isinstance(value, Blob) else form(to_plain(value))


def _json_mapping(value: Mapping[Any, Any], form: Form) -> Any:
    return {text_key(key): form(member) for key, member in value.items()}


def as_datetime(value: date) -> datetime:
    """A date as an aware datetime: midnight UTC; a datetime as it is, in UTC if it has no time zone."""
    if isinstance(value, datetime):
        return value if value.tzinfo is not None else value.replace(tzinfo=UTC)
    return datetime(value.year, value.month, value.day, tzinfo=UTC)


class CannotEncode(TypeError):
    """A value that has no form in a content type, whatever the caller does."""


class NotAwaited(CannotEncode):
    """An awaitable among the values: it has a form when it is awaited."""


def to_plain(value: Any) -> Any:
    """Convert a value of a type that no encoder knows by one step toward a plain type, by the table above. Raises CannotEncode, NotAwaited."""
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, numbers.Number):
        return number(value)
    if isinstance(value, bytearray | memoryview | bytes):
        return bytes(value)
    if isinstance(value, Mapping):
        return dict(value.items())
    if isinstance(value, UUID):
        return str(value)
    if isinstance(value, time):
        return value.isoformat()
    if isinstance(value, timedelta):
        return msgspec.to_builtins(value)
    if isinstance(value, msgspec.Struct):
        return {name: getattr(value, field) for name, field in zip(value.__struct_encode_fields__, value.__struct_fields__, strict=True)}
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    if hasattr(type(value), "keys") and hasattr(type(value), "__getitem__"):  # an object like a mapping: `dict(value)`
        return {name: value[name] for name in value.keys()}  # noqa: SIM118
    if inspect.isawaitable(value) or hasattr(type(value), "__aiter__"):
        raise NotAwaited(f"a value of type {type(value).__qualname__} cannot be encoded before it is awaited")
    if isinstance(value, Iterable) and not isinstance(value, type):
        items = list(islice(value, _MOST_ITEMS + 1))
        if len(items) > _MOST_ITEMS:
            raise CannotEncode(f"{type(value).__qualname__} gives more than {_MOST_ITEMS} items: return it by itself, then it is streamed")
        return items
    raise CannotEncode(f"a value of type {type(value).__qualname__} cannot be encoded")


def number(value: Any) -> int | float:
    """The int or float that a number of any type is. Raises TypeError for complex ones."""
    if isinstance(value, numbers.Integral):
        return int(value)
    if isinstance(value, Decimal):
        # The magnitude is checked first: an int of Decimal("1e999999") would have a million digits.
        if value.is_finite() and value.adjusted() < _MOST_DIGITS and value == value.to_integral_value():
            return int(value)
        return float(value)
    if isinstance(value, numbers.Rational) and value.denominator == 1:
        return int(value.numerator)
    if isinstance(value, numbers.Real):
        return float(value)
    raise CannotEncode(f"a number of type {type(value).__qualname__} cannot be encoded")


_MOST_DIGITS = 300
_MOST_ITEMS = 1_000_000  # of an iterable inside a value: an iterator may have no end


def is_blob(value: Any) -> bool:
    return isinstance(value, Blob)


def in_order(value: Set[Any]) -> list[Any]:
    """The elements of a set in an order that does not depend on the process: that in which it is stored, if it can be."""
    try:
        return sorted(value, key=encode_payload)
    except BadValue:
        return sorted(value, key=lambda element: (type(element).__name__, repr(element)))


def text_key(key: Any) -> str:
    """A key of an object as a string: a string itself, else its JSON without the quotes."""
    if type(key) is str:
        return key
    form = json_form(key)
    return form if type(form) is str else _encode_json(form).decode().strip('"')


def replace_lone_surrogates(text: str) -> str:
    """The string with each lone (unpaired) surrogate replaced by U+FFFD: no encoding of Unicode can represent it."""
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def without_lone_surrogates(value: Any) -> Any:
    """A value in JSON form without lone surrogates in its strings and keys."""
    if isinstance(value, str):
        return replace_lone_surrogates(value)
    if isinstance(value, dict):
        return {without_lone_surrogates(key): without_lone_surrogates(member) for key, member in value.items()}
    return [without_lone_surrogates(element) for element in value] if isinstance(value, list | tuple) else value


def unencodable(value: Any, name: str) -> Exception:
    """The exception for a value that is nested too deeply for an encoder: TypeError if it refers to itself, else NotAcceptable."""
    path: set[int] = set()
    stack: list[tuple[int, Any]] = [(id(value), iter((value,)))]
    while stack:
        for member in stack[-1][1]:
            if isinstance(member, dict | list | tuple | set | frozenset):
                if id(member) in path:
                    return CannotEncode(f"the value refers to itself, so it cannot be encoded as {name}")
                path.add(id(member))
                stack.append((id(member), iter(member.values() if isinstance(member, dict) else member)))
                break
        else:
            path.discard(stack.pop()[0])
    return NotAcceptable(f"The value is nested too deeply for {name}")


json_form = make_form(_JSON_PLAIN, _json_leaf, _json_mapping)
