"""Writing what was generated: whole files, and only those that have changed."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from secrets import token_hex

from svc.stubs.python_stubs import UNTOUCHED, python_stubs
from svc.stubs.schema import ApplicationSchema, schema_of
from svc.stubs.typescript import typescript

STUBS = Path("typings") / "svc"
"""Where type checkers look for the types of svc, below the directory of the application."""

CLIENT = "svc-client.ts"
"""Where `svc types --typescript` writes, below the directory of the application, if nothing else is said."""

_OVERLAY = Path(__file__).with_name("overlay")


def write_stubs(directory: Path, schema: ApplicationSchema | None = None) -> list[Path]:
    """Write `typings/svc/*.pyi` below the directory of an application: the files that were changed by it.

    `schema`: of the application, if it has been read. Raises SchemaFaults, and then writes nothing; OSError.
    """
    found = schema_of(directory) if schema is None else schema
    texts = {
        "_schema.pyi": python_stubs(found),
        "_types.pyi": _constant("_types.pyi"),
        "__init__.pyi": _constant("package.pyi"),
        "testing.pyi": _constant("testing.pyi"),
    }
    return [path for name, text in texts.items() if write_changed(path := directory / STUBS / name, text)]


def refresh_types(directory: Path) -> list[Path]:
    """Bring up to date what has been written for the application in `directory`: the stubs, if there are any, and its client for TypeScript, if that is at
    its default place. The files that were changed. Raises as `write_stubs`; what is read and written may take some 0.1 s.
    """
    stubs, client = directory / STUBS, directory / CLIENT
    if not (stubs.is_dir() or client.is_file()):
        return []
    schema = schema_of(directory)
    written = write_stubs(directory, schema) if stubs.is_dir() else []
    return [*written, *(write_typescript(directory, client, schema) if client.is_file() else [])]


def write_typescript(directory: Path, out: Path, schema: ApplicationSchema | None = None) -> list[Path]:
    """Write types and a client of the tables of an application for TypeScript to the file `out`: it, if it was changed. Raises as `write_stubs`."""
    found = schema_of(directory) if schema is None else schema
    return [out] if write_changed(out, typescript(found)) else []


def write_changed(path: Path, text: str) -> bool:
    """Put `text` in the place of the file, whole at every moment; False: that is what was there. Raises OSError."""
    data = text.encode()
    try:
        if path.read_bytes() == data:
            return False
        mode = path.stat().st_mode & 0o777
    except FileNotFoundError:
        path.parent.mkdir(parents=True, exist_ok=True)
        mode = None
    temporary = path.with_name(f".{path.name}.{token_hex(6)}")
    try:
        with open(os.open(temporary, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666), "wb") as file:
            file.write(data)
        if mode is not None:
            temporary.chmod(mode)
        os.replace(temporary, path)
    except BaseException as error:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)
        if isinstance(error, OSError) and error.errno is not None:
            raise OSError(error.errno, error.strerror, str(path)) from error
        raise
    return True


def _constant(name: str) -> str:
    """A file of stubs that is the same for all applications."""
    return UNTOUCHED + (_OVERLAY / name).read_text(encoding="utf-8")
