"""Whether svc was loaded from cached bytecode. A process that finds none, and cannot leave any, compiles all modules again at each start.

That is so where the variable PYTHONDONTWRITEBYTECODE is set, as in many images, where the process may not write beside its source, and for what a
package installer has not compiled, such as uv. A first start that leaves bytecode for the next one is not meant.
"""

from __future__ import annotations

import os
import sys
from functools import cache
from importlib.machinery import ModuleSpec, SourceFileLoader
from importlib.util import MAGIC_NUMBER
from pathlib import Path

SERVED = (
    "svc.http.dispatch",
    "svc.server.instance",
    "svc.store.env",
)  # of each server; a command on the way may have left that of its own modules
HEAD_BYTES = 16  # of a compiled file (PEP 552): magic number, flags, and of the source its time and size, or its hash


@cache
def slow_start() -> str | None:
    """Why starts of this server take longer than they have to, and what helps; None if they do not. As it was when this was first asked, which is
    right behind the imports: files that have changed since then are compiled at the next start."""
    modules = (sys.modules.get(name) for name in SERVED)
    specs = [module.__spec__ for module in modules if module is not None and module.__spec__ is not None]
    return None if not specs or any(map(is_cached, specs)) else advice(Path(__file__).parent)


def is_cached(spec: ModuleSpec) -> bool:
    """Whether there is a compiled file that fits the source of this module. A module of no source file, as of an archive, counts as one that has it."""
    if not isinstance(spec.loader, SourceFileLoader):
        return True
    try:
        with open(spec.cached or "", "rb") as file:
            head = file.read(HEAD_BYTES)
        source = os.stat(spec.loader.path)
    except OSError:
        return False
    if len(head) < HEAD_BYTES or head[:4] != MAGIC_NUMBER:
        return False
    if any(head[4:8]):  # by its hash, which those have that were made with an image, together with their source
        return True
    return head[8:] == b"".join((int(number) & 0xFFFFFFFF).to_bytes(4, "little") for number in (source.st_mtime, source.st_size))


def advice(package: Path) -> str:
    """A sentence. `package`: the directory of svc; what it depends on is compiled as well, where both were installed in one place."""
    import shlex

    place = package.parent if package.parent.name.endswith("-packages") else package
    options = ["-X", f"pycache_prefix={sys.pycache_prefix}"] if sys.pycache_prefix else []
    if sys.flags.optimize:  # its files have names of their own
        options.append("-" + "O" * sys.flags.optimize)
    command = shlex.join([sys.executable or "python", *options, "-m", "compileall", "-q", str(place)])
    reason = "PYTHONDONTWRITEBYTECODE or -B is set" if sys.dont_write_bytecode else "this process may not write it"
    return f"svc runs without cached bytecode, so the start takes two to three times as long: {command} ({reason})"
