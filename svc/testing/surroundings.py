"""Environment variables and `sys.path`, which all applications of a process share: what the code of one does to them ends with it."""

from __future__ import annotations

import os
import sys

OF_PYTEST = "PYTEST_CURRENT_TEST"  # a variable that it changes itself

_open: list[Surroundings] = []
"""Of the applications that run, the latest last."""


class Surroundings:
    """To be made before an application begins."""

    def __init__(self) -> None:
        self._environment = dict(os.environ)
        self._path = list(sys.path)
        _open.append(self)

    def restore(self) -> None:
        """The application has ended. While another runs that began later, everything stays: at its end it is as this one has found it."""
        place = _open.index(self)
        del _open[place]
        if place < len(_open):
            _open[place]._environment, _open[place]._path = self._environment, self._path
            return
        for name in os.environ.keys() | self._environment.keys():
            if name != OF_PYTEST and os.environ.get(name) != self._environment.get(name):
                if name in self._environment:
                    os.environ[name] = self._environment[name]
                else:
                    del os.environ[name]
        sys.path[:] = self._path
