"""`svc config check` and `svc config show`: the configuration as a start would see it; nothing is written (spec: configuration §2, §3).

`svc config set` and `unset` are in `config_edits`.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from svc.cli.arguments import FAILED, Arguments, UsageError, complete_installation

if TYPE_CHECKING:
    from svc.config.overrides import ExaminedConfig

SECRET_PARTS = ("password", "secret", "token", "key", "credentials")
"""Names of component options whose values are not shown."""


def config_command(arguments: Arguments) -> int:
    action = arguments.words[0] if arguments.words else ""
    if action == "check":
        return _check(arguments)
    if action == "show":
        return _show(arguments)
    if action in ("set", "unset"):
        from svc.cli import config_edits

        arguments.no_flags()
        return config_edits.set_command(arguments) if action == "set" else config_edits.unset_command(arguments)
    raise UsageError(
        "svc config check reports faults, svc config show [NAME] lists the values with their source,\n"
        "svc config set NAME VALUE and svc config unset NAME change the file."
    )


def _check(arguments: Arguments) -> int:
    """Print each fault and each warning with its source. Exit status 1 if a start would fail."""
    from svc.errors import ConfigError

    if len(arguments.words) > 2:
        raise UsageError("svc config check takes one file.")
    file = Path(arguments.words[1]) if len(arguments.words) > 1 else None
    try:
        examined = _examined(arguments, file)
    except ConfigError as error:
        for fault in error.faults:
            print(f"error: {fault}", file=sys.stderr)
        return FAILED
    for level, sentence in examined.config.notes:
        print(f"{'note' if level == 'info' else 'warning'}: {sentence}", file=sys.stderr)
    print(f"{examined.file}: fine")
    return 0


def _examined(arguments: Arguments, file: Path | None = None) -> ExaminedConfig:
    """The configuration of this root, or one in a file. Raises ConfigError, UsageError."""
    from svc.config.overrides import examine

    if file is None:
        installation = complete_installation(arguments)
        return examine(installation.root, environ=os.environ, options=arguments.options, file=installation.file)
    if not file.is_file():
        raise UsageError(f"The file {file} does not exist")
    from svc.root.location import root_of

    return examine(root_of(file), environ=os.environ, options=arguments.options, file=file)


def _show(arguments: Arguments) -> int:
    """Print all settings that apply, or those whose name begins with a word, with their values and sources."""
    from svc.cli.output import OutputStyle, chosen_style, show
    from svc.errors import ConfigError

    if len(arguments.words) > 2:
        raise UsageError("svc config show takes one name, or the beginning of one.")
    beginning = arguments.words[1] if len(arguments.words) > 1 else ""
    try:
        examined = _examined(arguments)
    except ConfigError as error:
        raise UsageError(f"svc config file validation error: {error}") from error
    rows = [row for row in effective_values(examined) if row["name"].lower().startswith(beginning.lower().replace("_", "."))]
    if not rows:
        raise UsageError(f'No setting begins with "{beginning}"; svc help settings lists all.')
    style = chosen_style(True if "json" in arguments.flags else None)
    if style is OutputStyle.HUMAN:
        _print_rows(rows)
    else:
        show(rows, style)
    return 0


def effective_values(examined: ExaminedConfig) -> Iterator[dict[str, Any]]:
    """Name, value as the file would have it, and source of each setting that applies, components last.

    The source is `default`, `default: <other setting>`, or where the value was given: line of the file, variable, option.
    """
    from svc.config.build import default_of
    from svc.config.setting import From
    from svc.config.settings import BY_NAME
    from svc.config.values import is_given, lookup

    config, document = examined.config, examined.merged.document

    def in_file_form(name: str) -> Any:
        """The value as the file has it, or would: `3d`, not 259200."""
        row, value = BY_NAME[name], config.values[name]
        if is_given(document, name.split(".")):
            return lookup(document, name.split("."))
        if isinstance(row.default, From) and not row.default.below:
            return in_file_form(row.default.name)
        is_written = row.default is not None and not isinstance(row.default, From) and not isinstance(value, Path)
        return row.default if is_written and default_of(row, config.root) == value else _plain(value)

    for name in config.values:
        row = BY_NAME.get(name)
        if row is None:
            continue
        if is_given(document, name.split(".")):
            source = examined.origins.of(name) or "file"
        else:
            source = f"default: {row.default.name}" if isinstance(row.default, From) else "default"
        yield {"name": name, "value": in_file_form(name), "source": source}
    for name, entry in config.components.items():
        yield {"name": name, "value": _without_secrets(entry), "source": examined.origins.of(name) or "file"}


def _plain(value: Any) -> Any:
    """A value in program form as one that JSON knows."""
    if isinstance(value, Path):
        return str(value)
    if isinstance(value, tuple | list):
        return [_plain(item) for item in value]
    if isinstance(value, dict):
        return {name: _plain(inner) for name, inner in value.items()}
    return value


def _without_secrets(value: Any, name: str = "") -> Any:
    if isinstance(value, dict):
        return {key: _without_secrets(inner, key) for key, inner in value.items()}
    if any(part in name.lower() for part in SECRET_PARTS) and value is not None and not isinstance(value, bool):
        return "***"
    return _plain(value)


def _print_rows(rows: list[dict[str, Any]]) -> None:
    import json

    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    from svc.cli.output import printable

    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    for title in ("Setting", "Value", "Source"):
        table.add_column(title, overflow="fold")
    for row in rows:
        value = row["value"] if isinstance(row["value"], str) else json.dumps(row["value"], ensure_ascii=False)
        style = "dim" if row["source"].startswith("default") else ""
        table.add_row(Text(printable(row["name"])), Text(printable(value)), Text(printable(row["source"])), style=style)
    Console().print(table)
