"""What becomes of a record when writes meet, in whatever order they arrive (spec: schema-and-store §9).

Every write has a stamp. The record is what all known writes make of it, carried out in the order of their stamps; `merge_write` finds that from
the record as it is and the writes that are newer than the one that arrives, so older ones need not be known. Local writes are always newest,
because versions grow: for them it is `merge`. What comes late changes what newer writes have left standing:

    put         newer patches are carried out on it; under a newer put or delete it changes nothing
    delete      newer patches are carried out on nothing, which makes a record of them; under a newer put or delete it changes nothing
    patch       under a newer put or delete it changes nothing. Else, of each property:
      assigned      set, and newer increments of it are added; under a newer assignment of it nothing changes
      incremented   added to what is there; under a newer assignment of it nothing changes

A delete that changed nothing under newer patches, as one might think, would not converge: a node that hears of it first keeps only the patches.
Sums of floats may differ in their last digit, as additions do in another order.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from svc.store.values.validation import Add

Record = Mapping[str, Any]
Stamp = tuple[float, str, int]
"""(version, name of the origin node, position among the writes of its transaction). Of equal versions the greater name is newer; equal stamps are
one write."""

_INCREMENT = {"__op__", "value"}


@dataclass(frozen=True, slots=True)
class RecordWrite:
    """A write of one record. `data`: the record of a put, the changes of a patch (`validation.Add` increments), None: a delete."""

    stamp: Stamp
    data: Record | None
    is_patch: bool = False


def merge(record: Record, changes: Record) -> dict[str, Any]:
    """`record` with `changes` at top level; increments are added to a number, or become the value where there is none.

    >>> merge({"a": 1, "b": "x"}, {"a": Add(2), "b": Add(3), "c": [1]})
    {'a': 3, 'b': 3, 'c': [1]}
    """
    merged = dict(record)
    for name, value in changes.items():
        if type(value) is Add:
            merged[name] = value.applied_to(merged.get(name))
        else:
            merged[name] = value
    return merged


def merge_write(current: Record | None, newer: Sequence[RecordWrite], incoming: RecordWrite) -> Record | None:
    """The record once `incoming` is known too; None: there is none. `current` itself if that changes nothing.

    `newer`: the known writes of the record with a greater stamp, oldest first. One with the same stamp must not be known: then it is dropped.
    """
    if not all(write.is_patch for write in newer):
        return current
    if not incoming.is_patch:
        merged: Record | None = incoming.data
        for write in newer:
            merged = _patched(merged, write)
        return merged
    assert incoming.data is not None
    changes: dict[str, Any] = {}
    for name, value in incoming.data.items():
        later = [write.data[name] for write in newer if write.data is not None and name in write.data]
        if not all(type(each) is Add for each in later):
            continue
        if type(value) is not Add:
            for increment in later:
                value = increment.applied_to(value)
        changes[name] = value
    if current is not None and not changes:
        return current
    return merge(current or {}, changes)


def _patched(record: Record | None, write: RecordWrite) -> Record:
    assert write.data is not None
    return merge(record or {}, write.data)


# -- increments in the log


def log_changes(changes: Record) -> dict[str, Any]:
    """Changes as the log keeps them: an increment, not what it resulted in."""
    return {name: {"__op__": "add", "value": value.value} if type(value) is Add else value for name, value in changes.items()}


def logged_changes(logged: Record) -> dict[str, Any]:
    """The changes of a patch that the log has, `Add` for increments.

    >>> logged_changes(log_changes({"a": Add(2), "b": 1}))
    {'a': Add(2), 'b': 1}
    """
    return {name: Add(value["value"]) if type(value) is dict and value.keys() == _INCREMENT else value for name, value in logged.items()}
