"""What a condition's value means for the attribute it is compared with (spec: query §4, schema-and-store §5, query §11).

`typed_value` is the one way from a node's value to the value that the planner and the filters use: None, bool, int, float, str, bytes,
an aware datetime, or, in query objects only, a list of these.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime
from functools import partial
from math import isfinite

from svc.errors import BadValue, QueryError
from svc.query.hints import for_value
from svc.query.nodes import Bound, Conversion
from svc.store.schema import Attribute
from svc.store.values.conversion import autoconvert, members, printable, shown, text_to_value

_NUMERAL = re.compile(r"-?[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]+)?", re.ASCII)
_MAX_DIGITS = 302  # of a number of 1000 bits (spec: schema-and-store §5)
_DATE = Attribute("date", "Date")
_TEXT_TYPES = frozenset(("ID", "String"))
_NUMBER_TYPES = frozenset(("Int", "Long", "Float", "BigInt"))
_FROM_TEXT_ALONE = _NUMBER_TYPES | {"Boolean", "Date"}


def typed_value(value: object, conversion: Conversion, attribute: Attribute | None, name: str) -> object:
    """The value to compare with. `attribute` is None for what is not declared; `name` is what the caller called it, for messages.

    Raises QueryError BAD_VALUE.

    >>> typed_value("5", Conversion.CONVERTING, None, "x"), typed_value("5", Conversion.STRICT, None, "x")
    (5, '5')
    """
    if isinstance(value, Bound):
        return typed_value(value.value, value.conversion, attribute, name)
    if conversion is Conversion.FORCED:
        return value
    if conversion is Conversion.TEXT:
        found = text_form(value)
        if found is None:
            raise _bad_value(name, type(value).__name__, "text")
        return found
    if attribute is not None and attribute.elements:
        attribute = replace(attribute, elements=False)  # a value is compared with the elements of a list
    if conversion is Conversion.TYPED and type(value) is not str:
        return _declared_value(value, attribute, name)
    text = value
    assert type(text) is str
    try:
        if attribute is None or attribute.type == "Any":
            return autoconvert(text) if conversion is Conversion.CONVERTING else text
        converted = text_to_value(attribute, text)
    except BadValue as error:
        expected = attribute.type if attribute is not None else ""
        message = error.message if conversion is Conversion.TYPED else _with_hint(error.message, text, expected)
        raise QueryError(message, code="BAD_VALUE") from None
    return converted.encode() if attribute.type in ("Bytes", "Blob") and type(converted) is str else converted


def text_reader(conversion: Conversion, attribute: Attribute | None, name: str) -> Callable[[str], object]:
    """`typed_value` of texts, made once for many of them: what the text itself has no say in is decided here.

    >>> list(map(text_reader(Conversion.CONVERTING, None, "x"), ("5", "a"))), text_reader(Conversion.TEXT, None, "x")("5")
    ([5, 'a'], '5')
    """
    if conversion is Conversion.FORCED or conversion is Conversion.TEXT:
        return same_text
    kind = "Any" if attribute is None else attribute.type
    if attribute is None or attribute.enum is None:
        if kind in _TEXT_TYPES or (kind == "Any" and conversion is not Conversion.CONVERTING):
            return same_text
        if kind == "Any":
            return autoconvert
    if kind in _FROM_TEXT_ALONE:
        assert attribute is not None

        def read(text: str) -> object:
            try:
                return text_to_value(attribute, text)
            except BadValue:
                return typed_value(text, conversion, attribute, name)  # which says it

        return read
    return partial(typed_value, conversion=conversion, attribute=attribute, name=name)


def same_text(text: str) -> str:
    return text


def typed_pair(value: object, conversion: Conversion, attribute: Attribute | None, name: str) -> tuple[object, object]:
    """The two ends of a range. Raises QueryError BAD_VALUE unless there are exactly two."""
    if not isinstance(value, (tuple, list)) or len(value) != 2:
        raise QueryError(f"Invalid value for attribute {name}: a range needs exactly two ends", code="BAD_VALUE")
    return typed_value(value[0], conversion, attribute, name), typed_value(value[1], conversion, attribute, name)


def forced_value(kind: str, text: str, path: tuple[str, ...]) -> object:
    """The value of `number:5`, `boolean:true`, `string:x` or `date:2024-01-05T20%3A07Z`. Raises QueryError BAD_VALUE.

    >>> forced_value("number", "2.50", ("price",))
    2.5
    """
    value: object = None
    if kind == "string":
        return text
    if kind == "number":
        value = _maybe_number(text)
    elif kind == "boolean":
        value = {"true": True, "false": False}.get(text.lower())
    elif text:
        try:
            value = text_to_value(_DATE, text)
        except BadValue:
            value = None
    if value is None:
        raise _bad_value(".".join(path), text, kind.capitalize())
    return value


def text_form(value: object) -> str | None:
    """What `contains` and `ends_with` look into (spec: query §3): the text itself, or the text that JSON shows. None for null, bytes, objects.

    >>> text_form(True), text_form(2.0), text_form(None)
    ('true', '2', None)
    """
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float):
        return str(int(value)) if value.is_integer() else repr(value)
    if isinstance(value, datetime):
        return value.isoformat(timespec="milliseconds").replace("+00:00", "Z")
    return None


def _declared_value(value: object, attribute: Attribute | None, name: str) -> object:
    """A value that came typed, and is no text, by the declared type."""
    if isinstance(value, float) and not isfinite(value):
        raise _bad_value(name, str(value), "a finite number")
    if isinstance(value, dict):
        raise _bad_value(name, "object", attribute.type if attribute is not None else "a plain value")
    if attribute is None or value is None or attribute.type == "Any" or isinstance(value, (list, tuple)):
        return value
    type_ = attribute.type
    if type_ in _TEXT_TYPES:
        text = text_form(value)
        if text is None:
            raise _bad_value(name, type(value).__name__, type_)
        if attribute.enum is not None and text not in attribute.enum.values:
            raise _bad_value(name, text, members(attribute.enum))
        return text
    is_number = type(value) is int or type(value) is float
    if (
        (type_ in _NUMBER_TYPES and not is_number and not isinstance(value, datetime))
        or (type_ == "Boolean" and type(value) is not bool)
        or (type_ == "Date" and not is_number and not isinstance(value, datetime))
    ):
        raise _bad_value(name, text_form(value) or type(value).__name__, type_)
    return value


def _maybe_number(text: str) -> int | float | None:
    found = _NUMERAL.fullmatch(text)
    if found is None or len(text) > _MAX_DIGITS:
        return None
    if found.group(1) is None and found.group(2) is None:
        return int(text)
    value = float(text)
    return value if isfinite(value) else None


def _bad_value(name: str, text: str, expected: str) -> QueryError:
    message = f"Invalid value for attribute {printable(name)}: {shown(text)}, expecting {expected}"
    return QueryError(_with_hint(message, text, expected), code="BAD_VALUE")


def _with_hint(message: str, text: str, expected: str) -> str:
    hint = for_value(text, expected)
    return f"{message} ({hint})" if hint else message
