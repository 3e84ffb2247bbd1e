"""svc.store.writing.transaction: what one request writes, alone and beside others of its turn."""

from collections.abc import Callable
from typing import Any

import pytest

from svc.clock import FakeClock
from svc.errors import BadValue, ClientError, PreconditionFailed, Problem, RecordExists, StoreFailure, ValidationError
from svc.store import Precondition, Store, Table, Transaction
from svc.store.entity_tags import etag_of
from svc.store.log.entries import DELETE, PATCH, PUT
from svc.store.schema import Attribute, TableDefinition
from svc.store.values.keys import index_key
from svc.store.values.records import decode, version_of
from svc.store.values.validation import Add

Outcome = list[Problem | None]


def begin(store: Store) -> tuple[Transaction, Outcome]:
    transaction = store.begin("anna")
    outcome: Outcome = []
    transaction.on_done = outcome.append
    return transaction, outcome


def stored(table: Table, key: Any) -> dict[str, Any] | None:
    raw = table.get_raw(key)
    return None if raw is None else decode(raw)


def put(store: Store, table: Table, key: str, **record: Any) -> None:
    transaction = store.begin()
    transaction.put(table, key, record)
    transaction.apply()
    store.commit_turn()


def tag(table: Table, key: str) -> str:
    raw = table.get_raw(key)
    assert raw is not None
    return etag_of(raw)


def test_nothing_is_seen_or_reported_before_the_commit(store: Store, seats: Table) -> None:
    transaction, outcome = begin(store)
    transaction.put(seats, "A1", {"price": 5})
    assert transaction.has_writes and not store.has_pending
    transaction.apply()
    assert not transaction.has_writes and store.has_pending and stored(seats, "A1") is None and outcome == []
    store.commit_turn()
    assert outcome == [None] and stored(seats, "A1") == {"price": 5, "code": "A1"} and not store.has_pending


def test_all_writes_of_a_transaction_share_a_version(store: Store, seats: Table, clock: FakeClock) -> None:
    transaction, _ = begin(store)
    transaction.put(seats, "A1", {})
    transaction.put(seats, "B1", {})
    transaction.apply()
    other, _ = begin(store)
    other.put(seats, "C1", {})
    other.apply()
    store.commit_turn()
    versions = [version_of(seats.get_raw(key) or b"") for key in ("A1", "B1", "C1")]
    assert versions[0] == versions[1] == transaction.version == clock.wall() * 1000
    assert versions[2] == other.version > versions[0], "the clock stands still, versions do not"


def test_writes_of_one_transaction_see_each_other_in_order(store: Store, seats: Table) -> None:
    transaction, _ = begin(store)
    transaction.put(seats, "A1", {"price": 1, "place": "x"})
    transaction.patch(seats, "A1", {"price": Add(2)})
    transaction.delete(seats, "B1")
    transaction.create(seats, "B1", {"price": 7})
    transaction.delete(seats, "A1")
    transaction.patch(seats, "A1", {"stock": 3})
    transaction.apply()
    store.commit_turn()
    assert stored(seats, "A1") == {"stock": 3, "code": "A1"} and stored(seats, "B1") == {"price": 7, "code": "B1"}
    assert len(list(seats.database.log.read(seats.database.snapshot()))) == 5, "deleting what is not there writes nothing"
    store.check()


def test_own_writes_are_seen_before_they_are_applied(store: Store, seats: Table) -> None:
    put(store, seats, "A1", price=1, stock=2)
    transaction, _ = begin(store)
    assert transaction.get_raw(seats, "A1") == seats.get_raw("A1")
    transaction.patch(seats, "A1", {"price": Add(4)})
    raw = transaction.get_raw(seats, "A1")
    assert raw is not None and decode(raw) == {"price": 5, "stock": 2, "code": "A1"}
    transaction.delete(seats, "A1")
    assert transaction.get_raw(seats, "A1") is None
    transaction.patch(seats, "A1", {"price": Add(4)})
    raw = transaction.get_raw(seats, "A1")
    assert raw is not None and decode(raw) == {"price": 4, "code": "A1"}
    assert stored(seats, "A1") == {"price": 1, "stock": 2, "code": "A1"}, "others see none of it"
    transaction.abort()


