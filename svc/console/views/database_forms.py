"""What the forms of databases and tables ask and do (spec: console §6): each is one operation."""

from __future__ import annotations

from typing import Any

from svc.console.confirm import Question, check_typed
from svc.console.page import ConsolePage
from svc.console.texts import bytes_text, plural, segment, table_address, table_path, whole
from svc.errors import ClientError, NotFound, Problem
from svc.messages import Response
from svc.operations.fields import numeric
from svc.operations.jobs import iso_to_ms
from svc.pages.cells import shown
from svc.store.schema import SCALAR_TYPES
from svc.store.system import SYSTEM
from svc.store.values.records import iso_text

TABLE_FORM = "create-table"
LINES = 6  # for attributes, in the form of a new table
MOST_LINES = 256
_AGAIN = (
    "Its attributes are declared. If a schema of an application declares them, the table comes back, without records, when the application is loaded the "
    "next time."
)


_OPERATIONS = {
    (False, TABLE_FORM): "create_table",
    (False, "drop"): "drop_database",
    (False, "blobs"): "cleanup_orphan_blobs",
    (True, "drop"): "drop_table",
    (True, "drop-attribute"): "drop_attribute",
    (True, "records"): "delete_records_before",
    (True, "log"): "delete_audit_logs_before",
}
"""(whether it is about a table, what is wished) -> what does it."""


def check_may(page: ConsolePage, database: str, table: str, wish: str) -> None:
    """Raise AccessViolation before anything is asked of who may not do it."""
    operation = _OPERATIONS.get((bool(table), wish))
    if operation is not None and database:
        page.require(operation, database=database, **({"table": table} if table else {}))


# --- questions ------------------------------------------------------------------------------------------------------------------------


async def question_of(page: ConsolePage, database: str, table: str, wish: str) -> Question:
    """What is asked before something is destroyed. `wish`: what the address is about. Raises NotFound."""
    if database == SYSTEM:
        raise NotFound("The database system is read only here")
    check_may(page, database, table, wish)
    if not table:
        if wish == "drop":
            return await _drop_database(page, database)
        if wish == "blobs":
            back = page.at(f"databases/{segment(database)}")
            line = "Files of blobs that belong to no record are searched for in the background, and removed. The log of the server tells how that goes."
            return Question("Clean up blobs", [line], "Clean up", back, fields={"do": "blobs"})
    elif wish == "drop":
        return await _drop_table(page, database, table)
    elif wish == "drop-attribute":
        return await _drop_attribute(page, database, table, page.fields.get("attribute", ""))
    elif wish in ("records", "log"):
        return _remove(page, database, table, wish)
    raise NotFound("There is no such page")


async def _drop_database(page: ConsolePage, database: str) -> Question:
    lines = [f"The database {shown(database)} is removed with its tables, records, files and log. There is no way back but a backup."]
    tables = await _maybe(page, "describe_database", database=database)
    if tables:
        records = sum(each.get("record_count", 0) for each in tables.values())
        size = next(iter(tables.values())).get("db_size")
        lines.append(
            f"It has {plural(len(tables), 'table')} and {plural(records, 'record')}"
            + (f", {bytes_text(size)}." if size is not None else ".")
        )
        if any(each.get("schema_defined") for each in tables.values()):
            lines.append(
                "Tables that a schema of an application declares come back, without records, when the application is loaded the next time."
            )
    back = page.at(f"databases/{segment(database)}")
    return Question(f"Drop the database {shown(database)}", lines, "Drop the database", back, database, {"do": "drop"})


async def _drop_table(page: ConsolePage, database: str, table: str) -> Question:
    lines = [f"The table {shown(table)} of the database {shown(database)} is removed with its records. There is no way back but a backup."]
    described = await _maybe(page, "describe_table", database=database, table=table)
    if described is not None:
        counted, size = described.get("record_count"), described.get("table_size")
        if counted is not None:
            lines.append(f"It has {plural(counted, 'record')}" + (f", {bytes_text(size)}." if size is not None else "."))
        if described.get("paths"):
            lines.append(f"Its addresses {', '.join(map(shown, described['paths'][:10]))} answer 404 from then on.")
        if described.get("schema_defined"):
            lines.append(_AGAIN)
    return Question(f"Drop the table {shown(table)}", lines, "Drop the table", table_address(page, database, table), table, {"do": "drop"})


async def _drop_attribute(page: ConsolePage, database: str, table: str, attribute: str) -> Question:
    described = await page.run("describe_table", database=database, table=table, include_computed=True)
    if attribute not in [each["attribute"] for each in described["attributes"]]:
        raise NotFound("The table has no attribute of this name")
    if described["schema_defined"]:
        lines = [
            "The attribute and its index go. Records keep their values as properties that are not declared.",
            "If a schema of an application declares it, it comes back when the application is loaded the next time.",
        ]
    else:
        counted = described.get("record_count")
        lines = ["The values are removed from every record. There is no way back but a backup."]
        lines += [f"The table has {plural(counted, 'record')}."] if counted is not None else []
    return Question(
        f"Drop the attribute {shown(attribute)}",
        lines,
        "Drop the attribute",
        table_address(page, database, table),
        attribute,
        {"do": "drop-attribute", "attribute": attribute},
    )


