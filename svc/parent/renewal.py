"""How the parent executes the program again, for a restart: new code and configuration in the same process, with the instances, the sockets and the lock kept.

The program reads what it has kept from the environment. Before that it is asked, in a process of its own, whether it could start.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from typing import IO

from svc.parent.state import ParentState, decode_state, encode_state

STATE_VARIABLE = "SVC_KEPT"
CHECK_VARIABLE = "SVC_START_CHECK"


class StartCheck:
    """A process that imports the program, and reads the configuration and the state of the parent. It ends with status 0 if all can be done. `pid`: of it; its
    parent waits for it."""

    def __init__(self, command: Sequence[str], environment: Mapping[str, str], state: ParentState) -> None:
        self._output: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115
        self._process = subprocess.Popen(
            command,
            env={**environment, CHECK_VARIABLE: encode_state(state).decode()},
            stdin=subprocess.DEVNULL,
            stdout=self._output,
            stderr=self._output,
        )
        self.pid = self._process.pid

    def reason(self, status: int) -> str:
        """What it has said, in one line."""
        self._process.returncode = status  # the parent has waited for it
        with self._output as output:
            output.seek(0)
            lines = output.read().decode("utf-8", "replace").split("\n")
        said = next((line for line in reversed(lines) if line.strip()), f"it ended with status {status}")
        return said.removeprefix("Error: ").strip()


class Renewal:
    """`state`: what the program before has left, until a parent takes it over; None at the first start. `lock`, `beats`: descriptors of that, -1 if there are
    none."""

    def __init__(self, command: Sequence[str], environment: Mapping[str, str], kept: str = "") -> None:
        """`command`, `environment`: of the program. `kept`: the value of STATE_VARIABLE."""
        self.pid = os.getpid()
        self.state = decode_state(kept) if kept else None
        self.lock = -1 if self.state is None else self.state.lock
        self.beats = -1 if self.state is None else self.state.beats
        for descriptor in (self.lock, self.beats):
            if descriptor >= 0:
                os.set_inheritable(descriptor, False)
        self._command = list(command)
        self._environment = dict(environment)

    def begin_check(self, state: ParentState) -> StartCheck:
        """Raises OSError."""
        return StartCheck(self._command, self._environment, state)

    def execute(self, state: ParentState) -> str:
        """Execute the program, with what the state names kept open. Returns only if that fails, with the reason."""
        for descriptor in state.descriptors:
            os.set_inheritable(descriptor, True)
        sys.stdout.flush()
        sys.stderr.flush()
        try:
            os.execve(self._command[0], self._command, {**self._environment, STATE_VARIABLE: encode_state(state).decode()})
        except OSError as error:
            for descriptor in state.descriptors:
                os.set_inheritable(descriptor, False)
            return str(error)

    def stop_members(self) -> None:
        """End the instances that were kept, in an orderly way, and wait for that: nothing will look after them, or must run beside them. Nothing once a parent
        has taken them over."""
        if self.state is None:
            return
        for member in self.state.members:
            try:
                os.kill(member.pid, signal.SIGTERM)
                os.waitpid(member.pid, 0)
            except (ChildProcessError, ProcessLookupError):
                pass
            os.close(member.channel)
        self.state.members.clear()
