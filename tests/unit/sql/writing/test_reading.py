"""svc.sql.writing.reading: steps that ask queries, within a turn or in slices, and what they are read from."""

from collections.abc import AsyncGenerator
from typing import Any

import pytest

from svc.sql.bound import BoundQuery
from svc.sql.catalogue import TableView
from svc.sql.writing.reading import Reading, Steps, TooLong, WriteSource, run_in_slices, run_now
from svc.store import Store, Table
from svc.store.schema import Attribute, TableDefinition
from tests.unit.store.writing.test_long_write import Turns


class Answers:
    """Each query has the rows 1, 2, 3. `closed`: how often a long answer was ended."""

    def __init__(self) -> None:
        self.closed = 0
        self.is_long = False

    def read_now(self, reading: Reading, parameters: Any, source: Any) -> list[tuple[Any, ...]]:
        if self.is_long:
            raise TooLong
        return [(1,), (2,), (3,)]

    async def read(self, reading: Reading, parameters: Any, source: Any) -> AsyncGenerator[list[tuple[Any, ...]]]:
        try:
            for row in (1, 2, 3):
                yield [(row,)]
        finally:
            self.closed += 1


class Adding:
    """Adds up what two queries answer."""

    def __init__(self, fails: bool = False) -> None:
        self.total = 0
        self.fails = fails
        self.ended = False

    def add(self, rows: list[tuple[Any, ...]]) -> None:
        self.total += sum([row[0] for row in rows])
        if self.fails:
            raise ValueError

    def steps(self) -> Steps[str]:
        try:
            yield Reading(BoundQuery("", ()), self.add)
            for _ in range(100):
                yield None
            yield Reading(BoundQuery("", ()), self.add)
            return "done"
        finally:
            self.ended = True


@pytest.fixture
def source(store: Store) -> WriteSource:
    database = store.open_database("data")
    return WriteSource(database, database.snapshot())


def test_within_a_turn(source: WriteSource) -> None:
    work, answers = Adding(), Answers()
    assert run_now(work.steps(), answers, None, source) == "done" and work.total == 12 and work.ended
    answers.is_long = True
    work = Adding()
    with pytest.raises(TooLong):
        run_now(work.steps(), answers, None, source)
    assert work.ended


def test_in_slices(store: Store, turns: Turns, source: WriteSource) -> None:
    work, answers = Adding(), Answers()
    task = turns.start(run_in_slices(work.steps(), answers, None, source, store))
    count = 0
    while not task.done():
        turns.turn()
        count += 1
    assert task.result() == "done" and work.total == 12 and work.ended and answers.closed == 2
    assert count > 10, "it did not give way"


def test_what_is_refused_ends_the_query(store: Store, turns: Turns, source: WriteSource) -> None:
    work, answers = Adding(fails=True), Answers()
    task = turns.start(run_in_slices(work.steps(), answers, None, source, store))
    turns.until(task.done)
    assert isinstance(task.exception(), ValueError) and work.ended and answers.closed == 1 and work.total == 1


def test_other_databases_are_opened_when_they_are_read(store: Store, source: WriteSource) -> None:
    tables: dict[str, Table] = {}
    for name in ("data", "other"):
        definition = TableDefinition("Item", database=name, attributes=(Attribute("id", primary_key=True),))
        tables[name] = store.open_database(name).define_table(definition)
    store.end_turn()
    own = tables["data"].database.snapshot()
    source = WriteSource(tables["data"].database, own)
    assert source.txn(tables["data"]) is own
    with pytest.raises(KeyError):
        source.txn(tables["other"])
    for _ in range(2):
        source.cover([TableView(table, ()) for table in tables.values()])
        assert source.txn(tables["data"]) is own
        assert tables["other"].record_count(source.txn(tables["other"])) == 0
        assert tables["other"].database.env.open_snapshots() == 1
        source.close()
        source.close()
        assert tables["other"].database.env.open_snapshots() == 0
    with pytest.raises(KeyError):
        source.txn(tables["other"])
    other = tables["data"].database.open_snapshot()
    source.replace(tables["data"].database, other)
    assert source.txn(tables["data"]) is other
    other.abort()
