"""Passwords from a file, from standard input or from the terminal."""

from __future__ import annotations

import getpass
import sys
from pathlib import Path

from svc.cli.arguments import UsageError

MAX_SECRET = 1 << 16  # characters of a file with a secret
STANDARD_INPUT = "-"


def read_secret(name: str, file: str) -> str:
    """The secret in a file, or of standard input for `-`, without the end of its last line; asked for if standard input is a terminal.

    Raises UsageError.
    """
    if file == STANDARD_INPUT and sys.stdin.isatty():
        return getpass.getpass(f"{name}: ")
    shown = "standard input" if file == STANDARD_INPUT else file
    try:
        if file == STANDARD_INPUT:
            text = sys.stdin.read(MAX_SECRET + 1)
        else:
            with open(Path(file).expanduser(), encoding="utf-8") as stream:
                text = stream.read(MAX_SECRET + 1)
        text.encode()
    except OSError as error:
        raise UsageError(f"{name} cannot be read from {shown}: {error.strerror}") from error
    except UnicodeError:
        raise UsageError(f"{name} cannot be read from {shown}: it is not UTF-8") from None
    if len(text) > MAX_SECRET:
        raise UsageError(f"{name} cannot be read from {shown}: it is longer than {MAX_SECRET} characters")
    text = text.removesuffix("\n")
    if not text:
        raise UsageError(f"{name} cannot be read from {shown}: it is empty")
    return text
