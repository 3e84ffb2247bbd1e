"""An event stream beside a plain list of what happened: cut off and resumed at any byte, it loses and repeats nothing (spec: realtime §1, §3)."""

from __future__ import annotations

import json
import shutil
import tempfile
from pathlib import Path
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from svc.http import event_pump
from tests.support.node import Node, Wire
from tests.support.profile import half_by_day

SCHEMA = "type Note @table @export { id: ID @primaryKey  n: Int  text: String }"
TARGETS = ("/Note/a/", "/Note/a/3", "/Note/a/?n=gt=-1&select(n)")

LITTLE = 4000  # bytes: so that clients are often waited for
HIGH_WATER = event_pump.HIGH_WATER

names = st.integers(0, 9)
sizes = st.sampled_from((0, 10, 3000))


class Streaming(RuleBasedStateMachine):
    """`happened`: what the client has to see since its last reset, as (type, id, n). `seen`: what it saw."""

    def __init__(self) -> None:
        super().__init__()
        event_pump.HIGH_WATER = LITTLE
        self.directory = Path(tempfile.mkdtemp())
        app = self.directory / "app"
        app.mkdir()
        (app / "schema.graphql").write_text(SCHEMA)
        self.node = Node(self.directory / "store", app)
        self.writer = self.node.connect()
        self.records: dict[str, int] = {}
        self.number = 0
        self.client: Wire | None = None
        self.rest = b""  # of what came, an incomplete block
        self.last_id: str | None = None
        self.happened: list[tuple[str, str, int | None]] = []
        self.seen: list[tuple[str, str, int | None]] = []

    @initialize(address=st.sampled_from(TARGETS))
    def choose(self, address: str) -> None:
        self.address = address

    def covers(self, key: str) -> bool:
        return key == "a/3" if self.address == "/Note/a/3" else key.startswith("a/")

    # --- what happens ------------------------------------------------------------------------------------------------------------------

    def tell(self, kind: str, key: str, number: int | None) -> None:
        if self.covers(key):
            self.happened.append((kind, key, number))

    @rule(keys=st.lists(names, min_size=1, max_size=5, unique=True), area=st.sampled_from("ab"), size=sizes)
    def put(self, keys: list[int], area: str, size: int) -> None:
        rows = []
        for key in keys:
            self.number += 1
            rows.append({"id": f"{area}/{key}", "n": self.number, "text": "x" * size})
        assert self.writer.ask("PUT", "/Note/", json.dumps(rows).encode())[0] == 204
        for row in rows:
            self.records[row["id"]] = row["n"]
            self.tell("put", row["id"], row["n"])

    @precondition(lambda self: self.records)
    @rule(data=st.data())
    def patch(self, data: st.DataObject) -> None:
        key = data.draw(st.sampled_from(sorted(self.records)))
        self.number += 1
        assert self.writer.ask("PATCH", f"/Note/{key}", json.dumps({"n": self.number}).encode())[0] == 204
        self.records[key] = self.number
        self.tell("put", key, self.number)

    @precondition(lambda self: self.records)
    @rule(data=st.data())
    def delete(self, data: st.DataObject) -> None:
        key = data.draw(st.sampled_from(sorted(self.records)))
        assert self.writer.ask("DELETE", f"/Note/{key}")[0] == 204
        del self.records[key]
        self.tell("delete", key, None)

    # --- what the client does ------------------------------------------------------------------------------------------------------------

    @precondition(lambda self: self.client is None)
    @rule(room=st.integers(400, 100_000))
    def connect(self, room: int) -> None:
        if self.last_id is None:
            self.seen = []
            self.happened = [("put", key, number) for key, number in sorted(self.records.items()) if self.covers(key)]
        self.client = self.node.connect()
        self.client.sock.room = room
        again = "" if self.last_id is None else f"Last-Event-ID: {self.last_id}\r\n"
        self.client.send(f"GET {self.address} HTTP/1.0\r\nHost: localhost\r\nAccept: text/event-stream\r\n{again}\r\n".encode())
        head, mark, self.rest = self.client.sock.sent.partition(b"\r\n\r\n")
        assert mark and head.startswith(b"HTTP/1.1 200"), head
        self.client.sock.sent = b""
        self.parse()

    @precondition(lambda self: self.client is not None)
    @rule(room=st.integers(1, 20_000))
    def read(self, room: int) -> None:
        assert self.client is not None
        sock = self.client.sock
        sock.room = room
        write = self.node.connections.loop.writers.get(sock)  # type: ignore[attr-defined]
        if write is not None:
            write()
        self.node.settle()
        self.rest += sock.sent
        sock.sent = b""
        self.parse()

    @precondition(lambda self: self.client is not None)
    @rule()
    def cut(self) -> None:
        assert self.client is not None
        self.rest += self.client.sock.sent  # what the network has delivered before
        self.client.sock.sent = b""
        self.parse()
        self.client.send(b"")
        self.client = None
        self.rest = b""

    @precondition(lambda self: self.client is not None)
    @rule()
    def catch_up(self) -> None:
        """With all the room there is, the client gets everything."""
        for _ in range(1000):
            if len(self.seen) == len(self.happened):
                break
            self.read(1 << 30)
        assert self.seen == self.happened

    def parse(self) -> None:
        while b"\n\n" in self.rest:
            block, _, self.rest = self.rest.partition(b"\n\n")
            for line in block.decode().split("\n"):
                name, _, value = line.partition(": ")
                if name == "id":
                    self.last_id = value
                elif name == "data":
                    self.see(json.loads(value))

    def see(self, event: dict[str, Any]) -> None:
        value = event["value"]
        number = value["n"] if isinstance(value, dict) else value
        self.seen.append((event["type"], event["id"], number))

    @invariant()
    def nothing_else_is_seen(self) -> None:
        assert self.seen == self.happened[: len(self.seen)]
        assert not self.node.errors

    def teardown(self) -> None:
        try:
            if self.client is None:
                self.connect(1 << 30)
            self.catch_up()
        finally:
            event_pump.HIGH_WATER = HIGH_WATER
            self.node.close()
            shutil.rmtree(self.directory)


TestStreaming = Streaming.TestCase
TestStreaming.settings = settings(max_examples=half_by_day(40), stateful_step_count=40)
