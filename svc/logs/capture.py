"""Output that does not come through a Logger: the standard library's `logging`, and what applications print.

Applications and libraries use both. `capture_logging` and `capture_output` lead them into the log; each returns the function that undoes it.
"""

import logging
import sys
from collections.abc import Callable
from contextvars import ContextVar
from typing import TextIO

from svc.logs.core import DEBUG, ERROR, FATAL, INFO, TRACE, WARN, Logs

component: ContextVar[str] = ContextVar("component", default="")
"""The application whose code runs; set by the loader around imports and handlers. The tag of captured lines."""

_MODULES = {
    "svc.store": ("storage", "storage"),
    "svc.cluster": ("replication", "replication"),
    "svc.analytics": ("analytics", "analytics"),
    "svc.mqtt": ("mqtt", "mqtt"),
    "svc.auth": ("authentication", "auth"),
    "svc.operations": ("", "operation"),
    "svc.apps": ("", "apps"),
}
"""Our own modules' loggers -> the section whose `logging` applies, the tag of the specification."""

_TALKATIVE = ("boto3", "botocore", "hpack", "httpcore", "oauthlib", "requests_oauthlib", "s3transfer", "urllib3")
"""Loggers of libraries that log what they receive or send at `debug`: header fields and addresses of requests, with credentials."""

_before: dict[str, int] = {}  # the levels that these had before they were quiet
_captures = 0  # under way: instances of one process may end in another order than they began
_REENTERED: ContextVar[bool] = ContextVar("reentered", default=False)


class _Handler(logging.Handler):
    """Passes records of the standard library on: ours to the log of their subsystem, others to that of the running component, or the main one."""

    def __init__(self, logs: Logs) -> None:
        super().__init__()
        self._logs = logs

    def emit(self, record: logging.LogRecord) -> None:
        number = record.levelno
        level = next((known for known in (FATAL, ERROR, WARN, INFO, DEBUG) if number >= known), TRACE)
        running = component.get()
        section, tag = _MODULES.get(".".join(record.name.split(".", 2)[:2]), (running, record.name))
        log = self._logs.log(section)
        if level < log.threshold:
            return
        try:
            messages: list[object] = [record.getMessage()]
        except (TypeError, ValueError):
            messages = [record.msg, record.args]
        if record.exc_info and record.exc_info[1] is not None:
            messages = [f"{messages[0]}\n", record.exc_info[1]]
        tags = tuple(each for each in (running, tag) if each and each != "root")
        log.write(level, "", tags, tuple(messages))


def capture_logging(logs: Logs, name: str = "") -> Callable[[], None]:
    """Send what a logger of the standard library receives to our log, as long as its level lets it through anywhere. `name`: "" is the root logger."""
    root = logging.getLogger(name)
    handler, level, handlers = _Handler(logs), root.level, root.handlers[:]
    root.handlers[:] = [handler]

    def follow() -> None:
        root.setLevel(logs.lowest_threshold())

    logs.on_configured = follow
    follow()
    _quiet()

    def undo() -> None:
        logs.on_configured = None
        _unquiet()
        root.handlers[:] = handlers
        root.setLevel(level)

    return undo


def _quiet() -> None:
    global _captures
    for name in _TALKATIVE:
        logger = logging.getLogger(name)
        if not _captures:
            _before[name] = logger.level
        logger.setLevel(logging.INFO)
    _captures += 1


def _unquiet() -> None:
    global _captures
    _captures -= 1
    if not _captures:
        for name, level in _before.items():
            logging.getLogger(name).setLevel(level)


class _Output:
    """Stands in for sys.stdout or sys.stderr: whole lines go into the log, and to the real stream unless the log goes there itself."""

    def __init__(self, stream: TextIO, level: int, logs: Logs) -> None:
        self._stream = stream
        self._level = level
        self._logs = logs
        self._rest: dict[str, str] = {}

    def write(self, text: str) -> int:
        name = component.get()
        log = self._logs.log(name)
        if _REENTERED.get() or not name or not log.streams:
            self._stream.write(text)
        if _REENTERED.get() or not name:
            return len(text)
        *lines, rest = (self._rest.pop(name, "") + text).split("\n")
        if rest:
            self._rest[name] = rest
        token = _REENTERED.set(True)
        try:
            for line in lines:
                if line.strip() and self._level >= log.threshold:
                    log.write(self._level, "", (name,), (line,))
        finally:
            _REENTERED.reset(token)
        return len(text)

    def writelines(self, lines: list[str]) -> None:
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> object:
        return getattr(self._stream, name)


def capture_output(logs: Logs) -> Callable[[], None]:
    """Copy what applications print into their log: standard output at `info`, standard error at `error`. Our own output is left alone."""
    stdout, stderr = sys.stdout, sys.stderr
    sys.stdout = _Output(stdout, INFO, logs)
    sys.stderr = _Output(stderr, ERROR, logs)

    def undo() -> None:
        sys.stdout, sys.stderr = stdout, stderr

    return undo
