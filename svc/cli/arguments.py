"""Parsing of the command line into `Arguments`, and the root directory that it names."""

import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    from svc.root.location import Installation

FAILED, RUNNING = 1, 4
"""Exit status for a failure, and for a root on which a server is running already."""

FIRST_RUN_OPTIONS = frozenset({"svc_admin_username", "svc_admin_password", "defaults_mode", "default_mode", "tc_agreement", "svc_config"})
"""Options that are no settings; in lower case."""

FLAGS = frozenset({"accounts", "all", "https", "insecure", "json", "new-database", "strict", "typescript"})
"""Options without a value."""


class UsageError(Exception):
    """The command cannot be carried out as it was given; the message is for the user."""


@dataclass
class Arguments:
    """A parsed command line: the first word, the others, the options by their names as given, without the dashes."""

    command: str = ""
    words: list[str] = field(default_factory=list)
    options: dict[str, str] = field(default_factory=dict)
    flags: set[str] = field(default_factory=set)
    wants_help: bool = False
    wants_version: bool = False

    def no_words(self) -> None:
        if self.words:
            raise UsageError(f'The command "{self.command}" takes no argument "{self.words[0]}".')

    def no_flags(self, *but: str) -> None:
        for flag in sorted(self.flags - set(but)):
            raise UsageError(f'The command "{self.command or "run"}" takes no option --{flag}.')

    def no_options_but(self, *names: str) -> None:
        for name in self.options:
            if name.lower() not in names:
                raise UsageError(f'The option --{name} is for starting the server; "{self.command}" does not take it.')


def parse_arguments(given: Sequence[str]) -> Arguments:
    """Split a command line: `--NAME value` and `--NAME=value` are options, the first other word is the command. Raises UsageError."""
    result = Arguments()
    waiting = list(reversed(given))
    while waiting:
        word = waiting.pop()
        if word in ("-h", "--help"):
            result.wants_help = True
        elif word in ("-v", "--version"):
            result.wants_version = True
        elif word.startswith("--") and word[2:].lower() in FLAGS:
            result.flags.add(word[2:].lower())
        elif word.startswith("--") and word != "--":
            _take_option(result, word, waiting)
        elif word.startswith("-"):
            raise UsageError(f'The option "{word}" is not understood. Options are written --NAME value; see svc help.')
        elif not result.command:
            result.command = word
        else:
            result.words.append(word)
    return result


def _take_option(result: Arguments, word: str, waiting: list[str]) -> None:
    name, separator, value = word[2:].partition("=")
    _check_option(name)
    if not separator:
        if not waiting or waiting[-1].startswith("--"):
            raise UsageError(f"The option --{name} needs a value: --{name} VALUE or --{name}=VALUE")
        value = waiting.pop()
    result.options[name.replace(".", "_")] = value


def _check_option(name: str) -> None:
    from svc.config.settings import override_names, without_effect

    known = override_names()
    flat = name.lower().replace(".", "_")  # http.port is how the file and the documentation name it
    if flat in known or flat in FIRST_RUN_OPTIONS or flat in without_effect():
        return
    near = nearest(flat, [*known, *FIRST_RUN_OPTIONS, *FLAGS])
    hint = f" Did you mean --{near if near in FLAGS else near.upper()}?" if near else " svc help settings lists all settings."
    raise UsageError(f'The option "--{name}" is not understood.{hint}')


def nearest(name: str, known: Sequence[str]) -> str | None:
    """The known name that is most similar to `name`; None if no name is similar."""
    from difflib import get_close_matches

    near = get_close_matches(name, known, 1)
    return near[0] if near else None


def named_directory(word: str) -> "Path":
    """An existing directory. Raises UsageError."""
    from svc.root.location import absolute

    path = absolute(word)
    if not path.exists():
        raise UsageError(f"The folder {word} does not exist")
    if not path.is_dir():
        raise UsageError(f"The path {word} is not a folder")
    return path


def installation_of(arguments: Arguments) -> "Installation":
    """The installation that this call names, or that it would create. Raises ConfigError."""
    import os

    from svc.root.location import find_installation

    return find_installation(os.environ, arguments.options)


def existing_installation(arguments: Arguments) -> "Installation":
    """As `installation_of`; errors become a UsageError."""
    from svc.errors import ConfigError

    try:
        return installation_of(arguments)
    except ConfigError as error:
        raise UsageError(f"Error: {error}") from error


def complete_installation(arguments: Arguments) -> "Installation":
    """As `existing_installation`, for commands that need an installation. Raises UsageError if nothing is installed."""
    installation = existing_installation(arguments)
    if not installation.installed:
        from svc.cli.roots import without_server

        raise UsageError(f"Error: {without_server(installation)}")
    return installation


def fail(message: object) -> int:
    """Print on standard error why the command fails. Returns its exit status."""
    print(f"Error: {message}", file=sys.stderr)
    return FAILED
