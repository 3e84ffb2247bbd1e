"""Two people have changed one record: what each has changed, and what is to be written (spec: http §7.8).

Whether somebody else has changed an attribute is told by the digest of what the form had shown, and that of what it would show now. What it had shown is in
the form where it was not touched, else in the log. Nothing of this needs to be believed: what is shown the caller may read, and what is written is checked.
"""

from __future__ import annotations

from asyncio import sleep
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from svc.content.json_type import encode_json
from svc.messages import Response
from svc.pages.cells import LONG, Cell, cell_of, shortened, size_text
from svc.pages.editing.fields import FILES, OTHERS, VALUE, FieldFault, digest_of, field_of, json_text, json_value, name_of, token_of
from svc.pages.editing.forms import FILE, REMOVE, STATE, TEXT, OpenRecord, RecordForm, SentRecord
from svc.store.entity_tags import etag_of
from svc.store.values.keys import encode_primary
from svc.store.values.records import MISSING, decode, lsn_of

if TYPE_CHECKING:
    from svc.pages.views import ViewCall
    from svc.store import Table

CONFIRMED, AGAIN = "_confirmed", "_again"
BOTH = "Both have changed it"
TAKE = "t."
MINE, THEIRS = "mine", "theirs"
_MOST_ENTRIES = 50  # of the log that are looked through
_NEVER = "-"  # a digest that no field has: it counts as touched


@dataclass(slots=True)
class Difference:
    """One attribute: what it was, is, and was entered. `was` None: that is not known. `digest`: of what it is. `hidden`: the fields of a form that say again
    what was entered."""

    name: str
    token: str
    was: Cell | None
    now: Cell
    mine: Cell | None
    digest: str
    is_conflict: bool = False
    note: str = ""
    is_file: bool = False
    hidden: list[tuple[str, str]] = field(default_factory=list)


def decided(sent: SentRecord) -> bool:
    """Whether it was chosen for each conflict which value is kept. What is theirs is taken out of the form."""
    fields = sent.form.fields
    conflicts = fields.get(CONFIRMED, "").split()
    if any(fields.get(TAKE + token) not in (MINE, THEIRS) for token in conflicts):
        return False
    for token in conflicts:
        if fields[TAKE + token] == THEIRS:
            sent.shown.pop(token, None)
    return True


async def differences_page(
    call: ViewCall, sent: SentRecord, found: tuple[OpenRecord, RecordForm] | None, fault: str, status: int
) -> Response:
    """`found`: the record as it is now, and its form; None: it is gone."""
    expand_rest(sent)
    if found is None:
        return await _gone_page(call, sent, status)
    record, form = found
    table = call.resource.table
    before = _before(call, record, sent.version)
    differences = await _differences(sent, record, form, before, table)
    undecided = sent.form.fields.get(CONFIRMED, "").split() if fault else []
    mine = [each for each in differences if each.mine is not None]
    shown = {each.token: (*sent.shown[each.token][:2], each.digest) for each in mine}
    for each in mine:
        if each.token in undecided:
            each.is_conflict, each.note = True, BOTH
    again = RecordForm([], version=record.tag, shown=shown)
    conflicts = [each.token for each in mine if each.is_conflict]
    return await call.page(
        "edit_differences.html",
        title="Changed by somebody else",
        status=status,
        form=again,
        differences=differences,
        conflicts=" ".join(conflicts),
        fault=fault,
        back="./" + call.request.pathname.rpartition("/")[2],
        has_files=any(each.is_file for each in mine),
    )


async def _gone_page(call: ViewCall, sent: SentRecord, status: int) -> Response:
    """The record has been deleted: what was entered may become a new one."""
    shown, hidden, has_files = {}, [], False
    key = call.resource.table.primary_key
    for token, (format_, state, _) in sent.shown.items():
        if format_ in FILES:
            has_files = has_files or FILE + token in sent.form.files
            continue
        if sent.text(token) is None:
            continue
        shown[token] = (format_, state, _NEVER)
        hidden += _fields_again(sent, token)
    shown[token_of(key)] = ("key", "missing", _NEVER)
    target = call.target.id
    hidden.append((TEXT + token_of(key), "/".join(map(str, target)) if isinstance(target, tuple) else str(target)))
    return await call.page(
        "edit_gone.html",
        title="Deleted by somebody else",
        status=status,
        form=RecordForm([], shown=shown),
        hidden_fields=hidden,
        collection=call.collection,
        has_files=has_files,
    )


