"""`config.yaml` of an application (spec: configuration §9.1)."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from svc.apps.reading import load_yaml, read_limited
from svc.apps.roles_file import DEFAULT_FILE

CONFIG_FILE = "config.yaml"
MAX_SIZE = 1 << 20  # bytes

DEFAULT_CONFIG: Mapping[str, Any] = {
    "rest": True,
    "login": True,
    "graphqlSchema": {"files": "*.graphql"},
    "roles": {"files": DEFAULT_FILE},
    "resources": {"files": "resources.py"},
    "frameworkRoutes": {"files": "routes/*.py", "urlPath": "."},
    "static": {"files": "web/**"},
}
"""Without a config.yaml."""

ALIASES: Mapping[str, str] = {"jsResource": "resources"}
_EXPECTED = ("graphqlSchema", "roles", "resources")
"""Entries whose files have names of their own, so that they are there to be loaded."""


def read_config(directory: Path) -> Mapping[str, Any]:
    """`config.yaml`, which replaces the defaults entirely, or the defaults. Raises OSError, or ValueError with what is wrong in it."""
    try:
        raw = read_limited(directory / CONFIG_FILE, MAX_SIZE)
    except FileNotFoundError:
        return DEFAULT_CONFIG
    if len(raw) > MAX_SIZE:
        raise ValueError(f"is larger than {MAX_SIZE} bytes")
    loaded = load_yaml(raw)
    if loaded is None:
        return {}
    if not isinstance(loaded, dict):
        raise ValueError("must be a mapping of entries")
    return {str(key): value for key, value in loaded.items()}


def overlooked(directory: Path, config: Mapping[str, Any]) -> list[str]:
    """Warnings about files that the defaults would load and a config.yaml does not mention, and about a directory with nothing to load. Reads directories."""
    if config is DEFAULT_CONFIG:
        patterns = [options["files"] for options in config.values() if isinstance(options, Mapping)]
        if any(next(directory.glob(pattern), None) is not None for pattern in patterns):
            return []
        return [f"there is nothing to load in this directory: no {CONFIG_FILE}, {', '.join(patterns)}"]
    entries = {ALIASES.get(key, key) for key in config}
    mentioned = str(config)
    found = []
    for key in _EXPECTED:
        pattern = DEFAULT_CONFIG[key]["files"]
        name = next((path.name for path in sorted(directory.glob(pattern))), None)
        if key not in entries and name is not None and name not in mentioned:
            found.append(
                f"{name} is not loaded, because {CONFIG_FILE} replaces the defaults and has no entry {key}: {{files: '{pattern}'}}"
            )
    return found


def options_of(entry: Any) -> Mapping[str, Any]:
    """The options of an entry: its mapping; of a string or a list, which are its `files`, these; none of anything else.

    >>> options_of({"files": "a"}), options_of("a/*.py"), options_of(True)
    ({'files': 'a'}, {'files': 'a/*.py'}, {})
    """
    if isinstance(entry, Mapping):
        return {str(key): value for key, value in entry.items()}
    return {"files": entry} if isinstance(entry, str | list) else {}
