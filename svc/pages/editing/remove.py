"""Deleting a record: a page that shows what is deleted and what refers to it; what is done is a DELETE of the version that was shown."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from svc.errors import NotFound, PreconditionFailed, Problem
from svc.messages import Response
from svc.pages.cells import CELL, shortened
from svc.pages.collection import target_table
from svc.pages.editing.edit import own_address
from svc.pages.editing.forms import VERSION, OpenRecord, answered, check_rules, faults_of, open_record, rights_to, written
from svc.pages.record import record_page
from svc.store.schema import CASCADE, RESTRICT, SET_NULL
from svc.store.values.keys import after, index_key, is_cut

if TYPE_CHECKING:
    from svc.pages.views import ViewCall
    from svc.store import Table

DELETED = "deleted"
_MOST_TOLD = 50
_THEN = {RESTRICT: "as long as they do, it cannot be deleted", CASCADE: "they are deleted, too", SET_NULL: "they then refer to nothing"}


@dataclass(slots=True)
class Referrers:
    """Records of another table, or of this one, that refer to the record. `count`: how many, None if no index knows."""

    text: str
    href: str
    count: int | None
    then: str


async def show(call: ViewCall) -> Response:
    rights_to(call, "delete")
    record = await open_record(call)
    check_rules(call, record, "delete")
    return await _page(call, record)


async def send(call: ViewCall) -> Response:
    assert call.form is not None
    try:
        result = await written(call, "delete", None, call.form.text(VERSION))
    except PreconditionFailed:
        try:
            record = await open_record(call)
        except NotFound:
            return call.see_other(f"{call.collection}#{DELETED}")
        changed = "Somebody else has changed the record since this page was shown. Below is what it is now"
        return await _page(call, record, [changed], 412)
    except Problem as error:
        if error.status_code in (401, 404):
            raise
        faults = [text for texts in faults_of(error, {}, call.resource.table).values() for text in texts]
        return await _page(call, await open_record(call), faults, error.status_code)
    return await answered(call, call.target, result) or call.see_other(f"{call.collection}#{DELETED}")


async def _page(call: ViewCall, record: OpenRecord, faults: list[str] | None = None, status: int = 200) -> Response:
    page = record_page(call.resource.table, record.values, record.visible, call.registration, call.links)
    return await call.page(
        "delete.html",
        title=f"Delete {page.key or shortened(str(call.target.id), CELL)}?",
        status=status,
        page=page,
        version=record.tag,
        faults=faults or [],
        referrers=list(_referrers(call)),
        back=own_address(call),
    )


def _referrers(call: ViewCall) -> list[Referrers]:
    """By the relationships that lead here, as far as the caller may read where they come from."""
    table, key = call.resource.table, call.target.id
    found: dict[str, Referrers] = {}
    if isinstance(key, tuple):
        return []
    for other in table.database.tables.values():
        for attribute in other.definition.attributes:
            relationship = attribute.relationship
            if relationship is None or relationship.from_ is None or relationship.to is not None or len(found) >= _MOST_TOLD:
                continue
            if target_table(other, attribute) is not table:
                continue
            name = relationship.from_
            href, may_count = call.links.matching(other, name, key)
            if not href:
                continue
            count = _count(other, name, key) if may_count else None
            if count != 0:
                text = f"{shortened(other.name, CELL)} by {shortened(name, CELL)}"
                found.setdefault(f"{other.name}.{name}", Referrers(text, href, count, _THEN.get(relationship.on_delete or "", "")))
    return list(found.values())


def _count(other: Table, name: str, key: Any) -> int | None:
    """The number of records whose attribute `name` is this key, None if no index knows: of those that expire some may be gone."""
    index, low = other.indexes.get(name), index_key(key)
    if index is None or not index.ready or is_cut(low) or other.definition.expiration is not None:
        return None
    return index.exact_count(other.database.snapshot(), low, after(low))
