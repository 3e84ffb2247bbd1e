"""Entries of the log as people read them: who, when, which attributes."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from svc.content.values import is_blob
from svc.pages.cells import CELL, Cell, cell_of, shortened
from svc.store.values.records import MISSING, iso_text

MOST_CHANGES = 60  # attributes of one entry that are shown
_REMOVALS = frozenset(("delete",))
_NOTES = frozenset(("message", "invalidate"))


@dataclass(slots=True)
class Change:
    """One attribute, before and after."""

    name: str
    before: Cell
    after: Cell


@dataclass(slots=True)
class HistoryEntry:
    """`time`: of the commit, ISO 8601 in UTC. `user`: "" if nobody has asked for it. `version`: what names the entry. `more`: changes that are not shown.
    `at`: its number among the entries of the record, from the newest."""

    kind: str
    time: str
    user: str
    version: str
    at: int
    changes: list[Change]
    more: int = 0


def entry_of(found: Mapping[str, Any], at: int, most: int = CELL) -> HistoryEntry:
    """An entry as the operation has it. `most`: characters of a value."""
    before, after = states_of(found)
    names = [name for name in {**before, **after} if not is_same(before.get(name, MISSING), after.get(name, MISSING))]
    changes = differences(before, after, names, most)
    time = iso_text(int(found["timestamp"]))
    user = "" if found["user_name"] is None else shortened(str(found["user_name"]), CELL)
    return HistoryEntry(found["operation"], time, user, version_of(found), at, changes, max(0, len(names) - MOST_CHANGES))


def differences(before: Mapping[str, Any], after: Mapping[str, Any], names: Iterable[str], most: int = CELL) -> list[Change]:
    """These attributes in two states of a record, as far as they are shown."""
    shown = list(names)[:MOST_CHANGES]
    return [
        Change(shortened(name, CELL), cell_of(before.get(name, MISSING), most), cell_of(after.get(name, MISSING), most)) for name in shown
    ]


def states_of(found: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """The record before and after an entry, empty where there was none. What was sent to a record changes nothing of it."""
    kind = found["operation"]
    before = dict(next(iter(found.get("original_records", ())), None) or {})
    written = next(iter(found["records"]), None)
    if kind in _NOTES:
        return {}, {"message": written} if written is not None else {}
    if kind in _REMOVALS or not isinstance(written, dict):
        return before, {}
    return before, {**before, **written} if kind == "update" else dict(written)


def narrowed(found: Mapping[str, Any], visible: Collection[str]) -> dict[str, Any]:
    """An entry with these attributes only."""
    states = {name: [narrow(each, visible) for each in found[name]] for name in ("records", "original_records") if name in found}
    return {**found, **states}


def narrow(record: Any, visible: Collection[str]) -> Any:
    """A message is whatever was sent: it is told where it has attributes."""
    return {name: value for name, value in record.items() if name in visible} if isinstance(record, Mapping) else None


def version_of(found: Mapping[str, Any]) -> str:
    return repr(float(found["timestamp"]))


def restorable(found: Mapping[str, Any]) -> dict[str, Any] | None:
    """What a PUT would make of the record again: what the entry has made, or removed. None: there is no such record, or it has files, whose former contents
    the log does not keep."""
    if found["operation"] in _NOTES:
        return None
    before, after = states_of(found)
    record = before if found["operation"] in _REMOVALS else after
    return None if not record or any(map(is_blob, record.values())) else record


def is_same(one: Any, other: Any) -> bool:
    """Also the type: 1 is not true."""
    return type(one) is type(other) and bool(one == other)
