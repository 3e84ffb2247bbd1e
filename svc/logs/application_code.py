"""Which application a source file, or the code that runs, belongs to: for log lines that name the place an author can look at."""

from __future__ import annotations

import os
from pathlib import Path
from types import CodeType, FrameType, TracebackType
from typing import NamedTuple

_OWN = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
_INSTALLED = f"{os.sep}site-packages{os.sep}"
_MAX_FILES = 10_000  # names of files whose owner is kept: code that is made at run time may have a new name each time


class Place(NamedTuple):
    """`file`: below the application's directory. `function`: its qualified name."""

    application: str
    file: str
    line: int
    function: str

    def __str__(self) -> str:
        return f"{self.function} ({self.file}, line {self.line})"


class ApplicationCode:
    """The directories of applications. False while there are none."""

    def __init__(self) -> None:
        self._directories: dict[str, str] = {}  # path with a slash at the end -> application
        self._found: dict[str, tuple[str, str] | None] = {}

    def __bool__(self) -> bool:
        return bool(self._directories)

    def add(self, directory: Path, name: str = "") -> None:
        """`name` of the application, by default that of its directory. May be called again."""
        for path in {os.path.abspath(directory), os.path.realpath(directory)}:
            self._directories[path.rstrip(os.sep) + os.sep] = name or directory.resolve().name
        self._directories = dict(sorted(self._directories.items(), key=lambda item: -len(item[0])))
        self._found.clear()

    def find(self, filename: str) -> tuple[str, str] | None:
        """(application, file below its directory); None if the file belongs to no application, or is a package that one has installed."""
        try:
            return self._found[filename]
        except KeyError:
            if len(self._found) >= _MAX_FILES:
                self._found.clear()
            found = self._found[filename] = self._find(filename)
            return found

    def _find(self, filename: str) -> tuple[str, str] | None:
        for directory, name in self._directories.items():
            if filename.startswith(directory):
                if _INSTALLED in filename[len(directory) - 1 :] or (filename.startswith(_OWN) and not directory.startswith(_OWN)):
                    return None
                return name, filename[len(directory) :]
        return None

    def place_of(self, frame: FrameType, line: int | None = None) -> Place | None:
        """Where a frame is, if it runs an application's code. `line`: where it was, if it goes on."""
        code = frame.f_code
        found = self.find(code.co_filename)
        return None if found is None else Place(*found, line or frame.f_lineno or code.co_firstlineno, code.co_qualname)

    def frames(self, frame: FrameType | None) -> tuple[FrameType, FrameType] | None:
        """The outermost and the innermost frame of applications, from a frame outwards; None if there is none."""
        innermost = outermost = None
        while frame is not None:
            if self.find(frame.f_code.co_filename) is not None:
                outermost = frame
                if innermost is None:
                    innermost = frame
            frame = frame.f_back
        return None if innermost is None or outermost is None else (outermost, innermost)

    def place_of_error(self, error: BaseException) -> Place | None:
        """The innermost place of an application in the traceback."""
        found = None
        step: TracebackType | None = error.__traceback__
        while step is not None:
            found = self.place_of(step.tb_frame, step.tb_lineno) or found
            step = step.tb_next
        return found


def line_of(code: CodeType, instruction: int) -> int:
    """The line of an instruction of `code`."""
    for number, (line, *_) in enumerate(code.co_positions()):
        if number * 2 >= instruction and line is not None:
            return line
    return code.co_firstlineno
