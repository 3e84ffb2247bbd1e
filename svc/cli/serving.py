"""`svc`, `svc run`, `svc dev`: install if needed, lock the root, run the server in this process until it ends (spec: configuration §4, §6.1)."""

from __future__ import annotations

import faulthandler
import gc
import os
import signal
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from svc.cli.arguments import FAILED, Arguments, UsageError, installation_of, named_directory
from svc.cli.preparing import locked_root, report_failed_start
from svc.cli.start_notice import counted, findings, is_json_shown, notice, print_lines, remarks, shown_addresses
from svc.root.secrets import erase_secrets, without_secrets

if TYPE_CHECKING:
    from pathlib import Path

    from svc.cli.dev_screen import DevScreen
    from svc.config import Config
    from svc.config.document import Document
    from svc.parent import Link
    from svc.parent.renewal import Renewal
    from svc.parent.supervisor import Supervisor
    from svc.root.administrator import Administrator, Terminal
    from svc.server import Instance, Server


FIRST_PROCESS = 1  # of a container: the kernel makes it the parent of every orphan, and it gets no signal that it does not handle
START_THRESHOLD = 200_000  # new objects until the collector runs: a start makes as many that stay, and next to no cycles


def run(arguments: Arguments) -> int:
    apps = [named_directory(word) for word in arguments.words]
    return serve(arguments, apps, dev=False, terminal=sys.stderr)


def dev(arguments: Arguments) -> int:
    if not arguments.words:
        raise UsageError("svc dev needs the directory of the application, for example: svc dev .")
    apps = [named_directory(word) for word in arguments.words]
    os.environ["DEV_MODE"] = "true"
    return serve(arguments, apps, dev=True, terminal=sys.stderr, https="https" in arguments.flags)


def in_session(arguments: Arguments) -> int:
    """The command that `svc start` runs in its own session: as `run`, with the user's terminal behind a pipe."""
    from svc.root.background import ready_pipe

    apps = [named_directory(word) for word in arguments.words]
    with ready_pipe() as (terminal, on_ready):
        try:
            return serve(arguments, apps, dev=False, terminal=terminal, on_ready=on_ready)
        except UsageError as error:
            print(error, file=terminal)
            return FAILED


def serve(
    arguments: Arguments,
    apps: list[Path],
    *,
    dev: bool,
    terminal: Terminal,
    on_ready: Callable[[int | None], None] | None = None,
    https: bool = False,
) -> int:
    """Install if needed, lock the root, run the server until it ends. Messages for the user are printed on `terminal`.

    `on_ready`: called with the number of errors in the applications when the server answers, to tell the user; None: another process tells. `https`: make a
    certificate for this machine and print the address.
    """
    gc.set_threshold(START_THRESHOLD)  # until the server sets its own: the collector took a sixth of a start
    if os.getpid() == FIRST_PROCESS:
        from svc.parent.parent import STOPPING

        signal.pthread_sigmask(signal.SIG_BLOCK, STOPPING)  # one that comes now waits for its handler (`svc.parent`) instead of being lost
    from svc.errors import ConfigError, Problem
    from svc.parent.renewal import CHECK_VARIABLE, STATE_VARIABLE, Renewal
    from svc.parent.supervisor import Supervisor
    from svc.root.administrator import take_administrator
    from svc.root.background import python_command
    from svc.root.installation import WrongUser
    from svc.root.lock import AlreadyRunning

    is_check = os.environ.pop(CHECK_VARIABLE, "")
    kept = os.environ.pop(STATE_VARIABLE, "")
    renewal: Renewal | None = None
    link: Link | None = None
    try:
        administrator = take_administrator(os.environ, arguments.options)
        erase_secrets()
        if is_check:
            return _check_start(arguments, is_check)
        words = [word for word in sys.orig_argv[1:] if word != "-P"]  # it comes with the command
        supervisor = Supervisor(os.environ)
        renewal = Renewal([*python_command(), *without_secrets(words)], {**os.environ, **supervisor.variables}, kept)
        with locked_root(installation_of(arguments), arguments, is_server=True, dev=dev, kept=renewal.lock) as (config, lock):
            renewal.lock = lock.descriptor
            if config.storage.compact_on_start:
                renewal.stop_members()  # it needs the databases for itself; clients wait, for their ports stay open
                config = _compact_on_start(config)
            if https:
                _make_local_certificate(config)
            remember(config)
            _log_notes(config)
            start = _Start(config, terminal, _screen(config) if dev else None, "strict" in arguments.flags, https, on_ready)
            if not dev or config.instances > 1 or os.getpid() == FIRST_PROCESS:
                outcome = _watch_instances(config, renewal, supervisor, start)
                if isinstance(outcome, int):
                    return outcome
                link = outcome
            return _serve_instance(config, apps, administrator, start, link, is_dev=dev)
    except (AlreadyRunning, ConfigError, WrongUser, Problem, UsageError) as error:  # a Problem comes from a store that cannot be opened
        if link is not None:
            link.failed(str(error))
        if renewal is not None:
            renewal.stop_members()
        if isinstance(error, UsageError):
            raise
        return report_failed_start(error, terminal)


