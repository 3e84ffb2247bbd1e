"""svc.cluster.exchange: what is exchanged with a node."""

from __future__ import annotations

from typing import Any

import pytest

from svc.cluster.exchange import ALL, Exchange, exchange_of, only_of
from svc.store.writing.remote_transaction import RemoteEntry, RemoteTransaction


@pytest.mark.parametrize(
    ("record", "exchange"),
    [
        ({}, ALL),
        ({"replicates": True}, ALL),
        ({"replicates": None, "subscriptions": []}, ALL),
        ({"replicates": False}, Exchange(False, {})),
        ({"replicates": {"sends": True, "receives": True}}, ALL),
        ({"replicates": {"sends": False}}, Exchange(False, None)),
        ({"replicates": {"receives": False}}, Exchange(True, {})),
        ({"replicates": "nonsense", "subscriptions": "nonsense"}, ALL),
        ({"subscriptions": [5, None]}, ALL),
        ({"subscriptions": [{"database": "d", "subscribe": True, "publish": True}]}, Exchange(True, {"d": None})),
        ({"subscriptions": [{"schema": "d", "subscribe": True, "publish": False}]}, Exchange(False, {"d": None})),
        ({"subscriptions": [{"database": "d", "table": "A", "publish": True}]}, Exchange(True, {})),
        (
            {"subscriptions": [{"database": "d", "table": name, "subscribe": True, "publish": True} for name in "AB"]},
            Exchange(True, {"d": frozenset("AB")}),
        ),
        (
            {"subscriptions": [{"database": "d", "subscribe": True}, {"database": "d", "table": "A", "subscribe": True}]},
            Exchange(False, {"d": None}),
        ),
        (
            {"replicates": {"receives": False}, "subscriptions": [{"database": "d", "subscribe": True, "publish": True}]},
            Exchange(True, {}),
        ),
    ],
)
def test_what_records_say(record: dict[str, Any], exchange: Exchange) -> None:
    assert exchange_of({"name": "b", **record}) == exchange


def test_what_is_read() -> None:
    some = Exchange(True, {"d": frozenset("A"), "e": None})
    assert [some.reads(name) for name in "def"] == [True, True, False]
    assert (some.tables("d"), some.tables("e"), some.tables("f")) == (frozenset("A"), None, frozenset())
    assert ALL.reads("d") and ALL.tables("d") is None


def test_entries_of_other_tables_are_left_out() -> None:
    def transactions() -> list[RemoteTransaction]:
        return [
            RemoteTransaction(lsn, lsn + 1, 1.0, 1.0, None, 0, None, [RemoteEntry(1, table, b"k", b"") for table in tables])
            for lsn, tables in ((1, "AB"), (3, "B"), (5, "A"))
        ]

    assert only_of(transactions(), None) == transactions()
    found = only_of(transactions(), frozenset("A"))
    assert [(each.lsn, [entry.table for entry in each.entries]) for each in found] == [(1, ["A"]), (5, ["A"])]
    assert only_of(transactions(), frozenset()) == []
