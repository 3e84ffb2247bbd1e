"""The code of an application's modules: compiled files, and what this process has loaded already.

Compiled files are checked by the hash of their source (PEP 552), for by its time and size a change of the same second could be overlooked. What is kept in
memory, so that a reload reads only what has changed, is checked by times in ns, size and number of the file: a file that was changed less than TICK before
it was read may be changed once more without showing it, and is not kept.
"""

from __future__ import annotations

import importlib.util
import os
import py_compile
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import CodeType

from svc.clock import SYSTEM_CLOCK

TICK = 0.015  # seconds: the time of a file is that of the last tick of the kernel, which is 10 ms apart at most
MAX_KEPT = 2000  # files

_Mark = tuple[int, ...]
_kept: dict[str, tuple[_Mark, CodeType]] = {}


def code_of(path: str, load: Callable[[], CodeType | None]) -> CodeType | None:
    """The code of a source file: what is kept of it, else what `load` returns."""
    mark = _mark_of(path)
    known = _kept.get(path)
    if known is not None and known[0] == mark:
        return known[1]
    began = SYSTEM_CLOCK.wall()
    code = load()
    _keep(path, mark, began, code)
    return code


def compile_ahead(path: str | Path) -> None:
    """Compile a file that is about to be loaded: for a helper thread. What is wrong with it shows when it is loaded."""
    name = str(path)
    began, mark = SYSTEM_CLOCK.wall(), _mark_of(name)
    with suppress(Exception):  # SyntaxError, RecursionError, what warnings are made to raise
        with open(name, "rb") as file:
            source = file.read()
        _keep(name, mark, began, compile(source, name, "exec", dont_inherit=True))


def _keep(path: str, mark: _Mark | None, began: float, code: CodeType | None) -> None:
    if mark is not None and code is not None and began - max(mark[:2]) / 1e9 > TICK:
        if len(_kept) >= MAX_KEPT:
            _kept.clear()
        _kept[path] = mark, code
    else:
        _kept.pop(path, None)


def _mark_of(path: str) -> _Mark | None:
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_mtime_ns, status.st_ctime_ns, status.st_size, status.st_ino


def write_compiled(path: str) -> None:
    """Write the compiled file of a source file, unless there is one that is checked by a hash."""
    if sys.dont_write_bytecode or _is_checked_by_hash(path):
        return
    with suppress(OSError, py_compile.PyCompileError, ValueError, RecursionError, MemoryError):
        compiled = importlib.util.cache_from_source(path)
        py_compile.compile(path, compiled, doraise=True, invalidation_mode=py_compile.PycInvalidationMode.CHECKED_HASH)


def _is_checked_by_hash(path: str) -> bool:
    """Whether the compiled file is there, and says that its source is to be hashed."""
    try:
        with open(importlib.util.cache_from_source(path), "rb") as file:
            head = file.read(8)
    except OSError:
        return False
    return len(head) == 8 and head[4:] == b"\3\0\0\0"
