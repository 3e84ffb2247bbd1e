"""The queue between what writes and the coroutine that sends."""

from __future__ import annotations

import asyncio
from typing import Any

from svc.hosted.outgoing import Outgoing


def run(work: Any) -> None:
    asyncio.run(asyncio.wait_for(work, 5))


def test_pending_until_it_is_taken() -> None:
    async def case() -> None:
        queue: Outgoing[bytes] = Outgoing()
        queue.put(b"ab", 2)
        queue.put(b"c", 1)
        assert await queue.take() == [(b"ab", 2), (b"c", 1)] and queue.pending == 3
        assert not queue.taken(2) and queue.taken(1) and not queue.pending

    run(case())


def test_who_waits_is_woken_by_a_piece_the_end_and_the_peer() -> None:
    async def case() -> None:
        for act, found in (
            (lambda queue: queue.put(b"x", 1), [(b"x", 1)]),
            (lambda queue: queue.end(), []),
            (lambda queue: queue.give_up(), []),
        ):
            queue: Outgoing[bytes] = Outgoing()
            waiting = asyncio.ensure_future(queue.take())
            await asyncio.sleep(0)
            act(queue)
            assert await waiting == found

    run(case())


def test_nothing_is_queued_after_the_end_or_for_a_peer_that_is_gone() -> None:
    async def case() -> None:
        queue: Outgoing[bytes] = Outgoing()
        queue.put(b"x", 1)
        queue.end()
        queue.put(b"y", 1)
        assert await queue.take() == [(b"x", 1)] and await queue.take() == []
        queue = Outgoing()
        queue.put(b"x", 1)
        queue.give_up()
        queue.put(b"y", 1)
        assert await queue.take() == [] and queue.pending == 0 and not queue.taken(1)

    run(case())