def test_one_failing_transaction_undoes_only_itself(store: Store, seats: Table) -> None:
    first, first_outcome = begin(store)
    first.put(seats, "A1", {"price": 1})
    first.apply()
    second, second_outcome = begin(store)
    second.put(seats, "B1", {"price": 2})
    second.create(seats, "A1", {"price": 3})
    with pytest.raises(RecordExists):
        second.apply()
    third, third_outcome = begin(store)
    third.put(seats, "C1", {"price": 4})
    third.apply()
    store.commit_turn()
    assert (first_outcome, second_outcome, third_outcome) == ([None], [], [None])
    assert stored(seats, "A1") == {"price": 1, "code": "A1"} and stored(seats, "B1") is None and stored(seats, "C1") is not None
    assert [entry.lsn for entry in seats.database.log.read(seats.database.snapshot())] == [1, 2], "no LSN was lost"
    store.check()


def test_create(store: Store, seats: Table) -> None:
    transaction, _ = begin(store)
    key = transaction.create(seats, None, {"price": 1})
    prefixed = transaction.create(seats, None, {"price": 2}, key_prefix="row/")
    assert transaction.create(seats, "A1", {"price": 3}) == "A1"
    transaction.apply()
    store.commit_turn()
    assert str(prefixed).startswith("row/") and stored(seats, prefixed) == {"price": 2, "code": prefixed}
    assert stored(seats, key) == {"price": 1, "code": key}


def test_patch(store: Store, seats: Table) -> None:
    put(store, seats, "A1", price=1, place={"hall": "x", "row": 1}, stock=None)
    transaction, _ = begin(store)
    transaction.patch(seats, "A1", {"price": Add(-3), "place": {"hall": "y"}, "stock": Add(2), "a.b": None, "code": "ignored"})
    transaction.apply()
    store.commit_turn()
    assert stored(seats, "A1") == {"price": -2, "place": {"hall": "y"}, "stock": 2, "code": "A1", "a.b": None}
    store.check()


def test_a_patch_of_nothing_makes_a_record_after_full_validation(store: Store) -> None:
    definition = TableDefinition("T", attributes=(Attribute("id", "ID", primary_key=True), Attribute("name", "String", required=True)))
    table = store.open_database("data").define_table(definition)
    transaction, _ = begin(store)
    transaction.patch(table, "a", {"other": 1})
    with pytest.raises(ValidationError, match="name is required"):
        transaction.apply()
    transaction.patch(table, "a", {"other": Add(1), "name": "x"})
    transaction.apply()
    store.commit_turn()
    assert stored(table, "a") == {"other": 1, "name": "x", "id": "a"}


def test_the_result_of_an_increment_must_satisfy_the_type(store: Store, seats: Table) -> None:
    put(store, seats, "A1", stock=2**31 - 1)
    transaction, _ = begin(store)
    transaction.patch(seats, "A1", {"stock": Add(1)})
    with pytest.raises(ValidationError):
        transaction.apply()
    assert stored(seats, "A1") == {"stock": 2**31 - 1, "code": "A1"}


def test_increments_of_one_turn_add_up(store: Store, seats: Table) -> None:
    put(store, seats, "A1", stock=1)
    for _ in range(5):
        transaction, _ = begin(store)
        transaction.patch(seats, "A1", {"stock": Add(2)})
        transaction.apply()
    store.commit_turn()
    assert stored(seats, "A1") == {"stock": 11, "code": "A1"}


