"""svc in this process, wired as by `svc run`, and stepped: no port, socket pairs instead of connections, and time that passes only when it is told to.

`bench.instructions` runs this module as a process of its own under callgrind, where it asks the requests of rows and marks what is to be counted:

    python -m bench.stepped DATA ROW[,ROW...]       DATA/svc/root: a root in which `svc run` has been before; rows of one application

The marks are calls of two functions of the C library that nothing else calls: callgrind sets its counts to zero before BEGIN, and writes them to a file
before END.
"""

from __future__ import annotations

import asyncio
import functools
import gc
import json
import operator
import os
import select
import socket
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Protocol
from unittest import mock

from bench import pages, records, rules
from bench.applications import ROWS as APPLICATION_ROWS
from bench.measure import Request
from bench.rows import find_fault, pick_numbers
from bench.servers import HERE, Maker, Svc, dump
from svc.clock import Clock

BEGIN, END = "getpriority", "getsid"
PASSWORD = "as-long-as-others"
MAP_BYTES = 4 << 30  # of each database: valgrind has not the address space that a server takes
CONNECTIONS = 32  # with one request each in a turn
WARM_UP = 8  # turns of a row before the time passes, for what is made at the second request or later
READY = 4  # ... and after it
COUNTED = 8  # turns of a row
TURN = 0.002  # seconds that pass between request and answer
REST = 1.0  # seconds that pass before a row is counted, for what timers do
REST_STEPS = 50
PATIENCE = 60.0  # real seconds that an answer may take
PAUSE = 0.02  # ... that the loop sleeps at most while helper threads work
TABLE_ROWS = ("get", "not modified", "equality", "range", "sort", "join", "count", "put", "post", "delete")  # of `bench.rows`
HANDLER_ROWS = ("instance", "changed", "target", "class", "async")  # of `bench.applications`: its application runs instead
RULES_ROWS = tuple(rules.ROWS)  # its application, too
HTTP2_ROWS = {"http2": True, "http2 literal": False}  # of GET; whether the client puts its paths into the table of fields, as few do
PAGE_ROWS = tuple(pages.ROWS)
ROWS = (*TABLE_ROWS[:1], *HTTP2_ROWS, *TABLE_ROWS[1:], "sql", *PAGE_ROWS, *HANDLER_ROWS, *RULES_ROWS)
APPLICATIONS = ("app", "handlers", rules.APPLICATION)  # directories beside this module

Answer = tuple[int, dict[str, str], bytes]


class Seconds:
    """A time that stands still until it is advanced. `read`: a C function, as those are that read the time of the system."""

    def __init__(self, start: float) -> None:
        self._value = [start]
        self.read: Any = functools.partial(operator.getitem, self._value, 0)

    def advance(self, seconds: float) -> None:
        self._value[0] += seconds


class SteppedClock(Clock):
    def __init__(self) -> None:
        self._monotonic = Seconds(1000.0)
        self._wall = Seconds(time.time() + 60)  # later than what the records were written at
        self.monotonic = self.cpu = self._monotonic.read
        self.wall = self._wall.read

    def advance(self, seconds: float) -> None:
        self._monotonic.advance(seconds)
        self._wall.advance(seconds)


class Client(Protocol):
    """One end of a connection."""

    sock: socket.socket

    def send(self, request: Request) -> None: ...
    def receive(self) -> Answer:
        """The answer, which has come."""


class Http1Client:
    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock

    def send(self, request: Request) -> None:
        self.sock.sendall(request.encode("localhost"))

    def receive(self) -> Answer:
        head, _, body = self.sock.recv(1 << 20).partition(b"\r\n\r\n")
        line, *lines = head.decode("latin-1").split("\r\n")
        fields = {name.lower(): value for name, _, value in (each.partition(": ") for each in lines)}
        if len(body) != int(fields.get("content-length", 0)):
            raise RuntimeError(f"the answer has not come in one piece: {line}, {len(body)} bytes of {fields.get('content-length')}")
        return int(line.split(" ")[1]), fields, body


