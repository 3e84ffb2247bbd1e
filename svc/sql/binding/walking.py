"""Going over trees of any depth."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import fields, replace
from itertools import islice
from typing import Any

from svc.sql import nodes

_LEAVES = frozenset(
    ("at", "end", "is_quoted", "is_negated", "is_distinct", "is_star", "name", "table", "database", "alias", "operator", "value", "text")
)

PARTS: dict[type, tuple[str, ...]] = {
    each: tuple(part.name for part in fields(each) if part.name not in _LEAVES or (each is nodes.Assignment and part.name == "value"))
    for each in vars(nodes).values()
    if isinstance(each, type) and hasattr(each, "__dataclass_fields__")
}
"""The fields of each type of node in which other nodes may be. Binding adds its own types."""


def walk(root: object, enters: Callable[[Any], bool] | None = None) -> Iterator[Any]:
    """All nodes of a tree, or of a tuple of trees, as they are written. What is in a node for which `enters` is False is left out."""
    waiting = [root]
    while waiting:
        found = waiting.pop()
        if type(found) is tuple:
            waiting.extend(reversed(found))
            continue
        parts = PARTS.get(type(found))
        if parts is None:
            continue
        yield found
        if enters is None or enters(found):
            waiting.extend([getattr(found, part) for part in reversed(parts)])


def depth_of(root: object, most: int) -> int:
    """Levels from the root of a tree to its deepest leaf; `most` + 1 if there are more."""
    level, depth = [root], 0
    while level and depth <= most:
        level = [part for found in level for part in _children(found)]
        depth += 1
    return depth


def _children(node: object) -> Iterator[object]:
    waiting = [getattr(node, part) for part in PARTS.get(type(node), ())]
    while waiting:
        found = waiting.pop()
        if type(found) is tuple:
            waiting.extend(found)
        elif type(found) in PARTS:
            yield found


def is_small(root: object, most: int) -> bool:
    """Whether a tree has no more than `most` nodes."""
    return next(islice(walk(root), most, None), None) is None


def position_of(node: object) -> int | None:
    """Where a tree begins in the text of the statement, None if no text stands for it."""
    for found in walk(node):
        at: int = getattr(found, "at", -1)
        if at >= 0 and not isinstance(found, nodes.Binary):
            return at
    return None


def substituted(node: Any, made: dict[int, Any]) -> Any:
    """A tree, or a tuple of trees, with other nodes in place of some, by their identity. What has none of them is not copied."""
    found = made.get(id(node))
    if found is not None:
        return found
    if isinstance(node, tuple):
        parts = tuple([substituted(part, made) for part in node])
        return node if all(part is before for part, before in zip(parts, node, strict=True)) else parts
    changed = {}
    for name in PARTS.get(type(node), ()):
        before = getattr(node, name)
        part = substituted(before, made)
        if part is not before:
            changed[name] = part
    return replace(node, **changed) if changed else node
