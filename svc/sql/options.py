"""What a statement may take (settings `sql.*`)."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class SqlOptions:
    """`max_time`: seconds of work. `max_memory`: bytes. `max_rows`: of an answer that is not streamed. `max_length`: characters of a statement."""

    max_time: float = 10.0
    max_memory: int = 64 << 20
    max_rows: int = 100_000
    max_length: int = 1 << 16


DEFAULT_OPTIONS = SqlOptions()