class Http2Client:
    def __init__(self, sock: socket.socket, *, keeps_paths: bool) -> None:
        from tests.support.http2 import ClientEnd

        self.sock = sock
        self._end = ClientEnd(keeps_paths=keeps_paths)
        self._stream = 0

    def send(self, request: Request) -> None:
        self._stream = self._end.request(request.method, request.target, dict(request.fields), request.body or None)
        self.sock.sendall(self._end.data_to_send())

    def receive(self) -> Answer:
        self._end.receive(self.sock.recv(1 << 20))
        answer = self._end.answers.pop(self._stream)
        if not answer.is_complete:
            raise RuntimeError(f"the answer has not come in one piece: {answer}")
        return answer.status, answer.fields, answer.body


class SteppedSvc(Svc):
    """The server, without a process of its own: any number of `turn`, then `close`."""

    name = "svc"

    def __init__(self, data: Path, application: str = "app") -> None:
        """`application`: the name of its directory, which is beside this module."""
        from svc.config import load_config
        from svc.server import InstanceOptions, building
        from svc.server.serving import Server
        from svc.store import StoreSettings

        super().__init__(data)
        self.set_password(PASSWORD)
        self._clock = SteppedClock()
        config = load_config(self.data / "root", environ=self.environment())
        with mock.patch.object(building, "StoreSettings", functools.partial(StoreSettings, map_bytes=MAP_BYTES)):
            self._server = Server(config, (HERE / application,), clock=self._clock, options=InstanceOptions(watches=False))
        self._instance = self._server.instance
        self._loop: Any = self._server.loop
        self._due = Seconds(self._clock.monotonic())  # up to which timers have been run
        self._loop.time = self._due.read  # type: ignore[method-assign]
        asyncio.set_event_loop(self._loop)
        self._loop.run_until_complete(self._instance.load())
        gc.collect()
        self._instance.garbage.begin()
        self._instance.begin()
        self._instance.logs.thread = "http"
        self._events = select.poll()  # what the loop waits for
        self._events.register(self._loop._selector.fileno(), select.POLLIN)  # type: ignore[attr-defined]
        self._one = self.connect(1, Http1Client)

    def connect(self, count: int, make: Callable[[socket.socket], Client]) -> Clients:
        found = []
        for _ in range(count):
            here, there = socket.socketpair()
            there.setblocking(False)
            self._instance.application_port.connections.accept(there, "127.0.0.1")
            found.append(make(here))
        return Clients(found)

    def step(self) -> None:
        """One turn of the loop, without waiting."""
        self._loop.call_soon(self._loop.stop)
        self._loop.run_forever()

    def rest(self) -> None:
        """REST seconds pass, and what is due then is done."""
        for _ in range(REST_STEPS):
            self._clock.advance(REST / REST_STEPS)
            self._due.advance(REST / REST_STEPS)
            self.step()
        gc.collect()

    def serve(self, clients: Clients) -> None:
        """Take the requests that have been sent, and answer them all. Timers stand still."""
        self.step()  # reads them
        self._clock.advance(TURN)
        self.step()  # sends what has been answered, as each turn does before it reads
        patience = PATIENCE / PAUSE
        while not clients.have_all():
            if not self._loop._ready and not self._events.poll(PAUSE * 1000):
                patience -= 1
                if patience < 0:
                    raise RuntimeError(f"no answer in {PATIENCE} s")
            self.step()

    def turn(self, clients: Clients, requests: Sequence[Request], serve: Callable[[Clients], None] | None = None) -> list[Answer]:
        """One request for each client. `serve`: instead of that of this server."""
        for client, request in zip(clients.all, requests, strict=True):
            client.send(request)
        (serve or self.serve)(clients)
        answers = [client.receive() for client in clients.all]
        for request, (status, _, body) in zip(requests, answers, strict=True):
            if status != request.expect:
                raise RuntimeError(f"{request.method} {request.target} answered {status}: {body[:300]!r}")
        return answers

    # --- what `bench.rows` asks of a server ------------------------------------------------------------------------------------------

    def ask(self, request: Request) -> Answer:
        (answer,) = self.turn(self._one, [request])
        return answer

    def tag(self, target: str) -> str:
        return self.ask(self.get(target))[1]["etag"]

    def requests(self) -> dict[str, Maker]:
        found = super().requests()

        def statement(n: int) -> Request:
            body = {"sql": "SELECT * FROM data.Item WHERE id = ?", "parameters": [records.item_id(n)]}
            return Request("POST", "/sql", self.fields, dump(body))

        handlers = {row: self._handler_maker(APPLICATION_ROWS[row][1]) for row in HANDLER_ROWS}
        return (
            found
            | handlers
            | dict.fromkeys(HTTP2_ROWS, found["get"])
            | {"sql": statement}
            | pages.requests(tuple(self.fields))
            | rules.requests()
        )

    def _handler_maker(self, address: str) -> Maker:
        return lambda n: self.get(address + records.item_id(n))

    def close(self) -> None:
        self._server._close()


