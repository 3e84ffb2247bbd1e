"""What the application of a test has logged, and what mails it has sent."""

from __future__ import annotations

import sys
from dataclasses import dataclass

OF_APPLICATIONS = ("application", "svc.applications")
"""The tags of what the `logger` of applications writes, and of what the server says of their code."""

SHOWN = frozenset(("warn", "error", "fatal"))


@dataclass(frozen=True, slots=True)
class LogEntry:
    """`level`: "debug", "info", "warn", "error", "fatal" or "notify". `application`: its name; "" for what svc itself has logged. `tags`: as in the log."""

    level: str
    text: str
    application: str = ""
    tags: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class SentMail:
    """`html`: None for one that has its text only."""

    to: str
    subject: str
    text: str
    html: str | None = None


def note_entry(entries: list[LogEntry], name: str, level: str, tags: tuple[str, ...], text: str) -> None:
    """`name`: of the application. Warnings and errors are printed too: pytest shows them with a test that fails."""
    is_own = bool(tags) and tags[0] in (name, *OF_APPLICATIONS)
    entries.append(LogEntry(level, text, name if is_own else "", tags))
    if level in SHOWN and sys.stderr is not None:
        print(f"[{level}]{''.join(f' [{tag}]' for tag in tags)}: {text}", file=sys.stderr)
