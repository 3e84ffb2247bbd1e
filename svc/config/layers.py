"""Whole objects from the environment: `SVC_DEFAULT_CONFIG`, `SVC_CONFIG_JSON`, `SVC_SET_CONFIG` (contract: configuration §3.2).

High to low: SVC_SET_CONFIG, single values (command line, environment), SVC_CONFIG_JSON, edits in the file, SVC_DEFAULT_CONFIG, built-in
defaults. What a variable sets is written into the file like everything else, so the file alone does not tell an edit of its owner from what
a variable wrote there last time. That is what the state file is for:

    backup/.svc-config-state.json
      version    1
      written    {name: value}   what we wrote last; a leaf of the file that differs was edited by hand
      sources    {name: layer}   the leaves that a variable set, and which one
      originals  {name: value}   what the file held before; missing: nothing

When a name leaves its variable, the value that was there before returns; after SVC_SET_CONFIG the key is deleted. A value edited by hand
in between is the owner's and stays, except under the two layers that beat the file anyway.
Names here are paths as JSON lists, for keys of components may contain dots.
"""

import copy
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from svc.config.document import Document, changed, write_private
from svc.errors import ConfigError

DEFAULT, JSON, SET = "SVC_DEFAULT_CONFIG", "SVC_CONFIG_JSON", "SVC_SET_CONFIG"
LAYERS = (DEFAULT, JSON, SET)
"""The variables, lowest first."""

STATE_FILE = ".svc-config-state.json"
STATE_VERSION = 1

Path_ = tuple[str, ...]
Leaves = dict[Path_, Any]


@dataclass
class State:
    """What the last start left: see the module's docstring."""

    written: Leaves
    sources: dict[Path_, str]
    originals: Leaves


@dataclass
class Merged:
    """The document to run with and to write. `needs_copy`: a single value changed it, so the file before is kept as `.bak`."""

    document: Document
    needs_copy: bool
    state: State | None
    state_file: Path

    def save_state(self) -> None:
        """Keep where each value came from; without the variables there is no state, and no file."""
        if self.state is None:
            self.state_file.unlink(missing_ok=True)
            return
        content = {
            "version": STATE_VERSION,
            "written": _rows(self.state.written),
            "sources": _rows(self.state.sources),
            "originals": _rows(self.state.originals),
        }
        self.state_file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        data = json.dumps(content, indent=1, ensure_ascii=False, default=str).encode()
        if not self.state_file.exists() or self.state_file.read_bytes() != data:
            write_private(self.state_file, data)


def merge(before: Document, singles: Mapping[str, object], environ: Mapping[str, str], root: Path) -> Merged:
    """The file's document with all layers and the single values (by dotted name) on it. Writes nothing.

    Raises ConfigError naming the variable that is not a JSON object.
    """
    state_file = root / "backup" / STATE_FILE
    given = {name: _parsed(name, environ[name]) for name in LAYERS if environ.get(name)}
    state = _read_state(state_file)
    if not given and state is None:
        document = changed(before, dict(singles))
        return Merged(document, document != before, None, state_file)
    state = state or State({}, {}, {})
    document = copy.deepcopy(before)
    sources: dict[Path_, str] = {}
    originals: Leaves = {}
    _give_back(document, {name: leaves_of(layer) for name, layer in given.items()}, state)
    for name in LAYERS:
        for path, value in leaves_of(given.get(name, {})).items():
            # From here on `state` tells what the file held before any variable; an earlier layer of this start tells it too.
            original = originals.get(path, state.originals.get(path)) if path in sources or path in state.sources else _get(before, path)
            present = path in originals or path in state.originals if path in sources or path in state.sources else _has(before, path)
            if name == DEFAULT and _is_edited(before, path, state):
                continue
            if present:
                originals[path] = original
            sources[path] = name
            _set(document, path, with_unions(value, _get(document, path)))
    layered = copy.deepcopy(document)
    forced = {path for path, name in sources.items() if name == SET}
    weaker = {name: value for name, value in singles.items() if not _below(tuple(name.split(".")), forced)}
    document = changed(document, weaker)
    return Merged(document, document != layered, State(leaves_of(document), sources, originals) if sources else None, state_file)


