"""Whole objects from the environment: `SVC_DEFAULT_CONFIG`, `SVC_CONFIG_JSON`, `SVC_SET_CONFIG` (spec: configuration §3.2).

High to low: SVC_SET_CONFIG, single values (command line, environment), SVC_CONFIG_JSON, edits in the file, SVC_DEFAULT_CONFIG, built-in
defaults. The result without the single values is written into the file, so the file alone does not distinguish edits of its owner from values of
variables. The state file does; both together give the owner's document, and every start applies the layers to that one again:

    backup/.svc-config-state.json
      version    1
      written    the document as we wrote it; a leaf of the file that differs was edited by hand
      sources    which variable set a leaf
      originals  what the owner's document holds there; missing: nothing
      edited     leaves edited by hand, to which SVC_DEFAULT_CONFIG yields even where they equal a built-in default

So a value returns when its name leaves the variable, and a `$union` is idempotent. A name that leaves SVC_SET_CONFIG is deleted.
Leaves are named by paths (lists in JSON), for names of components may contain dots.
"""

import copy
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from svc.config.document import Document, changed, remove_value, write_private
from svc.config.settings import BY_NAME
from svc.config.values import is_given, lookup
from svc.errors import ConfigError

DEFAULT, JSON, SET = "SVC_DEFAULT_CONFIG", "SVC_CONFIG_JSON", "SVC_SET_CONFIG"
LAYERS = (DEFAULT, JSON, SET)

STATE_FILE = ".svc-config-state.json"
STATE_VERSION = 1

Leaf = tuple[str, ...]


@dataclass
class LayerState:
    """The state file of the last start; its fields are those of the file format in the module's docstring."""

    written: Document = field(default_factory=dict)
    sources: dict[Leaf, str] = field(default_factory=dict)
    originals: dict[Leaf, Any] = field(default_factory=dict)
    edited: set[Leaf] = field(default_factory=set)


@dataclass
class MergedDocument:
    """A document with the layers on it. `state`: where its values came from, None without variables."""

    document: Document
    state: LayerState | None
    state_file: Path

    def leaves_of_variable(self, name: str) -> set[Leaf]:
        """The values that a variable has set."""
        return set() if self.state is None else {leaf for leaf, source in self.state.sources.items() if source == name}

    def save_state(self) -> None:
        """Keep where each value came from. No variable, no file."""
        if self.state is None:
            self.state_file.unlink(missing_ok=True)
            return
        content = {
            "version": STATE_VERSION,
            "written": self.state.written,
            "sources": [[list(leaf), name] for leaf, name in self.state.sources.items()],
            "originals": [[list(leaf), value] for leaf, value in self.state.originals.items()],
            "edited": sorted(list(leaf) for leaf in self.state.edited),
        }
        self.state_file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        data = json.dumps(content, indent=1, ensure_ascii=False, default=str).encode()
        if not self.state_file.exists() or self.state_file.read_bytes() != data:
            write_private(self.state_file, data)


def merge(file: Document, singles: Mapping[str, object], environ: Mapping[str, str], root: Path) -> MergedDocument:
    """The file's document with all layers and the single values (by dotted name) on it. Writes nothing.

    Raises ConfigError naming the variable that is not a JSON object.
    """
    state_file = root / "backup" / STATE_FILE
    given = {name: leaves_of(_parsed(name, environ[name])) for name in LAYERS if environ.get(name)}
    state = _read_state(state_file)
    if not given and state is None:
        return MergedDocument(changed(file, dict(singles)), None, state_file)
    state = state or LayerState(copy.deepcopy(file))
    owner, edited = _owner_document(file, state)
    for leaf, name in state.sources.items():
        if name == SET and leaf not in given.get(SET, {}):
            remove_value(owner, leaf)
    owner = changed(owner, dict(singles))
    document, sources = _layered(owner, given, {tuple(name.split(".")) for name in singles}, edited, root)
    originals = {leaf: lookup(owner, leaf) for leaf in sources if is_given(owner, leaf)}
    kept = LayerState(copy.deepcopy(document), sources, originals, edited) if given else None
    return MergedDocument(document, kept, state_file)


