"""Where deployments keep their files (spec: deployment §3).

<componentsRoot>/
    shop -> .deployments/shop-4f1c     a link to the version that is served, or a directory that was made by hand
    .deployments/
        shop-4f1c/                     a version; packages of others in its .packages
        shop.json                      the journal of a switch that has begun
        payloads/<deployment id>       archives as they were sent
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import suppress
from ctypes import CDLL
from pathlib import Path
from typing import Any
from uuid import uuid4

from svc.config.document import write_private
from svc.deploying.names import project_fault

AREA = ".deployments"
PAYLOADS = "payloads"
KEPT_PAYLOADS = 5  # of a project


class Layout:
    """The paths below one `componentsRoot`."""

    def __init__(self, components_root: Path) -> None:
        self.root = components_root
        self.area = components_root / AREA

    def project(self, project: str) -> Path:
        """What is served: a link, a directory, or nothing yet."""
        return self.root / project

    def version(self, project: str, deployment_id: str) -> Path:
        return self.area / f"{project}-{deployment_id}"

    def journal(self, project: str) -> Path:
        return self.area / f"{project}.json"

    def payload(self, deployment_id: str) -> Path:
        return self.area / PAYLOADS / deployment_id

    def payloads(self) -> list[Path]:
        with suppress(OSError):
            return list((self.area / PAYLOADS).iterdir())
        return []

    def make(self) -> None:
        (self.area / PAYLOADS).mkdir(mode=0o700, parents=True, exist_ok=True)

    def spare(self, what: str) -> Path:
        """A path in the area that nothing has."""
        return self.area / f".{what}-{uuid4().hex[:12]}"

    def projects(self) -> list[str]:
        """The names of all projects."""
        try:
            with os.scandir(self.root) as entries:
                return sorted(entry.name for entry in entries if project_fault(entry.name) is None and _is_directory(entry))
        except OSError:
            return []

    def exists(self, project: str) -> bool:
        return os.path.lexists(self.project(project))

    def served(self, project: str) -> Path | None:
        """The directory of the version that is served, links resolved; None if there is none."""
        path = self.project(project)
        return path.resolve() if path.is_dir() else None

    def read_journal(self, project: str) -> dict[str, Any] | None:
        try:
            found = json.loads(self.journal(project).read_text("utf-8"))
        except (OSError, ValueError):
            return None
        return found if isinstance(found, dict) and found.get("project") == project else None

    def write_journal(self, project: str, content: Mapping[str, Any]) -> None:
        """On the disk when this returns, with all that was written before."""
        sync(self.area)
        write_private(self.journal(project), json.dumps(content, ensure_ascii=False).encode())

    def remove_journal(self, project: str) -> None:
        self.journal(project).unlink(missing_ok=True)

    def journals(self) -> Iterator[str]:
        """The names of projects with a journal."""
        with suppress(OSError):
            for path in sorted(self.area.glob("*.json")):
                if project_fault(path.stem) is None:
                    yield path.stem


def _is_directory(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError:  # a link that leads nowhere, or in a circle
        return False


def sync(directory: Path) -> None:
    """Write all files of the volume of a directory to the disk: those of a version are many."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_CLOEXEC)
    try:
        CDLL(None).syncfs(descriptor)
    except AttributeError:  # only Linux has it
        os.sync()
    finally:
        os.close(descriptor)
