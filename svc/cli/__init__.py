"""The command line: one row per command in `commands` (contract: configuration §6).

    svc [command] [argument ...] [--OPTION value ...]

Exit status: 0 fine, 1 failure, 4 already running. Nothing of the server is imported until a command needs it, so help is quick.
"""

import sys
from collections.abc import Sequence

from svc import __version__
from svc.cli.arguments import FAILED, RUNNING, Arguments, UsageError, parse_arguments
from svc.cli.commands import BY_NAME, COMMANDS, help_text

__all__ = ["BY_NAME", "COMMANDS", "FAILED", "RUNNING", "Arguments", "UsageError", "help_text", "main", "parse_arguments"]


def main(argv: Sequence[str] | None = None) -> int:
    """Carry out one command. Returns the exit status."""
    given = list(sys.argv[1:] if argv is None else argv)
    try:
        if given and given[0] in BY_NAME and BY_NAME[given[0]].raw:
            return BY_NAME[given[0]].run(Arguments(given[0], given[1:]))
        arguments = parse_arguments(given)
        if arguments.command and arguments.command not in BY_NAME:
            return _not_understood(arguments.command)
        if arguments.wants_help:
            print(help_text(arguments.command))
            return 0
        if arguments.wants_version:
            return version(arguments)
        command = BY_NAME[arguments.command or "run"]
        arguments.no_flags(*command.flags)
        return command.run(arguments)
    except UsageError as error:
        print(error, file=sys.stderr)
        return FAILED
    except (KeyboardInterrupt, EOFError):  # Ctrl+C, or Ctrl+D at a question
        return FAILED


def _not_understood(word: str) -> int:
    print(f'The "{word}" command is not understood.\n\n{help_text()}', file=sys.stderr)
    return FAILED


def version(arguments: Arguments) -> int:
    print(__version__)
    return 0


def show_help(arguments: Arguments) -> int:
    topic = arguments.words[0] if arguments.words else ""
    if topic == "settings":
        from svc.config.reference import settings_text

        print(settings_text(arguments.words[1] if len(arguments.words) > 1 else ""))
        return 0
    if topic and topic not in BY_NAME:
        return _not_understood(topic)
    print(help_text(topic))
    return 0
