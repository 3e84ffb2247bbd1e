"""svc.store.integrity.unique_check: what `svc check` says of values that should be unique."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from unittest.mock import patch

from svc.clock import SYSTEM_CLOCK
from svc.store import Store
from svc.store.integrity.check import CheckReport, check_database
from svc.store.schema import Attribute, TableDefinition
from svc.store.writing.constraints import Constraints

LONG = "x" * 300
DEFINITION = TableDefinition(
    "T",
    attributes=(
        Attribute("id", "ID", primary_key=True),
        Attribute("a", indexed=True, unique=True),
        Attribute("b", "String", computed_from="'b' + a", indexed=True, unique=True),
        Attribute("c", indexed=True),
    ),
    primary_key="id",
)


def report(path: Path, *values: Any, expires_at: float | None = None) -> CheckReport:
    """Of records with these values, which are written untested."""
    store = Store(path)
    table = store.open_database("data").define_table(DEFINITION)
    with patch.object(Constraints, "admit", lambda *_, **__: None):
        transaction = store.begin()
        for number, value in enumerate(values):
            transaction.put(table, str(number), {"a": value, "c": 1}, expires_at=None if number else expires_at)
        store.commit_now(transaction)
    store.close()
    found = check_database(path / "data")
    assert found.ok
    return found


def test_unique_values_are_worth_no_note(tmp_path: Path) -> None:
    assert report(tmp_path, None, None, 1, "1", [2, 3], LONG + "1", LONG + "2").notes == []


def test_shared_values_are(tmp_path: Path) -> None:
    assert report(tmp_path, "v", "v", "w", [1, 2], [2, 3], LONG + "1", LONG + "2").notes == [
        'T.a is @unique, but 2 values are that of several records: 2 ("3", "4"), "v" ("0", "1").',
        'T.b is @unique, but 1 value is that of several records: "bv" ("0", "1").',
    ]


def test_what_has_expired_does_not_count(tmp_path: Path) -> None:
    assert report(tmp_path, "v", "v", expires_at=SYSTEM_CLOCK.wall() * 1000 - 1000).notes == []
