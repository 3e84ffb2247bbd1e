"""Changing a record: a form of what it holds; what is done is a PATCH of what has been changed in it, of the version that was opened."""

from __future__ import annotations

from asyncio import sleep
from typing import TYPE_CHECKING, Any

from svc.errors import NotFound, PreconditionFailed, Problem
from svc.messages import Response
from svc.pages.cells import CELL, shortened
from svc.pages.editing import choices
from svc.pages.editing.differences import AGAIN, CONFIRMED, decided, differences_page
from svc.pages.editing.forms import (
    OpenRecord,
    RecordForm,
    SentRecord,
    answered,
    changes_of,
    check_rules,
    faults_of,
    filled,
    form_of,
    open_record,
    rights_to,
    sent_record,
    written,
)
from svc.store.values.records import MISSING

if TYPE_CHECKING:
    from svc.pages.views import ViewCall

SAVED = "saved"
"""The place on the page of a record that says what has been done (`actions.html`)."""


async def show(call: ViewCall) -> Response:
    record = await open_record(call)
    check_rules(call, record, "update")
    await sleep(0)
    return await edit_page(call, record, _form(call, record))


async def send(call: ViewCall) -> Response:
    assert call.form is not None
    sent = sent_record(call.form)
    if (asked := choices.asked(call.form)) is not None:
        await show(call)  # raises for who may not see or change it
        return await choices.choosing_page(call, sent, *asked)
    picked = choices.take_picked(call.form)
    if picked or AGAIN in call.form.fields:
        record = await open_record(call)
        return await edit_page(call, record, filled(_form(call, record), sent))
    if CONFIRMED in call.form.fields and not decided(sent):
        return await _conflict(call, sent, "Choose for each conflict which value is to be kept", 400)
    table = call.resource.table
    changes = changes_of(sent, table, is_new=False)
    await sleep(0)  # each step may take some milliseconds for a record of a megabyte: others are served in between
    if not changes.faults:
        if not changes.values:
            await show(call)  # raises for who may not see or change it
            return call.see_other(own_address(call))
        try:
            result = await written(call, "patch", dict(changes.values), sent.version)
        except PreconditionFailed:
            return await _conflict(call, sent, "", 412)
        except Problem as error:
            if error.status_code == 401:
                raise
            changes.faults = faults_of(error, changes.values, table)
            return await _refused(call, sent, changes.faults, error.status_code)
        return await answered(call, call.target, result) or call.see_other(f"{own_address(call)}#{SAVED}")
    return await _refused(call, sent, changes.faults, 400)


async def _refused(call: ViewCall, sent: SentRecord, faults: dict[str, list[str]], status: int) -> Response:
    """The form as it was filled in, with what is wrong."""
    try:
        record = await open_record(call)
    except NotFound:
        return await differences_page(call, sent, None, "", 404)
    await sleep(0)
    form = filled(_form(call, record), sent)
    form.blame(faults)
    return await edit_page(call, record, form, status)


async def _conflict(call: ViewCall, sent: SentRecord, fault: str, status: int) -> Response:
    """What somebody else has changed since the record was opened."""
    await sleep(0)
    try:
        record = await open_record(call)
    except NotFound:
        return await differences_page(call, sent, None, fault, 404)
    await sleep(0)
    form = _form(call, record)
    await sleep(0)
    return await differences_page(call, sent, (record, form), fault, status)


def _form(call: ViewCall, record: OpenRecord) -> RecordForm:
    rights = rights_to(call, "patch")
    if not rights.update:
        raise call.resource.not_allowed("patch", target=call.target)
    return form_of(call, record, rights, is_new=False)


async def edit_page(call: ViewCall, record: OpenRecord, form: RecordForm, status: int = 200) -> Response:
    key: Any = record.values.get(call.resource.table.primary_key, MISSING)
    title = f"Edit {shortened(str(call.target.id if key is MISSING else key), CELL)}"
    return await call.page("edit.html", title=title, status=status, form=form, back=own_address(call), button="Save", note="")


def own_address(call: ViewCall) -> str:
    """Of the record, relative to the view."""
    return "./" + call.request.pathname.rpartition("/")[2]
