"""insert, update, upsert and delete beside a dict: whatever is sent in whatever order, answers and records are what the rules say."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from svc.errors import Problem
from svc.store.values.records import decode
from tests.support.operations import OperationsNode
from tests.support.profile import half_by_day

TIMES = ("__createdtime__", "__updatedtime__")
KEYS = st.one_of(st.integers(0, 5), st.sampled_from(["a", "b", "é"]), st.sampled_from([1.0, 2.5]))
VALUES = st.one_of(st.none(), st.booleans(), st.integers(-3, 3), st.text(max_size=3), st.lists(st.integers(0, 2), max_size=2))
NAMES = st.sampled_from(["n", "m", "color", "$x", "été", *TIMES])
PROPERTIES = st.dictionaries(NAMES, VALUES, max_size=3)
RECORDS = st.lists(st.tuples(st.one_of(st.none(), KEYS), PROPERTIES), max_size=6)
BAD = st.sampled_from([{"id": True}, {"id": 1, "null": 1}, {"id": "undefined"}, {"id": 1, "a/b": 1}, {"id": 1, "n": float("nan")}])


def key_of(key: Any) -> Any:
    """As it is stored."""
    return int(key) if isinstance(key, float) and key.is_integer() else key


class Records(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.directory = tempfile.TemporaryDirectory()
        self.node = OperationsNode(Path(self.directory.name))
        self.model: dict[Any, dict[str, Any]] = {}
        self.known = {"id", *TIMES}

    def teardown(self) -> None:
        self.node.store.check()
        self.node.close()
        self.directory.cleanup()

    @initialize(dynamic=st.booleans())
    def make(self, dynamic: bool) -> None:
        self.dynamic = dynamic
        self.node.run("create_table", table="t", **({} if dynamic else {"attributes": [{"name": "id"}, {"name": "n", "indexed": True}]}))

    def send(self, operation: str, given: list[tuple[Any, dict[str, Any]]], fill: int) -> tuple[dict[str, Any], list[Any]]:
        """The answer, and the keys of the records in their order, made ones included. `fill`: further records, so that it is a long write."""
        sent = [({} if key is None else {"id": key}) | record for key, record in given]
        sent += [{"id": f"fill {number}", "n": number} for number in range(fill)]
        names = {name: None for record in sent for name in record if name not in TIMES}
        answer = self.node.run(operation, table="t", records=sent)
        assert answer["txn_time"] > 0
        if self.dynamic:
            assert answer["new_attributes"] == [name for name in names if name not in self.known]
            self.known.update(names)
        else:
            assert "new_attributes" not in answer
        made = iter([key for key in answer.get("inserted_hashes", answer.get("upserted_hashes", [])) if type(key) is int and key > 5])
        return answer, [next(made) if "id" not in record else key_of(record["id"]) for record in sent]

    @staticmethod
    def stored(record: dict[str, Any], key: Any) -> dict[str, Any]:
        return {"id": key} | {name: value for name, value in record.items() if name not in TIMES}

    def all_of(self, given: list[tuple[Any, dict[str, Any]]], fill: int) -> list[dict[str, Any]]:
        return [record for _, record in given] + [{"n": number} for number in range(fill)]

    @rule(given=RECORDS, fill=st.sampled_from([0, 0, 0, 60]))
    def insert(self, given: list[tuple[Any, dict[str, Any]]], fill: int) -> None:
        answer, keys = self.send("insert", given, fill)
        inserted, skipped = [], []
        for key, record in zip(keys, self.all_of(given, fill), strict=True):
            if key in self.model:
                skipped.append(key)
            else:
                inserted.append(key)
                self.model[key] = self.stored(record, key)
        assert (answer["inserted_hashes"], answer["skipped_hashes"]) == (inserted, skipped)
        assert answer["message"] == f"inserted {len(inserted)} of {len(keys)} records"

    @rule(given=RECORDS, fill=st.sampled_from([0, 0, 0, 60]))
    def upsert(self, given: list[tuple[Any, dict[str, Any]]], fill: int) -> None:
        answer, keys = self.send("upsert", given, fill)
        for key, record in zip(keys, self.all_of(given, fill), strict=True):
            self.model[key] = self.model.get(key, {}) | self.stored(record, key)
        assert answer["upserted_hashes"] == keys and answer["message"] == f"upserted {len(keys)} of {len(keys)} records"

    @rule(given=st.lists(st.tuples(KEYS, PROPERTIES), max_size=6), fill=st.sampled_from([0, 0, 0, 60]))
    def update(self, given: list[tuple[Any, dict[str, Any]]], fill: int) -> None:
        answer, keys = self.send("update", given, fill)
        updated, skipped = [], []
        for key, record in zip(keys, self.all_of(given, fill), strict=True):
            if key in self.model:
                updated.append(key)
                self.model[key] |= self.stored(record, key)
            else:
                skipped.append(key)
        assert (answer["update_hashes"], answer["skipped_hashes"]) == (updated, skipped)
        assert answer["message"] == f"updated {len(updated)} of {len(keys)} records"

    @rule(ids=st.lists(st.one_of(KEYS, st.sampled_from(["fill 1", "fill 59", "x" * 700])), max_size=6), fill=st.sampled_from([0, 0, 60]))
    def delete(self, ids: list[Any], fill: int) -> None:
        sent = ids + [f"fill {number}" for number in range(fill)]
        answer = self.node.run("delete", table="t", ids=sent)
        deleted, skipped = [], []
        for given in sent:
            found = self.model.pop(key_of(given), None)
            (skipped if found is None else deleted).append(given)
        assert (answer["deleted_hashes"], answer["skipped_hashes"]) == (deleted, skipped)
        plural = "" if len(sent) == 1 else "s"
        assert answer["message"] == f"{len(deleted)} of {len(sent)} record{plural} successfully deleted"

    @rule(operation=st.sampled_from(["insert", "update", "upsert"]), given=RECORDS, bad=BAD, at=st.integers(0, 6))
    def refused(self, operation: str, given: list[tuple[Any, dict[str, Any]]], bad: dict[str, Any], at: int) -> None:
        sent: list[dict[str, Any]] = [{"id": "new" if key is None else key, "never seen": 1} | record for key, record in given]
        sent.insert(at, bad)
        try:
            self.node.run(operation, table="t", records=sent)
        except Problem as problem:
            assert problem.status_code == 400
        else:
            raise AssertionError("this must be refused")

    @rule(name=st.sampled_from(["n", "color", "été"]))
    def drop_attribute(self, name: str) -> None:
        if not self.dynamic or name not in self.known:
            return
        self.node.run("drop_attribute", table="t", attribute=name)
        self.known.discard(name)
        for record in self.model.values():
            record.pop(name, None)

    @invariant()
    def records_are_the_models(self) -> None:
        database = self.node.store.databases.get("data")
        if database is None:
            return
        table = database.tables["t"]
        found = [decode(raw) for _, raw in table.scan(database.snapshot())]
        assert {record["id"]: {name: value for name, value in record.items() if name not in TIMES} for record in found} == self.model
        assert all(type(record.get(name)) is int for record in found for name in TIMES if self.dynamic)
        assert "never seen" not in table.attributes
        self.node.store.end_turn()


TestRecords = Records.TestCase
TestRecords.settings = settings(max_examples=half_by_day(40), stateful_step_count=20)
