"""The system database is there and stays as it is."""

from pathlib import Path

import pytest

from svc.errors import ValidationError
from svc.store import Store
from svc.store.system import SYSTEM, SYSTEM_TABLES, USER_TABLE, ensure_system


def test_idempotent_and_kept(tmp_path: Path) -> None:
    store = Store(tmp_path)
    database = ensure_system(store)
    tables = dict(database.tables)
    assert set(tables) == {definition.name for definition in SYSTEM_TABLES}
    assert ensure_system(store) is database and database.tables == tables
    store.close()
    store = Store(tmp_path)
    before = {name: table.definition for name, table in store.databases[SYSTEM].tables.items()}
    ensure_system(store)
    assert {name: table.definition for name, table in store.databases[SYSTEM].tables.items()} == before
    store.close()


def test_users_have_no_attributes_nobody_thought_of(tmp_path: Path) -> None:
    store = Store(tmp_path)
    with pytest.raises(ValidationError):
        ensure_system(store).tables[USER_TABLE].validator.record({"username": "ann", "pin": 1})
    store.close()
