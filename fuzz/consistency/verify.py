"""What must hold when all is over: the files, the histories, the log and the followers."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import httpx

from fuzz.consistency.followers import Entry, Follower
from fuzz.consistency.history import TORN, Recorder, Register
from fuzz.consistency.servers import Servers
from svc.store import Store, StoreSettings
from svc.store.log.entries import DELETE, MESSAGE, PATCH, PUT
from svc.store.values.keys import decode_key
from svc.store.values.records import decode
from tests.support.crash import check
from tests.support.linearizability import Call, Record, State, Undecided, is_explained, refuted_part, show
from tests.support.waiting import wait_until

TABLES = "Item", "Member", "Code", "Parent", "Child"
MAP_BYTES = 1 << 34
CALLS_SHOWN = 40  # of a history


class Found:
    """What is in the files of stopped servers. `records`: table -> key -> record; `items`: the log about items; `logged`: (table, key, n) -> entries."""

    def __init__(self, databases: Path) -> None:
        self.items: list[Entry] = []
        self.logged: Counter[tuple[str, str, int]] = Counter()
        store = Store(databases, StoreSettings(map_bytes=MAP_BYTES))
        try:
            store.check()
            database = store.databases["data"]
            snapshot = database.snapshot()
            self.tables = set(database.tables)
            self.records: dict[str, dict[str, Any]] = {}
            for name in TABLES:
                table = database.tables[name]
                self.records[name] = {str(table.key_of(raw)): decode(raw) for _, raw in table.scan(snapshot)}
            for entry in database.log.read(snapshot):
                key = str(decode_key(entry.key))
                n = decode(entry.value).get("n") if entry.value is not None and entry.kind in (PUT, PATCH) else None
                if n is not None:
                    self.logged[entry.table, key, n] += 1
                if entry.table == "Item" and entry.kind in (PUT, PATCH, DELETE, MESSAGE):  # a message: nothing was there to be deleted
                    self.items.append(Entry(entry.lsn, key, n))
        finally:
            store.close()

    def state(self, register: Register) -> State:
        """Of a register; lists, codes and tables by the records that they are made of."""
        table, key = register
        if table == "list":
            members = [record for record in self.records["Member"].values() if record["list"] == key]
            numbers = {record["n"] for record in members}
            return None if not members else Record(numbers.pop() if len(numbers) == 1 else TORN)
        if table == "code":
            holders = [record["n"] for record in self.records["Code"].values() if record["code"] == key]
            return None if not holders else Record(holders[0] if len(holders) == 1 else TORN)
        if table == "table":
            return Record(1) if key in self.tables else None
        if table == "parent":
            return Record(1) if key in self.records["Parent"] else None
        record = self.records[table].get(key)
        return None if record is None else Record(record["n"], record.get("count") or 0, record.get("group") or "")


def check_files(servers: Servers) -> Iterator[str]:
    """`svc check`."""
    try:
        check(servers.databases)
    except AssertionError as error:
        yield f"svc check: {error}"


def check_histories(histories: Mapping[Register, Sequence[Call]]) -> Iterator[str]:
    for register, history in histories.items():
        try:
            if not is_explained(history):
                yield f"no order of calls explains {register}:\n{show(refuted_part(history)[-CALLS_SHOWN:])}"
        except Undecided:
            print(f"not decided: {register}, with {len(history)} calls")


def check_log(recorder: Recorder, found: Found) -> Iterator[str]:
    """Each acknowledged write is there once, one without outcome at most once, a refused one not at all."""
    for write in recorder.written:
        for logged in _entries_of(write, found.logged):
            if found.logged[logged] != 1:
                yield f"{logged} was acknowledged, and has {found.logged[logged]} entries in the log"
    for write in recorder.refused - recorder.written:
        for logged in _entries_of(write, found.logged):
            if found.logged[logged]:
                yield f"{logged} was refused, and is in the log"
    yield from (f"{logged} is in the log {count} times" for logged, count in found.logged.items() if count > 1)


def _entries_of(write: tuple[str, str, int], logged: Mapping[tuple[str, str, int], int]) -> Iterable[tuple[str, str, int]]:
    table, key, n = write
    if table == "list":
        return [("Member", f"{key}-0", n)]
    if table == "code":
        return [("Code", str(n), n)]
    return [write] if table in TABLES and table != "Parent" else []


def check_followers(followers: Iterable[Follower], found: Found) -> Iterator[str]:
    for follower in followers:
        problem = follower.problem(found.items)
        if problem:
            yield f"{follower.name}: {problem}"


def check_searches(servers: Servers, found: Found) -> Iterator[str]:
    """What each server answers to searches is what a scan finds."""
    for process in servers.processes:
        with process.client() as client:
            searched = [("Item", "group"), ("Member", "list"), ("Code", "code"), ("Child", "group")]
            if servers.has_extra_index:
                searched.append(("Item", "extra"))
            for table, attribute in searched:
                expected: defaultdict[Any, list[str]] = defaultdict(list)
                for key, record in found.records[table].items():
                    if record.get(attribute) is not None:
                        expected[record[attribute]].append(key)
                for value, keys in expected.items():
                    rows = _search(client, f"/{table}/?{attribute}=={value}&select(id)")
                    if rows != sorted(keys):
                        yield f"{table} with {attribute} {value}: {rows} instead of {sorted(keys)}"
            numbers = [row["n"] for row in client.get("/Item/?n=gt=0&sort(n)&select(n,id)").json()]
            if numbers != sorted(record["n"] for record in found.records["Item"].values()):
                yield "the index of Item.n is not what a scan finds"


def _search(client: httpx.Client, path: str) -> list[str]:
    def answered() -> httpx.Response | None:
        """Unless the index is being built."""
        answer = client.get(path)
        return None if answer.status_code == 503 else answer

    answer = wait_until(answered, path)
    assert answer is not None and answer.status_code == 200, answer
    return sorted(answer.json())
