"""The entry `resources`: Python modules, and the resources in them (spec: applications §10)."""

from __future__ import annotations

import asyncio

from svc.apps.entry import EntryContext, LoadedEntry
from svc.apps.faults import class_addresses, fault_registrations, text_of
from svc.apps.modules import ModuleFault, exports, registration_of
from svc.apps.schema_entry import WITHOUT_REST, rest_options, rest_prefix, table_options
from svc.resources import Registration

DEFAULT_FILES = "resources.py"


class ResourcesEntry(LoadedEntry):
    """The classes of the modules that match `files`."""

    def __init__(self, context: EntryContext) -> None:
        super().__init__(context)
        self.names: dict[int, str] = {}
        """id of a registration -> its file."""

    def place_of(self, registration: Registration) -> str:
        return f"{self.names[id(registration)]}: "


async def load_resources(context: EntryContext) -> LoadedEntry | None:
    code, status = context.code, context.status
    if code is None:
        return None
    entry = ResourcesEntry(context)
    try:
        entry.file_set = context.files(DEFAULT_FILES)
    except ValueError as error:
        status.fail(str(error))
        return entry
    files = [
        match for match in await context.runtime.in_thread(entry.file_set.matches) if match.path.suffix == ".py" and not match.is_directory
    ]
    if not files and context.app.has_config_file:
        status.warn(f"no file matches {context.options.get('files', DEFAULT_FILES)!r}")
    options = rest_options(context.app.config)
    protocols = {"ws": False} if options.get("webSocket") is False else {}
    if not context.app.config.get("rest"):
        protocols = dict(WITHOUT_REST)
    failed: list[str] = []
    for match in files:
        directory = rest_prefix(options) + match.url_path[1 : match.url_path.rfind("/") + 1]
        await asyncio.sleep(0)  # each module in a turn of its own
        try:
            module = code.load(match.path)
            found = list(exports(module, directory))
        except ModuleFault as fault:
            status.fail(f"{match.name}: {fault}", fault.details)
            failed += class_addresses(await context.runtime.in_thread(text_of, match.path), directory)
            continue
        for exported in found:
            try:
                registration = registration_of(exported, protocols, entry, **table_options(options))
            except ValueError as error:
                status.fail(f"{match.name}: {exported.resource.__qualname__} at /{exported.address}: {error}")
                continue
            entry.names[id(registration)] = match.name
            entry.registrations.append(registration)
    entry.registrations += fault_registrations(failed, context.app.name, status, entry)
    return entry
