"""The periodic work of an instance: deadlines, analytics, log files, maintenance of the store (spec: configuration §5, §6)."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from svc.analytics import Analytics
from svc.analytics.collector import TICK_BUDGET
from svc.auth.users import UserDirectory
from svc.clock import ClockSteps
from svc.config import Config
from svc.errors import Problem
from svc.logs import CHECK_SECONDS, LoggingWatch, Logs
from svc.loop import Turns
from svc.reactor import Reactor
from svc.server.ports import ServerPorts
from svc.store import Store
from svc.store.system import SYSTEM

SWEEP_SECONDS = 1.0
ROTATION_SECONDS = 60.0  # polling interval of the sizes of log files
LOG_SECONDS = 0.5  # a line below `fatal` may wait this long to be written (spec: configuration §5.3: within 1 s)
TOLD_STEP = 3600.0  # seconds: a step of the clock that is logged
MAINTENANCE_SLICE = 0.004  # seconds of background work in one go
MAINTENANCE_PAUSE = 0.004  # ... and the pause between two slices while there is more


class PeriodicWork:
    """Timers on the loop, from `start` until the loop ends."""

    def __init__(
        self,
        config: Config,
        store: Store,
        directory: UserDirectory,
        analytics: Analytics,
        ports: Callable[[], Sequence[ServerPorts]],
        *,
        reactor: Reactor,
        turns: Turns,
        logs: Logs,
    ) -> None:
        self.on_store_stopped: Callable[[Sequence[str]], None] = lambda databases: None
        """Called with the databases that this process can no longer use."""
        self.sweeps: list[Callable[[float], None]] = []
        """Called once a second with the time."""
        self.leads: Callable[[], bool] = lambda: True
        """Whether this process does what is done once per node."""
        self.rotates: Callable[[], bool] = lambda: True
        """Whether it rotates the log files."""
        self.on_turn: Callable[[], None] = lambda: None
        """Called at the beginning of a turn, if there are other processes over the same databases."""
        self._config = config
        self._store = store
        self._directory = directory
        self._analytics = analytics
        self._ports = ports
        self._clock = reactor.clock
        self._loop = reactor.loop
        self._turns = turns
        self._logs = logs
        self._log_error = reactor.log_error
        self._socket_bytes = (0, 0)  # received, sent: as of the last second
        self._clock_steps = ClockSteps(reactor.clock)
        self._has_siblings = True  # other processes over the same databases; until that is looked at
        self._arrivals = b""

    def start(self) -> None:
        self._logs.on_pending = self._flush_logs_soon
        self._turns.begin_turn = self._begin_turn
        self._loop.call_later(SWEEP_SECONDS, self._sweep)
        self._loop.call_later(ROTATION_SECONDS, self._rotate_logs)
        self._loop.call_later(CHECK_SECONDS, self._reload_logging, LoggingWatch(self._config, self._logs))
        self._loop.call_later(MAINTENANCE_PAUSE, self._maintain)

    # --- once a second ---------------------------------------------------------------------------------------------------------------

    def _sweep(self) -> None:
        self._loop.call_later(SWEEP_SECONDS, self._sweep)
        system = self._store.databases[SYSTEM].env
        self._arrivals = system.arrivals()  # first: who comes behind this is noticed in the next turn
        self._has_siblings = system.has_siblings()
        now = self._clock.monotonic()
        self._watch_clock()
        if stopped := self._store.stopped:
            self.on_store_stopped(stopped)
        for ports in self._ports():
            ports.sweep(now)
        for sweep in self.sweeps:
            sweep(now)
        self._store.snapshots.abort_due()
        if self._config.storage.debug_long_transactions:
            self._store.report_long_transactions()
        self._record_socket_bytes()
        if self._analytics.tick(self._turns.idle, self._turns.active):
            self._loop.call_later(MAINTENANCE_PAUSE, self._work_on_analytics)

    def _watch_clock(self) -> None:
        step = self._clock_steps.take()
        if abs(step) >= TOLD_STEP:
            way = f"{'forward' if step > 0 else 'back'} by {abs(step) / 3600:.1f} hours"
            cause = "it was set, or the machine slept; what expires, is kept for a time or runs at set times goes by it"
            self._logs.logger.warn("the clock went", way, "at once:", cause)

    def _begin_turn(self) -> None:
        system = self._store.databases.get(SYSTEM)  # None: it has been closed
        if system is not None and (self._has_siblings or system.env.arrivals() != self._arrivals):
            self.on_turn()
            self._follow_others()

    def _follow_others(self) -> None:
        """Take over what other processes have changed of definitions, users and roles, before the requests of the turn that begins."""
        try:
            self._store.follow()
            self._directory.refresh()
        except Problem as problem:
            self._log_error(f"what other processes have written cannot be read: {problem.message}", None)

    def _record_socket_bytes(self) -> None:
        """Bytes that all sockets have received and sent in the last second, heads included; nothing for an idle second."""
        connections = [ports.connections for ports in self._ports()]
        now = (sum(each.bytes_received for each in connections), sum(each.bytes_sent for each in connections))
        for direction, before, count in zip(("received", "sent"), self._socket_bytes, now, strict=True):
            if count > before:
                self._analytics.recorder.record(count - before, "socket-bytes", type=direction)
        self._socket_bytes = now

    def _work_on_analytics(self) -> None:
        if self._analytics.work(TICK_BUDGET):
            self._loop.call_later(MAINTENANCE_PAUSE, self._work_on_analytics)

    # --- at intervals of their own ---------------------------------------------------------------------------------------------------

    def _rotate_logs(self) -> None:
        self._loop.call_later(ROTATION_SECONDS, self._rotate_logs)
        if self.rotates():
            self._logs.maintain(self._store.reclamation.divisor)

    def _reload_logging(self, watch: LoggingWatch) -> None:
        self._loop.call_later(CHECK_SECONDS, self._reload_logging, watch)
        watch.check()

    def _flush_logs_soon(self) -> None:
        """Lines wait to be written; this may be called on a helper thread."""
        self._loop.call_soon_threadsafe(self._loop.call_later, LOG_SECONDS, self._logs.flush)

    def _maintain(self) -> None:
        try:
            more = self._store.maintenance(MAINTENANCE_SLICE, leads=self.leads())
        except Exception as error:
            self._log_error("background work of the store", error)
            more = False
        self._loop.call_later(MAINTENANCE_PAUSE if more else SWEEP_SECONDS, self._maintain)
