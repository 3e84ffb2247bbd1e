"""The pages of an import: the file, its columns, the job."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import urlencode

from svc.auth.roles import rights
from svc.auth.users import user_of
from svc.errors import AccessViolation, ClientError, NotFound, Problem
from svc.messages import Response
from svc.pages.cells import CELL, shortened
from svc.pages.frame import NO_STORE
from svc.pages.importing.columns import MOST_COLUMNS, ImportColumn, import_columns, mapping_of
from svc.pages.importing.job import JOB, job_page, refused_csv
from svc.pages.importing.offer import may_import
from svc.pages.tokens import form_token
from svc.pages.views import ViewCall

ACTIONS = ("insert", "update", "upsert")
FORMATS = (("", "as it looks"), ("csv", "CSV"), ("json", "JSON, an array"), ("ndjson", "NDJSON, a record in each line"))
SEPARATORS = (("", "as it looks"), (",", "comma"), (";", "semicolon"), ("\t", "tab"), ("|", "bar"))
ENCODINGS = (("", "UTF-8"), ("windows-1252", "Windows-1252"), ("iso-8859-1", "ISO 8859-1"), ("utf-16", "UTF-16"))
_LONGEST = 2000  # characters of a fault
_READING = {"format": FORMATS, "separator": SEPARATORS, "encoding": ENCODINGS}


async def show(call: ViewCall) -> Response:
    _check(call)
    job, upload = call.fields.get("job"), call.fields.get("upload")
    if job is not None:
        return await _show_job(call, job)
    if upload is None:
        return await _first(call)
    return await _show_columns(call, upload, _chosen(call.fields), None, None)


async def send(call: ViewCall) -> Response:
    _check(call)
    form = call.form
    assert form is not None
    step = form.text("step")
    if step == "file":
        return await _take_file(call)
    if step == "run":
        return await _run(call)
    if step == "cancel":
        job = form.text("job")
        try:
            await _operate(call, "cancel_job", {"id": job}, is_placed=False)
        except ClientError as error:
            if error.status_code != 400:  # it has ended meanwhile
                raise
        return call.see_other(f"?{urlencode({'_view': 'import', 'job': job})}")
    raise ClientError("The form has no step")


# --- the file -----------------------------------------------------------------------------------------------------------------------------


async def _first(call: ViewCall, fault: Problem | None = None) -> Response:
    return await call.page(
        "import.html",
        title=_title(call),
        status=200 if fault is None else fault.status_code,
        fault="" if fault is None else shortened(fault.message, _LONGEST),
    )


async def _take_file(call: ViewCall) -> Response:
    assert call.form is not None
    file = call.form.files.get("file")
    if file is None or not file.size:
        return await _first(call, ClientError("Choose a file that is not empty"))
    try:
        answer = await _operate(call, "add_upload", {"payload": file.read(), "action": _first_action(call)})
    except Problem as fault:
        if fault.status_code in (401, 403):
            raise
        return await _first(call, fault)
    return call.see_other(f"?{urlencode({'_view': 'import', 'upload': answer['upload']})}")


# --- its columns --------------------------------------------------------------------------------------------------------------------------


async def _show_columns(
    call: ViewCall, upload: str, reading: Mapping[str, str], sent: Mapping[str, str] | None, fault: Problem | None
) -> Response:
    """`reading`: how the file is read, as it was chosen. `sent`: the form as it was filled in."""
    found: Mapping[str, Any] = {"format": reading["format"] or None, "separator": None, "columns": [], "rows": [], "more": False}
    columns: list[ImportColumn] = []
    try:
        found = await _read(call, upload, reading)
        columns = import_columns(found, call.resource.table, _writable(call), sent)
    except Problem as error:
        if error.status_code in (401, 403, 404):
            raise
        fault = error
    action = (sent or {}).get("action") or _first_action(call)
    return await call.page(
        "import_columns.html",
        title=_title(call),
        status=200 if fault is None else fault.status_code,
        fault="" if fault is None else shortened(fault.message, _LONGEST),
        upload=upload,
        selects=[(name, name.capitalize(), options, reading[name]) for name, options in _READING.items()],
        reading={"format": found["format"] or "", "separator": found["separator"] or "", "encoding": reading["encoding"]},
        columns=columns,
        rows=found["rows"],
        count=len(found["rows"]),
        more=found["more"],
        actions=_actions(call),
        action=action,
        key=call.resource.table.primary_key,
    )


async def _read(call: ViewCall, upload: str, reading: Mapping[str, str]) -> Mapping[str, Any]:
    """Raises ClientError for what this page cannot show."""
    fields = {name: value for name, value in reading.items() if value}
    found: Mapping[str, Any] = await _operate(call, "read_upload", {"upload": upload, "action": _first_action(call), **fields})
    if len(found["columns"]) > MOST_COLUMNS:
        raise ClientError(
            f"The file has {len(found['columns'])} columns; here at most {MOST_COLUMNS} can be chosen from. The operation csv_data_load loads it"
        )
    names = [each["name"] for each in found["columns"]]
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise ClientError(f"Two columns of the file are called '{shortened(twice, CELL)}'")
    return found


async def _run(call: ViewCall) -> Response:
    assert call.form is not None
    sent = call.form.fields
    upload, reading = sent.get("upload", ""), _chosen(sent)
    action = sent.get("action", "")
    if action not in _actions(call):
        raise (
            AccessViolation(user_of(call.request))
            if action in ACTIONS
            else ClientError("What is to be done with the records is not chosen")
        )
    fault: Problem | None = None
    try:
        found = await _read(call, upload, reading)
        columns = import_columns(found, call.resource.table, _writable(call), sent)
        key = call.resource.table.primary_key
        if any(column.fault for column in columns):
            fault = ClientError("Two columns become the same attribute")
        elif not any(column.chosen for column in columns):
            fault = ClientError("All columns are left out")
        elif action != "insert" and not any(column.chosen == key for column in columns):
            fault = ClientError(f"To {action} records, a column has to become the key: {shortened(key, CELL)}")
        else:
            body = {"upload": upload, "action": action, "columns": mapping_of(found, columns), **{k: v for k, v in reading.items() if v}}
            started = await _operate(call, JOB, {**body, **_as_read(found)})
            return call.see_other(f"?{urlencode({'_view': 'import', 'job': started['job_id']})}")
    except Problem as error:
        if error.status_code in (401, 403, 404):
            raise
        fault = error
    return await _show_columns(call, upload, reading, sent, fault)


def _as_read(found: Mapping[str, Any]) -> dict[str, Any]:
    """How a file has been read, as fields of its load."""
    return {name: found[name] for name in ("format", "separator", "quotes_mean_text") if found[name] is not None}


# --- the job ------------------------------------------------------------------------------------------------------------------------------


async def _show_job(call: ViewCall, job_id: str) -> Response:
    found = await _operate(call, "get_job", {"id": job_id[:CELL] or "-"}, is_placed=False)
    job = found[0] if found else None
    if job is None or job["type"] != JOB:
        raise NotFound("There is no such import")
    if call.fields.get("refused") == "csv":
        pairs = [("Content-Type", "text/csv; charset=utf-8"), ("Content-Disposition", 'attachment; filename="refused.csv"'), NO_STORE]
        return Response(refused_csv(job), 200, pairs=[*pairs, ("X-Content-Type-Options", "nosniff")])
    return await call.page("import_job.html", title=_title(call), job=job_page(job), job_id=job["id"])


# --- what they have in common -------------------------------------------------------------------------------------------------------------


async def _operate(call: ViewCall, name: str, fields: Mapping[str, Any], *, is_placed: bool = True) -> Any:
    operate, table = call.pages.operate, call.resource.table
    assert operate is not None
    place = {"database": table.database.name, "table": table.name, "holder": form_token(call.request)} if is_placed else {}
    return await operate({"operation": name, **place, **fields}, user_of(call.request))


def _check(call: ViewCall) -> None:
    """Raises 401, 403, and 404 where nothing can be imported."""
    target = call.target
    if call.pages.operate is None or target.id is not None or target.prefix is not None or not target.is_collection:
        raise NotFound("Not found")
    user = user_of(call.request)
    if user is None:
        raise AccessViolation(user)
    call.resource.authorize("post", target, None, call.request)
    if not may_import(call.registration, user):
        raise ClientError(
            "Nothing can be imported here: the table is written by code, or your role does not have the operation", 403, "FORBIDDEN"
        )


def _actions(call: ViewCall) -> list[str]:
    may = rights(user_of(call.request), call.resource.table)
    is_super = call.request.user is not None and call.request.user.super_user
    return [each for each in ACTIONS if is_super or ((may.insert or each == "update") and (may.update or each == "insert"))]


def _first_action(call: ViewCall) -> str:
    return _actions(call)[0]


def _writable(call: ViewCall) -> frozenset[str] | None:
    """The attributes that the caller may write; None: all."""
    user, table = user_of(call.request), call.resource.table
    if user is not None and user.super_user:
        return None
    may = rights(user, table)
    return None if may.attributes is None else frozenset(name for name in table.attributes if may.attribute(name).insert)


def _chosen(fields: Mapping[str, str]) -> dict[str, str]:
    """How the file is to be read. What none of the choices is counts as not chosen."""
    return {name: value if (value := fields.get(name, "")) in dict(options) else "" for name, options in _READING.items()}


def _title(call: ViewCall) -> str:
    return f"Import into {shortened(call.registration.path, CELL)}"
