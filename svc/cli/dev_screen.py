"""What `svc dev` shows on its terminal: the start, each request, each reload, and errors once (spec: configuration §6.1).

    12:03:04  GET    /Product/?price=lt.10  200  3.2 ms  12 rows
    12:03:09  reloaded shop in 84 ms: resources.py

Colours are for terminals. Everything that comes from outside loses its control characters. What the log would print comes through here as well, so
nothing is shown twice.
"""

from __future__ import annotations

import re
import sys
import traceback
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from svc import __version__
from svc.cli.output import counted, milliseconds, printable, shows_color
from svc.cli.own_traceback import HEAD, own_traceback
from svc.cli.start_notice import browser_line, notice, shortest
from svc.clock import SYSTEM_CLOCK, Clock
from svc.content.values import CannotEncode
from svc.logs.core import ERROR, FATAL, INFO, NAMES, NOTIFY, WARN
from svc.logs.redact import without_credentials

if TYPE_CHECKING:
    from svc.apps import App, EntryStatus
    from svc.connection import Exchange
    from svc.server import Instance
    from svc.server.reloading import Reload

MAX_TARGET = 200  # characters of a path that are shown
MAX_KNOWN = 200  # errors that are not shown in full again
MAX_SOURCE = 1 << 20  # bytes of a file of which a line is shown
SERVES_ON = "the version before goes on serving"

DIM, RED, GREEN, YELLOW, CYAN, BOLD = "2", "31", "32", "33", "36", "1"
_LEVELS = {ERROR: RED, FATAL: RED, WARN: YELLOW, NOTIFY: CYAN, INFO: DIM}
_PLACE = re.compile(r"^(?P<file>[^\s:]+):(?: line )?(?P<line>\d+)(?:(?::|, column )\d+)?: ")