def expand_rest(sent: SentRecord) -> None:
    """Have the changes in the field of undeclared properties as fields of their own, as JSON."""
    fields = sent.form.fields
    text = fields.pop(OTHERS, None)
    whole = sent.shown.pop(OTHERS, None)
    if text is None or whole is None or digest_of(VALUE, text) == whole[2]:
        return
    try:
        rest = json_value(text)
    except FieldFault:
        return
    rest = rest if isinstance(rest, dict) else {}
    for name in [*rest, *(name for name in sent.rest_shown if name not in rest)]:
        value = rest.get(name)
        was = sent.rest_shown.get(name, digest_of(VALUE, ""))
        if digest_of(VALUE, encode_json(value).decode()) != was:
            token = token_of(name)
            sent.shown[token] = ("json", VALUE, was)
            fields[TEXT + token] = json_text(value)


async def _differences(sent: SentRecord, record: OpenRecord, form: RecordForm, before: dict[str, Any], table: Table) -> list[Difference]:
    found = []
    now = {each.token: each for each in form.fields if each.format}
    for token, (format_, _, digest) in sent.shown.items():
        name, field_now = name_of(token), now.get(token)
        value = record.values.get(name, MISSING)
        digest_now = field_now.digest if field_now is not None else _undeclared_digest(value)
        is_mine, is_theirs = sent.is_touched(token), digest_now != digest
        if not is_mine and not is_theirs:
            continue
        await sleep(0)  # a long value takes some milliseconds
        difference = Difference(shortened(name, LONG), token, _was(sent, token, before, table), cell_of(value, LONG), None, digest_now)
        if is_mine:
            difference.mine = _mine(sent, token)
            difference.is_file = format_ in FILES and FILE + token in sent.form.files
            difference.hidden = _fields_again(sent, token)
            is_equal = not difference.is_file and digest_of(sent.state(token), sent.text(token) or "") == digest_now
            difference.is_conflict = is_theirs and not is_equal
            difference.note = (
                "Both have changed it" if difference.is_conflict else "Yours" if not is_theirs else "Both have entered the same"
            )
        else:
            difference.note = "Theirs"
        found.append(difference)
    return found


def _undeclared_digest(value: Any) -> str:
    return digest_of(VALUE, "" if value is MISSING else encode_json(value).decode())


def _mine(sent: SentRecord, token: str) -> Cell:
    format_ = sent.shown[token][0]
    if format_ in FILES:
        upload = sent.form.files.get(FILE + token)
        return Cell("null", "null") if upload is None else Cell(f"{shortened(upload.type, 100)}, {size_text(upload.size)}", "bytes")
    try:
        value = sent.value(token, None)
    except FieldFault:
        value = sent.text(token)
    return cell_of(None if value is MISSING else value, LONG)


def _was(sent: SentRecord, token: str, before: dict[str, Any], table: Table) -> Cell | None:
    """What the form had shown, if it is known."""
    name, digest = name_of(token), sent.shown[token][2]
    if name not in before:
        return None
    value = before[name]
    attribute = table.attributes.get(name)
    shown = _undeclared_digest(value) if attribute is None else field_of(attribute, value).digest
    return cell_of(value, LONG) if shown == digest else None


def _fields_again(sent: SentRecord, token: str) -> list[tuple[str, str]]:
    """(name, value) of what a form has sent for a field."""
    return [(start + token, sent.form.fields[start + token]) for start in (TEXT, STATE, REMOVE) if start + token in sent.form.fields]


def _before(call: ViewCall, record: OpenRecord, version: str) -> dict[str, Any]:
    """What the caller may read of the record of a version, as the log has it; {} if that is not there."""
    table = call.resource.table
    log, txn = table.database.log, table.database.snapshot()
    newest = lsn_of(record.raw)
    for number, entry in enumerate(log.read_record_history(txn, table.number, encode_primary(call.target.id), newest)):
        if number >= _MOST_ENTRIES:
            break
        if entry.image is not None and etag_of(entry.image) == version:
            if not call.resource.may_see(entry.image, call.request):
                break
            found = dict.fromkeys(table.attributes, MISSING) | decode(entry.image)
            return {name: value for name, value in found.items() if record.shows(name)}
    return {}
