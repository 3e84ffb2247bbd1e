"""One record: all that it holds, and what it leads to (spec: http §7.7)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING, Any

import msgspec

from svc.auth.users import User
from svc.content.json_type import encode_json
from svc.content.values import is_blob
from svc.messages import Request
from svc.pages.cells import CELL, MOST_VALUES, WHOLE, Line, lines_of, shortened, shown
from svc.pages.collection import foreign_cell, foreign_keys, target_table, type_text
from svc.pages.links import Links
from svc.resources import Registration, TableResource
from svc.store import Table
from svc.store.values.records import MISSING

if TYPE_CHECKING:
    from svc.pages.address_forms import AddressForm
    from svc.pages.related import RelatedRecords

READ_LOG = "read_audit_log"
MOST_SHOWN = 1000  # attributes of a record
LONG_RECORD = 32_768  # bytes as stored; of longer ones the page has no JSON


@dataclass(slots=True)
class Member:
    """One attribute. `content`: the address of its content, if that is a file."""

    name: str
    type: str
    lines: Iterable[Line]
    content: str = ""


@dataclass(slots=True)
class RecordPage:
    """`collection`: the address of all records. `previous`, `next`: of the neighbours in the order of the keys, "" without one. `views`: (name, address, key
    of the keyboard) of other pages of the record. `json`: the record as JSON, "" if that is long. `live`: the address of events about it, "" without.
    `forms`: its address for other programs. `more`: attributes that are not shown."""

    key: str
    members: list[Member]
    related: list[RelatedRecords] = field(default_factory=list)
    collection: str = ""
    previous: str = ""
    next: str = ""
    views: list[tuple[str, str, str]] = field(default_factory=list)
    json: str = ""
    live: str = ""
    forms: list[AddressForm] = field(default_factory=list)
    more: int = 0


def record_page(
    table: Table, value: dict[str, Any], visible: frozenset[str] | None, registration: Registration | None, links: Links
) -> RecordPage:
    """`value`: what the caller may see of the record."""
    key = value.get(table.primary_key, MISSING)
    own = "" if registration is None or key is MISSING else links.record_at(registration, key)
    leads = {name: target_table(table, attribute) for name, attribute in foreign_keys(table).items()}
    budget = [MOST_VALUES]
    members = []
    stored = [each for each in table.definition.attributes if each.stored and (visible is None or each.name in visible)]
    declared = table.attributes
    others = [name for name in value if name not in declared]
    for attribute in stored[:MOST_SHOWN]:
        name = attribute.name
        found = value.get(name, MISSING)
        content = f"{own}.{name}" if own and (is_blob(found) or isinstance(found, bytes)) and _is_plain(name) else ""
        members.append(Member(shortened(name, CELL), type_text(attribute), _lines(found, leads.get(name), links, budget), content))
    members += [Member(shortened(name, CELL), "", lines_of(value[name], budget)) for name in others[: MOST_SHOWN - len(members)]]
    page = RecordPage("" if key is MISSING else shortened(str(key), CELL), members, collection=links.collection(table))
    page.more = len(stored) + len(others) - len(members)
    return page


def _lines(value: Any, target: Table | None, links: Links, budget: list[int]) -> Iterable[Line]:
    if target is None or isinstance(value, dict):
        return lines_of(value, budget)
    return [Line("value", cell=foreign_cell(value, target, links, WHOLE))]


def _is_plain(name: str) -> bool:
    """Whether a name can stand behind a dot in an address as it is."""
    return name.isascii() and name.replace("_", "").isalnum()


def selected_page(resource: type[TableResource], value: Any, key: Any, links: Links) -> RecordPage:
    """What a query selects of a record."""
    collection = links.collection(resource.table)
    if not isinstance(value, dict):
        return RecordPage(shortened(str(key), CELL), [Member("", "", lines_of(value))], collection=collection)
    types, budget = resource.table.attributes, [MOST_VALUES]
    members = [
        Member(shortened(name, CELL), type_text(types[name]) if name in types else "", lines_of(member, budget))
        for name, member in islice(value.items(), MOST_SHOWN)
    ]
    return RecordPage(shortened(str(key), CELL), members, collection=collection, more=len(value) - len(members))


def json_of(value: Any) -> str:
    """A record as JSON in lines, as text for people; "" if it is long, or has what JSON cannot say."""
    try:
        encoded = encode_json(value)
    except (TypeError, ValueError):
        return ""
    if len(encoded) > WHOLE:
        return ""
    return "\n".join(map(shown, msgspec.json.format(encoded, indent=2).decode(errors="replace").split("\n")))


def live_address(registration: Registration, key: Any, request: Request, links: Links) -> str:
    """Where events about a record come from; "" where there are none for this caller."""
    resource = registration.resource
    if "subscribe" not in resource.verbs or hasattr(resource, "application") or not registration.visible("sse"):
        return ""
    return links.record_at(registration, key)


def may_see_history(registration: Registration, user: User | None) -> bool:
    """Whether the operation that reads the log would answer, as far as the role of the caller says that: super users, and those who have been given it."""
    resource = registration.resource
    if user is None or user.role is None or not issubclass(resource, TableResource) or resource.is_system:
        return False
    given = user.role.permission.get("operations")
    return user.super_user or (isinstance(given, list | tuple) and READ_LOG in given)
