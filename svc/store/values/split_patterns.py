r"""The regular expressions that expressions split by: those that take linear time on any text (spec: schema-and-store §4.3).

Python's engine tries a pattern at each place, and takes back what a repetition took when what follows does not match: so `a.*b` takes quadratic time and
`(a|aa)+$` exponential. What is allowed can be told from the form: alternatives, each a sequence of single characters and sets of them, which may be
repeated, where

    1. a repetition of varying length is followed by nothing that matches what it repeats, up to what has to follow: so nothing is taken back twice
    2. what is repeated without end, and followed by what has to match, matches nothing that an alternative begins with: so no attempt begins inside
       of what another attempt has read in vain

One form beyond rule 2 is common, ` *, *`, blanks around a separator: the repetition in front is left out of the pattern, and its characters are cut off
the end of each part.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

MAX_COUNT = 100  # of a repetition with an end, and of all of one alternative together
ENDLESS = 1 << 30
_MAX_LISTED = 4096  # characters of a set that are compared one by one
_CATEGORIES = "dswDSW"
_ASSERTIONS = "bBAZ"
_APART = frozenset(("sw", "ds", "dD", "sS", "wW", "dW"))  # categories that have no character in common
_COUNT = re.compile(r"\*|\+|\?|\{(\d{0,9})(,?)(\d{0,9})\}")
_ESCAPES = {"n": "\n", "r": "\r", "t": "\t", "f": "\f", "v": "\v", "a": "\a"}
_HEX = {"x": 2, "u": 4, "U": 8}
_HINT = " (split by the separator alone and strip() the parts; see the documentation of computed attributes)"


class NotLinear(ValueError):
    """A pattern that is not one of these."""


@dataclass(slots=True)
class CharSet:
    """What matches one character. `text`: as in the pattern; `listed`: all its characters, None if they are too many; `category`: one of `_CATEGORIES`."""

    text: str
    listed: frozenset[str] | None
    category: str = ""

    def is_apart(self, other: CharSet) -> bool:
        """Whether no character is in both, as far as that can be told."""
        if self.listed is not None:
            matches = re.compile(other.text, re.DOTALL).fullmatch
            return not any(matches(character) for character in self.listed)
        if other.listed is not None:
            return other.is_apart(self)
        pair = self.category + other.category
        return len(pair) == 2 and (pair in _APART or pair[::-1] in _APART)


@dataclass(slots=True)
class Item:
    """`what`: None for an assertion, which matches between characters. `least`, `most`: how often."""

    what: CharSet | None
    least: int
    most: int
    text: str


def compile_split(pattern: str) -> Callable[[str, int], list[str]]:
    """`split(text, maxsplit)` of a pattern, in linear time. Raises `re.error` for what is no pattern, NotLinear for one that may take longer.

    >>> compile_split(" *, *")("a , b,c", 0)
    ['a', 'b', 'c']
    """
    compiled = re.compile(pattern)
    alternatives = [_items(text) for text in _alternatives(pattern)]
    if len(alternatives) == 1:
        items = alternatives[0]
        if len(items) > 1 and items[0].least == 0 and items[0].most == ENDLESS and items[0].what is not None and _needs(items[1:]):
            rest = items[1:]
            if not _followers_apart(items[0], rest):
                raise NotLinear(f"what follows {items[0].text} can begin with the same characters{_HINT}")
            _check([rest])
            return _trimming(re.compile("".join([item.text for item in rest])).split, items[0].what)
    _check(alternatives)
    return compiled.split


def _check(alternatives: list[list[Item]]) -> None:
    """Raises NotLinear."""
    firsts: list[CharSet] = []
    for items in alternatives:
        for item in items:
            if item.what is not None:
                firsts.append(item.what)
                if item.least:
                    break
    for items in alternatives:
        if sum([item.most for item in items if item.most < ENDLESS]) > MAX_COUNT:
            raise NotLinear(f"its repetitions can be {MAX_COUNT} times at most together, or without end{_HINT}")
        for number, item in enumerate(items):
            rest = items[number + 1 :]
            if item.least == item.most or not _needs(rest):
                continue
            if not _followers_apart(item, rest):
                raise NotLinear(f"what follows {item.text} can begin with the same characters{_HINT}")
            assert item.what is not None
            if item.most == ENDLESS and not all(item.what.is_apart(first) for first in firsts):
                raise NotLinear(f"what {item.text} repeats can begin a match, too{_HINT}")


def _needs(items: list[Item]) -> bool:
    """Whether something of these has to match."""
    return any(item.least or item.what is None for item in items)


def _followers_apart(item: Item, rest: list[Item]) -> bool:
    """Rule 1 for `item`, behind which `rest` stands."""
    assert item.what is not None
    for following in rest:
        if following.what is None or not item.what.is_apart(following.what):
            return False
        if following.least:
            return True
    return True


def _trimming(split: Callable[[str, int], list[str]], cut: CharSet) -> Callable[[str, int], list[str]]:
    matches = re.compile(cut.text, re.DOTALL if cut.text != "." else 0).fullmatch

    def trimmed(text: str, maxsplit: int) -> list[str]:
        parts = split(text, maxsplit)
        for number, part in enumerate(parts[:-1]):
            end = len(part)
            while end and matches(part, end - 1, end):
                end -= 1
            parts[number] = part[:end]
        return parts

    return trimmed


# --- reading ----------------------------------------------------------------------------------------------------------------------------


def _alternatives(pattern: str) -> list[str]:
    """The parts between `|`."""
    found, start, position = [], 0, 0
    while position < len(pattern):
        character = pattern[position]
        if character == "|":
            found.append(pattern[start:position])
            start = position + 1
        position = _set_end(pattern, position) if character == "[" else position + (2 if character == "\\" else 1)
    return [*found, pattern[start:]]


def _set_end(pattern: str, start: int) -> int:
    """Behind the `]` of the set that begins at `start`."""
    position = start + (2 if pattern.startswith("[^", start) else 1)
    first = position
    while pattern[position] != "]" or position == first:
        position += 2 if pattern[position] == "\\" else 1
    return position + 1


def _items(text: str) -> list[Item]:
    items: list[Item] = []
    position = 0
    while position < len(text):
        character = text[position]
        if character in "()":
            raise NotLinear(f"it has groups, where single characters, sets like [,;] and alternatives are possible{_HINT}")
        if character in "^$":
            what, end = None, position + 1
        elif character == ".":
            what, end = CharSet(".", None), position + 1
        elif character == "[":
            end = _set_end(text, position)
            what = _set(text[position:end])
        elif character == "\\" and text[position + 1] in _ASSERTIONS:
            what, end = None, position + 2
        elif character == "\\" and text[position + 1] in _CATEGORIES:
            what, end = CharSet(text[position : position + 2], None, text[position + 1]), position + 2
        else:
            single, end = _character(text, position)
            what = CharSet(re.escape(single), frozenset(single))
        least = most = 1
        count = _COUNT.match(text, end)
        if count is not None and count[0] != "{}":
            least, most = _times(count)
            end = count.end()
            if text[end : end + 1] in ("?", "+"):
                raise NotLinear(f"{text[position : end + 1]} is not possible, repetitions take as much as they can{_HINT}")
            if what is None:
                raise NotLinear(f"what matches no character cannot be repeated{_HINT}")
        items.append(Item(what, least if what is not None else 0, most if what is not None else 0, text[position:end]))
        position = end
    return items


def _times(count: re.Match[str]) -> tuple[int, int]:
    if count[0] in "*+?":
        return (1 if count[0] == "+" else 0), (1 if count[0] == "?" else ENDLESS)
    least = int(count[1] or 0)
    if not count[2]:
        return least, least
    return least, int(count[3]) if count[3] else ENDLESS


def _character(text: str, position: int) -> tuple[str, int]:
    """(a single character, where it ends)."""
    if text[position] != "\\":
        return text[position], position + 1
    escaped = text[position + 1]
    size = _HEX.get(escaped)
    if size is not None:
        return chr(int(text[position + 2 : position + 2 + size], 16)), position + 2 + size
    if escaped.isdigit() or (escaped.isalpha() and escaped not in _ESCAPES):
        raise NotLinear(f"\\{escaped} is not possible{_HINT}")
    return _ESCAPES.get(escaped, escaped), position + 2


def _set(text: str) -> CharSet:
    """A set like `[a-f\\s]`."""
    if text.startswith("[^"):
        return CharSet(text, None)
    listed: set[str] = set()
    position = 1
    while position < len(text) - 1:
        if text[position] == "\\" and text[position + 1] in _CATEGORIES:
            return CharSet(text, None, text[2] if len(text) == 4 else "")
        if text[position] == "\\" and text[position + 1] == "b":  # in a set it is the backspace
            first, end = "\b", position + 2
        else:
            first, end = _character(text, position)
        last = first
        if text[end] == "-" and end + 2 < len(text):
            if text[end + 1] == "\\" and text[end + 2] in _CATEGORIES:
                return CharSet(text, None)
            last, end = _character(text, end + 1)
        if ord(last) - ord(first) > _MAX_LISTED - len(listed):
            return CharSet(text, None)
        listed.update(map(chr, range(ord(first), ord(last) + 1)))
        position = end
    return CharSet(text, frozenset(listed))
