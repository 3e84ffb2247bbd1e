"""Loads of files beside a model: users and files change records, processes end between commits, several load at once."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from pathlib import Path
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from svc.errors import StoreFailure
from svc.store.writing.long_write import LongWrite
from tests.support.loading import Loading
from tests.support.profile import half_by_day

KEYS = st.sampled_from(["a", "b", "c", "d"])
FIELDS = st.dictionaries(st.sampled_from(["x", "y", "z"]), st.integers(0, 2), max_size=3)


class DataLoads(RuleBasedStateMachine):
    """`kept`: what was brought of a record last."""

    def __init__(self) -> None:
        super().__init__()
        self.path = Path(tempfile.mkdtemp(prefix="loads-"))
        self.world = Loading(self.path, "type T @table { id: ID @primaryKey  x: Int @indexed  y: Int  z: Int }")
        self.file: dict[str, dict[str, int]] = {}
        self.table: dict[str, dict[str, Any]] = {}
        self.kept: dict[str, dict[str, Any]] = {}

    def teardown(self) -> None:
        self.world.close()
        shutil.rmtree(self.path)

    @rule(key=KEYS, fields=FIELDS)
    def edit_file(self, key: str, fields: dict[str, int]) -> None:
        self.file[key] = fields

    @rule(key=KEYS)
    def remove_from_file(self, key: str) -> None:
        self.file.pop(key, None)

    @rule(key=KEYS, fields=FIELDS)
    def put(self, key: str, fields: dict[str, int]) -> None:
        self.world.put({"id": key, **fields})
        self.table[key] = {"id": key, **fields}

    @rule(key=KEYS)
    def delete(self, key: str) -> None:
        self.world.delete(key)
        self.table.pop(key, None)

    @rule()
    def restart(self) -> None:
        self.world.reopen()

    @rule()
    def load(self) -> None:
        self._write()
        assert self.world.load().messages == []
        self._expect()

    @rule()
    def load_twice_at_once(self) -> None:
        self._write()
        entries = [self.world.entry(), self.world.entry()]

        async def both() -> None:
            await asyncio.gather(*(entry.start() for entry in entries))

        self.world.run(both())
        assert not any(entry.context.status.messages for entry in entries)
        self._expect()

    @rule(ends=st.lists(st.integers(1, 3), min_size=1, max_size=3), data=st.data())
    def load_after_ends_of_processes(self, ends: list[int], data: st.DataObject) -> None:
        """Each process brings a file of its own, and ends before one of its commits; the last one goes on to the end."""
        real = LongWrite.run
        for end in ends:
            runs = 0

            async def run(work: LongWrite, end: int = end) -> None:
                nonlocal runs
                runs += 1
                if runs == end:
                    raise StoreFailure("it ends")
                await real(work)

            self._write()
            LongWrite.run = run  # type: ignore[method-assign]
            try:
                self.world.load()
            finally:
                LongWrite.run = real  # type: ignore[method-assign]
            self.world.reopen()
            if runs < end or end == 3:  # the records were written
                self._expect()
            self.file.update(data.draw(st.dictionaries(KEYS, FIELDS, max_size=3)))
        self.load()

    def _write(self) -> None:
        self.world.write("data/t.json", {"table": "T", "records": [{"id": key, **fields} for key, fields in self.file.items()]})

    def _expect(self) -> None:
        for key, fields in self.file.items():
            record, kept = {"id": key, **fields}, self.kept.get(key)
            if key not in self.table:
                self.table[key] = dict(record)
                self.kept[key] = record
            elif kept is not None and kept != record and all(self.table[key].get(name) == value for name, value in kept.items()):
                self.table[key].update(record)
                self.kept[key] = record

    @invariant()
    def agrees(self) -> None:
        assert self.world.records() == self.table
        self.world.table().check()


DataLoads.TestCase.settings = settings(max_examples=half_by_day(40), stateful_step_count=20, deadline=None)
TestDataLoads = DataLoads.TestCase
