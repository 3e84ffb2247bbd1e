"""svc.run_in_thread: functions that block, beside the event loop."""

from __future__ import annotations

import asyncio
import gc
import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from svc.api import threads
from svc.api.context import Context, entered
from svc.api.thread_guard import here
from svc.api.threads import HelperThreads, run_in_thread
from svc.errors import ServerError
from tests.support.application import ADMIN, Application, application

CODE = """
import asyncio, threading
from svc import ClientError, Resource, get_context, get_user, run_in_thread, tables

def who(prefix, suffix=""):
    assert threading.current_thread() is not threading.main_thread()
    return f"{prefix}{get_user().username}{suffix} {get_context().method}"

def refused():
    raise ClientError("no", 409)

class Work(Resource):
    async def post(self, data, query=None):
        return await run_in_thread(globals()[data["what"]], *data.get("with", []), **data.get("options", {}))

class Held(tables.Seat):
    async def get(self, query=None):
        if query.get("how") == "read":
            assert self.stock == 1
        return await run_in_thread(use, self, query.get("how"))

def use(seat, how):
    record = {"read": lambda: seat.stock, "exists": lambda: seat.does_exist(), "search": lambda: list_of(tables.Seat.search()),
        "call": lambda: asyncio.run(wait(tables.Seat.get("a"))), "write": lambda: asyncio.run(wait(tables.Seat.put("a", {"stock": 2}))),
        "put": lambda: tables.Seat.put("a", {"stock": 2}), "publish": lambda: tables.Seat.publish("a", {}), "find": lambda: tables.Seat.search(),
        "change": lambda: changed(seat), "related": lambda: asyncio.run(wait(tables.Show.search({"explain": True})))}
    return {"found": record[how]()}

def changed(seat):
    seat.update({"stock": 3})

def list_of(results):
    async def collect():
        return [each async for each in results]
    return asyncio.run(collect())

async def wait(call):
    return await call
"""


@pytest.fixture
def app(tmp_path: Path) -> Iterator[Application]:
    with application(tmp_path, CODE) as app:
        app.node.as_user(ADMIN)
        app.ask("PUT", "/Held/a", {"stock": 1})
        yield app


def ask(app: Application, method: str, target: str, data: Any = None) -> tuple[int, Any]:
    """Ask, and turn until the thread has answered."""
    body = b"" if data is None else json.dumps(data).encode()
    app.wire.sock.sent = b""
    head = f"{method} {target} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    app.wire.send(head.encode() + body)
    pause = threading.Event()
    for _ in range(3000):
        if app.wire.sock.sent:
            break
        pause.wait(0.01)
        app.node.settle()
    answered, _, content = app.wire.sock.sent.partition(b"\r\n\r\n")
    return int(answered.split(b" ")[1]), json.loads(content) if content else None


def test_a_function_runs_in_the_context_of_the_caller(app: Application) -> None:
    data = {"what": "who", "with": ["I am "], "options": {"suffix": "!"}}
    assert ask(app, "POST", "/Work/", data) == (200, "I am admin! POST")
    assert not here.is_helper


def test_its_exceptions_come_back(app: Application) -> None:
    status, body = ask(app, "POST", "/Work/", {"what": "refused"})
    assert (status, body["detail"]) == (409, "no")
    assert app.errors == []


@pytest.mark.parametrize("how", ["exists", "search", "call", "write", "change", "related", "put", "publish", "find"])
def test_tables_are_refused_with_a_remedy(app: Application, how: str) -> None:
    status, _ = ask(app, "GET", f"/Held/a?how={how}")
    assert status == 500
    ((_, error),) = app.errors
    assert isinstance(error, RuntimeError) and "pass it as arguments" in str(error), error
    app.errors.clear()
    assert app.ask("GET", "/Plain/") == (200, [])
    assert app.run(stock_of(app)) == 1


@pytest.mark.parametrize("how", ["call", "run", "search"])
def test_tables_are_refused_on_threads_of_others(app: Application, how: str) -> None:
    def call() -> Any:
        return app.tables.Seat.get("a")

    async def change() -> None:
        await app.module.tables.Seat.patch("a", {"stock": 7})

    found: list[BaseException] = []

    def on_thread() -> None:
        try:
            if how == "call":
                call()
            elif how == "run":
                asyncio.run(change())
            else:
                asyncio.run(app.tables.Seat.search({}).to_list())
        except RuntimeError as error:
            found.append(error)

    thread = threading.Thread(target=on_thread)
    thread.start()
    thread.join()
    assert [str(error)[:35] for error in found] == ["tables cannot be read or written on"]
    assert app.run(stock_of(app)) == 1


async def stock_of(app: Application) -> Any:
    return (await app.tables.Seat.get("a")).stock


