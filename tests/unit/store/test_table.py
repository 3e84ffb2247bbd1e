"""svc.store.table: reading by key and range, expiry, long keys, keys for new records."""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from uuid import UUID

import lmdb
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from svc.clock import FakeClock
from svc.errors import BadValue, ClientError, StoreFailure
from svc.store import Store, Table
from svc.store.schema import Attribute, TableDefinition
from svc.store.values.keys import after, decode_key, encode_key, prefix_range, storage_key
from svc.store.values.records import decode, version_of
from svc.store.writing.bulk_write import load_records
from tests.support.profile import examples


def put(table: Table, key: object, expires_at: float | None = None, **record: object) -> None:
    transaction = table.database.store.begin()
    transaction.put(table, key, record, expires_at=expires_at)  # type: ignore[arg-type]
    transaction.apply()
    table.database.store.commit_turn()


def scanned(table: Table, low: bytes | None = None, high: bytes | None = None, *, reverse: bool = False) -> list[object]:
    return [table.key_of(raw) for _, raw in table.scan(table.database.snapshot(), low, high, reverse=reverse)]


def test_get(seats: Table, clock: FakeClock) -> None:
    assert seats.get_raw("A1") is None
    put(seats, "A1", price=5)
    raw = seats.get_raw("A1")
    assert raw is not None and decode(raw) == {"price": 5, "code": "A1"}
    assert version_of(raw) == clock.wall() * 1000
    assert seats.key_of(raw) == "A1"
    assert seats.get_by(encode_key("A1"), seats.database.snapshot()) == raw
    assert seats.get_raw("a1") is None and seats.get_raw(1) is None
    with pytest.raises(BadValue):
        seats.get_raw({"not": "a key"})  # type: ignore[arg-type]


def test_property_order_is_kept_and_the_key_stays_where_it_was(seats: Table) -> None:
    put(seats, "A1", z=1, code="other", a=2)
    raw = seats.get_raw("A1")
    assert raw is not None and list(decode(raw).items()) == [("z", 1), ("code", "A1"), ("a", 2)]


def test_scan(seats: Table) -> None:
    for key in ("b", "a", "c/2", "c/1", "c", "d"):
        put(seats, key)
    assert scanned(seats) == ["a", "b", "c", "c/1", "c/2", "d"]
    assert scanned(seats, reverse=True) == ["d", "c/2", "c/1", "c", "b", "a"]
    assert scanned(seats, *prefix_range("c/")) == ["c/1", "c/2"] == scanned(seats, *prefix_range("c/"), reverse=True)[::-1]
    assert scanned(seats, encode_key("b"), encode_key("d")) == ["b", "c", "c/1", "c/2"]
    assert scanned(seats, after(encode_key("b")), after(encode_key("c"))) == ["c"]
    assert scanned(seats, encode_key("e"), None) == [] == scanned(seats, None, encode_key("A"), reverse=True)


def test_untyped_keys_of_both_kinds(store: Store) -> None:
    table = store.open_database("data").define_table(TableDefinition("Any", attributes=(Attribute("id", primary_key=True),)))
    for key in ("1", 1, 2.5, -3, 2**60):
        put(table, key)
    assert scanned(table) == [-3, 1, 2.5, 2**60, "1"]
    raw = table.get_raw(1.0)
    assert raw is not None and decode(raw) == {"id": 1}


def test_list_keys(store: Store) -> None:
    definition = TableDefinition("Split", attributes=(Attribute("id", "ID", primary_key=True),), split_segments=True)
    table = store.open_database("data").define_table(definition)
    put(table, ("a", "b"), n=1)
    put(table, "a", n=2)
    assert scanned(table) == ["a", ("a", "b")]
    raw = table.get_raw(("a", "b"))
    assert raw is not None and decode(raw) == {"n": 1, "id": ["a", "b"]}
    store.check()


K = "k" * 492  # the longest beginning that keys over 507 bytes may share
LONG = [K, K + "a" * 15, K + "b" * 16, K + "c" * 17, K + "d" * 58, K + "e" * 167, K + "f" * 100, "k" * 400 + "é" * 200]


