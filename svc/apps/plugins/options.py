"""The options of an entry, as a plugin sees them (spec: plugins §3.1)."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from svc.apps.plugins.emitter import Callbacks

CHANGE = "change"


class Options:
    """What it returns are copies."""

    def __init__(self, options: Mapping[str, Any], root: Mapping[str, Any]) -> None:
        """`root`: all of config.yaml."""
        self._options = options
        self._root = root
        self._callbacks = Callbacks("scope.options", (CHANGE,))

    def get(self, path: str | Sequence[str], default: Any = None) -> Any:
        """The option of a name, or of several, one in the other: "limits.words" or ["limits", "words"]."""
        if isinstance(path, str):
            if path in self._options:
                return copy.deepcopy(self._options[path])
            path = path.split(".")
        found: Any = self._options
        for name in path:
            if isinstance(found, Mapping) and name in found:
                found = found[name]
            else:
                return default
        return copy.deepcopy(found)

    def get_all(self) -> dict[str, Any]:
        return copy.deepcopy(dict(self._options))

    def get_root(self) -> dict[str, Any]:
        """All of config.yaml."""
        return copy.deepcopy(dict(self._root))

    def on(self, event: str, callback: Callable[..., Any]) -> Options:
        """`callback(key, value, config)` for each option that changes: its path as a list, its new value (None: it is gone), all options."""
        self._callbacks.add(event, callback)
        return self

    # --- for the entry -----------------------------------------------------------------------------------------------------------------

    @property
    def has_handlers(self) -> bool:
        return bool(self._callbacks.of(CHANGE))

    @property
    def handlers(self) -> list[Callable[..., Any]]:
        return self._callbacks.of(CHANGE)

    def replace(self, options: Mapping[str, Any], root: Mapping[str, Any]) -> list[tuple[list[str], Any]]:
        """Take over others. Returns what has changed: (path, new value)."""
        changes = list(differences(self._options, options))
        self._options, self._root = options, root
        return changes

    def __repr__(self) -> str:
        return f"<options {', '.join(self._options)}>"


def differences(before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterator[tuple[list[str], Any]]:
    """
    >>> list(differences({"a": {"b": 1, "c": 2}, "d": 1}, {"a": {"b": 1, "c": 3}}))
    [(['a', 'c'], 3), (['d'], None)]
    """
    for name in dict.fromkeys((*before, *after)):
        old, new = before.get(name), after.get(name)
        if isinstance(old, Mapping) and isinstance(new, Mapping):
            for path, value in differences(old, new):
                yield [str(name), *path], value
        elif old != new or type(old) is not type(new):
            yield [str(name)], copy.deepcopy(new)
