"""`svc sql`: one statement, a script from standard input, or the shell (spec: configuration §6.1)."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from svc.cli.arguments import FAILED, Arguments, UsageError
from svc.cli.client import Client
from svc.cli.commands import help_text
from svc.cli.operation_arguments import PARAMETERS, OperationArguments, parse_value
from svc.cli.operations import local_client, remote_client
from svc.cli.secret_input import read_secret
from svc.cli.sql.parameters import read_parameters
from svc.cli.sql.session import FORMATS, Session, SessionEnded
from svc.cli.target import cli_environment, target_text

_TAKEN = tuple(name for name in PARAMETERS if name not in ("json", "out", "wait"))


def sql(arguments: Arguments) -> int:
    """Reads its own options. Returns the exit status."""
    options = _parse(
        [*arguments.words, *(f"--{flag}" for flag in arguments.flags), *(f"--{name}={text}" for name, text in arguments.options.items())]
    )
    if options.help:
        print(help_text("sql"))
        return 0
    statements, given = _split(options.words)
    if len(statements) > 1:
        raise UsageError(f"svc sql takes one statement, in quotes: '{' '.join(statements)[:60]}'")
    in_shell = not statements and sys.stdin.isatty() and sys.stdout.isatty()
    client = _client(options, given)
    session = Session(client, read_parameters(options.param), options.format, in_shell=in_shell)
    if in_shell:
        from svc.cli.sql.shell import interact

        return interact(session, client.target.url)
    try:
        is_fine = session.run_text(statements[0]) if statements else session.run_script(sys.stdin)
    except SessionEnded:
        is_fine = True
    session.sink.close()
    return 0 if is_fine else FAILED


def _parse(words: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="svc sql", add_help=False, allow_abbrev=False, exit_on_error=False)
    parser.add_argument("-h", "--help", action="store_true")
    parser.add_argument("--format", choices=FORMATS)
    parser.add_argument("--json", action="store_const", dest="format", const="json")
    parser.add_argument("--param", action="append", default=[])
    parser.add_argument("--insecure", action="store_true")
    parser.add_argument("--ROOTPATH", "--rootpath", dest="root")
    parser.add_argument("words", nargs="*")
    try:
        options, others = parser.parse_known_intermixed_args(words)
    except argparse.ArgumentError as error:
        raise UsageError(f"svc sql: {error}; svc help sql") from error
    if others:
        raise UsageError(f"svc sql: the option {others[0]} is not understood; svc help sql")
    return options


def _split(words: Sequence[str]) -> tuple[list[str], OperationArguments]:
    """The statement, and the parameters of the command line beside it."""
    statements, parameters = [], {}
    for word in words:
        name, separator, value = word.partition("=")
        if separator and name in _TAKEN:
            parameters[name] = parse_value(name, value)
        elif separator and name == "auth_password_file":
            parameters["auth_password"] = read_secret("auth_password", value)
        else:
            statements.append(value if name == "sql" else word)
    return statements, OperationArguments(parameters=parameters)


def _client(options: argparse.Namespace, given: OperationArguments) -> Client:
    """Raises UsageError."""
    arguments = Arguments("sql", options={} if options.root is None else {"ROOTPATH": options.root})
    if options.insecure:
        arguments.flags.add("insecure")
    environment = cli_environment(os.environ, Path.cwd())
    address = target_text(given.parameters.get("target"), environment)
    return remote_client(address, arguments, given, environment) if address else local_client(arguments)
