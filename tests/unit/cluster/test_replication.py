"""What replication of a node does with its registry, without engines."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from svc.clock import FakeClock
from svc.cluster.engine_config import EnginePort
from svc.cluster.identity import Trust
from svc.cluster.positions import Lag
from svc.cluster.replication import Replication, ReplicationOptions
from svc.logs import Logs
from svc.store import Store
from svc.store.system import ANALYTICS_TABLE, CERTIFICATE_TABLE, NODE_TABLE, RAW_ANALYTICS_TABLE, SYSTEM, ensure_system
from svc.store.values.records import decode
from tests.support.remote import PATCH, START, apply_all, entry, origin, transaction


class FakeEngine:
    def __init__(self) -> None:
        self.connection = None
        self.known: list[list[str]] = []

    def set_trust(self, trust: Trust) -> None:
        self.known.append(sorted(trust.nodes))


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    store = Store(tmp_path / "database", node="b", clock=FakeClock())
    ensure_system(store)
    store.databases[SYSTEM].enable_replication()
    yield store
    store.close()


def write(store: Store, collect: Callable[[Any, Any], None]) -> None:
    transaction = store.begin()
    collect(transaction, store.databases[SYSTEM].tables)
    transaction.apply()
    store.commit_turn()


def add(store: Store, name: str = "c") -> None:
    def collect(transaction: Any, tables: Any) -> None:
        transaction.put(tables[NODE_TABLE], name, {"name": name, "url": f"wss://{name}:9933"})
        transaction.put(tables[CERTIFICATE_TABLE], f"{name}/replication", {"name": f"{name}/replication", "certificate": "text"})

    write(store, collect)


def remove(store: Store, name: str = "c") -> None:
    write(store, lambda transaction, tables: transaction.delete(tables[NODE_TABLE], name))


def hear_of_itself(store: Store, name: str = "c") -> None:
    """What this node writes of itself comes, and is newer than all that is here."""
    patch = entry(PATCH, name, {"url": "wss://elsewhere:1"}, NODE_TABLE, primary="name")
    apply_all(store.databases[SYSTEM], [(origin(name), transaction(1, START + 1000, [patch]))])


def names(store: Store, table: str = NODE_TABLE) -> list[str]:
    found = store.databases[SYSTEM].tables[table]
    return [decode(raw)["name"] for _, raw in found.scan(found.database.snapshot())]


def replication_of(store: Store, path: Path, **options: Any) -> Replication:
    made = ReplicationOptions("b", EnginePort(0), path, 1.0, lambda name: True, False, **options)
    return Replication(store, made, Logs(FakeClock()).get_logger("replication"), FakeClock(), lambda record: None)


def look(store: Store, path: Path, meanwhile: Callable[[], None] = lambda: None) -> list[list[str]]:
    """The nodes that the engine was told of, each time."""
    engine = FakeEngine()

    async def run() -> None:
        replication = replication_of(store, path)
        replication.engine = engine  # type: ignore[assignment]
        replication.registry_changed({"c"})
        meanwhile()
        while replication._closing:
            await asyncio.sleep(0)
            store.commit_turn()
        replication.registry_changed({"c"})

    asyncio.run(run())
    return engine.known


def test_a_removed_node_that_has_entered_itself_again_is_removed_again(store: Store, tmp_path: Path) -> None:
    add(store)
    add(store, "d")
    remove(store)
    hear_of_itself(store)
    assert names(store) == ["c", "d"]
    assert look(store, tmp_path)[-1] == ["d"]
    assert names(store) == ["d"] and names(store, CERTIFICATE_TABLE) == ["d/replication"]
    newest = store.databases[SYSTEM].log.last_version
    assert newest > START + 1000, "it is newer than what the node has written, also for all others"


def test_a_node_that_is_added_again_stays(store: Store, tmp_path: Path) -> None:
    add(store)
    remove(store)
    hear_of_itself(store)
    assert look(store, tmp_path, lambda: add(store))[-1] == ["c"]
    hear_of_itself(store)
    assert look(store, tmp_path)[-1] == ["c"] and names(store) == ["c"]


def test_aggregates_are_published_with_the_setting_alone(store: Store, tmp_path: Path) -> None:
    async def published(**options: Any) -> set[str]:
        replication = replication_of(store, tmp_path, **options)
        return {name for name, table in store.databases[SYSTEM].tables.items() if replication.is_published(table)}

    without, with_them = asyncio.run(published()), asyncio.run(published(analytics=True))
    assert with_them - without == {ANALYTICS_TABLE} and RAW_ANALYTICS_TABLE not in with_them


def test_the_lag_of_each_stream_is_measured_while_it_is_read(store: Store, tmp_path: Path) -> None:
    gauges: dict[tuple[str, ...], Callable[[], Any]] = {}

    def gauge(fields: Callable[[], Any], *key: str) -> None:
        gauges[key] = fields

    async def run() -> None:
        replication = replication_of(store, tmp_path, gauge=gauge)
        measure = partial(replication._measure_lag, "c", "data")
        assert measure() is None, "it is not known"
        replication.peers["c"] = SimpleNamespace(inboxes={"data": None})  # type: ignore[assignment]
        assert measure() is None, "nothing was heard"
        replication.positions.lag = lambda node, database: (Lag(3, 1.25), Lag(None, None))  # type: ignore[method-assign]
        assert measure() == {"ms": 1250.0, "entries": 3}
        found = SimpleNamespace(database=store.databases[SYSTEM], is_paused=False)
        added: list[Any] = []
        replication._addresses["c"] = ("", SimpleNamespace(reads=lambda name: True, tables=lambda name: None, since_ms=0.0))  # type: ignore[assignment]
        peer = SimpleNamespace(name="c", add=lambda *given: added.append(given))
        replication._read_from(peer, found)  # type: ignore[arg-type]
        assert len(added) == 1

    asyncio.run(run())
    assert list(gauges) == [("replication-lag", "c.system", "replication", "ingress")]
