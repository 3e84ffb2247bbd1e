"""Reads the characters of a URL query (spec: query §1, §2), one piece at a time.

What a character means depends on its position: `.` separates names but belongs to a value, `(` opens a group or a call but belongs to
a value outside of groups. So there is no list of tokens; the parser asks for the piece it expects. Every method either consumes
exactly what it returns or consumes nothing, and no character is skipped: unexpected characters are left to the parser, which raises the error.

The text is the raw query, still percent-encoded. Pieces are split first and decoded afterwards, so that an encoded operator is data.
"""

from __future__ import annotations

import re
from urllib.parse import unquote

from svc.errors import QuerySyntaxError

_NAME = re.compile(r"[^&|=<>!()\[\]{},.]+")
# Inside calls some characters may come percent-encoded and are still themselves (spec: query §2 rule 3).
_NAME_IN_CALL = re.compile(r"(?:[^&|=<>!()\[\]{},.%]|%(?!2C|7B|7D))+", re.IGNORECASE)
_NAME_IN_GROUP = re.compile(r"(?:[^&|=<>!()\[\]{},.;%]|%(?!2C|3B))+", re.IGNORECASE)
_ENCODED = {",": "%2C", ";": "%3B", "{": "%7B", "}": "%7D", "+": "%2B"}
_VALUE = re.compile(r"[^&|=\[\]{}]*")
_VALUE_IN_PARENTHESES = re.compile(r"[^&|=\[\]{}()]*")
_OPERATOR = re.compile(r"===|!==|==|!=|<=|>=|<|>|=[A-Za-z]+=|=")  # longest first
BAD_ESCAPE = re.compile(r"%(?![0-9A-Fa-f]{2})")


class Scanner:
    """A string and a position in it."""

    __slots__ = ("position", "text")

    def __init__(self, text: str) -> None:
        """
        >>> scanner = Scanner("brand.name==A%26B&limit(3)")
        >>> scanner.name(), scanner.take("."), scanner.name(), scanner.operator(), scanner.value(in_parentheses=False), scanner.peek()
        ('brand', True, 'name', '==', 'A%26B', '&')
        """
        self.text = text
        self.position = 0

    def __repr__(self) -> str:
        return f"<Scanner {self.text[: self.position]!r} | {self.text[self.position :]!r}>"

    def peek(self) -> str:
        """The next character; "" at the end."""
        return self.text[self.position : self.position + 1]

    def take(self, literal: str) -> bool:
        """Consume `literal` if it comes next."""
        if self.text.startswith(literal, self.position):
            self.position += len(literal)
            return True
        return False

    def name(self) -> str:
        """The raw name that comes next, empty if none does."""
        return self._match(_NAME)

    def name_in_call(self) -> str:
        """The same inside `select(...)` and `sort(...)`, where an encoded comma or brace ends a name too."""
        return self._match(_NAME_IN_CALL)

    def name_in_group(self) -> str:
        """The same inside `group(...)`, where a semicolon and an encoded comma or semicolon end a name too."""
        return self._match(_NAME_IN_GROUP)

    def at_encodable(self, character: str) -> int:
        """The length of `character`, plain or percent-encoded, if it comes next; else 0."""
        text, position = self.text, self.position
        if text.startswith(character, position):
            return 1
        return 3 if text.startswith("%", position) and text[position : position + 3].upper() == _ENCODED[character] else 0

    def take_encodable(self, character: str) -> bool:
        """Consume `character`, plain or percent-encoded, if it comes next."""
        length = self.at_encodable(character)
        self.position += length
        return length > 0

    def operator(self) -> str:
        """The operator that comes next, empty if none does. `=xyz=` is one even if there is no such operator."""
        return self._match(_OPERATOR)

    def value(self, *, in_parentheses: bool) -> str:
        """The raw value that comes next; it may be empty."""
        return self._match(_VALUE_IN_PARENTHESES if in_parentheses else _VALUE)

    def error(self, what: str, position: int | None = None, hint: str = "") -> QuerySyntaxError:
        """The error to raise: `what` stands at `position`, by default the current one."""
        return QuerySyntaxError(what, self.position if position is None else position, self.text, hint)

    def unexpected(self, expected: str, hint: str = "") -> QuerySyntaxError:
        """The error to raise for an unexpected next character."""
        found = self.peek()
        return self.error(f"expected {expected} but found " + (f"'{found}'" if found else "the end"), hint=hint)

    def decode(self, raw: str, position: int, *, plus_is_space: bool = False) -> str:
        """Percent-decode a piece that began at `position`. Raises QuerySyntaxError for an invalid escape, or bytes that are not UTF-8."""
        if plus_is_space:
            raw = raw.replace("+", " ")
        if "%" not in raw:
            return raw
        bad = BAD_ESCAPE.search(raw)
        if bad is not None:
            raise self.error("bad percent-encoding", position + bad.start(), "a percent sign is written %25")
        try:
            return unquote(raw, errors="strict")
        except UnicodeDecodeError:
            raise self.error("percent-encoded bytes that are not UTF-8", position) from None

    def _match(self, pattern: re.Pattern[str]) -> str:
        found = pattern.match(self.text, self.position)
        if found is None:
            return ""
        self.position = found.end()
        return found.group()
