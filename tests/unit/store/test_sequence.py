"""svc.store.sequence: integer keys, in order, never twice (schema-and-store §6.6)."""

from collections.abc import Callable

import pytest

from svc.errors import ClientError, Problem
from svc.store import Store, Table, sequence
from svc.store.env import Environment
from svc.store.schema import Attribute, TableDefinition


def define(store: Store, kind: str = "Int") -> Table:
    return store.open_database("data").define_table(TableDefinition("T", attributes=(Attribute("id", kind, primary_key=True),)))


def create(store: Store, table: Table) -> int:
    transaction = store.begin()
    key = transaction.create(table, None, {})
    transaction.apply()
    store.commit_turn()
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
    monkeypatch.setattr(sequence, "randbelow", lambda limit: next(starts))
    transaction = store.begin()
    transaction.create(table, 5000 + 2 * sequence.SMALL_BLOCK, {})
    transaction.apply()
    store.commit_turn()
    assert create(store, table) == 100_000


def test_blocks_follow_each_other(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sequence, "SMALL_BLOCK", 2)
    table = define(store)
    keys = [create(store, table) for _ in range(6)]
    assert len(set(keys)) == 6 and keys[1] == keys[0] + 1 and keys[3] == keys[2] + 1
    store.check()


def test_without_a_gap_they_go_on_after_the_largest(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    table = define(store)
    monkeypatch.setattr(sequence, "randbelow", lambda limit: 0)
    transaction = store.begin()
    transaction.create(table, 500, {})
    transaction.create(table, -7, {})
    transaction.apply()
    store.commit_turn()
    assert create(store, table) == 501


def test_no_keys_left(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    table = define(store)
    monkeypatch.setattr(sequence, "randbelow", lambda limit: 0)
    transaction = store.begin()
    transaction.create(table, 1, {})
    transaction.create(table, 2**31 - 5, {})
    transaction.apply()
    store.commit_turn()
    with pytest.raises(ClientError, match="no automatic keys left"):
        table.new_key()
