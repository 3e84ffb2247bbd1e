"""Loggers, the logs they write to, and their configuration (spec: configuration §5.1, §5.4).

A `SectionLog` is one `logging` section: a threshold and outputs. `Logs` owns all of them and the files they share. A `Logger` is what code holds:
a SectionLog, a thread name and tags. Configuring again changes the SectionLogs in place, so every Logger stays valid.
"""

import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TextIO

from svc.clock import SYSTEM_CLOCK, Clock
from svc.config import Config
from svc.logs.files import LogFile, Rotation
from svc.logs.lines import json_entry, message_text, plain_text, prefix, tag_text, timestamp

TRACE, DEBUG, INFO, WARN, ERROR, FATAL, NOTIFY = 5, 10, 20, 30, 40, 50, 60
"""The levels of the standard library, and two more."""

NUMBERS = {"trace": TRACE, "debug": DEBUG, "info": INFO, "warn": WARN, "error": ERROR, "fatal": FATAL, "notify": NOTIFY}
NAMES = {number: name for name, number in NUMBERS.items()}

BUILT_IN = ("http", "mqtt", "authentication", "tls", "storage", "analytics", "replication", "external")
"""Sections of ours that may have their own `logging`; any other name is a component."""


class SectionLog:
    """One `logging` section: its threshold and its destinations. `file` and `stdout` are None when they are off. `is_own`: the configuration has it."""

    __slots__ = ("_logs", "file", "is_own", "streams", "tag", "threshold")

    def __init__(self, logs: "Logs") -> None:
        self._logs = logs
        self.threshold = WARN
        self.file: LogFile | None = None
        self.streams = True
        self.tag = ""
        self.is_own = False

    def write(self, level: int, thread: str, tags: tuple[str, ...], messages: tuple[object, ...]) -> None:
        """Format and append one entry. The caller has compared the level with `threshold`."""
        logs = self._logs
        name = NAMES[level]
        if logs.on_entry is not None:
            logs.on_entry(name, tags, plain_text(messages))
        if self.tag:
            tags = (self.tag, *tags)
        time = timestamp(logs.clock.wall())
        thread = thread or logs.thread
        if logs.is_json:
            line = json_entry(time, thread, logs.instance, name, tags, plain_text(messages))
            if self.file is not None:
                self.file.append(line)
            if self.streams and not logs.is_quiet:
                logs.print_line(level, line)
        else:
            text = message_text(messages)
            if self.file is not None:
                self.file.append(f"{time} {prefix(thread, logs.instance, name, tags)}{text}")
            if self.streams and not logs.is_quiet:
                logs.write_stream(level, time, thread, tags, text)
        if level >= FATAL:
            logs.flush()
        elif self.file is not None:
            logs.pending()


class Logger:
    """Writes entries with its tags. A level that is off costs one comparison; arguments are put together only when it is on."""

    __slots__ = ("_log", "_logs", "_section", "_thread", "tags")

    def __init__(self, logs: "Logs", section: str = "", tags: tuple[str, ...] = (), thread: str = "") -> None:
        self._logs = logs
        self._section = section
        self._thread = thread
        self._log = logs.log(section)
        self.tags = tags

    def trace(self, *messages: object) -> None:
        if self._log.threshold <= TRACE:
            self._log.write(TRACE, self._thread, self.tags, messages)

    def debug(self, *messages: object) -> None:
        if self._log.threshold <= DEBUG:
            self._log.write(DEBUG, self._thread, self.tags, messages)

    def info(self, *messages: object) -> None:
        if self._log.threshold <= INFO:
            self._log.write(INFO, self._thread, self.tags, messages)

    def warn(self, *messages: object) -> None:
        if self._log.threshold <= WARN:
            self._log.write(WARN, self._thread, self.tags, messages)

    warning = warn

    def error(self, *messages: object) -> None:
        if self._log.threshold <= ERROR:
            self._log.write(ERROR, self._thread, self.tags, messages)

    def fatal(self, *messages: object) -> None:
        """As `error`, one level up, and on the disk when this returns. Does not end the process."""
        if self._log.threshold <= FATAL:
            self._log.write(FATAL, self._thread, self.tags, messages)

    def notify(self, *messages: object) -> None:
        """Written whatever the level is, and on the disk when this returns."""
        self._log.write(NOTIFY, self._thread, self.tags, messages)

    def log(self, level: str, *messages: object) -> None:
        """Write `messages` at `level`: "trace", "debug", "info", "warn", "error", "fatal" or "notify"."""
        if self.is_enabled(level):
            self._log.write(NUMBERS[level], self._thread, self.tags, messages)

    def is_enabled(self, level: str) -> bool:
        """Whether entries of this `level`, as "debug", are written now."""
        return self._log.threshold <= NUMBERS[level]

    def with_tag(self, tag: str) -> "Logger":
        """The same logger with one more tag, `tag`."""
        return Logger(self._logs, self._section, (*self.tags, tag_text(tag)), self._thread)

    def with_thread(self, thread: str) -> "Logger":
        """The same logger for another thread name: `main`, `http`, `job` or `mqtt`."""
        return Logger(self._logs, self._section, self.tags, thread)


