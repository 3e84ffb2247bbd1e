"""svc.store.writing.preview: code in a transaction reads what it has written exactly as if it were committed.

Of what deletions entail, along relationships, by stamps, counted and grouped as well as by key.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from hypothesis import example, given, settings
from hypothesis import strategies as st

from svc.errors import ClientError
from tests.support.application import Application, application
from tests.support.profile import half_by_day

CODE = "from svc import transaction\n"
SCHEMA = """
type Show @table { id: ID @primaryKey title: String @indexed code: String @unique rank: Int @default(value: 3) seats: [Seat] @relationship(to: "showId")
  made: Date @createdTime changed: Date @updatedTime @indexed }
type Seat @table { id: ID @primaryKey stock: Int price: Float @indexed tags: [String] @indexed double: Float @computed(from: "price * 2") @indexed
  showId: ID @indexed show: Show @relationship(from: "showId", onDelete: cascade) changed: Long @updatedTime @indexed }
type Guest @table { id: Long @primaryKey seatIds: [ID] @indexed seats: [Seat] @relationship(from: "seatIds", onDelete: setNull) name: String
  changed: Date @updatedTime }
type Note @table { id: ID @primaryKey guestId: Long @indexed guest: Guest @relationship(from: "guestId", onDelete: setNull)
  seatId: ID @indexed seat: Seat @relationship(from: "seatId", onDelete: restrict) }
