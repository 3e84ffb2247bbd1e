"""The form of one record: which fields it has for its caller, and what it has sent (spec: http §7.8)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import msgspec

from svc.auth.roles import TableRights
from svc.auth.users import user_of
from svc.awaitables import is_waiting
from svc.content.json_type import decode_json, encode_json
from svc.content.list_faults import told_faults
from svc.content.values import is_blob
from svc.errors import BadValue, ClientError, NotFound, NotUnique, Problem, RowNotAllowed, StillReferenced
from svc.http.row_stream import narrow
from svc.messages import Response
from svc.pages.cells import CELL, shortened
from svc.pages.collection import foreign_keys, target_table
from svc.pages.editing.actions import rules_allow
from svc.pages.editing.fields import (
    ABSENT,
    FILES,
    OTHERS,
    STATED,
    VALUE,
    Field,
    FieldFault,
    as_sent,
    digest_of,
    field_of,
    is_plain_name,
    json_value,
    name_of,
    rest_field,
    shown_field,
    token_of,
    value_of,
)
from svc.query.conflicts import explained_to
from svc.query.nodes import Query, Select, SelectItem
from svc.query.printer import print_query
from svc.resources import RequestTarget, StoredRecord
from svc.store.entity_tags import Precondition, etag_of
from svc.store.schema import Attribute
from svc.store.values.records import MISSING, decode
from svc.store.values.validation import key_from_text

if TYPE_CHECKING:
    from svc.pages.sent_form import SentForm
    from svc.pages.views import ViewCall
    from svc.store import Table

MOST_FIELDS = 200  # of one form; further attributes have a form of their own
_MOST_REST = 1000  # undeclared properties that can be edited
_MOST_TEXT = 3 << 19  # bytes of all fields of one form; line ends are sent as two, and of a form with files 4 MiB are taken
_MOST_SENT = 2000  # fields that a form says it has shown
_LONGEST_SENT = 4 << 20  # characters of a field
_MOST_TOLD = 100
_MOST_COMPUTED = 50  # attributes whose values are shown
SHOWN, VERSION, FROM = "_shown", "_version", "_from"
TEXT, STATE, FILE, REMOVE = "v.", "s.", "f.", "r."
"""How the names of fields begin: what is behind it is the token of the attribute."""


# --- the record ----------------------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class OpenRecord:
    """A record as the caller sees it. `values`: what is stored, as far as the caller may read it. `visible`: the attributes that the caller may read, None:
    all. `hidden`: those of the record that code of an application answers something else for, or nothing. `computed`: values of computed attributes."""

    raw: bytes
    values: dict[str, Any]
    visible: frozenset[str] | None
    hidden: frozenset[str] = frozenset()
    computed: dict[str, Any] = field(default_factory=dict)

    @property
    def is_whole(self) -> bool:
        return self.visible is None and not self.hidden

    def shows(self, name: str) -> bool:
        """Whether the caller may read a property."""
        return name not in self.hidden and (self.visible is None or name in self.visible)

    @property
    def tag(self) -> str:
        return etag_of(self.raw)


async def open_record(call: ViewCall) -> OpenRecord:
    """Raises NotFound, and what reading it raises."""
    if call.target.id is None or call.target.property is not None:
        raise NotFound("This view is one of a record")
    result = call.resource.handle("get", call.target, None, call.request)
    if is_waiting(result):
        result = await result
    if isinstance(result, StoredRecord):
        record = decode(result.raw)
        visible = result.visible
        found = OpenRecord(result.raw, record if visible is None else narrow(record, visible), visible)
        found.computed = await _computed(call, result)
        return found
    if isinstance(result, Response):
        result = result.data
    raw = None if result is None else call.resource.table.get_raw(call.target.id)
    if raw is None:
        raise NotFound("Record not found")
    record = decode(raw)
    told = result if isinstance(result, Mapping) else {}
    values = {name: value for name, value in record.items() if name in told and _is_same(value, told[name])}
    return OpenRecord(raw, values, None, frozenset(record.keys() - values.keys()))


async def _computed(call: ViewCall, record: StoredRecord) -> dict[str, Any]:
    """The values of computed attributes that the caller may read; {} if they cannot be had."""
    names = [each.name for each in record.table.definition.attributes if each.computed_from is not None and not _is_hidden(record, each)]
    if not names:
        return {}
    try:
        target = RequestTarget(print_query(Query(select=Select(tuple([SelectItem((name,)) for name in names[:_MOST_COMPUTED]])))))
        target.id, target.rights = call.target.id, call.target.rights
        found = await call.pages.found_values(call.resource.select_one(record, target, call.request), call.request)
    except (Problem, ValueError):  # code of an application that computes it may fail
        return {}
    return found[0] if found and isinstance(found[0], dict) else {}


def _is_hidden(record: StoredRecord, attribute: Attribute) -> bool:
    return record.visible is not None and attribute.name not in record.visible


def _is_same(stored: Any, told: Any) -> bool:
    if is_blob(stored):
        return bool(stored == told)
    try:
        return encode_json(stored) == encode_json(told)
    except TypeError:
        return False


def check_rules(call: ViewCall, record: OpenRecord, action: str) -> None:
    """Raise RowNotAllowed if a rule on rows keeps the caller from changing ("update") or deleting a record as it is."""
    if not rules_allow(action, call.resource, call.target, call.request, record.raw):
        done = "deleted" if action == "delete" else "changed"
        raise RowNotAllowed(f"A rule of {call.resource.table.name} does not allow this record to be {done}", call.request.user)


def rights_to(call: ViewCall, verb: str) -> TableRights:
    """What the caller may write there. Raises AccessViolation and MethodNotAllowed."""
    resource, target = call.resource, call.target
    if verb not in resource.verbs:
        raise resource.not_allowed(verb, target=target)
    before = target.rights
    try:
        resource.authorize(verb, target, None, call.request)
        found: TableRights = target.rights
    finally:
        target.rights = before
    return found


# --- the form ------------------------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class RecordForm:
    """`rest`: the field of what is not declared. `parts`: (text, address) of the forms of further attributes. `faults`: that no field has: a summary names
    all of them. `begun`: something is filled in that is not saved."""

    fields: list[Field]
    rest: Field | None = None
    version: str = ""
    shown: dict[str, tuple[str, str, str]] = field(default_factory=dict)
    rest_shown: dict[str, str] = field(default_factory=dict)
    parts: list[tuple[str, str]] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)
    begun: bool = False

    @property
    def shown_text(self) -> str:
        """What the field `_shown` holds."""
        return json.dumps({"f": self.shown, "r": self.rest_shown}, separators=(",", ":"))

    @property
    def has_files(self) -> bool:
        return any(each.format in FILES for each in self.fields)

    @property
    def encoding(self) -> str:
        return "multipart/form-data" if self.has_files else "application/x-www-form-urlencoded"

    @property
    def every(self) -> list[Field]:
        return self.fields if self.rest is None else [*self.fields, self.rest]

    @property
    def summary(self) -> list[tuple[str, str]]:
        """(text, address within the page) of all faults."""
        told = [(text, "") for text in self.faults]
        told += [(f"{each.name}: {text}", f"#{each.id}") for each in self.every for text in each.faults]
        return told[:_MOST_TOLD]

    def blame(self, faults: Mapping[str, list[str]]) -> None:
        """Put faults to their fields. `faults`: by token, those of no field at ""."""
        by_token = {each.token: each for each in self.every if each.format}
        for token, texts in faults.items():
            place = by_token.get(token)
            if place is not None:
                place.faults += texts
            else:
                self.faults += texts


def form_of(call: ViewCall, record: OpenRecord | None, rights: TableRights, *, is_new: bool) -> RecordForm:
    """The fields of a record; None: of one that is not there yet. `is_new`: what is made of it is another record."""
    table, values = call.resource.table, {} if record is None else record.values
    attributes = _attributes(call, record, rights, is_new)
    first = _first(call, len(attributes))
    leads = {name: target_table(table, attribute) for name, attribute in foreign_keys(table).items()}
    own = "" if record is None else call.links.record_at(call.registration, values.get(table.primary_key, MISSING))
    form = RecordForm([], version="" if record is None else record.tag)
    room = _MOST_TEXT
    for attribute in attributes[first : first + MOST_FIELDS]:
        value = (values if attribute.stored or record is None else record.computed).get(attribute.name, MISSING)
        made = _field(attribute, value, table, rights, is_new)
        if made.size > room:
            made = shown_field(attribute, value, "The form has no room for it")
        room -= made.size
        target = leads.get(attribute.name)
        if target is not None and made.format:
            made.target = call.links.collection(target)
            made.link = "" if isinstance(value, list) or value in (None, MISSING) else call.links.record(target, value)
        if made.format in FILES and own and made.state == VALUE and is_plain_name(attribute.name):
            made.href = f"{own}.{attribute.name}"
        form.fields.append(made)
    form.shown = {each.token: (each.format, each.state, each.digest) for each in form.fields if each.format}
    form.parts = _parts(call, len(attributes), first)
    if not table.definition.sealed and rights.attributes is None and (record is None or record.is_whole) and not first:
        _add_rest(form, {name: value for name, value in values.items() if name not in table.attributes})
    return form


def _attributes(call: ViewCall, record: OpenRecord | None, rights: TableRights, is_new: bool) -> list[Attribute]:
    """Those that the form shows: what is stored, as far as the caller may read it, or write it anew. Of a new record what is required comes first."""
    definition = call.resource.table.definition
    computed = {} if record is None or is_new else record.computed
    found = [each for each in definition.attributes if each.stored or each.name in computed]
    if record is not None:
        found = [each for each in found if record.shows(each.name)]
    if is_new:
        key = definition.primary_key
        found = [each for each in found if not _is_managed(each) and (each.name == key or rights.attribute(each.name).insert)]
        found.sort(key=lambda each: (each.name != key, not each.required or bool(each.default)))
    return found


def _is_managed(attribute: Attribute) -> bool:
    """Whether its values are the store's."""
    return attribute.created_time or attribute.updated_time or attribute.embed is not None


