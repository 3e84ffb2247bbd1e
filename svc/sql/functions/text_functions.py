"""Functions on text (spec: sql §11.2). Those that SQLite has as well are here if its own know ASCII only, or take quadratic time, which it cannot interrupt."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from svc.sql.functions.function import Function, OwnFunction, Scalar, sql_text
from svc.sql.functions.meter import WorkMeter

_PIECE = 1 << 16  # characters, after which other threads may run
_SECONDS = 2e-8  # for a character
_FEW = 32  # characters that are trimmed, for which the interpreter's method is the fastest


def _in_pieces(method: Callable[[str], str]) -> Callable[[WorkMeter], Scalar]:
    def make(meter: WorkMeter) -> Scalar:
        def call(value: Any) -> str | None:
            if value is None:
                return None
            text = value if type(value) is str else sql_text(value)
            if len(text) <= _PIECE:
                return method(text)
            meter.expect(len(text) * _SECONDS)
            return "".join([method(text[start : start + _PIECE]) for start in range(0, len(text), _PIECE)])

        return call

    return make


def _instr(meter: WorkMeter) -> Scalar:
    def instr(value: Any, part: Any) -> int | None:
        if value is None or part is None:
            return None
        if type(value) is not bytes or type(part) is not bytes:
            value, part = sql_text(value), sql_text(part)
        if len(value) > _PIECE:
            meter.expect(len(value) * _SECONDS)
        return int(value.find(part)) + 1

    return instr


def _replace(meter: WorkMeter) -> Scalar:
    def replace(value: Any, old: Any, new: Any) -> str | None:
        if value is None or old is None or new is None:
            return None
        text, old, new = sql_text(value), sql_text(old), sql_text(new)
        if not old:
            return text
        if len(text) > _PIECE:
            meter.expect(2 * len(text) * _SECONDS)
        if len(new) > len(old):
            meter.check_length(len(text) + text.count(old) * (len(new) - len(old)))
        return text.replace(old, new)

    return replace


def _trimming(strip: Callable[[str, str], str], *, left: bool, right: bool) -> Callable[[WorkMeter], Scalar]:
    def make(meter: WorkMeter) -> Scalar:
        def trim(value: Any, characters: Any = " ") -> str | None:
            if value is None or characters is None:
                return None
            text, characters = sql_text(value), sql_text(characters)
            if len(characters) <= _FEW:
                return strip(text, characters)
            meter.expect((len(text) + len(characters)) * _SECONDS)
            cut = frozenset(characters)
            start, end = 0, len(text)
            while left and start < end and text[start] in cut:
                start += 1
            while right and start < end and text[end - 1] in cut:
                end -= 1
            return text[start:end]

        return trim

    return make


TEXT_FUNCTIONS = (
    OwnFunction(Function("LOWER", 1, 1, summary="in lower case"), _in_pieces(str.lower)),
    OwnFunction(Function("UPPER", 1, 1, summary="in upper case"), _in_pieces(str.upper)),
    OwnFunction(Function("INSTR", 2, 2, summary="where the second text begins in the first, from 1; 0 if it is not there"), _instr),
    OwnFunction(Function("REPLACE", 3, 3, summary="a text with each occurrence of the second replaced by the third"), _replace),
    OwnFunction(
        Function("TRIM", 1, 2, summary="without blanks, or the characters given, at both ends"), _trimming(str.strip, left=True, right=True)
    ),
    OwnFunction(Function("LTRIM", 1, 2, summary="the same, at the beginning"), _trimming(str.lstrip, left=True, right=False)),
    OwnFunction(Function("RTRIM", 1, 2, summary="the same, at the end"), _trimming(str.rstrip, left=False, right=True)),
)
