"""`python -m svc.server.trial DIRECTORY`: load an application as a server would, after others if need be, and say how that went (spec: deployment §6).

The directory holds `request`, a pickle of `TrialRequest`; what was found goes into `result`, as JSON, and into `loaded` before the entries start.
Everything happens in a root of its own below that directory, on a loop of its own, and no port is opened. What ends the process before `result` is there
is told from its exit status.
"""

from __future__ import annotations

import json
import os
import pickle
import resource
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from svc.apps import App
from svc.apps.entry import ServedApplication
from svc.apps.env_entry import load_first
from svc.apps.modules import PACKAGE
from svc.apps.status import EntryStatus
from svc.clock import SYSTEM_CLOCK
from svc.config import Config
from svc.deploying.trying import LOADED, MEMORY, REQUEST, RESULT, TrialRequest
from svc.errors import Problem, SchemaError
from svc.loop import new_loop
from svc.root.installation import make_directories
from svc.server.instance import Instance, InstanceOptions

_HERE = frozenset(("rootPath", "storage", "logging", "componentsRoot", "tls", "operationsApi", "mqtt", "replication", "http"))
"""Sections of the configuration that are about the other process."""
_OWN = frozenset(sys.modules)  # with all that this module imports


def main(place: Path) -> int:
    resource.setrlimit(resource.RLIMIT_DATA, (MEMORY, MEMORY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    request: TrialRequest = pickle.loads((place / REQUEST).read_bytes())  # written by the server that has started this process
    app = load(request, place)
    _write(place / RESULT, app.entries, request)
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)  # whatever threads the application has started


def _write(file: Path, statuses: Mapping[str, EntryStatus], request: TrialRequest) -> None:
    entries = {
        key: {"status": status.status, "messages": status.messages, "faults": status.faults, "unknown": status.unknown}
        for key, status in statuses.items()
    }
    part = file.with_name(f"{file.name}.part")
    part.write_text(json.dumps({"entries": entries, **_imported(request.directory.resolve())}))
    part.replace(file)


def _imported(directory: Path) -> dict[str, list[str]]:
    """`modules` that the server itself has not imported, and `files` of those of the application."""
    modules: list[str] = []
    files: list[str] = []
    for name, module in list(sys.modules.items()):
        origin = getattr(module, "__file__", None)
        if name.startswith(f"{PACKAGE}."):
            if isinstance(origin, str) and Path(origin).is_relative_to(directory):
                files.append(Path(origin).relative_to(directory).as_posix())
        elif name not in _OWN and name.partition(".")[0] not in ("svc", PACKAGE) and getattr(module, "__spec__", None) is not None:
            modules.append(name)
    return {"modules": modules, "files": files}


def load(request: TrialRequest, place: Path) -> App:
    root = place / "root"
    document: dict[str, Any] = {key: value for key, value in request.document.items() if key not in _HERE}
    config = Config.from_document({**document, "rootPath": str(root)}, root)
    make_directories(root, config)
    loop, turns = new_loop(SYSTEM_CLOCK)
    instance = Instance(config, (), loop, turns, options=InstanceOptions(opens_ports=False))
    for definition in request.tables:
        try:
            instance.store.open_database(definition.database).define_table(definition)
        except (Problem, SchemaError) as error:
            print(f"the table {definition.database}.{definition.name} is not there: {error}")
    instance.applications.know(request.others, request.directories)

    def switched(app: ServedApplication, statuses: Mapping[str, EntryStatus]) -> None:
        if app.name == request.project:
            _write(place / LOADED, statuses, request)

    instance.applications.runtime.on_switched = switched
    return loop.run_until_complete(_load(instance, request))


async def _load(instance: Instance, request: TrialRequest) -> App:
    given = {**request.before, request.project: request.directory}
    for name, directory in given.items():
        await load_first(name, directory, instance.applications.runtime)
    for name, directory in request.before.items():
        await instance.applications.add(directory, name)
    return await instance.applications.add(request.directory, request.project)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
