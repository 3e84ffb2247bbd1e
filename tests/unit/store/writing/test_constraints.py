"""`@unique` and `@check`: what is refused, on each path of writing, and what is not."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from svc.apps.schema_files import load_schema_files
from svc.clock import FakeClock
from svc.errors import CheckFailed, ClientError, NotUnique, SchemaError, ServerError
from svc.store import Store, Table
from svc.store.caching.copies import FetchedAnswer, State
from svc.store.schema import Attribute, Check, TableDefinition
from svc.store.values import checks
from svc.store.values.records import decode
from svc.store.values.validation import Add
from svc.store.writing import bulk_write, constraints
from svc.store.writing.bulk_write import load_records
from svc.store.writing.transaction import Transaction
from tests.unit.store.writing.test_long_write import Turns

SCHEMA = """
type T @table @check(expr: "low <= high if low is not None and high is not None else None", message: "low is above high") {
  id: ID @primaryKey
  mail: String @unique
  tags: [String] @unique
  any: Any @unique
  first: String
  last: String
  name: String @computed(from: "first + ' ' + last") @unique
  n: Int @check(expr: "n >= 0")
  kind: String @check(expr: "kind in ['a', 'b'] or n > 3", message: "is not a kind")
  low: Int
  high: Int
  changed: Long @updatedTime @check(expr: "changed > 1000")
}
"""


@pytest.fixture
def table(open_store: Callable[..., Store]) -> Iterator[Table]:
    yield define(open_store())


def define(store: Store, text: str = SCHEMA) -> Table:
    result = load_schema_files([("a", text)])
    assert not result.faults
    return store.open_database("data").define_table(result.definitions[0])


def begin(table: Table) -> Transaction:
    return table.database.store.begin()


def put(transaction: Transaction, table: Table, key: str, **record: Any) -> None:
    transaction.put(table, key, table.validator.record(record, source="native"))


def patch(transaction: Transaction, table: Table, key: str, **changes: Any) -> None:
    transaction.patch(table, key, table.validator.changes(changes, source="native"))


def do(table: Table, *calls: tuple[Callable[..., None], str, dict[str, Any]]) -> None:
    """One transaction, committed; nothing of it is there if it fails."""
    transaction = begin(table)
    for call, key, record in calls:
        call(transaction, table, key, **record)
    try:
        table.database.store.commit_now(transaction)
    finally:
        table.database.store.commit_turn()
        table.database.check()


def write(table: Table, key: str, **record: Any) -> None:
    do(table, (put, key, record))


def refused(call: Callable[[], object]) -> NotUnique:
    with pytest.raises(NotUnique) as caught:
        call()
    return caught.value


def keys(table: Table) -> list[Any]:
    table.database.env.end_snapshot()
    return [table.key_of(raw) for _, raw in table.scan(table.database.snapshot())]


# --- unique ------------------------------------------------------------------------------------------------------------------------------


def test_the_problem_says_what_and_keeps_the_key_to_itself(table: Table) -> None:
    write(table, "1", mail="a@b")
    problem = refused(lambda: write(table, "2", mail="a@b"))
    assert (problem.status_code, problem.code, problem.key) == (409, "NOT_UNIQUE", "1")
    assert problem.message == 'Value "a@b" in property mail is that of another record'
    assert problem.explained().message == 'Value "a@b" in property mail is that of another record of T: "1"'
    assert keys(table) == ["1"]


def test_a_record_may_keep_its_own_value_and_give_it_up(table: Table) -> None:
    write(table, "1", mail="a")
    write(table, "1", mail="a")
    do(table, (patch, "1", {"mail": "a", "n": 1}))
    do(table, (patch, "1", {"mail": "b"}))
    write(table, "2", mail="a")
    do(table, (lambda transaction, table, key: transaction.delete(table, key), "2", {}))
    write(table, "3", mail="a")


def test_null_and_missing_are_no_values(table: Table) -> None:
    for key in "123":
        write(table, key, mail=None, tags=[None, None], any={"a": 1})
    write(table, "4")


@pytest.mark.parametrize(
    ("one", "other", "equal"),
    [
        (1, 1.0, True), (1, "1", False), (1, True, False), (0, -0.0, True), (2**60, float(2**60), True), (2**60, 2**60 + 1, False),
        ("a", "A", False), ("é", "e\u0301", False), ([1, 2], [3, 2], True), ([1, 2], [3, 4], False), ([[1]], [1], False), (5, [5], True),
        (b"a", b"a", True), (b"a", "a", False),
    ],
)  # fmt: skip
def test_which_values_are_equal(table: Table, one: Any, other: Any, equal: bool) -> None:
    write(table, "1", any=one)
    if equal:
        refused(lambda: write(table, "2", any=other))
    else:
        write(table, "2", any=other)


def test_lists_by_each_element(table: Table) -> None:
    write(table, "1", tags=["a", "b", "a"])
    assert refused(lambda: write(table, "2", tags=["c", "b"])).value == '"b"'
    write(table, "2", tags=["c"])
    do(table, (patch, "1", {"tags": ["a"]}), (patch, "2", {"tags": ["b", "c"]}))
    refused(lambda: do(table, (patch, "1", {"tags": ["a", "c"]})))


def test_long_strings_are_compared_in_full(table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    start = "x" * 300
    write(table, "1", mail=start + "1", tags=[start + "1", start + "2"])
    write(table, "2", mail=start + "2", tags=[start + "3"])
    assert refused(lambda: write(table, "3", mail=start + "2")).key == "2"
    assert refused(lambda: write(table, "3", tags=[start + "3"])).key == "2"
    monkeypatch.setattr(constraints, "MOST_COMPARED", 1)
    write(table, "3", mail="short")
    with pytest.raises(ClientError, match="More than 1 records have a value of mail that begins like this one") as caught:
        write(table, "3", mail=start + "4")
    assert (caught.value.status_code, caught.value.code) == (409, "KEY_CONFLICT")


def test_two_records_can_exchange_their_values(table: Table) -> None:
    write(table, "1", mail="a", tags=["x"])
    write(table, "2", mail="b", tags=["y", "z"])
    do(table, (patch, "1", {"mail": "b", "tags": ["z"]}), (patch, "2", {"mail": "a", "tags": ["x"]}))
    refused(lambda: do(table, (patch, "1", {"mail": "a"}), (patch, "2", {"mail": "a"})))
    do(table, (put, "3", {"mail": "b"}), (lambda transaction, table, key: transaction.delete(table, key), "1", {}))
    assert keys(table) == ["2", "3"]


def test_many_values_can_change_hands(table: Table) -> None:
    many = [f"t{number}" for number in range(3000)]
    write(table, "1", tags=many)
    do(table, (patch, "2", {"tags": many}), (patch, "1", {"tags": many[:0]}))
    refused(lambda: do(table, (patch, "1", {"tags": many[-1:]})))


def test_within_one_transaction_the_later_one_is_at_fault(table: Table) -> None:
    transaction = begin(table)
    for key, mail in (("1", "a"), ("2", "b"), ("3", "a"), ("4", "c")):
        put(transaction, table, key, mail=mail)
    problem = refused(transaction.apply)
    assert (problem.key, transaction.failed_at) == ("1", 2)


def test_other_transactions_of_the_turn_are_not_undone(table: Table) -> None:
    store = table.database.store
    first, second, third = begin(table), begin(table), begin(table)
    for transaction, key, mail in ((first, "1", "a"), (second, "2", "a"), (third, "3", "b")):
        put(transaction, table, key, mail=mail)
    first.apply()
    refused(second.apply)
    third.apply()
    store.commit_turn()
    assert keys(table) == ["1", "3"]


def test_an_expired_record_does_not_count_and_goes(table: Table, clock: FakeClock) -> None:
    transaction = begin(table)
    transaction.put(table, "1", {"mail": "a"}, expires_at=clock.wall() * 1000 + 500)
    table.database.store.commit_now(transaction)
    refused(lambda: write(table, "2", mail="a"))
    clock.advance(1)
    write(table, "2", mail="a")
    assert table.entry_count(table.database.snapshot()) == 1
    refused(lambda: do(table, (patch, "1", {"mail": "a"})))  # it would be made again


def test_computed_values(table: Table) -> None:
    write(table, "1", first="Ada", last="King")
    assert refused(lambda: write(table, "2", first="Ada", last="King")).attribute == "name"
    write(table, "2", first="Ada", last="Kong")
    assert refused(lambda: do(table, (patch, "2", {"last": "King"}))).value == '"Ada King"'
    write(table, "3", first="Ada")


def test_long_writes(table: Table) -> None:
    turns = Turns(table.database.store)
    write(table, "x", mail="m5")

    async def run(mails: list[str]) -> None:
        transaction = begin(table)
        for number, mail in enumerate(mails):
            put(transaction, table, str(number), mail=mail)
        await transaction.apply_long()

    with pytest.raises(NotUnique) as caught:
        turns.finish(run([f"m{number}" for number in range(60)]))
    assert caught.value.key == "x"
    with pytest.raises(NotUnique):
        turns.finish(run(["a", "b", "a"]))
    turns.finish(run([f"n{number}" for number in range(60)]))
    turns.finish(run([f"n{59 - number}" for number in range(60)]))
    turns.close()
    table.database.check()


@pytest.mark.parametrize("mode", ["insert", "upsert"])
def test_loads_leave_out_what_is_refused(table: Table, mode: Any) -> None:
    start = "x" * 300
    write(table, "0", mail="taken", first="a", last="b")
    rows: list[Any] = [{"id": f"k{number:03}", "mail": f"m{number}"} for number in range(100)]
    rows += [{"id": "l1", "mail": "m3"}, {"id": "l2", "mail": "taken"}, {"id": "l3", "n": -1}, {"id": "l4", "first": "a", "last": "b"}]
    rows += [{"id": "l5", "tags": [start + "1"]}, {"id": "l6", "tags": [start + "1", "q"]}, {"id": "l7", "tags": [start + "2", "q"]}]
    turns = Turns(table.database.store)
    result = turns.finish(bulk_write.bulk_write(table, rows, mode=mode))
    turns.close()
    assert (result.written, result.failed, result.skipped) == (102, 5, 0)
    assert [(each.number, each.message) for each in result.errors] == [
        (101, 'Value "m3" in property mail is that of another record'),
        (102, 'Value "taken" in property mail is that of another record'),
        (103, "Property n fails its check: n >= 0"),
        (104, 'Value "a b" in property name is that of another record'),
        (106, f'Value "{"x" * 100}..." in property tags is that of another record'),
    ]
    table.database.check()


def test_changes_of_a_load_are_judged_one_by_one(table: Table) -> None:
    write(table, "1", mail="a", n=1)
    write(table, "2", mail="b", n=1)
    rows: list[Any] = [
        {"id": "1", "mail": "b"},
        {"id": "1", "n": Add(-2)},
        {"id": "1", "n": Add(1)},
        {"id": "2", "mail": "c"},
        {"id": "1", "mail": "d"},
    ]
    turns = Turns(table.database.store)
    result = turns.finish(bulk_write.bulk_write(table, rows, mode="update"))
    turns.close()
    assert (result.written, [each.number for each in result.errors]) == (3, [1, 2])
    table.database.check()
    raw = table.get_raw("1")
    assert raw is not None and decode(raw)["mail"] == "d" and decode(raw)["n"] == 2


def test_replacing_loads_are_refused_as_a_whole(table: Table) -> None:
    with pytest.raises(NotUnique):
        list(load_records(table, [{"id": "1", "mail": "a"}, {"id": "2", "mail": "a"}]))
    assert keys(table) == []
    assert list(load_records(table, [{"id": "1", "mail": "a"}])) == [1]


def test_while_the_index_is_built_only_what_is_known_is_decided(table: Table) -> None:
    write(table, "1", mail="a")
    table.indexes["mail"].progress = b""
    with pytest.raises(ServerError) as caught:
        do(table, (put, "2", {"mail": "b"}))
    assert (caught.value.status_code, caught.value.code, caught.value.retryable) == (503, "INDEX_REBUILDING", True)
    refused(lambda: do(table, (put, "2", {"mail": "a"})))
    do(table, (patch, "1", {"n": 2}), (put, "3", {}))
    table.indexes["mail"].progress = None


def test_copies_of_what_a_source_has_are_not_tested(table: Table) -> None:
    write(table, "1", mail="a", n=1)
    transaction = begin(table)
    for key in ("2", "3"):
        transaction.store_fetched(table, key, FetchedAnswer(State.NEW, 1 << 40, 5.0), {"id": key, "mail": "a", "n": -1})
    table.database.store.commit_now(transaction)
    assert keys(table) == ["1", "2", "3"]


# --- declaring unique on what is there -----------------------------------------------------------------------------------------------


def test_duplicates_are_an_error_of_the_schema_and_nothing_changes(open_store: Callable[..., Store], clock: FakeClock) -> None:
    plain = "type T @table { id: ID @primaryKey a: Any %s b: String c: String @computed(from: \"b + '!'\") %s }"
    start = "x" * 300
    for indexed in ("@indexed", ""):
        store = open_store()
        database = store.open_database("data")
        if "T" in database.tables:
            database.drop_table("T")
        table = define(store, plain % (indexed, indexed))
        transaction = begin(table)
        for key, value in (
            ("1", "a"),
            ("2", "a"),
            ("3", ["b", 1]),
            ("4", 1.0),
            ("5", start + "1"),
            ("6", start + "2"),
            ("7", None),
            ("8", None),
        ):
            transaction.put(table, key, {"a": value, "b": value if type(value) is str else None})
        transaction.put(table, "9", {"a": "b"}, expires_at=clock.wall() * 1000 - 1)
        store.commit_now(transaction)
        before = table.definition
        with pytest.raises(SchemaError) as caught:
            define(store, plain % ("@unique", ""))
        assert caught.value.message == 'T.a cannot be @unique: 2 values are that of several records: 1 ("3", "4"), "a" ("1", "2")'
        with pytest.raises(SchemaError, match=r'T.c cannot be @unique: 1 value is that of several records: "a!" \("1", "2"\)'):
            define(store, plain % ("", "@unique"))
        assert table.definition == before and ("a" in table.indexes) is bool(indexed)
        database.check()
        do(table, (patch, "2", {"a": "z", "b": "z"}), (patch, "4", {"a": 2}))
        assert define(store, plain % ("@unique", "@unique")) is table
        refused(lambda table=table: do(table, (patch, "2", {"a": 2})))  # type: ignore[misc]
        database.check()


def test_a_check_holds_from_the_next_write_on(open_store: Callable[..., Store]) -> None:
    plain = "type T @table { id: ID @primaryKey a: Int %s b: Int }"
    store = open_store()
    table = define(store, plain % "")
    do(table, (put, "1", {"a": -1}))
    define(store, plain % '@check(expr: "a > 0")')
    do(table, (patch, "1", {"b": 2}))
    with pytest.raises(CheckFailed):
        do(table, (patch, "1", {"a": -2}))
    with pytest.raises(CheckFailed):
        do(table, (put, "1", {"a": -1}))


# --- check -------------------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("record", "failures"),
    [
        ({"n": 0}, []),
        ({"n": None}, []),
        ({"n": -1}, ["Property n fails its check: n >= 0"]),
        ({"kind": "a"}, []),
        ({"kind": "c", "n": 4}, []),
        ({"kind": "c", "n": 1}, ["Property kind: is not a kind"]),
        ({"kind": "c"}, ["Property kind: is not a kind (it cannot be computed for this record: n is null)"]),
        ({"low": 1, "high": 1}, []),
        ({"low": 2}, []),
        ({"low": 2, "high": 1, "n": -5}, ["Property n fails its check: n >= 0", "low is above high"]),
    ],
)
def test_checks(table: Table, record: dict[str, Any], failures: list[str]) -> None:
    def expect(call: Callable[[], object]) -> None:
        if not failures:
            call()
            return
        with pytest.raises(CheckFailed) as caught:
            call()
        problem = caught.value
        assert (problem.status_code, problem.code, list(problem.errors)) == (400, "CHECK_FAILED", failures)
        assert problem.message == ". ".join(failures)

    expect(lambda: write(table, "1", **record))
    expect(lambda: do(table, (patch, "2", record)))
    write(table, "3")
    expect(lambda: do(table, (patch, "3", record)))


def test_a_check_sees_the_record_as_it_is_stored(table: Table) -> None:
    write(table, "1", n=2, low=1, high=5)
    do(table, (patch, "1", {"n": Add(-2)}))
    with pytest.raises(CheckFailed, match="Property n fails its check"):
        do(table, (patch, "1", {"n": Add(-1)}))
    with pytest.raises(CheckFailed, match="low is above high"):
        do(table, (patch, "1", {"high": 0}))
    do(table, (patch, "1", {"n": Add(2)}), (patch, "1", {"n": Add(-2)}))
    with pytest.raises(CheckFailed):  # each write is tested, not their sum
        do(table, (patch, "1", {"n": Add(-2)}), (patch, "1", {"n": Add(2)}))


def test_what_takes_too_much_work_is_refused(open_store: Callable[..., Store]) -> None:
    table = define(
        open_store(), 'type T @table { id: ID @primaryKey a: [Int] @check(expr: "len([x for x in a for y in a for z in a]) > 0") }'
    )
    do(table, (put, "1", {"a": [1]}))
    with pytest.raises(CheckFailed, match="cannot be computed for this record"):
        do(table, (put, "2", {"a": [1] * 1000}))


def test_a_check_of_another_version_refuses_what_it_could_have(open_store: Callable[..., Store], monkeypatch: pytest.MonkeyPatch) -> None:
    """Its expression is stored and cannot be read any more: what it might refuse is not written unchecked. The rest is."""
    attributes = (
        Attribute("id", primary_key=True),
        Attribute("n", "Int", check=Check("n > 0", "must be good")),
        Attribute("name", "String"),
    )
    store = open_store()
    store.open_database("data").define_table(TableDefinition("Old", attributes=attributes))
    store.open_database("data").define_table(TableDefinition("Whole", attributes=attributes[::2], check=Check("name > 'a'")))
    store.close()

    def refuse(text: str) -> Any:
        raise SchemaError("it is not known", 1, 1)

    with monkeypatch.context() as patched:
        patched.setattr(checks, "compile_expression", refuse)
        tables = open_store().open_database("data").tables
    table, whole = tables["Old"], tables["Whole"]
    write(table, "1", name="x")
    with pytest.raises(CheckFailed, match=r"must be good \(this version of svc cannot compute it"):
        write(table, "2", n=1)
    with pytest.raises(CheckFailed, match="cannot compute it"):
        do(table, (patch, "1", {"n": 1}))
    do(table, (patch, "1", {"name": "y"}))
    with pytest.raises(CheckFailed, match="cannot compute it"):
        write(whole, "1", name="x")
    table = table.database.define_table(TableDefinition("Old", attributes=(*attributes[::2], Attribute("n", "Int"))))
    write(table, "2", n=1)


def test_a_table_without_constraints_has_none(open_store: Callable[..., Store]) -> None:
    assert define(open_store(), "type T @table { id: ID @primaryKey a: Int @indexed }").constraints is None
