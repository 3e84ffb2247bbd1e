"""Backups of databases: made, checked, removed, downloaded, brought back (spec: console §7)."""

from __future__ import annotations

from dataclasses import dataclass
from shlex import quote
from typing import Any

from svc.console.confirm import Question, ask, check_typed
from svc.console.page import ConsolePage
from svc.console.texts import bytes_text, iso_of, segment
from svc.errors import ClientError, NotFound, Problem
from svc.messages import Response
from svc.operations.row_rules import narrows
from svc.pages.cells import shown
from svc.store.system import SYSTEM

MOST = 500  # backups that are listed, the newest
_LONGEST_NAME = 250


@dataclass(slots=True)
class Row:
    number: int
    time: str
    size: str
    files: int
    delete: str
    restore: str


async def show(page: ConsolePage) -> Response:
    if page.rest == ["download"]:
        return await _download(page)
    if page.rest:
        raise NotFound("There is no such page")
    return await _show(page)


async def send(page: ConsolePage) -> Response:
    if page.rest:
        raise NotFound("There is no such page")
    try:
        return await _done(page, page.fields.get("database", ""))
    except Problem as fault:
        return await _show(page, fault)


async def _download(page: ConsolePage) -> Response:
    """The database as it is now, as a stream. A copy takes time and room, so a link of another site leads to the page that offers it."""
    if page.request.block.fields.get("sec-fetch-site") == "cross-site":
        return page.see_other("backups", database=page.fields.get("database", ""))
    if page.request.method == "HEAD":  # there is no copy for a head
        raise NotFound("The copy is made for GET")
    response: Response = await page.run(
        "get_backup",
        database=page.fields.get("database", ""),
        include_audit=page.fields.get("log") == "1",
        exclude_blobs=page.fields.get("blobs") == "0",
    )
    return response


async def _show(page: ConsolePage, fault: Problem | None = None) -> Response:
    database = page.fields.get("database", "")
    for wish in ("delete", "restore", "keep"):
        if database and wish in page.fields:
            return await ask(page, await _question(page, database, wish, page.fields[wish]), fault)
    found: list[dict[str, Any]] = []
    if database:
        try:
            found = await page.run("list_backups", database=database)
        except Problem as problem:
            fault = fault or problem
    here = {"database": database}
    return await page.show(
        "backups.html",
        title=f"Backups of {shown(database[:_LONGEST_NAME])}" if database else "",
        fault=fault,
        database=database,
        databases=await _databases(page),
        rows=[_row(page, database, each) for each in found[: -MOST - 1 : -1]],
        count=len(found),
        is_system=database == SYSTEM,
        restore_command=_restore_command(database),
        may_create=bool(database) and page.may("create_backup", **here),
        may_verify=page.may("verify_backup", **here),
        may_purge=len(found) > 0 and page.may("purge_backups", **here),
        may_download=bool(database) and page.may("get_backup", **here) and not _is_narrowed(page, database),
    )


def _is_narrowed(page: ConsolePage, database: str) -> bool:
    """Whether rules on rows keep the caller from a copy of all records."""
    found = page.node.store.databases.get(database)
    return found is not None and narrows(page.user, found)


def _restore_command(database: str) -> str:
    """For a shell."""
    return f"svc restore_backup {quote('database=' + shown(database[:_LONGEST_NAME]))}"


async def _databases(page: ConsolePage) -> list[tuple[str, str]]:
    """(name, address) of the databases that the caller may know of."""
    names = list(await page.run("describe_all")) if page.may("describe_all") else []
    if page.may("describe_database", database=SYSTEM):
        names.append(SYSTEM)
    return [(shown(name), page.at("backups", database=name)) for name in names if page.may("list_backups", database=name)]


def _row(page: ConsolePage, database: str, info: dict[str, int]) -> Row:
    number = info["backup_id"]
    here = {"database": database}
    return Row(
        number,
        iso_of(info["timestamp"] * 1000),
        bytes_text(info["size"]),
        info["file_count"],
        page.at("backups", **here, delete=str(number)) if page.may("delete_backup", **here) else "",
        page.at("backups", **here, restore=str(number)) if database != SYSTEM and page.may("restore_backup", **here) else "",
    )


async def _question(page: ConsolePage, database: str, wish: str, value: str) -> Question:
    found = await page.run("list_backups", database=database)
    back = page.at("backups", database=database)
    if wish == "keep":
        if not value.isascii() or not value.isdecimal() or len(value) > 9:
            raise ClientError("Enter how many backups are kept, such as 3")
        gone = found[: len(found) - int(value)] if int(value) < len(found) else []
        lines = [f"{len(gone)} of the {len(found)} backups of {shown(database)} are removed, the oldest first."]
        if gone:
            lines.append(f"These are number {', '.join([str(each['backup_id']) for each in gone[:50]])}{' …' if len(gone) > 50 else ''}.")
        return Question("Remove old backups", lines, "Remove", back, fields={"do": "purge", "keep_count": value})
    info = next((each for each in found if str(each["backup_id"]) == value), None)
    if info is None:
        raise NotFound(f"The database {shown(database[:_LONGEST_NAME])} has no such backup")
    what = f"Backup {value} of {shown(database)}, of {iso_of(info['timestamp'] * 1000)}, with {bytes_text(info['size'])}"
    if wish == "delete":
        return Question(f"Delete backup {value}", [f"{what}, is removed."], "Delete", back, fields={"do": "delete", "backup_id": value})
    lines = [
        f"{what}, takes the place of the database as it is: what was written since is lost. Back up the database first to be able to return.",
        "The database is served until everything is ready, then it is unavailable for a short time.",
        "While the tables of an application or a component are in the database, the job ends with an error: then stop the service and restore it "
        f"with: {_restore_command(database)} backup_id={value}",
    ]
    return Question(f"Restore backup {value}", lines, "Restore", back, database, {"do": "restore", "backup_id": value})


async def _done(page: ConsolePage, database: str) -> Response:
    """Do what a form asks for. Raises Problem."""
    assert page.form is not None
    form, here = page.form, {"database": database}
    number = form.text("backup_id")
    match form.text("do"):
        case "create":
            answer = await page.run("create_backup", **here, exclude_blobs=form.text("blobs") == "0")
            return _to_job(page, answer, "The backup is being made")
        case "verify":
            answer = await page.run("verify_backup", **here, backup_id=number, verify_checksum=form.text("checksum") == "1")
            return _to_job(page, answer, f"Backup {number} is being checked")
        case "restore":
            check_typed(page, database)
            answer = await page.run("restore_backup", **here, backup_id=number)
            return _to_job(page, answer, f"Backup {number} is being restored")
        case "delete":
            await page.run("delete_backup", **here, backup_id=number)
            return page.see_other("backups", note=f"Backup {number} was deleted", **here)
        case "purge":
            answer = await page.run("purge_backups", **here, keep_count=form.text("keep_count"))
            note = f"{answer['deleted']} backups were removed, {answer['remaining']} are left"
            return page.see_other("backups", note=note, **here)
    raise ClientError("This page has no such form")


def _to_job(page: ConsolePage, answer: dict[str, Any], note: str) -> Response:
    return page.see_other(f"jobs/{segment(answer['job_id'])}", note=note)
