"""A new record: the view `new` of a table, and `copy` of a record, whose form is filled in. What is done is a POST to the table."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from svc.errors import NotFound, PreconditionFailed, Problem
from svc.messages import Response
from svc.pages.cells import CELL, shortened
from svc.pages.editing import choices
from svc.pages.editing.differences import AGAIN
from svc.pages.editing.edit import own_address
from svc.pages.editing.fields import FILES, OTHERS, field_of, json_value, name_of
from svc.pages.editing.forms import (
    Changes,
    OpenRecord,
    RecordForm,
    SentRecord,
    answered,
    changes_of,
    faults_of,
    filled,
    form_of,
    open_record,
    rights_to,
    sent_record,
    written,
)
from svc.resources import RequestTarget
from svc.resources.resource import CreatedRecords
from svc.store.blobs import create_blob

if TYPE_CHECKING:
    from svc.pages.views import ViewCall

COPY = "copy"
"""The view of a record; `new` is that of a table."""
CREATED = "created"


async def show(call: ViewCall) -> Response:
    record = await _original(call)
    return await _page(call, record, _form(call, record))


async def send(call: ViewCall) -> Response:
    assert call.form is not None
    sent = sent_record(call.form)
    record = await _original(call)
    form = _form(call, record)
    if (asked := choices.asked(call.form)) is not None:
        return await choices.choosing_page(call, sent, *asked)
    if choices.take_picked(call.form) or AGAIN in call.form.fields:
        return await _page(call, record, filled(form, sent))
    table = call.resource.table
    changes = changes_of(sent, table, is_new=True)
    if record is not None and not changes.faults:
        await _add_originals(changes, sent, record, form, call)
    faults, status = changes.faults, 400
    if not faults:
        try:
            return await _created(call, changes.values)
        except PreconditionFailed:
            raise
        except Problem as error:
            if error.status_code == 401:
                raise
            faults, status = faults_of(error, changes.values, table), error.status_code
    form = filled(form, sent)
    form.blame(faults)
    return await _page(call, record, form, status)


async def _created(call: ViewCall, values: dict[str, Any]) -> Response:
    target = call.target
    call.target = _collection(call)
    try:
        result = await written(call, "post", dict(values))
    finally:
        collection, call.target = call.target, target
    if isinstance(result, CreatedRecords) and result.location:
        return call.see_other(f"{call.collection}{result.location}#{CREATED}")
    return await answered(call, collection, result) or call.see_other(f"{call.collection}#{CREATED}")


async def _add_originals(changes: Changes, sent: SentRecord, record: OpenRecord, form: RecordForm, call: ViewCall) -> None:
    """Of a copy: the stored values of what was left as it was shown, with all that a form cannot say of them."""
    table = call.resource.table
    key = table.primary_key
    offered = {each.token for each in form.fields if each.format}
    for token, (format_, _, digest) in sent.shown.items():
        name = "" if token == OTHERS else name_of(token)
        if token not in offered or name == key or sent.is_touched(token) or name not in record.values:
            continue
        value = record.values[name]
        if field_of(table.attributes[name], value).digest != digest:
            continue  # the original is another one by now
        if format_ in FILES and not isinstance(value, bytes) and value is not None:
            value = create_blob(await value.bytes(), type=value.type)
        changes.values[name] = value
    if form.rest is not None and OTHERS in sent.shown:
        shown = sent.rest_shown
        for name, digest in form.rest_shown.items():
            if shown.get(name) == digest and name not in changes.values and _is_kept(sent, name):
                changes.values[name] = record.values[name]


def _is_kept(sent: SentRecord, name: str) -> bool:
    """Whether an undeclared property is still in the field of these."""
    if not sent.is_touched(OTHERS):
        return True
    rest = json_value(sent.text(OTHERS) or "")
    return isinstance(rest, dict) and name in rest


async def _original(call: ViewCall) -> OpenRecord | None:
    """The record that is copied."""
    if call.name == COPY:
        return await open_record(call)
    if not call.target.is_collection and not call.target.is_root:
        raise NotFound("This view is one of a table")
    return None


def _collection(call: ViewCall) -> RequestTarget:
    """Where a record is posted: the table, or what is below a prefix."""
    if call.name != COPY:
        return call.target
    target = RequestTarget()
    target.is_collection, target.raw = True, ""
    return target


def _form(call: ViewCall, record: OpenRecord | None) -> RecordForm:
    own, call.target = call.target, _collection(call)
    try:
        rights = rights_to(call, "post")
    finally:
        call.target = own
    return form_of(call, record, rights, is_new=True)


async def _page(call: ViewCall, record: OpenRecord | None, form: RecordForm, status: int = 200) -> Response:
    table = shortened(call.resource.table.name, CELL)
    if record is None:
        title, back, note = f"New record of {table}", call.collection, ""
    else:
        key = record.values.get(call.resource.table.primary_key, call.target.id)
        title, back = f"Duplicate {shortened(str(key), CELL)}", own_address(call)
        note = "A new record like this one. What is left as it is, files included, is taken from there."
    if form.parts:
        note += " Only these attributes can be given here; others can be added when the record is there."
        form.parts = []
    return await call.page("edit.html", title=title, status=status, form=form, back=back, button="Insert", note=note.strip())
