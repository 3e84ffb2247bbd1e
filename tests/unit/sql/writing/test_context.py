"""svc.sql.writing.context: queries that are bound once for all runs of a statement."""

from svc.sql.bound import BoundQuery
from svc.sql.catalogue import TableView
from svc.sql.writing.context import BoundQueries
from svc.store import Store, Table
from svc.store.schema import Attribute, TableDefinition
from tests.support.sql_writes import Sql


def test_queries_are_bound_again_when_a_table_has_changed(store: Store, items: Table, loose: Table) -> None:
    made: list[BoundQuery] = []

    def make() -> str:
        made.append(BoundQuery(str(len(made)), (), tables=(TableView(loose, ()),)))
        bound.queries.append((made[-1], {}))
        return made[-1].text

    bound = BoundQueries()
    for expected in (2, 2):
        bound.begin(items.definition)
        assert [bound.once(make) for _ in range(2)] == ["0", "1"] and len(made) == expected
    bound.begin(items.definition)
    assert [bound.once(make) for _ in range(3)] == ["0", "1", "2"]
    loose.database.learn_attributes(loose, {"color": 1})
    bound.begin(items.definition)
    assert bound.once(make) == "3" and bound.queries == [(made[3], {})]
    items.database.define_table(TableDefinition("Item", attributes=items.definition.attributes[:3]))
    bound.begin(items.definition)
    assert bound.once(make) == "4"


def test_a_statement_that_is_repeated(sql: Sql, store: Store, loose: Table) -> None:
    """Not by its constants, which are other ones each time."""
    bound = BoundQueries()
    text = (
        "INSERT INTO data.Loose (id, color, size) VALUES (?, lower(?), 1) ON CONFLICT (id) DO UPDATE SET size = size + excluded.size"
        " RETURNING id, color, size"
    )
    for key, color, size in (("a", "RED", 1), ("b", "Blue", 1), ("a", "x", 2)):
        assert sql(text, [key, color], bound=bound) == [{"id": key, "color": "red" if key == "a" else "blue", "size": size}]
        assert len(bound.queries) == 3
    kept = list(bound.queries)
    sql("UPDATE data.Loose SET size = size + 1")
    assert sql(text, ["a", "x"], bound=bound)[0]["size"] == 4
    assert all(one[0] is other[0] for one, other in zip(kept, bound.queries, strict=True))
    loose.database.define_table(TableDefinition("Loose", attributes=(*loose.definition.attributes, Attribute("more")), dynamic=True))
    assert sql(text, ["a", "x"], bound=bound)[0]["size"] == 5 and bound.queries[0][0] is not kept[0][0]
