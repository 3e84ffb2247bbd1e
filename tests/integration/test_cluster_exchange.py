"""What one node commits reaches another over a real engine: outbox, stream, inbox (svc.cluster)."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from svc.cluster.client import ConnectFailed, Connection
from svc.cluster.engine import State
from svc.cluster.inbox import Inbox, Reader
from svc.cluster.link import cancelled
from svc.cluster.names import stream_name
from svc.cluster.outbox import Outbox
from svc.cluster.own_stream import EngineStream
from svc.cluster.reader import End, Lost, StreamReader
from svc.store import Store
from svc.store.schema import Attribute, TableDefinition, definition_to_bytes
from svc.store.values.records import decode, version_of
from svc.store.values.validation import Add
from tests.support.engines import NodeEngine, close_all, knows, until

pytestmark = pytest.mark.programs


class NodeStore:
    """A node: a store, its engine, and the tasks between them."""

    def __init__(self, root: Path, name: str) -> None:
        self.name = name
        self.engine = NodeEngine(root, name)
        self.store = Store(root / name / "database", node=name)
        self.database = self.store.open_database("data")
        self.state = self.database.enable_replication()
        self.tasks: list[asyncio.Task[Any]] = []
        self.inboxes: list[Inbox] = []

    def define(self, *more: Attribute) -> None:
        self.database.define_table(TableDefinition("Item", attributes=(Attribute("id", "ID", primary_key=True), *more)))

    def write(self, change: Callable[[Any, Any], None]) -> None:
        transaction = self.store.begin()
        change(transaction, self.database.tables["Item"])
        transaction.apply()
        self.store.commit_turn()

    def put(self, key: str, **values: Any) -> None:
        self.write(lambda transaction, table: transaction.put(table, key, {"id": key, **values}))

    async def turns(self) -> None:
        while True:
            self.store.commit_turn()
            self.store.end_turn()
            await asyncio.sleep(0.001)

    def spawn(self, work: Awaitable[Any]) -> None:
        self.tasks.append(asyncio.ensure_future(work))

    def publish(self) -> Outbox:
        async def connect() -> EngineStream:
            connection = await until(lambda: self.engine.engine.connection)
            return EngineStream(connection, "data", self.name, max_age=86_400, max_bytes=1 << 28)

        incarnation = self.state.incarnation(self.database.snapshot())
        outbox = Outbox(
            self.database,
            self.name,
            incarnation,
            connect,
            is_sent=lambda table: table.definition.replicate,
            noted=lambda: self.state.published(self.database.snapshot()),
        )
        self.database.on_commit.append(lambda database, entries: outbox.wake())
        self.spawn(outbox.run())
        return outbox

    def read_from(self, other: NodeStore) -> Inbox:
        name = stream_name("data", other.name)
        connections: list[Connection] = []

        async def open_reader(start: int, created: str | None) -> Reader | End:
            try:
                connection = await self.engine.connect_to(other.engine)
            except ConnectFailed as error:
                return Lost(str(error))
            connections.append(connection)
            return await StreamReader.open(connection, name, start, created=created)

        async def definitions(names: tuple[str, ...]) -> Mapping[str, bytes]:
            return {name: definition_to_bytes(other.database.tables[name].definition) for name in names}

        inbox = Inbox(self.database, other.name, name, open_reader, definitions)
        self.inboxes.append(inbox)
        self.spawn(inbox.run())
        return inbox

    def content(self) -> dict[str, tuple[dict[str, Any], float]]:
        table = self.database.tables.get("Item")
        if table is None:
            return {}
        return {raw_key.hex(): (decode(raw), version_of(raw)) for raw_key, raw in table.scan(self.database.snapshot())}

    async def close(self) -> None:
        for task in self.tasks:
            await cancelled(task)  # which may be connecting to an engine that has ended
        await close_all(self.engine)
        self.store.close()


async def started(root: Path, *names: str) -> list[NodeStore]:
    nodes = [NodeStore(root, name) for name in names]
    for node in nodes:
        node.spawn(node.turns())
        await node.engine.run()
    for node in nodes:
        await knows(node.engine, *(other.engine for other in nodes if other is not node))
    return nodes


async def equal(*nodes: NodeStore) -> None:
    """Wait until they have the same."""
    first = nodes[0]
    await until(
        lambda: all(node.content() == first.content() for node in nodes[1:]),
        [(inbox.node, inbox.reason) for node in nodes for inbox in node.inboxes],
    )
    for node in nodes:
        node.store.check()


def test_what_is_written_here_is_there(tmp_path: Path) -> None:
    async def run() -> None:
        a, b = await started(tmp_path, "a", "b")
        a.define(Attribute("n", "Int", indexed=True))
        for number in range(100):
            a.put(f"k{number}", n=number)
        a.publish()
        b.read_from(a)
        await equal(a, b)
        assert "n" in b.database.tables["Item"].indexes
        a.write(lambda transaction, table: transaction.patch(table, "k1", {"n": Add(5)}))
        a.write(lambda transaction, table: transaction.delete(table, "k2"))
        a.define(Attribute("n", "Int", indexed=True), Attribute("text", "String"))
        a.put("k3", n=3, text="new")
        a.write(lambda transaction, table: [transaction.put(table, f"m{n}", {"id": f"m{n}", "text": "x" * 200}) for n in range(5_000)])
        await equal(a, b)
        assert len(b.content()) == 5_099
        await a.close()
        await b.close()

    asyncio.run(run())


def test_three_that_write_while_engines_are_killed(tmp_path: Path) -> None:
    """Counters are exact, and all end with the same."""

    async def run() -> None:
        nodes = await started(tmp_path, "a", "b", "c")
        for node in nodes:
            node.define(Attribute("n", "Int", indexed=True))
            node.publish()
            for other in nodes:
                if other is not node:
                    node.read_from(other)
        for round_ in range(6):
            for number, node in enumerate(nodes):
                for step in range(20):
                    node.write(lambda transaction, table: transaction.patch(table, "counter", {"n": Add(1)}))
                    node.put(f"k{step}", n=round_ * 100 + number)
                    await asyncio.sleep(0)
            victim = nodes[round_ % 3].engine.engine
            if victim.pid is not None and round_ % 2:
                os.kill(victim.pid, signal.SIGKILL)
            await asyncio.sleep(0.05)
        for node in nodes:
            await until(lambda: node.engine.engine.state is State.RUNNING)  # noqa: B023
        await until(lambda: all(_counter(node) == 360 for node in nodes), [_counter(node) for node in nodes])
        await equal(*nodes)
        for node in nodes:
            await node.close()

    asyncio.run(run())


def _counter(node: NodeStore) -> int:
    table = node.database.tables["Item"]
    raw = table.get_raw("counter")
    return 0 if raw is None else decode(raw)["n"]