def _field(attribute: Attribute, value: Any, table: Table, rights: TableRights, is_new: bool) -> Field:
    if attribute.name == table.primary_key:
        if not is_new:
            return shown_field(attribute, value, "The key")
        return _key_field(attribute, table)
    if not attribute.stored:
        return shown_field(attribute, value, "Computed")
    if _is_managed(attribute):
        return shown_field(attribute, value, "Set by the server")
    right = rights.attribute(attribute.name)
    if not (right.insert if is_new else right.update):
        return shown_field(attribute, value, "You may not change it")
    return field_of(attribute, value, is_new=is_new)


def _key_field(attribute: Attribute, table: Table) -> Field:
    """Of a new record. Empty: the key is made."""
    made = Field(attribute.name, token_of(attribute.name), attribute.type, "key", ABSENT, empty="made by the server")
    if attribute.enum is not None:
        made = field_of(attribute, MISSING, is_new=True)
    made.help = " ".join([attribute.description, "Without one the server makes a key." if attribute.enum is None else ""]).strip()
    if table.definition.split_segments:
        made.help += " Its segments are separated by slashes."
    return made


def _add_rest(form: RecordForm, rest: dict[str, Any]) -> None:
    if len(rest) > _MOST_REST:
        return
    form.rest = rest_field(rest)
    if form.rest.format:
        form.rest_shown = {name: _json_digest(decode_json(encode_json(value))) for name, value in rest.items()}
        form.shown[OTHERS] = ("json", VALUE, form.rest.digest)


