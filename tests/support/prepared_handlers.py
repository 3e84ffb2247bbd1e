"""A node with handlers of an application in each style, asked everything twice: with what is prepared, and without."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

from tests.support.node import APP
from tests.support.prepared_reads import Beside

STYLES = ("Instance", "Target", "Class", "Own", "Waiting", "Numbered")
"""Addresses of handlers. Own: with a right of its own. Waiting: asynchronous. Numbered: of a table whose keys are numbers."""

OUTCOMES = (
    "plain", "changed", "nothing", "values", "read and values", "many values", "raw content", "status and data", "status alone",
    "status and headers", "response", "status", "header of the answer", "answer looked at", "header", "headers looked at", "session",
    "hints", "hints, then an error", "last modified", "odd last modified", "endless last modified", "other user", "other record",
    "other table", "refused", "not found", "client error", "defect", "odd", "exit", "cancelled", "write", "write, returned",
    "write, then an error", "text", "bytes", "number", "true", "list", "awaitable inside", "no value", "later", "later, the record",
    "later, an error", "items", "search", "property", "select", "query", "kept", "refused by its right",
)  # fmt: skip
"""What handlers do."""

CODE = '''
import asyncio
import datetime
from svc import ClientError, Response, get_context, get_response, get_user, tables

todo = "plain"  # what the next handler does
calls = []  # (style, key, user) of each handler that has been called
kept = []
ended = []


class Odd(BaseException):
    pass


async def later(value):
    await asyncio.sleep(0)
    return value


class Soon:
    """An awaitable that need not be awaited."""

    def __await__(self):
        return later(1).__await__()


async def failing():
    await asyncio.sleep(0)
    raise ClientError("later", 418)


async def for_ever():
    try:
        await asyncio.Event().wait()
    except asyncio.CancelledError:
        ended.append("cancelled")
        raise


async def items():
    yield {"id": "1"}
    yield {"id": "2"}


def outcome(style, key, target, found):
    """`found`: what `super()` of the handler gives."""
    request, what = get_context(), todo
    calls.append((style, key, None if get_user() is None else get_user().username))
    if what == "nothing":
        return None
    if what == "values":
        return {"a": 1, "b": [True, None, "x"]}
    if what == "read and values":
        found()
        return {"key": key}
    if what == "many values":
        found()
        return {f"name{number}": "a value" for number in range(200)}
    if what == "raw content":
        return {"contentType": "text/plain", "data": "text"}
    if what == "status and data":
        return {"status": 202, "data": {"a": 1}}
    if what == "status alone":
        found()
        return {"status": 202}
    if what == "status and headers":
        return {"status": 200, "headers": {"X-Own": "1"}, "body": "text"}
    if what == "response":
        return Response("text", 203, {"X-Own": "1"})
    if what == "status":
        get_response().status = 201
    if what == "header of the answer":
        get_response().headers.set("X-Own", "1")
    if what == "answer looked at":
        get_response()
    if what == "header":
        request.response_headers.set("Cache-Control", "no-store")
    if what == "headers looked at":
        request.headers.get("host"), request.host, request.ip, request.absolute_url, request.url, request.protocol, request.timestamp
    if what == "session":
        request.session
    if what == "hints":
        request.send_early_hints("</a.css>; rel=preload")
    if what == "hints, then an error":
        request.send_early_hints("</a.css>; rel=preload")
        raise ClientError("no", 409)
    if what == "last modified":
        request.last_modified = datetime.datetime(2026, 1, 1)
        return {"a": 1}
    if what == "odd last modified":
        request.last_modified = "yesterday"
        return {"a": 1}
    if what == "endless last modified":
        request.last_modified = float("inf")
        return {"a": 1}
    if what == "other user":
        request.user = None
    if what == "other record":
        return tables.Product.get("k-2")
    if what == "other table":
        return tables.Brand.get("k1")
    if what == "refused":
        raise ClientError("refused", 403)
    if what == "not found":
        raise ClientError("nothing here", 404)
    if what == "client error":
        raise ClientError("no", 409)
    if what == "defect":
        raise RuntimeError("a defect")
    if what == "odd":
        raise Odd("odd")
    if what == "exit":
        raise SystemExit(3)
    if what == "cancelled":
        raise asyncio.CancelledError
    if what == "write":
        return write(found)
    if what == "write, returned":
        return tables.Doc.put({"id": "written", "by": "a handler"})
    if what == "write, then an error":
        tables.Doc.put({"id": "not written"}).run()
        raise ClientError("no", 409)
    if what == "text":
        return "text"
    if what == "bytes":
        return b"bytes"
    if what == "number":
        return 5
    if what == "true":
        return True
    if what == "list":
        return [1, 2]
    if what == "awaitable inside":
        found()
        return {"a": Soon()}
    if what == "no value":
        return {"a": object()}
    if what == "later":
        return later({"a": 1})
    if what == "later, the record":
        return later_record(found)
    if what == "later, an error":
        return failing()
    if what == "for ever":
        return for_ever()
    if what == "items":
        return items()
    if what == "search":
        return tables.Brand.search({"limit": 2})
    if what == "property":
        target.property = "name"
    if what == "select":
        target.select = ["name"]
    if what == "query":
        target.query = "select(name)"
    if what == "kept":
        kept.append((request, request.raw_request))
    return found()


async def later_record(found):
    await asyncio.sleep(0)
    return found()


async def write(found):
    await tables.Doc.put({"id": "written", "by": "a handler"})
    return found()


class Instance(tables.Product):
    def get(self, query=None):
        if todo == "save":
            calls.append(("Instance", self.get_id(), get_user().username))
            self.update({"name": "saved"})
            return super().get(query)
        if todo == "changed":
            calls.append(("Instance", self.get_id(), get_user() and get_user().username))
            self.total = 5
            return super().get(query)
        return outcome("Instance", self.get_id(), query, lambda: super(Instance, self).get(query))


class Target(tables.Product):
    load_as_instance = False

    def get(self, target):
        return outcome("Target", target.id, target, lambda: super(Target, self).get(target))


class Class(tables.Product):
    @classmethod
    def get(cls, target):
        return outcome("Class", target.id, target, lambda: super(Class, cls).get(target))


class Own(tables.Product):
    def allow_read(self, user, target):
        return user is not None and todo != "refused by its right"

    def get(self, query=None):
        return outcome("Own", self.get_id(), query, lambda: super(Own, self).get(query))


class Waiting(tables.Product):
    async def get(self, query=None):
        found = outcome("Waiting", self.get_id(), query, lambda: super(Waiting, self).get(query))
        return await found if hasattr(found, "__await__") else found


class Numbered(tables.Counter):
    @classmethod
    def get(cls, target):
        return outcome("Numbered", target.id, target, lambda: super(Numbered, cls).get(target))


class Source:
    async def get(self, id, context):
        return {"until": None, "loaded": id}


class Loaded(tables.Fleeting):
    def get(self, query=None):
        return outcome("Loaded", self.get_id(), query, lambda: super(Loaded, self).get(query))


tables.Fleeting.source_from(Source())
'''


class HandlersBeside(Beside):
    """`Beside` with the handlers of CODE; what the next ones do is `do`."""

    def __init__(self, path: Path) -> None:
        directory = path / "handlers"
        directory.mkdir(parents=True)
        (directory / "schema.graphql").write_text((APP / "schema.graphql").read_text())
        (directory / "resources.py").write_text(CODE)
        super().__init__(path / "data", directory)
        assert self.node.app.status == "healthy", self.node.app.entries
        self._logger = logging.getLogger("asyncio")
        self._level = self._logger.level
        self._logger.setLevel(logging.CRITICAL)
        self.put("Counter", 1, {"label": "one"})

    def close(self) -> None:
        self._logger.setLevel(self._level)
        super().close()

    @property
    def module(self) -> Any:
        return next(module for module in self.node.app.modules.loaded if module.__name__.endswith("resources"))

    def do(self, what: str) -> None:
        self.module.todo = what

    def reload(self) -> None:
        self.node.run(self.node.applications.reload(self.node.app.name))
        self.node.settle()

    def began(self) -> None:
        self.module.calls.clear()
        self.node.errors.clear()
        self.node.dispatcher._defects = 0

    def ended(self) -> None:
        logged = [(where, repr(error)) for where, error in self.node.errors]
        self.happened.append((list(self.module.calls), logged))

    def ask(self, style: str, key: str, fields: dict[str, str]) -> bytes:
        """The answer, the same from both paths, which have called handlers alike, and have logged the same."""
        self.happened: list[Any] = []
        answer = self.get(f"/{style}/{key}", fields)
        self.node.errors.clear()
        if answer:
            assert self.happened[1] == self.happened[-1], (style, key, self.module.todo)
            assert len(self.happened[1][0]) <= 1 + ("/" in key)  # that may be a property as well
        return answer
