"""The order of a turn."""

from __future__ import annotations

import asyncio
import selectors
import signal
import socket
from collections.abc import Iterator
from contextvars import ContextVar

import pytest

from svc.loop import TurnLoop, contained, is_ours, new_loop


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


# --- readers -----------------------------------------------------------------------------------------------------------------------------


@pytest.fixture(params=["DefaultSelector", "SelectSelector"])
def loop(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[TurnLoop]:
    """On what the platform has best, and on what every platform has."""
    monkeypatch.setattr(selectors, "DefaultSelector", getattr(selectors, request.param))
    made, _ = new_loop()
    yield made
    made.close()


@pytest.fixture
def pairs() -> Iterator[list[tuple[socket.socket, socket.socket]]]:
    made = [socket.socketpair() for _ in range(2)]
    yield made
    for pair in made:
        for end in pair:
            end.close()


Pairs = list[tuple[socket.socket, socket.socket]]


def test_a_reader_comes_before_what_is_queued(loop: TurnLoop, pairs: Pairs) -> None:
    order: list[str] = []
    ours, theirs = pairs[0]
    loop.add_reader(ours, lambda word: order.append(word + ours.recv(9).decode()), "read ")
    loop.call_soon(order.append, "queued")
    theirs.send(b"x")
    loop.call_soon(loop.stop)
    loop.run_forever()
    assert order == ["read x", "queued"]


def test_a_reader_that_removes_another(loop: TurnLoop, pairs: Pairs) -> None:
    order: list[int] = []

    def read(number: int) -> None:
        order.append(number)
        for ours, _ in pairs:
            loop.remove_reader(ours)

    for number, (ours, theirs) in enumerate(pairs):
        loop.add_reader(ours, read, number)
        theirs.send(b"x")
    loop.call_soon(loop.stop)
    loop.run_forever()
    loop.call_soon(loop.stop)
    loop.run_forever()
    assert len(order) == 1
    assert not loop.remove_reader(pairs[0][0])


def test_the_peer_has_gone(loop: TurnLoop, pairs: Pairs) -> None:
    """What a selector says of that beside "readable", or instead, reaches the reader, and a writer beside it."""
    order: list[str] = []
    for number, (ours, theirs) in enumerate(pairs):
        theirs.send(b"x")
        theirs.close()
        loop.add_reader(ours, lambda ours=ours: order.append(f"read {ours.recv(9).decode()}"))
        if number:
            loop.add_writer(ours, lambda ours=ours: order.append("write") or loop.remove_writer(ours))
    for _ in range(2):
        loop.call_soon(loop.stop)
        loop.run_forever()
    assert sorted(order) == ["read ", "read ", "read x", "read x", "write"]


def test_a_reader_that_closes_another(loop: TurnLoop, pairs: Pairs) -> None:
    """By a reader, while both are ready."""
    order: list[str] = []
    (first, first_peer), (second, second_peer) = pairs

    def read(other: socket.socket) -> None:
        order.append("first")
        loop.remove_reader(first)
        loop.remove_reader(second)
        other.close()

    loop.add_reader(first, read, second)
    loop.add_reader(second, read, first)
    first_peer.send(b"x")
    second_peer.send(b"x")
    for _ in range(2):
        loop.call_soon(loop.stop)
        loop.run_forever()
    assert order == ["first"]


def test_a_reader_that_fails_is_reported_and_called_again(loop: TurnLoop, pairs: Pairs) -> None:
    found: list[object] = []
    loop.set_exception_handler(lambda loop, context: found.append(context["exception"]))

    def read() -> None:
        raise ValueError("x")

    loop.add_reader(pairs[0][0], read)
    pairs[0][1].send(b"x")
    for _ in range(2):
        loop.call_soon(loop.stop)
        loop.run_forever()
    assert [type(error) for error in found] == [ValueError, ValueError]


def test_readers_and_writers_of_one_socket(loop: TurnLoop, pairs: Pairs) -> None:
    order: list[str] = []
    ours, theirs = pairs[0]
    loop.add_reader(ours, lambda: order.append("read " + ours.recv(9).decode()))
    loop.add_writer(ours, lambda: order.append("write") or loop.remove_writer(ours))
    for word in (b"1", b"2"):
        theirs.send(word)
        loop.call_soon(loop.stop)
        loop.run_forever()
    assert sorted(order) == ["read 1", "read 2", "write"]


def test_a_reader_keeps_its_context(loop: TurnLoop, pairs: Pairs) -> None:
    """What it sets is seen by its next call, and by nothing else."""
    variable: ContextVar[int] = ContextVar("variable", default=0)
    found: list[int] = []

    def read() -> None:
        variable.set(variable.get() + len(ours.recv(9)))
        found.append(variable.get())

    ours, theirs = pairs[0]
    loop.add_reader(ours, read)
    for _ in range(2):
        theirs.send(b"x")
        loop.call_soon(loop.stop)
        loop.run_forever()
    assert found == [1, 2] and variable.get() == 0


def test_debug_mode_measures_readers(loop: TurnLoop, pairs: Pairs, monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    monkeypatch.setattr("asyncio.base_events.logger.warning", lambda text, *values: said.append(text % values))
    loop.set_debug(True)
    loop.slow_callback_duration = 0.0
    ours, theirs = pairs[0]
    loop.add_reader(ours, lambda: ours.recv(9))
    theirs.send(b"x")
    loop.call_soon(loop.stop)
    loop.run_forever()
    assert any(text.startswith("Executing <Handle") for text in said)


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
