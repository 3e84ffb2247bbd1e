"""The mounted applications of an instance, from its begin to its end."""

from __future__ import annotations

import asyncio
from typing import Any

from svc.mounted import Mounts
from tests.support.mounted import RecordingLog


def run(work: Any) -> None:
    asyncio.run(asyncio.wait_for(work, 5))


def app(name: str, events: list[str], ends: bool = True) -> Any:
    async def serve(scope: Any, receive: Any, send: Any) -> None:
        await receive()
        events.append(f"{name} starts")
        await send({"type": "lifespan.startup.complete"})
        await receive()
        events.append(f"{name} ends")
        if ends:
            await send({"type": "lifespan.shutdown.complete"})

    return serve


def test_they_start_with_the_instance_and_end_with_it() -> None:
    async def case() -> None:
        events: list[str] = []
        mounts = Mounts(asyncio.get_running_loop(), RecordingLog())
        assert mounts.add(app("a", events), "/a").path == "/a"
        await asyncio.sleep(0.001)
        assert not events
        mounts.begin()
        mounts.add(app("b", events), "/b")
        await asyncio.sleep(0.001)
        assert sorted(events) == ["a starts", "b starts"]
        await mounts.close()
        assert sorted(events[2:]) == ["a ends", "b ends"]

    run(case())


def test_one_that_is_removed_ends_in_the_background() -> None:
    async def case() -> None:
        events: list[str] = []
        mounts = Mounts(asyncio.get_running_loop(), RecordingLog())
        mounts.begin()
        first, _second = mounts.add(app("a", events), "/a"), mounts.add(app("b", events, ends=False), "/a")
        await asyncio.sleep(0.001)
        mounts.remove(first)
        await asyncio.sleep(0.001)
        assert events[2:] == ["a ends"]
        await mounts.close()
        assert events[3:] == ["b ends"]

    run(case())


def test_the_end_waits_for_one_that_is_being_removed() -> None:
    async def case() -> None:
        events: list[str] = []
        mounts = Mounts(asyncio.get_running_loop(), RecordingLog())
        mounts.begin()
        mounted = mounts.add(app("a", events), "/a")
        await asyncio.sleep(0.001)
        mounts.remove(mounted)
        await mounts.close()
        assert events == ["a starts", "a ends"]

    run(case())


def test_without_any_there_is_nothing_to_do() -> None:
    async def case() -> None:
        mounts = Mounts(asyncio.get_running_loop(), RecordingLog())
        mounts.begin()
        await mounts.close()

    run(case())
