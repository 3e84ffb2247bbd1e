"""Tests that start programs are in files with the mark `programs`: any other test that starts a process fails.

Those of multiprocessing are no audit event: `tests/unit/test_shards.py` looks for its imports.
"""

from __future__ import annotations

import sys
from collections.abc import Generator
from typing import Any

import pytest

STARTS = frozenset({"subprocess.Popen", "os.exec", "os.fork", "os.forkpty", "os.posix_spawn", "os.spawn", "os.system"})
"""Audit events (https://docs.python.org/3/library/audit_events.html)."""


class ProcessStarted(RuntimeError):
    pass


class ProcessGuard:
    """A plugin of pytest. The audit hook stays for as long as the process does."""

    def __init__(self) -> None:
        self._forbidden = False
        self._started: list[str] = []
        sys.addaudithook(self._see)

    def _see(self, event: str, arguments: tuple[Any, ...]) -> None:
        if event in STARTS and self._forbidden:
            started = f"{event} {arguments[:2]}"
            self._started.append(started)
            raise ProcessStarted(f"{started}: a file whose tests start processes has the line `pytestmark = pytest.mark.programs`")

    def _watch(self, item: pytest.Item) -> Generator[None, Any, Any]:
        self._forbidden = item.get_closest_marker("programs") is None
        self._started.clear()
        try:
            result = yield
        finally:
            self._forbidden = False
        if self._started:  # and the error was caught
            raise ProcessStarted(self._started[0])
        return result

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> Generator[None, Any, Any]:
        return (yield from self._watch(item))

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Generator[None, Any, Any]:
        return (yield from self._watch(item))

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_teardown(self, item: pytest.Item) -> Generator[None, Any, Any]:
        return (yield from self._watch(item))
