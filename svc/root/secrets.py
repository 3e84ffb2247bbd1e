"""Passwords that came with the command line or the environment of this process, made unreadable from outside.

What a process was started with stays in its memory at fixed places, which the kernel shows as /proc/PID/environ and /proc/PID/cmdline; removing a
variable from `os.environ` changes nothing there. So the bytes themselves are overwritten (Linux; elsewhere there is nothing to be done).
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator, Sequence
from pathlib import Path

SECRETS = frozenset({"svc_admin_password"})
"""Variables and options whose values are secret, and of use at the first start only; in lower case."""

ERASED = SECRETS | {"mail_password"}
"""Those, and settings that are secret."""

_SELF = Path("/proc/self")
_ARGUMENTS, _ENVIRONMENT = (48, 49), (50, 51)  # fields of proc_pid_stat(5): first byte of the block, and the one behind it


def erase_secrets() -> None:
    """Overwrite the values of ERASED in the command line and the environment that this process was started with."""
    try:
        fields = (_SELF / "stat").read_bytes().rpartition(b")")[2].split()
        blocks = [
            (file, [int(fields[number - 3]) for number in ends]) for file, ends in (("cmdline", _ARGUMENTS), ("environ", _ENVIRONMENT))
        ]
        for file, (first, end) in blocks:
            content = (_SELF / file).read_bytes()
            if first == 0 or len(content) != end - first:
                continue  # a kernel without these files, or a process that has set another title
            for start, size in secret_values(content):
                ctypes.memmove(first + start, b"***"[:size].ljust(size, b"\0"), size)
    except (OSError, ValueError, IndexError):
        return


def secret_values(block: bytes) -> Iterator[tuple[int, int]]:
    """(offset, size) of each secret in a block of strings that end with NUL: `NAME=value`, `--NAME=value`, or `--NAME` and the next string.

    >>> list(secret_values(b"svc\\0--SVC_ADMIN_PASSWORD=ab\\0--svc_admin_password\\0xyz\\0SVC_ADMIN_PASSWORD=\\0"))
    [(25, 2), (49, 3)]
    """
    offset, is_value = 0, False
    for entry in block.split(b"\0"):
        name, separator, value = entry.partition(b"=")
        is_secret = name.removeprefix(b"--").lower().decode("latin-1") in ERASED
        if is_value and entry:
            yield offset, len(entry)
        elif is_secret and separator and value:
            yield offset + len(name) + 1, len(value)
        is_value = is_secret and not separator and name.startswith(b"--")
        offset += len(entry) + 1


def without_secrets(arguments: Sequence[str]) -> list[str]:
    """A command line for a process that needs them no more.

    >>> without_secrets(["run", "--SVC_ADMIN_PASSWORD", "x", "--HTTP_PORT", "1", "--svc_admin_password=y"])
    ['run', '--HTTP_PORT', '1']
    """
    kept = []
    waiting = list(reversed(arguments))
    while waiting:
        word = waiting.pop()
        name, separator, _ = word.partition("=")
        if name.startswith("--") and name[2:].lower() in SECRETS:
            if not separator and waiting:
                waiting.pop()
        else:
            kept.append(word)
    return kept
