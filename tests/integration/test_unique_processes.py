"""Several processes write the same unique values to one directory at the same time: each value is taken once."""

from __future__ import annotations

import random
from multiprocessing.connection import Connection
from pathlib import Path

import pytest

from svc.errors import NotUnique
from svc.store import Store
from svc.store.schema import Attribute, TableDefinition
from tests.support.forks import context

pytestmark = pytest.mark.programs

PROCESSES = 3
VALUES = 120
TICKET = TableDefinition(
    "Ticket", attributes=(Attribute("id", "ID", primary_key=True), Attribute("code", "Int", indexed=True, unique=True))
)


def take(directory: Path, name: str, end: Connection) -> None:
    """Send the values that were taken."""
    store = Store(directory)
    table = store.open_database("data").define_table(TICKET)
    end.send("ready")
    end.recv()
    values = list(range(VALUES))
    random.Random(name).shuffle(values)
    taken: list[int] = []
    for start in range(0, VALUES, 3):
        applied = []
        for value in values[start : start + 3]:
            transaction = store.begin()
            transaction.put(table, f"{name}.{value}", {"code": value})
            try:
                transaction.apply()
            except NotUnique:
                continue
            applied.append(value)
        store.commit_turn()
        taken += applied
    store.close()
    end.send(taken)


def test_each_value_is_taken_once(tmp_path: Path) -> None:
    Store(tmp_path).close()
    ends, children = [], []
    for number in range(PROCESSES):
        ours, theirs = context.Pipe()
        child = context.Process(target=take, args=(tmp_path, f"p{number}", theirs))
        child.start()
        ends.append(ours)
        children.append(child)
    for end in ends:
        assert end.recv() == "ready"
    for end in ends:
        end.send("go")
    taken = [value for end in ends for value in end.recv()]
    for child in children:
        child.join()
    assert sorted(taken) == list(range(VALUES))
    store = Store(tmp_path)
    database = store.open_database("data")
    assert database.tables["Ticket"].record_count() == VALUES
    database.check()
    store.close()
