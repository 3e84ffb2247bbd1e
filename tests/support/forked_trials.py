"""A server that is a fork loads applications on trial in forks as well: a hook of `forkserver.py`, which each child that has SVC_TEST_FORKS runs.

A trial is a program of its own (`svc.server.trial`), which takes a second of processor time to be started. All else of it is what it is for users.
The variable names the socket of the fork server.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from svc.deploying import commands
from tests.support.forked import Forked

TRIAL = "svc.server.trial"


class ForkedTrial(Forked):
    """As `commands.run_command` starts it: its output comes from `stdout`."""

    def __init__(self, words: Sequence[str], *, cwd: Path, env: dict[str, str]) -> None:
        reader, writer = os.pipe()
        self.stdout = open(reader, "rb")  # noqa: SIM115
        try:
            super().__init__(words, env=env, cwd=cwd, stdout=writer, stderr=writer, module=TRIAL, address=os.environ["SVC_TEST_FORKS"])
        finally:
            os.close(writer)


def start(words: Sequence[str], **options: Any) -> Any:
    """In place of `subprocess.Popen`."""
    if TRIAL not in words:
        return subprocess.Popen(words, **options)
    return ForkedTrial(words[words.index(TRIAL) + 1 :], cwd=options["cwd"], env=options["env"])


SUBPROCESS = SimpleNamespace(**{**vars(subprocess), "Popen": start})


def install() -> None:
    commands.subprocess = SUBPROCESS  # type: ignore[assignment]
