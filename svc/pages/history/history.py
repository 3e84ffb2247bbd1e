"""The pages of a record's history: entries by twenty, one entry with the whole record, and the form that restores it (spec: http §7.8.3)."""

from __future__ import annotations

import inspect
from typing import Any

from svc.auth.users import user_of
from svc.errors import AccessViolation, ClientError, NotFound, Problem
from svc.messages import Response
from svc.pages.cells import CELL, WHOLE, lines_of, shortened, shown
from svc.pages.history.entries import differences, entry_of, is_same, narrowed, restorable, states_of, version_of
from svc.pages.record import READ_LOG, may_see_history
from svc.pages.views import ViewCall
from svc.store import Precondition
from svc.store.entity_tags import etag_of
from svc.store.values.records import MISSING, decode

PAGE = 20  # entries
NEAR = 200  # entries that are looked through for one: so many may have been added since its page was made
MOST = 1_000_000  # that one can go back
_MOST_FAULT = 2000  # characters

Record = dict[str, Any]


async def show(call: ViewCall) -> Response:
    _check(call)
    if not call.resource.table.audit:
        return await call.page("history.html", title=_title(call), record=_record(call), entries=[], older="", newer="", kept=False)
    offset = _offset(call.fields.get("at", "0"))
    version = call.fields.get("version")
    if version is not None:
        return await _show_entry(call, version, offset)
    found = await _read(call, offset, PAGE + 1)
    entries = [entry_of(each, offset + number) for number, each in enumerate(found[:PAGE])]
    older = f"?_view=history&at={offset + PAGE}" if len(found) > PAGE else ""
    newer = f"?_view=history&at={max(0, offset - PAGE)}" if offset else ""
    return await call.page("history.html", title=_title(call), record=_record(call), entries=entries, older=older, newer=newer, kept=True)


async def send(call: ViewCall) -> Response:
    """Put the record back as it was."""
    _check(call)
    assert call.form is not None
    if not _sees_all(call):
        raise AccessViolation(user_of(call.request))
    found, at = await _find(call, call.form.text("version"), _offset(call.form.text("at") or "0"))
    record = restorable(found)
    if record is None:
        raise ClientError("This version cannot be restored")
    request, tag = call.request, call.form.text("match")
    request.precondition = Precondition(if_match=(tag,)) if tag else Precondition(if_none_match="*")
    try:
        result = call.resource.handle("put", call.target, record, request)
        if inspect.isawaitable(result):
            await result
    except Problem as fault:
        return await _entry_page(call, found, at, fault)
    finally:
        request.precondition = None
    return call.see_other(_record(call))


async def _show_entry(call: ViewCall, version: str, offset: int) -> Response:
    found, at = await _find(call, version, offset)
    return await _entry_page(call, found, at, None)


async def _entry_page(call: ViewCall, found: Record, at: int, fault: Problem | None) -> Response:
    entry = entry_of(found, at, WHOLE)
    before, after = states_of(found)
    record = restorable(found) if _sees_all(call) and call.may("put") else None
    tag, now = _current(call)
    names = [] if record is None else [name for name in {**now, **record} if not is_same(now.get(name, MISSING), record.get(name, MISSING))]
    return await call.page(
        "history_entry.html",
        title=_title(call),
        record=_record(call),
        status=200 if fault is None else fault.status_code,
        entry=entry,
        lines=lines_of(after or before),
        can_restore=record is not None and bool(names),
        differences=differences(now, record or {}, names),
        exists=bool(tag),
        match=tag,
        fault="" if fault is None else shortened(fault.message, _MOST_FAULT),
        back=f"?_view=history&at={at // PAGE * PAGE}",
    )


def _current(call: ViewCall) -> tuple[str, Record]:
    """The entity tag of the record as it is now, and what the caller may see of it; "" and nothing if it is not there."""
    resource, target = call.resource, call.target
    raw = resource.table.get_raw(target.id)
    resource.authorize("get", target, None, call.request)
    if raw is None or not resource.may_see(raw, call.request):
        return "", {}
    visible = resource.visible(target)
    return etag_of(raw), {name: value for name, value in decode(raw).items() if visible is None or name in visible}


async def _find(call: ViewCall, version: str, offset: int) -> tuple[Record, int]:
    """The entry with this version, and its number. Raises NotFound."""
    for start in range(offset, offset + NEAR, PAGE):
        found = await _read(call, start, PAGE)
        for number, each in enumerate(found, start):
            if version_of(each) == version:
                return each, number
        if len(found) < PAGE:
            break
    raise NotFound("There is no such version in the history of this record")


async def _read(call: ViewCall, offset: int, limit: int) -> list[Record]:
    operate, table, key = call.pages.operate, call.resource.table, call.target.id
    assert operate is not None
    body = {
        "operation": READ_LOG,
        "database": table.database.name,
        "table": table.name,
        "search_type": "hash_value",
        "search_values": [list(key) if isinstance(key, tuple) else key],
        "order": "desc",
        "start": offset,
        "limit": limit,
    }
    answer = await operate(body, user_of(call.request))
    found: list[Record] = next(iter(answer.values()), [])
    visible = call.resource.visible(call.target)
    return found if visible is None else [narrowed(each, visible) for each in found]


def _check(call: ViewCall) -> None:
    """Raises 401 or 403 for who may not read the log, and 404 where there is no record."""
    if call.pages.operate is None or call.target.id is None or call.target.property is not None:
        raise NotFound("Not found")
    user = user_of(call.request)
    if not may_see_history(call.registration, user):
        raise AccessViolation(user)
    call.resource.authorize("get", call.target, None, call.request)


def _sees_all(call: ViewCall) -> bool:
    """Whether the caller may read each attribute: else what is put back would lack some."""
    return call.resource.visible(call.target) is None


def _offset(text: str) -> int:
    if not text.isascii() or not text.isdecimal() or len(text) > 9 or int(text) > MOST:
        raise ClientError("'at' must be a number")
    return int(text)


def _record(call: ViewCall) -> str:
    """The address of the record itself."""
    return f"./{call.request.pathname.rpartition('/')[2]}"


def _title(call: ViewCall) -> str:
    key = call.target.id
    return f"History of {shown(str(key if not isinstance(key, tuple) else '/'.join(map(str, key)))[:CELL])}"
