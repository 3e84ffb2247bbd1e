"""Writing what was generated: whole files, and only those that have changed."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from svc.stubs.python_stubs import python_stubs
from svc.stubs.schema import ApplicationSchema, schema_of
from svc.stubs.typescript import typescript

STUBS = Path("typings") / "svc"
"""Where type checkers look for the types of svc, below the directory of the application."""

_OVERLAY = Path(__file__).with_name("overlay")


def write_stubs(directory: Path, schema: ApplicationSchema | None = None) -> list[Path]:
    """Write `typings/svc/*.pyi` below the directory of an application: the files that were changed by it.

    `schema`: of the application, if it has been read. Raises SchemaFaults, and then writes nothing; OSError.
    """
    found = schema_of(directory) if schema is None else schema
    texts = {
        "_schema.pyi": python_stubs(found),
        "_types.pyi": (_OVERLAY / "_types.pyi").read_text(encoding="utf-8"),
        "__init__.pyi": (_OVERLAY / "package.pyi").read_text(encoding="utf-8"),
        "testing.pyi": (_OVERLAY / "testing.pyi").read_text(encoding="utf-8"),
    }
    return [path for name, text in texts.items() if write_changed(path := directory / STUBS / name, text)]


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
    except FileNotFoundError:
        path.parent.mkdir(parents=True, exist_ok=True)
    descriptor, temporary = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
        os.chmod(temporary, path.stat().st_mode & 0o777 if path.exists() else 0o666 & ~_umask())
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise
    return True


def _umask() -> int:
    mask = os.umask(0o077)
    os.umask(mask)
    return mask
