"""The compiled files of an application's modules: checked by the hash of their source (PEP 552), for by its time and size a change of the same second could
be overlooked."""

from __future__ import annotations

import importlib.util
import py_compile
import sys
from contextlib import suppress
from pathlib import Path


def compile_file(path: str | Path) -> None:
    """Write the compiled file of a source file, if that can be: for a helper thread, ahead of the import."""
    if not sys.dont_write_bytecode:
        with suppress(OSError, py_compile.PyCompileError, ValueError, RecursionError, MemoryError):
            compiled = importlib.util.cache_from_source(str(path))
            py_compile.compile(str(path), compiled, doraise=True, invalidation_mode=py_compile.PycInvalidationMode.CHECKED_HASH)


def is_checked_by_hash(path: str) -> bool:
    """Whether the compiled file of a source file is there, and says that its source is to be hashed."""
    try:
        with open(importlib.util.cache_from_source(path), "rb") as file:
            head = file.read(8)
    except OSError:
        return False
    return len(head) == 8 and head[4:] == b"\3\0\0\0"
