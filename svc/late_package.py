"""Packages whose own code runs late: their submodules can be imported alone.

`import graphql.language` runs `graphql/__init__.py` first, which imports the executor, the validator and the utilities: three times as much, and 4 MB.
"""

from __future__ import annotations

import sys
from importlib.util import find_spec, module_from_spec
from threading import RLock
from types import ModuleType
from typing import Any

_lock = RLock()
_running: set[ModuleType] = set()


class _LatePackage(ModuleType):
    """Becomes the module it stands for when an attribute is asked for that no import of a submodule has set."""

    def __getattr__(self, name: str) -> Any:
        with _lock:  # held while the code runs: other threads wait for all of it
            if self in _running:
                raise AttributeError(f"module {self.__name__!r} has no attribute {name!r} yet")
            if type(self) is _LatePackage:
                assert self.__spec__ is not None and self.__spec__.loader is not None
                _running.add(self)
                try:
                    self.__spec__.loader.exec_module(self)
                finally:
                    _running.discard(self)
                self.__class__ = ModuleType  # type: ignore[assignment]
        return getattr(self, name)


def import_late(name: str) -> None:
    """From now on the package of this name is imported, and its own code runs when it is first used. Nothing happens if it has run already."""
    if name in sys.modules:
        return
    spec = find_spec(name)
    if spec is None:
        raise ModuleNotFoundError(f"No module named {name!r}", name=name)
    module = module_from_spec(spec)
    module.__class__ = _LatePackage
    sys.modules[name] = module
