"""Choosing the record that a reference leads to: by its key, or by what it is called (spec: http §7.8).

Without scripts, the form is sent to a page that searches, and comes back with what was chosen. A script asks the view of the other table.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import msgspec

from svc.awaitables import is_waiting
from svc.content.json_type import encode_json
from svc.errors import NotFound, QueryError
from svc.messages import Request, Response
from svc.pages.cells import cell_of, shortened
from svc.pages.collection import foreign_keys, target_table
from svc.pages.editing.fields import json_text, name_of
from svc.pages.editing.forms import TEXT, SentRecord
from svc.pages.links import printed
from svc.query.nodes import Comparator, Condition, Conversion, Query
from svc.resources import PlannedQuery, RequestTarget, TableResource
from svc.store.record_counts import known_count

if TYPE_CHECKING:
    from svc.pages.pages import Pages
    from svc.pages.sent_form import SentForm
    from svc.pages.views import ViewCall
    from svc.store import Table

PICK, PICKED, FOR, SEARCH, CANCEL = "_pick", "_picked", "_for", "_search", "_cancel"
MOST_CHOICES = 20
_SMALL = 1000  # records of a table that is searched as a whole
_LONGEST_SEARCH = 200
_CALLED = ("name", "title", "label")
_MOST_LABELS = 5  # attributes that are searched


@dataclass(slots=True)
class Choice:
    """`key`: as JSON. `text`: the key as one types it. `label`: what the record is called, "" if it has no name."""

    key: str
    text: str
    label: str


async def show(call: ViewCall) -> Response:
    """The records of a table that fit, for a script, and for who wants to look."""
    if not call.target.is_collection and not call.target.is_root:
        raise NotFound("This view is one of a table")
    search = call.fields.get("q", "")[:_LONGEST_SEARCH]
    found, has_more = await find(call.pages, call.request, call.resource, search)
    return await call.page(
        "pick.html",
        title=f"Choose a record of {shortened(call.resource.table.name, 100)}",
        choices=found,
        has_more=has_more,
        search=search,
        hidden=None,
        token_of_field="",
        has_files=False,
    )


def asked(form: SentForm) -> tuple[str, str] | None:
    """(the token of the field that a record is to be chosen for, what is searched); None: the form asks for something else."""
    token = form.fields.pop(PICK, None)
    search = form.fields.pop(SEARCH, "")
    return None if token is None else (token, search[:_LONGEST_SEARCH])


def take_picked(form: SentForm) -> bool:
    """Put what was chosen into its field. Returns whether the form comes from the page that searches."""
    picked, token = form.fields.pop(PICKED, None), form.fields.pop(FOR, "")
    if picked is None:
        return form.fields.pop(CANCEL, None) is not None
    try:
        key = msgspec.json.decode(picked.encode())
        shown = json.loads(form.text("_shown"))["f"][token]
    except (msgspec.MsgspecError, ValueError, KeyError, TypeError):
        return True
    name, text = TEXT + token, _typed(key)
    before = form.text(name)
    if shown[0] == "lines":
        text = f"{before}\n{text}" if before.strip() else text
    form.fields[name] = json_text(key) if shown[0] == "json" else text
    return True


async def choosing_page(call: ViewCall, sent: SentRecord, token: str, search: str) -> Response:
    """Where a record is chosen for a field of a form, which the page keeps."""
    table = call.resource.table
    attribute = foreign_keys(table).get(name_of(token)) if token in sent.shown else None
    target = None if attribute is None else target_table(table, attribute)
    registration = None if target is None else call.links.registration(target)
    if target is None or registration is None or not issubclass(registration.resource, TableResource):
        raise NotFound("There is no table to choose from")
    found, has_more = await find(call.pages, call.request, registration.resource, search)
    return await call.page(
        "pick.html",
        title=f"Choose a record of {shortened(target.name, 100)}",
        choices=found,
        has_more=has_more,
        search=search,
        hidden=list(sent.form.fields.items()),
        token_of_field=token,
        has_files=bool(sent.form.files),
    )


async def find(pages: Pages, request: Request, resource: type[TableResource], search: str) -> tuple[list[Choice], bool]:
    """(the first records that fit, whether there may be more). Raises what reading the table raises."""
    table = resource.table
    names = _labels(table)
    queries = _queries(table, names, search)
    found: dict[str, Choice] = {}
    for query in queries:
        for record in await _rows(pages, request, resource, query):
            choice = _choice(record, table, names)
            if choice is not None and (len(queries) > 1 or _fits(choice, search)):
                found.setdefault(choice.key, choice)
            if len(found) > MOST_CHOICES:
                return list(found.values())[:MOST_CHOICES], True
    return list(found.values()), False


def _labels(table: Table) -> list[str]:
    """Attributes that say what a record is called."""
    texts = [each.name for each in table.definition.attributes if each.stored and each.type == "String" and not each.elements]
    called = [name for name in _CALLED if name in texts]
    others = [name for name in texts if name in table.indexes and name != table.primary_key]
    return list(dict.fromkeys([*called, *others, *texts[:1]]))[:_MOST_LABELS]


def _queries(table: Table, names: list[str], search: str) -> list[Query]:
    """A small table is read as a whole; in others an index finds what begins like this."""
    search = search.strip()
    count = known_count(table, table.database.snapshot())
    if not search or (count is not None and count <= _SMALL):
        return [Query(limit=_SMALL if search else MOST_CHOICES + 1)]
    key = table.primary_key
    conditions = [Condition((key,), Comparator.EQUALS, search, Conversion.CONVERTING)]
    attribute = table.attributes.get(key)
    if attribute is not None and attribute.type in ("ID", "String"):
        conditions.append(Condition((key,), Comparator.STARTS_WITH, search, Conversion.TEXT))
    ready = [name for name in names if name in table.indexes and table.indexes[name].ready]
    for text in dict.fromkeys((search, search.capitalize())):
        conditions += [Condition((name,), Comparator.STARTS_WITH, text, Conversion.TEXT) for name in ready]
    return [Query(condition, limit=MOST_CHOICES + 1) for condition in conditions]


async def _rows(pages: Pages, request: Request, resource: type[TableResource], query: Query) -> list[Any]:
    """The records of a query as the caller may see them; none if the table cannot answer it."""
    target = RequestTarget((printed(query) or "?limit(1)")[1:])
    target.is_collection = True
    try:
        result = resource.handle("get", target, None, request)
        if is_waiting(result):
            result = await result
    except QueryError:
        return []
    if isinstance(result, PlannedQuery):
        return await pages.found_values(result, request)
    return result[:_SMALL] if isinstance(result, list) else []


def _choice(record: Any, table: Table, names: list[str]) -> Choice | None:
    if not isinstance(record, dict) or table.primary_key not in record:
        return None
    key = record[table.primary_key]
    called = [cell_of(record[name], 80).text for name in names if isinstance(record.get(name), str) and record[name]]
    return Choice(encode_json(key).decode(), _typed(key), ", ".join(called[:3]))


def _fits(choice: Choice, search: str) -> bool:
    wanted = search.strip().casefold()
    return wanted in choice.text.casefold() or wanted in choice.label.casefold()


def _typed(key: Any) -> str:
    """A key as one types it."""
    if isinstance(key, list | tuple):
        return "/".join(map(_typed, key))
    return repr(key) if isinstance(key, float) else str(key)
