"""The configuration as a nested document: reading and writing YAML, former names, setting single values (contract: configuration §2.12).

A document is what the file holds: nested dicts with the contract's names. Nothing here knows types or defaults; `build` does.
"""

import copy
import os
from pathlib import Path
from typing import Any

from svc.config.settings import LEGACY, SECTIONS, WITHOUT_EFFECT
from svc.config.values import is_given, lookup
from svc.errors import ConfigError

Document = dict[str, Any]


def read_document(file: Path) -> Document:
    """Parse the file. Raises ConfigError if it cannot be read or is not a mapping; an empty file is an empty document."""
    import yaml  # only commands that read a configuration pay for the import

    try:
        text = file.read_text(encoding="utf-8")
        document = yaml.load(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{file} cannot be read: {error}") from error
    except yaml.YAMLError as error:
        raise ConfigError(f"{file} is not valid YAML: {error}") from error
    if document is None:
        return {}
    if not isinstance(document, dict):
        raise ConfigError(f"{file} must hold a mapping")
    return _with_text_keys(document)


def _with_text_keys(document: dict[Any, Any]) -> Document:
    return {str(key): _with_text_keys(value) if isinstance(value, dict) else value for key, value in document.items()}


def render_document(document: Document) -> str:
    import yaml

    return yaml.dump(document, Dumper=getattr(yaml, "CSafeDumper", yaml.SafeDumper), sort_keys=False, allow_unicode=True, width=120)


def write_document(file: Path, document: Document) -> None:
    """Replace the file in one step, readable for its owner only; after a crash it is the old or the new one."""
    write_private(file, render_document(document).encode())


def write_private(file: Path, data: bytes) -> None:
    """Write a file with mode 0600 in one step: to a neighbour, fsync, rename."""
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


def modernise(document: Document) -> tuple[Document, list[str]]:
    """A copy with today's names only, and a sentence for each former name found. Where both are given, today's wins.

    Former names stand at the top level, flat (`log_level: debug`) or as the mapping they used to be (`customFunctions: {network: ...}`).
    """
    result = copy.deepcopy(document)
    notes: list[str] = []
    former: list[tuple[str, object]] = []
    for key in list(result):
        if key == "threads":
            former += _take_threads(result)
        elif key == "customFunctions" or (key not in SECTIONS and (key.lower() in _FORMER or key.lower() in _IGNORED)):
            former += _leaves(key, result.pop(key)) if key == "customFunctions" else [(key, result.pop(key))]
    # `https_on` moves the port that another former name may set, so it comes last.
    for name, value in sorted(former, key=lambda pair: pair[0].lower() == "https_on"):
        if name.lower() not in _FORMER:
            notes.append(f"'{name}' has no effect any more")
            continue
        changes = translated(result, name, value)
        for new, moved in changes.items():
            if name.lower() == "https_on" or not is_given(result, new.split(".")):
                set_value(result, new, moved)
        notes.append(f"'{name}' is now called '{_FORMER[name.lower()]}'")
    return result, notes


def translated(document: Document, old: str, value: object) -> dict[str, object]:
    """The settings a former name stands for: one of another name, except for two that mean something else than they say."""
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
_IGNORED = {name.lower() for name in WITHOUT_EFFECT}


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
