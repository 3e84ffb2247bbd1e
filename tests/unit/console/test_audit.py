"""The audit log and the transaction log in the console (spec: console §9)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest

from svc.resources import TableResource
from tests.support.console import ConsoleAnswer, ConsoleSite

HOSTILE = "\"'><img src=x onerror=alert(1)>"


@pytest.fixture
def site(tmp_path: Path) -> Iterator[ConsoleSite]:
    made = ConsoleSite(tmp_path)
    made.node.node.addresses = lambda: {"applications": ["http://*:9926"]}
    node = made.node
    node.run(
        "create_table", database="garden", table="plant", attributes=[{"name": "id"}, {"name": "name"}, {"name": "size", "type": "Int"}]
    )
    ann = node.user("ann", {"super_user": True})
    node.run("insert", database="garden", table="plant", records=[{"id": 1, "name": "a", "size": 1}, {"id": "1", "name": "text"}])
    node.clock.advance(60)
    node.run("update", user=ann, database="garden", table="plant", records=[{"id": 1, "size": 2}])
    node.clock.advance(60)
    node.run("delete", database="garden", table="plant", ids=[1])
    yield made
    made.close()


def get(site: ConsoleSite, who: Any = "admin", **fields: str) -> ConsoleAnswer:
    return site.get(f"/console/audit?{urlencode({'database': 'garden', 'table': 'plant', **fields})}", who)


def kinds(answer: ConsoleAnswer) -> list[str]:
    """What the entries did, the newest first."""
    assert answer.status == 200
    text = answer.body.decode()
    return [part.partition("<")[0] for part in text.split('<span class="state">')[1:]]


def test_a_form_before_a_table_is_chosen(site: ConsoleSite) -> None:
    page = site.get("/console/audit").page
    assert "No entries" not in page.text and page.find("option", value="garden")
    assert page.find("input", name="database")["value"] == "data"


def test_what_changed_the_newest_first(site: ConsoleSite) -> None:
    answer = get(site)
    assert kinds(answer) == ["delete", "update", "insert"]
    rows = [row for row in answer.page.rows if row[0] != "Attribute"]
    assert rows == [
        ["id", "1", "missing"], ["name", "a", "missing"], ["size", "2", "missing"],
        ["size", "1", "2"],
        ["id", "missing", "1"], ["name", "missing", "text"],
        ["id", "missing", "1"], ["name", "missing", "a"], ["size", "missing", "1"],
    ]  # fmt: skip
    assert "by ann" in answer.page.text and "by admin" in answer.page.text


@pytest.mark.parametrize(
    "fields, expected",
    [
        ({"user": "ann"}, ["update"]),
        ({"user": "nobody"}, []),
        ({"key": "1"}, ["delete", "update", "insert"]),
        ({"key": '"1"'}, ["insert"]),
        ({"key": "nosuch"}, []),
        ({"key": "[1,2]"}, []),
        ({"key": "[" * 1500}, []),
        ({"key": HOSTILE}, []),
        ({"from": "2026-01-01T00:00:30"}, ["delete", "update"]),
        ({"until": "2026-01-01T00:01:30Z"}, ["update", "insert"]),
        ({"from": "2026-01-01T00:00:30", "until": "2026-01-01T00:01:30", "user": "ann"}, ["update"]),
        ({"from": "2026-01-01T00:01:30", "user": "ann"}, []),
        ({"from": "2026-01-01T00:00:30", "key": "1"}, ["delete", "update"]),
        ({"kind": "transactions"}, ["delete", "update", "insert"]),
        ({"kind": "transactions", "until": "2026-01-01T00:00:30"}, ["insert"]),
    ],
)
def test_filters(site: ConsoleSite, fields: dict[str, str], expected: list[str]) -> None:
    answer = get(site, **fields)
    assert kinds(answer) == expected
    for name, value in fields.items():
        if name != "kind" and len(value) < 5000:
            assert answer.page.find("input", name=name)["value"] == value
    assert ("No entries like this." in answer.page.text) == (not expected)


@pytest.mark.parametrize(
    "fields, status, text",
    [
        ({"table": "nosuch"}, 404, "does not exist"),
        ({"database": "nosuch"}, 404, "does not exist"),
        ({"table": "a/b"}, 400, "names cannot include"),
        ({"from": "yesterday"}, 400, "'from' is no time"),
        ({"until": HOSTILE}, 400, "'until' is no time"),
        ({"user": "a", "key": "b"}, 400, "by a user or by a key"),
        ({"user": "a", "kind": "transactions"}, 400, "searched by time"),
    ],
)
def test_filters_that_are_none(site: ConsoleSite, fields: dict[str, str], status: int, text: str) -> None:
    answer = get(site, **fields)
    assert answer.status == status and text in answer.page.text and "delete" not in answer.page.text
    for name, value in fields.items():
        if name != "kind":
            assert answer.page.find("input", name=name)["value"] == value


def test_a_log_without_what_was_there_before(site: ConsoleSite) -> None:
    site.node.run("create_table", database="garden", table="bed", audit=False)
    site.node.run("insert", database="garden", table="bed", records=[{"id": 1}])
    site.node.run("update", database="garden", table="bed", records=[{"id": 1, "a": 2}])
    assert get(site, table="bed").status == 400
    answer = get(site, table="bed", kind="transactions")
    assert kinds(answer) == ["update", "insert"] and ["a", "not known", "2"] in answer.page.rows


def test_records_lead_to_their_history(site: ConsoleSite) -> None:
    table = site.node.store.databases["garden"].tables["plant"]
    site.node.node.resources.set("Plant", type("Plant", (TableResource,), {"table": table}))
    page = get(site, key="1").page
    assert "http://localhost:9926/Plant/1?_view=history" in page.links.values()


def test_hostile_values_are_text(site: ConsoleSite) -> None:
    user = site.node.user(HOSTILE, {"super_user": True})
    record = {"id": HOSTILE, "name": HOSTILE + "\u202e", HOSTILE: {HOSTILE: [HOSTILE]}}
    site.node.run("insert", user=user, database="garden", table="plant", records=[record])
    page = get(site).page
    assert [HOSTILE, "missing", f'{{{HOSTILE}: ["{HOSTILE}"]}}'] in page.rows and ["name", "missing", HOSTILE + "\\u202e"] in page.rows
    assert f"by {HOSTILE}" in page.text


def test_long_logs_come_in_pages(site: ConsoleSite) -> None:
    """A transaction with many records, of which a page has some."""
    site.node.run("insert", database="garden", table="plant", records=[{"id": f"k{number:03}"} for number in range(250)])
    first = get(site)
    assert kinds(first) == ["insert"] and "80 more records." in first.page.text and "k249" in first.page.text
    second = site.get("/console/audit?" + first.page.links["Older"].partition("?")[2])
    assert kinds(second) == ["insert"] and "k149" in second.page.text
    site.node.run("insert", database="garden", table="plant", records=[{"id": "later"}])
    third = site.get("/console/audit?" + second.page.links["Older"].partition("?")[2])
    assert kinds(third) == ["insert", "delete", "update", "insert"] and "Older" not in third.page.links
    again = site.get("/console/audit?" + third.page.links["Newer"].partition("?")[2])
    assert "k149" in again.page.text


def test_many_transactions_are_told(site: ConsoleSite) -> None:
    for number in range(30):
        site.node.run("insert", database="garden", table="plant", records=[{"id": f"k{number}"}])
    answer = get(site, kind="transactions")
    assert len(kinds(answer)) == 20 and "set a time for others" in answer.page.text


def test_who_may_read_the_audit_log(site: ConsoleSite) -> None:
    reader = site.node.user("reader", {"operations": ["read_audit_log"]})
    answer = get(site, reader)
    assert kinds(answer) == ["delete", "update", "insert"] and "transaction log" not in answer.page.text
    assert get(site, reader, kind="transactions").status == 403
    assert get(site, reader, database="system", table="svc_user").status in (403, 404)
    for permission in ({}, {"structure_user": True}, {"operations": ["read_log"]}):
        assert get(site, site.node.user("other", permission)).status == 403
    assert get(site, None).status == 401


def test_secrets_of_users_are_not_shown(site: ConsoleSite) -> None:
    site.node.run("add_role", role="r", permission={})
    site.node.run("add_user", username="eve", password="hidden-word", role="r", active=True)
    answer = get(site, database="system", table="svc_user")
    assert "hash_function" not in answer.page.text and "login_epoch" not in answer.page.text
