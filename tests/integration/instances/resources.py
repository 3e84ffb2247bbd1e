import asyncio
import os
from pathlib import Path

from svc import Resource, server, tables

if Path("broken").exists():  # in the directory of the server: every start ends here
    os._exit(9)


def _mark(name):
    Path(name).touch()


def _is_marked(name):
    return Path(name).exists()


class Who(Resource):
    """The process that answers."""

    def get(self, query=None):
        return {"pid": os.getpid(), "instance": server.instance}


class Slow(Resource):
    """Answers when it may."""

    async def get(self, query=None):
        _mark("waits")
        while not _is_marked("go"):  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        return {"pid": os.getpid()}


class Paced(Resource):
    """Takes a moment."""

    async def get(self, query=None):
        await asyncio.sleep(0.02)
        return {"pid": os.getpid()}


class Block(Resource):
    """The event loop of this instance stands for ever."""

    def post(self, data):
        while True:
            pass


class Following:
    """A source with one event for each process that follows it."""

    async def get(self, id, context):
        return None

    async def subscribe(self, request):
        async def events():
            yield {"type": "put", "id": f"by {os.getpid()}", "value": {"pid": os.getpid()}}
            await asyncio.Event().wait()

        return events()


tables.Followed.source_from(Following())
