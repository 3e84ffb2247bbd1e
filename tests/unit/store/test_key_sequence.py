"""svc.store.key_sequence: integer keys, in order, never twice (spec: schema-and-store §6.6)."""

from collections.abc import Callable

import pytest

from svc.errors import ClientError, Problem
from svc.store import Store, Table, key_sequence
from svc.store.env import Environment
from svc.store.schema import Attribute, TableDefinition
from svc.store.values.records import decode
from tests.unit.store.writing.test_long_write import Turns


def define(store: Store, kind: str = "Int") -> Table:
    return store.open_database("data").define_table(TableDefinition("T", attributes=(Attribute("id", kind, primary_key=True),)))


def create(store: Store, table: Table) -> int:
    transaction = store.begin()
    assert transaction.create(table, None, {}) is None, "which number is free is known when it is written"
    transaction.apply()
    store.commit_turn()
    (key,) = transaction.assigned
    assert isinstance(key, int)
    return key


@pytest.mark.parametrize(("kind", "limit"), [("Int", 2**31 - 1), ("Long", 2**49 - 1), ("BigInt", 2**49 - 1), ("Any", 2**49 - 1)])
def test_ascending_within_the_limit(store: Store, kind: str, limit: int) -> None:
    table = define(store, kind)
    first = create(store, table)
    assert [create(store, table) for _ in range(5)] == list(range(first + 1, first + 6)) and 0 < first < limit
    store.check()


def test_a_restart_goes_on_after_the_last_key(store: Store, open_store: Callable[..., Store]) -> None:
    last = create(store, define(store))
    again = open_store()
    assert create(again, again.databases["data"].tables["T"]) == last + 1


def test_a_deleted_key_is_not_used_again(store: Store, open_store: Callable[..., Store]) -> None:
    table = define(store)
    last = create(store, table)
    transaction = store.begin()
    transaction.delete(table, last)
    transaction.apply()
    store.commit_turn()
    again = open_store()
    assert create(again, again.databases["data"].tables["T"]) == last + 1


def test_a_key_that_somebody_chose_is_passed_over(store: Store) -> None:
    table = define(store)
    last = create(store, table)
    transaction = store.begin()
    transaction.create(table, last + 1, {})
    transaction.create(table, last + 2, {})
    transaction.apply()
    assert create(store, table) == last + 3


def test_keys_of_a_turn_that_failed_may_come_again(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    table = define(store)
    last = create(store, table)

    def fail(self: Environment) -> None:
        self.abort()
        raise Problem("no")

    with monkeypatch.context() as patch:
        patch.setattr(Environment, "commit", fail)
        create(store, table)
    assert create(store, table) == last + 1
    assert table.record_count() == 2


def test_a_key_asked_for_and_not_used_holds_nothing_up(store: Store) -> None:
    table = define(store)
    first = table.new_key()
    assert store.has_pending
    store.commit_turn()
    assert not table.database.env.has_writer and not store.has_pending
    assert isinstance(first, int) and create(store, table) == first + 1


def test_the_next_block_keeps_away_from_existing_keys(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    table = define(store)
    starts = iter([5000 - 1, 100_000 - 1])
    monkeypatch.setattr(key_sequence, "randbelow", lambda limit: next(starts))
    transaction = store.begin()
    transaction.create(table, 5000 + 2 * key_sequence.SMALL_BLOCK, {})
    transaction.apply()
    store.commit_turn()
    assert create(store, table) == 100_000


def test_blocks_follow_each_other(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(key_sequence, "SMALL_BLOCK", 2)
    table = define(store)
    keys = [create(store, table) for _ in range(6)]
    assert len(set(keys)) == 6 and keys[1] == keys[0] + 1 and keys[3] == keys[2] + 1
    store.check()


def test_without_a_gap_they_go_on_after_the_largest(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    table = define(store)
    monkeypatch.setattr(key_sequence, "randbelow", lambda limit: 0)
    transaction = store.begin()
    transaction.create(table, 500, {})
    transaction.create(table, -7, {})
    transaction.apply()
    store.commit_turn()
    assert create(store, table) == 501


def test_no_keys_left(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    table = define(store)
    monkeypatch.setattr(key_sequence, "randbelow", lambda limit: 0)
    transaction = store.begin()
    transaction.create(table, 1, {})
    transaction.create(table, 2**31 - 5, {})
    transaction.apply()
    store.commit_turn()
    with pytest.raises(ClientError, match="no automatic keys left"):
        table.new_key()


def test_keys_that_the_same_transaction_names_are_left_out(store: Store) -> None:
    table = define(store)
    first = create(store, table)
    transaction = store.begin()
    keys = [transaction.create(table, key, {"n": number}) for number, key in enumerate((None, first + 1, None, first + 3))]
    transaction.apply()
    store.commit_turn()
    assert transaction.with_assigned(keys) == [first + 2, first + 1, first + 4, first + 3]
    for number, key in enumerate(transaction.with_assigned(keys)):
        raw = table.get_raw(key)
        assert raw is not None and decode(raw) == {"n": number, "id": key}
    store.check()


def test_keys_are_chosen_when_they_are_written(store: Store) -> None:
    """Not when the write was asked for: what another request has written meanwhile is known then."""
    table = define(store)
    first = create(store, table)
    late = store.begin()
    late.create(table, None, {"name": "late"})
    other = store.begin()
    other.create(table, first + 1, {"name": "chosen"})
    other.apply()
    upsert = store.begin()
    upsert.upsert(table, None, {"name": "upsert"})
    upsert.apply()
    late.apply()
    store.commit_turn()
    assert (upsert.assigned, late.assigned) == ([first + 2], [first + 3])
    names = [decode(raw).get("name") for _, raw in table.scan(table.database.snapshot())]
    assert names == [None, "chosen", "upsert", "late"]
    store.check()


def test_a_long_write_that_begins_again_gets_new_keys(store: Store) -> None:
    table = define(store)
    first = create(store, table)
    turns = Turns(store)
    transaction = store.begin()
    for number in range(100):
        transaction.insert(table, None if number % 2 else first + 1 + number, {"n": number})
    task = turns.start(transaction.apply_long())
    turns.until(lambda: table.database.env._long is not None)
    put = store.begin()
    put.create(table, first + 2, {})
    put.apply()  # cannot wait: the long write gives the database back
    store.commit_turn()
    turns.until(task.done)
    task.result()
    turns.close()
    named = {first, first + 2, *range(first + 1, first + 101, 2)}
    assert len(set(transaction.assigned)) == 50 and named.isdisjoint(transaction.assigned)
    assert table.record_count() == 102 and transaction.skipped == []
    store.check()
