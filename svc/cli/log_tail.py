"""`svc log`: the last lines of the log file, and those that follow (spec: configuration §6.1).

The file is read as it is, so it works whether or not the server runs. `svc read_log` asks the server, filters, and gives entries.
"""

from __future__ import annotations

import argparse
import os
import select
import sys
from collections.abc import Sequence
from pathlib import Path
from threading import Event
from typing import BinaryIO

from svc.cli.arguments import Arguments, complete_installation, fail
from svc.cli.output import printable

LINES = 40
MOST_LINES = 1_000_000
BLOCK = 1 << 16  # bytes
POLL_SECONDS = 0.25


def log(arguments: Arguments) -> int:
    """Reads its own options, for `-f` and `-n` are what everybody types."""
    from svc.cli.preparing import read_config

    options = _parse(arguments.words)
    arguments = Arguments("log", options={} if options.root is None else {"ROOTPATH": options.root})
    config = read_config(complete_installation(arguments), arguments)
    path = config.logging.path
    if not path.exists():
        why = "; logging.file is false" if not config.logging.file else ""
        return fail(f"there is no log at {path}{why}")
    tail = Tail(path, options.lines)
    try:
        with tail:
            _show(tail.read())
            while options.follow:
                Event().wait(POLL_SECONDS)
                _show(tail.read())
                _require_reader()
    except KeyboardInterrupt:  # how following ends
        pass
    return 0


def _parse(words: Sequence[str]) -> argparse.Namespace:
    def number(text: str) -> int:
        if not (text.isdecimal() and int(text) <= MOST_LINES):
            raise argparse.ArgumentTypeError(f"must be a number from 0 to {MOST_LINES}")
        return int(text)

    parser = argparse.ArgumentParser(prog="svc log", description="Show the last lines of the log file of this root.")
    parser.add_argument("-f", "--follow", action="store_true", help="go on with the lines that are written, until Ctrl+C")
    parser.add_argument("-n", "--lines", type=number, default=LINES, help="how many; default: %(default)s")
    parser.add_argument("--ROOTPATH", "--rootpath", dest="root", metavar="DIRECTORY", help="the root directory")
    return parser.parse_args(words)


def _show(data: bytes) -> None:
    if not data:
        return
    if sys.stdout.isatty():  # messages have what clients sent
        sys.stdout.write(printable(data.decode("utf-8", "replace"), lines=True))
    else:
        sys.stdout.buffer.write(data)
    sys.stdout.flush()


def _require_reader() -> None:
    """Raise BrokenPipeError if nothing reads the output any more, as `svc log -f | head -1` leaves it: else only the next line would show it."""
    poll = select.poll()
    try:
        poll.register(sys.stdout.fileno(), 0)
    except (OSError, ValueError):  # no stream of the system
        return
    if any(event & select.POLLERR for _, event in poll.poll(0)):
        raise BrokenPipeError


class Tail:
    """A file from its last `lines` lines on, also where another takes its name: it is rotated."""

    def __init__(self, path: Path, lines: int) -> None:
        self._path = path
        self._file: BinaryIO = path.open("rb")
        self._file.seek(_start_of_last(self._file, lines))

    def __enter__(self) -> Tail:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def read(self) -> bytes:
        """What has been written since the last call, some MB at most."""
        data = self._file.read(BLOCK * 64)
        if data or not self._is_replaced():
            return data
        self._file.close()
        self._file = self._path.open("rb")
        return self._file.read(BLOCK * 64)

    def _is_replaced(self) -> bool:
        """Whether another file has the name now; one that was cut off is read from its beginning."""
        mine = os.fstat(self._file.fileno())
        if mine.st_size < self._file.tell():
            self._file.seek(0)
        try:
            found = self._path.stat()
        except FileNotFoundError:
            return False
        return (found.st_dev, found.st_ino) != (mine.st_dev, mine.st_ino)


def _start_of_last(file: BinaryIO, lines: int) -> int:
    """The offset at which the last lines of a file begin."""
    end = file.seek(0, os.SEEK_END)
    wanted = lines + 1  # line ends: the last one is behind the last line
    position = end
    if lines == 0:
        return end
    while position > 0:
        begin = max(0, position - BLOCK)
        file.seek(begin)
        block = file.read(position - begin)
        if position == end and not block.endswith(b"\n"):
            wanted -= 1
        at = len(block)
        while (at := block.rfind(b"\n", 0, at)) >= 0:
            wanted -= 1
            if wanted == 0:
                return begin + at + 1
        position = begin
    return 0