def test_long_keys(seats: Table, store: Store) -> None:
    for number, key in enumerate(LONG):
        put(seats, key, stock=number, price=number, tags=["x"])
    txn = seats.database.snapshot()
    for number, key in enumerate(LONG):
        raw = seats.get_raw(key)
        assert raw is not None and decode(raw)["stock"] == number and seats.key_of(raw) == key
        assert seats.get_by(encode_key(key), txn) == raw == seats.get_by(storage_key(encode_key(key)), txn)
    assert list(map(str, scanned(seats))) == sorted(LONG)
    assert len(list(seats.indexes["tags"].scan(txn))) == len(LONG)
    low, high = encode_key(LONG[2]), after(encode_key(LONG[4]))
    assert list(map(str, scanned(seats, low, high))) == LONG[2:5]
    assert list(map(str, scanned(seats, low, high, reverse=True))) == LONG[4:1:-1]
    for key in LONG[::2]:
        transaction = store.begin()
        transaction.delete(seats, key)
        transaction.apply()
    store.commit_turn()
    assert list(map(str, scanned(seats))) == sorted(LONG[1::2])
    store.check()


def test_keys_over_the_limit_are_refused(seats: Table) -> None:
    with pytest.raises(BadValue, match="659"):
        put(seats, "k" * 660)


def test_expired_records_are_invisible_from_that_moment(seats: Table, clock: FakeClock, store: Store) -> None:
    now_ms = clock.wall() * 1000
    put(seats, "A1", now_ms + 1000, price=1)
    put(seats, "B1", price=1)
    assert scanned(seats) == ["A1", "B1"] and seats.record_count() == 2
    private = seats.database.open_snapshot()
    clock.advance(1.0)
    assert seats.get_raw("A1") is None and seats.get_raw("A1", private) is None
    assert seats.get_by(encode_key("A1"), private) is None
    assert scanned(seats) == ["B1"] and seats.record_count() == 1
    assert [key for key, _ in seats.scan(private, reverse=True)] == [encode_key("B1")]
    private.abort()
    store.check()


def test_an_expired_record_can_be_made_again(seats: Table, clock: FakeClock, store: Store) -> None:
    put(seats, "A1", clock.wall() * 1000 + 1000, price=1, place="x")
    clock.advance(2)
    transaction = store.begin()
    transaction.create(seats, "A1", {"stock": 1})
    transaction.apply()
    store.commit_turn()
    raw = seats.get_raw("A1")
    assert raw is not None and decode(raw) == {"stock": 1, "code": "A1"}
    assert seats.record_count() == 1
    store.check()


def test_expiration_of_the_table(seats: Table, clock: FakeClock, store: Store) -> None:
    seats.database.define_table(replace(seats.definition, expiration=10.0))
    put(seats, "A1", stock=1)
    clock.advance(6)
    transaction = store.begin()
    transaction.patch(seats, "A1", {"stock": 2})
    transaction.apply()
    store.commit_turn()
    clock.advance(6)
    assert seats.get_raw("A1") is not None, "every write starts the time anew"
    clock.advance(5)
    assert seats.get_raw("A1") is None


def test_expiry_by_attribute(store: Store, clock: FakeClock) -> None:
    definition = TableDefinition(
        "Offer",
        attributes=(Attribute("id", "ID", primary_key=True), Attribute("until", "Long", expires_at=True, indexed=True)),
        expiration=1000.0,
    )
    table = store.open_database("data").define_table(definition)
    now = int(clock.wall() * 1000)
    put(table, "a", until=now + 500)
    put(table, "b", until=-1)
    put(table, "c", until=now + 5000)
    transaction = store.begin()
    transaction.patch(table, "c", {"x": 1})
    transaction.apply()
    store.commit_turn()
    clock.advance(1)
    assert scanned(table) == ["b", "c"]
    clock.advance(5)
    assert scanned(table) == ["b"], "a patch of other attributes keeps it"
    clock.advance(1000)
    assert scanned(table) == []
    store.check()