"""
SHOWS, SEATS = st.sampled_from(["f", "m", "x"]), st.sampled_from([f"s{n}" for n in range(5)])
GUESTS, NOTES = st.integers(1, 3), st.sampled_from(["n1", "n2"])


def records(**attributes: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries({}, optional=attributes)


RECORDS = {
    "Show": (SHOWS, records(title=st.sampled_from(["Faust", "Medea"]), code=st.sampled_from(["a", "b"]))),
    "Seat": (
        SEATS,
        records(
            stock=st.integers(0, 4),
            price=st.sampled_from([0, 1.5, 2, 7]),
            tags=st.lists(st.sampled_from(["a", "b"]), max_size=2),
            showId=SHOWS,
        ),
    ),
    "Guest": (GUESTS, records(seatIds=st.lists(SEATS, max_size=3), name=st.just("Ada"))),
    "Note": (NOTES, records(guestId=GUESTS, seatId=SEATS)),
}
WRITE = st.sampled_from(sorted(RECORDS)).flatmap(
    lambda table: st.tuples(st.just(table), st.sampled_from(["put", "patch", "delete"]), RECORDS[table][0], RECORDS[table][1])
)
WRITES = st.lists(WRITE, max_size=8)

T0 = "$T0"  # a time between what was before and the transaction
CONDITIONS: dict[str, list[list[dict[str, Any]]]] = {
    "Show": [
        [],
        [{"attribute": "changed", "comparator": "greater_than", "value": T0}],
        [{"attribute": "made", "comparator": "greater_than", "value": T0}],
        [{"attribute": ["seats", "stock"], "value": 2}],
        [{"attribute": "rank", "value": 3}],
    ],
    "Seat": [
        [],
        [{"attribute": "price", "comparator": "less_than", "value": 3}],
        [{"attribute": "double", "comparator": "greater_than", "value": 3}],
        [{"attribute": "tags", "value": "a"}],
        [{"attribute": "showId", "comparator": "equals", "value": None}],
        [{"attribute": ["show", "title"], "value": "Faust"}],
        [{"attribute": ["show", "seats", "stock"], "value": 1}],
        [{"attribute": "changed", "comparator": "greater_than", "value": T0}],
        [{"operator": "or", "conditions": [{"attribute": "id", "value": "s1"}, {"attribute": "price", "value": 7}]}],
    ],
    "Guest": [[], [{"attribute": "seatIds", "value": "s1"}], [{"attribute": ["seats", "show", "title"], "value": "Faust"}]],
    "Note": [[], [{"attribute": "guestId", "value": None}], [{"attribute": ["seat", "show", "code"], "value": "a"}]],
}
SORTS: dict[str, list[dict[str, Any]]] = {
    "Show": [
        {"attribute": "title", "descending": True, "next": {"attribute": "id"}},
        {"attribute": "changed", "next": {"attribute": "id"}},
    ],
    "Seat": [
        {"attribute": "price", "next": {"attribute": "id"}},
        {"attribute": "stock", "descending": True, "next": {"attribute": "id"}},
        {"attribute": ["show", "title"], "next": {"attribute": "id"}},
    ],
    "Guest": [],
    "Note": [{"attribute": ["guest", "name"], "next": {"attribute": "id"}}],
}
SELECTS: dict[str, list[Any]] = {
    "Show": [None, ["id", "changed", "made", {"name": "seats", "select": ["id", "stock"]}]],
    "Seat": [None, "stock", ["id", "price", "double"], ["id", {"name": "show", "select": ["title", {"name": "seats", "select": ["id"]}]}]],
    "Guest": [None, ["id", {"name": "seats", "select": ["id", {"name": "show", "select": ["title"]}]}]],
    "Note": [None, ["id", {"name": "guest", "select": ["name", {"name": "seats", "select": ["id"]}]}]],
}


@st.composite
def queries(draw: st.DrawFn) -> tuple[str, dict[str, Any]]:
    table = draw(st.sampled_from(sorted(RECORDS)))
    by_key: list[dict[str, Any]] = [{"attribute": "id"}, {"attribute": "id", "descending": True}]
    query: dict[str, Any] = {"conditions": draw(st.sampled_from(CONDITIONS[table]))}
    query |= {"sort": draw(st.sampled_from([*by_key, *SORTS[table]])), "offset": draw(st.integers(0, 2))}
    limit, select = draw(st.none() | st.integers(0, 5)), draw(st.sampled_from(SELECTS[table]))
    return table, query | ({} if limit is None else {"limit": limit}) | ({} if select is None else {"select": select})


@settings(max_examples=half_by_day(100))
@given(before=WRITES, writes=WRITES, query=queries(), cut=st.integers(0, 8))
@example(
    before=[("Show", "put", "f", {}), ("Seat", "put", "s1", {"showId": "f", "stock": 2})],
    writes=[("Show", "delete", "f", {}), ("Seat", "patch", "s1", {"price": 7})],
    query=("Seat", {"conditions": []}),
    cut=1,
)
@example(
    before=[("Show", "put", "f", {}), ("Seat", "put", "s1", {"showId": "f"}), ("Guest", "put", 1, {"seatIds": ["s1", "s2"]})],
    writes=[("Show", "delete", "f", {})],
    query=("Guest", {"conditions": [{"attribute": "seatIds", "value": "s1"}]}),
    cut=0,
)
@example(
    before=[],
    writes=[("Show", "put", "f", {"title": "Faust"}), ("Seat", "put", "s1", {"showId": "f"})],
    query=("Seat", {"conditions": [{"attribute": ["show", "title"], "value": "Faust"}]}),
    cut=0,
)
def test_as_if_it_were_committed(before: Any, writes: Any, query: Any, cut: int) -> None:
    with tempfile.TemporaryDirectory() as path, application(Path(path), CODE, SCHEMA) as app:
        app.run(compare(app, before, writes, query, cut))


async def compare(app: Application, before: Any, writes: Any, query: tuple[str, dict[str, Any]], cut: int) -> None:
    await write(app, before)
    app.node.clock.advance(1)
    since = app.node.clock.wall() * 1000 - 500
    app.node.clock.advance(1)
    seen: Any = None
    try:
        async with app.module.transaction():
            await write(app, writes[:cut])
            await state(app, query, since)  # whatever is read in between, the rest is seen as well
            await write(app, writes[cut:])
            seen = await state(app, query, since)
    except ClientError as error:
        assert error.code == "STILL_REFERENCED"  # known at the end only
        return
    assert seen == await state(app, query, since)


async def state(app: Application, query: tuple[str, dict[str, Any]], since: float) -> Any:
    """What the query finds, how many it finds, and every record by its key."""
    name, asked = query
    conditions = [{**each, "value": since} if each.get("value") == T0 else each for each in asked["conditions"]]
    table = app.tables[name]
    rows = [plain(row) async for row in table.search({**asked, "conditions": conditions})]
    group = {"group": ["id"], "functions": ["count"]}
    counted = [
        [plain(row) async for row in table.search({"conditions": conditions, "aggregate": aggregate})] for aggregate in ("count", group)
    ]
    size = (await table.get_record_count()).record_count
    by_key = {}
    for each, keys in {"Show": ["f", "m", "x"], "Seat": [f"s{n}" for n in range(5)], "Guest": [1, 2, 3], "Note": ["n1", "n2"]}.items():
        for key in keys:
            by_key[each, key] = plain(await app.tables[each].get(key))
    return rows, counted, size, by_key


async def write(app: Application, writes: Any) -> None:
    for table, kind, key, record in writes:
        try:
            if kind == "delete":
                await app.tables[table].delete(key)
            else:
                await getattr(app.tables[table], kind)(key, dict(record))
        except ClientError as error:  # refused where it is awaited, and not written
            assert error.code in ("NOT_UNIQUE", "STILL_REFERENCED"), error


def plain(row: Any) -> Any:
    return dict(row) if hasattr(row, "keys") else row
