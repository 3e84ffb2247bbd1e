"""Several of them over one directory, in this process."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from functools import wraps
from pathlib import Path
from typing import Any

import pytest

from svc.siblings import Siblings
from svc.siblings.messages import MAX_MESSAGE

SECONDS = 60.0  # far more than anything takes


def on_loop(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    """The test runs on a loop of its own."""

    @wraps(test)
    def run(*given: Any, **options: Any) -> None:
        asyncio.run(test(*given, **options))

    return run


async def until(condition: Callable[[], object]) -> None:
    """Wait until it is so."""
    async with asyncio.timeout(SECONDS):
        while not condition():  # noqa: ASYNC110
            await asyncio.sleep(0.001)


@asynccontextmanager
async def several(path: Path, count: int = 2) -> AsyncIterator[list[Siblings]]:
    found = [Siblings(path, asyncio.get_running_loop()) for _ in range(count)]
    try:
        for each in found:
            await each.open()
        yield found
    finally:
        for each in found:
            await each.close()
            each.release()


def files(path: Path) -> list[str]:
    return sorted(each.name for each in (path / ".siblings").iterdir() if each.suffix != ".lead")


@on_loop
async def test_numbers_and_who_lives(tmp_path: Path) -> None:
    loop = asyncio.get_running_loop()
    one, two, given = Siblings(tmp_path, loop), Siblings(tmp_path, loop), Siblings(tmp_path, loop, number=0)
    assert [one.number, two.number, given.number] == [0, 1, 0]
    assert len({one.identity, two.identity, given.identity}) == 3
    assert one.is_alive(one.identity) and one.is_alive(two.identity) and two.is_alive(one.identity)
    one.release()
    one.release()
    given.release()
    assert not two.is_alive(one.identity)
    three = Siblings(tmp_path, loop)
    assert three.number == 0
    for text in ("", "1", "../../x", f"{two.identity}.sock", "1-1-0000000g", "leader"):
        assert not two.is_alive(text)
    two.release()
    three.release()
    assert files(tmp_path) == []


@on_loop
async def test_what_killed_processes_leave_is_removed(tmp_path: Path) -> None:
    loop = asyncio.get_running_loop()
    directory = tmp_path / ".siblings"
    one = Siblings(tmp_path, loop)
    left = directory / "1-1-00000000"
    left.write_text('{"number": 7, "socket": "1-1-00000000.sock"}')
    left.with_suffix(".sock").touch()
    (directory / "1-1-00000001").touch()  # killed before it could write
    two = Siblings(tmp_path, loop)
    assert two.number == 1
    assert not left.exists() and not left.with_suffix(".sock").exists()
    assert not one.is_alive("1-1-00000001")
    one.release()
    two.release()


@on_loop
async def test_a_long_path(tmp_path: Path) -> None:
    path = tmp_path / ("long" * 30)
    async with several(path) as (one, two):
        two.answer("double", lambda value: value * 2)
        assert [answer.value for answer in await one.ask("double", 4, SECONDS)] == [8]
    assert files(path) == []


@on_loop
async def test_ask_and_answer(tmp_path: Path) -> None:
    async def later(value: Any) -> Any:
        await asyncio.sleep(0)
        return {"later": value}

    def fail(value: Any) -> Any:
        raise KeyError("no such thing")

    async with several(tmp_path, 3) as (one, two, three):
        for each in (two, three):
            each.answer("me", lambda value, each=each: [each.number, value])
            each.answer("later", later)
            each.answer("large", lambda value: b"a" * (MAX_MESSAGE + 1))
            each.answer("odd", lambda value: object())
        two.answer("fail", fail)
        found = await one.ask("me", {"a": [1, None, b"x"]}, SECONDS)
        assert [(answer.identity, answer.number, answer.value, answer.error) for answer in found] == [
            (two.identity, 1, [1, {"a": [1, None, b"x"]}], None),
            (three.identity, 2, [2, {"a": [1, None, b"x"]}], None),
        ]
        assert [answer.value for answer in await one.ask("later", 1, SECONDS)] == [{"later": 1}] * 2
        assert [answer.error for answer in await one.ask("nothing", 1, SECONDS)] == ["it does not know what it is asked"] * 2
        assert [answer.error for answer in await one.ask("fail", 1, SECONDS)] == [
            "KeyError: 'no such thing'",
            "it does not know what it is asked",
        ]
        for topic in ("large", "odd"):
            assert all(answer.value is None and answer.error for answer in await one.ask(topic, 1, SECONDS))
        with pytest.raises(ValueError, match="at most"):
            await one.ask("me", b"a" * MAX_MESSAGE, SECONDS)
        with pytest.raises(TypeError):
            one.tell("me", object())
        large = b"a" * (MAX_MESSAGE - 1000)
        assert [answer.value[1] for answer in await one.ask("me", large, SECONDS)] == [large] * 2


@on_loop
async def test_alone(tmp_path: Path) -> None:
    async with several(tmp_path, 1) as (one,):
        assert one.is_leader and not one.has_others
        assert await one.ask("me", None, SECONDS) == []
        one.tell("me", None)
        one.resign()
        assert one.is_leader  # nobody else could be


@on_loop
async def test_one_that_is_asked_before_it_listens(tmp_path: Path) -> None:
    async with several(tmp_path, 1) as (one,):
        two = Siblings(tmp_path, asyncio.get_running_loop())
        two.answer("me", lambda value: value)
        asking = asyncio.create_task(one.ask("me", 5, SECONDS))
        await asyncio.sleep(0)
        await two.open()
        assert [answer.value for answer in await asking] == [5]
        await two.close()
        two.release()


@on_loop
async def test_one_that_does_not_answer(tmp_path: Path) -> None:
    never = asyncio.Event()

    async def wait(value: Any) -> None:
        await never.wait()

    async with several(tmp_path, 3) as (one, two, three):
        two.answer("wait", wait)
        three.answer("wait", lambda value: value)
        await until(lambda: one.has_others)
        assert [(answer.value, answer.error) for answer in await one.ask("wait", 1, 0.05)] == [(None, "it does not answer"), (1, None)]
        asking = asyncio.create_task(one.ask("wait", 1, SECONDS))
        await asyncio.sleep(0)
        await two.close()
        two.release()
        assert [(answer.number, answer.value) for answer in await asking if answer.error is None] == [(2, 1)]
        assert [answer.number for answer in await one.ask("wait", 1, SECONDS)] == [2]


@on_loop
async def test_tell_and_on_left(tmp_path: Path) -> None:
    heard: list[tuple[int, Any]] = []
    left: list[str] = []
    async with several(tmp_path, 3) as (one, two, three):

        def note(number: int) -> Callable[[Any], None]:
            return lambda value: heard.append((number, value))

        def fail(identity: str) -> None:
            raise RuntimeError

        two.answer("news", note(2))
        three.answer("news", note(3))
        one.on_left += [fail, left.append]
        await one.ask("", None, SECONDS)
        one.tell("news", "a")
        one.tell("unknown", "a")
        await until(lambda: len(heard) == 2)
        assert sorted(heard) == [(2, "a"), (3, "a")]
        await three.close()
        assert one.is_alive(three.identity) and not left  # it still has a transaction to end
        three.release()
        await until(lambda: left)
        assert left == [three.identity]
        one.tell("news", "b")
        await until(lambda: len(heard) == 3)


@on_loop
async def test_the_leader(tmp_path: Path) -> None:
    events: list[str] = []
    async with several(tmp_path, 3) as found:
        one, two, three = found
        for number, each in enumerate(found):
            each.on_lead.append(lambda number=number: events.append(f"lead {number}"))
            each.on_resign.append(lambda number=number: events.append(f"resign {number}"))
        assert [each.is_leader for each in found] == [True, False, False]
        await one.ask("", None, SECONDS)
        one.resign()
        await until(lambda: two.is_leader or three.is_leader)
        new, other = (two, three) if two.is_leader else (three, two)
        assert events == ["resign 0", f"lead {new.number}"]
        one.sweep(0.0)
        assert not one.is_leader and not other.is_leader
        other.resign()
        await new.close()
        new.release()  # as if it were killed: those that are left are about to end
        await until(lambda: not one.is_alive(new.identity))
        one.sweep(0.0)
        other.sweep(0.0)
        assert not one.is_leader and not other.is_leader
        await one.close()
        one.release()
        other.sweep(0.0)
        assert other.is_leader


@on_loop
async def test_leaders_of_subjects(tmp_path: Path) -> None:
    began: list[str] = []
    async with several(tmp_path) as (one, two):
        first = one.lead("a", lambda: began.append("one"))
        waiting = one.lead("a", lambda: began.append("the next version"))
        other = two.lead("a", lambda: began.append("two"))
        elsewhere = two.lead("b", lambda: began.append("b"))
        assert [first.is_held, waiting.is_held, other.is_held, elsewhere.is_held] == [True, False, False, True]
        first.close()
        assert began == ["the next version"] and waiting.is_held
        waiting.close()
        waiting.close()
        two.sweep(0.0)
        assert began == ["the next version", "two"]
        again = one.lead("a", lambda: began.append("again"))
        two.resign()
        await until(lambda: again.is_held)
        assert not other.is_held


@on_loop
async def test_what_waits_for_one_that_does_not_read_is_bounded(tmp_path: Path) -> None:
    """It has connected and then reads nothing, as a process that was stopped."""
    loop = asyncio.get_running_loop()
    two = Siblings(tmp_path, loop)
    connected: list[asyncio.Transport] = []

    class Held(asyncio.Protocol):
        def connection_made(self, transport: asyncio.BaseTransport) -> None:
            assert isinstance(transport, asyncio.Transport)
            transport.pause_reading()
            connected.append(transport)

    server = await loop.create_unix_server(Held, str(two._presence.place_socket()))
    async with several(tmp_path, 1) as (one,):
        await until(lambda: connected)
        large = b"a" * (MAX_MESSAGE // 2)
        for _ in range(100):
            one.tell("news", large)
        link = next(iter(one._channel.links.values()))
        assert link._transport is not None and link._transport.get_write_buffer_size() < 3 * MAX_MESSAGE
        assert [answer.error for answer in await one.ask("news", large, SECONDS)] == ["too much waits for it already"]
        connected[0].abort()
    server.close()
    two.release()


@on_loop
async def test_what_is_no_message(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async with several(tmp_path, 1) as (one,):
        path = str(one._presence.socket)
        for data in (b"\xff\xff\xff\xff", b"\0\0\0\x01\xc1", b"\0\0\0\x02\x91\x09"):
            reader, writer = await asyncio.open_unix_connection(path)
            writer.write(data)
            assert await reader.read() == b""
            writer.close()
        assert caplog.text.count("cannot be read") == 3
        caplog.clear()


@on_loop
async def test_who_sleeps_is_woken_once(tmp_path: Path) -> None:
    async with several(tmp_path, 3) as (one, two, three):
        woken: list[int] = []
        one.answer("siblings.wake", lambda _: woken.append(1))
        one.answer("mark", lambda _: woken.append(0))
        await until(lambda: len(two.others) == 2 and len(three.others) == 2)

        async def woken_by(*wakers: Siblings) -> list[int]:
            for each in wakers:
                each.wake()
                await each.ask("mark", None, SECONDS)  # it comes behind what was sent before
            found = woken[:]
            woken.clear()
            return found

        assert await woken_by(two) == [0], "it does not sleep"
        one.sleep()
        assert await woken_by(two, two) == [1, 0, 0]
        assert await woken_by(three, two) == [1, 0, 0], "each looks for itself"
        one.sleep()
        assert await woken_by(two, three) == [1, 0, 1, 0]
        one.sleep()
        one.awake()
        assert await woken_by(two, three) == [0, 0]


@on_loop
async def test_one_that_has_ended_in_its_sleep_is_not_woken(tmp_path: Path) -> None:
    async with several(tmp_path) as (one, two):
        await until(lambda: two.has_others)
        one.sleep()
        await one.close()
        one.release()
        two.wake()
        await until(lambda: not two.has_others)
        two.wake()
