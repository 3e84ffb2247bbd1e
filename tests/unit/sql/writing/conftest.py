"""Tables to write to, and statements."""

from collections.abc import Callable, Iterator

import pytest

from svc.clock import FakeClock
from svc.store import Store, Table
from svc.store.schema import Attribute, Check, Enumeration, Relationship, Structure, TableDefinition
from tests.support.fakes import TickingClock
from tests.support.sql_writes import Sql
from tests.unit.store.writing.test_long_write import Turns

ITEM = TableDefinition(
    "Item",
    attributes=(
        Attribute("id", "Int", primary_key=True),
        Attribute("n", "Int", indexed=True),
        Attribute("name", "String"),
        Attribute("flag", "Boolean"),
        Attribute("day", "Date", indexed=True),
        Attribute("tags", "String", elements=True),
        Attribute("data", "Bytes"),
        Attribute("big", "BigInt"),
        Attribute("ratio", "Float"),
        Attribute("place", "Place"),
        Attribute("any"),
        Attribute("double", "Int", computed_from="n * 2"),
    ),
    structures=(Structure("Place", (Attribute("city", "String", required=True), Attribute("days", "Date", elements=True))),),
)

STRICT = TableDefinition(
    "Strict",
    attributes=(
        Attribute("key", "ID", primary_key=True),
        Attribute("mail", "String", indexed=True, unique=True),
        Attribute("nick", "String", indexed=True, unique=True, elements=True),
        Attribute("must", "String", required=True, default='"default"'),
        Attribute("need", "Int", required=True),
        Attribute("color", "String", enum=Enumeration("Color", ("RED", "BLUE"))),
        Attribute("small", "Int", check=Check("small < 10", "small is small")),
        Attribute("made", "Date", created_time=True),
        Attribute("changed", "Float", updated_time=True),
        Attribute("label", "String", computed_from="must"),
    ),
    primary_key="key",
)

LOOSE = TableDefinition(
    "Loose",
    attributes=(
        Attribute("id", primary_key=True),
        Attribute("__createdtime__", "Float", created_time=True, indexed=True),
        Attribute("__updatedtime__", "Float", updated_time=True, indexed=True),
    ),
    dynamic=True,
)


@pytest.fixture
def clock() -> FakeClock:
    return TickingClock(looks_a_slice=5)


@pytest.fixture
def items(store: Store) -> Table:
    return store.open_database("data").define_table(ITEM)


@pytest.fixture
def strict(store: Store) -> Table:
    return store.open_database("data").define_table(STRICT)


@pytest.fixture
def loose(store: Store) -> Table:
    return store.open_database("data").define_table(LOOSE)


@pytest.fixture
def children(store: Store, items: Table) -> Callable[[str], Table]:
    """Tables whose records refer to items, by what becomes of them when one is deleted."""

    def define(on_delete: str) -> Table:
        return items.database.define_table(
            TableDefinition(
                f"Child_{on_delete}",
                attributes=(
                    Attribute("id", "Int", primary_key=True),
                    Attribute("itemId", "Int", indexed=True),
                    Attribute("item", "Item", relationship=Relationship("Item", "itemId", None, on_delete)),
                ),
            )
        )

    return define


@pytest.fixture
def sql(store: Store) -> Iterator[Sql]:
    found = Sql(store)
    yield found
    assert found.engine.reads == 0, "a query was left open"
    assert all(database.env.holder is None for database in store.databases.values())
    found.close()
    store.check()


@pytest.fixture
def turns(store: Store) -> Iterator[Turns]:
    turns = Turns(store)
    yield turns
    turns.close()


@pytest.fixture
def counted(sql: Sql, turns: Turns, items: Table) -> Table:
    """80 records, whose n is 0."""
    turns.finish(sql.whole("INSERT INTO data.Item (id, n) VALUES " + ", ".join(f"({number}, 0)" for number in range(80))))
    turns.turn()
    return items
