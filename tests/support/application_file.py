"""Functions of an application that has no server: compiled as if they stood in a file of its directory."""

from __future__ import annotations

from pathlib import Path
from typing import Any


def run_as_file(path: Path, source: str, **names: Any) -> dict[str, Any]:
    """The names that the source defines; its functions belong to the file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(source)
    namespace: dict[str, Any] = {"__name__": path.stem, **names}
    exec(compile(source, str(path), "exec"), namespace)
    return namespace