class Logs:
    """All logs of the process. Before `configure`, warnings and worse go to the standard streams."""

    def __init__(self, clock: Clock = SYSTEM_CLOCK) -> None:
        self.clock = clock
        self.instance = 0
        self.thread = "main"
        """The thread name of loggers that have none of their own; the server sets `http` while it serves."""
        self.on_pending: Callable[[], None] | None = None
        """Called when a first line waits, perhaps on a helper thread: arrange for `flush()` within a second. None: flush at once."""
        self.on_configured: Callable[[], None] | None = None
        """Called after each `configure`, for code that keeps a threshold of its own."""
        self.on_entry: Callable[[str, tuple[str, ...], str], None] | None = None
        """Called with the level, the tags and the text of each entry that is written, on any thread."""
        self.is_json = False
        """`logging.format: json`."""
        self.screen: Callable[[int, str, tuple[str, ...], str], None] | None = None
        """Shows what would be printed as text: level, thread, tags, message. None: it is printed as it is in the file."""
        self.is_quiet = False
        """Nothing is printed: what is logged is shown in another way."""
        self._announced = False
        self._logs: dict[str, SectionLog] = {}
        self._files: dict[Path, LogFile] = {}
        self._colors = False
        self._stdout: TextIO | None = None
        self._stderr: TextIO | None = None
        self._config: Config | None = None
        self.logger = Logger(self)
        """The main log, without tags."""

    @classmethod
    def from_config(cls, config: Config, *, instance: int = 0, clock: Clock = SYSTEM_CLOCK) -> "Logs":
        """The logs this configuration describes."""
        logs = cls(clock)
        logs.configure(config, instance=instance)
        return logs

    def get_logger(self, tag: str = "", *, section: str = "", thread: str = "") -> Logger:
        """A logger with this tag. `section` names the subsystem or component whose `logging` section applies; default: the main one."""
        return Logger(self, section, (tag_text(tag),) if tag else (), thread)

    def give_up_pending(self) -> None:
        """In a forked child: what waits is written by the parent, what comes at once."""
        self.on_pending = None
        for file in self._files.values():
            file.give_up_pending()

    def log(self, section: str) -> SectionLog:
        """The SectionLog of a section; the same object for ever."""
        found = self._logs.get(section)
        if found is None:
            found = self._logs[section] = SectionLog(self)
            self._apply(section, found)
        return found

    def configure(self, config: Config, *, instance: int = 0, stdout: TextIO | None = None, stderr: TextIO | None = None) -> None:
        """Take over levels, files, streams and rotation from the configuration; may be called again at any time."""
        self._config = config
        self.instance = instance
        self._stdout, self._stderr = stdout, stderr
        self._colors = config.logging.colors
        self.is_json = config.logging.format == "json"
        before = self._files
        self._files = {}
        given = {
            name.removesuffix(".logging") for name, fields in config.values.items() if name.endswith(".logging") and fields is not None
        }
        for section in sorted({"", *given, *self._logs}):  # the main section first: its file is rotated as it says
            self._apply(section, self._logs.setdefault(section, SectionLog(self)), before)
        for path, file in before.items():
            if self._files.get(path) is not file:
                file.close()
        if self.on_configured is not None:
            self.on_configured()

    def lowest_threshold(self) -> int:
        """No log writes anything below this level."""
        return min(log.threshold for log in self._logs.values())

    def _apply(self, section: str, log: SectionLog, before: Mapping[Path, LogFile] | None = None) -> None:
        """Set a SectionLog to what the configuration says about its section; unset fields come from the main section."""
        config = self._config
        if config is None:
            return
        own = self._own_fields(config, section)
        log.is_own = config.values.get(f"{section}.logging") is not None
        log.threshold = NUMBERS[own.get("level", config.logging.level)]
        log.tag = tag_text(own.get("tag") or "")
        to_file = config.logging.file
        log.streams = own.get("stdStreams", config.logging.std_streams) or not to_file
        if not to_file:
            log.file = None
            return
        path = own.get("path") or (own["root"] / f"{section or 'svc'}.log" if own.get("root") else config.logging.path)
        rotation = Rotation(
            own.get("rotation.path", config.logging.rotation.path),
            own.get("rotation.enabled", config.logging.rotation.enabled),
            own.get("rotation.compress", config.logging.rotation.compress),
            own.get("rotation.interval", config.logging.rotation.interval),
            own.get("rotation.maxSize", config.logging.rotation.max_size),
            own.get("rotation.retention", config.logging.rotation.retention),
        )
        file = self._files.get(path)
        if file is None:  # the first section that names a file decides how it rotates; the main one comes first
            file = (before or {}).get(path) or LogFile(path, rotation, clock=self.clock)
            file.rotation = rotation
            file.stem = "SVC" if path == config.logging.path else path.stem
            file.is_json = self.is_json
            self._files[path] = file
        log.file = file

    @staticmethod
    def _own_fields(config: Config, section: str) -> Mapping[str, Any]:
        """The fields a section sets itself. A component inherits from `logging.external`, that and the others from `logging`."""
        if not section:
            return {}
        if section == "external":
            return config.logging.external or {}
        own = config.values.get(f"{section}.logging") or {}
        return own if section in BUILT_IN else {**(config.logging.external or {}), **own}

    def write_stream(self, level: int, time: str, thread: str, tags: tuple[str, ...], text: str) -> None:
        """Print an entry: errors to standard error, the rest to standard output; with the time unless it is a terminal."""
        if self.screen is not None:
            self.screen(level, thread, tags, text)
            return
        stream = self._stream(level)
        try:
            terminal = stream is not None and stream.isatty()
        except (OSError, ValueError):
            return
        line = prefix(thread, self.instance, NAMES[level], tags, color=terminal and self._colors) + text
        self.print_line(level, line if terminal else f"{time} {line}")

    @contextmanager
    def to_files(self) -> Iterator[None]:
        """What is logged in the block is not printed."""
        before, self.is_quiet = self.is_quiet, True
        try:
            yield
        finally:
            self.is_quiet = before

    def print_line(self, level: int, line: str) -> None:
        """Print a formatted entry. A stream that cannot be written is ignored: the file still has the entry."""
        stream = self._stream(level)
        if stream is None:
            return
        try:
            try:
                stream.write(f"{line}\n")
            except UnicodeEncodeError:
                stream.write(f"{line.encode('ascii', 'backslashreplace').decode()}\n")
            stream.flush()
        except (OSError, ValueError):
            pass

    def _stream(self, level: int) -> TextIO | None:
        return (self._stderr or sys.__stderr__) if level in (ERROR, FATAL) else (self._stdout or sys.__stdout__)

    def pending(self) -> None:
        """A line waits: have it written soon."""
        if self.on_pending is None:
            self.flush()
        elif not self._announced:
            self._announced = True
            self.on_pending()

    def flush(self) -> None:
        """Write all lines that wait."""
        self._announced = False
        for file in list(self._files.values()):
            file.flush()

    def reopen(self) -> None:
        """Open all files by their names again (SIGHUP)."""
        for file in list(self._files.values()):
            file.reopen()

    def maintain(self, divisor: float = 1.0) -> None:
        """Rotate files that are due and delete expired ones; to be called once a minute, by one of the processes that write them. `divisor`: of the time
        that rotated files are kept, on a volume that becomes full."""
        main = self.logger.with_thread("main")
        for file in list(self._files.values()):
            rotated = file.maybe_rotate()
            if rotated is not None:
                main.notify(f"{file.path.name} rotated, old log moved to {rotated}")
            file.remove_expired(divisor)

    def close(self) -> None:
        """Write what waits and close the files; a later entry opens its file again."""
        self.on_pending = None
        self.flush()
        for file in self._files.values():
            file.close()
