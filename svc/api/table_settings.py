"""What the code of an application sets on tables: sources, functions of computed attributes.

While a version of an application is loaded, nothing of it is in effect; it takes effect with the version, and ends with it.
"""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar

Undo = Callable[[], None]
Setting = Callable[[], Undo]
"""Puts a setting into effect and returns what ends it. Raises ClientError for one that cannot be."""


class TableSettings:
    """Those of one version of an application's code."""

    def __init__(self) -> None:
        self._waiting: list[tuple[Setting, bool]] = []
        self._undo: list[tuple[Undo, bool]] = []
        self._is_active = False
        self._is_withdrawn = False

    def add(self, setting: Setting, *, is_exclusive: bool = False) -> None:
        """`is_exclusive`: it cannot be in effect beside the same of a newer version; others are replaced by theirs."""
        if self._is_withdrawn:
            raise RuntimeError("this version of the application has been replaced: it cannot set anything on tables any more")
        if self._is_active:
            self._undo.append((setting(), is_exclusive))
        else:
            self._waiting.append((setting, is_exclusive))

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
        for setting, is_exclusive in waiting:
            try:
                self._undo.append((setting(), is_exclusive))
            except Exception as error:
                faults.append(error)
        return faults

    def give_way(self) -> None:
        """End the exclusive ones, before a newer version is activated."""
        exclusive = [undo for undo, is_exclusive in self._undo if is_exclusive]
        self._undo = [each for each in self._undo if not each[1]]
        for undo in reversed(exclusive):
            undo()

    def withdraw(self) -> None:
        self._is_withdrawn = True
        self._waiting.clear()
        while self._undo:
            self._undo.pop()[0]()


LOADING: ContextVar[TableSettings | None] = ContextVar("LOADING", default=None)
"""Of the version whose code runs while it is loaded, and of the tasks which that starts."""


def set_on_table(setting: Setting, *, is_exclusive: bool = False) -> None:
    """Put a setting into effect, with the version of the application that is being loaded, else at once."""
    settings = LOADING.get()
    if settings is None:
        setting()
    else:
        settings.add(setting, is_exclusive=is_exclusive)