def test_time_attributes(store: Store, clock: FakeClock) -> None:
    definition = TableDefinition(
        "T",
        attributes=(
            Attribute("id", "ID", primary_key=True),
            Attribute("made", "Long", created_time=True),
            Attribute("changed", "Long", updated_time=True, indexed=True),
        ),
    )
    table = store.open_database("data").define_table(definition)
    start = int(clock.wall() * 1000)
    put(store, table, "a", x=1)
    clock.advance(1)
    put(store, table, "a", x=2)
    assert stored(table, "a") == {"x": 2, "id": "a", "made": start, "changed": start + 1000}
    clock.advance(1)
    transaction, _ = begin(store)
    transaction.patch(table, "a", {"x": 3})
    transaction.patch(table, "b", {"x": 4})
    transaction.apply()
    store.commit_turn()
    assert stored(table, "a") == {"x": 3, "id": "a", "made": start, "changed": start + 2000}
    assert stored(table, "b") == {"x": 4, "id": "b", "made": start + 2000, "changed": start + 2000}
    store.check()


@pytest.mark.parametrize(("step", "is_wall"), [(30, False), (400 * 86_400, True)])
def test_time_attributes_after_the_clock_was_ahead(store: Store, clock: FakeClock, step: int, is_wall: bool) -> None:
    """The wall time, if the version is another by more than a minute."""
    made, changed = Attribute("made", "Long", created_time=True), Attribute("changed", "Long", updated_time=True)
    table = store.open_database("data").define_table(
        TableDefinition("T", attributes=(Attribute("id", "ID", primary_key=True), made, changed))
    )
    clock.step(step)
    put(store, table, "a", x=1)
    clock.step(-step)
    clock.advance(1)
    expected = int(clock.wall() * 1000) + (0 if is_wall else (step - 1) * 1000)
    put(store, table, "b", x=1)
    assert stored(table, "b") == {"x": 1, "id": "b", "made": expected, "changed": expected}
    transaction, _ = begin(store)
    transaction.patch(table, "a", {"x": 2})
    transaction.apply()
    store.commit_turn()
    assert stored(table, "a") == {"x": 2, "id": "a", "made": int(clock.wall() * 1000) + (step - 1) * 1000, "changed": expected}


def precondition_cases(good: str) -> list[tuple[Precondition, bool, bool]]:
    """(precondition, holds for the record with the tag `good` of version 1767225600000, holds for no record)."""
    return [
        (Precondition(), True, True),
        (Precondition(if_match=(good,)), True, False),
        (Precondition(if_match=("x", good)), True, False),
        (Precondition(if_match=("x",)), False, False),
        (Precondition(if_match=()), False, False),
        (Precondition(if_match="*"), True, False),
        (Precondition(if_none_match=(good,)), False, True),
        (Precondition(if_none_match=("x",)), True, True),
        (Precondition(if_none_match="*"), False, True),
        (Precondition(if_unmodified_since=1767225600.0), True, True),
        (Precondition(if_unmodified_since=1767225599.0), False, True),
        (Precondition(if_match=(good,), if_unmodified_since=1.0), True, False),
    ]


@pytest.mark.parametrize("number", range(12))
@pytest.mark.parametrize("verb", ["put", "patch", "delete"])
def test_preconditions_are_tested_where_the_write_happens(store: Store, seats: Table, number: int, verb: str) -> None:
    put(store, seats, "A1", price=1)
    condition, with_record, without = precondition_cases(tag(seats, "A1"))[number]
    for key, holds in (("A1", with_record), ("B1", without)):
        transaction, _ = begin(store)
        if verb == "delete":
            transaction.delete(seats, key, condition)
        else:
            getattr(transaction, verb)(seats, key, {"price": 2}, condition)
        if holds:
            transaction.apply()
            store.commit_turn()
            assert stored(seats, key) == (None if verb == "delete" else {"price": 2, "code": key})
        else:
            with pytest.raises(PreconditionFailed):
                transaction.apply()
    store.check()


def test_of_two_racing_writers_one_fails(store: Store, seats: Table) -> None:
    put(store, seats, "A1", price=1)
    condition = Precondition(if_match=(tag(seats, "A1"),))
    first, _ = begin(store)
    first.put(seats, "A1", {"price": 2}, condition)
    second, _ = begin(store)
    second.put(seats, "A1", {"price": 3}, condition)
    first.apply()
    with pytest.raises(PreconditionFailed):
        second.apply()
    store.commit_turn()
    assert stored(seats, "A1") == {"price": 2, "code": "A1"}


