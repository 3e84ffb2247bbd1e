"""Running other programs for a deployment: with an end, little output, and nothing of the server's secrets (spec: deployment §4).

Each runs in a session of its own; all of it is killed when the time is over, when the deployment is cancelled, and when this process ends.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from svc.clock import SYSTEM_CLOCK
from svc.errors import ClientError
from svc.store.backup.watch import Watch

POLL = 0.05  # seconds between two looks whether it has ended or is to
LINE = 1000  # characters of a line of output
KEPT_LINES = 60  # of the output, the last ones
CLOSING = 2.0  # seconds for the rest of the output of a program that has ended
LARGEST_FILE = 1 << 31  # bytes of a file that a program may write
_READ = 1 << 14

PASSED_ON = frozenset(
    (
        "PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LANGUAGE", "TZ", "TMPDIR", "TMP", "TEMP", "SSL_CERT_FILE", "SSL_CERT_DIR",
        "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "GIT_SSL_CAINFO", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "ALL_PROXY", "http_proxy", "https_proxy",
        "no_proxy", "all_proxy", "VIRTUAL_ENV", "NETRC", "CC", "CXX", "CFLAGS", "LDFLAGS", "LD_LIBRARY_PATH", "PKG_CONFIG_PATH", "XDG_CACHE_HOME",
        "XDG_CONFIG_HOME",
    )
)  # fmt: skip
_PASSED_ON = ("LC_", "PIP_", "UV_", "CARGO_")

# A child ends with the process that has started it. It cannot be asked for before the program itself runs, for this process has threads.
_TIED = f"""import ctypes, os, resource, sys
try: ctypes.CDLL(None).prctl(1, 9)
except AttributeError: pass
resource.setrlimit(resource.RLIMIT_FSIZE, ({LARGEST_FILE}, {LARGEST_FILE}))
os.execvp(sys.argv[1], sys.argv[1:])"""


class CommandFailed(ClientError):
    """A program has failed; the message has the end of its output."""


@dataclass(frozen=True)
class Outcome:
    """`status`: as of subprocess; None: it was killed because its time was over. `output`: its last lines."""

    status: int | None
    output: tuple[str, ...]


def clean_environment(environ: Mapping[str, str], **more: str) -> dict[str, str]:
    """The variables of the server that other programs get: no passwords, no keys of services."""
    kept = {name: value for name, value in environ.items() if name in PASSED_ON or name.startswith(_PASSED_ON)}
    scripts = os.path.dirname(sys.executable)
    kept["PATH"] = os.pathsep.join(
        [scripts, *[part for part in kept.get("PATH", os.defpath).split(os.pathsep) if part and part != scripts]]
    )
    return {**kept, "PYTHONUNBUFFERED": "1", "PYTHONDONTWRITEBYTECODE": "1", "GIT_TERMINAL_PROMPT": "0", **more}


def run_command(
    command: Sequence[str],
    directory: Path,
    seconds: float,
    *,
    environment: Mapping[str, str],
    watch: Watch,
    on_line: Callable[[str], None] = lambda line: None,
    tied: bool = True,
) -> Outcome:
    """Run a program until it ends, for so many seconds at most. `on_line` gets each line of its output, on another thread.

    `tied`: through Python, so that it ends with this process. Raises Stopped when `watch` says so, CommandFailed if it cannot be started.
    """
    words = [sys.executable, "-I", "-S", "-c", _TIED, *command] if tied else list(command)
    try:
        process = subprocess.Popen(
            words,
            cwd=directory,
            env=dict(environment),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    except (OSError, ValueError) as error:
        raise CommandFailed(f"{command[0]} cannot be started: {error}", 500) from error
    output = _Output(process, on_line)
    try:
        status = _wait(process, seconds, watch)
    finally:
        kill_session(process)
        output.close()
    return Outcome(status, tuple(output.lines))


def _wait(process: subprocess.Popen[bytes], seconds: float, watch: Watch) -> int | None:
    deadline = SYSTEM_CLOCK.monotonic() + seconds
    while True:
        try:
            return process.wait(POLL)
        except subprocess.TimeoutExpired:
            watch.check()
            if SYSTEM_CLOCK.monotonic() > deadline:
                return None


def kill_session(process: subprocess.Popen[bytes]) -> None:
    """Kill a program and those it has started, also when it has ended itself."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


class _Output:
    """The output of a program: read to its end, of which the last lines are kept."""

    def __init__(self, process: subprocess.Popen[bytes], on_line: Callable[[str], None]) -> None:
        assert process.stdout is not None
        self.lines: deque[str] = deque(maxlen=KEPT_LINES)
        self._on_line = on_line
        self._stream: IO[bytes] = process.stdout
        self._thread = threading.Thread(target=self._read, name="output of a command", daemon=True)
        self._thread.start()

    def _read(self) -> None:
        descriptor = self._stream.fileno()
        rest = b""
        with suppress(OSError, ValueError):
            while data := os.read(descriptor, _READ):
                *lines, rest = (rest + data).replace(b"\r", b"\n").split(b"\n")
                rest = rest[:LINE]
                for line in lines:
                    self._take(line)
        self._take(rest)

    def _take(self, line: bytes) -> None:
        text = "".join(c if c.isprintable() else " " for c in line[:LINE].decode(errors="replace")).rstrip()
        if text:
            self.lines.append(text)
            self._on_line(text)

    def close(self) -> None:
        """A program that has left the session may keep the other end open: then the rest is not waited for."""
        self._thread.join(CLOSING)
        if not self._thread.is_alive():
            self._stream.close()
