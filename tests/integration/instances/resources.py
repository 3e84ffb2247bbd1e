import asyncio
import os
from pathlib import Path

from svc import Resource, server, tables

if Path("broken").exists():  # in the directory of the server: every start ends here
    os._exit(9)


class Who(Resource):
    """The process that answers."""

    def get(self, query=None):
        return {"pid": os.getpid(), "instance": server.instance}


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