def test_a_patch_keeps_an_expiry_given_with_the_write(seats: Table, clock: FakeClock, store: Store) -> None:
    put(seats, "A1", clock.wall() * 1000 + 1000, stock=1)
    transaction = store.begin()
    transaction.patch(seats, "A1", {"stock": 2})
    transaction.apply()
    store.commit_turn()
    clock.advance(2)
    assert seats.get_raw("A1") is None
    put(seats, "B1", clock.wall() * 1000 + 1000, stock=1)
    put(seats, "B1", stock=1)
    clock.advance(2)
    assert seats.get_raw("B1") is not None, "a put without one clears it"
    store.check()


@pytest.mark.parametrize("kind", ["ID", "String"])
def test_text_keys_are_uuids(store: Store, kind: str) -> None:
    table = store.open_database("data").define_table(TableDefinition("T", attributes=(Attribute("id", kind, primary_key=True),)))
    key, *others = (str(table.new_key()) for _ in range(3))
    assert UUID(key).version == 7 and key < others[0] < others[1], "they append"
    with_prefix = str(table.new_key("a/"))
    assert with_prefix.startswith("a/") and UUID(with_prefix[2:]).version == 7


@pytest.mark.parametrize("kind", ["Float", "Date", "Boolean"])
def test_other_keys_have_to_be_given(store: Store, kind: str) -> None:
    table = store.open_database("data").define_table(TableDefinition("T", attributes=(Attribute("id", kind, primary_key=True),)))
    with pytest.raises(ClientError, match="needs a value for its primary key id"):
        table.new_key()


def test_sizes(seats: Table) -> None:
    assert seats.size() == 0 and seats.record_count() == 0
    put(seats, "A1", price=5)
    assert seats.size() == 4096 and seats.record_count() == 1
    assert "price" in seats.attributes and "other" not in seats.attributes and "Seat" in repr(seats)


