"""Text of an expression -> tokens."""

from __future__ import annotations

import re
from typing import NamedTuple

from svc.sql.functions.jsonata.values import Fault

NAME, VARIABLE, NUMBER, TEXT, OPERATOR, END = range(6)

_token = re.compile(
    r"(?:\s+|/\*.*?\*/)*"
    r"(?:(?P<number>(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?)"
    r"|(?P<variable>\$[\w$]*)"
    r"|(?P<name>[^\W\d]\w*)"
    r"|(?P<quoted>`[^`]*`)"
    r"|(?P<text>\"(?:[^\"\\]|\\.)*\"|'(?:[^'\\]|\\.)*')"
    r"|(?P<operator>:=|!=|<=|>=|~>|\?:|\?\?|\.\.|\*\*|[.\[\]{}(),;:?+\-*/%|=<>^&@#])"
    r"|(?P<end>$))",
    re.DOTALL,
)
_escape = re.compile(r"\\(u[0-9a-fA-F]{4}|.)", re.DOTALL)
_ESCAPES = {'"': '"', "'": "'", "\\": "\\", "/": "/", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}
_pair = re.compile("[\ud800-\udbff][\udc00-\udfff]")
_pattern = re.compile(r"/((?:[^/\\\n]|\\.)+)/([a-zA-Z]*)")
_MAX_DIGITS = 300


class Token(NamedTuple):
    """`value`: a number, a text without quotes and escapes, a name, a variable without `$`, an operator."""

    kind: int
    value: int | float | str
    at: int
    end: int


def tokenize(text: str, at: int = 0) -> Token:
    """The token from a position on. Raises Fault."""
    found = _token.match(text, at)
    if found is None or found.lastgroup is None:
        raise Fault("something that is no token of JSONata", at)
    group = found.lastgroup
    start, value = found.start(group), found[group]
    if group == "number":
        return Token(NUMBER, _number(value, start), start, found.end())
    if group == "variable":
        return Token(VARIABLE, value[1:], start, found.end())
    if group == "text":
        return Token(TEXT, _text(value, start), start, found.end())
    if group == "quoted":
        return Token(NAME, value[1:-1], start, found.end())
    return Token({"name": NAME, "operator": OPERATOR, "end": END}[group], value, start, found.end())


def pattern_at(text: str, at: int) -> tuple[str, str, int]:
    """A regular expression from its `/` on: (pattern, flags, where it ends)."""
    found = _pattern.match(text, at)
    if found is None:
        raise Fault("a regular expression that does not end", at)
    return found[1].replace("\\/", "/"), found[2], found.end()


def _number(text: str, at: int) -> int | float:
    if text.isdigit() and len(text) <= _MAX_DIGITS:
        return int(text)
    number = float(text)
    if number - number != 0.0:
        raise Fault("a number that is too large", at)
    return int(number) if number.is_integer() and abs(number) <= 2**53 else number


def _text(quoted: str, at: int) -> str:
    def replaced(found: re.Match[str]) -> str:
        escaped = found[1]
        if len(escaped) > 1:
            return chr(int(escaped[1:], 16))
        if escaped not in _ESCAPES:
            raise Fault(f"\\{escaped} in a text", at + found.start())
        return _ESCAPES[escaped]

    text = _escape.sub(replaced, quoted[1:-1]) if "\\" in quoted else quoted[1:-1]
    text = _pair.sub(lambda found: found[0].encode("utf-16", "surrogatepass").decode("utf-16"), text)
    return text.encode("utf-8", "replace").decode() if not text.isascii() else text
