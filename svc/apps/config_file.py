"""`config.yaml` of an application (spec: configuration §9.1)."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from svc.apps.reading import read_limited
from svc.apps.roles_file import DEFAULT_FILE
from svc.apps.yaml_values import yaml_fault

CONFIG_FILE = "config.yaml"
MAX_SIZE = 1 << 20  # bytes
MAX_VALUES = 100_000  # with what aliases repeat

DEFAULT_CONFIG: Mapping[str, Any] = {
    "rest": True,
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
    try:
        loaded = _load(raw.decode("utf-8"))
    except yaml.YAMLError as error:
        raise ValueError(yaml_fault(error)) from None
    except UnicodeDecodeError as error:
        raise ValueError(f"is not UTF-8: byte {error.start}") from None
    except RecursionError:
        raise ValueError("is nested too deeply") from None
    except (AttributeError, LookupError) as error:  # PyYAML's, of a value that its tag does not allow, such as `!!bool maybe`
        raise ValueError(f"has a value that is not what its tag says: {error}") from None
    if loaded is None:
        return {}
    if not isinstance(loaded, dict):
        raise ValueError("must be a mapping of entries")
    return {str(key): value for key, value in loaded.items()}


def _load(text: str) -> Any:
    loader = yaml.SafeLoader(text)
    try:
        node = loader.get_single_node()
        if node is None:
            return None
        _count(node, {})
        return loader.construct_document(node)
    finally:
        loader.dispose()


def _count(node: yaml.Node, counted: dict[int, int]) -> int:
    """How many values a node stands for: an alias to many, or a merge key, counts as many. Raises ValueError for too many.

    `counted`: id of a node -> what was found; 0 while it is being counted.
    """
    known = counted.get(id(node))
    if known is not None:
        if not known:
            raise ValueError("has a value that contains itself")
        return known
    counted[id(node)] = 0
    members: list[yaml.Node] = []
    if isinstance(node, yaml.SequenceNode):
        members = node.value
    elif isinstance(node, yaml.MappingNode):
        members = [each for pair in node.value for each in pair]
    count = 1 + sum(_count(each, counted) for each in members)
    if count > MAX_VALUES:
        raise ValueError(f"has more than {MAX_VALUES} values, or its aliases stand for more")
    counted[id(node)] = count
    return count


def options_of(entry: Any) -> Mapping[str, Any]:
    """The options of an entry: its mapping; of a string or a list, which are its `files`, these; none of anything else.

    >>> options_of({"files": "a"}), options_of("a/*.py"), options_of(True)
    ({'files': 'a'}, {'files': 'a/*.py'}, {})
    """
    if isinstance(entry, Mapping):
        return {str(key): value for key, value in entry.items()}
    return {"files": entry} if isinstance(entry, str | list) else {}
