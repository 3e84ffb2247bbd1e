"""Where the terms of a query string begin and end (spec: query §1), without parsing them.

A parenthesis opens a group or a call, but belongs to a value outside of parentheses; square brackets and braces are never part of a value.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

_STRUCTURE = re.compile(r"[&|()\[\]{}=<>!]")
_PLAIN = re.compile("_[a-z]+=")
_CLOSING = {"(": ")", "[": "]", "{": "}"}


def iter_terms(text: str) -> Iterator[tuple[int, int]]:
    """(start, end) of each term at the top level; an empty one between `&&` too. What `|` joins is one term. A plain parameter, `_name=...`, ends at the
    next `&` whatever is in it, as in a form.

    >>> text = "a==x(&b[c=2&limit(3)]&(d=1|e=2)&limit(4)&_where=(&c=1"
    >>> [text[start:end] for start, end in iter_terms(text)]
    ['a==x(', 'b[c=2&limit(3)]', '(d=1|e=2)', 'limit(4)', '_where=(', 'c=1']
    """
    start = 0
    while start <= len(text):
        end = text.find("&", start) if _PLAIN.match(text, start) else _term_end(text, start)
        if end < 0:
            end = len(text)
        yield start, end
        start = end + 1


def _term_end(text: str, start: int) -> int:
    """The position of the next `&` outside of brackets; -1: there is none."""
    return next((position for position, character, open_ in _iter_structure(text, start) if character == "&" and not open_), -1)


def operands(term: str) -> list[str]:
    """What `|` joins in a term.

    >>> operands("a=1|(b=2|c=3)|sort(d)")
    ['a=1', '(b=2|c=3)', 'sort(d)']
    """
    if "|" not in term:
        return [term]
    ends = [position for position, character, open_ in _iter_structure(term, 0) if character == "|" and not open_]
    return [term[start + 1 : end] for start, end in zip([-1, *ends], [*ends, len(term)], strict=True)]


def is_one_bracket(text: str) -> bool:
    """Whether the first bracket in `text` is closed by its last character, and everything between them is in pairs.

    >>> is_one_bracket("select(a,b{c})"), is_one_bracket("limit(1)&limit(2)"), is_one_bracket("[a=1]|[b=2]")
    (True, False, False)
    """
    opened = False
    for position, character, open_ in _iter_structure(text, 0):
        opened = opened or open_ > 0
        if opened and open_ <= 0:
            return open_ == 0 and position == len(text) - 1 and character in ")]}"
    return False


def _iter_structure(text: str, start: int) -> Iterator[tuple[int, str, int]]:
    """(position, character, brackets that are open behind it) of what joins and encloses. -1, and the end, where a bracket closes that was not open."""
    stack: list[str] = []
    parentheses = 0
    in_value = False
    for found in _STRUCTURE.finditer(text, start):
        character = found.group()
        if character in "=<>!":
            in_value = True
            continue
        if character in "&|":
            in_value = False
        elif character in "([{":
            if character == "(":
                if in_value and not parentheses:
                    continue
                parentheses += 1
            stack.append(_CLOSING[character])
            in_value = False
        else:
            if character == ")" and in_value and not parentheses:
                continue
            if not stack or stack.pop() != character:
                yield found.start(), character, -1
                return
            if character == ")":
                parentheses -= 1
        yield found.start(), character, len(stack)