def _parsed(name: str, text: str) -> Document:
    try:
        value = json.loads(text)
    except ValueError as error:
        raise ConfigError(f"{name} is not valid JSON: {error}") from error
    if not isinstance(value, dict):
        raise ConfigError(f"{name} must be a JSON object")
    return value


def _give_back(document: Document, given: Mapping[str, Leaves], state: State) -> None:
    """Undo what variables set last time and do not set any more, unless its owner has changed it since."""
    for path, name in state.sources.items():
        if path in given.get(name, {}):
            continue
        if path in state.written and _get(document, path) != state.written[path]:
            continue
        if name != SET and path in state.originals:
            _set(document, path, state.originals[path])
        else:
            _remove(document, path)


def _is_edited(document: Document, path: Path_, state: State) -> bool:
    """Whether the owner of the file changed this value since we wrote it. At the first start with a variable nothing counts as edited."""
    if not state.written:
        return False
    if path not in state.written:
        return _has(document, path)
    return bool(_get(document, path) != state.written[path])


def with_unions(value: object, present: object) -> object:
    """Resolve `{"$union": [...]}`: what is there, then what is not there yet, in order; applying it again changes nothing.

    >>> with_unions({"$union": ["b", "c"]}, ["a", "b"])
    ['a', 'b', 'c']
    """
    if not _is_union(value):
        return copy.deepcopy(value)
    assert isinstance(value, dict)
    result = list(present) if isinstance(present, list) else []
    result += [item for index, item in enumerate(value["$union"]) if item not in result and item not in value["$union"][:index]]
    return result


def _is_union(value: object) -> bool:
    return isinstance(value, dict) and len(value) == 1 and isinstance(value.get("$union"), list)


def leaves_of(document: Mapping[str, Any], above: Path_ = ()) -> Leaves:
    """Every value that is not a mapping, by its path; an empty mapping and a union are values."""
    result: Leaves = {}
    for key, value in document.items():
        path = (*above, str(key))
        if isinstance(value, dict) and value and not _is_union(value):
            result.update(leaves_of(value, path))
        else:
            result[path] = value
    return result


def _below(path: Path_, others: set[Path_]) -> bool:
    return any(other[: len(path)] == path or path[: len(other)] == other for other in others)


def _get(document: object, path: Path_) -> Any:
    for part in path:
        if not isinstance(document, dict):
            return None
        document = document.get(part)
    return document


def _has(document: object, path: Path_) -> bool:
    for part in path:
        if not isinstance(document, dict) or part not in document:
            return False
        document = document[part]
    return True


def _set(document: Document, path: Path_, value: object) -> None:
    for part in path[:-1]:
        inner = document.get(part)
        if not isinstance(inner, dict):
            inner = document[part] = {}
        document = inner
    document[path[-1]] = value


def _remove(document: Document, path: Path_) -> None:
    """Delete a key, and the mappings that it leaves empty."""
    inner = _get(document, path[:-1])
    if isinstance(inner, dict):
        inner.pop(path[-1], None)
        if not inner and len(path) > 1:
            _remove(document, path[:-1])


def _rows(leaves: Mapping[Path_, Any]) -> list[list[Any]]:
    return [[list(path), value] for path, value in leaves.items()]


def _leaves(rows: object) -> dict[Path_, Any]:
    return {tuple(path): value for path, value in rows} if isinstance(rows, list) else {}


def _read_state(file: Path) -> State | None:
    """The state, None if there is none or it cannot be read: then the file counts as its owner's."""
    try:
        content = json.loads(file.read_bytes())
        if content["version"] != STATE_VERSION:
            return None
        return State(_leaves(content["written"]), _leaves(content["sources"]), _leaves(content["originals"]))
    except (OSError, ValueError, KeyError, TypeError):
        return None
