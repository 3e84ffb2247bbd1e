"""kill -9 while the store is written: what was acknowledged is there, what was not is there as a whole or not at all, and all agrees.

A child process writes turn after turn through the Store API, several transactions in each, into two databases. Before a turn's commit it
says what it is about to write, after it that this is done. It is killed at a random moment; then the files must hold, in each database,
exactly what the finished turns have written, and of the one that was under way some of its transactions, each as a whole and none without
those before it. Then the next child goes on from there.

A killed process loses nothing that it gave to the operating system; that a power cut loses nothing either rests on the flags that
tests/unit/store/test_env.py pins.
"""

from __future__ import annotations

import json
import random
from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from svc.errors import Problem
from svc.store import Precondition, Store, StoreSettings, Table, database
from svc.store.integrity.check import check_database
from svc.store.schema import Attribute, TableDefinition
from svc.store.values.keys import encode_key
from svc.store.values.records import decode
from tests.support.crash import SEED, Child, rounds, say

pytestmark = pytest.mark.programs

ROUNDS = rounds(4)
MAP_BYTES = 1 << 30
WRITERS = 4  # transactions of a turn
KEYS = [*range(20), *(f"key {number}" for number in range(20)), *(str(number) + "k" * 600 for number in range(5))]

DEFINITION = TableDefinition(
    "Note",
    attributes=(
        Attribute("id", primary_key=True),
        Attribute("n", indexed=True),
        Attribute("tags", elements=True, indexed=True),
        Attribute("text"),
    ),
)
DATABASES = ("data", "more")

Write = tuple[str, str, Any, dict[str, Any]]  # kind, database, key, data
Content = dict[str, dict[str, dict[str, Any]]]  # database -> key as JSON -> record


# -- the child


def some_write(source: random.Random, counter: int) -> Write:
    kind = source.choice(("put", "put", "put", "patch", "delete"))
    data: dict[str, Any] = {}
    if kind != "delete":
        data = {"n": source.choice((counter, None, "x" * source.randrange(300))), "tags": source.sample(["a", "b", "c", None], 2)}
        if source.random() < 0.2:
            data["text"] = "x" * source.randrange(20_000)  # pages of its own
    return kind, source.choice(DATABASES), source.choice(KEYS), data


def write_turns(path: Path, seed: int) -> None:
    """Write until killed. Each line of the output is `{"turn": [transactions]}` or `{"done": true}`."""
    source = random.Random(seed)
    database.BUILD_AT_ONCE = 0  # type: ignore[attr-defined]
    store = Store(path, StoreSettings(map_bytes=MAP_BYTES))
    tables = {name: store.open_database(name).define_table(replace(DEFINITION, database=name)) for name in DATABASES}
    for counter in range(1_000_000):
        if counter % 10 == 5:
            change_an_index(tables["data"], indexed=source.random() < 0.5)
        store.maintenance(0.001)
        store.commit_turn()
        turn = [[some_write(source, counter) for _ in range(source.randint(1, 3))] for _ in range(WRITERS)]
        say(json.dumps({"turn": turn}))
        outcomes: list[Problem | None] = []
        for writes in turn:
            transaction = store.begin("writer")
            for kind, name, key, data in writes:
                if kind == "delete":
                    transaction.delete(tables[name], key)
                else:
                    getattr(transaction, kind)(tables[name], key, dict(data))
            transaction.on_done = outcomes.append
            transaction.apply()
            fail(store, tables, source)
        store.commit_turn()
        assert outcomes == [None] * WRITERS
        say(json.dumps({"done": True}))


def fail(store: Store, tables: dict[str, Table], source: random.Random) -> None:
    """A transaction that is undone, among those that are not."""
    transaction = store.begin("unlucky")
    for name in DATABASES:
        transaction.put(tables[name], source.choice(KEYS), {"n": "never"})
    transaction.put(tables["more"], "nowhere", {}, Precondition(if_match=("AAAAAAAAAAA",)))
    try:
        transaction.apply()
    except Problem:
        return
    raise AssertionError("the precondition did not hold")


def change_an_index(table: Table, indexed: bool) -> None:
    attributes = tuple(replace(attribute, indexed=indexed) if attribute.name == "n" else attribute for attribute in DEFINITION.attributes)
    table.database.define_table(replace(DEFINITION, attributes=attributes))


# -- the parent


def carry_out(content: Content, turn: list[list[Write]]) -> Content:
    result = deepcopy(content)
    for writes in turn:
        for kind, name, key, data in writes:
            records, shown = result[name], json.dumps(key)
            if kind == "delete":
                records.pop(shown, None)
            elif kind == "put":
                records[shown] = {**data, "id": key}
            else:
                records[shown] = {**records.get(shown, {}), **data, "id": key}
    return result


def read(path: Path) -> Content:
    store = Store(path, StoreSettings(map_bytes=MAP_BYTES))
    try:
        store.check()
        content: Content = {}
        for name in DATABASES:
            table = store.databases[name].tables["Note"]
            records = [decode(raw) for _, raw in table.scan(store.databases[name].snapshot())]
            content[name] = {json.dumps(record["id"]): record for record in records}
            for record in records:
                assert table.get_raw(record["id"]) is not None, encode_key(record["id"])
        return content
    finally:
        store.close()


def test_what_was_acknowledged_survives(tmp_path: Path) -> None:
    source = random.Random(SEED)
    content: Content = {name: {} for name in DATABASES}
    turns = 0
    for number in range(ROUNDS):
        child = Child(write_turns, tmp_path / "database", source.randrange(1 << 32))
        for line in (said := [json.loads(line) for line in child.kill_after(source.uniform(0.0, 0.3))]):
            if "turn" in line:
                turn = line["turn"]
            else:
                content = carry_out(content, turn)
                turns += 1
        # Without repair, and before anything else has opened it.
        for name in DATABASES:
            report = check_database(tmp_path / "database" / name)
            assert report.findings == [], f"round {number}"
        found = read(tmp_path / "database")
        unfinished = said[-1]["turn"] if said and "turn" in said[-1] else []
        # Databases are committed one after the other, and one of them early if a later transaction needs another order of writers.
        possible = [carry_out(content, unfinished[:count]) for count in range(len(unfinished) + 1)]
        for name in DATABASES:
            assert any(found[name] == state[name] for state in possible), (
                f"round {number}: {name} is not as acknowledged, or has half a write"
            )
        content = found
    assert turns > 0, "no turn was ever finished: the test has shown nothing"
