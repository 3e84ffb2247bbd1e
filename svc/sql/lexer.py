"""Cuts the text of a statement into tokens (spec: sql §2).

A token is a text, a kind, and a position. Kinds: a word that means something is itself in upper case, `SELECT`; an operator or a mark is itself, `<=`; else
`name`, `quoted` (a name in double quotes, backticks or brackets), `text`, `number`, `blob`, `parameter`; `unclosed` (a quotation or a comment), `illegal`;
`` is the end. Comments are left out.

All tokens are cut by one regular expression, in time proportional to the length: each alternative takes what it begins with to the end of the text if
it is not closed, so nothing is looked at twice. Only the last token can be one that is not closed.
"""

from __future__ import annotations

import re
from itertools import accumulate

from svc.sql.words import WORDS

# As in SQLite anything that is not ASCII is a letter; but for blanks, typographic quotes (which are no quotes), and what cannot be seen.
_LETTERS = "A-Za-z_\xa1-\u167f\u1681-\u1fff\u200c-\u2017\u2020-\u2027\u202a-\u202e\u2030-\u205e\u2060-\u2fff\u3001-\ud7ff\ue000-\ufefe\uff00-\U0010ffff"
_TOKEN = re.compile(
    rf"""(
      [xX]'[^']*'?
    | [{_LETTERS}][{_LETTERS}0-9$]*
    | (?:[0-9][0-9_]*(?:\.[0-9_]*)?|\.[0-9][0-9_]*)(?:[eE][-+]?[0-9][0-9_]*)?[{_LETTERS}0-9$]*
    | '[^']*(?:''[^']*)*'?
    | "[^"]*(?:""[^"]*)*"?
    | `[^`]*(?:``[^`]*)*`?
    | \[[^\]]*\]?
    | --[^\n]*
    | /\*[^*]*(?:\*(?!/)[^*]*)*(?:\*/)?
    | ->>? | <[=<>]? | >[=>]? | ==? | != | \|\|?
    | [-+*/%&~(),.;]
    | \?[0-9]*
    | [:@$][{_LETTERS}0-9$]+
    | \S
    )""",
    re.VERBOSE,
)
_NAME = re.compile(f"[{_LETTERS}]")


class _Kinds(dict[str, str]):
    """The kind of each token. Those with a fixed text are kept, all others are looked at."""

    def __missing__(self, token: str) -> str:
        kind = _FIRST.get(token[0])
        if kind is None:
            return "name" if _NAME.match(token) else "illegal"
        if kind == "name":
            if len(token) > 1 and token[1] == "'":
                return "blob"
            word = token.upper()
            return word if word in WORDS and token.isascii() else "name"  # `lımit` is no LIMIT
        if kind == "parameter":
            return kind if len(token) > 1 or token == "?" else "illegal"
        return kind


_CLOSED = frozenset(("blob", "comment", "quoted", "text"))
_FIRST = {
    **dict.fromkeys("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_", "name"),
    **dict.fromkeys("0123456789.", "number"),
    **dict.fromkeys('"`[', "quoted"),
    **dict.fromkeys("?:@$", "parameter"),
    **dict.fromkeys("-/", "comment"),
    "'": "text",
}
_MARKS = "-> ->> < <= << <> > >= >> = == != | || - + * / % & ~ ( ) , . ;"
_KINDS = _Kinds({mark: mark for mark in _MARKS.split()})
_KINDS.update({form: word for word in WORDS for form in (word, word.lower())})


def _is_closed(token: str, kind: str) -> bool:
    if kind == "comment":
        return token[1] == "-" or (len(token) > 3 and token.endswith("*/"))
    opening = "'" if kind == "blob" else token[0]
    return token.endswith("]") if opening == "[" else token.count(opening) % 2 == 0


def tokens_of(text: str) -> tuple[list[str], list[str], list[int]]:
    """The tokens, their kinds, and where they begin; each list ends with that of the end of the text, the kinds with some more of it.

    >>> tokens_of("select a.b")
    (['select', 'a', '.', 'b', ''], ['SELECT', 'name', '.', 'name', '', '', '', '', ''], [0, 7, 8, 9, 10])
    """
    parts = _TOKEN.split(text)  # blanks, token, blanks, token ... blanks
    starts = list(accumulate(map(len, parts)))[::2]
    tokens = parts[1::2]
    kinds = list(map(_KINDS.__getitem__, tokens))
    if kinds and kinds[-1] in _CLOSED and not _is_closed(tokens[-1], kinds[-1]):
        kinds[-1] = "unclosed"
    tokens.append("")
    if "--" in text or "/*" in text:
        kept = [index for index, kind in enumerate(kinds) if kind != "comment"]
        kinds = [kinds[index] for index in kept]
        kept.append(len(tokens) - 1)
        tokens = [tokens[index] for index in kept]
        starts = [starts[index] for index in kept]
    kinds.extend(("", "", "", "", ""))
    return tokens, kinds, starts
