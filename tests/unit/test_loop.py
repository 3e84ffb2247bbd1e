"""The order of a turn."""

from __future__ import annotations

import asyncio
import signal

import pytest

from svc.loop import contained, is_ours, new_loop


def test_closing_work_runs_before_each_poll_and_may_make_things_ready() -> None:
    loop, selector = new_loop()
    waiting: list[asyncio.Future[int]] = []
    order: list[str] = []

    def end_turn() -> bool:
        if waiting:
            order.append("end of turn")
            waiting.pop().set_result(7)
            return True  # a coroutine became ready: the poll must not wait
        return False

    async def work() -> int:
        future = loop.create_future()
        waiting.append(future)
        order.append("waits")
        result = await future
        order.append("goes on")
        return result

    selector.end_turn = end_turn
    try:
        assert loop.run_until_complete(work()) == 7
    finally:
        selector.end_turn = lambda: False
        loop.close()
    assert order == ["waits", "end of turn", "goes on"]


def test_idle_and_active_time_are_kept_apart() -> None:
    loop, selector = new_loop()
    try:
        loop.run_until_complete(asyncio.sleep(0.05))
    finally:
        loop.close()
    assert selector.idle > 0.0
    assert selector.active > 0.0


def test_a_turn_begins_before_anything_of_it_runs() -> None:
    loop, selector = new_loop()
    order: list[str] = []
    selector.begin_turn = lambda: order.append("begins")

    async def work() -> None:
        for _ in range(2):
            await asyncio.sleep(0)
            order.append("runs")

    try:
        loop.run_until_complete(work())
    finally:
        loop.close()
    assert order[:5] == ["begins", "begins", "runs", "begins", "runs"]


# --- what code of applications raises ------------------------------------------------------------------------------------------------------


def raised_by_code(error: BaseException) -> BaseException:
    """The exception with the traceback of code that is not ours."""
    try:
        raise error
    except BaseException as found:
        return found


class Panic(BaseException):
    pass


@pytest.mark.parametrize(
    "error", [ValueError("x"), Panic(), SystemExit(1), GeneratorExit(), asyncio.CancelledError(), BaseExceptionGroup("x", [Panic()])]
)
def test_what_code_raises_is_not_ours(error: BaseException) -> None:
    assert not is_ours(raised_by_code(error))


def test_an_interrupt_is_ours_while_nothing_handles_the_signal() -> None:
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell may have switched it off
    try:
        assert is_ours(raised_by_code(KeyboardInterrupt()))
        signal.signal(signal.SIGINT, lambda *ignored: None)
        assert not is_ours(raised_by_code(KeyboardInterrupt()))
    finally:
        signal.signal(signal.SIGINT, before)


def test_the_cancellation_of_the_task_is_ours() -> None:
    found: list[bool] = []

    async def work() -> None:
        try:
            await asyncio.Event().wait()
        except BaseException as error:
            found.append(is_ours(error))

    async def run() -> None:
        task = asyncio.ensure_future(work())
        await asyncio.sleep(0)
        task.cancel()
        await task

    asyncio.run(run())
    assert found == [True]


def test_a_coroutine_that_is_closed_from_outside_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    found: list[bool] = []

    async def inner() -> None:
        await asyncio.sleep(10)

    async def work() -> None:
        try:
            await inner()
        except BaseException as error:
            found.append(is_ours(error))
            raise

    async def run(name: str) -> None:
        monkeypatch.setitem(globals(), "__name__", name)
        coroutine = work()
        coroutine.send(None)
        coroutine.close()

    asyncio.run(run("svc.somewhere"))
    asyncio.run(run("elsewhere"))
    assert found == [True, False]


def test_others_are_exceptions_afterwards_with_their_cause() -> None:
    error = ValueError("x")
    assert contained(error) is error
    panic = raised_by_code(Panic("lost"))
    found = contained(panic, "the handler")
    assert str(found) == "the handler has raised Panic: lost" and found.__cause__ is panic


def test_also_those_without_a_text() -> None:
    class Silent(BaseException):
        def __str__(self) -> str:
            raise ValueError

    assert str(contained(raised_by_code(Silent()))) == "it has raised Silent"
