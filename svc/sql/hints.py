"""What may be meant where a statement ceases to be one (spec: sql §7): the hint of a syntax error. Nothing here is in the way of statements that parse."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from difflib import get_close_matches

from svc.sql.errors import SHOWN
from svc.sql.words import RESERVED, WORDS

_NEAR = 0.75
_LONGEST = 2 * max(map(len, WORDS))  # of a token that is compared with them
STARTS = ("SELECT", "INSERT", "UPDATE", "DELETE", "WITH", "VALUES", "EXPLAIN")

_UNCLOSED = {
    "'": "a quote that closes this text is missing; a quote within a text is written twice",
    '"': "a double quote that closes this name is missing",
    "`": "a backtick that closes this name is missing",
    "[": "a bracket that closes this name is missing",
    "/": "*/ that closes this comment is missing",
    "x": "a quote that closes these bytes is missing",
}
_MARKS = {
    "!": "not equal is written <> or !=, and negation NOT",
    "#": "comments are written -- or /* */",
    "^": "no such operator",
    ":": "types are converted by CAST(value AS type), parameters are written :name",
    "@": "parameters are written @name",
    "$": "parameters are written $name",
    "\\": "no such character; a quote within a text is written twice",
    "{": "no such character; objects and lists are JSON texts in single quotes",
    "\ufeff": "a byte order mark",
    "\0": "the character NUL",
}
_INSTEAD = {
    "ILIKE": "LIKE takes upper and lower case as equal",
    "RLIKE": "REGEXP is meant",
    "FETCH": "LIMIT n is meant",
    "MINUS": "EXCEPT is meant",
    "DUPLICATE": "ON CONFLICT (column) DO UPDATE is meant",
    "ELSEIF": "WHEN is meant",
    "QUALIFY": "a sub-select with WHERE is meant",
    "LATERAL": "there are no lateral joins",
}
_QUOTES = re.compile("[\u2018-\u201f]")


def hint_at(tokens: Sequence[str], kinds: Sequence[str], index: int, expected: str) -> str:
    """Why the token number `index` cannot stand where it does. `expected`: what could, in words, "" if that is too much to say."""
    token, kind = tokens[index], kinds[index]
    if kind in ("unclosed", "illegal"):
        return _illegal(token, kind)
    before = tokens[index - 1] if index else ""
    special = _special(token, kind, before, kinds[index - 1] if index else "")
    if special:
        return special
    shown = token if len(token) <= SHOWN else token[:SHOWN] + "..."
    hint = f"expected {expected}" if expected else f"`{shown}` cannot stand here"
    if not index and kind == "name" and (close := _closest(token, STARTS)):
        return f"{hint}; {close} is meant?"
    if before == "," and expected in ("a value", "a name"):
        return f"{hint}; one comma too many?"
    if kind in RESERVED and (expected == "a value" or "name" in expected):
        return f"{hint}; `{token}` in backticks if this is a name"
    if kind == "text" and "name" in expected:
        return f"{hint}; names stand in backticks or double quotes, not in single ones"
    if kind == "name" and (close := _closest(token, WORDS)):
        return f"{hint}; {close} is meant?"
    if index and kinds[index - 1] == "name" and (close := _closest(before, WORDS)):  # SELECT a FORM t
        return f"{hint}; {close} is meant before it?"
    return hint


def _closest(token: str, words: Collection[str]) -> str:
    """The word that may be meant, "" if none is near."""
    if len(token) > _LONGEST:
        return ""
    return next(iter(get_close_matches(token.upper(), words, 1, _NEAR)), "")


def _illegal(token: str, kind: str) -> str:
    if kind == "unclosed":
        return _UNCLOSED[token[0].lower()]
    if _QUOTES.match(token):
        return "typographic quotes are no quotes: texts stand in ' and names in backticks or double quotes"
    return _MARKS.get(token) or f"unexpected character U+{ord(token[0]):04X}"


def _special(token: str, kind: str, before: str, kind_before: str) -> str:
    for word in (token, before):
        if word.upper() in _INSTEAD:
            return _INSTEAD[word.upper()]
    if kind_before == "OFFSET" and kind in ("number", "parameter"):
        return "OFFSET belongs behind LIMIT; LIMIT -1 is no limit"
    if token == ">" and before == "=":
        return ">= is meant?"
    if token == "<" and before == "=":
        return "<= is meant?"
    if token == "&" and before == "&":
        return "AND is meant?"
    if kind == "number" and kind_before in ("name", "quoted") and token.startswith("."):
        return "a name that does not begin with a letter stands in backticks"
    if kind == "INDEXED":
        return "INDEXED BY is not possible: indexes are chosen by the planner"
    return ""
