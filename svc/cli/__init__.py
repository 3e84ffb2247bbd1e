"""The command line: one row per command in `commands` (spec: configuration §6).

    svc [command] [argument ...] [--OPTION value ...]
    svc <operation> [name=value ...]

Exit status: 0 fine, 1 failure, 4 already running, 141 closed pipe. Nothing of the server is imported until a command needs it, so help is quick.
"""

import errno
import sys
from collections.abc import Sequence

from svc import __version__
from svc.cli.arguments import FAILED, RUNNING, Arguments, UsageError, fail, nearest, parse_arguments
from svc.cli.commands import BY_NAME, COMMANDS, help_text

__all__ = ["BY_NAME", "COMMANDS", "FAILED", "RUNNING", "Arguments", "UsageError", "help_text", "main", "parse_arguments"]


def main(argv: Sequence[str] | None = None) -> int:
    """Carry out one command. Returns the exit status."""
    given = list(sys.argv[1:] if argv is None else argv)
    try:
        if given and given[0] in BY_NAME and BY_NAME[given[0]].raw:
            return BY_NAME[given[0]].run(Arguments(given[0], given[1:]))
        arguments = parse_arguments(given)
        if arguments.command and (arguments.command not in BY_NAME or _goes_elsewhere(arguments)):
            return _operation(arguments)
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
    except OSError as error:
        if error.filename is None:  # not about a file that the user has named, or a root: a defect
            raise
        hint = "; this process may open too few files, ulimit -n raises that limit" if error.errno == errno.EMFILE else ""
        return fail(f"{error.filename}: {error.strerror}{hint}")


def _goes_elsewhere(arguments: Arguments) -> bool:
    """`svc restart target=...` is the operation of that name: a command of this machine has no target. So is `svc grant role=...`."""
    field = {"restart": "target=", "grant": "role=", "revoke": "role="}.get(arguments.command)
    return field is not None and any(word.startswith(field) for word in arguments.words)


def _operation(arguments: Arguments) -> int:
    """An operation of the API, if the first word is one."""
    from svc.operations.row_file import rows_by_name

    row = rows_by_name().get(arguments.command)
    if row is None:
        return _not_understood(arguments.command)
    if arguments.wants_help:
        from svc.cli.operation_help import operation_help

        print(operation_help(row))
        return 0
    arguments.no_options_but("rootpath")
    from svc.cli.operations import run_operation

    return run_operation(arguments, row)


def _not_understood(word: str) -> int:
    from svc.operations.row_file import rows_by_name

    near = nearest(word, [*(command.name for command in COMMANDS), *rows_by_name()])
    hint = f"Did you mean {near}?" if near else "svc help lists the commands, svc help operations the operations."
    print(f'The "{word}" command is not understood. {hint}', file=sys.stderr)
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
    if topic == "operations":
        from svc.cli.operation_help import operations_text

        print(operations_text())
        return 0
    if topic and topic not in BY_NAME:
        arguments.command, arguments.wants_help = topic, True
        return _operation(arguments)
    print(help_text(topic))
    return 0
