"""A loop of asyncio that is run step by step."""

from __future__ import annotations

import asyncio
from typing import Any


class SteppedLoop(asyncio.SelectorEventLoop):
    """Nothing public of asyncio tells whether a loop has something to do, so this one sees what is given to it: `is_busy`."""

    def __init__(self) -> None:
        self.is_busy = False
        self._ahead = 0.0  # seconds
        super().__init__()

    def time(self) -> float:
        return super().time() + self._ahead

    def call_soon(self, callback: Any, *args: Any, context: Any = None) -> asyncio.Handle:  # type: ignore[override]
        self.is_busy = True
        return super().call_soon(callback, *args, context=context)

    def call_soon_threadsafe(self, callback: Any, *args: Any, context: Any = None) -> asyncio.Handle:  # type: ignore[override]
        self.is_busy = True
        return super().call_soon_threadsafe(callback, *args, context=context)

    def step(self) -> bool:
        """Do what is to be done now, and not what comes of it. False: there was nothing."""
        if not self.is_busy:
            return False
        self.is_busy = False
        super().call_soon(self.stop)
        self.run_forever()
        return True

    def pass_time(self, seconds: float) -> None:
        """So many seconds pass at once, and timers that are due then are run."""
        self._ahead += seconds
        super().call_soon(self.stop)
        self.run_forever()
