import os
from pathlib import Path

from svc import Resource, server

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
