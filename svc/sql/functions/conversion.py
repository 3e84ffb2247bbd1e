"""`CAST(x AS type)` and `CONVERT(type, x, style)` (spec: sql §11.1)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from svc.content.json_type import encode_json
from svc.sql.functions.date_formats import formatter, iso_utc
from svc.sql.functions.dates import MAX_MS, moment_of, ms_of
from svc.sql.functions.exact import exact_face, plain_value
from svc.sql.functions.function import Function, OwnFunction, Scalar, number_of, own, refused, text_of
from svc.sql.functions.meter import WorkMeter
from svc.store.values.conversion import MAX_DIGITS
from svc.store.values.records import iso_text, to_ms

_leading_integer = re.compile(r"\s*([+-]?[0-9]+)").match
_leading_number = re.compile(r"\s*([+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)").match
_INT64 = 1 << 63
_BOOLEANS = {"true": 1, "false": 0, "t": 1, "f": 0, "yes": 1, "no": 0, "on": 1, "off": 0}
_YEAR_10000 = 253_402_300_800_000
_YEAR_0 = -62_167_219_200_000

# The numbers that other dialects give to formats of dates: with two digits of the year, and from 100 on with four.
_STYLES = {
    1: "MM/DD/YY", 2: "YY.MM.DD", 3: "DD/MM/YY", 4: "DD.MM.YY", 5: "DD-MM-YY", 6: "DD MMM YY", 7: "MMM DD, YY", 10: "MM-DD-YY", 11: "YY/MM/DD",
    12: "YYMMDD",
}  # fmt: skip
_FOUR_DIGITS = {
    **{100 + style: pattern.replace("YY", "YYYY") for style, pattern in _STYLES.items()},
    8: "HH:mm:ss", 108: "HH:mm:ss", 14: "HH:mm:ss:SSS", 114: "HH:mm:ss:SSS", 100: "MMM D YYYY h:mmA", 0: "MMM D YYYY h:mmA",
    109: "MMM D YYYY h:mm:ss:SSSA", 9: "MMM D YYYY h:mm:ss:SSSA", 113: "DD MMM YYYY HH:mm:ss:SSS", 13: "DD MMM YYYY HH:mm:ss:SSS",
    20: "YYYY-MM-DD HH:mm:ss", 120: "YYYY-MM-DD HH:mm:ss", 21: "YYYY-MM-DD HH:mm:ss.SSS", 121: "YYYY-MM-DD HH:mm:ss.SSS", 23: "YYYY-MM-DD",
    126: "YYYY-MM-DD[T]HH:mm:ss.SSS", 127: "YYYY-MM-DD[T]HH:mm:ss.SSS[Z]",
}  # fmt: skip
_FORMATS = {**_STYLES, **_FOUR_DIGITS}


def whole_number(value: Any) -> int | None:
    """Without its fraction, of any size; a text by the digits it begins with, 0 if it begins with none."""
    if type(value) is bytes:
        value = text_of(value)
    if type(value) is str:
        found = _leading_integer(value)
        if found is None:
            return 0
        return int(found[1]) if len(found[1]) <= MAX_DIGITS else None
    if type(value) is float:
        return int(value) if value - value == 0.0 else None
    return value  # type: ignore[no-any-return]


def cast_int(value: Any) -> int | str | None:
    """As columns have it: beyond 64 bits the digits."""
    number = whole_number(value)
    return number if number is None or -_INT64 <= number < _INT64 else str(number)


def cast_float(value: Any) -> float | None:
    if type(value) is bytes:
        value = text_of(value)
    if type(value) is str:
        found = _leading_number(value)
        value = float(found[1]) if found is not None else 0.0
    return float(value) if value is not None and value - value == 0.0 else None


def _cast_string(meter: WorkMeter) -> Scalar:
    def cast_string(face: Any, style: Any = None) -> str | None:
        """Of an exact face: `true`, `false`, JSON of lists and objects. With a style, of a date."""
        if type(face) is bytes:
            meter.admit(len(face))
        value = plain_value(face)
        if value is None:
            return None
        if style is not None:
            return _styled(value, style)
        if type(value) is bool:
            return "true" if value else "false"
        if isinstance(value, datetime):
            return iso_text(to_ms(value))
        if type(value) in _SCALARS:
            return text_of(value)
        return encode_json(value).decode()

    return cast_string


_SCALARS = frozenset((str, int, float, bytes))


def _styled(value: Any, style: Any) -> str | None:
    number = number_of(style)
    if number not in _FORMATS:
        raise refused(f"the style of a date must be one of {', '.join(map(str, sorted(_FORMATS)))}", style)
    ms = to_ms(value) if isinstance(value, datetime) else ms_of(value)
    if ms is None or not -MAX_MS <= ms <= MAX_MS:
        return None
    return formatter(_FORMATS[int(number)])(moment_of(ms))


def cast_boolean(value: Any) -> int | None:
    """Numbers but 0 are true; of texts `true`, `false` and numerals are booleans, others are null."""
    if value is None:
        return None
    if type(value) is str:
        known = _BOOLEANS.get(value.strip().lower()) if len(value) < 100 else None
        if known is not None:
            return known
    elif type(value) is bytes:
        return cast_boolean(text_of(value))
    number = number_of(value)
    return None if number is None else int(number != 0)


def cast_date(value: Any, style: Any = None) -> str | None:
    """As columns have it: ISO 8601 with ms and Z, of the years 0 to 9999."""
    ms = ms_of(value)
    if ms is None or not _YEAR_0 <= ms < _YEAR_10000:
        return None
    return iso_utc(ms)


_INT = OwnFunction(
    Function("CAST INT", 1, 2, summary="a whole number, of any size"),
    lambda meter: lambda value, style=None: cast_int(value),
    lambda meter: lambda value, style=None: exact_face(whole_number(value)),
)
_FLOAT = own(Function("CAST FLOAT", 1, 2, summary="a number with a fraction"), lambda value, style=None: cast_float(value))
_STRING = OwnFunction(Function("CAST STRING", 1, 2, takes_exact=(0,), summary="text; of a date, by the number of a style"), _cast_string)
_BOOLEAN = own(Function("CAST BOOLEAN", 1, 2, result="boolean", summary="true or false"), lambda value, style=None: cast_boolean(value))
_DATE = own(Function("CAST DATE", 1, 2, summary="a date"), cast_date)

CAST_FUNCTIONS = (_INT, _FLOAT, _STRING, _BOOLEAN, _DATE)

CAST_NAMES: Mapping[str, OwnFunction] = {
    **dict.fromkeys(("INT", "INTEGER", "BIGINT", "SMALLINT", "TINYINT", "LONG"), _INT),
    **dict.fromkeys(("NUMBER", "FLOAT", "DECIMAL", "NUMERIC", "REAL", "DOUBLE", "DOUBLE PRECISION"), _FLOAT),
    **dict.fromkeys(("STRING", "VARCHAR", "TEXT", "CHAR", "NVARCHAR", "CHARACTER VARYING"), _STRING),
    **dict.fromkeys(("BOOLEAN", "BOOL"), _BOOLEAN),
    **dict.fromkeys(("DATE", "DATETIME", "TIMESTAMP"), _DATE),
}
"""The functions of types, by their names without what is in parentheses."""
