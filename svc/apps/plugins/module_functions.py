"""What the module of a plugin has: `handle_application`, and how long it may take (spec: plugins §2.2, §2.3)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import ModuleType
from typing import Any

NAME = "handle_application"
FORMER = ("start", "start_on_main_thread", "handle_file", "handle_directory", "setup_file", "setup_directory")
"""Functions that plugins had before; `startOnMainThread` and its like are the same."""
MAX_TIMEOUT_MS = 3_600_000


class PluginFault(Exception):
    """A plugin that cannot be used; the message says why, and what to do."""


def handler_of(module: ModuleType) -> Callable[..., Any]:
    """Its `handle_application`. Raises PluginFault."""
    members = vars(module)
    handler = members.get(NAME)
    if handler is None:
        former = [name for name in members if name.lower() in {each.replace("_", "") for each in FORMER} or name in FORMER]
        found = f"has {', '.join(former)}, which svc does not call" if former else f"has no {NAME}(scope)"
        raise PluginFault(f"{found}: a plugin defines {NAME}(scope), and scope.handle_entry for its files")
    if not callable(handler):
        raise PluginFault(f"{NAME} is no function, but {type(handler).__name__}")
    return handler  # type: ignore[no-any-return]


def seconds_of(module: ModuleType, options: Mapping[str, Any], default: float) -> float:
    """How long one call of the plugin may take. Raises PluginFault."""
    for name, value in (("timeout", options.get("timeout")), ("default_timeout", vars(module).get("default_timeout"))):
        if value is None:
            continue
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value <= MAX_TIMEOUT_MS:
            raise PluginFault(f"{name} is a number of milliseconds up to {MAX_TIMEOUT_MS}, not {value!r}")
        return float(value) / 1000
    return default