def _check_start(arguments: Arguments, state: str) -> int:
    """Whether svc could be started in the place of a parent in this state: the program can be imported, the configuration is valid. Nothing is started or
    written."""
    import msgspec

    import svc.server  # noqa: F401
    from svc.cli.preparing import read_config
    from svc.errors import ConfigError
    from svc.parent.state import decode_state
    from svc.root.installation import require_database

    try:
        decode_state(state)
    except msgspec.DecodeError as error:
        raise ConfigError(
            f"this version of svc cannot go on with the processes of the one that runs, stop that and start this: {error}"
        ) from error
    require_database(read_config(installation_of(arguments), arguments))
    return 0


def _watch_instances(config: Config, renewal: Renewal, supervisor: Supervisor, start: _Start) -> int | Link:
    """In this process, which becomes the parent: the exit status, when all has ended. In each of the instances that it forks: its link."""
    import svc.auth.form_secret  # the instances have one secret
    import svc.server  # noqa: F401  # the instances share its memory, and those that follow another are of the same version
    from svc.logs import Logs
    from svc.parent import Parent
    from svc.tls.ticket_keys import prepare_contexts

    def log(level: str, text: str) -> None:
        try:
            logs = Logs.from_config(config)
            logs.logger.log(level, text)
            logs.close()
        except OSError as error:  # the instances go on, whatever their parent can say
            print(f"svc: {text} (the log cannot be written: {error.strerror})", file=sys.stderr)

    prepare_contexts()
    return Parent(
        config.instances,
        log=log,
        renewal=renewal,
        on_ready=start.all_ready,
        exits_on_restart=bool(os.environ.get("SVC_EXIT_ON_RESTART")),
        supervisor=supervisor,
    ).run()


def _serve_instance(
    config: Config, apps: list[Path], administrator: Administrator, start: _Start, link: Link | None, *, is_dev: bool
) -> int:
    """Run a server in this process until it ends. `link`: to its parent; None if it has none. Returns the exit status."""
    from svc.root.administrator import keep_initial_password
    from svc.root.installation import end_installation
    from svc.server import InstanceOptions, Server

    start.link = link
    options = InstanceOptions(
        administrator,
        lambda first: (
            keep_initial_password(config.root, first.username, first.password, start.terminal) if first.password is not None else None
        ),
        reloads_code=is_dev,
        screen=start.screen,
        number=None if link is None else link.number,
        link=link,
    )
    server = Server(config, apps, options=options, on_loaded=start.loaded, on_ready=start.ready)
    end_installation(config.root)
    if link is None:
        return run_server(server)
    faulthandler.enable(2)  # one that hangs is ended by SIGABRT, and shows where it was
    return server.run()


def run_server(server: Server) -> int:
    """Serve without a parent until the end. For a restart this process executes the same command again, so its pid and its lock file stay
    (spec: configuration §6.4); with SVC_EXIT_ON_RESTART a supervisor starts it again."""
    from svc.apps.environment import PROCESS
    from svc.root.background import python_command

    status = server.run()
    if status or not server.restart_wanted or os.environ.get("SVC_EXIT_ON_RESTART"):
        return status
    sys.stdout.flush()
    sys.stderr.flush()
    try:
        words = [word for word in sys.orig_argv[1:] if word != "-P"]  # it comes with the command
        os.execve(sys.executable, [*python_command(), *without_secrets(words)], PROCESS.original())
    except OSError as error:
        print(f"Error: svc could not be started again: {error}", file=sys.stderr)
        return FAILED


def _screen(config: Config) -> DevScreen | None:
    """What shows the work of `svc dev`; None if the log is printed for a program."""
    from svc.cli.dev_screen import DevScreen

    return None if config.logging.format == "json" else DevScreen()


