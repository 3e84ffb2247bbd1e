"""`svc config set` and `svc config unset`: change the configuration file, comments kept, a copy left in `backup/` (spec: configuration §3.1)."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from svc.cli.arguments import Arguments, UsageError, complete_installation, fail

if TYPE_CHECKING:
    from svc.config.build import Config
    from svc.config.document import Document
    from svc.config.editing import Edit
    from svc.root.location import Installation


def set_command(arguments: Arguments) -> int:
    """`NAME VALUE` or `NAME=VALUE`, as many as wanted: all of them are set, or none."""
    from svc.operations.configuration import with_wishes

    wishes = _wishes(arguments.words[1:])
    return _edit(arguments, lambda document: with_wishes(wishes, frozenset(), document))


def unset_command(arguments: Arguments) -> int:
    """Take settings out of the file, so that they have their defaults."""
    from svc.config.document import without_values
    from svc.config.settings import BY_NAME, LEGACY

    names = [_setting(name) for name in arguments.words[1:]]
    if not names:
        raise UsageError("svc config unset takes the names of the settings that are to have their defaults again.")
    current = [name if name in BY_NAME else LEGACY[name] for name in names]
    return _edit(arguments, lambda document: without_values(document, current))


def _wishes(words: list[str]) -> dict[str, str]:
    """Flat name -> value. Raises UsageError."""
    wishes: dict[str, str] = {}
    waiting = list(reversed(words))
    while waiting:
        name, separator, value = waiting.pop().partition("=")
        if not separator:
            if not waiting:
                raise UsageError(f"{name} needs a value: svc config set {name} VALUE, or {name}=VALUE")
            value = waiting.pop()
        wishes[_flat(name)] = value
    if not wishes:
        raise UsageError("svc config set takes names and values, for example: svc config set http.port 8080 logging.level info")
    return wishes


def _flat(name: str) -> str:
    """`http.port` -> `http_port`."""
    return name.replace(".", "_")


def _setting(name: str) -> str:
    """The present or former name of a setting. Raises UsageError."""
    from svc.config.origins import hint, nearest_setting
    from svc.config.settings import override_names

    found = override_names().get(_flat(name).lower())
    if found is None:
        raise UsageError(f"Error: unknown setting {name}{hint(nearest_setting(name))}")
    return found


def _edit(arguments: Arguments, change: Callable[[Document], Document]) -> int:
    from svc.clock import SYSTEM_CLOCK
    from svc.config.editing import edit_file
    from svc.config.overrides import examine
    from svc.errors import ConfigError, Problem
    from svc.root.installation import WrongUser, check_user

    arguments.no_options_but("rootpath")
    installation = complete_installation(arguments)
    try:
        check_user(installation)
        config = examine(installation.root, file=installation.file).config
        edit = edit_file(config, change, SYSTEM_CLOCK)
    except WrongUser as error:
        return fail(error)
    except Problem as problem:
        return fail(problem.message)
    except ConfigError as error:
        raise UsageError(f"svc config file validation error: {error}") from error
    for _, sentence in edit.notes:
        print(f"Warning: {sentence}", file=sys.stderr)
    _report(edit, config, installation)
    return 0


def _report(edit: Edit, before: Config, installation: Installation) -> None:
    """Print what has changed, and from when on it counts."""
    from svc.config.editing import waiting_for_restart
    from svc.config.layers import leaves_of
    from svc.config.overrides import single_sources
    from svc.root.lock import running_pid

    former, latter = leaves_of(edit.before), leaves_of(edit.after)
    changes = [path for path in dict.fromkeys([*former, *latter]) if former.get(path, _ABSENT) != latter.get(path, _ABSENT)]
    if not changes:
        print(f"{installation.file}: nothing to change")
        return
    for path in changes:
        print(f"{'.'.join(path)}: {_shown(former.get(path, _ABSENT))} -> {_shown(latter.get(path, _ABSENT))}")
    sources = single_sources(os.environ, {})
    for name in [name for path in changes if (name := ".".join(path)) in sources]:
        print(f"Warning: the {sources[name]} beats the file for what is started with it", file=sys.stderr)
    waiting = waiting_for_restart(before, edit.config)
    if running_pid(installation.root) is None:
        print("It counts from the next start on.")
    elif waiting:
        print(f"The server goes on with its present values until svc restart: {', '.join(waiting)}")
    else:
        print("The server takes it over within 5 seconds.")


_ABSENT = object()


def _shown(value: Any) -> str:
    return "default" if value is _ABSENT else json.dumps(value, ensure_ascii=False, default=str)
