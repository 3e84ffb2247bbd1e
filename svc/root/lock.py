"""The lock of a root directory and the process id of its server (spec: configuration §1).

`svc.lock` is locked while a server, or a command that changes the data, runs; `svc.pid` is the server's.
"""

import fcntl
import os
from pathlib import Path
from threading import Event

from svc.clock import SYSTEM_CLOCK
from svc.config.document import write_private
from svc.errors import ConfigError

LOCK_FILE = "svc.lock"
PID_FILE = "svc.pid"
REST_SECONDS = 15.0  # at most, until the processes of a server that has been killed have ended
POLL_SECONDS = 0.01


class AlreadyRunning(Exception):
    """Another server holds the lock of this root. `pid` is None if it has not written it yet."""

    def __init__(self, pid: int | None) -> None:
        super().__init__(f"svc is already running (pid: {pid})" if pid else "svc is already running")
        self.pid = pid


class RootLock:
    """Held while a server runs: no second one on the same root, however the first one ends. `release()` also removes the pid file.

    Processes that are forked meanwhile hold it too, as long as they live, and release nothing. `descriptor`: of the lock.
    """

    def __init__(self, root: Path, *, is_server: bool = True, kept: int = -1) -> None:
        """Take the lock; a server writes its pid. `kept`: the descriptor of a lock that this process has held since it executed another program.

        Waits for the rest of a server whose main process has been killed. Raises AlreadyRunning, or ConfigError if the root is not ours to write.
        """
        self._owner = os.getpid()
        self._pid_file = root / PID_FILE if is_server else None
        self.descriptor = kept
        if kept < 0:
            self._take(root)
        if self._pid_file is not None:
            try:
                write_private(self._pid_file, f"{self._owner}\n".encode())
            except OSError as error:
                os.close(self.descriptor)
                raise ConfigError(f"The file {self._pid_file} cannot be written: {error.strerror}") from error

    def _take(self, root: Path) -> None:
        try:
            self.descriptor = os.open(root / LOCK_FILE, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise ConfigError(f"The file {root / LOCK_FILE} cannot be opened: {error.strerror}") from error
        deadline = SYSTEM_CLOCK.monotonic() + REST_SECONDS
        while True:
            try:
                fcntl.flock(self.descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return
            except OSError:
                pid = read_pid(root)
                if SYSTEM_CLOCK.monotonic() >= deadline or pid is None or _exists(pid):
                    os.close(self.descriptor)
                    raise AlreadyRunning(pid) from None
            Event().wait(POLL_SECONDS)

    def release(self) -> None:
        if self.descriptor >= 0:
            if self._pid_file is not None and os.getpid() == self._owner:
                self._pid_file.unlink(missing_ok=True)
            os.close(self.descriptor)  # the lock goes with it, if no other process has it
            self.descriptor = -1

    def __enter__(self) -> "RootLock":
        return self

    def __exit__(self, *_: object) -> None:
        self.release()


def _exists(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    return True


def read_pid(root: Path) -> int | None:
    try:
        return int((root / PID_FILE).read_text(encoding="ascii"))
    except (OSError, ValueError):
        return None


def running_pid(root: Path) -> int | None:
    """The pid of the server of this root, None if there is none: a file left by a killed one does not count.

    The process is known by its command, for the operating system may have given the number to another one.
    """
    import psutil  # 20 ms, and only three commands ask

    pid = read_pid(root)
    if pid is None or pid == os.getpid():
        return None
    try:
        process = psutil.Process(pid)
        if process.status() == psutil.STATUS_ZOMBIE:
            return None
        command = process.cmdline()
    except psutil.AccessDenied:
        return pid
    except psutil.Error:
        return None
    if not any(Path(part).name == "svc" or part.endswith("svc/__main__.py") for part in command[:6]) or _serves_another(pid, root):
        return None
    return pid


def _serves_another(pid: int, root: Path) -> bool:
    """Whether this server has locked another root: a copy of a directory has the pid file of the original too (Linux; False elsewhere).

    One that has locked none is being renewed.
    """
    locked = []
    try:
        for entry in os.scandir(f"/proc/{pid}/fd"):
            if os.readlink(entry.path).endswith(f"/{LOCK_FILE}"):
                found = entry.stat()
                locked.append((found.st_dev, found.st_ino))
        own = (root / LOCK_FILE).stat()
    except OSError:
        return False
    return bool(locked) and (own.st_dev, own.st_ino) not in locked
