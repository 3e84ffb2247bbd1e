"""Commands and servers of svc that start at once: forks of a process that has imported it (`forkserver.py`)."""

from __future__ import annotations

import functools
import json
import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO

from tests.support import forkserver

START_LIMIT = 600.0  # seconds for the fork server to import svc, some of processor time, and to fork; that it has ended is seen at once


class Forked:
    """What `python -m MODULE WORDS` does, in a fork. Has what the tests, and trial loads, use of subprocess.Popen.

    `address`: of the fork server, if not that of this process.
    """

    def __init__(
        self,
        words: Sequence[str],
        *,
        env: Mapping[str, str],
        cwd: Path,
        stdin: IO[bytes] | int = subprocess.DEVNULL,
        stdout: IO[bytes] | int = subprocess.DEVNULL,
        stderr: IO[bytes] | int = subprocess.DEVNULL,
        module: str = "svc",
        address: str = "",
    ) -> None:
        self.args = [sys.executable, "-m", module, *words]
        self.returncode: int | None = None
        self._said = b""
        self._connection = socket.socket(socket.AF_UNIX)
        null = os.open(os.devnull, os.O_RDWR)
        try:
            self._connection.settimeout(START_LIMIT)
            self._connection.connect(address or fork_server())
            streams = [null if stream == subprocess.DEVNULL else _descriptor(stream) for stream in (stdin, stdout, stderr)]
            request = {"module": module, "words": list(words), "env": dict(env), "cwd": str(cwd), "umask": _umask()}
            socket.send_fds(self._connection, [json.dumps(request).encode()], streams)
        finally:
            os.close(null)
        try:
            pid = self._number(START_LIMIT)
            assert pid is not None, "no process was forked"
        except BaseException:
            self._connection.close()
            raise
        self.pid = pid

    def _number(self, timeout: float) -> int | None:
        """The next number that the fork server tells. None if it has not come in time."""
        deadline = time.monotonic() + timeout
        while b"\n" not in self._said:
            ready, _, _ = select.select([self._connection], [], [], max(0.0, deadline - time.monotonic()))
            if not ready:
                return None
            piece = self._connection.recv(64)
            assert piece, "the fork server has ended"
            self._said += piece
        line, _, self._said = self._said.partition(b"\n")
        return int(line)

    def poll(self) -> int | None:
        if self.returncode is None:
            self.returncode = self._number(0.0)
            if self.returncode is not None:
                self._connection.close()
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """The exit status, negative for a signal. Raises subprocess.TimeoutExpired."""
        if self.returncode is None:
            self.returncode = self._number(1e9 if timeout is None else timeout)
            if self.returncode is None:
                raise subprocess.TimeoutExpired(self.args, timeout or 0.0)
            self._connection.close()
        return self.returncode

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


def _descriptor(stream: IO[bytes] | int) -> int:
    return stream if isinstance(stream, int) else stream.fileno()


def _umask() -> int:
    """That of this process, which a child would have inherited."""
    umask = os.umask(0o077)
    os.umask(umask)
    return umask


@functools.cache
def fork_server() -> str:
    """The socket of the fork server of this process, which is started when it is first needed."""
    path = str(Path(tempfile.mkdtemp(prefix="forkserver-")) / "socket")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path)
        listener.listen(128)
        subprocess.Popen(
            [sys.executable, "-m", forkserver.__name__, str(listener.fileno()), "svc"],
            env={**os.environ, "PYTHONPATH": os.pathsep.join(place for place in sys.path if place)},
            stdin=subprocess.DEVNULL,
            pass_fds=[listener.fileno()],
            start_new_session=True,  # Ctrl+C is for the tests
        ).returncode = 0  # it ends with this process: no warning that it has not been waited for
    return path


def run_command(
    words: Sequence[str], *, cwd: Path, env: Mapping[str, str], timeout: float, given: str = ""
) -> subprocess.CompletedProcess[str]:
    """What `python -m svc WORDS` does, without a terminal. `given`: its standard input."""
    with tempfile.TemporaryFile() as entered, tempfile.TemporaryFile() as output, tempfile.TemporaryFile() as errors:
        entered.write(given.encode())
        entered.seek(0)
        process = Forked(words, env=env, cwd=cwd, stdin=entered, stdout=output, stderr=errors)
        try:
            status = process.wait(timeout)
        except subprocess.TimeoutExpired:
            process.kill()
            raise
        output.seek(0)
        errors.seek(0)
        return subprocess.CompletedProcess(process.args, status, output.read().decode(), errors.read().decode())
