"""Three stores that write on their own and exchange transactions in any order, with repeats and restarts: in the end they are equal (spec: replication)."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from svc.clock import FakeClock
from svc.store import Database, Store, StoreSettings
from svc.store.integrity.check import check_database
from svc.store.log.entries import MESSAGE
from svc.store.schema import Attribute, TableDefinition
from svc.store.values.keys import encode_key
from svc.store.values.records import lsn_of
from svc.store.values.validation import Add
from svc.store.writing.remote_apply import apply_remote
from svc.store.writing.remote_transaction import Origin
from svc.store.writing.write_set import WriteSet
from tests.support.profile import half_by_day
from tests.support.remote import sent_since, stored
from tests.unit.store.writing.test_long_write import Turns

NODES = ("a", "b", "c")
AHEAD = {"a": 0.0, "b": 0.4, "c": 3600.0}  # seconds of their clocks; that of c does not count with the others
KEYS = ("x", "y")
TABLE = TableDefinition(
    "Seat",
    attributes=(
        Attribute("code", "ID", primary_key=True),
        Attribute("a", "Any", indexed=True),
        Attribute("b", "Any", indexed=True),
    ),
    primary_key="code",
)

nodes = st.sampled_from(NODES)
keys = st.sampled_from(KEYS)
values = st.integers(-3, 3)
increments = st.builds(Add, st.integers(1, 3))
changes = st.dictionaries(st.sampled_from(("a", "b", "z")), values | increments, min_size=1)


class Node:
    """A store and its turns."""

    def __init__(self, path: Path, name: str) -> None:
        self.path = path / name
        self.name = name
        self.clock = FakeClock()
        self.clock.advance(AHEAD[name])
        self.open()

    def open(self) -> None:
        self.store = Store(self.path, StoreSettings(write_async=True), node=self.name, clock=self.clock)
        self.turns = Turns(self.store)
        self.database: Database = self.store.open_database("data")
        self.table = self.database.define_table(TABLE)
        self.database.enable_replication()
        self.heard = 0

    def close(self) -> None:
        self.turns.loop.close()
        self.store.close()

    @property
    def origin(self) -> Origin:
        assert self.database.replication is not None
        found = Origin(self.name, self.database.replication.incarnation(self.database.snapshot()))
        self.store.end_turn()
        return found


class ReplicatedStores(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.path = Path(tempfile.mkdtemp(prefix="nodes-"))
        self.nodes: dict[str, Node] = {}

    @initialize()
    def open(self) -> None:
        self.nodes = {name: Node(self.path, name) for name in NODES}

    def _write(self, node: str, *writes: Any) -> None:
        store = self.nodes[node].store
        transaction = store.begin()
        for write in writes:
            write(transaction, self.nodes[node].table)
        transaction.apply()
        store.commit_turn()
        assert transaction.outcome == (None,)

    @rule(node=nodes, key=keys, record=st.dictionaries(st.sampled_from(("a", "b", "z")), values), seconds=st.none() | st.integers(1, 4))
    def put(self, node: str, key: str, record: dict[str, int], seconds: int | None) -> None:
        expiry = None if seconds is None else (self.nodes[node].clock.wall() + seconds) * 1000
        self._write(node, lambda t, table: t.put(table, key, dict(record), expires_at=expiry))

    @rule(node=nodes, key=keys, what=changes)
    def patch(self, node: str, key: str, what: dict[str, Any]) -> None:
        self._write(node, lambda t, table: t.patch(table, key, dict(what)))

    @rule(node=nodes, key=keys)
    def delete(self, node: str, key: str) -> None:
        self._write(node, lambda t, table: t.delete(table, key))

    @rule(node=nodes, key=keys, what=changes, then=changes)
    def several(self, node: str, key: str, what: dict[str, Any], then: dict[str, Any]) -> None:
        self._write(
            node,
            lambda t, table: t.patch(table, key, dict(what)),
            lambda t, table: t.publish(table, key, "news"),
            lambda t, table: t.patch(table, key, dict(then)),
            lambda t, table: t.put(table, "both", {"a": 1}),
        )

    @rule(node=nodes)
    def remove_expired(self, node: str) -> None:
        here = self.nodes[node]
        now = here.clock.wall() * 1000
        here.store.open_writers((here.database,))
        writes = WriteSet(here.database, here.store.next_version(), now, None)
        for key in (*KEYS, "both"):
            writes.expire(here.table, encode_key(key), now)
        writes.commit()
        here.store.commit_turn()

    @rule(seconds=st.sampled_from((0.5, 1.0, 3.0)))
    def time_passes(self, seconds: float) -> None:
        for node in self.nodes.values():
            node.clock.advance(seconds)

    @rule(node=nodes)
    def restart(self, node: str) -> None:
        self.nodes[node].close()
        self.nodes[node].open()

    @rule(sender=nodes, receiver=nodes, count=st.integers(1, 4), back=st.integers(0, 3))
    def deliver(self, sender: str, receiver: str, count: int, back: int) -> None:
        """Some of what was not applied yet, and some that was."""
        if sender != receiver:
            self._deliver(sender, receiver, count, back)

    def _deliver(self, sender: str, receiver: str, count: int | None = None, back: int = 0) -> None:
        here, there = self.nodes[sender], self.nodes[receiver]
        assert there.database.replication is not None
        origin = here.origin
        applied = there.database.replication.applied(there.database.snapshot(), origin)
        there.store.end_turn()
        sent = sent_since(here.database, 0)
        here.store.end_turn()
        first = max(sum(each.last_lsn <= applied for each in sent) - back, 0)
        given = sent[first:] if count is None else sent[first : first + count + back]
        outcome = there.turns.finish(apply_remote(there.database, origin, given))
        assert outcome.refused is None
        if given:
            assert outcome.lsn == max(applied, given[-1].last_lsn)

    @invariant()
    def indexes_and_logs_are_whole(self) -> None:
        for node in self.nodes.values():
            node.store.check()
            node.store.end_turn()

    def teardown(self) -> None:
        try:
            if self.nodes:
                self._compare()
        finally:
            for node in self.nodes.values():
                node.close()
            for node in self.nodes.values():
                assert check_database(node.path / "data").findings == []
            shutil.rmtree(self.path, ignore_errors=True)

    def _compare(self) -> None:
        for sender in NODES:
            for receiver in NODES:
                if sender != receiver:
                    self._deliver(sender, receiver)
        end = max(node.clock.wall() for node in self.nodes.values()) * 1000
        for key in (*KEYS, "both"):
            found = []
            for node in self.nodes.values():
                record, expiry, version = stored(node.table, key)
                if record is None or (expiry is not None and expiry <= end):
                    found.append(None)
                else:
                    found.append((list(record.items()), expiry, version))
            assert found[0] == found[1] == found[2], key
        counts = []
        for node in self.nodes.values():
            snapshot = node.database.snapshot()
            counts.append(sum(entry.kind == MESSAGE for entry in node.database.log.read(snapshot)))
            for key in KEYS:
                raw = node.table.get_entry(encode_key(key))
                assert raw is None or node.database.log.get(snapshot, lsn_of(raw)) is not None
        assert counts[0] == counts[1] == counts[2], "each node has each message once"


TestReplicatedStores = ReplicatedStores.TestCase
TestReplicatedStores.settings = settings(max_examples=half_by_day(40), stateful_step_count=25, deadline=None)
