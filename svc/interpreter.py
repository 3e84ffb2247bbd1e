"""The Python that runs this process, and whether it is a fast build.

A build with profile-guided optimisation (PGO) takes 12 to 18 % less CPU for a request than one without. CPython records no such fact; its build
variables tell it: the argument of `configure`, or, where a distribution builds with `make profile-opt` (Debian does), the flag of the compiler that
it removes from the variables afterwards, so that extension modules are not built with it.
"""

from __future__ import annotations

import platform
import sysconfig
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Interpreter:
    """`profile_guided`: None where the build does not tell."""

    version: str
    compiler: str
    profile_guided: bool | None

    def __str__(self) -> str:
        kind = {True: "with", False: "without", None: "perhaps without"}[self.profile_guided]
        return f"Python {self.version}, {self.compiler}, built {kind} profile-guided optimisation"


def running_interpreter() -> Interpreter:
    return Interpreter(platform.python_version(), platform.python_compiler(), is_profile_guided(sysconfig.get_config_vars()))


def is_profile_guided(variables: Mapping[str, Any]) -> bool | None:
    """`variables`: those of `sysconfig`."""
    arguments = variables.get("CONFIG_ARGS")
    if arguments is None:  # Windows
        return None
    if "--enable-optimizations" in arguments:
        return True
    return bool(variables.get("PGO_PROF_GEN_FLAG")) and not variables.get("PGO_PROF_USE_FLAG")