def test_what_the_writes_leave_can_be_looked_at_and_refused(store: Store, seats: Table) -> None:
    put(store, seats, "A1", price=1, tags=["old"])
    seen: list[tuple[Any, int]] = []
    first, outcome = begin(store)
    first.patch(seats, "A1", {"price": 2})

    def look(txn: Any) -> None:
        raw = seats.get_raw("A1", txn)
        assert raw is not None
        seen.append((decode(raw), seats.record_count(txn)))

    first.inspect = look
    first.apply()
    second, _ = begin(store)
    second.put(seats, "B1", {})
    second.delete(seats, "A1")

    def refuse(txn: Any) -> None:
        assert seats.get_raw("A1", txn) is None
        raise PreconditionFailed("no")

    second.inspect = refuse
    with pytest.raises(PreconditionFailed):
        second.apply()
    assert second.failed_at is None
    store.commit_turn()
    assert seen == [({"price": 2, "tags": ["old"], "code": "A1"}, 1)] and outcome == [None]
    assert stored(seats, "B1") is None and stored(seats, "A1") is not None
    store.check()


def test_abort(store: Store, seats: Table) -> None:
    transaction, outcome = begin(store)
    transaction.put(seats, "A1", {})
    transaction.abort()
    with pytest.raises(ClientError):
        transaction.put(seats, "A1", {})
    with pytest.raises(ClientError):
        transaction.apply()
    assert not store.has_pending and outcome == []


def test_a_transaction_can_be_used_again(store: Store, seats: Table) -> None:
    transaction, outcome = begin(store)
    transaction.put(seats, "A1", {})
    transaction.apply()
    store.commit_turn()
    version = transaction.version
    transaction.put(seats, "B1", {})
    transaction.on_done = outcome.append
    transaction.apply()
    store.commit_turn()
    assert outcome == [None, None] and transaction.version > version and stored(seats, "B1") is not None


def test_a_transaction_without_writes_is_told_too(store: Store, seats: Table) -> None:
    transaction, outcome = begin(store)
    transaction.apply()
    assert store.has_pending
    store.commit_turn()
    assert outcome == [None]


def test_bad_keys_are_refused_when_collected(store: Store, seats: Table) -> None:
    transaction, _ = begin(store)
    bad: list[Any] = [None, True, {}, "k" * 660]
    for key in bad:
        with pytest.raises(BadValue):
            transaction.put(seats, key, {})
    assert not transaction.has_writes


def test_what_cannot_be_encoded_undoes_the_transaction(store: Store, seats: Table) -> None:
    transaction, _ = begin(store)
    transaction.put(seats, "A1", {"price": 1})
    transaction.put(seats, "B1", {"odd": object()})
    with pytest.raises(BadValue):
        transaction.apply()
    store.commit_turn()
    assert stored(seats, "A1") is None
    store.check()


def test_two_databases(store: Store, seats: Table, open_store: Callable[..., Store]) -> None:
    other = store.open_database("archive").define_table(seats.definition)
    transaction, outcome = begin(store)
    transaction.put(seats, "A1", {"price": 1})
    transaction.put(other, "A1", {"price": 2})
    transaction.apply()
    assert len(transaction.databases) == 2
    store.commit_turn()
    assert outcome == [None] and stored(seats, "A1") == {"price": 1, "code": "A1"} and stored(other, "A1") == {"price": 2, "code": "A1"}
    failing, _ = begin(store)
    failing.put(seats, "B1", {"price": 1})
    failing.create(other, "A1", {"price": 2})
    with pytest.raises(RecordExists):
        failing.apply()
    store.commit_turn()
    assert stored(seats, "B1") is None
    store.check()


