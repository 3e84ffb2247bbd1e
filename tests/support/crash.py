"""What the tests of crashes share: child processes that are killed, and clients of a server that is killed.

A child calls a function and says with `say` what it is about to do and what is done. It is forked from a process that has imported this module
already, so a test with many children does not wait for as many starts of Python.
"""

from __future__ import annotations

import faulthandler
import http.client
import os
import random
import signal
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from tests.integration.conftest import authorization
from tests.support import forks
from tests.support.forked import run_command
from tests.support.forks import context

context.set_forkserver_preload([forks.__name__, __name__, "pytest"])  # which the modules of tests import

SEED = int(os.environ.get("SVC_CRASH_SEED", "1"))
START_LIMIT = 60.0  # seconds until a child says something
AUTHORIZATION = authorization()


def rounds(default: int) -> int:
    """How often a child is killed: SVC_CRASH_ROUNDS if that is set."""
    return int(os.environ.get("SVC_CRASH_ROUNDS", default))


# -- child processes


def say(line: str) -> None:
    """In a child: tell the test. What has been said is read even if the child is killed at once."""
    data = line.encode() + b"\n"
    while data:
        data = data[os.write(1, data) :]


class Child:
    """`work(*arguments)` in a process of its own; `work` is a function of a module. `on_line` gets each line, on another thread."""

    def __init__(self, work: Callable[..., None], *arguments: Any, on_line: Callable[[str], None] | None = None) -> None:
        self.lines: list[str] = []
        self.heard = time.monotonic()  # when the last line came
        self._on_line = self.lines.append if on_line is None else on_line
        handle, name = tempfile.mkstemp(prefix="child-", suffix=".errors")
        os.close(handle)
        self._errors = Path(name)
        self._said, output = context.Pipe(duplex=False)
        self._process = context.Process(target=_run, args=(work, arguments, output, self._errors))
        self._process.start()
        output.close()
        self._first = threading.Event()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        with open(self._said.fileno(), "rb", closefd=False) as said:
            for line in said:
                if not line.endswith(b"\n"):
                    return  # it was killed while it said this: what the line is about has not begun
                self.heard = time.monotonic()
                self._on_line(line[:-1].decode())
                self._first.set()
        self._first.set()

    @property
    def errors(self) -> str:
        return self._errors.read_text()

    def kill_after(self, delay: float) -> list[str]:
        """Kill it so many seconds after its first line; returns the lines."""
        self._first.wait(START_LIMIT)
        time.sleep(delay)
        return self.kill()

    def kill(self) -> list[str]:
        """Raises AssertionError if it has ended by itself."""
        self._process.kill()
        status = self.wait()
        assert status == -signal.SIGKILL, f"a child ended by itself, with status {status}: {self.errors}"
        return self.lines

    def wait(self) -> int:
        """The status of a child that ends by itself, or is being killed."""
        self._process.join()
        self._reader.join()
        self._said.close()
        status = self._process.exitcode
        self._process.close()
        assert status is not None
        return status

    def check_alive(self, patience: float) -> None:
        """Raises AssertionError, with the stacks of its threads, if it has said nothing for so many seconds."""
        if time.monotonic() - self.heard > patience:
            os.kill(self._process.pid or 0, signal.SIGUSR1)
            time.sleep(1)
            raise AssertionError(f"a child has said nothing for {patience:.0f} s: {self.errors}")


def _run(work: Callable[..., None], arguments: Sequence[Any], output: Connection, errors: Path) -> None:
    os.dup2(output.fileno(), 1)
    output.close()
    handle = os.open(errors, os.O_WRONLY | os.O_APPEND)
    os.dup2(handle, 2)
    os.close(handle)
    faulthandler.register(signal.SIGUSR1, file=2)
    work(*arguments)


# -- clients of a server


class Client(threading.Thread):
    """Sends requests that change keys of its own, one after the other until the server is gone, and remembers what was answered.

    `acknowledged`: key -> the newest state with a 2xx (None: deleted). `attempted`: key -> states sent after that one, answered or not.
    """

    def __init__(self, port: int, name: str, seed: int) -> None:
        super().__init__(name=name, daemon=True)
        self.port, self.random = port, random.Random(seed)
        self.acknowledged: dict[str, Any] = {}
        self.attempted: dict[str, list[Any]] = {}
        self.answers = 0

    def request(self, number: int) -> tuple[str, Any, str, str, bytes | Iterable[bytes] | None, Mapping[str, str]]:
        """The next one: (key, the state it leads to, method, path, body, header fields)."""
        raise NotImplementedError

    def run(self) -> None:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        try:
            for number in range(1_000_000):
                key, state, method, path, body, fields = self.request(number)
                self.attempted.setdefault(key, []).append(state)
                connection.request(method, path, body, {"Authorization": AUTHORIZATION, **fields})
                response = connection.getresponse()
                response.read()
                if 200 <= response.status < 300:
                    self.acknowledged[key] = state
                    self.attempted[key] = []
                    self.answers += 1
        except (OSError, http.client.HTTPException):
            return  # the server is gone
        finally:
            connection.close()


class Expected:
    """What clients know of the states of all keys, over several kills."""

    def __init__(self) -> None:
        self.acknowledged: dict[str, Any] = {}
        self.attempted: dict[str, list[Any]] = {}

    def kill(self, kill: Callable[[], None], clients: Sequence[Client], *, answers: int, delay: float) -> None:
        """Have clients at work, and kill the server some time after so many answers: the kill falls anywhere in a turn."""
        for client in clients:
            client.start()
        deadline = time.monotonic() + START_LIMIT
        while sum(client.answers for client in clients) < answers and time.monotonic() < deadline:
            time.sleep(0.02)
        time.sleep(delay)
        kill()
        for client in clients:
            client.join(timeout=30)
            assert not client.is_alive()
            self.acknowledged.update(client.acknowledged)
            self.attempted.update(client.attempted)
        assert sum(client.answers for client in clients) >= answers

    def all_keys(self) -> list[str]:
        return sorted({*self.acknowledged, *self.attempted})

    def found(self, key: str, state: Any) -> None:
        """Raises AssertionError if this is neither the acknowledged state nor one that was sent after it."""
        allowed = [self.acknowledged.get(key), *self.attempted.pop(key, [])]
        assert state in allowed, (key, state, allowed)
        self.acknowledged[key] = state


def check(root: Path) -> str:
    """The output of `svc check`, which must find no fault."""
    done = run_command(("check", str(root)), cwd=root, env=os.environ, timeout=START_LIMIT)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout
