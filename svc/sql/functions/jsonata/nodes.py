"""What an expression says: the tree that the parser makes."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, TypeAlias


@dataclass(slots=True)
class Node:
    """`filters`: what stands behind it in brackets. `group`: the pairs of `{key: value}` behind it. `is_kept`: `[]` does."""

    at: int
    filters: list[Node] = field(default_factory=list, kw_only=True)
    group: Pairs | None = field(default=None, kw_only=True)
    is_kept: bool = field(default=False, kw_only=True)


Pairs: TypeAlias = list[tuple[Node, Node]]


@dataclass(slots=True)
class Literal(Node):
    value: Any


@dataclass(slots=True)
class Variable(Node):
    """`name`: "" is the value that an expression is applied to, "$" that of the whole expression."""

    name: str


@dataclass(slots=True)
class Name(Node):
    name: str


@dataclass(slots=True)
class Wildcard(Node):
    """`*`, or `**`: all that lies below, at any depth."""

    is_deep: bool


@dataclass(slots=True)
class Path(Node):
    """`a.b`; a name alone is a path of one step."""

    steps: list[Node]


@dataclass(slots=True)
class Order(Node):
    """A step: `^(<a, >b)`. `terms`: (expression, whether it is descending)."""

    terms: list[tuple[Node, bool]]


@dataclass(slots=True)
class Array(Node):
    items: list[Node]


@dataclass(slots=True)
class Object(Node):
    pairs: Pairs


@dataclass(slots=True)
class Block(Node):
    items: list[Node]


@dataclass(slots=True)
class Negative(Node):
    operand: Node


@dataclass(slots=True)
class Binary(Node):
    operator: str
    left: Node
    right: Node


@dataclass(slots=True)
class Condition(Node):
    test: Node
    then: Node
    otherwise: Node | None


@dataclass(slots=True)
class Bind(Node):
    name: str
    value: Node


@dataclass(slots=True)
class Call(Node):
    """`args`: None stands for `?`, an argument that is given later."""

    function: Node
    args: list[Node | None]


@dataclass(slots=True)
class Lambda(Node):
    parameters: list[str]
    body: Node


@dataclass(slots=True)
class Pattern(Node):
    """A regular expression."""

    pattern: str
