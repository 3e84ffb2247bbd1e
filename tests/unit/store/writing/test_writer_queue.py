"""svc.store.writing.writer_queue: who may write when, and who is refused."""

import asyncio
from collections.abc import Callable

import pytest

from svc.clock import FakeClock
from svc.errors import Overloaded, StoreFailure
from svc.store.writing.writer_queue import FIRST_PACE, TRANSITIONS, QueueInput, QueueLimits, QueueState, WriterQueue


class Door:
    """Stands for the environment: whether another process has the database."""

    def __init__(self) -> None:
        self.open = True
        self.problem: StoreFailure | None = None
        self.is_announced = False

    def is_open_to_writers(self, *, announces: bool) -> bool:
        if self.problem is not None:
            raise self.problem
        self.is_announced |= announces and not self.open
        return self.open

    def withdraw(self) -> None:
        self.is_announced = False


class Line:
    """A queue and what became of everybody in it, in order."""

    def __init__(self, wait: float = 20.0, age: float = 45.0) -> None:
        self.clock = FakeClock()
        self.door = Door()
        self.queue = WriterQueue(self.door, self.clock, QueueLimits(wait, age))  # type: ignore[arg-type]
        self.came_in: list[str] = []
        self.may_end: dict[str, asyncio.Event] = {}

    def short(self, name: str) -> "asyncio.Task[None]":
        async def write() -> None:
            await self.queue.wait()
            assert not self.queue.is_held, "an ordinary writer came in beside a long one"
            self.came_in.append(name)

        return asyncio.ensure_future(write())

    def long(self, name: str, size: int = 1000) -> "asyncio.Task[None]":
        self.may_end[name] = asyncio.Event()

        async def write() -> None:
            await self.queue.acquire(size)
            assert self.queue.is_held
            self.came_in.append(name)
            try:
                await self.may_end[name].wait()
            finally:
                self.queue.release()

        return asyncio.ensure_future(write())

    async def end(self, name: str) -> None:
        self.may_end[name].set()
        await settle()


async def settle() -> None:
    for _ in range(10):
        await asyncio.sleep(0)


def test_nobody_waits_where_nobody_writes_for_long() -> None:
    async def play() -> None:
        line = Line()
        line.queue.check()
        await line.queue.wait()
        await line.queue.wait()
        assert not line.queue.is_held and len(line.queue) == 0

    asyncio.run(play())


def test_everybody_comes_in_in_the_order_of_coming() -> None:
    async def play() -> None:
        line = Line()
        for kind, name in ((line.long, "A"), (line.short, "b"), (line.short, "c"), (line.long, "D"), (line.short, "e"), (line.long, "F")):
            kind(name)
        await settle()
        assert line.came_in == ["A"] and len(line.queue) == 5
        await line.end("A")
        assert line.came_in == ["A", "b", "c", "D"]
        line.short("g")
        await line.end("D")
        assert line.came_in == ["A", "b", "c", "D", "e", "F"]
        await line.end("F")
        assert line.came_in[-1] == "g" and not line.queue.is_held and len(line.queue) == 0

    asyncio.run(play())


def test_a_newcomer_does_not_overtake_the_one_that_was_called() -> None:
    async def play() -> None:
        line = Line()
        line.long("A")
        line.long("B")
        await settle()
        line.may_end["A"].set()
        await asyncio.sleep(0)  # A has left and B is called, but has not come in
        line.long("C")
        await settle()
        assert line.came_in == ["A", "B"]
        await line.end("B")
        await line.end("C")
        assert line.came_in == ["A", "B", "C"]

    asyncio.run(play())


@pytest.mark.parametrize("when", ["waiting", "called"])
@pytest.mark.parametrize("kind", ["short", "long"])
def test_who_gives_up_hinders_nobody(when: str, kind: str) -> None:
    async def play() -> None:
        line = Line()
        line.long("A")
        quitter = line.short("b") if kind == "short" else line.long("b")
        line.short("c")
        line.long("D")
        await settle()
        if when == "called":
            line.may_end["A"].set()
            await asyncio.sleep(0)
        quitter.cancel()
        await settle()
        if when == "waiting":
            await line.end("A")
        assert line.came_in[-2:] == ["c", "D"] and "b" not in line.came_in
        await line.end("D")
        assert not line.queue.is_held and len(line.queue) == 0

    asyncio.run(play())


def test_who_would_wait_for_too_long_is_refused() -> None:
    async def play() -> None:
        line = Line(wait=1.0)
        half = int(0.6 / FIRST_PACE)
        line.long("A", half)
        await settle()
        line.queue.check()
        assert line.queue.expected_wait() == pytest.approx(0.6, rel=0.01)
        line.long("B", half)
        await settle()
        with pytest.raises(Overloaded, match="exceeded request queue limit"):
            line.queue.check()
        with pytest.raises(Overloaded):
            await line.queue.wait()
        with pytest.raises(Overloaded):
            await line.queue.acquire(1000)
        line.clock.advance(0.3)
        line.queue.check()  # A has come further meanwhile
        await line.end("A")
        await line.end("B")
        assert line.came_in == ["A", "B"], "who is in the line stays in it"

    asyncio.run(play())


