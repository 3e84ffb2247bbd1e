"""The configuration as a nested document: reading and writing YAML, former names, setting single values (spec: configuration §2.12).

A document is what the file holds: nested dicts with the names of the specification. Nothing here knows types or defaults; `build` does.
"""

import copy
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from svc.config.settings import HIDDEN, LEGACY, SECRETS, SECTIONS, WITHOUT_EFFECT
from svc.config.values import is_given, lookup
from svc.errors import ConfigError

Document = dict[str, Any]


def read_document(file: Path) -> Document:
    """Parse the file. Raises ConfigError if it cannot be read or is not a mapping; an empty file is an empty document."""
    return read_marked(file).document


@dataclass(frozen=True)
class MarkedDocument:
    """A document and the lines of its keys: path -> line, from 1; elements of lists are `name[0]`. `doubled`: (path, its lines) of each key
    that a mapping has twice, of which the last counts."""

    document: Document
    text: str = ""
    lines: Mapping[tuple[str, ...], int] = field(default_factory=dict)
    doubled: Sequence[tuple[str, tuple[int, int]]] = ()

    def copy(self) -> Document:
        """A document of one's own."""
        return copy.deepcopy(self.document)


def read_marked(file: Path) -> MarkedDocument:
    """As `read_document`, with the lines."""
    try:
        text = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{file} cannot be read: {error}") from error
    return parse_marked(text, str(file))


def parse_marked(text: str, file: str) -> MarkedDocument:
    """Parse YAML; `file` names it in messages. Raises ConfigError."""
    import yaml  # only commands that read a configuration pay for the import

    try:
        loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)(text)
        try:
            node = loader.get_single_node()
            lines, doubled = _marks(node)
            document = None if node is None else loader.construct_document(node)
        finally:
            loader.dispose()
        if document is None:
            return MarkedDocument({}, text)
        if not isinstance(document, dict):
            raise ConfigError(f"{file} must hold a mapping")
        return MarkedDocument(_plain(document), text, lines, doubled)
    except yaml.MarkedYAMLError as error:
        position = f" line {error.problem_mark.line + 1}, column {error.problem_mark.column + 1}" if error.problem_mark else ""
        reason = ", ".join(part for part in (error.context, error.problem) if part)
        raise ConfigError(f"{file}{position} is not valid YAML: {reason}") from error
    except RecursionError as error:
        raise ConfigError(f"{file} is nested too deeply, or a part of it contains itself") from error
    except (yaml.YAMLError, ValueError, TypeError, AttributeError) as error:  # the others: dates and numbers that there are not
        raise ConfigError(f"{file} is not valid YAML: {error}") from error


def _marks(node: Any) -> tuple[dict[tuple[str, ...], int], list[tuple[str, tuple[int, int]]]]:
    """Lines of all keys below a node of the parser, and the doubled keys. What an alias repeats is where it was first written."""
    lines: dict[tuple[str, ...], int] = {}
    doubled: list[tuple[str, tuple[int, int]]] = []
    seen: set[int] = set()
    waiting: list[tuple[tuple[str, ...], Any]] = [((), node)]
    while waiting:
        path, node = waiting.pop()
        if node is None or id(node) in seen:
            continue
        seen.add(id(node))
        if node.id == "mapping":
            last: dict[str, Any] = {}
            for key, value in node.value:
                name, line = str(key.value), key.start_mark.line + 1
                if name in last and name != "<<":
                    doubled.append((".".join((*path, name)), (lines[(*path, name)], line)))
                last[name] = value
                lines[(*path, name)] = line
            waiting += [((*path, name), value) for name, value in last.items()]
        elif node.id == "sequence" and path:
            for number, value in enumerate(node.value):
                inner = (*path[:-1], f"{path[-1]}[{number}]")
                lines[inner] = value.start_mark.line + 1
                waiting.append((inner, value))
    return lines, doubled


def _plain(value: Any) -> Any:
    """A copy with strings as keys, and a copy of the value for each use of an alias. Raises RecursionError for a value that contains itself."""
    if isinstance(value, dict):
        return {str(key): _plain(inner) for key, inner in value.items()}
    return [_plain(inner) for inner in value] if isinstance(value, list) else value


def render_document(document: Document) -> str:
    import yaml

    return yaml.dump(document, Dumper=getattr(yaml, "CSafeDumper", yaml.SafeDumper), sort_keys=False, allow_unicode=True, width=120)


def write_document(file: Path, document: Document) -> None:
    """Replace the file in one step, readable for its owner only; after a crash it is the old or the new one."""
    write_text(file, render_document(document))


def write_text(file: Path, text: str) -> None:
    """As `write_document`, for rendered YAML."""
    write_private(file, text.encode())


def write_private(file: Path, data: bytes) -> None:
    """Write a file with mode 0600 in one step: to a neighbour, fsync, rename, and fsync of the directory that has the new name."""
    part = file.with_name(f".{file.name}.{os.getpid()}.part")
    descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    try:
        with os.fdopen(descriptor, "wb") as stream:
            stream.write(data)
            stream.flush()
            os.fsync(stream.fileno())
        part.replace(file)
    except BaseException:
        part.unlink(missing_ok=True)
        raise
    directory = os.open(file.parent, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)