def _json_digest(value: Any) -> str:
    return digest_of(VALUE, encode_json(value).decode())


def _first(call: ViewCall, count: int) -> int:
    text = call.fields.get(FROM, "0")
    first = int(text) if text.isascii() and text.isdigit() and len(text) < 6 else 0
    return first if first < count else 0


def _parts(call: ViewCall, count: int, first: int) -> list[tuple[str, str]]:
    if count <= MOST_FIELDS:
        return []
    starts = range(0, count, MOST_FIELDS)
    return [
        (f"{start + 1} to {min(start + MOST_FIELDS, count)}", "" if start == first else f"?_view={call.name}&{FROM}={start}")
        for start in starts[:50]
    ]


# --- what was sent -------------------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class SentRecord:
    """`shown`: (format, state, digest) of what each field had shown, by token; `rest_shown`: digests of undeclared properties, by name."""

    form: SentForm
    version: str
    shown: dict[str, tuple[str, str, str]]
    rest_shown: dict[str, str]

    def state(self, token: str) -> str:
        return self.form.fields.get(STATE + token, self.shown[token][1])

    def text(self, token: str) -> str | None:
        """None: the field was not sent."""
        return self.form.fields.get(OTHERS if token == OTHERS else TEXT + token)

    def is_touched(self, token: str) -> bool:
        """Whether a field holds something else than it had shown."""
        format_, _, digest = self.shown[token]
        if format_ in FILES:
            return FILE + token in self.form.files or REMOVE + token in self.form.fields
        text = self.text(token)
        return text is not None and digest_of(self.state(token), text) != digest

    def value(self, token: str, attribute: Attribute | None) -> Any:
        """What a touched field says; MISSING: nothing. Raises FieldFault."""
        format_, was, _ = self.shown[token]
        if format_ in FILES:
            upload = self.form.files.get(FILE + token)
            if upload is None:
                return None
            return upload.read() if format_ == "bytes" else upload
        text, state = self.text(token) or "", VALUE
        if format_ in STATED:
            state = self.state(token)
            if state == was and text:
                state = VALUE  # something was typed in, and that there had been nothing was left as it was
        return value_of(attribute, format_, state, text)


