"""`svc new` and `svc types`: the files of a new application, and its types for development tools."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from svc.cli.arguments import FAILED, Arguments, UsageError

if TYPE_CHECKING:
    from svc.stubs import ApplicationSchema


def new(arguments: Arguments) -> int:
    from svc.stubs import ApplicationExists, check_name, write_application

    arguments.no_options_but()
    if len(arguments.words) != 1:
        raise UsageError("svc new NAME makes the application NAME in a directory of that name.")
    name, accounts = arguments.words[0], "accounts" in arguments.flags
    try:
        check_name(name)
        written = write_application(Path(name), name, accounts=accounts)
    except ValueError as error:
        raise UsageError(f"Error: {error}") from error
    except ApplicationExists as error:
        raise UsageError(f"Error: {error}; nothing was changed") from error
    except OSError as error:
        raise UsageError(f"Error: the application cannot be written: {error}") from error
    for path in written:
        print(f"  {path}")
    print(f"\n{name} is ready:\n\n  cd {name}\n  svc dev .          serve it at http://localhost:9926/")
    print("                     its tables are at http://localhost:9926/_pages/\n  pytest             run its tests")
    print("  svc types .        after changes of schema.graphql: types for mypy, pyright and editors")
    if accounts:
        print("\nPeople sign up at http://localhost:9926/accounts; svc dev keeps their mails: http://localhost:9926/dev/mail")
    else:
        print("\nsvc new NAME --accounts: with people who sign up")
    return 0


def types(arguments: Arguments) -> int:
    from svc.stubs import CLIENT, STUBS, SchemaFaults, schema_of, write_stubs, write_typescript

    arguments.no_options_but()
    directory, out = _places(arguments)
    is_typescript = "typescript" in arguments.flags
    if out is not None and not is_typescript:
        raise UsageError("out= is for --typescript: stubs of Python are read from typings/ in the application.")
    try:
        schema = schema_of(directory)
        for warning in schema.warnings:
            print(f"Warning: {warning}", file=sys.stderr)
        if is_typescript:
            target = directory / CLIENT if out is None else out
            written, goal = write_typescript(directory, target, schema), target
        else:
            written, goal = write_stubs(directory, schema), directory / STUBS
    except SchemaFaults as faults:
        for message in faults.messages:
            print(f"Error: {message}", file=sys.stderr)
        return FAILED
    except OSError as error:
        raise UsageError(f"Error: the types cannot be written: {error}") from error
    for path in written:
        print(f"wrote {path}")
    if not written:
        print(f"{goal} is up to date")
    print(_counted(schema))
    if not is_typescript and not _is_mypy_told(directory):
        print(
            'For mypy, name the directory in pyproject.toml: [tool.mypy] mypy_path = "typings". pyright and editors find it by themselves.'
        )
    return 0


def _places(arguments: Arguments) -> tuple[Path, Path | None]:
    """(directory of the application, file for the output) of the words. Raises UsageError."""
    outs = [word.removeprefix("out=") for word in arguments.words if word.startswith("out=")]
    others = [word for word in arguments.words if not word.startswith("out=")]
    if len(others) > 1 or len(outs) > 1:
        raise UsageError("svc types takes one directory, and out=FILE with --typescript.")
    if outs and not outs[0]:
        raise UsageError("out= needs the name of a file.")
    directory = Path(others[0] if others else ".")
    if not directory.is_dir():
        raise UsageError(f"Error: {directory} is no directory")
    return directory, Path(outs[0]) if outs else None


def _counted(schema: ApplicationSchema) -> str:
    count = len(schema.definitions)
    return f"{count} table{'' if count == 1 else 's'}" if count else "The application declares no tables."


def _is_mypy_told(directory: Path) -> bool:
    """Whether a configuration file of mypy names the directory of the stubs; a directory without a `pyproject.toml` may not be a project at all."""
    for name in ("pyproject.toml", "mypy.ini", ".mypy.ini", "setup.cfg"):
        try:
            text = (directory / name).read_text(encoding="utf-8", errors="replace")
        except OSError:
            continue
        if "mypy_path" in text:
            return True
    return False
