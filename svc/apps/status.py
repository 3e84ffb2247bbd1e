"""How the entries of applications were loaded (spec: configuration §9.2)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

HEALTHY, WARNING, LOADING, ERROR, UNKNOWN = "healthy", "warning", "loading", "error", "unknown"
WORST_FIRST = (ERROR, LOADING, WARNING, HEALTHY, UNKNOWN)


@dataclass(slots=True)
class EntryStatus:
    """`status`: "healthy", "warning", "loading", "error" or "unknown". `messages`: what was found, the latest last. `faults`: those of them that are
    errors. `unknown`: those about names that are not known. `details`: tracebacks, from the application's own first line on. `checked_ms`: when.
    `reported`: (status, message) that a plugin gives itself, as long as nothing else is found."""

    status: str = HEALTHY
    messages: list[str] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)
    unknown: list[str] = field(default_factory=list)
    details: list[str] = field(default_factory=list)
    checked_ms: int = 0
    reported: tuple[str, str] | None = None

    def warn(self, message: str, *, unknown: bool = False) -> None:
        """`unknown`: of a name that is not known, which was ignored."""
        self.messages.append(message)
        if unknown:
            self.unknown.append(message)
        if self.status in (HEALTHY, LOADING):
            self.status = WARNING

    def fail(self, message: str, details: str = "") -> None:
        self.messages.append(message)
        self.faults.append(message)
        if details:
            self.details.append(details)
        self.status = ERROR

    def report(self, status: str, message: str) -> None:
        """It says itself how it is, in place of what was said before."""
        self.reported = (status, message)
        self.status = status
        self.messages[:] = [message] if message else []
        self.faults[:] = self.messages if status == ERROR else []
        self.unknown.clear()
        self.details.clear()

    def begin(self) -> None:
        """It is loaded once more."""
        self.status = LOADING
        self.messages.clear()
        self.faults.clear()
        self.unknown.clear()
        self.details.clear()

    def graded(self) -> Iterator[tuple[bool, str]]:
        """(whether it is an error, message) of all that was found; where it is not known which of them are errors, all are."""
        for message in self.messages:
            yield message in self.faults or (self.status == ERROR and not self.faults), message

    def go_on(self) -> None:
        """It is loaded, but what it has begun goes on behind: it is "loading" until `complete`, unless an error is found."""
        self.reported = (LOADING, "")
        if self.status != ERROR:
            self.status = LOADING

    def complete(self, now_ms: int) -> None:
        """That is over."""
        self.reported = None
        if self.status == LOADING:
            self.status = WARNING if self.messages else HEALTHY
        self.checked_ms = now_ms

    def end(self, now_ms: int) -> None:
        """Loading has ended: healthy, unless something was found."""
        if self.status == LOADING:
            self.status, message = self.reported or (HEALTHY, "")
            if message and message not in self.messages:
                self.messages.append(message)
        self.checked_ms = now_ms


def worst(statuses: set[str]) -> str:
    """
    >>> worst({"healthy", "warning"}), worst(set())
    ('warning', 'healthy')
    """
    return next((status for status in WORST_FIRST if status in statuses), HEALTHY)
