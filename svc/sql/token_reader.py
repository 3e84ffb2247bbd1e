"""A place in the tokens of a statement: what reading an expression, a query and a statement have in common."""

from __future__ import annotations

import re

from svc.sql.errors import SqlSyntaxError, StatementTooLarge
from svc.sql.hints import hint_at
from svc.sql.lexer import tokens_of
from svc.sql.limits import MAX_COLUMNS, MAX_DEPTH, MAX_LENGTH
from svc.sql.words import NAMES, WORDS

_SURROGATE = re.compile("[\ud800-\udfff]")
_BEHIND_DOT = WORDS | {"name", "quoted"}


class TokenReader:
    """The tokens of `text`, and the one that comes next: number `index`.

    How deep the tree becomes: `depth` levels are open above what is read now; `tallest` levels are below these in all that has been read since the last
    of them was opened; `height` of them in the operand that has just been read, until `settle` counts it.
    """

    __slots__ = ("depth", "height", "index", "kinds", "last_number", "starts", "table_count", "tallest", "text", "tokens")

    def __init__(self, text: str, max_length: int = MAX_LENGTH) -> None:
        if len(text) > max_length:
            raise StatementTooLarge(f"a statement of {len(text)} characters is longer than {max_length}", max_length)
        if not text.isascii() and (surrogate := _SURROGATE.search(text)):
            raise SqlSyntaxError(text, surrogate.start(), "half of a surrogate pair is no character")
        self.text = text
        self.tokens, self.kinds, self.starts = tokens_of(text)
        self.index = self.depth = self.height = self.tallest = 0
        self.last_number = 0  # of a parameter
        self.table_count = 0  # in the FROM that is being read

    def __repr__(self) -> str:
        at = self.starts[self.index]
        return f"<{type(self).__name__} {self.text[:at]!r} | {self.text[at:]!r}>"

    # --- errors ---------------------------------------------------------------------------------------------------------------------------

    def fault(self, hint: str, at: int = -1) -> SqlSyntaxError:
        """`at`: -1 for the next token."""
        return SqlSyntaxError(self.text, self.starts[self.index] if at < 0 else at, hint)

    def unexpected(self, expected: str) -> SqlSyntaxError:
        """The next token is none of what is expected, in words."""
        return self.fault(hint_at(self.tokens, self.kinds, self.index, expected))

    def too_large(self, message: str, at: int = -1) -> StatementTooLarge:
        return StatementTooLarge(message, self.starts[self.index] if at < 0 else at)

    # --- tokens ---------------------------------------------------------------------------------------------------------------------------

    def take(self, kind: str) -> bool:
        """Go past the next token if it is of this kind."""
        if self.kinds[self.index] == kind:
            self.index += 1
            return True
        return False

    def need(self, kind: str) -> None:
        if self.kinds[self.index] != kind:
            raise self.unexpected(kind)
        self.index += 1

    def need_words(self, *kinds: str) -> None:
        for kind in kinds:
            self.need(kind)

    @property
    def at(self) -> int:
        """Where the next token begins."""
        return self.starts[self.index]

    @property
    def last_end(self) -> int:
        """Where the token before the next one ends."""
        return self.starts[self.index - 1] + len(self.tokens[self.index - 1])

    def name(self, expected: str = "a name") -> str:
        """The name that comes next, without its quotes."""
        kind = self.kinds[self.index]
        if kind not in NAMES:
            raise self.unexpected(expected)
        return self._name()

    def name_behind_dot(self) -> str:
        """As `name`, which here may be any word."""
        if self.kinds[self.index] not in _BEHIND_DOT:
            raise self.unexpected("a name")
        return self._name()

    def _name(self) -> str:
        token = self.tokens[self.index]
        if self.kinds[self.index] == "quoted":
            token = self.unquoted(token)
        self.index += 1
        return token

    def unquoted(self, token: str) -> str:
        """A name without its quotes, which are the next token."""
        quote = token[0]
        name = token[1:-1] if quote == "[" else token[1:-1].replace(quote + quote, quote)
        if not name:
            raise self.fault("a name is empty")
        if "\0" in name:
            raise self.fault("a name contains the character NUL")
        return name

    def names(self) -> tuple[str, ...]:
        """Names in parentheses, at least one."""
        self.need("(")
        names = [self.name()]
        while self.another(len(names)):
            names.append(self.name())
        self.need(")")
        return tuple(names)

    def another(self, count: int, most: int = MAX_COLUMNS) -> bool:
        """Whether a comma comes next, and so another member of a list that has `count`."""
        if self.kinds[self.index] != ",":
            return False
        if count >= most:
            raise self.too_large(f"a list has more than {most} columns, values, arguments or terms")
        self.index += 1
        return True

    # --- levels ---------------------------------------------------------------------------------------------------------------------------

    def open_level(self, levels: int = 1) -> int:
        """Begin to read what is below. Returns what `close_level` wants back."""
        self.depth += levels
        if self.depth > MAX_DEPTH:
            raise self.too_deep()
        outer = self.tallest
        self.tallest = self.height = 0
        return outer

    def close_level(self, outer: int, levels: int = 1) -> None:
        """What has been read since `open_level` is one operand."""
        self.depth -= levels
        self.height = self.tallest + levels
        self.tallest = outer

    def settle(self) -> None:
        """The operand just read is part of what is being read."""
        if self.height > self.tallest:
            self.tallest = self.height
            if self.depth + self.height > MAX_DEPTH:
                raise self.too_deep()
        self.height = 0

    def too_deep(self) -> StatementTooLarge:
        return self.too_large(f"parentheses, functions, sub-selects and operators are nested deeper than {MAX_DEPTH} levels")
