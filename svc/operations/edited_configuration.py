"""What of an edited configuration file waits for a restart, in all processes that read that file (spec: operations §8)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Protocol

from svc.config.editing import edit_file, waiting_for_restart
from svc.errors import ConfigError
from svc.operations.status_board import EDITED
from svc.operations.threads import in_thread

if TYPE_CHECKING:
    from svc.clock import Clock
    from svc.config import Config
    from svc.logs import Logs
    from svc.operations.status_board import StatusBoard
    from svc.siblings import Siblings


class ConfiguredNode(Protocol):
    """The parts of `node.Node` that this uses."""

    config: Config
    clock: Clock
    logs: Logs
    status: StatusBoard
    siblings: Siblings

    @property
    def entries_in_effect(self) -> Mapping[str, Any]: ...


def note_restart(node: ConfiguredNode, stored: Config) -> None:
    """Let `get_status` tell which settings of the file differ from those in effect."""
    in_effect = {name for name, entry in node.entries_in_effect.items() if stored.components.get(name) == entry}
    node.status.settings_changed(name for name in waiting_for_restart(node.config, stored) if name not in in_effect)


def tell_edited(node: ConfiguredNode) -> None:
    """This process has edited the file."""
    if node.config.file is not None:
        node.siblings.tell(EDITED, str(node.config.file.resolve()))


async def note_edited(node: ConfiguredNode, file: str) -> None:
    """Another process has edited a file; what is to be logged of it is in its log."""
    own = node.config.file
    try:
        if own is None or await in_thread(lambda: str(own.resolve())) != file:
            return
        edit = await in_thread(lambda: edit_file(node.config, lambda document: document, node.clock))
    except (ConfigError, OSError) as error:  # it is being edited by hand
        node.logs.logger.warn("svc config file validation error:", str(error))
    else:
        note_restart(node, edit.config)
