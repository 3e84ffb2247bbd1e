"""What a process is started in does not get into the data: closed standard streams, variables of containers, limits (spec: configuration §3.1, §6.4)."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.programs

CLOSING = "import os, sys; os.closerange(0, 3); os.execv(sys.argv[1], sys.argv[1:])"


def install(home: Path, *before: str, limit: int | None = None, **variables: str) -> subprocess.CompletedProcess[str]:
    env = {"PATH": os.environ["PATH"], "HOME": str(home), "PYTHONPATH": os.pathsep.join(path for path in sys.path if path), **variables}

    def restrict() -> None:
        if limit is not None:
            resource.setrlimit(resource.RLIMIT_AS, (limit, limit))

    command = [*before, sys.executable, "-m", "svc", "install"]
    return subprocess.run(command, env=env, cwd=home, capture_output=True, text=True, preexec_fn=restrict, timeout=120)


def test_closed_standard_streams_are_no_files_of_the_root(tmp_path: Path) -> None:
    done = install(tmp_path, sys.executable, "-c", CLOSING)
    assert done.returncode == 0
    assert (tmp_path / "svc" / "svc.lock").read_bytes() == b""
    assert (tmp_path / "svc" / "initial-admin-password").exists()
    data = (tmp_path / "svc" / "database" / "system" / "data.mdb").read_bytes()
    assert b"password" not in data[:4096] and data[16:20] == b"\xde\xc0\xef\xbe"


def test_a_small_address_space_is_named(tmp_path: Path) -> None:
    done = install(tmp_path, limit=2 << 30)
    assert done.returncode == 1
    assert "limited to 2048 MiB (ulimit -v)" in done.stderr and "check its volume" not in done.stderr
