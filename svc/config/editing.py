"""Changes of the configuration file, also while the server runs: read, change, check as a whole, keep a copy, replace (spec: operations §8).

What is in effect does not change by it, but for the `logging` sections, which a watcher reads again.
"""

from __future__ import annotations

import fcntl
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from svc.clock import Clock
from svc.config.build import Config, build
from svc.config.document import Document, read_marked, write_text
from svc.config.origins import Origins
from svc.config.overrides import copy_before_writing, rebuilt
from svc.config.patching import patched_text

_EDITING = threading.Lock()
"""Two edits at once would lose one of them."""

RELOADED = ("level", "format", "file", "root", "path", "stdStreams", "colors", "tag", "rotation.")
"""The fields of `logging` sections that take effect without a restart."""


@dataclass(frozen=True)
class Edit:
    """The result of an edit. `before`, `after`: the configurations of the file. `notes`: (level, sentence) to be logged."""

    before: Document
    after: Document
    config: Config
    notes: tuple[tuple[str, str], ...] = ()

    @property
    def changed(self) -> bool:
        return self.before != self.after


def edit_file(config: Config, change: Callable[[Document], Document], clock: Clock) -> Edit:
    """Replace the document of the file by `change(document)`; nothing is written if that is the same. Blocks: for a helper thread.

    `change` gets a document of its own. Raises ConfigError if the result is not valid, and what `change` raises: then the file is as it was.
    OSError if it cannot be written.
    """
    assert config.file is not None, "a configuration without a file cannot be edited"
    with _EDITING, _locked(config.file.parent):
        marked = read_marked(config.file)
        after = change(marked.copy())
        origins = Origins(config.file.name, {path: line for path, line in marked.lines.items() if _same(marked.document, after, path)})
        result = rebuilt(config, after, origins)
        if config.overrides:
            build(after, config.root, file=config.file, origins=origins)  # a start without the overrides of this one is possible as well
        if after == marked.document:
            return Edit(marked.document, after, result)
        notes = copy_before_writing(config.file, config.root, clock)
        write_text(config.file, patched_text(marked, after))
        return Edit(marked.document, after, result, tuple(notes))


@contextmanager
def _locked(directory: Path) -> Iterator[None]:
    """No other process edits the file: the server, or `svc config set` beside it."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)  # the lock goes with it


def _same(before: Document, after: Document, path: tuple[str, ...]) -> bool:
    """Whether a value is unchanged, so that its line is still known."""
    one: object = before
    other: object = after
    for part in path:
        if not isinstance(one, dict) or not isinstance(other, dict) or part not in one or part not in other:
            return one == other
        one, other = one[part], other[part]
    return one == other


def waiting_for_restart(running: Config, stored: Config) -> list[str]:
    """The settings, by dotted name, that differ between the configuration in effect and that of the file, and components."""
    names = [name for name in dict.fromkeys([*running.values, *stored.values]) if running.values.get(name) != stored.values.get(name)]
    found = [name for name in names if not _is_reloaded(name, running, stored)]
    components = dict.fromkeys([*running.components, *stored.components])
    return found + [
        name for name in components if _without_logging(running.components.get(name)) != _without_logging(stored.components.get(name))
    ]


def _without_logging(entry: object) -> object:
    return {key: value for key, value in entry.items() if key != "logging"} if isinstance(entry, dict) else entry


def is_reloaded(name: str) -> bool:
    """Whether a change of this setting in the file takes effect without a restart. Of `http.logging`, what does not begin or end the access log."""
    section, _, rest = name.partition(".")
    if section == "logging":
        return rest == "external" or rest.startswith(RELOADED)
    return rest == "logging" or name == "replication.routes"  # these can be changed at any time (spec: operations §12)


def _is_reloaded(name: str, running: Config, stored: Config) -> bool:
    if name == "http.logging":  # the access log exists or not from the start on
        return _access_log(running) == _access_log(stored)
    return is_reloaded(name)


def _access_log(config: Config) -> object:
    section = config.http.logging
    return None if section is None else [section.get(key) for key in ("timing", "headers", "id")]
