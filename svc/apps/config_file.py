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


def options_of(entry: Any) -> Mapping[str, Any]:
    """The options of an entry: its mapping; of a string or a list, which are its `files`, these; none of anything else.

    >>> options_of({"files": "a"}), options_of("a/*.py"), options_of(True)
    ({'files': 'a'}, {'files': 'a/*.py'}, {})
    """
    if isinstance(entry, Mapping):
        return {str(key): value for key, value in entry.items()}
    return {"files": entry} if isinstance(entry, str | list) else {}
