"""Records with blobs beside a dict, in every sequence of events: what is referred to is there, what is not is gone after the background work."""

import gc
import shutil
import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from svc.clock import FakeClock
from svc.errors import ClientError, StoreFailure
from svc.store import Store, StoreSettings, Table
from svc.store.blobs import Blob, blobs_in, create_blob
from svc.store.env import Environment
from svc.store.integrity.check import check_database
from svc.store.maintenance import PRUNE_INTERVAL, SWEEP_INTERVAL
from svc.store.schema import Attribute, TableDefinition
from svc.store.values.records import decode
from svc.store.writing.bulk_write import load_records
from tests.support.profile import half_by_day

RETENTION = 100.0  # seconds
KEYS = ("a", "b", "c")
TABLES = ("Logged", "Unlogged", "Coming")
DEFINITION = TableDefinition(
    "Logged", attributes=(Attribute("id", "ID", primary_key=True), Attribute("image", "Blob"), Attribute("title", "String", indexed=True))
)

contents = st.builds(lambda letter, size: letter * size, st.sampled_from((b"x", b"y")), st.sampled_from((0, 10, 8191, 8192, 20_000)))
keys = st.sampled_from(KEYS)
tables = st.sampled_from(TABLES)


class BlobMachine(RuleBasedStateMachine):
    """`content`: (table, key) -> what its blob holds, None for a record without one."""

    @initialize()
    def begin(self) -> None:
        gc.collect()
        gc.freeze()  # the collections of this example need not visit what was there before
        self.path = Path(tempfile.mkdtemp())
        self.clock = FakeClock()
        self.content: dict[tuple[str, str], bytes | None] = {}
        self.kept: list[tuple[str, str, Blob, bytes]] = []  # blobs that some record had
        self.open()
        for name in TABLES:
            self.define(name)

    def open(self) -> None:
        self.store = Store(
            self.path / "database",
            StoreSettings(log_retention=RETENTION, blob_paths=(self.path / "one", self.path / "two")),
            clock=self.clock,
        )

    def define(self, name: str) -> None:
        definition = replace(DEFINITION, name=name, audit=name != "Unlogged")
        self.store.open_database("data").define_table(definition)

    def table(self, name: str) -> Table:
        return self.store.databases["data"].tables[name]

    # -- writing

    def write(self, *actions: Callable[[Any], None]) -> None:
        transaction = self.store.begin()
        for action in actions:
            action(transaction)
        outcomes: list[Any] = []
        transaction.on_done = outcomes.append
        transaction.apply()
        self.store.commit_turn()
        assert outcomes == [None]

    @rule(name=tables, key=keys, content=contents, nested=st.booleans())
    def put(self, name: str, key: str, content: bytes, nested: bool) -> None:
        blob = create_blob(content)
        more = {"more": [{"copy": create_blob(content)}]} if nested else {}
        self.write(lambda transaction: transaction.put(self.table(name), key, {"image": blob, **more}))
        self.content[name, key] = content
        self.kept.append((name, key, blob, content))

    @rule(name=tables, key=keys, content=contents | st.none())
    def patch(self, name: str, key: str, content: bytes | None) -> None:
        value = None if content is None else create_blob(content)
        self.write(lambda transaction: transaction.patch(self.table(name), key, {"image": value}))
        self.content[name, key] = content

    @rule(name=tables, key=keys, title=st.sampled_from(("s", "t")))
    def patch_something_else(self, name: str, key: str, title: str) -> None:
        self.write(lambda transaction: transaction.patch(self.table(name), key, {"title": title}))
        self.content.setdefault((name, key), None)

    @rule(name=tables, key=keys)
    def delete(self, name: str, key: str) -> None:
        self.write(lambda transaction: transaction.delete(self.table(name), key))
        self.content.pop((name, key), None)

    @rule(name=tables, key=keys, content=contents)
    def write_twice_in_one_transaction(self, name: str, key: str, content: bytes) -> None:
        table = self.table(name)
        self.write(
            lambda transaction: transaction.put(table, key, {"image": create_blob(b"first" * 5000)}),
            lambda transaction: transaction.put(table, key, {"image": create_blob(content)}),
        )
        self.content[name, key] = content

    @rule(name=tables, key=keys)
    def put_again_what_is_there(self, name: str, key: str) -> None:
        raw = self.table(name).get_raw(key)
        self.store.end_turn()
        if raw is not None:
            record = {**decode(raw), "title": "again"}
            self.write(lambda transaction: transaction.put(self.table(name), key, record))

    @rule(number=st.integers(0, 100), own=st.booleans(), key=keys)
    def put_back_an_old_one(self, number: int, own: bool, key: str) -> None:
        """In its own record, it may be used as long as something refers to it; in another never, unless it is in memory."""
        if not self.kept:
            return
        name, of, blob, content = self.kept[number % len(self.kept)]
        key = of if own else key
        try:
            self.write(lambda transaction: transaction.put(self.table(name), key, {"image": blob}))
        except ClientError:
            self.store.commit_turn()
            assert blob.number is not None
            if key == of:
                assert not self.store.databases["data"].ledger.knows(self.store.databases["data"].snapshot(), blob.number)
                self.store.end_turn()
        else:
            assert key == of or blob.number is None
            self.content[name, key] = content

    @rule(name=tables, key=keys, content=contents)
    def fail(self, name: str, key: str, content: bytes) -> None:
        transaction = self.store.begin()
        transaction.put(self.table(name), key, {"image": create_blob(content)})
        transaction.create(self.table(name), "never", {})
        transaction.create(self.table(name), "never", {})
        try:
            transaction.apply()
        except ClientError:
            self.store.commit_turn()
            return
        raise AssertionError("a record was made twice")

    @rule(name=tables, key=keys, content=contents)
    def fail_to_commit(self, name: str, key: str, content: bytes) -> None:
        transaction = self.store.begin()
        transaction.put(self.table(name), key, {"image": create_blob(content)})
        problems: list[Any] = []
        transaction.on_done = problems.append
        transaction.apply()
        commit = Environment.commit

        def fail(env: Environment) -> None:
            raise StoreFailure

        Environment.commit = fail  # type: ignore[method-assign]
        try:
            self.store.commit_turn()
        finally:
            Environment.commit = commit  # type: ignore[method-assign]
        assert isinstance(problems.pop(), StoreFailure)

    @rule(rows=st.lists(st.tuples(keys, contents), max_size=4), name=tables)
    def load(self, rows: list[tuple[str, bytes]], name: str) -> None:
        list(load_records(self.table(name), [{"id": key, "image": content} for key, content in rows], batch=2))
        self.content.update({(name, key): content for key, content in rows})

    # -- other events

    @rule(seconds=st.sampled_from((0.3, 1.0, PRUNE_INTERVAL, RETENTION)))
    def pass_time(self, seconds: float) -> None:
        self.clock.advance(seconds)

    @rule()
    def change_whether_images_are_kept(self) -> None:
        table = self.table("Coming")
        self.store.databases["data"].define_table(replace(table.definition, audit=not table.audit))

    @rule()
    def drop_and_make_again(self) -> None:
        self.store.databases["data"].drop_table("Coming")
        self.define("Coming")
        for name, key in list(self.content):
            if name == "Coming":
                del self.content[name, key]
        self.kept = [entry for entry in self.kept if entry[0] != "Coming"]

    @rule()
    def restart(self) -> None:
        self.store.close()
        self.kept.clear()
        assert check_database(self.path / "database" / "data", blob_paths=(self.path / "one", self.path / "two")).findings == []
        self.open()

    @rule()
    def work_a_little(self) -> None:
        self.store.maintenance(0.001)
        self.store.commit_turn()

    @rule()
    def work(self) -> None:
        """All background work, long enough after the last write; a search for files of nobody included."""
        self.clock.advance(max(PRUNE_INTERVAL, SWEEP_INTERVAL))
        self.kept.clear()  # who still has a blob that was never committed keeps its file
        gc.collect()
        while self.store.maintenance(1000.0):
            pass
        self.store.commit_turn()
        database = self.store.databases["data"]
        txn = database.snapshot()
        referred = self.referred()
        dropped = database.ledger.dropped_tables(txn)
        held_by_entry = {number for _, number in database.ledger.released(txn)}
        held_by_entry |= {number for number, (table, _, _) in database.ledger.files(txn) if table in dropped}
        self.store.end_turn()
        found = {database.blobs.number_of(directory, name) for directory, names in database.blobs.walk() for name in names}
        assert referred <= found
        # Where no images are kept it is only known that the last entry before refers to the file; of a dropped table, that later ones do not.
        assert found - referred <= held_by_entry

    def referred(self) -> set[int]:
        """The numbers of all files to which a record or a log entry refers."""
        database = self.store.databases["data"]
        txn = database.snapshot()
        raws = [raw for table in database.tables.values() for _, raw in txn.cursor(table.primary).iternext()]
        raws += [raw for entry in database.log.read(txn) for raw in (entry.value, entry.image) if raw is not None]
        return {blob.number for raw in raws for blob in blobs_in(decode(raw)) if blob.number is not None}

    @invariant()
    def everything_is_there(self) -> None:
        if not hasattr(self, "store"):
            return
        self.store.check()
        for name in TABLES:
            for key in KEYS:
                raw = self.table(name).get_raw(key)
                assert (raw is not None) == ((name, key) in self.content)
                if raw is not None:
                    record = decode(raw)
                    image = record.get("image")
                    assert (None if image is None else image.read()) == self.content[name, key]
                    for blob in blobs_in(record.get("more")):
                        assert len(blob.read()) == blob.size
        self.store.end_turn()

    def teardown(self) -> None:
        if hasattr(self, "store"):
            self.store.close()
            self.kept.clear()
            report = check_database(self.path / "database" / "data", blob_paths=(self.path / "one", self.path / "two"))
            shutil.rmtree(self.path, ignore_errors=True)
            assert report.findings == []


TestBlobMachine: Callable[..., Any] = BlobMachine.TestCase
TestBlobMachine.settings = settings(  # type: ignore[attr-defined]
    max_examples=half_by_day(40), stateful_step_count=30, report_multiple_bugs=False
)
