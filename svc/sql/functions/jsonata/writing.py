"""Values of expressions as text: as `$string` and `&` write them, which is how JavaScript does."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

from svc.content.json_type import encode_plain
from svc.sql.functions.jsonata.values import UNDEFINED, Work, deeper

_SCALARS = frozenset((type(None), bool, int, float, bytes))
_LARGE, _SMALL = 1e21, 1e-6  # numbers beyond are written with an exponent


def text_of(value: Any, work: Work) -> str:
    """A string as it is, another value as JSON; of functions "".

    Floats have 15 digits, so that what is computed shows no error of its last digit.
    """
    if type(value) is str:
        return value
    if isinstance(value, list) or type(value) is dict:
        parts: list[str] = []
        _write(value, parts, work, 0)
        return "".join(parts)
    return _scalar(value) if type(value) in _SCALARS else ""


def _write(value: Any, parts: list[str], work: Work, depth: int) -> None:
    work.spend(2)
    if isinstance(value, list):
        parts.append("[")
        for number, element in enumerate(value):
            if number:
                parts.append(",")
            _write(element, parts, work, deeper(depth))
        parts.append("]")
    elif type(value) is dict:
        parts.append("{")
        for number, (name, member) in enumerate(value.items()):
            parts.append(f"{',' if number else ''}{_quoted(name, work)}:")
            _write(member, parts, work, deeper(depth))
        parts.append("}")
    elif type(value) is str or type(value) is bytes:
        parts.append(_quoted(value, work))
    else:
        parts.append(_scalar(value) if type(value) in _SCALARS else "null" if value is UNDEFINED else '""')


def _quoted(text: str | bytes, work: Work) -> str:
    work.spend_text(len(text))
    return encode_plain(text).decode()


def _scalar(value: Any) -> str:
    if value is None:
        return "null"
    if type(value) is bool:
        return "true" if value else "false"
    if type(value) is bytes:
        return encode_plain(value).decode()[1:-1]
    return number_text(value)


def number_text(value: int | float) -> str:
    """
    >>> number_text(5), number_text(0.1 + 0.2), number_text(1e21), number_text(1.5e-7), number_text(1e20), number_text(0.00001)
    ('5', '0.3', '1e+21', '1.5e-7', '100000000000000000000', '0.00001')
    """
    if type(value) is int:
        return str(value)
    rounded = float(f"{value:.15g}")
    if rounded == 0:
        return "0"
    if rounded - rounded != 0.0:  # the largest have no neighbour of 15 digits
        rounded = value
    if _SMALL <= abs(rounded) < _LARGE:
        text = format(Decimal(repr(rounded)), "f")
        return text.rstrip("0").rstrip(".") if "." in text else text
    mantissa, _, exponent = repr(rounded).partition("e")
    return f"{mantissa.removesuffix('.0')}e{'-' if exponent[0] == '-' else '+'}{exponent.lstrip('+-').lstrip('0')}"
