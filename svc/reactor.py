"""What the parts of an instance run on."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Executor
from dataclasses import dataclass

from svc.clock import Clock


@dataclass(slots=True)
class Reactor:
    """The loop of an instance, its clock, threads, and where defects are reported.

    `executor`: threads for what would hold the loop. `log_error(where, error)`: logs a defect; with None as the error, a sentence.
    """

    loop: asyncio.AbstractEventLoop
    clock: Clock
    executor: Executor
    log_error: Callable[[str, BaseException | None], None]

    def report_stream(self, error: BaseException) -> None:
        """Log an error that ends a response after its head was sent."""
        self.log_error("while streaming an answer", error)
