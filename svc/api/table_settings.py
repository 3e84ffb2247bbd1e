"""What the code of an application sets on tables: sources, functions of computed attributes.

While a version of an application is loaded, nothing of it is in effect; it takes effect with the version, and ends with it. So does what its handlers set
later.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Hashable
from contextvars import ContextVar

Undo = Callable[[], None]
Setting = Callable[[], Undo]
"""Puts a setting into effect and returns what ends it. Raises ClientError for one that cannot be."""


class TableSettings:
    """Those of one version of an application's code."""

    def __init__(self) -> None:
        self._waiting: list[tuple[Hashable, Setting, bool]] = []
        self._undo: dict[Hashable, tuple[Undo, bool]] = {}  # in the order in which they took effect
        self._is_active = False
        self._is_withdrawn = False

    def add(self, key: Hashable, setting: Setting, *, is_exclusive: bool = False) -> None:
        """`key`: of two settings with the same one the later is in effect, and ends alone. `is_exclusive`: it cannot be in effect beside the same of a
        newer version; others are replaced by theirs."""
        if self._is_withdrawn:
            raise RuntimeError("this version of the application has been replaced: it cannot set anything on tables any more")
        if self._is_active:
            self._take_effect(key, setting, is_exclusive)
        else:
            self._waiting.append((key, setting, is_exclusive))

    def _take_effect(self, key: Hashable, setting: Setting, is_exclusive: bool) -> None:
        undo = setting()
        self._undo.pop(key, None)
        self._undo[key] = undo, is_exclusive

    def __len__(self) -> int:
        return len(self._waiting)

    def cut(self, length: int) -> None:
        """Forget what waits beyond the first `length`: the module that has set it could not be loaded."""
        del self._waiting[length:]

    def activate(self) -> list[Exception]:
        """Put into effect what waits. Returns what was raised."""
        self._is_active = True
        waiting, self._waiting = self._waiting, []
        faults: list[Exception] = []
        for key, setting, is_exclusive in waiting:
            try:
                self._take_effect(key, setting, is_exclusive)
            except Exception as error:
                faults.append(error)
        return faults

    def give_way(self) -> None:
        """End the exclusive ones, before a newer version is activated."""
        for key in [key for key, (_, is_exclusive) in reversed(self._undo.items()) if is_exclusive]:
            self._undo.pop(key)[0]()

    def withdraw(self) -> None:
        self._is_withdrawn = True
        self._waiting.clear()
        while self._undo:
            self._undo.popitem()[1][0]()


LOADING: ContextVar[TableSettings | None] = ContextVar("LOADING", default=None)
"""Of the version whose code runs while it is loaded, and of the tasks which that starts."""


GLOBAL = "__table_settings__"
"""The name under which the modules of a version have its settings."""


def set_on_table(key: Hashable, setting: Setting, *, is_exclusive: bool = False) -> None:
    """Put a setting into effect, with the version of the application that is being loaded, or whose code runs; at once if there is none. `key`: of it
    among those of all tables."""
    settings = LOADING.get()
    if settings is None:
        settings = _settings_of_caller()
    if settings is None:
        setting()
    else:
        settings.add(key, setting, is_exclusive=is_exclusive)


def _settings_of_caller() -> TableSettings | None:
    """Those of the version whose module is the nearest that called."""
    frame = sys._getframe(2)
    while True:
        found: TableSettings | None = frame.f_globals.get(GLOBAL)
        if found is not None or frame.f_back is None:
            return found
        frame = frame.f_back
