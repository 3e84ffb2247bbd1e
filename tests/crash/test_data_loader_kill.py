"""kill -9 of processes that bring the same files into their table: each record is brought once, and what users have changed stays.

In each round the file has new values for all records. Two children load it at once and are killed at any moment; a third load goes to the end. Then all
records have the values of the file, but for those that users have changed, and each was written once.
"""

from __future__ import annotations

import random
import signal
from pathlib import Path

import pytest

from svc.apps import data_loader
from svc.store.integrity.check import check_database
from svc.store.writing.long_write import LongWrite
from tests.support.crash import SEED, Child, rounds, say
from tests.support.loading import Loading

pytestmark = pytest.mark.programs

ROUNDS = rounds(5)
RECORDS = 900
CHUNK = 60
SCHEMA = "type T @table { id: ID @primaryKey  value: Int @indexed  text: String }"


def load(path: Path) -> None:
    """Says so after each of its commits."""
    data_loader.CHUNK = CHUNK
    real = LongWrite.run

    async def run(self: LongWrite) -> None:
        await real(self)
        say("committed")

    LongWrite.run = run  # type: ignore[method-assign]
    world = Loading(path, SCHEMA)
    say("begun")
    world.load()
    say("done")
    signal.pause()


def is_changed_by_a_user(number: int) -> bool:
    return number % 7 == 3


def test_records_are_brought_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(data_loader, "CHUNK", CHUNK)
    source = random.Random(SEED)
    world = Loading(tmp_path, SCHEMA)
    middles = 0
    for version in range(ROUNDS):
        records = [{"id": f"{number:04}", "value": version, "text": "x" * (number % 100)} for number in range(RECORDS)]
        world.write("data/t.json", {"table": "T", "records": records})
        before = world.versions()
        world.close()
        children = [Child(load, tmp_path) for _ in range(2)]
        delay = source.uniform(0.0, 0.25)
        middles += "done" not in children[0].kill_after(delay)
        children[1].kill()
        world = Loading(tmp_path, SCHEMA)
        assert world.load().messages == []
        found = world.records()
        own = [number for number in range(RECORDS) if not (version and is_changed_by_a_user(number))]
        assert [found[f"{number:04}"]["value"] for number in own] == [version] * len(own)
        assert world.versions() - before == len(own), "each record was written once"
        assert all(not row["before"] or is_changed_by_a_user(int(key[-4:])) for key, row in world.hashes().items())
        if not version:
            for number in filter(is_changed_by_a_user, range(RECORDS)):
                world.put({"id": f"{number:04}", "value": -1})
        assert all(found[f"{number:04}"]["value"] == -1 for number in range(RECORDS) if version and is_changed_by_a_user(number))
        world.store.check()
    world.close()
    assert check_database(tmp_path / "store" / "data").findings == []
    assert ROUNDS < 5 or middles, "it was never killed in the middle of a load"