def test_nobody_joins_when_something_has_been_waiting_for_too_long() -> None:
    async def play() -> None:
        line = Line(age=45.0)
        line.long("A")
        await settle()
        line.clock.advance(45.0)
        line.queue.check()
        waiting = line.short("b")
        await settle()
        line.clock.advance(0.1)
        with pytest.raises(Overloaded, match="outstanding write queue"):
            line.queue.check()
        assert Overloaded().headers == (("Retry-After", "1"),)
        await line.end("A")
        assert line.came_in == ["A", "b"] and waiting.done()
        line.queue.check()

    asyncio.run(play())


def test_the_expected_wait_learns_from_what_has_been() -> None:
    async def play() -> None:
        line = Line()
        for _ in range(10):
            line.long("A", 1000)
            await settle()
            line.clock.advance(1.0)
            await line.end("A")
        line.long("B", 5000)
        await settle()
        assert line.queue.expected_wait() == pytest.approx(5.0, rel=0.01)
        await line.end("B")

    asyncio.run(play())


def test_another_process_that_writes_for_long_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    async def play() -> None:
        looks: list[Callable[[], None]] = []
        monkeypatch.setattr(asyncio.get_running_loop(), "call_later", lambda delay, look: looks.append(look))
        line = Line()
        line.door.open = False
        line.short("a")
        line.long("B")
        await settle()
        assert line.came_in == [] and line.queue.state is QueueState.FOREIGN
        looks.pop()()
        await settle()
        assert line.came_in == [] and len(looks) == 1
        line.door.open = True
        looks.pop()()
        await settle()
        assert line.came_in == ["a", "B"] and looks == [line.queue._withdraw]
        await line.end("B")

    asyncio.run(play())


def test_what_may_happen_in_which_state() -> None:
    expected = {
        (QueueState.FREE, QueueInput.ADMIT): QueueState.ADMITTED,
        (QueueState.FREE, QueueInput.ACQUIRE): QueueState.HELD,
        (QueueState.FREE, QueueInput.FOREIGN_SEEN): QueueState.FOREIGN,
        (QueueState.ADMITTED, QueueInput.ACQUIRE): QueueState.HELD,
        (QueueState.ADMITTED, QueueInput.GIVE_UP): QueueState.FREE,
        (QueueState.HELD, QueueInput.RELEASE): QueueState.FREE,
        (QueueState.FOREIGN, QueueInput.FOREIGN_GONE): QueueState.FREE,
    }
    for state in QueueState:
        for input_ in QueueInput:
            queue = Line().queue
            queue.state = state
            if (state, input_) in expected:
                queue._move(input_)
                assert queue.state is expected[state, input_]
            else:
                with pytest.raises(AssertionError, match=f"{input_.name} while the queue of writers is {state.name}"):
                    queue._move(input_)
                assert queue.state is state
    assert sum(map(len, TRANSITIONS.values())) == len(expected)


def test_a_look_at_another_process_does_not_end_a_long_write(monkeypatch: pytest.MonkeyPatch) -> None:
    """B is called, and before it enters a poll finds that another process has the database."""

    async def play() -> None:
        looks: list[Callable[[], None]] = []
        monkeypatch.setattr(asyncio.get_running_loop(), "call_later", lambda delay, look: looks.append(look))
        line = Line()
        line.long("A")
        line.long("B")
        await settle()
        line.may_end["A"].set()
        await asyncio.sleep(0)
        assert line.queue.state is QueueState.ADMITTED
        line.door.open = False
        line.short("c")
        await settle()
        line.door.open = True
        for look in looks:
            look()
        await settle()
        assert line.came_in == ["A", "B"] and line.queue.state is QueueState.HELD
        await line.end("B")
        assert line.came_in == ["A", "B", "c"]

    asyncio.run(play())


def test_an_empty_long_write_is_one_too() -> None:
    async def play() -> None:
        line = Line()
        line.long("A")
        line.long("B", 0)
        line.long("C", 0)
        await settle()
        await line.end("A")
        assert line.came_in == ["A", "B"] and line.queue.state is QueueState.HELD
        await line.end("B")
        assert line.came_in == ["A", "B", "C"]
        await line.end("C")
        assert line.queue.state is QueueState.FREE

    asyncio.run(play())


def test_a_gate_that_cannot_be_looked_at_holds_nobody_up(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    async def play() -> None:
        looks: list[Callable[[], None]] = []
        monkeypatch.setattr(asyncio.get_running_loop(), "call_later", lambda delay, look: looks.append(look))
        line = Line()
        line.door.open = False
        line.short("a")
        await settle()
        line.door.problem = StoreFailure("its volume is gone")
        looks.pop()()
        await settle()
        assert line.came_in == ["a"] and line.queue.state is QueueState.FREE and line.door.is_announced
        looks.pop()()
        assert not looks and not line.door.is_announced
        assert "its volume is gone" in caplog.text

    asyncio.run(play())


def test_a_long_write_may_learn_late_how_long_it_is() -> None:
    async def play() -> None:
        line = Line()
        task = line.long("update", 1)
        await settle()
        assert line.queue.expected_wait() == pytest.approx(FIRST_PACE)
        line.clock.advance(3)
        line.queue.know_size(50_000)
        assert line.queue.expected_wait() == pytest.approx(50_000 * FIRST_PACE)
        line.clock.advance(2)
        assert line.queue.expected_wait() == pytest.approx(50_000 * FIRST_PACE - 2)
        await line.end("update")
        await task
        line.long("next", 50_000)
        await settle()
        assert line.queue.expected_wait() == pytest.approx((50_000 * FIRST_PACE + 2) / 2), "the pace counts what came before it was known"
        await line.end("next")

    asyncio.run(play())