def _remove(page: ConsolePage, database: str, table: str, wish: str) -> Question:
    """Records, or entries of the log, that are older than a time."""
    before = page.fields.get("before", "")
    found = iso_to_ms(before)
    if found is None:
        raise ClientError("Enter a time such as 2026-01-05 or 2026-01-05T10:00, in UTC")
    moment = iso_text(found[0])
    back = table_address(page, database, table)
    if wish == "records":
        lines = [f"All records of {shown(database)}.{shown(table)} that were made before {moment} are deleted, by a job."]
        return Question("Delete old records", lines, "Delete the records", back, table, {"do": "records", "before": moment})
    lines = [
        f"All entries of the log about {shown(database)}.{shown(table)} before {moment} are removed, by a job: nobody can tell then what was changed."
    ]
    return Question("Remove old entries of the log", lines, "Remove the entries", back, table, {"do": "log", "before": moment})


async def _maybe(page: ConsolePage, operation: str, **fields: Any) -> Any:
    """None where the caller is not told: who may drop a table need not be one who may read it."""
    try:
        return await page.run(operation, **fields)
    except Problem as problem:
        if problem.status_code == 404 and page.user.super_user:
            raise
        return None


# --- doing ----------------------------------------------------------------------------------------------------------------------------


async def done(page: ConsolePage, database: str, table: str) -> Response:
    """Do what a form asks for. Raises Problem."""
    assert page.form is not None
    form, here = page.form, {"database": database, "table": table}
    check_may(page, database, table, form.text("do"))
    match form.text("do"):
        case "create-database" if not database:
            name = form.text("database")
            await page.run("create_database", database=name)
            return page.see_other(f"databases/{segment(name)}", note=f"The database {name} was made")
        case "create-table" if database and not table:
            return await _create_table(page, database)
        case "drop" if database and not table:
            check_typed(page, database)
            await page.run("drop_database", database=database)
            return page.see_other("databases", note=f"The database {database} was dropped")
        case "drop" if table:
            check_typed(page, table)
            await page.run("drop_table", **here)
            return page.see_other(f"databases/{segment(database)}", note=f"The table {table} was dropped")
        case "blobs" if database and not table:
            answer = await page.run("cleanup_orphan_blobs", database=database)
            return page.see_other(f"databases/{segment(database)}", note=answer["message"])
        case "create-attribute" if table:
            name, kind = form.text("attribute"), form.text("type")
            await page.run("create_attribute", **here, attribute=name, type=kind or None, indexed=form.text("indexed") == "1")
            return _to_table(page, database, table, f"The attribute {name} was added")
        case "drop-attribute" if table:
            name = form.text("attribute")
            check_typed(page, name)
            await page.run("drop_attribute", **here, attribute=name)
            return _to_table(page, database, table, f"The attribute {name} was dropped")
        case "records" if table:
            check_typed(page, table)
            answer = await page.run("delete_records_before", **here, date=form.text("before"))
            return page.see_other(f"jobs/{segment(answer['job_id'])}", note="The records are being deleted")
        case "log" if table:
            check_typed(page, table)
            moment = iso_to_ms(form.text("before"))
            if moment is None:
                raise ClientError("The form has no time")
            answer = await page.run("delete_audit_logs_before", **here, timestamp=moment[0])
            return page.see_other(f"jobs/{segment(answer['job_id'])}", note="The entries are being removed")
    raise ClientError("This page has no such form")


def _to_table(page: ConsolePage, database: str, table: str, note: str) -> Response:
    path, fields = table_path(database, table)
    return page.see_other(path, note=note, **fields)


# --- a new table ----------------------------------------------------------------------------------------------------------------------


async def table_form(page: ConsolePage, database: str, fault: Problem | None = None) -> Response:
    check_may(page, database, "", TABLE_FORM)
    filled = {} if page.form is None else page.form.fields
    lines = whole(filled, "lines", LINES, MOST_LINES) or LINES
    if filled.get("more"):
        lines = min(lines + LINES, MOST_LINES)
    return await page.show(
        "new_table.html",
        title=f"New table in {shown(database)}",
        status=200,
        fault=None if fault is not None and fault.code == _MORE else fault,
        lines=lines,
        can_grow=lines < MOST_LINES,
        types=[*SCALAR_TYPES, *[f"[{each}]" for each in SCALAR_TYPES]],
        filled=filled,
        back=page.at(f"databases/{segment(database)}"),
    )


_MORE = "MORE_LINES"


async def _create_table(page: ConsolePage, database: str) -> Response:
    assert page.form is not None
    form = page.form
    if form.text("more"):
        raise ClientError("More lines were asked for", code=_MORE)
    name = form.text("table")
    attributes = [each for number in range(whole(form.fields, "lines", LINES, MOST_LINES)) if (each := _attribute(page, number))]
    await page.run(
        "create_table",
        database=database,
        table=name,
        primary_key=form.text("primary_key") or None,
        attributes=attributes or None,
        expiration=numeric(form.text("expiration")) or None,
        audit={"yes": True, "no": False}.get(form.text("audit")),
    )
    note = f"The table {name} was made"
    if page.may("describe_table", database=database, table=name):
        return _to_table(page, database, name, note)
    return page.see_other(f"databases/{segment(database)}", note=note)


def _attribute(page: ConsolePage, number: int) -> dict[str, Any] | None:
    """What one line of the form says; None for an empty one."""
    assert page.form is not None
    name, kind = page.form.text(f"name{number}"), page.form.text(f"type{number}")
    if not name:
        return None
    found: dict[str, Any] = {"name": name}
    if kind.startswith("["):
        found["elements"] = kind[1:-1]
    elif kind:
        found["type"] = kind
    ticked = {"indexed": True, "nullable": False}
    return found | {field: value for field, value in ticked.items() if page.form.text(f"{field}{number}")}