class Clients:
    """Those of a row."""

    def __init__(self, clients: list[Client]) -> None:
        self.all = clients
        self._poll = select.poll()
        for client in clients:
            self._poll.register(client.sock, select.POLLIN)

    def have_all(self) -> bool:
        """Whether each of them has received something."""
        return len(self._poll.poll(0)) == len(self.all)

    def close(self) -> None:
        for client in self.all:
            client.sock.close()


class Marks:
    """What is between BEGIN and END is counted."""

    def __init__(self) -> None:
        self.count = 0

    def serve(self, server: SteppedSvc, clients: Clients) -> None:
        os.getpriority(os.PRIO_PROCESS, 0)
        server.serve(clients)
        os.getsid(0)
        self.count += 1


def application_of(row: str) -> str:
    """Which of APPLICATIONS answers the requests of a row."""
    return rules.APPLICATION if row in RULES_ROWS else "handlers" if row in HANDLER_ROWS else "app"


def numbers_of(row: str, count: int) -> list[int]:
    """Of the records of so many requests: all of them different. DELETE goes through its table from the beginning."""
    if row in RULES_ROWS:
        return rules.numbers_of(count)
    return list(range(count)) if row == "delete" else pick_numbers(row, count)


def run_row(server: SteppedSvc, row: str, marks: Marks) -> None:
    """Ask its requests, COUNTED turns of them between marks."""
    maker = server.requests()[row]
    turns = WARM_UP + READY + COUNTED
    numbers = numbers_of(row, turns * CONNECTIONS + 1)
    requests = [maker(n) for n in numbers]
    if row in RULES_ROWS:
        rules.check(server.ask, row, requests[0], numbers[0])
    if row in (*TABLE_ROWS, *HTTP2_ROWS) and row != "delete":
        fault = find_fault(server, "get" if row in HTTP2_ROWS else row, requests[0])
        if fault is not None:
            raise RuntimeError(fault)
    clients = server.connect(CONNECTIONS, functools.partial(Http2Client, keeps_paths=HTTP2_ROWS[row]) if row in HTTP2_ROWS else Http1Client)
    server.step()
    for turn in range(turns):
        batch = requests[1 + turn * CONNECTIONS : 1 + (turn + 1) * CONNECTIONS]
        if turn == WARM_UP:
            server.rest()
        counted = turn >= WARM_UP + READY
        server.turn(clients, batch, functools.partial(marks.serve, server) if counted else None)
    clients.close()
    server.step()
    server.step()


def main() -> None:
    data, rows = Path(sys.argv[1]), sys.argv[2].split(",")
    server = SteppedSvc(data, application_of(rows[0]))
    marks = Marks()
    try:
        for row in rows:
            run_row(server, row, marks)
            print(json.dumps({"row": row, "marks": marks.count}), flush=True)
    finally:
        server.close()


if __name__ == "__main__":
    main()
