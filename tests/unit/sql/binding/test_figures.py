"""What rewriting asks of the tables of a store."""

from contextlib import closing

from svc.sql.binding.figures import StoreFigures
from svc.sql.tables.views import table_view
from svc.store import Store
from svc.store.schema import Attribute, TableDefinition


def test_tables_of_a_store(tmp_path):
    attributes = (Attribute("id", "ID", primary_key=True), Attribute("name", "String", indexed=True), Attribute("any", "Any", indexed=True))
    with closing(Store(tmp_path)) as store:
        table = store.open_database("data").define_table(TableDefinition("Item", attributes=attributes))
        transaction = store.begin()
        for key in ("a", "b"):
            transaction.put(table, key, {"id": key, "name": "x"})
        transaction.apply()
        store.commit_turn()
        store.end_turn()
        view, figures = table_view(table), StoreFigures()
        assert figures.record_count(view) == 2
        assert 0 < figures.size(view) <= 4 << 14
        groups = figures.groups(view, "name")
        assert groups is not None
        assert (groups.view, groups.column.name) == (view, "name")
        assert figures.groups(view, "any") is None  # 1 and true are two keys, but one value
        assert figures.groups(view, "id") is None
        assert figures.count(view).sql_name != view.sql_name
        store.end_turn()
