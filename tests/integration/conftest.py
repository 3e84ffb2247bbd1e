"""The real program on a real port, once per test worker, spoken to by clients that are not ours."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from base64 import b64encode
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import ClassVar

import httpx
import psutil
import pytest

from tests.support.forked import Forked, fork_server
from tests.support.leaks import held_by, memory_of, task_file, wait_until_equal
from tests.support.patience import be_patient
from tests.support.ports import free_port
from tests.support.prepared import place_token_keys

collect_ignore = ["openapi_hooks.py", "generated/use.py"]  # loaded by schemathesis; run with a client that is generated

APP = Path(__file__).parent / "app"
OBSERVED = Path(__file__).parent.parent / "support" / "observed"
PASSWORD = "correct horse"
GROWTH_MAX = 128 << 20  # bytes of memory that the tests of a module may add to a server: caches fill
STARTED = b"successfully started"
START_LIMIT = 120.0  # seconds; a broken start fails the test instead of hanging it
LIMIT = 60.0  # seconds for an answer, also of a machine that is busy


be_patient()


def authorization(user: str = "admin", password: str = PASSWORD) -> str:
    """The value of the header field."""
    return "Basic " + b64encode(f"{user}:{password}".encode()).decode()


class Process:
    """`python -m svc run APP` over a data directory, with every other port closed.

    `own_keys`: it makes its keys of tokens itself. Else it finds short ones, because those it makes cost up to seconds of processor time.
    `forked`: it is a fork of a process that has imported svc, because a start of Python and the imports cost a second of processor time; so are the
    processes in which it loads applications on trial.
    """

    started: ClassVar[list[Process]] = []

    def __init__(
        self,
        root: Path,
        app: Path | None = APP,
        *,
        env: dict[str, str] | None = None,
        own_keys: bool = False,
        forked: bool = True,
    ) -> None:
        self.root = root
        self._own_keys = own_keys
        self._forked = forked
        self.port = free_port()
        self.operations_port = free_port()
        self.log = root.parent / f"{root.name}-output.txt"
        self.env = {
            "PATH": os.environ["PATH"],
            "HOME": str(root.parent),
            "ROOTPATH": str(root),
            "HTTP_PORT": str(self.port),
            "HTTP_SECUREPORT": "null",
            "OPERATIONSAPI_NETWORK_PORT": str(self.operations_port),
            "MQTT_NETWORK_PORT": "null",
            "MQTT_NETWORK_SECUREPORT": "null",
            "HTTP_REQUESTAGELIMIT": "0",  # a machine busy with other tests is not an overload of this server
            "SVC_ADMIN_PASSWORD": PASSWORD,
            "PYTHONPATH": os.pathsep.join([str(OBSERVED), *(p for p in sys.path if p)]),
            "SVC_TEST_TASKS": str(task_file(root)),
            **{name: os.environ[name] for name in ("SVC_TEST_PREPARE_AT_ONCE",) if name in os.environ},
            **(env or {}),
        }
        if forked:
            self.env.setdefault("SVC_TEST_FORKS", fork_server())
        self._words = ["run", *([str(app)] if app else [])]
        self.wrapper: list[str] = []  # a command that executes the one behind it, if it is not forked
        self.pass_fds: tuple[int, ...] = ()
        self.process: subprocess.Popen[bytes] | Forked | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def operations_url(self) -> str:
        return f"http://127.0.0.1:{self.operations_port}"

    @property
    def instances(self) -> list[psutil.Process]:
        """The processes that serve, without their parent."""
        assert self.process is not None
        try:
            return psutil.Process(self.process.pid).children()
        except psutil.NoSuchProcess:
            return []

    @property
    def pid(self) -> int:
        """Of its one instance."""
        (found,) = self.instances
        return found.pid

    def start(self) -> Process:
        if not self._own_keys:
            place_token_keys(self.root)
        written, logged = (path.stat().st_size if path.exists() else 0 for path in (self.log, self._log_file))
        with self.log.open("ab") as output:
            if self._forked:
                self.process = Forked(self._words, env=self.env, cwd=self.root.parent, stdout=output, stderr=output)
            else:
                command = [*self.wrapper, sys.executable, "-m", "svc", *self._words]
                self.process = subprocess.Popen(
                    command, env=self.env, stdout=output, stderr=output, cwd=self.root.parent, pass_fds=self.pass_fds
                )
        if self not in Process.started:
            Process.started.append(self)
        deadline = time.monotonic() + START_LIMIT
        while not (self._said_since(self.log, written) or self._said_since(self._log_file, logged)):  # the last port listens by then
            if self.process.poll() is not None or time.monotonic() > deadline:
                self.kill()
                raise AssertionError(f"did not start: {self.output()}")
            time.sleep(0.01)
        return self

    @staticmethod
    def _said_since(path: Path, offset: int) -> bool:
        """Whether the server has written to a file, behind this offset, that it is started."""
        try:
            with path.open("rb") as file:
                file.seek(offset)
                return STARTED in file.read()
        except FileNotFoundError:
            return False

    @property
    def is_running(self) -> bool:
        return self.process is not None and self.process.poll() is None

    def output(self) -> str:
        return self.log.read_text(errors="replace") if self.log.exists() else ""

    @property
    def _log_file(self) -> Path:
        return self.root / "log" / "svc.log"

    def logged(self) -> str:
        return self._log_file.read_text(errors="replace") if self._log_file.exists() else ""

    def stop(self, number: int = signal.SIGTERM) -> int:
        assert self.process is not None
        self.process.send_signal(number)
        return self.process.wait(timeout=START_LIMIT)

    def kill(self) -> None:
        if self.process is not None and self.process.poll() is None:
            # All at once. The kernel ends instances with their parent, but after they can see that it has gone: until then they begin to stop in order.
            self.process.send_signal(signal.SIGSTOP)
            instances = self.instances
            for instance in instances:
                with suppress(psutil.NoSuchProcess):
                    instance.kill()
            self.process.kill()
            self.process.wait()
            psutil.wait_procs(instances, START_LIMIT)

    def client(self, **options: object) -> httpx.Client:
        return httpx.Client(base_url=self.url, auth=("admin", PASSWORD), timeout=LIMIT, **options)  # type: ignore[arg-type]

    def operate(self, operation: str, auth: tuple[str, str] | None = ("admin", PASSWORD), **fields: object) -> httpx.Response:
        """One operation over HTTP."""
        return httpx.post(self.operations_url, auth=auth, timeout=LIMIT, json={"operation": operation, **fields})


def running() -> list[Process]:
    """The servers that outlive one test."""
    Process.started[:] = [process for process in Process.started if process.is_running]
    return list(Process.started)


@pytest.fixture(autouse=True)
def no_leaks() -> Iterator[None]:
    """Servers hold the same before and after each test."""
    before = [(process, process.pid, held_by(process.pid, process.root)) for process in running()]
    yield
    for process, pid, held in before:
        if process.is_running and process.pid == pid:
            wait_until_equal(pid, process.root, held)


@pytest.fixture(autouse=True, scope="module")
def no_growth() -> Iterator[None]:
    before = [(process, process.pid, memory_of(process.pid)) for process in running()]
    yield
    for process, pid, size in before:
        if process.is_running and process.pid == pid:
            grown = memory_of(pid) - size
            assert grown <= GROWTH_MAX, f"the server has grown by {grown} bytes"


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Process]:
    process = Process(tmp_path_factory.mktemp("node") / "root", forked=False).start()
    yield process
    status = process.stop()
    assert status == 0, process.output()
    unexpected = [line for line in process.logged().splitlines() if "[error]" in line or "Traceback" in line or "[fatal]" in line]
    assert not unexpected, unexpected


PROTOCOLS = {"http1": {"http2": False}, "http2": {"http1": False, "http2": True}}
"""Options of httpx. Without HTTP/1 it begins with HTTP/2, by prior knowledge."""


@pytest.fixture(params=PROTOCOLS)
def client(server: Process, request: pytest.FixtureRequest) -> Iterator[httpx.Client]:
    """Everything holds with both protocols alike (spec: http §14)."""
    with server.client(**PROTOCOLS[request.param]) as http:
        yield http


@pytest.fixture
def anonymous(server: Process) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=server.url, timeout=LIMIT) as http:
        yield http
