"""Which trees are equal, in time proportional to their size: comparing each part of one with each of another by `==` is not."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from svc.sql.binding.walking import PARTS

_COMPARED: dict[type, tuple[str, ...]] = {}


class Shapes:
    """Gives equal trees the same number. Keeps those that it has seen."""

    def __init__(self) -> None:
        self._numbers: dict[object, int] = {}
        self._known: dict[int, tuple[object, int]] = {}

    def of(self, root: object) -> int:
        known = self._known
        waiting = [root]
        while waiting:
            node = waiting[-1]
            if id(node) in known:
                waiting.pop()
                continue
            parts = node if isinstance(node, tuple) else _compared(node)
            if parts is None:
                key: object = (type(node), node)
            else:
                unknown = [part for part in parts if id(part) not in known]
                if unknown:
                    waiting.extend(unknown)
                    continue
                key = (type(node), *[known[id(part)][1] for part in parts])
            known[id(node)] = (node, self._numbers.setdefault(key, len(self._numbers)))
            waiting.pop()
        return known[id(root)][1]


def _compared(node: Any) -> list[object] | None:
    """What makes a node equal to another of its type, None for a plain value."""
    kind = type(node)
    if kind not in PARTS:
        return None
    names = _COMPARED.get(kind)
    if names is None:
        names = _COMPARED[kind] = tuple([each.name for each in fields(kind) if each.compare])
    return [getattr(node, name) for name in names]
