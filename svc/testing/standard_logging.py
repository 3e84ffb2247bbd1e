"""The logger `svc` of the standard library, which all instances of a process share: each has it while it runs, and after the last it is as before."""

from __future__ import annotations

import logging

_SHARED = logging.getLogger("svc")
_users: list[StandardLogging] = []
_before: tuple[list[logging.Handler], int] = ([], logging.NOTSET)


class StandardLogging:
    """To be made before the server takes the logger over."""

    def __init__(self) -> None:
        global _before
        if not _users:
            _before = _SHARED.handlers[:], _SHARED.level
        _users.append(self)
        self._handlers: list[logging.Handler] | None = None

    def keep(self) -> None:
        """The server has taken it over: this is how it is to be while its application runs."""
        self._handlers = _SHARED.handlers[:]

    def use(self) -> None:
        """Its application runs now."""
        if self._handlers is not None:
            _SHARED.handlers[:] = self._handlers

    def end(self) -> None:
        _users.remove(self)
        if not _users:
            _SHARED.handlers[:], level = _before
            _SHARED.setLevel(level)