def test_a_damaged_page_is_a_named_failure(seats: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    class Damaged:
        def get(self, *arguments: object) -> bytes:
            raise lmdb.CorruptedError("mdb_get")

        def cursor(self, *arguments: object) -> object:
            raise lmdb.PageNotFoundError("mdb_cursor")

    with pytest.raises(StoreFailure, match="restore a backup"):
        seats.get_raw("A1", Damaged())  # type: ignore[arg-type]
    with pytest.raises(StoreFailure, match="restore a backup"):
        list(seats.scan(Damaged()))  # type: ignore[arg-type]


def test_check_finds_an_index_that_disagrees(seats: Table) -> None:
    put(seats, "A1", price=5)
    writer = seats.database.env.writer()
    writer.delete(encode_key(5), b"", seats.indexes["price"].handle)
    seats.database.env.touch()
    seats.database.env.commit()
    with pytest.raises(AssertionError, match="differs from the records"):
        seats.check()


def test_reopened(seats: Table, open_store: Callable[..., Store]) -> None:
    put(seats, "A1", price=5)
    again = open_store().databases["data"].tables["Seat"]
    raw = again.get_raw("A1")
    assert raw is not None and decode(raw) == {"price": 5, "code": "A1"}
    assert again.definition == seats.definition and [decode_key(k) for _, k in again.indexes["price"].scan(again.database.snapshot())] == [
        "A1"
    ]


def test_a_scan_goes_on_behind_any_key(seats: Table) -> None:
    names = ["a", "b", "c", "d" * 600, "e"]
    for name in names:
        put(seats, name)
    txn = seats.database.snapshot()
    stored = [key for key, _ in seats.scan(txn)]
    for place in [*stored, encode_key("A"), encode_key("bb"), encode_key("z")]:
        assert [key for key, _ in seats.scan(txn, behind=place)] == [key for key in stored if key > place]
        assert [key for key, _ in seats.scan(txn, reverse=True, behind=place)] == [key for key in reversed(stored) if key < place]
    low, high = encode_key("b"), encode_key("e")
    assert [key for key, _ in seats.scan(txn, low, high, behind=stored[1])] == stored[2:4]
    assert [key for key, _ in seats.scan(txn, low, high, reverse=True, behind=stored[3])] == [stored[2], stored[1]]


def test_what_has_expired_and_is_still_there(seats: Table, clock: FakeClock) -> None:
    now_ms = clock.wall() * 1000
    for number in range(3):
        put(seats, f"k{number}", now_ms + 1000 * number, price=number)
    put(seats, "stays", price=9)
    clock.advance(1.0)
    seats.database.store.end_turn()
    expired = seats.expired(seats.database.snapshot(), 2)
    assert expired is not None and [decode(raw)["price"] for _, raw in expired] == [0, 1]
    assert seats.expired(seats.database.snapshot(), 1) is None
    assert seats.record_count() == 2


# -- long keys

START = "k" * 493  # the first bytes of a key of which the rest may be hashed


def write_all(table: Table, names: list[str], way: str) -> None:
    if way == "load":
        for _ in load_records(table, ({"code": name} for name in names)):
            pass
        return
    for name in names:
        transaction = table.database.store.begin()
        getattr(transaction, way)(table, name, {"stock": 1})
        transaction.apply()
        table.database.store.commit_turn()


@pytest.mark.parametrize("way", ["put", "patch", "insert", "load"])
@pytest.mark.parametrize(
    ("there", "new"),
    [
        (START + "a" * 50, START + "b" * 50), (START + "b" * 50, START + "a"), (START, START + "a" * 50), (START + "aa", START + "a" * 15),
    ],
)  # fmt: skip
def test_a_key_without_a_place_in_the_order_is_refused(seats: Table, way: str, there: str, new: str) -> None:
    """Of keys over 507 bytes that agree in their first 493 only a hash would tell which comes first."""
    write_all(seats, [there], way)
    with pytest.raises(ClientError, match="keys over 507 bytes must differ in their first 493") as refused:
        write_all(seats, [new], way)
    assert refused.value.status_code == 409 and refused.value.code == "KEY_CONFLICT"
    assert seats.get_raw(new) is None and seats.record_count() == 1
    write_all(seats, [there, "other"], "put")
    transaction = seats.database.store.begin()
    transaction.delete(seats, there)
    transaction.apply()
    seats.database.store.commit_turn()
    write_all(seats, [new], way)


def test_two_such_keys_in_one_load_are_refused(seats: Table) -> None:
    with pytest.raises(ClientError, match="differ in their first"):
        write_all(seats, ["x", START + "a" * 50, START + "b" * 50], "load")
    assert seats.record_count() == 0


@settings(max_examples=examples(60))
@given(st.lists(st.tuples(st.sampled_from(["j", "k", "kk"]), st.integers(485, 515), st.text("\0ab\U0010ffff", max_size=30)), max_size=12))
def test_any_keys_come_in_order(seats: Table, drawn: list[tuple[str, int, str]]) -> None:
    transaction = seats.database.store.begin()
    for raw in list(seats.scan(seats.database.snapshot())):
        transaction.delete(seats, str(seats.key_of(raw[1])))
    transaction.apply()
    seats.database.store.commit_turn()
    for start, length, end in drawn:
        with suppress(ClientError):
            write_all(seats, [(start * length)[:length] + end], "put")
    keys = [seats.key_of(raw) for _, raw in seats.scan(seats.database.snapshot())]
    assert keys == sorted(keys)  # type: ignore[type-var]


def test_many_records_that_need_no_further_look(seats: Table, clock: FakeClock) -> None:
    put(seats, "a", price=1)
    put(seats, "b")
    put(seats, "c", expires_at=clock.wall() * 1000 + 5000)
    txn = seats.database.snapshot()
    assert seats.get_many_plain(map(encode_key, "ba"), txn) == [seats.get_raw("b"), seats.get_raw("a")]
    assert seats.get_many_plain([], txn) == []
    for others in ("x", "ax", "xa", "xx", "c", "ac"):
        assert seats.get_many_plain(map(encode_key, others), txn) is None