def test_writers_of_an_earlier_database_are_opened_after_a_commit(store: Store, seats: Table) -> None:
    """Two processes that open them in different orders would wait for each other."""
    other = store.open_database("archive").define_table(seats.definition)
    first, first_outcome = begin(store)
    first.put(seats, "A1", {})
    first.apply()
    assert stored(seats, "A1") is None
    second, second_outcome = begin(store)
    second.put(other, "A1", {})
    second.apply()
    assert not seats.database.env.has_writer and stored(seats, "A1") is None, "committed, but the turn's snapshots stay what they are"
    assert first_outcome == []
    store.commit_turn()
    assert first_outcome == second_outcome == [None]
    assert stored(seats, "A1") is not None and stored(other, "A1") is not None and not other.database.env.has_writer


# --- many records at once --------------------------------------------------------------------------------------------------------------


def many(transaction: Transaction, table: Table, count: int, *, create: bool, revision: int = 0) -> None:
    for number in range(count):
        record = {"price": number % 7 + revision, "tags": [f"t{number % 3}", f"r{revision}"], "place": None if number % 5 else "x"}
        if create:
            transaction.create(table, f"S{number:03}", record)
        else:
            transaction.put(table, f"S{number:03}", record)


def test_many_records_in_one_transaction(store: Store, seats: Table) -> None:
    count = 100
    put(store, seats, "S003", price=99, tags=["old"])
    transaction, outcome = begin(store)
    many(transaction, seats, count, create=False)
    transaction.apply()
    store.commit_turn()
    assert outcome == [None]
    assert seats.record_count() == count
    assert stored(seats, "S003") == {"price": 3, "tags": ["t0", "r0"], "place": None, "code": "S003"}
    store.check()
    again, _ = begin(store)
    many(again, seats, count, create=False, revision=1)
    again.apply()
    store.commit_turn()
    store.check()
    assert seats.database.log.count(seats.database.snapshot()) == 1 + 2 * count


def test_many_new_records_are_refused_together_if_one_exists(store: Store, seats: Table) -> None:
    put(store, seats, "S050", price=1)
    transaction, _ = begin(store)
    many(transaction, seats, 100, create=True)
    with pytest.raises(RecordExists):
        transaction.apply()
    other, outcome = begin(store)
    other.put(seats, "other", {})
    other.apply()
    store.commit_turn()
    assert outcome == [None]
    assert seats.record_count() == 2
    store.check()


def test_one_key_twice_among_many(store: Store, seats: Table) -> None:
    transaction, _ = begin(store)
    many(transaction, seats, 40, create=False)
    transaction.put(seats, "S001", {"price": 1000})
    transaction.apply()
    store.commit_turn()
    assert stored(seats, "S001") == {"price": 1000, "code": "S001"}
    store.check()
    twice, _ = begin(store)
    many(twice, seats, 40, create=True, revision=5)
    twice.create(seats, "S001", {})
    with pytest.raises(RecordExists):
        twice.apply()
    store.check()


def test_a_cache_loaded_between_many_writes_and_their_commit_learns_of_them(store: Store, seats: Table) -> None:
    put(store, seats, "A1", price=3)
    transaction, _ = begin(store)
    many(transaction, seats, 50, create=True)
    transaction.apply()
    index = seats.indexes["price"]
    low, high = index_key(2), index_key(5)
    before = index.count(seats.database.snapshot(), low, high)  # loads the cache, from the state before the turn
    store.maintenance(0.1)
    store.commit_turn()
    after = index.count(seats.database.snapshot(), low, high)
    assert before == 1
    assert after == 1 + sum(2 <= number % 7 < 5 for number in range(50))
    store.check()


def test_many_records_keep_their_creation_time(open_store: Callable[..., Store], clock: FakeClock) -> None:
    store = open_store()
    definition = TableDefinition(
        "T", attributes=(Attribute("id", "ID", primary_key=True), Attribute("made", "Float", created_time=True)), primary_key="id"
    )
    table = store.open_database("data").define_table(definition)
    for _ in range(2):
        transaction, _ = begin(store)
        for number in range(20):
            transaction.put(table, str(number), {})
        transaction.apply()
        store.commit_turn()
        clock.advance(10)
    made = stored(table, "7")
    assert made is not None
    assert made["made"] < clock.wall() * 1000 - 15_000