@dataclass
class _Start:
    """What the user gets to know of one start. `terminal`: where. `on_ready`: as of `serve`. `link`: of the instance whose start it is.
    `errors`: of the applications, once they are loaded."""

    config: Config
    terminal: Terminal
    screen: DevScreen | None
    strict: bool
    https: bool
    on_ready: Callable[[int | None], None] | None
    link: Link | None = None
    errors: int = 0

    @property
    def _is_told(self) -> bool:
        """Whether the user is told: by the first instance of a start."""
        return self.link is None or self.link.is_first

    def loaded(self, instance: Instance) -> bool:
        """All modules and applications are loaded: say what is wrong with them. Whether the server is to go on."""
        from svc.bytecode import slow_start

        if (slow := slow_start()) is not None and self._is_told:
            instance.logger.warn(slow)
        self.errors, lines = findings(instance.applications)
        if self._is_told and not is_json_shown(self.config):
            print_lines(lines if self.screen is None else remarks(instance.applications), self.terminal)
        if self.errors and self.strict:
            if not is_json_shown(self.config):
                print_lines([f"Error: the applications have {counted(self.errors)}; with --strict svc is not started"], self.terminal)
            instance.logger.fatal(f"The applications have {counted(self.errors)}; with --strict svc is not started")
            if self.link is not None:
                self.link.failed(f"the applications have {counted(self.errors)}")
            return False
        return True

    def ready(self, instance: Instance) -> None:
        """The ports are open."""
        if self._is_told:
            self._tell(instance)
        if self.link is not None:
            self.link.ready(self.errors, instance.siblings.number)
            self.all_ready(None)
        else:
            self.all_ready(self.errors)

    def all_ready(self, errors: int | None) -> None:
        """In the parent: all instances serve. `errors`: in their applications. None: in one of them; the parent tells."""
        if self.on_ready is not None:
            self.on_ready(errors)

    def _tell(self, instance: Instance) -> None:
        if self.screen is not None:
            self.screen.started(instance)
        elif is_json_shown(self.config):
            instance.logger.notify("; ".join(" ".join(line.split()) for line in notice(instance)))
        else:
            lines = notice(instance)
            if self.on_ready is None:
                lines += [f"  Started with {counted(self.errors)}, see above."] if self.errors else []
                lines += ["  Ctrl+C stops it."] if sys.stderr.isatty() else []
            print_lines(lines, self.terminal)
        if self.https and instance.application_port.is_secure_open:
            self._name_authority(instance)

    def _name_authority(self, instance: Instance) -> None:
        secure = [address for address in instance.application_port.addresses if address.startswith("https:")]
        authority = self.config.tls_entries[0].certificate_authority
        print_lines(
            [f"{shown_addresses(secure)[0]}  Clients have to trust {authority}: curl --cacert, or the settings of the browser."],
            self.terminal,
        )


def _make_local_certificate(config: Config) -> None:
    """Raises UsageError if HTTPS would not be served."""
    from svc.errors import Problem
    from svc.tls.certificates import CERTIFICATE_FILE, ensure_local_certificate

    if config.http.secure_port is None:
        raise UsageError("Error: http.securePort is null; svc dev --https needs a port, for example --HTTP_SECUREPORT 9927")
    directory = config.root / "keys"
    if config.tls_entries[0].certificate != directory / CERTIFICATE_FILE:
        return  # another one is configured
    try:
        ensure_local_certificate(directory, config.node.hostname)
    except OSError as error:
        raise UsageError(f"Error: no certificate can be made: {error.filename}: {error.strerror}") from error
    except Problem as problem:
        raise UsageError(f"Error: no certificate can be made: {problem.message}") from problem


def remember(config: Config) -> None:
    """Note the root in the boot file, with the path of the operations socket if it is not the configured one."""
    from svc.config.build import CONFIG_FILE
    from svc.root.known_roots import remember_root
    from svc.root.socket_path import socket_path

    configured = config.operations_api.network.domain_socket
    used = None if configured is None else socket_path(configured)
    remember_root(os.environ, config.file or config.root / CONFIG_FILE, used if used != configured else None)


def _compact_on_start(config: Config) -> Config:
    """Rewrite the databases if `storage.compactOnStart` says so, and set it back; returns the configuration with that."""
    if not config.storage.compact_on_start:
        return config

    from svc.clock import SYSTEM_CLOCK
    from svc.config.document import set_value
    from svc.config.editing import edit_file
    from svc.errors import ConfigError
    from svc.logs import Logs, capture_logging
    from svc.store.disk.compaction import compact_databases
    from svc.store.system import SYSTEM

    name = "storage.compactOnStart"

    def set_back(document: Document) -> Document:
        if (document.get("storage") or {}).get("compactOnStart"):
            set_value(document, name, False)
        return document

    logs = Logs.from_config(config)
    release = capture_logging(logs)
    try:
        keep = config.root / "backup" if config.storage.compact_on_start_keep_backup else None
        done = compact_databases(config.storage.path, frozenset((SYSTEM,)), keep, SYSTEM_CLOCK)
        if done and config.file is not None:
            config = edit_file(config, set_back, SYSTEM_CLOCK).config
        if done and config.storage.compact_on_start:
            logs.logger.warn(name, "is set by the environment or an option: each start compacts the databases until it is removed there")
    except (ConfigError, OSError) as error:
        logs.logger.error(name, "could not be set back:", str(error))
    finally:
        release()
        logs.close()
    return config


def _log_notes(config: Config) -> None:
    """Log the notes about the configuration, and where the initial password is as long as it has not been changed."""
    from svc.root.administrator import initial_password_notice

    notice = initial_password_notice(config.root)
    if not config.notes and notice is None:
        return
    from svc.logs import Logs

    logs = Logs.from_config(config)
    for level, sentence in config.notes:
        logs.logger.log(level, sentence)
    if notice is not None:
        logs.logger.notify(notice)
    logs.close()
