"""svc.store.store_names: stores of dropped tables and indexes are used again, in this process and in others."""

import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from svc.errors import ClientError, SchemaError, StoreFailure
from svc.store import Database, Store, Table
from svc.store.backup.restore import change_identity
from svc.store.backup.subset import reduce
from svc.store.backup.watch import Watch
from svc.store.definitions import MAX_INDEXES, StoredTable
from svc.store.disk.faults import MAX_STORES
from svc.store.integrity.check import check_database
from svc.store.schema import Attribute, TableDefinition
from svc.store.store_names import NamePool
from svc.store.writing.bulk_write import load_records

pytestmark = pytest.mark.programs

ROUNDS = 6


def definition(name: str, indexes: Iterator[str] | list[str] | range, *, dynamic: bool = False) -> TableDefinition:
    attributes = (Attribute("id", "ID", primary_key=True), *(Attribute(f"a{name}", "Int", indexed=True) for name in indexes))
    return TableDefinition(name, attributes=attributes, dynamic=dynamic)


@pytest.fixture
def database(open_store: Callable[..., Store]) -> Database:
    return open_store(write_async=True).open_database("data")


def fill(table: Table) -> None:
    for _ in load_records(table, [{"id": "r", **dict.fromkeys(table.indexes, 1)}]):
        pass


def names_of(database: Database) -> set[str]:
    return {key.decode() for key in database.snapshot().cursor().iternext(True, False)}


# --- the pool ---------------------------------------------------------------------------------------------------------------------------


def test_the_pool_gives_spare_stores_of_the_same_kind_first() -> None:
    stored = StoredTable(7, definition("T", ["b"]))
    pool = NamePool({"A/", "A/a", "B/", "C/c"}, {"B/"})
    assert pool.take(stored, "") == "A/" and pool.take(stored, "a") == "A/a" and pool.take(stored, "b") == "C/c"
    assert pool.take(stored, "c") == "T/c" and pool.take(stored, "") == "T/"
    assert pool.used == pool.existing == {"A/", "A/a", "B/", "C/c", "T/c", "T/"}


def test_the_pool_prefers_the_default_name() -> None:
    pool = NamePool({"A/", "T/"}, set())
    assert pool.take(StoredTable(7, definition("T", [])), "") == "T/"


def test_no_name_is_given_twice() -> None:
    stored = StoredTable(7, definition("T", []))
    pool = NamePool({"T/", "T/a", "$1/", "$1/index"}, {"T/", "T/a", "$1/", "$1/index"})
    assert [pool.take(stored, ""), pool.take(stored, "a"), pool.take(stored, "a")] == ["$2/", "$2/index", "$3/index"]


# --- the database -----------------------------------------------------------------------------------------------------------------------


def test_names_of_dropped_tables_are_given_back(database: Database, open_store: Callable[..., Store]) -> None:
    """More tables and indexes than LMDB has slots, with results under way that have seen each."""
    read = []
    for number in range(ROUNDS):
        table = database.define_table(definition(f"T{number}", [f"{number}_{n}" for n in range(250)]))
        fill(table)
        txn = database.open_snapshot()
        read.append((txn, table.primary, table.index_list[-1].handle))
        database.drop_table(table.name)
    assert ROUNDS * 251 > MAX_STORES > len(names_of(database))
    for txn, primary, index in read:
        assert txn.stat(primary)["entries"] == txn.stat(index)["entries"] == 1, "each snapshot sees its own table under the same handles"
        txn.abort()
    table = database.define_table(definition("Kept", range(250)))
    fill(table)
    database.store.end_turn()
    again = open_store()
    again.check()
    assert again.databases["data"].tables["Kept"].indexes["a7"].count(again.databases["data"].snapshot()) == 1


def test_names_of_dropped_attributes_are_given_back(database: Database) -> None:
    table = database.define_table(definition("T", []))
    for number in range(ROUNDS):
        database.define_table(definition("T", [f"{number}_{n}" for n in range(200)]))
        fill(table)
        table.check()
    assert len(names_of(database)) < 2 * 200


def test_a_table_made_again_is_empty(database: Database) -> None:
    for _ in range(2):
        table = database.define_table(definition("T", ["x", "y"]))
        assert not table.record_count() and not table.indexes["ax"].count(database.snapshot())
        fill(table)
        database.drop_table("T")
    first, second = database.define_table(definition("U", ["x"])), database.define_table(definition("T", ["x"]))
    fill(first)
    assert not second.record_count(), "its default name is in use"
    fill(second)
    database.store.check()
    database.store.close()
    assert check_database(database.env.path).findings == []


def test_slots_of_the_other_kind_are_reused(database: Database) -> None:
    """Stores of indexes cannot hold records: such names are removed when no others are left."""
    for number in range(4):
        database.define_table(definition(f"T{number}", [f"{number}_{n}" for n in range(250)]))
    for number in range(4):
        database.drop_table(f"T{number}")
    txn = database.open_snapshot()
    for number in range(MAX_STORES - 6 - 4 * 251):
        database.define_table(definition(f"U{number}", []))
    for number in range(4):
        database.define_table(definition(f"V{number}", []))
    with pytest.raises(StoreFailure, match="try again"):
        database.define_table(definition("W", []))
    assert "W" not in database.tables
    txn.abort()
    for number in range(20):
        fill(database.define_table(definition(f"W{number}", [])))
    assert len(names_of(database)) <= MAX_STORES
    database.store.check()


