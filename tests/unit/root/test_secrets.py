"""Secrets erased from what a process was started with."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from svc.root.secrets import secret_values

pytestmark = pytest.mark.programs


def test_only_secrets_are_found_in_a_block() -> None:
    assert not list(secret_values(b"MY_SVC_ADMIN_PASSWORD=x\0SVC_ADMIN_PASSWORDS=x\0SVC_ADMIN_PASSWORD=\0--SVC_ADMIN_PASSWORD=\0x\0"))
    assert list(secret_values(b"svc_Admin_password=abc\0")) == [(19, 3)]


@pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="no proc file system")
def test_the_process_shows_them_no_more(tmp_path: Path) -> None:
    """What other programs of the user see, while the process and its own variables go on as before."""
    code = """
import os, sys
from svc.root.secrets import erase_secrets
password = os.environ.pop("SVC_ADMIN_PASSWORD")
erase_secrets()
shown = open("/proc/self/environ", "rb").read() + open("/proc/self/cmdline", "rb").read()
assert password == "correct horse 1" and sys.argv[-1] == "battery staple 2", (password, sys.argv)
assert b"BEFORE=before" in shown and b"AFTER=after" in shown and b"--SVC_ADMIN_PASSWORD" in shown
assert b"horse" not in shown and b"staple" not in shown, shown
assert os.environ["AFTER"] == "after"
"""
    env = {"PATH": os.environ["PATH"], "BEFORE": "before", "SVC_ADMIN_PASSWORD": "correct horse 1", "AFTER": "after"}
    env["PYTHONPATH"] = os.pathsep.join(path for path in sys.path if path)
    script = tmp_path / "script.py"
    script.write_text(code)
    command = [sys.executable, str(script), "run", "--SVC_ADMIN_PASSWORD", "battery staple 2"]
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, "")
