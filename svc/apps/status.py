"""How the entries of applications were loaded (spec: configuration §9.2)."""

from __future__ import annotations

from dataclasses import dataclass, field

HEALTHY, WARNING, LOADING, ERROR, UNKNOWN = "healthy", "warning", "loading", "error", "unknown"
WORST_FIRST = (ERROR, LOADING, WARNING, HEALTHY, UNKNOWN)


@dataclass(slots=True)
class EntryStatus:
    """`status`: "healthy", "warning", "loading", "error" or "unknown". `messages`: what was found, the latest last. `details`: tracebacks, from the
    application's own first line on. `checked_ms`: when."""

    status: str = HEALTHY
    messages: list[str] = field(default_factory=list)
    details: list[str] = field(default_factory=list)
    checked_ms: int = 0

    def warn(self, message: str) -> None:
        self.messages.append(message)
        if self.status in (HEALTHY, LOADING):
            self.status = WARNING

    def fail(self, message: str, details: str = "") -> None:
        self.messages.append(message)
        if details:
            self.details.append(details)
        self.status = ERROR

    def begin(self) -> None:
        """It is loaded once more."""
        self.status = LOADING
        self.messages.clear()
        self.details.clear()

    def end(self, now_ms: int) -> None:
        """Loading has ended: healthy, unless something was found."""
        if self.status == LOADING:
            self.status = HEALTHY
        self.checked_ms = now_ms


def worst(statuses: set[str]) -> str:
    """
    >>> worst({"healthy", "warning"}), worst(set())
    ('warning', 'healthy')
    """
    return next((status for status in WORST_FIRST if status in statuses), HEALTHY)