class DevScreen:
    """A `server.screen.Screen`."""

    def __init__(self, stream: TextIO | None = None, *, clock: Clock = SYSTEM_CLOCK, color: bool | None = None) -> None:
        """`stream`: default, the standard output. `color`: default, whether it is a terminal that shows colours."""
        self._stream = sys.__stdout__ if stream is None else stream
        self._clock = clock
        self._color = shows_color(self._stream) if color is None else color
        self._directories: dict[str, str] = {}  # of applications, real, with a slash at the end -> what is shown instead
        self._errors: dict[str, str] = {}  # traceback -> when it was shown
        self._faults: dict[str, str] = {}  # application -> what was last said of it
        self._hidden = ("authentication.authorizeLocal is on", f"svc {__version__} successfully started.")  # the start says it

    # --- the server ----------------------------------------------------------------------------------------------------------------------

    def loaded(self, apps: Sequence[App], seconds: float) -> None:
        for app in apps:
            self._know(app)
            self._show_faults(app, {key: status for key, status in app.entries.items() if status.status == "error"})
            self._show_warnings(app.name, [m for status in app.entries.values() if status.status == "warning" for m in status.messages])

    def started(self, instance: Instance) -> None:
        """The ports are open."""
        first, *rest = notice(instance, near=True)
        rest = [line for line in rest if not (line.startswith("  log ") and line.endswith(" here"))]
        login = ", requests of this machine need no login" if instance.config.authentication.authorize_local else ""
        lines = [self._paint(first, BOLD), *rest, f"  resources    {len(instance.resources)}{login}"]
        if browser := browser_line(instance):
            lines.append(f"  {browser}.")
        lines.append("  Files are watched, Ctrl+C stops.")
        self._write("\n".join(lines) + "\n")

    def reloaded(self, reload: Reload) -> None:
        app = reload.app
        self._know(app)
        if reload.faults:
            self._show_faults(app, reload.faults)
            return
        self._faults.pop(app.name, None)
        self._errors.clear()
        kind, _, rest = reload.text.partition(" ")
        text = f"{self._paint(kind, GREEN)} {printable(app.name)}" + ("" if kind == "removed" else f" {printable(rest)}")
        self._line(text)
        self._show_warnings(app.name, reload.warnings)

    def _know(self, app: App) -> None:
        directory = app.served_directory if app.is_serving else app.directory.resolve()
        self._directories[f"{directory}/"] = "" if directory == Path.cwd() else f"{shortest(directory)}/"

    # --- requests ------------------------------------------------------------------------------------------------------------------------

    def request(self, exchange: Exchange, now: float) -> None:
        request = exchange.request
        status, fields = exchange.status, request.block.fields
        target = without_credentials(request.target) if "?" in request.target else request.target
        target = printable(target if len(target) <= MAX_TARGET else f"{target[:MAX_TARGET]}...")
        state = request._state
        parts = [f"{printable(request.method[:20]):<6} {target}", str(status), milliseconds(now - request.arrived)]
        if state is not None and state.rows is not None:
            parts.append(counted(state.rows, "row"))
        if request.user is not None and ("authorization" in fields or "svc-session" in fields.get("cookie", "")):
            parts.append(printable(request.user.username[:100]))
        if not self._color:
            self._line("  ".join(parts))
        elif status == 304 or (status < 300 and request.handler_path == "" and request.method in ("GET", "HEAD")):
            self._line(self._paint("  ".join(parts), DIM))
        else:
            parts[1] = self._paint(parts[1], GREEN if status < 300 else CYAN if status < 400 else YELLOW if status < 500 else RED)
            self._line("  ".join(parts))

    # --- the log, and errors -------------------------------------------------------------------------------------------------------------

    def entry(self, level: int, thread: str, tags: tuple[str, ...], text: str) -> None:
        if tags == ("http",) or text.startswith(self._hidden):  # the access log: each request is shown already
            return
        source = f"{' '.join(tags)}: " if tags else ""
        name = NAMES.get(level, "")
        shown = self._paint(name, _LEVELS.get(level, DIM)) if name != "info" else ""
        text, trace = _split_traceback(text)
        line = f"{shown}{' ' if shown else ''}{printable(source)}{printable(text, lines=True)}"
        self._line(f"{line}\n{self._framed(self._shorten(own_traceback(trace, self._is_application)))}" if trace else line)

    def defect(self, where: str, error: BaseException) -> None:
        notes = "".join(f"\n{note}" for note in getattr(error, "__notes__", ()))
        if isinstance(error, CannotEncode):  # it is raised by svc: only what the handler has returned matters
            text = f"TypeError: {error}{notes}"
        else:
            text = own_traceback("".join(traceback.format_exception(error)), self._is_application)
        self._show_error(re.sub(r"^request \d+: ", "", where), text, text.removesuffix(notes).rpartition("\n")[2])

    def _show_error(self, where: str, text: str, last: str) -> None:
        """`last`: the line that names the exception."""
        text, where = self._shorten(text), self._shorten(where)
        shown = self._errors.get(text)
        if shown is not None:
            self._line(f"{self._paint('error', RED)} {printable(where)}: as at {shown}: {printable(last)}")
            return
        if len(self._errors) >= MAX_KNOWN:
            self._errors.clear()
        self._errors[text] = self._time()
        self._line(f"{self._paint('error', RED)} {printable(where)}\n{self._framed(text)}")

    def _framed(self, text: str) -> str:
        """Lines that are set apart from others."""
        bar = self._paint("|", RED)
        lines = printable(text, lines=True).split("\n")
        return "\n".join([*(f"  {bar} {line}" for line in lines[:-1]), f"  {bar} {self._paint(lines[-1], RED)}"])

    def _is_application(self, filename: str) -> bool:
        return any(filename.startswith(directory) for directory in self._directories) and "/site-packages/" not in filename

    def _shorten(self, text: str) -> str:
        for directory, shown in self._directories.items():
            text = text.replace(f'  File "{directory}', f'  File "{shown}').replace(f"({directory}", f"({shown}")
        return text

    # --- faults of applications ----------------------------------------------------------------------------------------------------------

    def _show_faults(self, app: App, faults: Mapping[str, EntryStatus]) -> None:
        if not faults:
            return
        details: list[str] = []
        first = ""
        goes_on = False
        for status in faults.values():
            messages = [message for message in status.messages if message != SERVES_ON]
            goes_on = goes_on or len(messages) < len(status.messages)
            first = first or (messages[0] if messages else "")
            details += [own_traceback(each, self._is_application) for each in status.details]
            if len(status.details) < len(messages):
                details += [f"{message}{_source_line(app.directory, message)}" for message in messages[len(status.details) :]]
        text = self._shorten("\n\n".join(details))
        end = f", {SERVES_ON}" if goes_on else ""
        if self._faults.get(app.name) == text:
            self._line(f"{self._paint('not loaded', RED)} {printable(app.name)}: still {printable(first)}{end}")
            return
        self._faults[app.name] = text
        self._line(f"{self._paint('not loaded', RED)} {printable(app.name)}{end}\n{self._framed(text)}")

    def _show_warnings(self, name: str, warnings: Sequence[str]) -> None:
        for warning in dict.fromkeys(warnings):
            self._line(f"{self._paint('warn', YELLOW)} {printable(name)}: {printable(warning)}")

    # --- writing -------------------------------------------------------------------------------------------------------------------------

    def _time(self) -> str:
        return datetime.fromtimestamp(self._clock.wall()).strftime("%H:%M:%S")

    def _line(self, text: str) -> None:
        self._write(f"{self._paint(self._time(), DIM)}  {text}\n")

    def _paint(self, text: str, code: str) -> str:
        return f"\x1b[{code}m{text}\x1b[0m" if self._color else text

    def _write(self, text: str) -> None:
        stream = self._stream
        if stream is None:
            return
        try:
            try:
                stream.write(text)
            except UnicodeEncodeError:
                stream.write(text.encode("ascii", "backslashreplace").decode())
            stream.flush()
        except (OSError, ValueError):  # it was closed: the log has everything
            pass


def _split_traceback(text: str) -> tuple[str, str]:
    """A log entry, and the traceback it ends with, "" if it has none.

    >>> _split_traceback("failed: Traceback (most recent call last):\\n  ...")
    ('failed', 'Traceback (most recent call last):\\n  ...')
    """
    position = text.find(HEAD)
    return (text, "") if position < 0 else (text[:position].rstrip(": \n"), text[position:])


def _source_line(directory: Path, message: str) -> str:
    """The line of a file that a message begins with, below it; "" if there is none."""
    match = _PLACE.match(message)
    if match is None:
        return ""
    try:
        with (directory / match["file"]).open(encoding="utf-8", errors="replace") as file:
            lines = file.read(MAX_SOURCE).splitlines()
        return f"\n{int(match['line']):>6} | {lines[int(match['line']) - 1].rstrip()}"
    except (OSError, IndexError, ValueError):
        return ""
