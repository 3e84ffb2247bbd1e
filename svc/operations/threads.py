"""Long work with files, on a thread of its own so that it does not block logins on the helper threads."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from svc.operations.job import Job
from svc.store.backup import Watch

T = TypeVar("T")

REPORT_BYTES = 16 << 20  # between two reports of how far it is


async def in_thread(work: Callable[[], T], watch: Watch | None = None, *, undo: Callable[[T], Any] = lambda result: None) -> T:
    """What `work` returns or raises. Cancelled, it stops `watch`, waits for the thread, and lets `undo` put away what it has made all the same."""
    executor = ThreadPoolExecutor(1, thread_name_prefix="files")
    future = asyncio.get_running_loop().run_in_executor(executor, work)
    try:
        return await asyncio.shield(future)
    except asyncio.CancelledError:
        if watch is not None:
            watch.stop()
        while not future.done():
            try:
                await asyncio.wait([future])
            except asyncio.CancelledError:
                continue
        if future.exception() is None:
            undo(future.result())
        raise
    finally:
        executor.shutdown(wait=False)


def watch_for(job: Job) -> Watch:
    """A watch that tells the job's record how many bytes are done."""
    loop = asyncio.get_running_loop()
    told = -REPORT_BYTES

    def report(done: int, total: int) -> None:
        nonlocal told
        if done - told >= REPORT_BYTES or done == total:
            told = done
            loop.call_soon_threadsafe(job.note_progress, done, total)

    return Watch(report)
