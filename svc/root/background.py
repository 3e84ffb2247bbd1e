"""`svc start` and `svc stop`: a server in its own session, and the pipe for what its user must see (spec: configuration §6.1).

The child gets the write end of a pipe. What it would print for the user (start errors, the initial password, which must not reach a log file)
goes into the pipe; a last line that begins with `READY` means that all listeners are open, and has the number of errors in the applications. End of the
pipe without it: the start has failed.
"""

import io
import os
import signal
import subprocess
import sys
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from svc.root.administrator import Terminal
    from svc.root.location import Installation

READY = "\x00ready"
PIPE_VARIABLE = "SVC_START_PIPE"
STOP_SECONDS = 60.0
POLL_SECONDS = 0.02
STREAMS_FILE = "svc-streams.log"


def start_in_background(installation: "Installation", apps: Sequence[str], options: Mapping[str, str], flags: Iterable[str] = ()) -> int:
    """Start the server, wait until it answers or fails, and show what it says. Returns the exit status."""
    from svc.root.secrets import erase_secrets

    reader, writer = os.pipe()
    secret = {
        name.upper(): value for name, value in options.items() if name.lower() == "svc_admin_password"
    }  # `ps` shows options to all users
    shown = [f"--{name}={value}" for name, value in options.items() if name.upper() not in secret]
    command = [*python_command(), "-m", "svc", "start-in-session", *apps, *shown, *(f"--{flag}" for flag in sorted(flags))]
    streams = os.open(installation.root / "log" / STREAMS_FILE, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        child = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=streams,
            stderr=streams,
            pass_fds=(writer,),
            env={**os.environ, **secret, PIPE_VARIABLE: str(writer)},
            start_new_session=True,
        )
        erase_secrets()  # of this command, which lives until the server answers
    finally:
        os.close(writer)
        os.close(streams)
    said = False
    with open(reader, encoding="utf-8", errors="replace") as lines:
        for line in lines:
            if line.startswith(READY):
                errors = int(line.removeprefix(READY))
                sys.stderr.flush()
                print(f"svc is running (pid: {child.pid})" + (f", started with {errors} error{'s'[: errors > 1]}." if errors else "."))
                child.returncode = 0  # it outlives this process: no warning that it has not been waited for
                return 0
            print(line, end="", file=sys.stderr)
            said = True
    status = child.wait()
    if not said:
        print(f"svc could not be started, see {installation.root / 'log'}", file=sys.stderr)
    return status or 1


def python_command() -> list[str]:
    """The beginning of a command that runs this Python without the current directory on the module path.

    Where svc itself comes from there, as from its source tree, it could not be found without.
    """
    source = Path(__file__).resolve().parent.parent
    return [sys.executable] if source == Path.cwd() else [sys.executable, "-P"]


class _Terminal(io.TextIOBase):
    """Writes to the command that started this process until `release`; from then on to `after`.

    One object for both: a stream that wraps it stays usable. Unbuffered, for it is a few lines.
    """

    def __init__(self, descriptor: int, after: TextIO) -> None:
        self._descriptor = descriptor
        self._after = after

    def writable(self) -> bool:
        return True

    def write(self, text: str) -> int:
        if self._descriptor < 0:
            return self._after.write(text)
        with suppress(OSError):  # nothing reads the pipe any more
            os.write(self._descriptor, text.encode("utf-8", "replace"))
        return len(text)

    def flush(self) -> None:
        if self._descriptor < 0:
            self._after.flush()

    def release(self) -> None:
        """Close the pipe; write to `after` from now on."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


@contextmanager
def ready_pipe() -> Iterator[tuple["Terminal", Callable[[int | None], None]]]:
    """In the child: the stream that reaches the user's terminal, and the function that reports that the server answers, with the number of errors in its
    applications; None: another process reports it.

    Standard error is that stream too, so that errors of the start are shown where the command was given.
    """
    descriptor = os.environ.pop(PIPE_VARIABLE, "")
    if not descriptor.isdecimal():
        yield sys.stderr, lambda errors: None
        return
    own_stderr = sys.stderr
    terminal = _Terminal(int(descriptor), own_stderr)

    def ready(errors: int | None) -> None:
        if errors is not None:
            print(f"{READY} {errors}", file=terminal)
        terminal.release()

    sys.stderr = terminal
    try:
        yield terminal, ready
    except Exception:
        traceback.print_exc(file=terminal)
        raise
    finally:
        sys.stderr = own_stderr
        terminal.release()


def stop(root: Path, pid: int) -> int:
    """Ask the server to stop and wait for its end. Returns the exit status, 1 if it is still there after a minute.

    One that has ended counts as ended even if its parent process, as in some containers, has not asked for its exit status.
    """
    import psutil

    from svc.clock import SYSTEM_CLOCK

    try:
        process = psutil.Process(pid)
        os.kill(pid, signal.SIGTERM)
        deadline = SYSTEM_CLOCK.monotonic() + STOP_SECONDS
        while process.is_running() and process.status() != psutil.STATUS_ZOMBIE:
            if SYSTEM_CLOCK.monotonic() > deadline:
                print(
                    f"Error: svc (pid: {pid}) has not stopped within {STOP_SECONDS:.0f} seconds; kill -9 {pid} ends it, and loses nothing that was answered",
                    file=sys.stderr,
                )
                return 1
            Event().wait(POLL_SECONDS)
    except (ProcessLookupError, psutil.NoSuchProcess):
        return 0
    except PermissionError:
        print(f"Error: no permission to stop the process {pid}", file=sys.stderr)
        return 1
    return 0