# -- writes that are skipped


def test_insert_makes_only_new_records(store: Store, seats: Table) -> None:
    put(store, seats, "A1", price=1)
    transaction, _ = begin(store)
    assert transaction.insert(seats, "A1", {"price": 2}) == "A1"
    assert transaction.insert(seats, "B1", {"price": 3}) == "B1"
    assert transaction.insert(seats, "B1", {"price": 4}) == "B1"
    made = transaction.insert(seats, None, {"price": 5})
    transaction.apply()
    assert transaction.skipped == ["A1", "B1"], "in the order in which they were asked for"
    store.commit_turn()
    assert [stored(seats, key) for key in ("A1", "B1", made)] == [
        {"price": 1, "code": "A1"},
        {"price": 3, "code": "B1"},
        {"price": 5, "code": made},
    ]
    transaction.apply()
    assert transaction.skipped == []
    store.check()


def test_update_merges_into_what_is_there(store: Store, seats: Table) -> None:
    put(store, seats, "A1", price=1, place="x")
    transaction, _ = begin(store)
    transaction.update(seats, "A1", {"code": "ignored", "price": 2})
    transaction.update(seats, "B1", {"price": 3})
    transaction.insert(seats, "C1", {"price": 4})
    transaction.update(seats, "C1", {"place": "y"})
    transaction.delete(seats, "C1")
    transaction.update(seats, "C1", {"place": "z"})
    transaction.apply()
    store.commit_turn()
    assert transaction.skipped == ["B1", "C1"] and transaction.deleted == 1
    assert stored(seats, "A1") == {"price": 2, "place": "x", "code": "A1"} and stored(seats, "B1") is stored(seats, "C1") is None
    store.check()


def test_upsert_merges_or_makes(store: Store) -> None:
    definition = TableDefinition(
        "T", attributes=(Attribute("id", primary_key=True), Attribute("a", "Int", required=True), Attribute("b", "Int"))
    )
    table = store.open_database("data").define_table(definition)
    transaction, _ = begin(store)
    assert transaction.upsert(table, None, {"a": 1}) is None and transaction.upsert(table, None, {"a": 2}) is None
    transaction.apply()
    first, second = transaction.assigned
    assert first + 1 == second  # type: ignore[operator]
    transaction.upsert(table, first, {"b": 3})
    transaction.apply()
    store.commit_turn()
    assert transaction.skipped == [] and transaction.assigned == []
    assert stored(table, first) == {"a": 1, "b": 3, "id": first}
    transaction, _ = begin(store)
    transaction.upsert(table, second, {"b": 4})
    transaction.upsert(table, "new", {"b": 5})
    with pytest.raises(ValidationError, match="a is required"):
        transaction.apply()
    assert stored(table, second) == {"a": 2, "id": second}
    store.check()


def test_an_expired_record_is_no_record(store: Store, seats: Table, clock: FakeClock) -> None:
    soon = clock.wall() * 1000 + 1000
    transaction, _ = begin(store)
    for key in ("A1", "B1", "C1"):
        transaction.insert(seats, key, {"price": 1, "place": "x"}, expires_at=soon)
    transaction.apply()
    store.commit_turn()
    transaction.update(seats, "C1", {"price": 2}, expires_at=soon + 5000)
    transaction.apply()
    store.commit_turn()
    clock.advance(2)
    transaction.insert(seats, "A1", {"price": 3})
    transaction.update(seats, "B1", {"price": 3})
    transaction.upsert(seats, "C1", {"price": 3})
    transaction.apply()
    store.commit_turn()
    assert transaction.skipped == ["B1"]
    assert [stored(seats, key) for key in ("A1", "B1", "C1")] == [
        {"price": 3, "code": "A1"},
        None,
        {"price": 3, "place": "x", "code": "C1"},
    ]
    clock.advance(5)
    assert stored(seats, "C1") is None, "an update without an expiry keeps the one there is"
    store.check()


