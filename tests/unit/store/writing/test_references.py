"""svc.store.writing.references: what becomes of records that name a deleted one."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from svc.clock import FakeClock
from svc.errors import ClientError, IndexRebuilding, StillReferenced
from svc.store import Store, Table
from svc.store.log.entries import DELETE, PATCH, PUT
from svc.store.schema import Attribute, Relationship, TableDefinition
from svc.store.table_drops import drop_table
from svc.store.values.records import decode
from svc.store.writing import references
from svc.store.writing.bulk_write import bulk_write
from svc.store.writing.commit import commit
from svc.store.writing.references import NeedsLongWrite
from svc.store.writing.transaction import LONG_WRITES
from tests.support.fakes import TickingClock
from tests.unit.store.writing.test_commit import Holder, finish
from tests.unit.store.writing.test_long_write import Turns

CUSTOMER = TableDefinition("Customer", attributes=(Attribute("id", primary_key=True),))


def child(name: str, on_delete: str, *, parent: str = "Customer", elements: bool = False, **table: Any) -> TableDefinition:
    """A table whose `parent` names records of another."""
    return TableDefinition(
        name,
        attributes=(
            Attribute("id", primary_key=True),
            Attribute("parent", "Any", elements=elements, indexed=True),
            Attribute("changed", "Long", updated_time=True),
            Attribute("owner", parent, elements=elements, relationship=Relationship(parent, "parent", None, on_delete)),
        ),
        **table,
    )


@pytest.fixture
def clock() -> FakeClock:
    return TickingClock(looks_a_slice=5)


@pytest.fixture
def define(store: Store) -> Callable[[TableDefinition], Table]:
    database = store.open_database("data")
    database.define_table(CUSTOMER)
    return database.define_table


@pytest.fixture
def customers(store: Store, define: object) -> Table:
    return store.databases["data"].tables["Customer"]


def put(table: Table, *records: dict[str, Any]) -> None:
    store = table.database.store
    transaction = store.begin()  # type: ignore[attr-defined]
    for record in records:
        transaction.put(table, record["id"], dict(record))
    transaction.apply()
    store.commit_turn()


def delete(table: Table, *keys: Any) -> None:
    store = table.database.store
    transaction = store.begin("anna")  # type: ignore[attr-defined]
    for key in keys:
        transaction.delete(table, key)
    transaction.apply()
    store.commit_turn()
    store.check()


def content(table: Table) -> dict[Any, dict[str, Any]]:
    table.database.env.end_snapshot()
    records = [decode(raw) for _, raw in table.scan(table.database.snapshot())]
    return {record["id"]: {name: value for name, value in record.items() if name != "changed"} for record in records}


def test_cascade_deletes_through_several_tables(define: Callable[..., Table], customers: Table) -> None:
    orders = define(child("Order", "cascade"))
    lines = define(child("Line", "cascade", parent="Order"))
    put(customers, {"id": 1}, {"id": 2})
    put(orders, {"id": "a", "parent": 1}, {"id": "b", "parent": 2}, {"id": "c", "parent": "1"}, {"id": "d", "parent": None})
    put(lines, {"id": 1, "parent": "a"}, {"id": 2, "parent": "a"}, {"id": 3, "parent": "b"})
    before = customers.database.log.last_lsn
    delete(customers, 1)
    assert content(orders).keys() == {"b", "c", "d"} and content(lines).keys() == {3}, "the string is another key than the number"
    entries = list(customers.database.log.read(customers.database.snapshot(), before + 1))
    assert [(entry.table, entry.kind, entry.user) for entry in entries] == [
        ("Customer", DELETE, "anna"), ("Order", DELETE, "anna"), ("Line", DELETE, "anna"), ("Line", DELETE, "anna"),
    ]  # fmt: skip
    assert len({entry.transaction for entry in entries}) == 1


def test_set_null_is_a_patch_with_the_time_of_the_change(define: Callable[..., Table], customers: Table) -> None:
    orders = define(child("Order", "setNull"))
    put(customers, {"id": 1})
    put(orders, {"id": "a", "parent": 1, "note": "x"})
    delete(customers, 1)
    assert content(orders) == {"a": {"id": "a", "parent": None, "note": "x"}}
    entry = list(orders.database.log.read(orders.database.snapshot()))[-1]
    assert entry.kind == PATCH and entry.value is not None and decode(entry.value) == {"parent": None, "changed": int(entry.version)}


def test_of_a_list_the_key_is_removed(define: Callable[..., Table], customers: Table) -> None:
    orders = define(child("Order", "setNull", elements=True))
    put(customers, {"id": 1}, {"id": 2})
    put(orders, {"id": "a", "parent": [2, 1, 2, 1.0]}, {"id": "b", "parent": [1]}, {"id": "c", "parent": []})
    delete(customers, 1)
    assert {key: record["parent"] for key, record in content(orders).items()} == {"a": [2, 2], "b": [], "c": []}


def test_restrict_names_table_key_and_count(define: Callable[..., Table], customers: Table) -> None:
    orders = define(child("Order", "restrict"))
    put(customers, {"id": 1}, {"id": 2})
    put(orders, {"id": "a", "parent": 1}, {"id": "b", "parent": 1})
    with pytest.raises(StillReferenced) as caught:
        delete(customers, 2, 1)
    assert caught.value.status_code == 409 and caught.value.code == "STILL_REFERENCED"
    assert caught.value.message == "A record cannot be deleted: other records refer to it"
    assert caught.value.explained().message == "Customer 1 cannot be deleted: 2 records refer to it by Order.parent, such as Order 'a'"
    assert content(customers).keys() == {1, 2}, "the other deletion is undone too"


def test_restrict_is_decided_at_the_end_of_the_transaction(store: Store, define: Callable[..., Table], customers: Table) -> None:
    orders = define(child("Order", "restrict"))
    put(customers, {"id": 1}, {"id": 2}, {"id": 3})
    put(orders, {"id": "a", "parent": 1}, {"id": "b", "parent": 2})
    transaction = store.begin()
    transaction.delete(customers, 1)
    transaction.delete(orders, "a")
    transaction.delete(customers, 2)
    transaction.put(customers, 2, {"again": True})
    transaction.apply()
    store.commit_turn()
    assert content(customers) == {2: {"id": 2, "again": True}, 3: {"id": 3}} and content(orders).keys() == {"b"}
    put(orders, {"id": "c", "parent": 9})
    delete(customers, 9)  # there is none: nothing is deleted


def test_restrict_of_what_a_cascade_would_delete(define: Callable[..., Table], customers: Table) -> None:
    orders = define(child("Order", "cascade"))
    bills = define(child("Bill", "restrict", parent="Order"))
    put(customers, {"id": 1})
    put(orders, {"id": "a", "parent": 1})
    put(bills, {"id": 7, "parent": "a"})
    with pytest.raises(StillReferenced) as caught:
        delete(customers, 1)
    assert (caught.value.table.name, caught.value.key, caught.value.example) == ("Order", "a", 7)
    assert content(orders) and content(customers)
    delete(bills, 7)
    delete(customers, 1)
    assert not content(orders) and not content(customers)


def test_a_record_inserted_in_the_same_turn_counts(store: Store, define: Callable[..., Table], customers: Table) -> None:
    orders = define(child("Order", "cascade"))
    put(customers, {"id": 1})
    first = store.begin()
    first.put(orders, "new", {"parent": 1})
    first.apply()
    second = store.begin()
    second.delete(customers, 1)
    second.apply()
    store.commit_turn()
    assert content(orders) == {}


def test_trees_chains_and_cycles_end(monkeypatch: pytest.MonkeyPatch, define: Callable[..., Table]) -> None:
    monkeypatch.setattr(references, "CHUNK", 2)
    nodes = define(child("Node", "cascade", parent="Node"))
    put(nodes, {"id": 0, "parent": 99}, *({"id": n, "parent": n - 1} for n in range(1, 100)), {"id": "self", "parent": "self"})
    put(nodes, *({"id": f"leaf{n}", "parent": 50} for n in range(7)), {"id": "other"})
    delete(nodes, 30)
    assert content(nodes).keys() == {"self", "other"}, "the cycle leads to all of them"
    delete(nodes, "self")
    assert content(nodes).keys() == {"other"}


def test_two_foreign_keys_of_one_table(monkeypatch: pytest.MonkeyPatch, define: Callable[..., Table], customers: Table) -> None:
    monkeypatch.setattr(references, "CHUNK", 2)
    base = child("Order", "setNull")
    second = (
        Attribute("payer", indexed=True),
        Attribute("paidBy", "Customer", relationship=Relationship("Customer", "payer", None, "cascade")),
    )
    orders = define(TableDefinition("Order", attributes=base.attributes + second))
    put(customers, {"id": 1}, {"id": 2})
    put(orders, *({"id": n, "parent": 1, "payer": 2 if n % 2 else 1} for n in range(9)))
    delete(customers, 1)
    assert content(orders) == {n: {"id": n, "parent": None, "payer": 2} for n in range(1, 9, 2)}


def test_a_key_that_is_the_foreign_key(define: Callable[..., Table], customers: Table) -> None:
    profile = TableDefinition(
        "Profile",
        attributes=(
            Attribute("id", primary_key=True),
            Attribute("of", "Customer", relationship=Relationship("Customer", "id", None, "cascade")),
        ),
    )
    profiles = define(profile)
    put(customers, {"id": 1}, {"id": "k" * 600})
    put(profiles, {"id": 1}, {"id": "k" * 600}, {"id": 3})
    delete(customers, 1, "k" * 600)
    assert content(profiles).keys() == {3}


def test_long_keys_are_compared_in_full(define: Callable[..., Table], customers: Table) -> None:
    orders = define(child("Order", "cascade"))
    keys = ["k" * 300 + "a", "k" * 300 + "b"]
    put(customers, *({"id": key} for key in keys))
    put(orders, {"id": 1, "parent": keys[0]}, {"id": 2, "parent": keys[1]}, {"id": 3, "parent": {"an": "object"}})
    delete(customers, keys[0])
    assert content(orders).keys() == {2, 3}


def test_expired_records_are_left_alone(store: Store, clock: FakeClock, define: Callable[..., Table], customers: Table) -> None:
    kept = define(child("Kept", "restrict", expiration=10))
    nulled = define(child("Nulled", "setNull", expiration=10))
    put(customers, {"id": 1})
    put(kept, {"id": "a", "parent": 1})
    put(nulled, {"id": "a", "parent": 1})
    clock.advance(11)
    delete(customers, 1)
    assert not content(customers) and not content(nulled)


def test_without_the_whole_index_nothing_is_deleted(define: Callable[..., Table], customers: Table) -> None:
    orders = define(child("Order", "cascade"))
    put(customers, {"id": 1})
    put(orders, {"id": "a", "parent": 1})
    orders.indexes["parent"].progress = b""
    with pytest.raises(IndexRebuilding):
        delete(customers, 1)
    orders.indexes["parent"].progress = None
    assert content(customers)


def test_more_than_a_turn_has_time_for_is_a_long_write(store: Store, define: Callable[..., Table], customers: Table) -> None:
    orders = define(child("Order", "cascade"))
    put(customers, {"id": 1}, {"id": 2})
    put(orders, *({"id": n, "parent": 1} for n in range(LONG_WRITES + 1)), {"id": "x", "parent": 2})
    transaction = store.begin()
    transaction.create(customers, None, {"name": "with a new key"})
    transaction.delete(customers, 1)
    transaction.delete(customers, 2)
    with pytest.raises(NeedsLongWrite):
        transaction.apply(wait=False)
    assert transaction.size == 3 and content(customers).keys() == {1, 2}
    holder = Holder()
    asyncio.run(finish(store, commit(transaction, holder)))
    assert holder.pending_commit is None and transaction.deleted == 2 and not content(orders)
    assert content(customers).keys() == set(transaction.assigned) and len(transaction.assigned) == 1
    store.check()


def test_long_restrictions(store: Store, monkeypatch: pytest.MonkeyPatch, define: Callable[..., Table], customers: Table) -> None:
    monkeypatch.setattr(references, "MOST_RESTRICTED", 60)
    orders = define(child("Order", "restrict"))
    put(customers, *({"id": n} for n in range(80)))
    put(orders, *({"id": n, "parent": n} for n in range(80)))
    turns = Turns(store)
    for count in (55, 70):
        transaction = store.begin()
        for n in range(count):
            transaction.delete(customers, n)
        with pytest.raises(StillReferenced):
            turns.finish(transaction.apply_long())
    assert len(content(customers)) == 80
    with pytest.raises(StillReferenced):
        turns.finish(bulk_write(customers, [{"id": 5}], mode="delete"))
    transaction = store.begin()
    for n in range(55):
        transaction.delete(customers, n)
        transaction.delete(orders, n)
    turns.finish(transaction.apply_long())
    assert len(content(customers)) == 25
    turns.close()


def test_a_bulk_delete_cascades(store: Store, define: Callable[..., Table], customers: Table) -> None:
    orders = define(child("Order", "cascade"))
    put(customers, *({"id": n} for n in range(5)))
    put(orders, *({"id": n, "parent": n % 5} for n in range(20)))
    turns = Turns(store)
    turns.finish(bulk_write(customers, [{"id": 1}, {"id": 2}], mode="delete"))
    turns.close()
    assert {record["parent"] for record in content(orders).values()} == {0, 3, 4}
    store.check()


def test_what_cannot_wait_has_a_limit(
    store: Store, monkeypatch: pytest.MonkeyPatch, define: Callable[..., Table], customers: Table
) -> None:
    monkeypatch.setattr("svc.store.writing.transaction.AT_ONCE", 3)
    orders = define(child("Order", "setNull"))
    put(customers, {"id": 1})
    put(orders, *({"id": n, "parent": 1} for n in range(4)))
    with pytest.raises(ClientError) as caught:
        delete(customers, 1)
    assert caught.value.code == "TOO_MANY_REFERENCES" and caught.value.status_code == 400 and content(customers)


def test_other_definitions_other_references(store: Store, define: Callable[..., Table], customers: Table) -> None:
    database = store.databases["data"]
    orders = define(child("Order", "cascade"))
    assert [(one.table, one.on_delete) for one in database.references_to(customers)] == [(orders, "cascade")]
    define(child("Order", "restrict"))
    assert database.references_to(customers)[0].on_delete == "restrict"
    define(child("Bill", "restrict"))
    assert len(database.references_to(customers)) == 2
    turns = Turns(store)
    turns.finish(drop_table(orders))
    assert [one.table.name for one in database.references_to(customers)] == ["Bill"]
    database.drop_table("Bill")
    assert database.references_to(customers) == ()
    turns.close()


def test_a_dropped_table_concerns_nobody(store: Store, define: Callable[..., Table], customers: Table) -> None:
    orders = define(child("Order", "cascade"))
    put(customers, {"id": 1})
    put(orders, {"id": "a", "parent": 1})
    store.databases["data"].drop_table("Customer")
    assert content(orders).keys() == {"a"}
    define(CUSTOMER)
    put(store.databases["data"].tables["Customer"], {"id": 1})
    delete(store.databases["data"].tables["Customer"], 1)
    assert content(orders) == {}


def test_only_deletions_concern_others(define: Callable[..., Table], customers: Table) -> None:
    orders = define(child("Order", "cascade"))
    put(customers, {"id": 1})
    put(orders, {"id": "a", "parent": 1})
    put(customers, {"id": 1, "name": "replaced"})
    assert [entry.kind for entry in orders.database.log.read(orders.database.snapshot())] == [PUT] * 3 and content(orders)
