"""An instance with a process of its own: its loop, its signals, its ports (spec: configuration §6.4, §6.5)."""

from __future__ import annotations

import asyncio
import errno
import signal
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from svc.clock import SYSTEM_CLOCK, Clock
from svc.config import Config
from svc.logs import capture_output
from svc.loop import contained, new_loop
from svc.operations.held_loop import HeldLoop
from svc.server.instance import DEFAULT_OPTIONS, Instance, InstanceOptions
from svc.server.ports import ServerPorts, port_hint
from svc.server.slow_turns import SlowTurns

STOPPING = (signal.SIGTERM, signal.SIGINT, signal.SIGQUIT)


class Server:
    """`run()` serves until a signal or `stop()`, and returns the exit status."""

    def __init__(
        self,
        config: Config,
        directories: Sequence[Path] = (),
        *,
        clock: Clock = SYSTEM_CLOCK,
        options: InstanceOptions = DEFAULT_OPTIONS,
        on_loaded: Callable[[Instance], bool] | None = None,
        on_ready: Callable[[Instance], None] | None = None,
    ) -> None:
        """`directories`: of applications beside those in `componentsRoot`. `on_loaded`: called before the ports are opened; False: `run` ends with 1.
        `on_ready`: called when they are."""
        self.loop, self._turns = new_loop(clock)
        self.instance = Instance(config, tuple(directories), self.loop, self._turns, clock=clock, options=options)
        self._link = options.link
        self._on_loaded = on_loaded
        self._on_ready = on_ready
        self._release_output: Callable[[], None] = lambda: None
        instance = self.instance
        self.loop.set_exception_handler(instance.defects.report_loop)
        self._release_warnings = instance.defects.forgotten.watch()
        held_loop = HeldLoop(instance.logs, clock, instance.analytics.recorder.record)
        self.slow_turns = SlowTurns(self._turns, clock, instance.code, held_loop, instance.logger)
        instance.node.status.held_loop = held_loop
        instance.interface.on_code = self.slow_turns.add
        instance.interface.on_dropped = instance.defects.forgotten.report_call

    def run(self) -> int:
        """Serve. Returns the exit status; 1 if a port cannot be opened, or `on_loaded` says so."""
        instance = self.instance
        asyncio.set_event_loop(self.loop)
        try:
            self.loop.run_until_complete(instance.load())
            if self._on_loaded is not None and not self._on_loaded(instance):
                return 1
            try:
                self._listen()
            except OSError as error:
                instance.logger.fatal(f"cannot listen on {error.strerror}")
                if self._link is not None:
                    self._link.failed(f"cannot listen on {error.strerror}")
                print(f"Error: cannot listen on {error.strerror}", file=sys.stderr)
                if (hint := port_hint(error)) is not None:
                    print(hint, file=sys.stderr)
                return 1
            instance.application_port.start()
            instance.operations_port.start()
            for number in STOPPING if self._link is None else STOPPING[:1]:  # the parent gets those of a terminal
                self.loop.add_signal_handler(number, instance.shutdown.stop_for_good)
            self.loop.add_signal_handler(signal.SIGHUP, instance.logs.reopen)
            instance.forked_child.note_signals((*STOPPING, signal.SIGHUP))
            if instance.config.logging.console:
                self._release_output = capture_output(instance.logs)
            self.slow_turns.start()
            instance.garbage.begin()
            instance.begin()
            instance.logs.thread = "http"
            if self._on_ready is not None:
                self._on_ready(instance)
            self._serve()
            return instance.shutdown.exit_status
        finally:
            self._close()

    def _listen(self) -> None:
        """Open every port or raise OSError with none open."""
        instance = self.instance
        try:
            instance.application_port.listen()
            instance.operations_port.listen()
            if instance.mqtt_port is not None:
                self._listen_to_mqtt(instance.mqtt_port)
        except OSError:
            instance.application_port.discard()
            instance.operations_port.discard()
            instance.application_ports.discard()
            raise

    def _listen_to_mqtt(self, ports: ServerPorts) -> None:
        """The default ports are left out if another program has them: many machines have a broker."""
        network = self.instance.config.mqtt.network
        try:
            ports.listen()
        except OSError as error:
            if error.errno != errno.EADDRINUSE or not {network.port, network.secure_port} & {1883, 8883}:
                raise
            text = f"MQTT is served over WebSocket only: {error}. Stop the program that has this port, or set another one; null opens none."
            self.instance.logs.logger.warn(text)

    def _serve(self) -> None:
        """Run the loop until it is stopped. `sys.exit()` or KeyboardInterrupt in a task of an application does not end the server."""
        instance = self.instance
        while True:
            try:
                self.loop.run_forever()
                return
            except (SystemExit, KeyboardInterrupt) as error:  # which asyncio lets through
                instance.defects.report("a task of an application has called sys.exit() or raised KeyboardInterrupt", contained(error))
                if instance.shutdown.is_closing:
                    return

    def stop(self) -> None:
        """First call: stop accepting, finish the requests in flight up to a limit. Second call: stop at once."""
        self.instance.shutdown.stop()

    @property
    def restart_wanted(self) -> bool:
        """Whether the caller of `run` is to start the server again."""
        return self.instance.shutdown.restart_wanted

    def _close(self) -> None:
        self.slow_turns.stop()
        self.instance.garbage.end()
        self.loop.run_until_complete(self.instance.end_parts(lambda: asyncio.all_tasks()))
        self.loop.run_until_complete(self.loop.shutdown_asyncgens())
        self.loop.close()
        self._release_output()
        self._release_warnings()
        self.instance.release()
