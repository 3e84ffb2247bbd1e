"""Values of SQL as values of attributes (spec: sql §5).

SQL has no booleans, dates, lists and objects of its own. For an attribute of such a type 1 and 0 are booleans, JSON text is what it says; for one of numbers
or text, booleans and dates are what SQL computes with. Everything else is left to the validator of the table, as for JSON: ISO text for dates, base64 for
bytes given as text, digits for integers beyond 64 bits.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any, Final

import msgspec

from svc.content.json_type import decode_json
from svc.content.unchanged import keep_json
from svc.errors import BadBody
from svc.sql.nodes import Expression, Literal, Parameter, Unary
from svc.store import Blob
from svc.store.schema import SCALAR_TYPES, Attribute
from svc.store.values.records import iso_text, to_ms
from svc.store.values.validation import MAX_DEPTH

Convert = Callable[[Any], Any]

NO_CONSTANT: Final = msgspec.UNSET
_NESTED = frozenset((list, dict))
_BOOLEANS = {"true": True, "false": False}


def converter_of(attribute: Attribute | None) -> Convert | None:
    """What a value has to go through before it is validated; None: nothing."""
    if attribute is None:
        return None
    if attribute.elements or attribute.type not in SCALAR_TYPES:
        return _from_json
    return _CONVERTERS.get(attribute.type)


def _to_boolean(value: Any) -> Any:
    kind = type(value)
    if kind is int or kind is float:
        return bool(value) if value in (0, 1) else value
    return _BOOLEANS.get(value.lower(), value) if kind is str else value


def _to_number(value: Any) -> Any:
    return int(value) if type(value) is bool else value


def _to_text(value: Any) -> Any:
    return iso_text(to_ms(value)) if type(value) is datetime else value


_CONVERTERS: dict[str, Convert] = {
    "Boolean": _to_boolean,
    **dict.fromkeys(("Int", "Long", "Float", "BigInt"), _to_number),
    **dict.fromkeys(("String", "ID"), _to_text),
}


def _from_json(value: Any) -> Any:
    if type(value) is not str or value.lstrip()[:1] not in ("[", "{"):
        return value
    try:
        return decode_json(value.encode())
    except (BadBody, UnicodeEncodeError):
        return value


def restore_nested(changes: dict[str, Any], stored: Mapping[str, Any] | None) -> dict[str, Any]:
    """The changes with dates, bytes and blobs inside of lists and objects as they are stored, where the JSON that SQL has computed repeats them
    (`write_set.Decide`)."""
    if stored is None or _NESTED.isdisjoint(map(type, changes.values())):
        return changes
    kept = {name: keep_json(stored[name], value) for name, value in changes.items() if type(value) in _NESTED and name in stored}
    return changes | kept


def constant_of(expression: Expression, parameters: Callable[[int | str], Any]) -> Any:
    """The value of an expression that SQLite need not compute, with its type: a literal, a parameter, a number with a sign. NO_CONSTANT: it is none."""
    kind = type(expression)
    if kind is Literal:
        return expression.value  # type: ignore[union-attr]
    if kind is Parameter:
        return copy_of(parameters(expression.name))  # type: ignore[union-attr]
    if isinstance(expression, Unary) and isinstance(expression.operand, Literal):
        value = expression.operand.value
        if type(value) in (int, float) and expression.operator in ("-", "+"):
            return -value if expression.operator == "-" else value
    return NO_CONSTANT


def copy_of(value: Any, depth: int = 0) -> Any:
    """Lists and objects of a parameter belong to the caller, who may change them before they are written. What is nested too deep for a record stays."""
    if depth > MAX_DEPTH:
        return value
    if type(value) is list:
        return [copy_of(element, depth + 1) for element in value]
    return {name: copy_of(member, depth + 1) for name, member in value.items()} if type(value) is dict else value


def weight_of(value: Any) -> int:
    """About how many bytes a value takes in memory. It is called for each value that a statement writes: the plain ones first."""
    kind = type(value)
    if kind is int or kind is float or value is None or kind is bool:
        return 32
    if kind is str:
        return 64 + len(value)
    if kind is bytes:
        return 48 + len(value)
    if isinstance(value, Mapping):
        return 200 + sum([100 + weight_of(member) for member in value.values()])
    if isinstance(value, list | tuple | set | frozenset):
        return 100 + sum([8 + weight_of(element) for element in value])
    if kind is Blob:
        return 200 + (value.size or 0 if value.number is None else 0)
    return 100