def test_what_will_be_skipped_is_not_seen(store: Store, seats: Table) -> None:
    put(store, seats, "A1", price=1)
    transaction, _ = begin(store)
    transaction.insert(seats, "A1", {"price": 2})
    transaction.update(seats, "B1", {"price": 3})
    raw = transaction.get_raw(seats, "A1")
    assert raw is not None and decode(raw)["price"] == 1 and transaction.get_raw(seats, "B1") is None
    transaction.insert(seats, "B1", {"price": 4})
    transaction.update(seats, "B1", {"place": "y"})
    raw = transaction.get_raw(seats, "B1")
    assert raw is not None and decode(raw) == {"price": 4, "code": "B1", "place": "y"}
    transaction.abort()


def test_deleting_what_is_not_there_is_noted(store: Store, seats: Table) -> None:
    put(store, seats, "A1", price=1)
    transaction, _ = begin(store)
    transaction.delete(seats, "B1")
    transaction.delete(seats, "A1")
    transaction.delete(seats, "A1")
    transaction.apply()
    store.commit_turn()
    assert transaction.skipped == ["B1", "A1"] and transaction.deleted == 1


@pytest.mark.parametrize("number", range(4))
def test_the_log_tells_which_operation_it_was(store: Store, seats: Table, number: int) -> None:
    transaction = Transaction(store, "anna", number)
    transaction.insert(seats, "A1", {"price": 1})
    transaction.update(seats, "A1", {"price": 2})
    transaction.delete(seats, "A1")
    transaction.apply()
    store.commit_turn()
    entries = list(seats.database.log.read(seats.database.snapshot()))
    assert [(entry.kind, entry.operation) for entry in entries] == [(PUT, number), (PATCH, number), (DELETE, number)]


def test_long_lists_are_compared_in_linear_time(store: Store, seats: Table) -> None:
    """Comparing 40,000 values with 40,000 others one by one would be 800 million comparisons: minutes."""
    first, second = ([f"t{number}" for number in range(start, start + 40_000)] for start in (0, 20_000))
    put(store, seats, "A1", tags=first)
    put(store, seats, "A1", tags=second)
    index = seats.indexes["tags"]
    assert index.count(seats.database.snapshot()) == 40_000
    store.check()


def test_a_write_that_cannot_be_logged_does_not_happen(store: Store, seats: Table) -> None:
    """As if memory were behind the log: LMDB then refuses to append, by no more than what `put` returns."""
    put(store, seats, "A1", price=1)
    put(store, seats, "A2", price=2)
    log = seats.database.log
    log.last_lsn -= 1
    transaction, outcome = begin(store)
    transaction.put(seats, "A3", {"price": 3})
    with pytest.raises(StoreFailure, match="nothing was written"):
        transaction.apply()
    store.commit_turn()
    assert stored(seats, "A3") is None and outcome == []
    assert log.last_lsn == 2, "where the log ends has not been looked up"
    put(store, seats, "A3", price=4)
    assert [entry.id for entry in log.read(seats.database.snapshot())] == ["A1", "A2", "A3"]
    store.check()


@pytest.mark.parametrize("number", [1, 60])
def test_an_increment_is_logged_as_one_also_where_there_is_no_record(store: Store, seats: Table, number: int) -> None:
    """What it resulted in would be an assignment to those who read the log."""
    transaction, _ = begin(store)
    for index in range(number):
        transaction.patch(seats, f"A{index}", {"stock": Add(3), "place": "x"})
    transaction.apply()
    store.commit_turn()
    assert stored(seats, "A0") == {"code": "A0", "stock": 3, "place": "x"}
    for entry in seats.database.log.read(seats.database.snapshot()):
        assert entry.kind == PATCH and entry.value is not None and entry.image is None
        assert decode(entry.value) == {"code": entry.id, "stock": {"__op__": "add", "value": 3}, "place": "x"}
        assert set(entry.changed) == {"code", "stock", "place"}
    store.check()
