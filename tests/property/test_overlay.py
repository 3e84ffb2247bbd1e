"""svc.query.overlay: a search sees what its transaction has written exactly as if it were committed."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tests.support.application import Application, application

CODE = "from svc import transaction\n"
KEYS = st.sampled_from([f"s{n}" for n in range(8)])
RECORDS = st.fixed_dictionaries(
    {},
    optional={
        "stock": st.integers(0, 4),
        "price": st.sampled_from([0, 1.5, 2, 7]),
        "tags": st.lists(st.sampled_from(["a", "b"]), max_size=2),
        "showId": st.sampled_from(["f", "m", "x"]),
    },
)
WRITES = st.lists(
    st.one_of(
        st.tuples(st.just("put"), KEYS, RECORDS),
        st.tuples(st.just("patch"), KEYS, RECORDS),
        st.tuples(st.just("delete"), KEYS, st.none()),
    ),
    max_size=8,
)
CONDITIONS = st.sampled_from(
    [
        [],
        [{"attribute": "price", "comparator": "less_than", "value": 3}],
        [{"attribute": "stock", "value": 2}],
        [{"attribute": "tags", "value": "a"}],
        [{"attribute": ["show", "title"], "value": "Faust"}],
        [{"operator": "or", "conditions": [{"attribute": "id", "value": "s1"}, {"attribute": "price", "value": 7}]}],
    ]
)
SORTS = st.sampled_from(
    [
        {"attribute": "id"},
        {"attribute": "id", "descending": True},
        {"attribute": "price", "next": {"attribute": "id"}},
        {"attribute": "stock", "descending": True, "next": {"attribute": "id"}},
        {"attribute": ["show", "title"], "next": {"attribute": "id"}},
    ]
)
SELECTS = st.sampled_from([None, "stock", ["id", "price"], ["id", {"name": "show", "select": ["title"]}]])


@given(
    before=WRITES,
    writes=WRITES,
    conditions=CONDITIONS,
    sort=SORTS,
    limit=st.none() | st.integers(0, 5),
    offset=st.integers(0, 3),
    select=SELECTS,
)
def test_as_if_it_were_committed(before: Any, writes: Any, conditions: Any, sort: Any, limit: Any, offset: int, select: Any) -> None:
    query = (
        {"conditions": conditions, "sort": sort, "offset": offset}
        | ({} if limit is None else {"limit": limit})
        | ({} if select is None else {"select": select})
    )
    with tempfile.TemporaryDirectory() as path, application(Path(path), CODE) as app:
        app.run(compare(app, before, writes, query))


async def compare(app: Application, before: Any, writes: Any, query: dict[str, Any]) -> None:
    await app.tables.Show.put("f", {"title": "Faust"})
    await app.tables.Show.put("m", {"title": "Medea"})
    await write(app, before)
    async with app.module.transaction():
        await write(app, writes)
        seen = [plain(row) async for row in app.tables.Seat.search(dict(query))]
    assert seen == [plain(row) async for row in app.tables.Seat.search(dict(query))]


async def write(app: Application, writes: Any) -> None:
    seats = app.tables.Seat
    for kind, key, record in writes:
        if kind == "delete":
            await seats.delete(key)
        else:
            await getattr(seats, kind)(key, dict(record))


def plain(row: Any) -> Any:
    return dict(row) if hasattr(row, "keys") else row
