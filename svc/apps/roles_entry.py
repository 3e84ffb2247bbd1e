"""The entry `roles`: roles that the application brings along (spec: security §5.7)."""

from __future__ import annotations

from collections.abc import Sequence

from svc.apps.entry import EntryContext, LoadedEntry
from svc.apps.roles_file import DEFAULT_FILE, apply_roles, read_roles


class RolesEntry(LoadedEntry):
    """They are brought after the switch, when the tables that they name are defined."""

    async def start(self) -> None:
        status, runtime = self.context.status, self.context.runtime
        assert self.file_set is not None
        matches = [match for match in await runtime.in_thread(self.file_set.matches) if not match.is_directory]
        if not matches and self.context.app.has_config_file:
            status.warn(f"no file matches {self.context.options.get('files', DEFAULT_FILE)!r}")
        self.context.app.role_files.clear()
        for match in matches:
            try:
                roles = await runtime.in_thread(read_roles, match.path)
            except (OSError, ValueError) as error:
                status.fail(f"{match.name}: {error}")
                continue
            lines = {f"role {role.name}": role.line for role in roles}
            self.context.app.role_files.update((role.name, match.name) for role in roles)
            for fault in apply_roles(roles, runtime.store, runtime.grantable()):
                status.fail(f"{match.name}{lines.get(fault.partition(':')[0], '')}: {fault}")

    async def change(self, names: Sequence[str]) -> bool:
        await self.start()
        return True


async def load_roles(context: EntryContext) -> LoadedEntry | None:
    try:
        return RolesEntry(context, context.files(DEFAULT_FILE))
    except ValueError as error:
        context.status.fail(str(error))
        return None