def test_a_record_that_was_read_can_be_used(app: Application) -> None:
    assert ask(app, "GET", "/Held/a?how=read") == (200, {"found": 1})


# --- without a server -------------------------------------------------------------------------------------------------------------------


class Instance:
    """Of an `Interface` what `run_in_thread` uses."""

    def __init__(self) -> None:
        self.threads = HelperThreads()


@pytest.fixture
def pool(monkeypatch: pytest.MonkeyPatch) -> Iterator[HelperThreads]:
    instance = Instance()
    monkeypatch.setattr("svc.api.current._current", instance)
    before = threading.active_count()
    yield instance.threads
    instance.threads.close()
    for thread in threading.enumerate():
        if thread.name == "application":
            thread.join(30)
    assert threading.active_count() <= before


def test_threads_are_kept_and_their_number_is_bounded(pool: HelperThreads) -> None:
    seen: set[int] = set()
    both = threading.Barrier(threads.MAX_THREADS)

    def work() -> None:
        both.wait(30)
        seen.add(threading.get_ident())

    async def main() -> None:
        for _ in range(3):
            await asyncio.gather(*[run_in_thread(work) for _ in range(threads.MAX_THREADS)])

    asyncio.run(main())
    assert len(seen) == threads.MAX_THREADS
    assert pool._open == 0


def test_too_many_calls_are_refused(pool: HelperThreads, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threads, "MAX_THREADS", 1)
    monkeypatch.setattr(threads, "MAX_WAITING", 2)
    go_on = threading.Event()

    async def main() -> None:
        tasks = [asyncio.create_task(run_in_thread(go_on.wait, 30)) for _ in range(3)]
        await asyncio.sleep(0)
        with pytest.raises(ServerError) as caught:
            await run_in_thread(print)
        assert caught.value.status_code == 503
        go_on.set()
        await asyncio.gather(*tasks)
        await run_in_thread(go_on.is_set)

    asyncio.run(main())


def test_a_cancelled_caller_leaves_nothing_behind(pool: HelperThreads, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threads, "MAX_THREADS", 1)
    go_on, began = threading.Event(), threading.Event()
    ran: list[str] = []

    def first() -> None:
        began.set()
        go_on.wait(30)
        raise ValueError("nobody hears it")

    async def main() -> None:
        running = asyncio.create_task(run_in_thread(first))
        waiting = asyncio.create_task(run_in_thread(ran.append, "second"))
        await asyncio.to_thread(began.wait, 30)
        for task in (running, waiting):
            task.cancel()
        assert [type(result) for result in await asyncio.gather(running, waiting, return_exceptions=True)] == [asyncio.CancelledError] * 2
        go_on.set()
        assert await run_in_thread(lambda: 7) == 7

    asyncio.run(main())
    gc.collect()
    assert ran == [] and pool._open == 0


@pytest.mark.parametrize("error", [StopIteration("x"), SystemExit(3), KeyboardInterrupt(), asyncio.CancelledError(), GeneratorExit()])
def test_exceptions_that_would_end_a_task_or_the_server_are_ordinary_ones(pool: HelperThreads, error: BaseException) -> None:
    def fails() -> None:
        raise error

    async def main() -> None:
        with pytest.raises(RuntimeError, match=type(error).__name__) as caught:
            await asyncio.wait_for(run_in_thread(fails), 30)
        assert caught.value.__cause__ is error

    asyncio.run(main())


def test_wrong_arguments_say_what_is_wrong(pool: HelperThreads) -> None:
    async def asynchronous() -> None:
        pass

    async def main() -> None:
        with pytest.raises(TypeError, match=r"not run_in_thread\(f\(x\)\)"):
            await run_in_thread(7)  # type: ignore[arg-type]
        with pytest.raises(TypeError, match="asynchronous is a coroutine function: await it"):
            await run_in_thread(asynchronous)

    asyncio.run(main())


def test_without_a_context_there_is_none(pool: HelperThreads) -> None:
    from svc.api.context import get_context

    async def main() -> tuple[Any, Any]:
        outside = await run_in_thread(get_context)
        with entered(Context()) as _:
            return outside, await run_in_thread(get_context)

    outside, inside = asyncio.run(main())
    assert outside is None and isinstance(inside, Context)


def test_the_end_cancels_what_waits(pool: HelperThreads, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threads, "MAX_THREADS", 1)
    go_on = threading.Event()

    async def main() -> None:
        running = asyncio.create_task(run_in_thread(go_on.wait, 30))
        waiting = asyncio.create_task(run_in_thread(print))
        await asyncio.sleep(0)
        pool.close()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        with pytest.raises(RuntimeError, match="svc stops"):
            await run_in_thread(print)
        go_on.set()
        assert await running is True

    asyncio.run(main())
