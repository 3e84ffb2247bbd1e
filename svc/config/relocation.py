"""A root directory that was copied or moved: its file may name paths below the directory it was in (spec: configuration §1).

Paths below the root are written relative to it. Where a file has absolute ones, of earlier versions or by hand, and its `rootPath` is another directory
than the one it is used with, those below that `rootPath` are meant: without this a copy would serve the data of its original.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

from svc.config.document import Document
from svc.config.sections import TLS_FIELDS
from svc.config.setting import ACCESS_LOG_FIELDS
from svc.config.settings import BY_NAME, LEGACY, SETTINGS

_PATHS = ("path", "paths")


@cache
def _path_keys() -> frozenset[str]:
    """The last part of the name of every setting that is a path, and former names of such settings."""
    rows = [*SETTINGS, *TLS_FIELDS, *ACCESS_LOG_FIELDS]
    current = {row.name.rpartition(".")[2] for row in rows if row.kind in _PATHS and row.name != "rootPath"}
    former = {old.rpartition(".")[2] for old, new in LEGACY.items() if new in BY_NAME and BY_NAME[new].kind in _PATHS and new != "rootPath"}
    return frozenset(current | former)


def relocated(document: Document, root: Path) -> Document:
    """The document with paths below the root that it states, if that is another one than `root`, relative. `document` itself if there are none."""
    stated = document.get("rootPath")
    if not isinstance(stated, str) or not stated or "\0" in stated:
        return document
    before = Path(stated).expanduser()
    if not before.is_absolute() or before == root:
        return document
    return _relative(document, before)  # type: ignore[no-any-return]


def _relative(value: Any, before: Path, *, is_path: bool = False) -> Any:
    """`value` itself if nothing changes."""
    if isinstance(value, dict):
        changed = {key: _relative(inner, before, is_path=key in _path_keys()) for key, inner in value.items()}
        return changed if any(changed[key] is not inner for key, inner in value.items()) else value
    if isinstance(value, list):
        items = [_relative(inner, before, is_path=is_path) for inner in value]
        return items if any(new is not old for new, old in zip(items, value, strict=True)) else value
    if is_path and isinstance(value, str) and "\0" not in value:
        path = Path(value).expanduser()
        if path.is_absolute() and path.is_relative_to(before) and path != before:
            return str(path.relative_to(before))
    return value
