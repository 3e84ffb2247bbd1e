"""From one version of a project to the next (spec: deployment §3).

A switch is decided by its journal, which says what is to be:

    target       what the link of the project points to, relative to `componentsRoot` or absolute; null: there is no project
    aside        where a directory that was made by hand goes to
    restored     a directory that comes from there, in place of a link
    entry        of the project in svc-config.yaml; null: none; absent: it stays

Until it is on the disk, the former version is served, whatever happens; from then on the new one, for `finish` does what is left of these steps,
now or at the next start, before any application is loaded. Each step may be done twice:

    1. the directory goes aside    2. the link is made aside and renamed    3. the configuration    4. the journal is removed
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from svc.deploying.layout import AREA, PAYLOADS, Layout
from svc.deploying.unpacking import remove_tree

SetEntry = Callable[[str, Mapping[str, Any] | None], None]
"""Writes the entry of a project into the configuration file, or removes it; nothing is written if it is there already. Blocks."""

KEEP = object()
"""The entry of the project stays as it is."""


def begin(
    layout: Layout, project: str, target: Path | None, *, deployment_id: str = "", entry: Any = KEEP, restored: str | None = None
) -> dict[str, Any]:
    """Decide a switch: write its journal, and return it. From here on `finish` must be called, by this process or the next."""
    path = layout.project(project)
    journal: dict[str, Any] = {"project": project, "deployment_id": deployment_id, "target": _relative(layout, target), "former": None}
    if path.is_symlink():
        journal["former"] = os.readlink(path)
    elif path.exists():
        journal["aside"] = layout.spare(project).name
    if restored is not None:
        journal["restored"] = restored
    if entry is not KEEP:
        journal["entry"] = entry
    layout.make()
    layout.write_journal(project, journal)
    return journal


def finish(layout: Layout, journal: Mapping[str, Any], set_entry: SetEntry) -> None:
    """Do what a journal says. Raises OSError and what `set_entry` raises: then it is to be called again."""
    project = str(journal["project"])
    path = layout.project(project)
    aside, restored, target = journal.get("aside"), journal.get("restored"), journal.get("target")
    if aside is not None and not path.is_symlink() and path.exists() and not (layout.area / aside).exists():
        path.rename(layout.area / aside)
    if restored is not None and (layout.area / restored).exists():
        path.unlink(missing_ok=True)
        (layout.area / restored).rename(path)
    elif restored is None and target is not None:
        link = layout.area / f".{project}.link"
        link.unlink(missing_ok=True)
        link.symlink_to(target)
        link.replace(path)
    elif restored is None and path.is_symlink():
        path.unlink()
    if "entry" in journal:
        set_entry(project, journal["entry"])
    _sync_directory(layout.root)
    layout.remove_journal(project)


def go_back(layout: Layout, journal: Mapping[str, Any], set_entry: SetEntry, former_entry: Any = KEEP) -> None:
    """Serve what was served before a switch that `finish` has done. `former_entry`: the entry of the configuration before it."""
    project = str(journal["project"])
    former, aside = journal.get("former"), journal.get("aside")
    target = None if former is None else layout.root / former
    entry = former_entry if "entry" in journal else KEEP
    restored = aside if aside is not None and (layout.area / aside).exists() else None
    finish(layout, begin(layout, project, target, entry=entry, restored=restored), set_entry)


def recover(layout: Layout, set_entry: SetEntry, report: Callable[[str], None], projects: Iterable[str] | None = None) -> list[str]:
    """Finish the switches that were decided before a process ended, of all projects or of these. At the start, before applications are loaded.

    Returns the ids of their deployments. What cannot be finished is reported, and tried again at the next start.
    """
    found = []
    for project in list(layout.journals() if projects is None else projects):
        journal = layout.read_journal(project)
        if journal is None and not layout.journal(project).exists():  # its process has finished it meanwhile
            continue
        if journal is None:
            report(f"the journal {layout.journal(project)} cannot be read and is ignored")
            continue
        try:
            finish(layout, journal, set_entry)
        except Exception as error:
            report(f"the deployment of {project} cannot be finished: {error}")
            continue
        found.append(str(journal.get("deployment_id", "")))
    return found


def names_in(layout: Layout) -> list[str]:
    """The names in the area."""
    try:
        return os.listdir(layout.area)
    except FileNotFoundError:
        return []


def clean(layout: Layout, in_use: Iterable[Path] = (), changing: Iterable[str] = (), names: Iterable[str] | None = None) -> None:
    """Remove versions that nothing refers to: no link of a project, no journal, and none of `in_use`, the directories of what runs.

    `changing`: projects of which nothing is removed, for they are being changed: what was made by hand may have to come back. `names`: what may be
    removed, as `names_in` has found it before `changing` was looked at, for deployments begin all the time.
    """
    if not layout.area.is_dir():
        return
    kept = {AREA, PAYLOADS, *(_top(layout, path) for path in in_use)}
    with suppress(OSError):
        for path in layout.root.iterdir():
            if path.is_symlink():
                kept.add(_top(layout, layout.root / os.readlink(path)))
    for project in layout.journals():
        journal = layout.read_journal(project) or {}
        for key in ("target", "former"):
            if journal.get(key):
                kept.add(_top(layout, layout.root / journal[key]))
        kept |= {str(journal[key]) for key in ("aside", "restored") if journal.get(key)}
    untouched = tuple(begin for project in changing for begin in (f"{project}-", f".{project}-", f".{project}."))
    for name in names_in(layout) if names is None else names:
        if name not in kept and not name.startswith(untouched) and not name.endswith(".json"):
            remove_tree(layout.area / name)


def _top(layout: Layout, path: Path) -> str:
    """The name in the area that a path is in; empty if it is elsewhere."""
    normal, area = os.path.normpath(path), os.path.normpath(layout.area)
    return normal[len(area) + 1 :].split(os.sep)[0] if normal.startswith(area + os.sep) else ""


def _relative(layout: Layout, target: Path | None) -> str | None:
    if target is None:
        return None
    text = os.path.normpath(target)
    root = os.path.normpath(layout.root)
    return text[len(root) + 1 :] if text.startswith(root + os.sep) else text


def _sync_directory(directory: Path) -> None:
    descriptor = os.open(directory, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
