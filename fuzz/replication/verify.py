"""What must hold when all nodes have heard of everything: the files of each, and that all have what the writes make, carried out by their versions."""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence, Set
from typing import Any

from fuzz.replication.clients import Recorder, Write
from fuzz.replication.nodes import Node
from svc.store import Store, StoreSettings
from svc.store.log.entries import DELETE, MESSAGE, PATCH, PUT
from svc.store.log.replicated_log import AHEAD_MS, ReplicatedLog
from svc.store.values.keys import decode_key
from svc.store.values.records import decode, version_of
from svc.store.writing.merge_rules import logged_changes
from tests.support.crash import check
from tests.support.remote import KEY, Sent, in_order

MAP_BYTES = 1 << 34
_WRITES = PUT, PATCH, DELETE
FILES = "File"  # a table whose records have blobs, which have a file of their own at each node: they are compared by what clients get
Place = tuple[str, str]
"""(table, key)."""


class Found:
    """What is in the files of a stopped node. `records`: with their versions. `sent`: what was written there, in the order of its log.

    `logged`: how often, by (table, key, n). `told`: numbers of messages that were published there. `clock`: version that those of the node had to exceed,
    `behind`: of its writes, those whose version does not exceed what its log had of the record before.
    """

    def __init__(self, node: Node) -> None:
        self.name = node.name
        self.records: dict[Place, tuple[dict[str, Any], float]] = {}
        self.attributes: dict[str, set[str]] = {}
        self.sent: dict[Place, list[Sent]] = defaultdict(list)
        self.logged: Counter[tuple[str, str, int]] = Counter()
        self.told: set[int] = set()
        self.behind: list[str] = []
        highest: dict[Place, float] = {}
        store = Store(node.databases, StoreSettings(map_bytes=MAP_BYTES, blob_paths=(node.root / "blobs",)))
        try:
            store.check()
            database = store.databases["data"]
            snapshot = database.snapshot()
            for name, table in database.tables.items():
                self.attributes[name] = {attribute.name for attribute in table.definition.attributes}
                for _, raw in table.scan(snapshot) if name != FILES else ():
                    self.records[name, str(table.key_of(raw))] = decode(raw), version_of(raw)
            assert isinstance(database.log, ReplicatedLog)
            self.clock = database.log.last_version
            for entry in database.log.read(snapshot):
                if entry.kind in _WRITES:
                    place = entry.table, str(decode_key(entry.key))
                    if entry.is_copied and highest.get(place, 0.0) > entry.wall_ms + AHEAD_MS:
                        # The record is that of a node that had applied less, and what is far ahead does not move the clock.
                        del highest[place]
                    is_own = entry.node == node.name and not entry.is_copied and not entry.is_repeated
                    if is_own and entry.version <= highest.get(place, 0.0):
                        self.behind.append(f"{place}: LSN {entry.lsn}, {entry.version} is not behind {highest[place]}")
                    highest[place] = max(highest.get(place, 0.0), entry.version)
                if entry.node != node.name or entry.is_copied or entry.is_repeated:
                    continue
                key = str(decode_key(entry.key)) if entry.key else ""
                data = None if entry.value is None else decode(entry.value)
                if entry.kind == MESSAGE and data is not None:
                    self.told.add(data["n"])
                elif entry.kind in _WRITES and entry.table != FILES:
                    changes = logged_changes(data) if entry.kind == PATCH and data is not None else data
                    self.sent[entry.table, key].append(Sent(entry.kind, changes, (entry.version, entry.node)))
                if data is not None and data.get("n"):
                    self.logged[entry.table, key, data["n"]] += 1
        finally:
            store.close()


def check_all(nodes: Sequence[Node], recorder: Recorder) -> Iterator[str]:
    """What is wrong."""
    for node in nodes:
        try:
            check(node.root)
        except AssertionError as error:
            yield f"svc check of {node.name}: {error}"
    found = [Found(node) for node in nodes]
    yield from check_equal(found)
    yield from check_merged(found)
    yield from check_log(found, recorder.writes)
    yield from check_counters(found[0], recorder)
    yield from check_versions(found, {node.name for node in nodes if node.was_ahead})


def check_equal(found: Sequence[Found]) -> Iterator[str]:
    first, *others = found
    for other in others:
        for place in first.records.keys() | other.records.keys():
            if first.records.get(place) != other.records.get(place):
                yield f"{place} is {first.records.get(place)} at {first.name}, and {other.records.get(place)} at {other.name}"
        if first.attributes != other.attributes:
            yield f"the tables are {first.attributes} at {first.name}, and {other.attributes} at {other.name}"


def check_merged(found: Sequence[Found]) -> Iterator[str]:
    """Everything that was committed anywhere, in order of versions, makes the records of the first."""
    first = found[0]
    for place in {place for each in found for place in each.sent} | first.records.keys():
        sent = [write for each in found for write in each.sent.get(place, ())]
        record, _ = in_order(sent, place[1])
        if record is not None:
            record.pop(KEY)
            record["id"] = place[1]
        expected = None if record is None else (record, max(write.stamp[0] for write in sent))
        if first.records.get(place) != expected:
            shown = [(write.kind, write.data, write.stamp) for write in sorted(sent, key=lambda write: write.stamp)]
            yield f"{place} is {first.records.get(place)} instead of {expected}, of {shown[-8:]}"


def check_log(found: Sequence[Found], writes: Sequence[Write]) -> Iterator[str]:
    """What was acknowledged is there once, what has no outcome at most once, what was refused never."""
    logged = {each.name: each.logged for each in found}
    for write in writes:
        if write.n:
            count = logged[write.node][write.table, write.key, write.n]
            if count > (0 if write.is_refused else 1) or (write.is_certain and not count):
                yield f"{write} is in the log of its node {count} times"


def check_counters(found: Found, recorder: Recorder) -> Iterator[str]:
    for key, (certain, uncertain) in recorder.added.items():
        record = found.records.get(("Item", key))
        count = 0 if record is None else record[0].get("count") or 0
        if not certain <= count <= certain + uncertain:
            yield f"{key} is {count}; {certain} increments were acknowledged, and {uncertain} may have happened"


def check_messages(found: Sequence[Found], received: dict[str, list[int]], *, may_miss: bool) -> Iterator[str]:
    """Each message was sent to the follower of each node once. `received`: numbers, by name of the node. `may_miss`: databases were copied."""
    told = set().union(*(each.told for each in found))
    for node, numbers in received.items():
        twice = [number for number, count in Counter(numbers).items() if count > 1]
        if twice:
            yield f"the follower of {node} was sent messages twice: {twice[:10]}"
        if not told.issuperset(numbers) or (not may_miss and set(numbers) != told):
            missing, made_up = sorted(told - set(numbers))[:10], sorted(set(numbers) - told)[:10]
            yield f"the follower of {node} lacks the messages {missing}, and has {made_up} that nobody has sent"


def check_versions(found: Sequence[Found], ahead: Set[str]) -> Iterator[str]:
    """Who writes to a record knows what it is, and wins over that; a clock that is far ahead is that of nobody else. `ahead`: nodes whose clock was."""
    for each in found:
        yield from (f"at {each.name}, {problem}" for problem in each.behind)
        if each.name not in ahead and each.clock > time.time() * 1000 + AHEAD_MS:
            yield f"the versions of {each.name} go on from {each.clock}, and its clock was never ahead"
