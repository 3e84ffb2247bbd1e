"""Subscriptions beside a plain model: any writes, by this process and a sibling, any targets and options, consumers that take when they like.

The model notes every entry of the log with what it left behind. From that follows what each subscription must get, in order, once. A slow one may
get the last of several events of a record for all of them, and then says for how many.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from svc.auth.users import UserDirectory
from svc.clock import FakeClock
from svc.query.nodes import Comparator, Condition, Select, SelectItem
from svc.realtime import commit_feed, followed_database, history, hub, patterns, resume, shared_replay, subscriber_group, subscription
from svc.realtime.commit_feed import CommitFeed
from svc.realtime.event import EndReason
from svc.realtime.hub import Hub
from svc.realtime.subscription import Subscription
from svc.realtime.subscription_request import SubscriptionRequest
from svc.realtime.targets import is_child
from svc.store import Database, Store, StoreSettings, Table
from svc.store.schema import Attribute, TableDefinition
from svc.store.system import ensure_system
from svc.store.values.keys import encode_key, storage_key
from tests.support.hub import Sibling, StillLoop, carry_out
from tests.support.profile import half_by_day
from tests.support.snapshots import give_up_snapshots

pytestmark = pytest.mark.programs

_ATTRIBUTES = (Attribute("id", primary_key=True), Attribute("a", "Int", indexed=True), Attribute("n", "Int"))
PLAIN = TableDefinition("Plain", attributes=_ATTRIBUTES)
SPLIT = TableDefinition("Split", attributes=_ATTRIBUTES, split_segments=True)
QUIET = TableDefinition("Quiet", database="more", attributes=_ATTRIBUTES, audit=False)
DEFINITIONS = {definition.name: definition for definition in (PLAIN, SPLIT, QUIET)}
MAX_MISSED = 60

long_key = "k" * 600
text_keys = st.sampled_from(("a", "b", "a/1", "a/2", "a/1/x", "b/1", 5, long_key))
split_keys = st.sampled_from(("a", "b", ("a", 1), ("a", 2), ("a", 1, "x"), ("b", 1)))
numbers = st.integers(0, 3)


def keys_of(table: str) -> st.SearchStrategy[Any]:
    return split_keys if table == "Split" else text_keys


@st.composite
def writes(draw: st.DrawFn, database: str) -> list[list[Any]]:
    """The writes of one transaction, as `carry_out` takes them."""
    found: list[list[Any]] = []
    for _ in range(draw(st.integers(1, 4))):
        table = draw(st.sampled_from([name for name, definition in DEFINITIONS.items() if definition.database == database]))
        kind = draw(st.sampled_from(("put", "put", "patch", "patch", "delete", "publish", "invalidate")))
        key = draw(keys_of(table))
        data: Any = None
        if kind == "put":
            data = draw(st.fixed_dictionaries({"a": numbers}, optional={"n": numbers, "expires": st.sampled_from((50.0, 1e6))}))
        elif kind == "patch":
            data = draw(st.fixed_dictionaries({}, optional={"a": numbers, "n": numbers | st.just({"add": 1})}))
        elif kind == "publish":
            key = draw(st.none() | st.just(key))
            data = draw(st.sampled_from(("text", None, {"a": 2}, {"a": 0, "x": [1]}, [1])))
        found.append([database, table, kind, key, data])
    return found


@st.composite
def requests(draw: st.DrawFn) -> dict[str, Any]:
    """Everything of a request but the table itself and positions in the log."""
    table = draw(st.sampled_from(tuple(DEFINITIONS)))
    made: dict[str, Any] = {"table": table}
    target = draw(st.sampled_from(("table", "table", "key", "prefix", "below", "pattern")))
    if target in ("key", "below"):
        made["key"] = draw(keys_of(table))
        made["include_descendants"] = target == "below"
    elif target == "prefix":
        made["prefix"] = draw(st.sampled_from(("a/", "a/1/", "b/")))
    elif target == "pattern":
        made["pattern"] = draw(st.sampled_from((("+", "#"), ("a", "+"), ("+", "1"), ("+", "1", "#"), ("a", "+", "x"), ("+", "+"))))
    if target != "pattern" and draw(st.integers(0, 3)) == 0:
        made["only_children"] = True
    made["keeps_all"] = draw(st.booleans())
    if draw(st.integers(0, 2)) == 0:
        made["where"] = Condition(("a",), Comparator.GREATER_THAN_EQUAL, 2)
    if draw(st.integers(0, 4)) == 0:
        made["select"] = Select((SelectItem(("a",)),))
    made["raw_events"] = draw(st.integers(0, 3)) == 0
    made["supports_transactions"] = draw(st.integers(0, 3)) == 0
    made["start"] = draw(st.sampled_from(("current", "current", "omit", "previous", "since", "after")))
    made["at"] = draw(st.integers(0, 8))
    return made


# -- the model


@dataclass
class Entry:
    """One of the log. `after`: the record, or the message. `patch`: what a patch has set."""

    lsn: int
    transaction: int
    version: float
    table: str
    kind: str
    key: Any
    after: Any
    patch: dict[str, Any] | None = None


@dataclass
class Record:
    data: dict[str, Any]
    expires: float | None
    lsn: int


@dataclass
class ModelDatabase:
    entries: list[Entry] = field(default_factory=list)
    first: int = 1  # LSN with which the log begins
    records: dict[str, dict[Any, Record]] = field(default_factory=dict)

    @property
    def last(self) -> int:
        return len(self.entries)


Told = tuple[Any, ...]  # type, key, value, LSN, begin_txn


class Consumer:
    """One subscription, what it was asked for, and what came. `start`: LSN behind which everything must come."""

    source: Subscription

    def __init__(self, made: dict[str, Any]) -> None:
        self.made = made
        self.start = 0
        self.current: list[tuple[Any, Any, float | None]] | None = None  # (key, value, expiry) of the records that must come first
        self.got: list[Any] = []
        self.ready = True
        self.mixed = False  # its snapshot was taken away: the records are of several

    def on_ready(self) -> None:
        self.ready = True

    @property
    def database(self) -> str:
        return DEFINITIONS[self.made["table"]].database

    def take(self, limit: int) -> bool:
        """False if nothing came."""
        found = self.source.take(limit)
        assert len(found) <= limit
        self.got += found
        if not found:
            self.ready = False
        return bool(found)

    def position(self) -> int | None:
        """From where it could go on, if it got nothing more."""
        return next((event.position for event in reversed(self.got) if event.position is not None), None)


class SubscriptionMachine(RuleBasedStateMachine):
    """See the module."""

    sibling: Sibling
    empty: Path  # a store with the tables, to be copied: it takes a tenth of the time

    def __init__(self) -> None:
        super().__init__()
        self.patch = pytest.MonkeyPatch()
        # Small enough that a few events need several slices, overflow a queue, are too many.
        for module, values in (
            (subscriber_group, {"MAX_WEIGHT": 6 * 4096, "MAX_MISSED": MAX_MISSED, "MIN_EVENT_WEIGHT": 4096}),
            (subscription, {"MIN_EVENT_WEIGHT": 4096, "MAX_REPLAY_EVENTS": 3, "MAX_REPLAY_WEIGHT": 5 * 4096}),
            (subscription, {"MAX_WEIGHT": 6 * 4096, "MAX_MISSED": MAX_MISSED}),
            (hub, {"SLICE": 4.0, "MAX_PAST_EVENTS": 4, "CACHED_CHANGES": 3}),
            (resume, {"MAX_PAST_EVENTS": 4}),
            (commit_feed, {"ENTRIES_PER_BATCH": 10, "SLICE": 3.0}),
            (followed_database, {"SLICE": 3.0, "WAITING": 5, "READ": 3, "LOOK": 2}),
            (shared_replay, {"BATCH": 3, "LOOK": 2}),
            (patterns, {"STEP": 2, "REMEMBERED": 2, "REMEMBERED_ITEMS": 3}),
            (history, {"LOG_BATCH": 3, "COALESCE_ENTRIES": 9, "MAX_SORTED_KEYS": 2, "STEP": 2}),
        ):
            for name, value in values.items():
                assert hasattr(module, name)
                self.patch.setattr(module, name, value)
        self.path = Path(tempfile.mkdtemp(prefix="subscriptions-"))
        shutil.copytree(self.empty, self.path, dirs_exist_ok=True)
        self.clock = FakeClock()
        self.ticks = 0.0
        self.clock.monotonic = self._tick
        self.model = {"data": ModelDatabase(), "more": ModelDatabase()}
        for definition in DEFINITIONS.values():
            self.model[definition.database].records[definition.name] = {}
        self.consumers: list[Consumer] = []
        self.gone: list[tuple[dict[str, Any], int]] = []  # disconnected: what they had asked for, and where they were
        self.sibling_is_open = False
        self._open()

    def _tick(self) -> float:
        self.ticks += 1.0
        return self.ticks

    def _open(self) -> None:
        self.loop = StillLoop()
        self.store = Store(self.path, StoreSettings(write_async=True), clock=self.clock)
        self.feed = CommitFeed(self.store, self.loop.as_loop(), self.clock)
        self.hub = Hub(self.store, self.feed, self.loop.as_loop(), self.clock, UserDirectory(self.store))

    def table(self, name: str) -> Table:
        return self._database(name).tables[name]

    def _database(self, table: str) -> Database:
        return self.store.databases[DEFINITIONS[table].database]

    def teardown(self) -> None:
        self.store.close()
        if self.sibling_is_open:
            self.sibling.close()
        self.patch.undo()
        shutil.rmtree(self.path)

    # -- writing

    def _expiries(self, given: list[list[Any]]) -> list[list[Any]]:
        """With times instead of ages."""
        now = self.clock.wall() * 1000
        return [
            [
                *write[:4],
                {**write[4], "expires": now + write[4]["expires"] * 1000}
                if isinstance(write[4], dict) and "expires" in write[4]
                else write[4],
            ]
            for write in given
        ]

    def _note(self, given: list[list[Any]], version: float) -> None:
        """What the writes of a transaction leave behind."""
        model = self.model[given[0][0]]
        first = model.last + 1
        now = self.clock.wall() * 1000
        for _, table, kind, key, data in given:
            key = tuple(key) if isinstance(key, list) else key
            records = model.records[table]
            stored = records.get(key) if key is not None else None
            live = stored is not None and (stored.expires is None or stored.expires > now)
            lsn = model.last + 1
            shown = list(key) if isinstance(key, tuple) else key
            entry = Entry(lsn, first, version, table, kind, key, None)
            if kind == "put":
                record = {name: value for name, value in data.items() if name != "expires"}
                entry.after = record | {"id": shown}
                records[key] = Record(entry.after, data.get("expires"), lsn)
            elif kind == "patch":
                before = stored.data if live and stored is not None else {"id": shown}
                after = dict(before)
                for name, value in data.items():
                    after[name] = after.get(name, 0) + value["add"] if isinstance(value, dict) else value
                entry.after = after
                changes = {
                    name: {"__op__": "add", "value": value["add"]} if isinstance(value, dict) else value for name, value in data.items()
                }
                increments = {name: value for name, value in changes.items() if isinstance(value, dict)}
                entry.patch = changes if live else {**after, **increments}  # an increment stays one where there was no record
                records[key] = Record(after, stored.expires if live and stored is not None else None, lsn)
            elif kind == "delete":
                if not live:
                    continue
                del records[key]
            elif kind == "publish":
                entry.after = data
            model.entries.append(entry)

    @rule(data=st.data(), database=st.sampled_from(("data", "data", "more")), several=st.integers(1, 3))
    def write(self, data: st.DataObject, database: str, several: int) -> None:
        """Some transactions of one turn."""
        for _ in range(several):
            given = self._expiries(data.draw(writes(database)))
            transaction = self.store.begin("me")
            for _, table, kind, key, content in given:
                carry_out(transaction, self.table(table), kind, key, content)
            transaction.apply()
            self._note(given, transaction.version)
        self.store.commit_turn()
        self.clock.advance(0.001)

    @rule(data=st.data())
    def write_many(self, data: st.DataObject) -> None:
        """A transaction longer than a batch, so that it is reported in several."""
        given = self._expiries([write for _ in range(6) for write in data.draw(writes("data"))])
        transaction = self.store.begin("me")
        for _, table, kind, key, content in given:
            carry_out(transaction, self.table(table), kind, key, content)
        transaction.apply()
        self._note(given, transaction.version)
        self.store.commit_turn()
        self.clock.advance(0.001)

    @rule(data=st.data())
    def sibling_writes(self, data: st.DataObject) -> None:
        self.store.end_turn()
        if not self.sibling_is_open:
            self.sibling.open(self.path)
            self.sibling_is_open = True
        for _ in range(data.draw(st.integers(1, 2))):
            given = self._expiries(data.draw(writes(data.draw(st.sampled_from(("data", "more"))))))
            self.sibling.write(self.clock.wall(), given)
            model = self.model[given[0][0]]
            before = model.last
            self._note(given, 0.0)
            database = self.store.databases[given[0][0]]
            for entry in model.entries[before:]:
                found = database.log.get(database.snapshot(), entry.lsn)
                assert found is not None
                entry.version = found.version
            self.store.end_turn()
            self.clock.advance(0.001)

    @rule(data=st.data())
    def write_and_lose(self, data: st.DataObject) -> None:
        """A transaction that fails makes no events."""
        transaction = self.store.begin("me")
        for _, table, kind, key, content in self._expiries(data.draw(writes("data"))):
            carry_out(transaction, self.table(table), kind, key, content)
        transaction.create(self.table("Plain"), "only once", {"a": 1})
        transaction.create(self.table("Plain"), "only once", {"a": 1})
        with pytest.raises(Exception, match="exists"):
            transaction.apply()
        self.store.commit_turn()

    @rule(seconds=st.sampled_from((1.0, 60.0)))
    def time_passes(self, seconds: float) -> None:
        self.clock.advance(seconds)

    @rule()
    def expire(self) -> None:
        """Remove what has expired."""
        before = {name: model.last for name, model in self.model.items()}
        self.store.maintenance(1e6)  # the first look at a table only notes when to look again
        self.clock.advance(61.0)
        for _ in range(200):
            if not self.store.maintenance(1e6):
                break
        self.store.commit_turn()
        self.store.end_turn()
        now = self.clock.wall() * 1000
        for database, model in self.model.items():
            for table, records in model.records.items():
                expired = sorted(
                    (record.expires, storage_key(encode_key(key)), key)
                    for key, record in records.items()
                    if record.expires is not None and record.expires <= now
                )
                first = model.last + 1
                for _, _, key in expired:
                    del records[key]
                    model.entries.append(Entry(model.last + 1, first, 0.0, table, "delete", key, None))
            real = self.store.databases[database]
            for entry in model.entries[before[database] :]:
                found = real.log.get(real.snapshot(), entry.lsn)
                assert found is not None
                entry.version, entry.transaction = found.version, found.transaction
        self.store.end_turn()

    @rule(keep=st.integers(1, 6))
    def prune(self, keep: int) -> None:
        """The log begins later."""
        model, database = self.model["data"], self.store.databases["data"]
        first = max(model.last - keep, 0) + 1
        if first <= model.first or model.last < 2:
            return
        if any(consumer.made["start"] in ("previous", "since") and consumer.source.stages for consumer in self.consumers):
            return  # the history may be removed before it is read: how much of it comes is unknown
        writer = database.writer()
        boundary = database.log.get(writer, first)
        assert boundary is not None
        removed = database.log.prune(writer, float("inf"), first - model.first)
        assert removed == first - model.first
        database.env.touch()
        self.store.commit_turn()
        model.first = first

    # -- subscribing

    @precondition(lambda self: len(self.consumers) < 5)
    @rule(made=requests())
    def subscribe(self, made: dict[str, Any]) -> None:
        self._subscribe(made, None)

    @precondition(lambda self: self.gone and len(self.consumers) < 6)
    @rule(data=st.data())
    def resume(self, data: st.DataObject) -> None:
        made, position = self.gone.pop(data.draw(st.integers(0, len(self.gone) - 1)))
        self._subscribe({**made, "start": "after"}, position)

    def _subscribe(self, made: dict[str, Any], position: int | None) -> None:
        model = self.model[DEFINITIONS[made["table"]].database]
        options = {name: value for name, value in made.items() if name not in ("table", "start", "at")}
        request = SubscriptionRequest(self.table(made["table"]), check_rights=False, **options)
        start = made["start"]
        kept = [entry for entry in model.entries if entry.lsn >= model.first]
        consumer = Consumer(made)
        consumer.start = model.last
        if start == "omit":
            request.omit_current = True
        elif start == "previous":
            made = {**made, "at": min(made["at"], 4)}
            request.previous_count = made["at"]
            wanted = [entry for entry in kept if self._is_told(consumer, entry)]
            consumer.start = (
                wanted[-made["at"]].lsn - 1 if 0 < made["at"] <= len(wanted) else wanted[0].lsn - 1 if made["at"] and wanted else model.last
            )
        elif start == "since":
            at = min(made["at"], len(kept))
            request.start_time = kept[-at].version if at else self.clock.wall() * 1000
            consumer.start = kept[-at].lsn if at else model.last
            later = [entry.lsn for entry in kept if entry.version > request.start_time]
            consumer.start = later[0] - 1 if later else model.last
        elif start == "after":
            request.after = max(model.last - made["at"], 0) if position is None else position
            if request.after + 1 >= model.first:
                consumer.start = request.after
            else:
                start = "current"
        consumer.source = self.hub.subscribe(request)
        consumer.source.on_ready = consumer.on_ready
        consumer.source.read(self.clock.monotonic() + 1)  # takes the snapshot, which else would be of a later moment
        if start == "current":
            consumer.current = [(key, self._shown(consumer, record.data), record.expires) for key, record in self._records(consumer)]
        self.consumers.append(consumer)

    def _records(self, consumer: Consumer) -> Iterator[tuple[Any, Record]]:
        """Those that the subscription covers, in key order."""
        records = self.model[consumer.database].records[consumer.made["table"]]
        now = self.clock.wall() * 1000
        for key in sorted(records, key=lambda key: storage_key(encode_key(key))):
            record = records[key]
            if (
                (record.expires is None or record.expires > now)
                and self._covers(consumer.made, key)
                and self._matches(consumer, record.data)
            ):
                yield key, record

    @staticmethod
    def _covers(made: dict[str, Any], key: Any) -> bool:
        if "pattern" in made:
            wanted = made["pattern"]
            levels = [str(part) for part in key] if isinstance(key, tuple) else str(key).split("/")
            rest = len(levels) - len(wanted)
            fits = rest >= -1 if wanted[-1] == "#" else rest == 0
            return key is not None and fits and all(each in ("+", "#", level) for each, level in zip(wanted, levels, strict=False))
        children = made.get("only_children", False)
        if "key" not in made and "prefix" not in made:
            return not children or (key is not None and is_child(key, None))
        if key is None:
            return False
        target = made.get("key")
        if target is not None:
            if not children and key == target and type(key) is type(target):
                return True
            if not children and not made["include_descendants"]:
                return False
            below: Any = target if isinstance(target, tuple) else (target,) if made["table"] == "Split" else f"{target}/"
        else:
            below = made["prefix"]
            if made["table"] == "Split":
                below = tuple(int(part) if part.isdecimal() else part for part in below[:-1].split("/"))
        if isinstance(below, tuple):
            is_below = isinstance(key, tuple) and len(key) > len(below) and key[: len(below)] == below
        else:
            is_below = isinstance(key, str) and key.startswith(below)
        return is_below and (not children or is_child(key, below))

    @staticmethod
    def _matches(consumer: Consumer, value: Any) -> bool:
        if "where" not in consumer.made:
            return True
        a = value.get("a") if isinstance(value, dict) else None
        return a is not None and a >= 2

    def _is_told(self, consumer: Consumer, entry: Entry) -> bool:
        return (
            entry.table == consumer.made["table"]
            and self._covers(consumer.made, entry.key)
            and (entry.kind in ("delete", "invalidate") or self._matches(consumer, entry.after))
        )

    @staticmethod
    def _shown(consumer: Consumer, value: Any) -> Any:
        if "select" in consumer.made and isinstance(value, dict):
            return {"a": value["a"]} if "a" in value else {}
        return value

    # -- taking

    @precondition(lambda self: self.consumers)
    @rule(data=st.data(), limit=st.integers(1, 5))
    def take(self, data: st.DataObject, limit: int) -> None:
        consumer = data.draw(st.sampled_from(self.consumers))
        if consumer.ready:
            consumer.take(limit)

    @rule()
    def turn(self) -> None:
        """One turn of the loop."""
        self.loop.run_once()
        self.store.end_turn()

    @rule()
    def watch(self) -> None:
        self.loop.fire()
        self.store.end_turn()

    @precondition(lambda self: self.consumers)
    @rule(data=st.data())
    def disconnect(self, data: st.DataObject) -> None:
        consumer = data.draw(st.sampled_from(self.consumers))
        consumer.source.close()
        self._leave(consumer)

    def _leave(self, consumer: Consumer) -> None:
        self.check_consumer(consumer, finished=False)
        self.consumers.remove(consumer)
        position = consumer.position()
        if position is not None and not consumer.mixed:
            self.gone.append((consumer.made, position))

    @rule()
    def snapshots_are_taken_away(self) -> None:
        for consumer in self.consumers:
            stages = consumer.source.stages
            if stages and isinstance(stages[0], history.CurrentRecords):
                consumer.mixed = True
        give_up_snapshots(self.store)

    @rule()
    def reopen(self) -> None:
        """As after a crash: subscribers are gone, and come back with what they remember."""
        for consumer in list(self.consumers):
            self._leave(consumer)
        self.store.close()
        self._open()

    @rule()
    def drain(self) -> None:
        """All consumers take everything."""
        self.loop.fire()
        for _ in range(1000):
            self.loop.run()
            self.store.end_turn()
            busy = [consumer for consumer in self.consumers if consumer.ready]
            if not busy:
                break
            for consumer in busy:
                consumer.take(7)
        else:
            raise AssertionError("it never ends")
        for consumer in list(self.consumers):
            if consumer.source.ended is None:
                self.check_consumer(consumer, finished=True)
                assert not consumer.source.stages, "it is live"
            else:
                self._check_too_slow(consumer)

    @invariant()
    def the_slow_have_ended_for_a_reason(self) -> None:
        for consumer in list(self.consumers):
            if consumer.source.ended is not None and not consumer.ready:
                self._check_too_slow(consumer)

    def _check_too_slow(self, consumer: Consumer) -> None:
        assert consumer.source.ended is EndReason.TOO_SLOW
        position = max(consumer.position() or 0, consumer.start)
        left = sum(entry.lsn > position for entry in self.model[consumer.database].entries)
        assert (left > MAX_MISSED and not consumer.made["keeps_all"]) or self.model[consumer.database].first > position + 1
        self._leave(consumer)

    @invariant()
    def memory_is_bounded(self) -> None:
        for consumer in self.consumers:
            # What came with one commit is there until its end.
            assert len(consumer.source.queue) <= 7 + 4 * 8 * 4 + 8

    # -- what must have come

    def expected(self, consumer: Consumer) -> list[Told]:
        made = consumer.made
        told: list[Told] = []
        transaction = 0
        last = 0
        for entry in self.model[consumer.database].entries:
            if entry.lsn <= consumer.start or not self._is_told(consumer, entry):
                continue
            kind, value = entry.kind, self._shown(consumer, entry.after)
            if kind == "publish":
                kind = "message"
            elif kind == "patch":
                kind, value = ("patch", entry.patch) if made["raw_events"] else ("put", value)
            elif kind in ("delete", "invalidate"):
                value = None
            begins = made["supports_transactions"] and entry.transaction != transaction
            if begins and transaction:
                told.append(("end_txn", None, None, last, False))
            transaction, last = entry.transaction, entry.lsn
            told.append((kind, entry.key, value, entry.lsn, begins))
        if made["supports_transactions"] and transaction:
            told.append(("end_txn", None, None, last, False))
        return told

    def check_consumer(self, consumer: Consumer, *, finished: bool) -> None:
        if consumer.mixed:
            self._check_state(consumer, finished)
            return
        events = list(consumer.got)
        if consumer.current is not None:
            now = self.clock.wall() * 1000
            count = 0
            for key, value, expires in consumer.current:
                if count == len(events):
                    assert not finished or (expires is not None and expires <= now), "it expired before it was read"
                elif (events[count].id, events[count].value) == (key, value):
                    count += 1
                else:
                    assert expires is not None and expires <= now
            current, events = events[:count], events[count:]
            assert all(event.type == "put" and event.coalesced == 1 for event in current)
            at = [event.position for event in current]
            assert at[:-1] == [None] * len(at[:-1])
            if current and (events or finished):
                assert at[-1] == consumer.start
        expected = self.expected(consumer)
        plain = consumer.made["raw_events"] or consumer.made["supports_transactions"]
        got: list[Told] = [(event.type, event.id, event.value, event.position, event.begin_txn) for event in events]
        if plain or all(event.coalesced == 1 for event in events):
            assert all(event.coalesced == 1 for event in events)
            assert got == expected[: len(got)]
            if finished:
                assert len(got) == len(expected)
            return
        left = dict.fromkeys(got_key(told) for told in got)
        coalesced = {event.position: event.coalesced for event in events}
        assert list(left) == [got_key(told) for told in expected if got_key(told) in left], "in order, none twice"
        assert len(left) == len(got)
        by_lsn = {told[3]: told for told in expected}
        assert all(by_lsn[told[3]] == told for told in got)
        missing: dict[Any, int] = {}
        newest = got[-1][3]
        for kind, key, _, lsn, _ in expected:
            place = (type(key), key)
            if lsn in coalesced:
                if kind in ("message", "invalidate"):
                    assert coalesced[lsn] == 1
                else:
                    assert coalesced[lsn] == missing.pop(place, 0) + 1
            else:
                assert finished is False or kind not in ("message", "invalidate")
                if lsn > newest:
                    break
                assert kind not in ("message", "invalidate")
                missing[place] = missing.get(place, 0) + 1
        if finished:
            assert not missing and (not expected or newest == expected[-1][3])

    def _check_state(self, consumer: Consumer, finished: bool) -> None:
        """The records came from several snapshots: what counts is that their changes follow."""
        versions: dict[Any, float] = {}
        state: dict[Any, Any] = {}
        for event in consumer.got:
            if event.type in ("message", "invalidate", "end_txn", "patch"):
                continue
            place = (type(event.id), event.id)
            assert event.version >= versions.get(place, 0), "a change that was there already came again"
            versions[place] = event.version
            if event.type == "put":
                state[place] = event.value
            else:
                state.pop(place, None)
        if finished and "where" not in consumer.made and not consumer.made["raw_events"]:
            records = self.model[consumer.database].records[consumer.made["table"]]
            now = self.clock.wall() * 1000
            expected = {
                (type(key), key): self._shown(consumer, record.data) for key, record in records.items() if self._covers(consumer.made, key)
            }
            # What has expired without being removed yet may have come, or not.
            for key, record in records.items():
                if record.expires is not None and record.expires <= now:
                    expected.pop((type(key), key), None)
                    state.pop((type(key), key), None)
            assert state == expected


def got_key(told: Told) -> tuple[Any, Any]:
    return told[3], told[0]


@pytest.fixture(scope="module", autouse=True)
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    SubscriptionMachine.sibling = Sibling()
    SubscriptionMachine.empty = tmp_path_factory.mktemp("subscriptions") / "empty"
    store = Store(SubscriptionMachine.empty, clock=FakeClock())
    ensure_system(store)
    for definition in DEFINITIONS.values():
        store.open_database(definition.database).define_table(definition)
    store.close()
    yield
    SubscriptionMachine.sibling.stop()


TestSubscriptions = SubscriptionMachine.TestCase
TestSubscriptions.settings = settings(
    max_examples=half_by_day(30),
    stateful_step_count=40,
    report_multiple_bugs=False,
    suppress_health_check=list(HealthCheck),
)
