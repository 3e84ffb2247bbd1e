"""The audit log and the transaction log of a table: who changed what (spec: console §9)."""

from __future__ import annotations

import json
from asyncio import sleep
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from svc.console.page import ConsolePage
from svc.console.texts import iso_of, whole
from svc.errors import ClientError, Problem
from svc.messages import Response
from svc.operations.jobs import iso_to_ms
from svc.pages.cells import CELL, Cell, cell_of, shortened
from svc.pages.links import Links
from svc.store import Table
from svc.store.system import SYSTEM
from svc.store.values.records import MISSING

CHANGES = 100  # of records, on a page
ENTRIES = 20  # of the transaction log, each of which may have many records
MOST_START = 1_000_000
MOST_RECORDS = 20  # of one entry
MOST_MEMBERS = 50  # attributes of one record that are shown
_FILTERS = ("database", "table", "kind", "user", "key", "from", "until")
_DEFAULT_DATABASE = "data"


@dataclass(slots=True)
class Change:
    """`before`, `after`: None where the log does not have it. `is_cut`: more attributes are not shown."""

    key: str
    history: str
    members: list[tuple[str, Cell | None, Cell | None]] = field(default_factory=list)
    is_cut: bool = False


@dataclass(slots=True)
class Entry:
    time: str
    operation: str
    user: str
    trace: str
    count: int
    changes: list[Change]


async def show(page: ConsolePage) -> Response:
    fields = {name: page.fields[name] for name in _FILTERS if page.fields.get(name)}
    database, table = fields.get("database", _DEFAULT_DATABASE), fields.get("table", "")
    start = whole(page.fields, "start", 0, MOST_START)
    may_transactions = page.may("read_transaction_log")
    fault: Problem | None = None
    found: list[dict[str, Any]] = []
    if table:
        try:
            found = await _found(page, database, table, fields, start)
        except Problem as problem:
            fault = problem
    is_audit = fields.get("kind") != "transactions"
    shower = _Shower(page, database, table, await _primary_key(page, database, table) if found else "", is_audit=is_audit)
    entries = []
    for each in found:
        entries.append(shower.entry(each))
        await sleep(0)  # one may have thousands of records
    count = sum(len(each["hash_values"]) for each in found)
    until = fields.get("until") or (iso_of(max(each["timestamp"] for each in found) + 1) if found else "")
    return await page.show(
        "audit.html",
        fault=fault,
        fields=fields,
        database=database,
        names=await _names(page),
        entries=entries,
        asked=bool(table),
        may_transactions=may_transactions,
        older=_at(page, {**fields, "until": until, "start": str(start + CHANGES)})
        if is_audit and count >= CHANGES and start + CHANGES <= MOST_START
        else "",
        newer=_at(page, {**fields, "start": str(max(0, start - CHANGES) or "")}) if start else "",
        more=not is_audit and len(found) >= ENTRIES,
        shown_changes=CHANGES,
    )


def _at(page: ConsolePage, fields: dict[str, str]) -> str:
    return page.at("audit", **{name: value.encode(errors="replace").decode() for name, value in fields.items()})


async def _found(page: ConsolePage, database: str, table: str, fields: dict[str, str], start: int) -> list[dict[str, Any]]:
    """The entries that are asked for, the newest first. Raises Problem."""
    here: dict[str, Any] = {"database": database, "table": table, "order": "desc"}
    first, last = _time(fields, "from"), _time(fields, "until")
    if fields.get("kind") == "transactions":
        if "user" in fields or "key" in fields:
            raise ClientError("The transaction log is searched by time; choose the audit log for a user or a key")
        transactions: list[dict[str, Any]] = await page.run("read_transaction_log", **here, **{"from": first}, to=last, limit=ENTRIES)
        return transactions
    here |= {"from": first, "until": last, "start": start, "limit": CHANGES}
    if "user" in fields and "key" in fields:
        raise ClientError("Search by a user or by a key")
    if "user" in fields:
        found = await page.run("read_audit_log", **here, search_type="username", search_values=[fields["user"]])
        return next(iter(found.values()))
    if "key" in fields:
        for key in _keys(fields["key"]):
            found = next(iter((await page.run("read_audit_log", **here, search_type="hash_value", search_values=[key])).values()))
            if found:
                return found  # type: ignore[no-any-return]
        return []
    entries: list[dict[str, Any]] = await page.run("read_audit_log", **here)
    return entries


