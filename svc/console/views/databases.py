"""Databases, tables and attributes: what there is, made and dropped (spec: console §6). What is asked and done: `database_forms`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote

from svc.auth.roles import rights
from svc.console.confirm import ask
from svc.console.page import ConsolePage
from svc.console.texts import bytes_text, iso_of, table_address, whole
from svc.console.views.database_forms import TABLE_FORM, done, question_of, table_form
from svc.errors import NotFound, Problem
from svc.messages import Response
from svc.pages.cells import LONG, cell_of, lines_of, shortened
from svc.pages.collection import data_page
from svc.pages.links import Links
from svc.store.schema import SCALAR_TYPES
from svc.store.system import SYSTEM

MOST_TABLES = 50  # of a database that the tree shows; its own page shows MOST_LISTED
MOST_DATABASES = 200
MOST_LISTED = 2000
MOST_ATTRIBUTES = 1000
ROWS = 50  # records of a page
MOST_OFFSET = 1_000_000
_MOST_PATHS = 5
_LONGEST_NAME = 250


@dataclass(slots=True)
class TableRow:
    """`paths`: (text, address on the application port, "" where that is not known)."""

    name: str
    href: str
    records: str
    size: str
    written: str
    paths: list[tuple[str, str]]
    notes: str


@dataclass(slots=True)
class DatabaseRow:
    """`more`: tables that are not shown."""

    name: str
    href: str
    size: str
    log_size: str
    is_system: bool
    count: int
    tables: list[TableRow] = field(default_factory=list)

    @property
    def more(self) -> int:
        return self.count - len(self.tables)


@dataclass(slots=True)
class AttributeRow:
    name: str
    type: str
    notes: list[str]
    drop: str


async def show(page: ConsolePage) -> Response:
    return await _show(page)


async def send(page: ConsolePage) -> Response:
    database, table = place_of(page)
    try:
        return await done(page, database, table)
    except Problem as fault:
        return await _show(page, fault)


def place_of(page: ConsolePage) -> tuple[str, str]:
    """The database and the table that an address names, "" for none."""
    if len(page.rest) > 2:
        raise NotFound("There is no such page")
    database, table = (*page.rest, "", "")[:2]
    return database, table or (page.fields.get("table", "") if database else "")


async def _show(page: ConsolePage, fault: Problem | None = None) -> Response:
    database, table = place_of(page)
    wish = page.fields.get("do", "")
    if wish == TABLE_FORM and database and not table:
        return await table_form(page, database, fault)
    if wish and database:
        return await ask(page, await question_of(page, database, table, wish), fault)
    if table:
        return await _show_table(page, database, table, fault)
    return await (_show_database(page, database, fault) if database else _show_tree(page, fault))


# --- databases ------------------------------------------------------------------------------------------------------------------------


async def _show_tree(page: ConsolePage, fault: Problem | None) -> Response:
    found: dict[str, Any] = await page.run("describe_all")
    if page.may("describe_database", database=SYSTEM):
        found[SYSTEM] = await page.run("describe_database", database=SYSTEM)
    root = page.application_root
    rows = [_database(page, name, tables, root, MOST_TABLES) for name, tables in list(found.items())[:MOST_DATABASES]]
    return await page.show(
        "databases.html",
        fault=fault,
        rows=rows,
        more=len(found) - len(rows),
        may_create=page.may("create_database", database="new"),
        filled="" if page.form is None else page.form.text("database"),
    )


def _database(page: ConsolePage, name: str, tables: Mapping[str, Any], root: str, most: int) -> DatabaseRow:
    first: Mapping[str, Any] = next(iter(tables.values()), {})
    row = DatabaseRow(
        shortened(name, _LONGEST_NAME),
        table_address(page, name) if page.may("describe_database", database=name) else "",
        bytes_text(first.get("db_size")),
        bytes_text(first.get("db_audit_size")),
        name == SYSTEM,
        len(tables),
    )
    links = Links(page.node.resources, page.request, root)
    row.tables = [_table(page, described, links if root else None) for described in [tables[key] for key in sorted(tables)][:most]]
    return row


def _table(page: ConsolePage, described: Mapping[str, Any], links: Links | None) -> TableRow:
    notes = [f"expires after {described['expiration']}"] if "expiration" in described else []
    notes += ["without audit log"] if not described["audit"] else []
    notes += ["accounts"] if described.get("account") else []
    notes += ["not replicated"] if described.get("replicate") is False else []
    notes += ["values move to new names"] if "moving" in described else []
    notes += ["leftovers of schema changes"] if "leftovers" in described else []
    place = described["schema"], described["name"]
    return TableRow(
        shortened(described["name"], _LONGEST_NAME),
        table_address(page, *place) if page.may("describe_table", database=place[0], table=place[1]) else "",
        records_text(described),
        bytes_text(described.get("table_size")),
        iso_of(described.get("last_updated_record")),
        _paths(page, described, links),
        ", ".join(notes),
    )


def records_text(described: Mapping[str, Any]) -> str:
    """How many records a table has; "" if the caller is not told."""
    if "record_count" not in described:
        return ""
    least, most = described.get("estimated_record_range", (None, None))
    return f"{described['record_count']:,}" if least is None else f"{least:,} to {most:,}"


def _paths(page: ConsolePage, described: Mapping[str, Any], links: Links | None) -> list[tuple[str, str]]:
    paths = described.get("paths", ())[:_MOST_PATHS]
    table = (
        page.node.store.databases[described["schema"]].tables.get(described["name"])
        if described["schema"] in page.node.store.databases
        else None
    )
    href = "" if links is None or table is None or not paths else links.collection(table)
    return [(shortened(path, _LONGEST_NAME), href if href.endswith(f"{quote(path, safe='/%')}/") else "") for path in paths]


async def _show_database(page: ConsolePage, database: str, fault: Problem | None) -> Response:
    tables = await page.run("describe_database", database=database)
    is_system = database == SYSTEM
    return await page.show(
        "database.html",
        title=shortened(database, _LONGEST_NAME),
        fault=fault,
        row=_database(page, database, tables, page.application_root, MOST_LISTED),
        is_system=is_system,
        create=table_address(page, database, do=TABLE_FORM)
        if not is_system and page.may("create_table", database=database, table="new")
        else "",
        drop=table_address(page, database, do="drop") if not is_system and page.may("drop_database", database=database) else "",
        clean=table_address(page, database, do="blobs") if not is_system and page.may("cleanup_orphan_blobs", database=database) else "",
        backups=page.at("backups", database=database) if page.may("list_backups", database=database) else "",
    )


# --- one table ------------------------------------------------------------------------------------------------------------------------


async def _show_table(page: ConsolePage, database: str, table: str, fault: Problem | None) -> Response:
    described = await page.run("describe_table", database=database, table=table, include_computed=True)
    root = page.application_root
    row = _table(page, described, Links(page.node.resources, page.request, root) if root else None)
    here = {"database": database, "table": table}
    is_fixed = database == SYSTEM
    may_drop = not is_fixed and page.may("drop_attribute", **here, attribute="")
    attributes = described["attributes"]
    own = page.form.fields if page.form is not None else {}
    return await page.show(
        "database_table.html",
        title=shortened(table, _LONGEST_NAME),
        fault=fault,
        row=row,
        database=shortened(database, _LONGEST_NAME),
        up=table_address(page, database),
        described=described,
        trees=[(name, lines_of(described[name])) for name in ("allow", "moving", "leftovers", "not_unique_yet") if described.get(name)],
        check=shortened(described.get("check", ""), LONG),
        attributes=[_attribute(page, database, table, each, may_drop) for each in attributes[:MOST_ATTRIBUTES]],
        more=max(0, len(attributes) - MOST_ATTRIBUTES),
        types=SCALAR_TYPES,
        filled=own,
        is_system=is_fixed,
        may_add=not is_fixed and page.may("create_attribute", **here, attribute="new"),
        drop=table_address(page, database, table, do="drop") if not is_fixed and page.may("drop_table", **here) else "",
        may_delete_records=not is_fixed and page.may("delete_records_before", **here),
        may_delete_log=not is_fixed
        and described["audit"]
        and page.may("delete_audit_logs_before", **here)
        and not _is_narrowed(page, database, table),
        audit=page.at("audit", database=database, table=table) if described["audit"] and page.may("read_audit_log", **here) else "",
        table_field=table if table in (".", "..") else "",
        **await _records(page, database, table, has_address=bool(row.paths)),
    )


def _is_narrowed(page: ConsolePage, database: str, table: str) -> bool:
    """Whether rules on rows keep the caller from removing entries of the log, which is of all records."""
    found = page.node.store.databases[database].tables.get(table)
    return found is not None and not page.user.super_user and rights(page.user, found).rows is not None


async def _records(page: ConsolePage, database: str, table: str, *, has_address: bool) -> dict[str, Any]:
    """A page of the records of a table that has no pages of its own."""
    found: dict[str, Any] = {"records": None, "no_records": "", "older": "", "newer": "", "start": 0, "panel": ""}
    start = whole(page.fields, "start", 0, MOST_OFFSET)
    asked = {"database": database, "table": table, "query": f"limit({start},{start + ROWS + 1})"}
    if has_address or not page.may("search_by_conditions", **asked):
        return found
    found["panel"] = page.at("operations/search_by_conditions", database=database, table=table)
    try:
        values = await page.run("search_by_conditions", **asked)
    except Problem as problem:
        found["no_records"] = shortened(problem.message, LONG)
        return found
    found["start"] = start
    found["records"] = data_page(values[:ROWS])
    if len(values) > ROWS and start + ROWS <= MOST_OFFSET:
        found["older"] = table_address(page, database, table, start=str(start + ROWS))
    if start:
        found["newer"] = table_address(page, database, table, start=str(max(0, start - ROWS) or ""))
    return found


def _attribute(page: ConsolePage, database: str, table: str, described: Mapping[str, Any], may_drop: bool) -> AttributeRow:
    name = described["attribute"]
    kind = described.get("type", "Any")
    notes = ["primary key"] if described.get("is_primary_key") else []
    notes += [name for name in ("indexed", "unique", "computed") if described.get(name)]
    notes += ["required"] if described.get("nullable") is False else []
    notes += ["time of creation"] if described.get("assigned_created_time") else []
    notes += ["time of the last change"] if described.get("assigned_updated_time") else []
    notes += [f"default {cell_of(described['default']).text}"] if "default" in described else []
    notes += [f"one of {cell_of(described['enum']).text}"] if "enum" in described else []
    notes += [f"check: {shortened(described['check'], LONG)}"] if "check" in described else []
    can_drop = may_drop and not described.get("is_primary_key") and name not in ("__createdtime__", "__updatedtime__")
    return AttributeRow(
        shortened(name, _LONGEST_NAME),
        f"[{described['elements']}]" if "elements" in described else kind,
        notes,
        table_address(page, database, table, do="drop-attribute", attribute=name) if can_drop else "",
    )
