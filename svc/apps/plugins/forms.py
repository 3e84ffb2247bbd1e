"""The two forms of a plugin's module: `handle_application`, or the older functions (spec: plugins §2.2)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import ModuleType
from typing import Any

NEWER = "handle_application"
OLDER = ("start", "start_on_main_thread", "handle_file", "handle_directory", "setup_file", "setup_directory")
MAX_TIMEOUT_MS = 3_600_000


class PluginFault(Exception):
    """A plugin that cannot be used; the message says why, and what to do."""


def camel_case(name: str) -> str:
    """
    >>> camel_case("start_on_main_thread")
    'startOnMainThread'
    """
    first, *others = name.split("_")
    return first + "".join(other.capitalize() for other in others)


def functions_of(module: ModuleType) -> dict[str, Callable[..., Any]]:
    """The functions of one of the two forms, by their names in snake_case. Raises PluginFault."""
    found = members_of(vars(module))
    older = [name for name in found if name in OLDER]
    if NEWER in found and older:
        raise PluginFault(f"has both {NEWER} and {', '.join(older)}: a plugin has one form or the other")
    if not found:
        raise PluginFault(f"has neither {NEWER}(scope) nor one of {', '.join(OLDER)}")
    return found


def members_of(members: Any) -> dict[str, Callable[..., Any]]:
    """Those that a mapping, or an object, has. Raises PluginFault for one that cannot be called."""
    found: dict[str, Callable[..., Any]] = {}
    for name in (NEWER, *OLDER):
        for spelling in (name, camel_case(name)):
            value = members.get(spelling) if isinstance(members, Mapping) else getattr(members, spelling, None)
            if value is None:
                continue
            if not callable(value):
                raise PluginFault(f"{spelling} is no function, but {type(value).__name__}")
            found[name] = value
            break
    return found


def seconds_of(module: ModuleType, options: Mapping[str, Any], default: float) -> float:
    """How long one call of the plugin may take. Raises PluginFault."""
    names = vars(module)
    given = names.get("default_timeout", names.get("defaultTimeout"))
    for name, value in (("timeout", options.get("timeout")), ("default_timeout", given)):
        if value is None:
            continue
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value <= MAX_TIMEOUT_MS:
            raise PluginFault(f"{name} is a number of milliseconds up to {MAX_TIMEOUT_MS}, not {value!r}")
        return float(value) / 1000
    return default
