"""Archives made for tests, also such as no program makes."""

from __future__ import annotations

import io
import tarfile
from collections.abc import Mapping
from typing import Any


def member(name: str, **fields: Any) -> tarfile.TarInfo:
    made = tarfile.TarInfo(name)
    for key, value in fields.items():
        setattr(made, key, value)
    return made


def tar(*members: tuple[tarfile.TarInfo, bytes], mode: str = "w") -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode=mode) as archive:  # type: ignore[call-overload]
        for info, content in members:
            if content:
                info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    return out.getvalue()


def tar_of(files: Mapping[str, str | bytes], top: str = "", mode: str = "w:gz") -> bytes:
    """An archive of files. `top`: a folder that all are in."""
    prefix = f"{top}/" if top else ""
    return tar(
        *((member(prefix + name), content.encode() if isinstance(content, str) else content) for name, content in files.items()), mode=mode
    )