def _keys(text: str) -> list[Any]:
    """The keys that a text may stand for.

    >>> _keys("5"), _keys("ann"), _keys('["a", 1]'), _keys('"5"'), _keys("true")
    ([5, '5'], ['ann'], [['a', 1], '["a", 1]'], ['5', '"5"'], ['true'])
    """
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return [text]
    return [value, text] if isinstance(value, int | float | str | list) and not isinstance(value, bool) else [text]


def _time(fields: dict[str, str], name: str) -> int | None:
    """Raises ClientError."""
    if name not in fields:
        return None
    found = iso_to_ms(fields[name])
    if found is None:
        raise ClientError(f"'{name}' is no time such as 2026-01-05 or 2026-01-05T10:00")
    return found[0]


async def _primary_key(page: ConsolePage, database: str, table: str) -> str:
    """ "" where the caller is not told."""
    try:
        return str((await page.run("describe_table", database=database, table=table))["hash_attribute"])
    except Problem:
        return ""


async def _names(page: ConsolePage) -> dict[str, list[str]]:
    """The tables of each database that the caller may know of."""
    found: dict[str, Any] = await page.run("describe_all") if page.may("describe_all") else {}
    if page.may("describe_database", database=SYSTEM):
        found[SYSTEM] = await page.run("describe_database", database=SYSTEM)
    return {name: list(tables)[:500] for name, tables in list(found.items())[:200]}


class _Shower:
    """Makes of the entries of one table what the page shows."""

    def __init__(self, page: ConsolePage, database: str, table: str, primary_key: str, *, is_audit: bool) -> None:
        self._primary_key = primary_key
        self._is_audit = is_audit
        root = page.application_root
        found = page.node.store.databases.get(database)
        self._table: Table | None = None if found is None else found.tables.get(table)
        self._links = Links(page.node.resources, page.request, root) if root else None

    def entry(self, found: Mapping[str, Any]) -> Entry:
        keys, records, originals = found["hash_values"], found.get("records", ()), found.get("original_records", ())
        after, before = self._by_key(keys, records), self._by_key(keys, originals)
        operation = found["operation"]
        is_new = operation == "insert" or (operation == "upsert" and self._is_audit)  # where the log has nothing before it
        is_gone = operation == "delete"
        return Entry(
            iso_of(found["timestamp"]),
            operation,
            "" if found["user_name"] is None else shortened(found["user_name"], CELL),
            found.get("trace_id", ""),
            len(keys),
            [
                self._change(
                    key,
                    before.get(number, {} if is_new else None),
                    after.get(number, {} if is_gone else None),
                    is_whole=operation != "update",
                )
                for number, key in enumerate(keys[:MOST_RECORDS])
            ],
        )

    def _by_key(self, keys: list[Any], records: Any) -> dict[int, Any]:
        """The records by the number of their key. Some of an entry may be without one."""
        if len(records) == len(keys):
            return dict(enumerate(records))
        name = self._primary_key
        by_key = {repr(record[name]): record for record in records if isinstance(record, dict) and name in record}
        return {number: by_key[repr(key)] for number, key in enumerate(keys) if repr(key) in by_key}

    def _change(self, key: Any, before: Any, after: Any, *, is_whole: bool) -> Change:
        href = ""
        if self._links is not None and self._table is not None and key is not None:
            href = self._links.record(self._table, key)
        change = Change(cell_of(key).text, f"{href}?_view=history" if href else "")
        old = before if isinstance(before, dict) else {}
        new = after if isinstance(after, dict) else {}
        names = list(dict.fromkeys([*new, *(old if is_whole else ())]))
        changed = [name for name in names if name not in old or name not in new or old[name] != new[name]]
        for name in changed[:MOST_MEMBERS]:
            change.members.append(
                (
                    shortened(str(name), CELL),
                    cell_of(old.get(name, MISSING)) if before is not None else None,
                    cell_of(new.get(name, MISSING)) if after is not None else None,
                )
            )
        change.is_cut = len(changed) > MOST_MEMBERS
        if after is not None and not isinstance(after, dict):  # of a message
            change.members.append(("", None, cell_of(after)))
        return change