def test_the_checker_opens_more_stores_than_there_may_be(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("svc.store.integrity.check.MAX_STORES", 4)
    database.define_table(definition("T", range(8)))
    database.drop_table("T")
    database.store.close()
    assert check_database(database.env.path).findings == []


def test_the_checker_finds_a_store_that_two_use(database: Database) -> None:
    table = database.define_table(definition("T", ["x"]))
    database.define_table(definition("U", ["x"]))
    with database._changing() as writer:
        writer.put(f"store:{table.number}:ax".encode(), b"U/ax", db=database.definitions)
        database.env.touch()
    database.store.close()
    assert 'The store "U/ax" belongs to the tables T and U.' in check_database(database.env.path).findings


def test_a_backup_of_some_tables_has_their_stores(database: Database, tmp_path: Path) -> None:
    """Under whatever names, and a restored copy gets its files' names in the right store."""
    fill(database.define_table(definition("A", ["x"])))
    database.drop_table("A")
    for name in ("B", "C", "A"):
        fill(database.define_table(definition(name, ["x"])))
    copy = tmp_path / "copy"
    copy.mkdir()
    database.env.copy(copy)
    watch = Watch()
    reduce(copy, frozenset(("B",)), log=True, watch=watch)
    change_identity(copy, watch)
    report = check_database(copy)
    assert report.findings == [] and report.records == {"C": 1, "A": 1}


SIBLING = """
import sys
from pathlib import Path
from svc.store import Store
store = Store(Path(sys.argv[1]))
database = store.databases["data"]
for line in sys.stdin:
    database.snapshot()
    for table in database.tables.values():
        assert table.record_count() == 1, table
        assert all(index.count(database.snapshot()) == 1 for index in table.index_list), table
    print(" ".join(database.tables), flush=True)
    store.end_turn()
store.close()
"""


def test_a_process_beside_follows(open_store: Callable[..., Store], tmp_path: Path) -> None:
    database = open_store(write_async=True).open_database("data")
    fill(database.define_table(definition("T0", [f"{n}" for n in range(250)])))
    database.store.end_turn()
    command = [sys.executable, "-c", SIBLING, str(tmp_path / "database")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as sibling:
        assert sibling.stdin is not None and sibling.stdout is not None
        for number in range(1, ROUNDS):
            sibling.stdin.write("\n")
            sibling.stdin.flush()
            assert sibling.stdout.readline() == f"T{number - 1}\n"
            database.drop_table(f"T{number - 1}")
            fill(database.define_table(definition(f"T{number}", [f"{number}_{n}" for n in range(250)])))
            database.store.end_turn()
        sibling.stdin.close()
        assert sibling.wait() == 0


# --- limits -----------------------------------------------------------------------------------------------------------------------------


def test_a_table_has_a_share_of_the_stores(database: Database) -> None:
    with pytest.raises(SchemaError, match=f'The table "T" would have {MAX_INDEXES + 1} indexed attributes; the limit is {MAX_INDEXES}'):
        database.define_table(definition("T", range(MAX_INDEXES + 1)))
    assert not database.tables
    database.define_table(definition("T", range(MAX_INDEXES)))
    with pytest.raises(SchemaError, match="the limit is"):
        database.define_table(definition("T", range(MAX_INDEXES + 1)))


def test_a_record_with_too_many_attributes_is_refused(database: Database) -> None:
    table = database.define_table(definition("T", [], dynamic=True))
    with pytest.raises(ClientError, match='The table "T" would have 3,000 indexed attributes; the limit is 256') as refused:
        database.learn_attributes(table, {f"a{n}": 1 for n in range(3000)})
    assert refused.value.status_code == 400 and refused.value.code == "VALIDATION"
    with pytest.raises(ClientError, match="slash"):
        database.learn_attributes(table, {"a/b": 1})
    assert table.definition == definition("T", [], dynamic=True)
    database.learn_attributes(table, {f"a{n}": 1 for n in range(MAX_INDEXES)})


def test_a_table_that_has_more_indexes_than_its_share_can_be_changed(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    database.define_table(definition("T", range(5)))
    monkeypatch.setattr("svc.store.definitions.MAX_INDEXES", 3)
    database.define_table(replace(definition("T", range(5)), sealed=True))
    with pytest.raises(SchemaError):
        database.define_table(definition("T", range(6)))
    assert len(database.define_table(definition("T", range(4))).indexes) == 4


def test_learned_attributes_leave_stores_to_declared_ones(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("svc.store.database.MAX_TABLE_STORES", 140)  # 128 are kept back
    table = database.define_table(definition("T", [], dynamic=True))
    database.learn_attributes(table, {f"a{n}": 1 for n in range(11)})
    with pytest.raises(ClientError, match='The database "data" can have 12 tables and indexes together before new attributes are refused'):
        database.learn_attributes(table, {"b": 1})
    database.define_table(definition("U", range(127)))
    with pytest.raises(SchemaError, match='The database "data" can have 140 tables and indexes together: drop some, or use another'):
        database.define_table(definition("V", []))
    database.drop_table("U")
    database.define_table(definition("V", []))
