"""Variables of the process environment that applications bring along (spec: components §2).

The process has one environment, so all applications share it. What they say of a variable is kept here, and its value follows from that: it is the
one that it had before, unless there was none or an entry overrides it; of several entries the first counts, and after it the last one that overrides.

A variable that something else has changed in the meantime is left as it is.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, MutableMapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, eq=False)
class EnvironmentLayer:
    """The variables of one version of an entry."""

    variables: Mapping[str, str]
    override: bool


@dataclass(slots=True)
class _Value:
    """`original`: the value that was there; None: there was none. `current`: the one that was given from here."""

    original: str | None
    current: str | None


class Environment:
    """What entries have said of the variables in `environ`."""

    def __init__(self, environ: MutableMapping[str, str]) -> None:
        self._environ = environ
        self._said: dict[str, EnvironmentLayer] = {}
        self._values: dict[str, _Value] = {}

    def get(self, entry: str) -> EnvironmentLayer | None:
        """What this entry has said last."""
        return self._said.get(entry)

    def set(self, entry: str, said: EnvironmentLayer | None) -> None:
        """The entry says this, in place of what it has said before. None: nothing any more."""
        before = self._said.get(entry)
        if said is not None:
            self._said[entry] = said
        elif before is not None:
            del self._said[entry]
        for name in {**(before.variables if before else {}), **(said.variables if said else {})}:
            self._apply(name)

    def _apply(self, name: str) -> None:
        found = self._environ.get(name)
        value = self._values.get(name)
        if value is None:
            value = self._values[name] = _Value(found, found)
        if not any(name in said.variables for said in self._said.values()):
            del self._values[name]
        if value.current != found:
            return
        value.current = value.original
        for said in self._said.values():
            if name in said.variables and (value.current is None or said.override):
                value.current = said.variables[name]
        if value.current is None:
            self._environ.pop(name, None)
        elif value.current != found:
            self._environ[name] = value.current

    def original(self) -> dict[str, str]:
        """The environment without what entries have said: for a process that is to start as this one did."""
        found = dict(self._environ)
        for name, value in self._values.items():
            if found.get(name) == value.current:
                found.pop(name, None)
                if value.original is not None:
                    found[name] = value.original
        return found


PROCESS = Environment(os.environ)
"""That of this process."""
