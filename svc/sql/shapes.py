"""Statements that differ in the values of their literals only, so that one of them is prepared for all (spec: sql §9).

    SELECT * FROM data.item WHERE id = 'a' LIMIT 10    a text
    SELECT * FROM data.item WHERE id = \\0t LIMIT \\0i    the key of its shape: a mark for the class of each literal
    'a', 10                                             its literals

Binding tells which literals are holes (`BoundQuery.holes`): what it makes is the same for any value there, which SQLite gets as a parameter. All other
literals have to be equal, to the letter: the names of result columns show them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable
from itertools import accumulate
from typing import Any, Generic, Protocol, TypeVar

from svc.sql.binding.dialect import WORDS
from svc.sql.bound import BoundQuery
from svc.sql.tables.values import SqlValue
from svc.store.values.conversion import is_encodable

_MOST_LITERALS = 64
_TEXT, _INTEGER, _FLOAT = "\0t", "\0i", "\0f"

# Begins with a class of characters, which Python looks for quickly. A number is none behind what may be the beginning of a longer one, or of a name: `1e-5`.
_LITERAL = re.compile(
    r"""(['0-9](?:
      (?<=')(?<![\w$]')[^']*+(?:''[^']*+)*+'
    | (?<=[0-9])(?<![\w$.].)(?<![eE][-+].)[0-9]{0,17}+(?:\.[0-9]{1,15}+)?+(?![\w$.])
    ))""",
    re.VERBOSE | re.ASCII,
)
_DECLINED = re.compile(r"""["'`\[?:@${]""")


class Shape:
    """`key`: the text without its literals. `literals`: as they are written. `parts`: of the text, those of the key and literals in turn."""

    __slots__ = ("key", "literals", "parts")

    def __init__(self, key: str, literals: list[str], parts: list[str]) -> None:
        self.key = key
        self.literals = literals
        self.parts = parts

    @property
    def values(self) -> list[str | int | float]:
        return [_READERS[mark](literal) for mark, literal in zip(self.parts[1::2], self.literals, strict=True)]


def shape_of(text: str) -> Shape | None:
    """None for a text without literals, with very many, or with anything that its tokens could be cut at in another way: comments, quoted names, parameters;
    and for what is no Unicode text. O(length).

    >>> shape_of("SELECT 'it''s', 1.5 FROM t1").values
    ["it's", 1.5]
    """
    if not is_encodable(text):
        return None
    parts = _LITERAL.split(text)
    literals = parts[1::2]
    if not literals or len(literals) > _MOST_LITERALS:
        return None
    parts[1::2] = [_WORD_MARKS.get(each) or (_TEXT if each[0] == "'" else _FLOAT if "." in each else _INTEGER) for each in literals]
    key = "".join(parts)
    if not key.isascii() or _DECLINED.search(key) or "--" in key or "/*" in key or key.count("\0") != len(literals):
        return None
    return Shape(key, literals, parts)


def _text_of(literal: str) -> str:
    return literal[1:-1].replace("''", "'")


def _negative_integer(literal: str) -> int:
    return -int(literal)


def _negative_float(literal: str) -> float:
    return -float(literal)


_Reader = Callable[[str], str | int | float]
# Compared with some columns these texts mean booleans: each is a class of its own.
_WORD_MARKS = {f"'{word}'": f"\0{word}" for word in WORDS}
_READERS: dict[str, _Reader] = {_TEXT: _text_of, _INTEGER: int, _FLOAT: float, **dict.fromkeys(_WORD_MARKS.values(), _text_of)}
_NEGATIVE: dict[str, _Reader] = {_INTEGER: _negative_integer, _FLOAT: _negative_float}


class PreparedStatement(Protocol):
    """`bound` None: it writes."""

    bound: BoundQuery | None

    @property
    def is_current(self) -> bool: ...


P = TypeVar("P", bound=PreparedStatement)
_Hole = tuple[int, _Reader]  # (index of its literal, what makes its value)


class ShapeCache(Generic[P]):
    """Prepared statements by their shapes, `most` at one time. `key`: of the catalogue that they are prepared with."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._fixed: dict[tuple[str, Hashable], tuple[int, ...]] = {}  # the literals that are no holes
        self._statements: dict[tuple[Hashable, ...], tuple[P, tuple[_Hole, ...]]] = {}

    def find(self, shape: Shape, key: Hashable) -> tuple[P, tuple[SqlValue, ...]] | None:
        """A statement of this shape that was prepared, and the values that it is to be run with in place of its constants."""
        fixed = self._fixed.get((shape.key, key))
        if fixed is None:
            return None
        literals = shape.literals
        found = self._statements.get((shape.key, key, fixed, *[literals[index] for index in fixed]))
        if found is None or not found[0].is_current:
            return None
        return found[0], tuple([read(literals[index]) for index, read in found[1]])

    def learn(self, shape: Shape, key: Hashable, prepared: P) -> None:
        """`prepared`: the statement of this shape, of this very text."""
        bound = prepared.bound
        holes = None if bound is None or bound.parameters else _holes_of(shape, bound)
        if not holes:
            return
        of_holes = {index for index, _ in holes}
        fixed = tuple([index for index in range(len(shape.literals)) if index not in of_holes])
        _put(self._fixed, (shape.key, key), fixed, self._most)
        _put(self._statements, (shape.key, key, fixed, *[shape.literals[index] for index in fixed]), (prepared, holes), self._most)

    def clear(self) -> None:
        self._fixed.clear()
        self._statements.clear()


def _put(kept: dict[Any, Any], key: Hashable, value: object, most: int) -> None:
    if key not in kept and len(kept) >= most:
        del kept[next(iter(kept))]
    kept[key] = value


def _holes_of(shape: Shape, bound: BoundQuery) -> tuple[_Hole, ...] | None:
    """For each constant its literal, None if one of them is the value of no literal of the shape."""
    lengths = [len(part) for part in shape.parts]
    lengths[1::2] = map(len, shape.literals)
    starts = [0, *accumulate(lengths)][1:-1:2]
    found: list[_Hole] = []
    for constant, place in zip(bound.constants, bound.holes, strict=True):
        hole = None if place is None else _hole_at(shape, starts, place)
        if hole is None:
            return None
        value = hole[1](shape.literals[hole[0]])
        if type(value) is not type(constant) or value != constant:
            return None
        found.append(hole)
    return tuple(found)


def _hole_at(shape: Shape, starts: list[int], place: int) -> _Hole | None:
    """The literal that begins at this place of the text, perhaps with a minus."""
    index = next((index for index, start in enumerate(starts) if start >= place), None)
    if index is None:
        return None
    mark = shape.parts[2 * index + 1]
    if starts[index] == place:
        return index, _READERS[mark]
    before = shape.parts[2 * index][place - starts[index] :]
    read = _NEGATIVE.get(mark)
    return (index, read) if read is not None and before.strip() == "-" else None
