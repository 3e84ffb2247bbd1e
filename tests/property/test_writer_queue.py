"""svc.store.writing.writer_queue: every interleaving of short and long writers, of those who give up, and of another process.

The loop is stepped by hand, so that anything may happen while a writer has been called and has not come in. What must hold after each step: what
`verify` asserts; one long write inside at most, and nobody else comes in meanwhile; one timer if another process is waited for, else none. And when
everybody has been given time, nobody waits.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from svc.clock import FakeClock
from svc.store.writing.writer_queue import QueueLimits, QueueState, WriterQueue
from tests.support.profile import examples


class Door:
    open = True

    def withdraw(self) -> None:
        pass

    def is_open_to_writers(self, *, announces: bool) -> bool:
        return self.open


class Writers(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.new_event_loop()
        self.door = Door()
        self.queue = WriterQueue(self.door, FakeClock(), QueueLimits(1e9, 1e9))  # type: ignore[arg-type]
        self.looks: list[Callable[[], None]] = []
        self.loop.call_later = lambda delay, look, *rest, **options: self.looks.append(look)  # type: ignore
        self.tasks: list[asyncio.Task[None]] = []
        self.inside: list[asyncio.Event] = []  # what ends the long write that is inside
        self.came = self.went = 0

    async def short(self) -> None:
        await self.queue.wait()
        assert not self.inside, "a short write came in beside a long one"
        assert self.queue.state is not QueueState.HELD
        self.went += 1

    async def long(self, size: int) -> None:
        await self.queue.acquire(size)
        assert not self.inside, "two long writes are inside"
        ended = asyncio.Event()
        self.inside.append(ended)
        try:
            await ended.wait()
        finally:
            self.inside.remove(ended)
            self.queue.release()
            self.went += 1

    def start(self, work: Any) -> None:
        self.came += 1
        self.tasks.append(self.loop.create_task(work))

    @rule()
    def step(self) -> None:
        """What is ready runs; what that makes ready waits for the next step."""
        self.loop.call_soon(self.loop.stop)
        self.loop.run_forever()
        for task in self.tasks:
            if task.done() and not task.cancelled():
                task.result()

    @rule(step=st.booleans())
    def a_short_write_comes(self, step: bool) -> None:
        self.start(self.short())
        if step:
            self.step()

    @rule(size=st.sampled_from([0, 1, 5000]), step=st.booleans())
    def a_long_write_comes(self, size: int, step: bool) -> None:
        self.start(self.long(size))
        if step:
            self.step()

    @precondition(lambda self: self.inside)
    @rule()
    def the_long_write_ends(self) -> None:
        self.inside[0].set()

    @precondition(lambda self: any(not task.done() for task in self.tasks))
    @rule(data=st.data())
    def somebody_gives_up(self, data: st.DataObject) -> None:
        data.draw(st.sampled_from([task for task in self.tasks if not task.done()])).cancel()

    @rule()
    def another_process_comes_or_goes(self) -> None:
        self.door.open = not self.door.open

    @precondition(lambda self: self.looks)
    @rule()
    def time_passes(self) -> None:
        self.loop.call_soon(self.looks.pop(0))
        self.step()

    @invariant()
    def what_holds_in_each_state(self) -> None:
        self.queue.verify()
        polls = [look for look in self.looks if look != self.queue._withdraw]
        assert len(polls) == (self.queue.state is QueueState.FOREIGN)
        assert self.queue.is_held is (self.queue.state in (QueueState.HELD, QueueState.FOREIGN))
        assert not self.inside or self.queue.state is QueueState.HELD

    def teardown(self) -> None:
        try:
            self.door.open = True
            for _ in range(5 * len(self.tasks) + 5):
                self.step()
                while self.looks:
                    self.time_passes()
                if self.inside:
                    self.the_long_write_ends()
            cancelled = sum(task.cancelled() for task in self.tasks)
            assert all(task.done() for task in self.tasks), "a task waits for ever"
            assert self.queue.state is QueueState.FREE and len(self.queue) == 0 and not self.looks
            assert self.went + cancelled >= self.came
        finally:
            self.loop.close()


TestWriters = Writers.TestCase
TestWriters.settings = settings(max_examples=examples(60), stateful_step_count=40)