def without_secrets(document: Document) -> Document:
    """The same document with HIDDEN in place of the values of SECRETS.

    >>> without_secrets({"mail": {"host": "smtp.example.org", "password": "x"}, "mqtt": None})
    {'mail': {'host': 'smtp.example.org', 'password': '***'}, 'mqtt': None}
    """
    shown = dict(document)
    for name in SECRETS:
        section, _, key = name.partition(".")
        inner = shown.get(section)
        if isinstance(inner, Mapping) and inner.get(key) is not None:
            shown[section] = {**inner, key: HIDDEN}
    return shown


def set_value(document: Document, name: str, value: object) -> None:
    """Set the value with this dotted name; mappings on the way are made, a scalar in the way is replaced."""
    *sections, last = name.split(".")
    for part in sections:
        inner = document.get(part)
        if not isinstance(inner, dict):
            inner = document[part] = {}
        document = inner
    document[last] = value


def changed(document: Document, changes: dict[str, object]) -> Document:
    """A copy of the document with these dotted names set."""
    result = copy.deepcopy(document)
    for name, value in changes.items():
        set_value(result, name, value)
    return result


def without_values(document: Document, names: Sequence[str]) -> Document:
    """The document without these settings, by today's names: also where it has them under former ones, and without mappings that become empty."""
    result = copy.deepcopy(document)
    for key in [key for key in result if _FORMER.get(key.lower()) in names and key not in SECTIONS]:
        del result[key]
    for name in names:
        remove_value(result, name.split("."))
    return result


def remove_value(document: Document, path: Sequence[str]) -> None:
    """Delete a key, and the mappings that it leaves empty."""
    inner = lookup(document, path[:-1])
    if isinstance(inner, dict) and path[-1] in inner:
        del inner[path[-1]]
        if not inner and len(path) > 1:
            remove_value(document, path[:-1])


def migrate_names(document: Document) -> tuple[Document, list[tuple[str, str]]]:
    """A copy with today's names only, and for each former name found that name and a sentence. Where both are given, today's wins.

    Former names are at the top level, flat (`log_level: debug`) or as the mapping they used to be (`customFunctions: {network: ...}`).
    """
    result = copy.deepcopy(document)
    notes: list[tuple[str, str]] = []
    former: list[tuple[str, object]] = []
    for key in list(result):
        if key == "threads":
            former += _take_threads(result)
        elif key == "customFunctions" or (key not in SECTIONS and (key.lower() in _FORMER or key.lower() in _IGNORED)):
            former += _leaves(key, result.pop(key)) if key == "customFunctions" else [(key, result.pop(key))]
    # `https_on` moves the port that another former name may set, so it comes last.
    for name, value in sorted(former, key=lambda pair: pair[0].lower() == "https_on"):
        if name.lower() not in _FORMER:
            notes.append((name, f"'{name}' has no effect: {_IGNORED[name.lower()]}"))
            continue
        changes = translated(result, name, value)
        for new, moved in changes.items():
            if name.lower() == "https_on" or not is_given(result, new.split(".")):
                set_value(result, new, moved)
        notes.append((name, f"'{name}' is now called '{_FORMER[name.lower()]}'"))
    for name, sentence in WITHOUT_EFFECT.items():
        if "." in name and is_given(result, name.split(".")):
            remove_value(result, name.split("."))
            notes.append((name, f"'{name}' has no effect: {sentence}"))
    return result, notes


def translated(document: Document, old: str, value: object) -> dict[str, object]:
    """The settings that replace a former name: one of another name, except for two whose value is translated too."""
    new = _FORMER[old.lower()]
    if old.lower() == "disable_transaction_log":
        return {new: not value if isinstance(value, bool) else value}
    if old.lower() == "https_on":
        network = lookup(document, ("operationsApi", "network")) or {}
        if value is not True or network.get("securePort") is not None:
            return {}
        return {"operationsApi.network.securePort": network.get("port", 9925), "operationsApi.network.port": None}
    return {new: value}


_FORMER = {old.lower(): new for old, new in LEGACY.items()}
_IGNORED = {name.lower(): sentence for name, sentence in WITHOUT_EFFECT.items() if "." not in name}


def _leaves(name: str, value: object) -> list[tuple[str, object]]:
    if not isinstance(value, dict):
        return [(name, value)]
    return [leaf for key, inner in value.items() for leaf in _leaves(f"{name}_{key}", inner)]


def _take_threads(document: Document) -> list[tuple[str, object]]:
    """Take the number out of `threads: 3`, `threads: {count: 3}` or `threads: {count: {count: 3}}`; the other keys stay, without effect."""
    section = document.pop("threads")
    count = section
    while isinstance(count, dict):
        count = count.get("count")
    rest = {key: value for key, value in section.items() if key != "count"} if isinstance(section, dict) else {}
    if rest:
        document["threads"] = rest
    return [] if count is None else [("threads", count)]


def merged(document: Document, other: Document) -> Document:
    """`other` merged over the document: mappings at any depth, everything else replaces."""
    result = copy.deepcopy(document)
    for key, value in other.items():
        inner = result.get(key)
        result[key] = merged(inner, value) if isinstance(inner, dict) and isinstance(value, dict) else copy.deepcopy(value)
    return result