class _ShownFields(msgspec.Struct):
    f: dict[str, tuple[str, str, str]]
    r: dict[str, str]


def sent_record(form: SentForm) -> SentRecord:
    """Raises ClientError 400 for what none of our forms sends, 413 for a text that is too long for one."""
    if any(len(text) > _LONGEST_SENT for text in form.fields.values()):
        raise ClientError(f"A text of more than {_LONGEST_SENT >> 20} MiB is too long for a form: send it as the body of a request", 413)
    try:
        shown = msgspec.json.decode(form.text(SHOWN).encode(), type=_ShownFields)
        for token in shown.f.keys() - {OTHERS}:
            name_of(token)
        if len(shown.f) > _MOST_SENT or len(shown.r) > _MOST_REST:
            raise ValueError
    except (msgspec.MsgspecError, ValueError):
        raise ClientError("The form is not complete. Go back, load the page again, and send it once more", 400, "BAD_BODY") from None
    return SentRecord(form, form.text(VERSION), shown.f, shown.r)


@dataclass(slots=True)
class Changes:
    """`values`: by the names of properties. `faults`: what cannot be read, by the tokens of fields."""

    values: dict[str, Any] = field(default_factory=dict)
    faults: dict[str, list[str]] = field(default_factory=dict)


def changes_of(sent: SentRecord, table: Table, *, is_new: bool) -> Changes:
    """What has been changed in the form of a record. `is_new`: what is not there is left out, else it becomes null."""
    found = Changes()
    for token in sent.shown:
        if token == OTHERS or not sent.is_touched(token):
            continue
        name = name_of(token)
        if name == table.primary_key and not is_new:
            continue
        try:
            value = _key(sent.text(token) or "", table) if sent.shown[token][0] == "key" else sent.value(token, table.attributes.get(name))
        except (FieldFault, BadValue) as error:
            found.faults[token] = [error.message]
            continue
        if value is not MISSING:
            found.values[name] = value
        elif not is_new:
            found.values[name] = None
    if OTHERS in sent.shown and sent.is_touched(OTHERS):
        _add_changed_rest(found, sent, table, is_new)
    return found


