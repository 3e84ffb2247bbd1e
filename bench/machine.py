"""Where a measurement was made: what its figures mean nothing without."""

from __future__ import annotations

import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import psutil

from svc.interpreter import running_interpreter

REPOSITORY = Path(__file__).parents[1]
NO_BYTECODE = "PYTHONDONTWRITEBYTECODE"


def describe_machine() -> dict[str, str]:
    """Processor, memory, system and kernel, as words."""
    models = [line.split(":", 1)[1].strip() for line in Path("/proc/cpuinfo").read_text().splitlines() if line.startswith("model name")]
    return {
        "processor": f"{len(os.sched_getaffinity(0))} cores of {models[0] if models else platform.machine()}",
        "memory": f"{psutil.virtual_memory().total / 2**30:.0f} GiB of memory",
        "system": f"{platform.freedesktop_os_release()['PRETTY_NAME']}, kernel {platform.release()}",
        "python": str(running_interpreter()),
    }


def describe_python(program: str) -> str:
    """The build of another interpreter."""
    code = "from svc.interpreter import running_interpreter; print(running_interpreter())"
    environment = os.environ | {"PYTHONPATH": str(REPOSITORY)}
    return subprocess.run([program, "-c", code], env=environment, capture_output=True, text=True, check=True).stdout.strip()


def warn_of_build() -> None:
    """Figures of a Python without profile-guided optimisation are not those that a user of a packaged Python has."""
    interpreter = running_interpreter()
    print(interpreter, flush=True)
    if not interpreter.profile_guided:
        print("Warning: one that was built with it (Debian's python3) takes 12 to 18 % less CPU.", file=sys.stderr)


def use_bytecode(checkout: Path = REPOSITORY, python: str = sys.executable) -> None:
    """Servers start from cached bytecode, as those that were installed: compile this checkout for that interpreter, and do not pass on the variable that
    keeps them, and what they load, from leaving any."""
    if os.environ.pop(NO_BYTECODE, None) is not None:
        print(f"{NO_BYTECODE} is not passed on to the servers.", flush=True)
    compiled = subprocess.run([python, "-m", "compileall", "-q", str(checkout / "svc")], check=False)
    if compiled.returncode:
        print(f"Warning: {checkout} could not be compiled, so starts may take longer.", file=sys.stderr)
    else:
        print(f"{checkout} is compiled: all starts are with cached bytecode.", flush=True)


def warn_of_load() -> None:
    load, _, _ = os.getloadavg()
    if load > 0.5:
        print(f"Warning: the machine is busy (load {load:.1f}); figures will be too high and uneven.", file=sys.stderr)


def flush_cost(directory: Path) -> float:
    """Median milliseconds of writing 4 KiB and flushing it to the disk: what a commit costs at least."""
    times = []
    with tempfile.NamedTemporaryFile(dir=directory) as file:
        for _ in range(50):
            file.write(b"x" * 4096)
            file.flush()
            start = time.perf_counter()
            os.fdatasync(file.fileno())
            times.append(time.perf_counter() - start)
    return statistics.median(times) * 1000