def _owner_document(file: Document, state: LayerState) -> tuple[Document, set[Leaf]]:
    """The owner's document: the one written last, without the values of variables, with the edits made since. And the paths of all edits."""
    owner = copy.deepcopy(state.written)
    for leaf in state.sources:
        if leaf in state.originals:
            _set(owner, leaf, state.originals[leaf])
        else:
            remove_value(owner, leaf)
    now, before = leaves_of(file), leaves_of(state.written)
    edited = set(state.edited)
    for leaf in before.keys() - now.keys():
        remove_value(owner, leaf)
        edited.discard(leaf)
    for leaf, value in now.items():
        if leaf not in before or before[leaf] != value:
            _set(owner, leaf, value)
            edited.add(leaf)
    return owner, edited


def _layered(
    owner: Document, given: Mapping[str, dict[Leaf, Any]], singles: set[Leaf], edited: set[Leaf], root: Path
) -> tuple[Document, dict[Leaf, str]]:
    """The owner's document with the variables applied, lowest first, and leaf -> variable. Single values are in the owner's document already."""
    document = copy.deepcopy(owner)
    sources: dict[Leaf, str] = {}
    for name in LAYERS:
        for leaf, value in given.get(name, {}).items():
            if name == DEFAULT and (leaf in edited or leaf in singles or not _is_default(owner, leaf, root)):
                continue
            if name == JSON and leaf in singles:
                continue
            _set(document, leaf, with_union(value, lookup(document, leaf)))
            sources[leaf] = name
    return document, sources


def _is_default(document: Document, leaf: Leaf, root: Path) -> bool:
    """Whether this value is missing or the one that an installation writes."""
    value = lookup(document, leaf)
    setting = BY_NAME.get(".".join(leaf))
    if value is None or value == [None] or setting is None:
        return value is None or value == [None]
    return value == setting.default or (setting.kind == "path" and value == str(root / str(setting.default)))


def _parsed(name: str, text: str) -> Document:
    try:
        value = json.loads(text)
    except ValueError as error:
        raise ConfigError(f"{name} is not valid JSON: {error}") from error
    if not isinstance(value, dict):
        raise ConfigError(f"{name} must be a JSON object")
    return value


def with_union(value: object, present: object) -> object:
    """Resolve `{"$union": [...]}`: the present list, then the missing elements, in order. Other values are returned unchanged.

    >>> with_union({"$union": ["b", "c"]}, ["a", "b"])
    ['a', 'b', 'c']
    """
    if not (isinstance(value, dict) and _is_union(value)):
        return copy.deepcopy(value)
    result = list(present) if isinstance(present, list) else []
    for item in value["$union"]:
        if item not in result:
            result.append(item)
    return result


def _is_union(value: Mapping[str, Any]) -> bool:
    return len(value) == 1 and isinstance(value.get("$union"), list)


def leaves_of(document: Mapping[str, Any], above: Leaf = ()) -> dict[Leaf, Any]:
    """Every value that is not a mapping, by its path; an empty mapping and a union are values.

    >>> leaves_of({"http": {"port": 1, "mtls": {}}})
    {('http', 'port'): 1, ('http', 'mtls'): {}}
    """
    result: dict[Leaf, Any] = {}
    for key, value in document.items():
        path = (*above, str(key))
        if isinstance(value, dict) and value and not _is_union(value):
            result.update(leaves_of(value, path))
        else:
            result[path] = value
    return result


def _set(document: Document, leaf: Leaf, value: object) -> None:
    for part in leaf[:-1]:
        inner = document.get(part)
        if not isinstance(inner, dict):
            inner = document[part] = {}
        document = inner
    document[leaf[-1]] = copy.deepcopy(value)


def _read_state(file: Path) -> LayerState | None:
    """The state, None if there is none or it cannot be used: then everything in the file counts as its owner's."""
    try:
        content = json.loads(file.read_bytes())
        if content["version"] != STATE_VERSION:
            return None
        return LayerState(
            content["written"],
            {tuple(leaf): name for leaf, name in content["sources"]},
            {tuple(leaf): value for leaf, value in content["originals"]},
            {tuple(leaf) for leaf in content["edited"]},
        )
    except (OSError, ValueError, KeyError, TypeError):
        return None
