"""The steps of one deployment up to the moment at which it is decided (spec: deployment §3).

store or fetch -> unpack -> install -> trial load            an error in any of these leaves nothing behind
switch: the journal is written                               from here on the new version is served
finish: the link, the configuration; then the applications are loaded again, and the former version is removed, or served again
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from svc.deploying.fetching import Credentials, Fetcher
from svc.deploying.installing import Install, install
from svc.deploying.layout import Layout
from svc.deploying.names import check_project
from svc.deploying.payloads import Payload, StoredPayload, store_payload
from svc.deploying.references import Reference
from svc.deploying.trying import TrialRequest, TrialResult, try_load
from svc.deploying.unpacking import DEFAULT_LIMITS, ArchiveLimits, remove_tree, unpack, written_fault
from svc.errors import ClientError
from svc.store.backup.watch import Watch

PREPARE, LOAD, RESTART = "prepare", "load", "restart"
"""The phases of a deployment."""

Report = Callable[[str, str], None]
"""Gets the phase and what happens in it, on the thread that works."""


@dataclass(frozen=True)
class DeploymentRequest:
    """What is to be deployed: a payload or a reference. `trial`: what the trial load has to know."""

    project: str
    deployment_id: str
    payload: Payload | None = None
    reference: Reference | None = None
    credentials: Credentials | None = None
    install: Install = field(default_factory=Install)
    trial: TrialRequest | None = None
    limits: ArchiveLimits = DEFAULT_LIMITS


class Deployment:
    """One deployment. `watch`: stops it. Its methods block, and are called one after the other, on any thread."""

    def __init__(self, layout: Layout, wish: DeploymentRequest, watch: Watch, report: Report) -> None:
        check_project(wish.project)
        self.layout = layout
        self.wish = wish
        self.watch = watch
        self.report = report
        self.directory = layout.version(wish.project, wish.deployment_id)
        self.target = self.directory
        self.stored: StoredPayload | None = None

    @property
    def paths(self) -> tuple[Path, ...]:
        """What this deployment makes in the area."""
        return self.directory, self._trial_place, self.directory.with_name(f"{self.directory.name}.download")

    @property
    def _trial_place(self) -> Path:
        return self.directory.with_name(f"{self.directory.name}.trial")

    def store(self) -> StoredPayload | None:
        """Put the payload into a file."""
        if self.wish.payload is None:
            return None
        self._make()
        self.stored = store_payload(self.wish.payload, self.layout.payload(self.wish.deployment_id), self.watch)
        return self.stored

    def _make(self) -> None:
        try:
            self.layout.make()
        except OSError as error:
            raise written_fault(error, self.layout.area) from error

    def prepare(self, fetcher: Fetcher) -> TrialResult:
        """Unpack, install and try a version. Whatever it raises, `discard` is to be called then."""
        wish = self.wish
        self._make()
        try:
            if self.stored is not None:
                self.report(PREPARE, f"unpacks {self.stored.size} bytes")
                with self.stored.path.open("rb") as file:
                    unpack(file, self.directory, wish.limits, self.watch)
            else:
                assert wish.reference is not None
                self.report(PREPARE, "fetches the package")
                linked = fetcher.fetch(wish.reference, self.directory, wish.credentials)
                if linked is not None:
                    self._check_linked(linked)
                    self.target = linked
            self.watch.check()
            if install(self.target, wish.install, self.watch, lambda line: self.report(PREPARE, line)):
                self.report(PREPARE, "the packages are installed")
            self.report(LOAD, "loads the application in a process of its own")
            trial = wish.trial or TrialRequest(self.target, wish.project)
            request = TrialRequest(self.target, wish.project, trial.document, trial.tables, trial.others, trial.directories)
            return try_load(request, self._trial_place, self.watch, lambda line: self.report(LOAD, line))
        except OSError as error:
            raise written_fault(error, self.directory) from error

    def _check_linked(self, directory: Path) -> None:
        served = self.layout.project(self.wish.project)
        if directory.is_relative_to(self.layout.area.resolve()) or (
            not served.is_symlink() and served.exists() and directory.samefile(served)
        ):
            raise ClientError(f"The package {directory} is what is served as {self.wish.project}")

    def discard(self) -> None:
        """Remove all that was made but the payload."""
        for path in self.paths:
            remove_tree(path)

    def discard_payload(self) -> None:
        remove_tree(self.layout.payload(self.wish.deployment_id))


def entry_of(former: Mapping[str, Any] | None, package: str | None, options: Mapping[str, Any]) -> dict[str, Any] | None:
    """The entry of a project in svc-config.yaml after a deployment, None if there is to be none. `former`: what it was. `options`: `install`, `urlPath`,
    `host`, as far as they are given.

    >>> entry_of({"package": "a/b", "logging": {"level": "info"}}, "a/b#v2", {"urlPath": "shop"})
    {'logging': {'level': 'info'}, 'package': 'a/b#v2', 'urlPath': 'shop'}
    >>> entry_of({"package": "a/b", "install": {}}, None, {}) is None
    True
    """
    entry = dict(former or {})
    entry.pop("package", None)
    entry.pop("install", None)
    if package is not None:
        entry |= {"package": package, **{name: value for name, value in options.items() if value is not None}}
    return entry or None