def _key(text: str, table: Table) -> Any:
    """The key that a text spells, as in a path; MISSING for none. Raises BadValue."""
    if not text:
        return MISSING
    key = key_from_text(table.definition, text)
    return list(key) if isinstance(key, tuple) else key


def _add_changed_rest(found: Changes, sent: SentRecord, table: Table, is_new: bool) -> None:
    try:
        rest = json_value(sent.text(OTHERS) or "")
    except FieldFault as error:
        found.faults[OTHERS] = [error.message]
        return
    rest = {} if rest is MISSING else rest
    if not isinstance(rest, dict):
        found.faults[OTHERS] = ['This must be one JSON object: {"name": value, ...}']
        return
    declared = [name for name in rest if name in table.attributes]
    if declared:
        found.faults[OTHERS] = [f"{shortened(name, CELL)} is declared and has a field of its own" for name in declared[:10]]
        return
    found.values.update({name: value for name, value in rest.items() if sent.rest_shown.get(name) != _json_digest(value)})
    if not is_new:
        found.values.update(dict.fromkeys((name for name in sent.rest_shown if name not in rest), None))


def filled(form: RecordForm, sent: SentRecord) -> RecordForm:
    """The form as it was sent, to be mended: with what it had shown then, and of the version that it was opened for."""
    fields = []
    for each in form.fields:
        text = sent.text(each.token) if each.token in sent.shown else None
        if each.token in sent.shown and text is not None:
            fields.append(as_sent(each, sent.shown[each.token][0], sent.state(each.token), text))
        else:
            fields.append(each)
    form.fields = fields
    if form.rest is not None and form.rest.format and OTHERS in sent.shown and (text := sent.text(OTHERS)) is not None:
        form.rest.text = text
        form.rest_shown = sent.rest_shown
    form.shown |= {token: shown for token, shown in sent.shown.items() if token in form.shown}
    form.version = sent.version
    form.begun = True
    for each in form.fields:
        if FILE + each.token in sent.form.files:
            each.faults.append("A form cannot keep a file: choose it again")
    return form


# --- writing -------------------------------------------------------------------------------------------------------------------------


async def written(call: ViewCall, verb: str, data: Any, version: str | None = None) -> Any:
    """What a method of the resource results in. `version`: the entity tag of the record that it is for. Raises Problem, as REST tells it."""
    request = call.request
    request.precondition = None if version is None else Precondition(if_match=(version,))
    try:
        result = call.resource.handle(verb, call.target, data, request)
        return await result if is_waiting(result) else result
    except (NotUnique, StillReferenced) as error:
        raise explained_to(user_of(request), error) from None
    finally:
        request.precondition = None


async def answered(call: ViewCall, target: RequestTarget, result: Any) -> Response | None:
    """What code of an application answers itself instead of just doing it; None: it has done it."""
    if not isinstance(result, Response) or (result.status < 300 and result.body is None and result.data is None):
        return None
    answer = call.pages.answer(call.request, target, result)
    answer = await answer if is_waiting(answer) else answer
    assert isinstance(answer, Response)
    return answer


def faults_of(error: Problem, values: dict[str, Any], table: Table) -> dict[str, list[str]]:
    """What is wrong, by the tokens of fields."""
    found: dict[str, list[str]] = {}
    for fault in told_faults(error, values, table.validator, "json")[:_MOST_TOLD]:
        name = fault.get("attribute")
        if name is None and error.code == "RECORD_EXISTS":
            name = table.primary_key
        token = "" if not isinstance(name, str) else token_of(name) if name in table.attributes else OTHERS
        found.setdefault(token, []).append(shortened(str(fault["message"]), 2000))
    return found
