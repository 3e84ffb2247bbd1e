"""An application for the tests of svc.testing."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from textwrap import dedent

import pytest

from svc.testing.application import Application

SCHEMA = """
type Product @table @export { id: ID @primaryKey name: String @indexed stock: Int @indexed }
type Ticket @table(expiration: 60) @export { id: ID @primaryKey seat: String }
type Secret @table { id: ID @primaryKey }
"""

CODE = """
    import asyncio
    import os
    import queue
    import threading
    import time
    from svc import Resource, get_user, logger, run_in_thread, tables

    HELD = asyncio.Event()


    class Echo(Resource):
        def allow_read(self, user, target=None):
            return user is not None

        def get(self, target=None):
            user = get_user()
            return {"user": user and user.username, "role": user and user.role.role}

        def post(self, data, target=None):
            return data


    class Slow(Resource):
        async def get(self, target=None):
            await asyncio.sleep(5)
            return "slept"


    class InThread(Resource):
        async def get(self, target=None):
            return await run_in_thread(lambda: time.sleep(0.02) or "from a thread")


    class ToThread(Resource):
        async def get(self, target=None):
            return await asyncio.to_thread(lambda: time.sleep(0.02) or "from a thread")


    class OwnThread(Resource):
        async def get(self, target=None):
            loop, future = asyncio.get_running_loop(), asyncio.get_running_loop().create_future()

            def work():
                time.sleep(0.05)
                loop.call_soon_threadsafe(future.set_result, "from a thread of its own")

            threading.Thread(target=work).start()
            return await future


    class Wrong(Resource):
        def get(self, target=None):
            return 1 / 0


    class Never(Resource):
        async def get(self, target=None):
            await asyncio.Future()


    class Spin(Resource):
        async def get(self, target=None):
            while True:
                await asyncio.sleep(0)


    class Endless(Resource):
        def get(self, target=None):
            return ({"text": "x" * 100_000} for _ in iter(int, 1))


    class Stop(Resource):
        async def get(self, target=None):
            for _ in range(3):
                asyncio.get_running_loop().stop()
                await asyncio.sleep(1)
            return "goes on"


    QUEUE = queue.Queue()
    CONSUMED = []


    class Queue(Resource):
        async def post(self, data, target=None):
            QUEUE.put(data)

        async def put(self, data, target=None):
            Queue.consumer = asyncio.get_running_loop().create_task(consume())


    async def consume():
        while (item := await run_in_thread(QUEUE.get)) is not None:
            CONSUMED.append(item)


    class Busy(Resource):
        def get(self, target=None):
            while True:
                pass


    class Held(Resource):
        async def get(self, target=None):
            await HELD.wait()
            return "let go"

        def post(self, data, target=None):
            HELD.set()


    class Chat(Resource):
        async def connect(self, messages=None, query=None):
            yield {"event": "hello", "data": {"to": "you"}}
            yield "two\\nlines"


    class Talk(Resource):
        def allow_read(self, user, target=None):
            return user is not None

        async def connect(self, messages=None, query=None):
            yield {"welcome": get_user().username}
            async for message in messages:
                if message == "bye":
                    return
                if message == "wrong":
                    raise ValueError(message)
                yield {"said": message}
"""

AppFactory = Callable[..., Application]


@pytest.fixture(scope="session")
def shop_directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_application(tmp_path_factory.mktemp("applications") / "shop", {"resources.py": CODE, "schema.graphql": SCHEMA})


def write_application(directory: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        path = directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(dedent(text), encoding="utf-8")
    return directory


@pytest.fixture
def shop(svc_app_factory: AppFactory, shop_directory: Path) -> Application:
    return svc_app_factory(shop_directory)
